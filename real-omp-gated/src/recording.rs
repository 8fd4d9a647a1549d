//! From a recording of a real agent to a scenario: the agent as a script, and what came of it as expectations.
//!
//! A recording is a transcript (`NAME.ndjson`) and the agent's session file (`NAME.session.jsonl`), as `recordings/README.md`
//! describes them. What the agent wrote comes in the same order, on its pipe and to its file; what the host wrote is not
//! replayed: it is asked for again, of the host under test. Pauses are kept from [`PAUSE_MS_MIN`] on.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use thiserror::Error;

/// Shorter pauses are the machine's, not the agent's.
pub const PAUSE_MS_MIN: u64 = 100;
/// Lines of a transcript, and entries of a session file: a recording is of one Stop.
pub const LINES_MAX: usize = 10_000;
/// As the shipped definition of the agent has it.
const EOF_GRACE_MS: u64 = 7_000;

/// Why something is no recording.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// A line is no JSON, or not of the form.
    #[error("line {line} is none of a recording: {reason}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: serde_json::Error,
    },
    /// It is too long.
    #[error("a recording has at most {LINES_MAX} lines")]
    TooLong,
    /// It does not have what it is to be played for.
    #[error("the recording has no {0}")]
    Missing(&'static str),
}

/// A recording, read.
#[derive(Clone, Debug)]
pub struct Recording {
    agent: Map<String, Value>,
    ready: Vec<Value>,
    turns: Vec<Turn>,
    /// From the prompt to the cancel.
    stop_after_ms: u64,
    /// What the agent did after the cancel, the answer to the prompt included.
    cancelled: Vec<Value>,
    exit: Option<Exit>,
    exit_code: Option<i64>,
    /// The entries of the session file, in their words.
    saved: Vec<String>,
}

/// One prompt and what the agent did, but for the answer to a cancelled one.
#[derive(Clone, Debug)]
struct Turn {
    prompt: String,
    steps: Vec<Value>,
    /// What it is in a journal.
    items: Vec<String>,
    /// The agent's text so far, and its place among the items.
    text: Option<(usize, String)>,
    updates: usize,
    asks: bool,
}

/// The entry an agent leaves with.
#[derive(Clone, Debug)]
struct Exit {
    entry: Value,
    /// The abort was on disk before it.
    is_last: bool,
    /// After the end of input.
    after_ms: u64,
}

#[derive(Deserialize)]
struct Line {
    t_ms: u64,
    dir: Direction,
    frame: Value,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Direction {
    Event,
    In,
    Out,
    Stderr,
}

impl Recording {
    /// Reads a transcript and the session file that belongs to it.
    ///
    /// # Errors
    /// It is no recording of a Stop.
    pub fn read(transcript: &str, session_file: &str) -> Result<Self, RecordingError> {
        let lines: Vec<Line> = read_lines(transcript)?;
        let entries: Vec<Value> = read_lines(session_file)?;
        let mut reader = Reader::new(entries);
        for line in lines {
            reader.take(line);
        }
        reader.finish()
    }

    /// The scenario: the same prompts, a Stop where it was pressed, and with `barrier` a host that asks the agent to save
    /// first. `name` is what it is called.
    #[must_use]
    pub fn document(&self, name: &str, barrier: bool) -> Value {
        let definition = json!({
            "reopen": "resume",
            "eof_grace_ms": EOF_GRACE_MS,
            "barrier": if barrier { "where_offered" } else { "off" },
        });
        json!({
            "name": name,
            "about": "A recording of a real agent.",
            "agent": {"script": self.script(barrier)},
            "definition": definition,
            "actions": self.actions(),
            "expect": self.expectations(barrier),
        })
    }

    fn script(&self, barrier: bool) -> Value {
        let turn = |(nth, turn): (usize, &Turn)| {
            // The second prompt goes to another process, which counts from 1 again.
            json!({"when": {"nth": 1, "life": nth + 1}, "steps": turn.steps})
        };
        let exit = json!({"do": "exit", "code": self.exit_code.unwrap_or(0)});
        let (mut requests, mut eof) = (json!({}), self.leaving());
        if barrier {
            let mut close = std::mem::take(&mut eof);
            close.push(json!({"do": "reply", "result": {}}));
            requests = json!({"session/close": close});
        }
        eof.push(exit);
        json!({
            "agent": self.agent,
            "store": {"persist_user": false, "persist_answer": "never"},
            "on": {
                "requests": requests,
                "ready": self.ready,
                "cancel": {"steps": self.cancelled},
                "eof": {"steps": eof},
            },
            "turns": self.turns.iter().enumerate().map(turn).collect::<Vec<_>>(),
        })
    }

