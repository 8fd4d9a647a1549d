//! What the agent does in its turns.

use moored::limits::{LATE_UPDATE_WINDOW_MS, STOP_GRACE_MS};
use moored::session::ladder::POSIX_STOP_MS_MAX;
use moored_fake_agents::script::step::{
    Close, IdForm, ReadAgain, Reply, Request, Step, StopReading, To,
};
use moored_fake_agents::script::{Turn, When};
use moored_fake_agents::{Stream as Pipe, script};
use serde_json::{Value, json};

use super::dice::{Dice, Lot, Stream};
use super::feature::{Feature, Features};
use super::steps;

/// A longer silence would end the first phase of a run.
const SILENCE_MS_MAX: u64 = 8_000;
/// How long an agent works at most.
const WORK_MS_MAX: u64 = 120_000;

/// How a turn goes on.
#[derive(Clone, Copy)]
enum Beat {
    BigText,
    CloseStdin,
    CloseStdout,
    Echo,
    Fall,
    Fork,
    Freeze,
    Noise,
    OddRequest,
    OddUpdate,
    Permission,
    Previous,
    Say,
    SplitSay,
    Stderr,
    StopReading,
    Think,
    Tool,
}

const BEATS: &[Lot<Beat>] = &[
    (None, 10, Beat::Say),
    (None, 4, Beat::Think),
    (Some(Feature::Tools), 12, Beat::Tool),
    (Some(Feature::Permissions), 10, Beat::Permission),
    (Some(Feature::FallsInTurns), 6, Beat::Fall),
    (Some(Feature::Forks), 6, Beat::Fork),
    (Some(Feature::Echoes), 5, Beat::Echo),
    (Some(Feature::SplitFrames), 5, Beat::SplitSay),
    (Some(Feature::Noise), 4, Beat::Noise),
    (Some(Feature::Stderr), 4, Beat::Stderr),
    (Some(Feature::BigTexts), 4, Beat::BigText),
    (Some(Feature::OddUpdates), 5, Beat::OddUpdate),
    (Some(Feature::OddRequests), 5, Beat::OddRequest),
    (Some(Feature::StopsReading), 3, Beat::StopReading),
    (Some(Feature::ClosesStdout), 3, Beat::CloseStdout),
    (Some(Feature::ClosesStdin), 3, Beat::CloseStdin),
    (Some(Feature::Freezes), 3, Beat::Freeze),
    (Some(Feature::DoubleAnswers), 4, Beat::Previous),
];

/// How a turn ends.
#[derive(Clone, Copy)]
enum Ending {
    Answer,
    Bad,
    Double,
    Error,
    Fall,
    Never,
    OddId,
    OddReason,
    SignedOut,
    Unasked,
}

const ENDINGS: &[Lot<Ending>] = &[
    (None, 12, Ending::Answer),
    (Some(Feature::NeverAnswers), 6, Ending::Never),
    (Some(Feature::ErrorAnswers), 6, Ending::Error),
    (Some(Feature::SignedOutAnswers), 6, Ending::SignedOut),
    (Some(Feature::OddReasons), 6, Ending::OddReason),
    (Some(Feature::BadAnswers), 6, Ending::Bad),
    (Some(Feature::DoubleAnswers), 8, Ending::Double),
    (Some(Feature::OddIds), 6, Ending::OddId),
    (Some(Feature::UnaskedCancels), 8, Ending::Unasked),
    (Some(Feature::FallsInTurns), 4, Ending::Fall),
];

/// What is told behind an answer.
#[derive(Clone, Copy)]
enum Tail {
    Fall,
    Nothing,
    Permission,
    Previous,
    Text,
    Tool,
}

const TAILS: &[Lot<Tail>] = &[
    (None, 6, Tail::Nothing),
    (Some(Feature::LateText), 8, Tail::Text),
    (Some(Feature::LateTools), 8, Tail::Tool),
    (Some(Feature::FallsIdle), 4, Tail::Fall),
    (Some(Feature::DoubleAnswers), 2, Tail::Previous),
    (Some(Feature::WithdrawnQuestions), 2, Tail::Permission),
];

pub(super) struct Writer {
    pub(super) dice: Dice,
    pub(super) on: Features,
    /// The newest call that is open.
    open: Option<String>,
    calls: u32,
}

