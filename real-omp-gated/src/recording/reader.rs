//! Reading a recording, from its first line to its last.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Exit, LINES_MAX, PAUSE_MS_MIN, Recording, RecordingError, Turn, persist};

pub(super) fn read(transcript: &str, session_file: &str) -> Result<Recording, RecordingError> {
    let lines: Vec<Line> = read_lines(transcript)?;
    let mut reader = Reader { entries: read_lines(session_file)?.into_iter(), ..Reader::default() };
    for line in lines {
        reader.take(line);
    }
    reader.finish()
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

/// What was read so far.
#[derive(Default)]
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