    /// What the agent does before it leaves.
    fn leaving(&self) -> Vec<Value> {
        let settled = json!({"do": "wait_for", "event": "settled"});
        let Some(exit) = &self.exit else { return vec![settled] };
        let entry = persist(&exit.entry);
        match exit.is_last {
            true => vec![settled, entry],
            false => vec![json!({"do": "delay", "ms": exit.after_ms}), entry, settled],
        }
    }

    fn actions(&self) -> Vec<Value> {
        let first = &self.turns[0];
        let mut actions = vec![json!({"do": "send", "id": "m1", "text": first.prompt})];
        match first.updates {
            0 => {
                // Nothing was seen of the turn: by time, from the prompt on.
                actions.push(json!({"when": {"event": "turn_running"}, "do": "wait"}));
                let after_ms = self.stop_after_ms;
                actions.push(match after_ms < PAUSE_MS_MIN {
                    true => json!({"do": "stop"}),
                    false => json!({"when": {"after_ms": after_ms}, "do": "stop"}),
                });
            }
            // Updates are counted from the start on.
            updates => {
                actions.push(json!({"when": {"updates": self.ready.len() + updates}, "do": "stop"}))
            }
        }
        match self.turns.get(1) {
            None => actions.push(json!({"when": {"event": "child_gone"}, "do": "wait"})),
            Some(next) => {
                actions.push(json!({"do": "send", "id": "m2", "text": next.prompt}));
                actions.push(json!({"when": {"event": "rest"}, "do": "close"}));
            }
        }
        actions
    }

    fn expectations(&self, barrier: bool) -> Value {
        let code = self.exit_code.unwrap_or(0);
        let ended = |child: usize| format!("child {child} ended onEof asked code {code}");
        let gone = |child: usize| format!("child {child} settled root exited tree gone");
        let mut journal =
            vec!["turn prompt:m1 interrupted cancellation said cancelled under stop".to_owned()];
        journal.extend(self.turns[0].items.iter().cloned());
        journal.extend([ended(1), gone(1)]);
        let mut wire = vec!["initialize", "session/new", "session/prompt", "session/cancel"];
        if self.turns[0].asks {
            wire.insert(3, "reply");
        }
        wire.extend(barrier.then_some("session/close"));
        let mut ends = vec!["onEof"];
        if let Some(next) = self.turns.get(1) {
            journal.push("turn prompt:m2 completed success said end_turn".to_owned());
            journal.extend(next.items.iter().cloned());
            wire.extend(["initialize", "session/resume", "session/prompt"]);
            ends.push("onEof");
        }
        let saved = self.saved(barrier);
        let nothing: &[&str] = if self.saved.is_empty() { &["user", "assistant"] } else { &[] };
        json!({
            "journal": journal,
            "journal_without": ["notRestored", "line error"],
            "saved": saved,
            "saved_without": nothing,
            "wire": wire,
            "ends": ends,
            "stops": [true],
            "refused": [],
            "survivors": 0,
        })
    }
}

impl Recording {
    /// The entries of the session file. A script that is asked to save leaves its last entry then, and not again at the end
    /// of input: with the barrier a second process, whose turn was not cut, leaves none.
    fn saved(&self, barrier: bool) -> Vec<&str> {
        let mut saved: Vec<&str> = self.saved.iter().map(String::as_str).collect();
        if barrier && self.turns.len() > 1 {
            let aborted = saved.iter().position(|entry| *entry == "assistant aborted");
            if let (Some(aborted), Some("custom session_exit")) = (aborted, saved.last().copied()) {
                saved.pop();
                saved.insert(aborted + 1, "custom session_exit");
            }
        }
        saved
    }
}

/// Reads a recording from its first line to its last.
struct Reader {
    entries: std::vec::IntoIter<Value>,
    agent: Option<Map<String, Value>>,
    /// Methods of the host's requests, by id.
    asked: Vec<(Value, String)>,
    ready: Vec<Value>,
    turns: Vec<Turn>,
    is_cancelled: bool,
    is_aborted: bool,
    prompted_ms: u64,
    stop_after_ms: u64,
    cancelled: Vec<Value>,
    cancelled_ms: u64,
    eof_ms: Option<u64>,
    exit: Option<Exit>,
    exit_code: Option<i64>,
    saved: Vec<String>,
}

impl Reader {
    fn new(entries: Vec<Value>) -> Self {
        Self {
            entries: entries.into_iter(),
            agent: None,
            asked: Vec::new(),
            ready: Vec::new(),
            turns: Vec::new(),
            is_cancelled: false,
            is_aborted: false,
            prompted_ms: 0,
            stop_after_ms: 0,
            cancelled: Vec::new(),
            cancelled_ms: 0,
            eof_ms: None,
            exit: None,
            exit_code: None,
            saved: Vec::new(),
        }
    }