pub(super) fn turns(seed: u64, on: Features, messages: u32) -> Vec<Turn> {
    let mut writer = Writer::new(Dice::new(seed, Stream::Turns), on);
    (1..=messages)
        .map(|message| {
            let mut when = When { contains: Some(format!("m{message}:")), ..When::default() };
            // Most agents that fall do not fall again.
            if on.has(Feature::FallsInTurns) && writer.dice.in_16(8) {
                when.life = Some(writer.dice.between(1, 2));
            }
            Turn { when, steps: writer.turn(message) }
        })
        .collect()
}

impl Writer {
    pub(super) fn new(dice: Dice, on: Features) -> Self {
        Self { dice, on, open: None, calls: 0 }
    }

    fn turn(&mut self, message: u32) -> Vec<Step> {
        self.open = None;
        let mut steps = Vec::new();
        if self.on.has(Feature::PressedBehindFall) && message == 1 {
            steps.push(steps::delay(self.dice.magnitude(1, 2_000)));
            steps.push(steps::fork_that_holds_stdout());
            steps.push(steps::fall(&mut self.dice, self.on));
            return steps;
        }
        let silent = self.on.has(Feature::SilentTurns);
        let beats = match silent {
            true => 0,
            false => self.dice.pick(&[0, 1, 1, 2, 2, 3, 4, 6]),
        };
        let work_ms = match self.on.has(Feature::LongTurns) && self.dice.in_16(14) {
            // Until an end with all its windows is over, or about to be.
            true if silent && self.dice.in_16(8) => {
                self.dice.between(STOP_GRACE_MS, STOP_GRACE_MS + 2 * POSIX_STOP_MS_MAX)
            }
            true if self.dice.in_16(8) => self.dice.magnitude(1_000, WORK_MS_MAX),
            true => self.dice.between(20_000, WORK_MS_MAX),
            false => self.dice.pick(&[0, 1, 5, 20, 100, 400]),
        };
        let pauses = work_ms.div_ceil(SILENCE_MS_MAX).max(u64::from(beats > 0));
        for n in 0..pauses.max(beats) {
            if n < pauses {
                let ms = self.dice.between(work_ms / pauses / 2, work_ms / pauses);
                steps.push(steps::delay(ms));
            }
            if n < beats {
                self.beat(message, &mut steps);
            } else if !silent {
                steps.push(steps::think("hm"));
            }
        }
        if self.on.has(Feature::LateText) && self.dice.in_16(3) {
            // Not broken off by a cancel.
            let after_ms = self.dice.magnitude(1, 6_000);
            steps.push(steps::later(after_ms, vec![steps::say("by the way")]));
        }
        self.end(&mut steps);
        let tail = self.dice.draw(self.on, TAILS);
        self.tail(tail, &mut steps);
        steps
    }

    /// One thing the agent does.
    pub(super) fn beat(&mut self, message: u32, steps: &mut Vec<Step>) {
        let beat = self.dice.draw(self.on, BEATS);
        match beat {
            Beat::Say => steps.push(steps::say("so far so good ")),
            Beat::Think => steps.push(steps::think("let me see ")),
            Beat::Tool => self.tool(message, steps),
            Beat::Permission => self.permission(message, steps),
            Beat::Previous => {
                steps.push(Step::Reply(Reply { to: To::PreviousTurn, ..Reply::default() }));
            }
            Beat::Fall => {
                if self.on.has(Feature::Forks) && self.dice.in_16(8) {
                    steps.push(steps::fork(&mut self.dice, self.on));
                }
                steps.push(steps::fall(&mut self.dice, self.on));
            }
            Beat::Fork => steps.push(steps::fork(&mut self.dice, self.on)),
            Beat::Echo => steps.push(steps::echo()),
            Beat::SplitSay => {
                let at = vec![1, usize::try_from(self.dice.between(2, 150)).unwrap_or(2)];
                let gap_ms = self.dice.pick(&[0, 1, 17, 250]);
                steps.push(steps::split(at, gap_ms));
                steps.push(steps::say("in pieces"));
            }
            Beat::Noise => {
                let text =
                    self.dice.pick(&["loading...", "{\"jsonrpc\":", "[]", "{}", "\u{1b}[0m"]);
                steps.push(steps::noise(text, self.dice.in_16(12)));
            }
            Beat::Stderr => {
                let bytes = self.dice.pick(&[0, 0, 100, 100, 9_000, 70_000]);
                steps.push(steps::stderr(bytes));
            }
            Beat::BigText => {
                let bytes = self.dice.pick(&[4_000, 17_000, 20_000, 40_000, 70_000]);
                steps.push(steps::big_text(bytes));
            }
            Beat::OddUpdate => {
                let update = self.odd_update();
                steps.push(steps::update(update));
            }
            Beat::OddRequest => {
                let request = self.odd_request();
                steps.push(request);
            }
            Beat::StopReading => {
                steps.push(Step::StopReading(StopReading {}));
                if self.dice.in_16(8) {
                    steps.push(steps::delay(self.dice.magnitude(1, 5_000)));
                    steps.push(Step::ReadAgain(ReadAgain {}));
                }
            }
            Beat::CloseStdout => steps.push(Step::Close(Close { stream: Pipe::Stdout })),
            Beat::CloseStdin => steps.push(Step::Close(Close { stream: Pipe::Stdin })),
            Beat::Freeze => steps.push(steps::freeze()),
        }
    }

