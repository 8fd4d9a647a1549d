//! From a recording of a real agent to a scenario: the agent as a script, and what came of it as expectations.
//!
//! A recording is a transcript (`NAME.ndjson`) and the agent's session file (`NAME.session.jsonl`), as `recordings/README.md`
//! describes them. What the agent wrote comes in the same order, on its pipe and to its file; what the host wrote is not
//! replayed: it is asked for again, of the host under test. Pauses are kept from [`PAUSE_MS_MIN`] on.

mod reader;

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

impl Recording {
    /// Reads a transcript and the session file that belongs to it.
    ///
    /// # Errors
    /// It is no recording of a Stop.
    pub fn read(transcript: &str, session_file: &str) -> Result<Self, RecordingError> {
        reader::read(transcript, session_file)
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

fn persist(entry: &Value) -> Value {
    json!({"do": "persist", "entry": "raw", "value": entry})
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
