//! From a marker and a conversation to what will be sent: the same two always give the same plan.

use serde_json::{Map, Value, json};

use super::conversation::{Api, Conversation, Tool};
use super::scenario::{Marker, Scenario, Usage};

/// How a request is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Status 200 and a body that is no event stream.
    Garbage,
    /// An HTTP error.
    Http { message: String, retry_after_s: Option<u64>, status: u16 },
    /// Not a byte, for so long.
    Silence { ms: u64 },
    /// An answer, streamed or whole.
    Speech(Speech),
}

/// What the model says, and how the answer ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Speech {
    /// What is sent, in order.
    pub steps: Vec<Step>,
    /// What comes after the last step.
    pub ending: Ending,
    /// The token counts.
    pub usage: Usage,
    /// Makes the ids of an answer differ from those of the conversation's earlier ones, also after
    /// a restart of the stub: the number of entries so far.
    pub turn: usize,
}

/// One part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing for a while.
    Pause { ms: u64 },
    /// A chunk of the answer.
    Text(String),
    /// A chunk of reasoning.
    Thought(String),
    /// A tool call.
    Tool { arguments: Value, name: String },
}

/// How an answer ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// An event of broken JSON, then the end of the body.
    BrokenEvent,
    /// The body ends without a finish.
    Eof,
    /// As the API wants it.
    Finish(Finish),
    /// The connection is reset.
    Reset,
    /// Nothing more, with the connection open.
    Silence { ms: u64 },
}

/// The finish reasons.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Finish {
    /// Withheld by a filter.
    ContentFilter,
    /// Cut at the token limit.
    Length,
    /// The model refuses, in these words.
    Refusal(String),
    /// Done.
    Stop,
    /// The agent is to run a tool.
    ToolCall,
}

/// What agents call the tool that runs a command line.
const SHELL_NAMES: [&str; 8] = [
    "bash",
    "exec_command",
    "execute",
    "local_shell",
    "run_command",
    "run_shell_command",
    "shell",
    "shell_command",
];

impl Plan {
    /// The plan for one request.
    #[must_use]
    pub fn new(marker: Marker, conversation: &Conversation) -> Self {
        let Marker { scenario, usage, .. } = marker;
        let (steps, ending) = match scenario {
            Scenario::Garbage => return Self::Garbage,
            Scenario::Hang { ms } => return Self::Silence { ms },
            Scenario::Http { message, retry_after_s, status } => {
                return Self::Http { message, retry_after_s, status };
            }
            // An agent that asks its model for JSON (who speaks next, which model to take) is not
            // having a turn.
            _ if conversation.wants_json => (vec![Step::Text(VERDICT.to_owned())], STOP),
            spoken => speech(spoken, conversation),
        };
        Self::Speech(Speech { steps, ending, usage, turn: conversation.entries.len() })
    }

    /// The answer to a request whose marker cannot be read.
    #[must_use]
    pub fn unreadable(reason: String) -> Self {
        Self::Http { message: format!("stub model: {reason}"), retry_after_s: None, status: 400 }
    }
}

const STOP: Ending = Ending::Finish(Finish::Stop);
const VERDICT: &str = r#"{"next_speaker":"user","reasoning":"stub",
"model_choice":"flash","complexity_score":1,"complexity_reasoning":"stub"}"#;

fn speech(scenario: Scenario, conversation: &Conversation) -> (Vec<Step>, Ending) {
    let say = |text: String, ending: Ending| (vec![Step::Text(text)], ending);
    match scenario {
        Scenario::Bash { after, loops, .. } | Scenario::Tool { after, loops, .. }
            if conversation.tool_rounds() >= loops =>
        {
            say(after, STOP)
        }
        Scenario::Bash { ask, command, delay_ms, words, .. } => {
            let mut steps = paced("word", words, delay_ms);
            let Some(call) = shell_call(&conversation.tools, &command, ask) else {
                return say("no shell tool on offer".to_owned(), STOP);
            };
            steps.push(call);
            (steps, Ending::Finish(Finish::ToolCall))
        }
        Scenario::Tool { arguments, name, .. } => {
            (vec![Step::Tool { arguments, name }], Ending::Finish(Finish::ToolCall))
        }
        Scenario::ContentFilter { text } => say(text, Ending::Finish(Finish::ContentFilter)),
        Scenario::Length { text } => say(text, Ending::Finish(Finish::Length)),
        Scenario::Refusal { text } => (Vec::new(), Ending::Finish(Finish::Refusal(text))),
        Scenario::Text { text } => say(text, STOP),
        Scenario::Recall { word } => {
            let verdict = if conversation.recalls(&word) { "yes" } else { "no" };
            say(format!("{verdict}-{word}"), STOP)
        }
        Scenario::Slow { chunks, delay_ms, word } => (paced(&word, chunks, delay_ms), STOP),
        Scenario::Think { chunks, delay_ms, text } => {
            let thought = |n| [Step::Thought(format!("step{n} ")), Step::Pause { ms: delay_ms }];
            let mut steps: Vec<Step> = (0..chunks).flat_map(thought).collect();
            steps.push(Step::Text(text));
            (steps, STOP)
        }
        Scenario::Drop { after } => (words(after), Ending::Reset),
        Scenario::Eof { after } => (words(after), Ending::Eof),
        Scenario::Malformed { after } => (words(after), Ending::BrokenEvent),
        Scenario::Stall { after, ms } => (words(after), Ending::Silence { ms }),
        Scenario::Empty | Scenario::Garbage | Scenario::Hang { .. } | Scenario::Http { .. } => {
            (Vec::new(), STOP)
        }
    }
}