    fn tool(&mut self, message: u32, steps: &mut Vec<Step>) {
        if let Some(open) = self.open.clone().filter(|_| self.dice.in_16(10)) {
            let status = self.dice.pick(&["in_progress", "completed", "completed", "failed"]);
            steps.push(steps::tool_update(&open, status));
            if status != "in_progress" {
                self.open = None;
            }
            return;
        }
        self.calls += 1;
        let id = format!("t{message}.{}", self.calls);
        let status = self.dice.pick(&["pending", "in_progress", "in_progress", "completed"]);
        steps.push(steps::tool_call(&id, status));
        self.open = Some(id);
    }

    pub(super) fn permission(&mut self, message: u32, steps: &mut Vec<Step>) {
        let on = self.on;
        let options = match on.has(Feature::OddOptions) && self.dice.in_16(10) {
            true => self.dice.pick(&[
                "[]",
                r#"[{"optionId":"","name":"","kind":"allow_once"}]"#,
                r#"[{"optionId":"a","name":"Never","kind":"reject_always"}]"#,
                r#"[{"optionId":"a","name":"A","kind":"other"},{"optionId":"a","name":"B","kind":"allow_once"}]"#,
                r#"[{"name":"nameless"},null,7]"#,
            ]),
            false => "",
        };
        let options: Option<Vec<Value>> = serde_json::from_str(options).ok();
        let id = on.has(Feature::ReusedIds) && self.dice.in_16(12);
        let id = id.then(|| self.dice.pick(&["7", "\"q\"", "0"]));
        let id = id.and_then(|id| serde_json::from_str(id).ok());
        let tool = self.open.clone().unwrap_or_else(|| format!("p{message}"));
        let mut asked = steps::permission(&tool, options, id);
        let withdrawn = on.has(Feature::WithdrawnQuestions) && self.dice.in_16(10);
        asked.wait = !withdrawn && self.dice.in_16(13);
        steps.push(Step::Permission(asked));
        if withdrawn {
            steps.push(steps::delay(self.dice.magnitude(1, 3_000)));
            steps.push(steps::withdraw());
        }
    }

    fn odd_update(&mut self) -> Value {
        let open = self.open.clone().unwrap_or_else(|| "nothing".to_owned());
        match self.dice.below(8) {
            0 => json!({ "sessionUpdate": "weather_update", "sky": "grey" }),
            1 => Value::Null,
            2 => json!("text"),
            3 => json!({ "sessionUpdate": "plan", "entries": [
                { "content": "think", "priority": "high", "status": "pending" }
            ] }),
            4 => json!({ "sessionUpdate": "usage_update", "used": 7, "size": 9 }),
            5 => {
                json!({ "sessionUpdate": "tool_call_update", "toolCallId": open, "status": "odd" })
            }
            6 => json!({ "sessionUpdate": "available_commands_update", "availableCommands": [] }),
            _ => json!({ "sessionUpdate": "current_mode_update", "currentModeId": "ask" }),
        }
    }

    fn odd_request(&mut self) -> Step {
        let methods = ["fs/read_text_file", "terminal/create", "weather/today", "session/prompt"];
        let id = self.on.has(Feature::ReusedIds) && self.dice.in_16(8);
        Step::Request(Request {
            method: self.dice.pick(&methods).to_owned(),
            params: json!({ "sessionId": "${session}", "path": "/elsewhere/a" }),
            id: id.then(|| json!(7)),
            wait: self.dice.in_16(12),
            timeout_ms: Some(2_000),
            on_result: Vec::new(),
            on_error: Vec::new(),
        })
    }