    fn take(&mut self, Line { t_ms, dir, frame }: Line) {
        match dir {
            Direction::In => self.take_in(t_ms, &frame),
            Direction::Out => self.take_out(t_ms, &frame),
            Direction::Event => self.take_event(t_ms, &frame),
            Direction::Stderr => {}
        }
    }

    /// What the host wrote.
    fn take_in(&mut self, t_ms: u64, frame: &Value) {
        let method = frame["method"].as_str().unwrap_or_default();
        if let Some(id) = frame.get("id") {
            self.asked.push((id.clone(), method.to_owned()));
        }
        match method {
            "session/prompt" => {
                let prompt = frame["params"]["prompt"][0]["text"].as_str().unwrap_or_default();
                self.turns.push(Turn::new(prompt));
                self.prompted_ms = t_ms;
            }
            // Some recorders closed the session where the host under test cancels first.
            "session/cancel" | "session/close" if !self.is_cancelled => {
                self.is_cancelled = true;
                self.cancelled_ms = t_ms;
                self.stop_after_ms = t_ms.saturating_sub(self.prompted_ms);
            }
            _ => {}
        }
    }

    /// What the agent wrote.
    fn take_out(&mut self, t_ms: u64, frame: &Value) {
        match frame["method"].as_str() {
            Some("session/update") => {
                let update = &frame["params"]["update"];
                match self.turns.last_mut() {
                    Some(turn) => turn.take_update(update),
                    None => self.ready.push(json!({"do": "update", "update": update})),
                }
            }
            Some("session/request_permission") => {
                if let Some(turn) = self.turns.last_mut() {
                    turn.take_permission(frame);
                }
            }
            Some(_) => {}
            None => self.take_answer(t_ms, &frame["id"], &frame["result"]),
        }
    }

    fn take_answer(&mut self, t_ms: u64, id: &Value, result: &Value) {
        let asked = self.asked.iter().find(|(asked, _)| asked == id);
        match asked.map(|(_, method)| method.as_str()) {
            Some("initialize") => self.agent = Some(facts(result)),
            Some("session/new") => {
                let mut members = result.as_object().cloned().unwrap_or_default();
                members.remove("sessionId");
                if let Some(agent) = &mut self.agent {
                    agent.insert("session_result".to_owned(), members.into());
                }
            }
            Some("session/prompt") => {
                let mut reply = json!({
                    "do": "reply", "stop_reason": result["stopReason"], "persist": "never"});
                if let Some(usage) = result.get("usage") {
                    reply["usage"] = usage.clone();
                }
                match self.turns.last_mut() {
                    Some(turn) if result["stopReason"] != "cancelled" => turn.steps.push(reply),
                    _ => self.push_cancelled(t_ms, reply),
                }
            }
            _ => {}
        }
    }

    /// What the recorder saw.
    fn take_event(&mut self, t_ms: u64, event: &Value) {
        match event["event"].as_str().unwrap_or_default() {
            "exit" => self.exit_code = event["code"].as_i64(),
            "stdin_eof" => self.eof_ms = Some(t_ms),
            "session_file_append" => {
                if let Some(entry) = self.entries.next() {
                    self.take_entry(t_ms, entry);
                }
            }
            _ => {}
        }
    }

    fn take_entry(&mut self, t_ms: u64, entry: Value) {
        let message = &entry["message"];
        let words = match entry["type"].as_str() {
            Some("custom") => format!("custom {}", entry["customType"].as_str().unwrap_or("?")),
            Some("message") => {
                let role = message["role"].as_str().unwrap_or("?");
                let reason = message["stopReason"].as_str().unwrap_or_default();
                format!("{role} {reason}").trim_end().to_owned()
            }
            // The file's own head; a scripted agent writes its own.
            _ => return,
        };
        let is_aborted = message["stopReason"] == "aborted";
        if entry["customType"] == "session_exit" {
            let after_ms = t_ms.saturating_sub(self.eof_ms.unwrap_or(self.cancelled_ms));
            self.exit = Some(Exit { entry, is_last: self.is_aborted, after_ms });
        } else if is_aborted || (self.is_cancelled && message["isError"] == true) {
            self.is_aborted |= is_aborted;
            self.push_cancelled(t_ms, persist(&entry));
        } else if let Some(turn) = self.turns.last_mut() {
            turn.steps.push(persist(&entry));
        }
        self.saved.push(words);
    }