fn words(count: u64) -> Vec<Step> {
    (0..count).map(|n| Step::Text(format!("word{n} "))).collect()
}

fn paced(word: &str, count: u64, delay_ms: u64) -> Vec<Step> {
    let chunk = |n| [Step::Text(format!("{word}{n} ")), Step::Pause { ms: delay_ms }];
    (0..count).flat_map(chunk).collect()
}

/// A call of whichever shell tool the agent offers, with the arguments its schema knows.
fn shell_call(tools: &[Tool], command: &str, ask: bool) -> Option<Step> {
    let is_shell = |tool: &&Tool| SHELL_NAMES.contains(&tool.name.to_lowercase().as_str());
    let tool = tools.iter().find(is_shell)?;
    let takes_list = tool.properties.get("command").is_some_and(|schema| schema["type"] == "array");
    let line = if takes_list { json!(["bash", "-lc", command]) } else { json!(command) };
    let known = [
        // One of the two names the command line itself.
        ("command", line),
        ("cmd", json!(command)),
        ("_i", json!("stub")),
        ("i", json!("stub")),
        ("description", json!("stub command")),
        ("is_background", json!(false)),
        // Long enough that only the test ends the command.
        ("timeout_ms", json!(600_000)),
        ("yield_time_ms", json!(60_000)),
    ];
    let escalated = [
        ("justification", json!("the stub model wants it")),
        ("sandbox_permissions", json!("require_escalated")),
        ("with_escalated_permissions", json!(true)),
    ];
    let wanted = known.into_iter().chain(escalated.into_iter().filter(|_| ask));
    let taken = wanted.filter(|(key, _)| tool.properties.contains_key(*key));
    let arguments: Map<String, Value> = taken.map(|(key, value)| (key.to_owned(), value)).collect();
    Some(Step::Tool { arguments: Value::Object(arguments), name: tool.name.clone() })
}

/// The body of an HTTP error, as each API words it.
#[must_use]
pub fn error_body(api: Api, status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    match api {
        Api::Gemini => json!({"error": {"code": status, "message": message, "status": kind}}),
        Api::Chat | Api::Responses => json!({"error": {"message": message, "type": kind}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(prompt: &str, tools: &Value, rounds: usize) -> Plan {
        let mut messages = vec![json!({"role": "user", "content": prompt})];
        for _ in 0..rounds {
            messages.push(json!({"role": "assistant", "tool_calls": [{}]}));
            messages.push(json!({"role": "tool", "content": "ok"}));
        }
        let body = json!({"messages": messages, "tools": tools});
        let conversation = Conversation::read("/chat/completions", &body).unwrap();
        Plan::new(Marker::in_message(prompt).unwrap(), &conversation)
    }

    fn speech_of(plan: Plan) -> Speech {
        let Plan::Speech(speech) = plan else { panic!("no speech: {plan:?}") };
        speech
    }

    #[test]
    fn a_shell_call_is_worded_as_the_offered_tool_wants_it() {
        let prompt = r#"[[stub:bash command="true" ask=yes]]"#;
        let offers = [
            (
                json!({"command": {"type": "string"}, "_i": {}}),
                json!({"command": "true", "_i": "stub"}),
            ),
            (json!({"command": {"type": "array"}}), json!({"command": ["bash", "-lc", "true"]})),
            (
                json!({"cmd": {}, "with_escalated_permissions": {}}),
                json!({"cmd": "true", "with_escalated_permissions": true}),
            ),
        ];
        for (properties, expected) in offers {
            let tools =
                json!([{"function": {"name": "Shell", "parameters": {"properties": properties}}}]);
            let speech = speech_of(plan(prompt, &tools, 0));
            let expected = Step::Tool { arguments: expected, name: "Shell".to_owned() };
            assert_eq!(speech.steps, [expected]);
            assert_eq!(speech.ending, Ending::Finish(Finish::ToolCall));
        }
    }

    #[test]
    fn one_marker_drives_a_whole_tool_turn() {
        let tools =
            json!([{"function": {"name": "bash", "parameters": {"properties": {"command": {}}}}}]);
        let prompt = "[[stub:bash loops=2 after=fertig]]";
        for (rounds, calls) in [(0, true), (1, true), (2, false)] {
            let speech = speech_of(plan(prompt, &tools, rounds));
            assert_eq!(matches!(speech.steps[0], Step::Tool { .. }), calls, "round {rounds}");
        }
        let last = speech_of(plan(prompt, &tools, 2));
        assert_eq!((last.steps, last.ending), (vec![Step::Text("fertig".to_owned())], STOP));
    }

    #[test]
    fn without_a_shell_the_model_says_so() {
        let speech = speech_of(plan("[[stub:bash]]", &json!([]), 0));
        assert_eq!(speech.steps, [Step::Text("no shell tool on offer".to_owned())]);
    }

    #[test]
    fn an_agents_own_classifier_gets_json_whatever_the_marker_says() {
        let body = json!({"contents": [{"role": "user", "parts": [{"text": "[[stub:slow]]"}]}],
            "generationConfig": {"responseMimeType": "application/json"}});
        let conversation = Conversation::read("/m:generateContent", &body).unwrap();
        let marker = Marker::in_message(conversation.last_user_text()).unwrap();
        let speech = speech_of(Plan::new(marker, &conversation));
        assert_eq!(speech.steps, [Step::Text(VERDICT.to_owned())]);
    }
}