    fn end(&mut self, steps: &mut Vec<Step>) {
        let plain = Reply::default;
        let step = match self.dice.draw(self.on, ENDINGS) {
            Ending::Answer => steps::reply(),
            Ending::Never => match self.dice.in_16(12) {
                // Until it is cancelled, or not even then.
                true => return,
                false => steps::drop_reply(),
            },
            Ending::Error => {
                let code = self.dice.pick(&[-32603, -32602, -32601, 1]);
                steps::reply_error(code, "something went wrong")
            }
            Ending::SignedOut => {
                let said = ["Authentication required", "No API key found for this provider"];
                steps::reply_error(-32000, self.dice.pick(&said))
            }
            Ending::OddReason => steps::reply_because(
                self.dice
                    .pick(&[
                        "refusal",
                        "max_tokens",
                        "max_turn_requests",
                        "rate_limit",
                        "error",
                        "because",
                        "",
                    ])
                    .into(),
            ),
            Ending::Bad => {
                let results = ["null", "{}", r#"{"stopReason":7}"#, "[]", "\"done\""];
                let result = serde_json::from_str(self.dice.pick(&results)).ok();
                Step::Reply(Reply { result, ..plain() })
            }
            Ending::Double => Step::Reply(Reply { times: 2, ..plain() }),
            Ending::OddId => {
                let id = match self.dice.below(5) {
                    0 => IdForm::Absent,
                    1 => IdForm::Float,
                    2 => IdForm::Null,
                    3 => IdForm::Other(json!(4_711)),
                    _ => IdForm::String,
                };
                Step::Reply(Reply { id, ..plain() })
            }
            Ending::Unasked => steps::reply_because(json!("cancelled")),
            Ending::Fall => steps::fall(&mut self.dice, self.on),
        };
        steps.push(step);
    }

    /// How long after an answer something comes: at once, or around the window for it.
    pub(super) fn late_ms(&mut self) -> u64 {
        match self.dice.below(8) {
            0..=3 => 0,
            4 => self.dice.between(1, 20),
            5..=6 => self.dice.between(LATE_UPDATE_WINDOW_MS - 8, LATE_UPDATE_WINDOW_MS + 5),
            _ => self.dice.magnitude(20, 4_000),
        }
    }

    fn tail(&mut self, tail: Tail, steps: &mut Vec<Step>) {
        if matches!(tail, Tail::Nothing) {
            return;
        }
        let ms = self.late_ms();
        if ms > 0 {
            steps.push(steps::delay(ms));
        }
        match tail {
            Tail::Fall => steps.push(steps::fall(&mut self.dice, self.on)),
            Tail::Nothing => {}
            Tail::Permission => self.permission(0, steps),
            Tail::Previous => {
                steps.push(Step::Reply(Reply { to: To::PreviousTurn, ..Reply::default() }));
            }
            Tail::Text => steps.push(steps::say("and one more thing")),
            Tail::Tool => {
                let id = self.last_call();
                let status = self.dice.pick(&["in_progress", "completed", "failed"]);
                steps.push(steps::tool_update(&id, status));
            }
        }
    }

    /// The newest call, open or not.
    pub(super) fn last_call(&mut self) -> String {
        match &self.open {
            Some(open) => open.clone(),
            None => format!("t1.{}", self.calls.max(1)),
        }
    }

    /// What replaces the rest of a turn that was cancelled; none is what a good agent does.
    pub(super) fn cancelled(&mut self) -> Option<Vec<Step>> {
        let on = self.on;
        let mut steps = Vec::new();
        let lies = on.has(Feature::EndsAfterCancel) && self.dice.in_16(10);
        if on.has(Feature::FallsAtCancel) && self.dice.in_16(8) {
            steps.push(steps::fall(&mut self.dice, on));
            return Some(steps);
        }
        let tail = self.dice.draw(on, TAILS);
        if !lies && matches!(tail, Tail::Nothing) {
            return None;
        }
        if lies && self.dice.in_16(4) {
            steps.push(steps::say("as I was saying"));
        }
        let reason =
            if lies { self.dice.pick(&["end_turn", "end_turn", "refusal"]) } else { "cancelled" };
        let persist = Some(script::Moment::After);
        let stop_reason = Some(json!(reason));
        steps.push(Step::Reply(Reply { stop_reason, persist, ..Reply::default() }));
        self.tail(tail, &mut steps);
        Some(steps)
    }
}