    fn push_cancelled(&mut self, t_ms: u64, step: Value) {
        let pause = t_ms.saturating_sub(self.cancelled_ms);
        if pause >= PAUSE_MS_MIN {
            self.cancelled.push(json!({"do": "delay", "ms": pause}));
        }
        self.cancelled_ms = t_ms;
        self.cancelled.push(step);
    }

    fn finish(self) -> Result<Recording, RecordingError> {
        if self.turns.is_empty() {
            return Err(RecordingError::Missing("prompt"));
        }
        if self.cancelled.is_empty() {
            return Err(RecordingError::Missing("answer to a cancelled prompt"));
        }
        let agent = self.agent.ok_or(RecordingError::Missing("answer to initialize"))?;
        let turns = self.turns.into_iter().map(Turn::finish).collect();
        Ok(Recording {
            agent,
            ready: self.ready,
            turns,
            stop_after_ms: self.stop_after_ms,
            cancelled: self.cancelled,
            exit: self.exit,
            exit_code: self.exit_code,
            saved: self.saved,
        })
    }
}

impl Turn {
    fn new(prompt: &str) -> Self {
        let (steps, items) = (Vec::new(), Vec::new());
        Self { prompt: prompt.to_owned(), steps, items, text: None, updates: 0, asks: false }
    }

    fn take_update(&mut self, update: &Value) {
        self.updates += 1;
        self.steps.push(json!({"do": "update", "update": update}));
        match update["sessionUpdate"].as_str() {
            Some("agent_message_chunk") => {
                let chunk = update["content"]["text"].as_str().unwrap_or_default();
                let place = self.items.len();
                self.text.get_or_insert((place, String::new())).1.push_str(chunk);
            }
            Some("tool_call") => {
                let id = update["toolCallId"].as_str().unwrap_or("?");
                self.items.push(format!("tool {id} failed interrupted"));
            }
            _ => {}
        }
    }

    fn take_permission(&mut self, frame: &Value) {
        let params = &frame["params"];
        self.asks = true;
        self.items.push("permission cancelled nothing".to_owned());
        self.steps.push(json!({
            "do": "permission",
            "id": frame["id"],
            "tool": params["toolCall"]["toolCallId"],
            "title": params["toolCall"]["title"],
            "options": params["options"],
            "wait": false,
        }));
    }

    fn finish(mut self) -> Self {
        if let Some((place, text)) = &self.text {
            self.items.insert(*place, format!("text agent {}", json!(text)));
        }
        self
    }
}

/// The answer to `initialize`, as a script says it.
fn facts(result: &Value) -> Map<String, Value> {
    let members = [
        ("name", &result["agentInfo"]["name"]),
        ("title", &result["agentInfo"]["title"]),
        ("version", &result["agentInfo"]["version"]),
        ("protocol_version", &result["protocolVersion"]),
        ("capabilities", &result["agentCapabilities"]),
        ("auth_methods", &result["authMethods"]),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

fn persist(entry: &Value) -> Value {
    json!({"do": "persist", "entry": "raw", "value": entry})
}

fn read_lines<T: for<'de> Deserialize<'de>>(text: &str) -> Result<Vec<T>, RecordingError> {
    if text.lines().nth(LINES_MAX).is_some() {
        return Err(RecordingError::TooLong);
    }
    let line = |(index, line)| {
        serde_json::from_str(line)
            .map_err(|reason| RecordingError::Line { line: index + 1, reason })
    };
    text.lines().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_none_is_refused_in_a_sentence() {
        let refused = |transcript: &str| Recording::read(transcript, "").unwrap_err().to_string();
        assert!(refused("{").starts_with("line 1 is none of a recording: "));
        assert!(refused(r#"{"t_ms":1,"dir":"up","frame":{}}"#).contains("unknown variant `up`"));
        assert_eq!(refused(""), "the recording has no prompt");
        assert_eq!(refused(&"\n".repeat(LINES_MAX + 1)), "a recording has at most 10000 lines");
    }
}
