//! The agent as the explorer sees it: what it was asked, and what it may still say.

use moored::ids::Generation;
use moored::platform::Mono;
use serde::{Deserialize, Serialize};

/// The agent's own session.
pub(super) const AGENT_SESSION: &str = "agent-session";

/// A process that was asked for, and what the host has been told of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Agent {
    pub(super) generation: Generation,
    pub(super) stands: Stands,
    /// The host reads its stdout.
    pub(super) reading: bool,
    pub(super) pipes_open: bool,
    /// When its stdin was closed.
    pub(super) eof: Option<Mono>,
    /// When SIGTERM was ordered.
    pub(super) term: Option<Mono>,
    pub(super) sweeping: bool,
    /// When its tree was reported empty.
    pub(super) swept: Option<Mono>,
    pub(super) asked: Option<Asked>,
    /// The prompt that is unanswered got its `session/cancel`.
    pub(super) cancelled: bool,
    /// It has answered a prompt.
    pub(super) has_answered: bool,
}

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Stands {
    Spawning,
    Alive,
    Exited,
}

/// A request of the host's that is unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Asked {
    Initialize { id: u64 },
    New { id: u64 },
    Reopen { id: u64 },
    Prompt { id: u64, message: u8 },
}

/// A frame of the host's.
#[derive(Deserialize)]
pub(super) struct Heard<'a> {
    pub(super) id: Option<u64>,
    #[serde(default)]
    pub(super) method: Option<&'a str>,
    #[serde(default)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(default, borrow)]
    prompt: Vec<Block<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    text: &'a str,
}

impl<'a> Heard<'a> {
    /// Reads a frame; none if it is no JSON.
    pub(super) fn read(frame: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(frame).ok()
    }

    /// The text of the prompt.
    pub(super) fn prompt(&self) -> Option<&'a str> {
        self.params.as_ref()?.prompt.first().map(|block| block.text)
    }
}

impl Agent {
    pub(super) fn spawning(generation: Generation) -> Self {
        Self {
            generation,
            stands: Stands::Spawning,
            reading: true,
            pipes_open: true,
            eof: None,
            term: None,
            sweeping: false,
            swept: None,
            asked: None,
            cancelled: false,
            has_answered: false,
        }
    }

    /// What it writes reaches the host.
    pub(super) fn is_heard(&self) -> bool {
        self.stands != Stands::Spawning && self.pipes_open && self.reading
    }
}

/// The answer to a request.
pub(super) fn result(id: u64, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n")
}

/// What the agent says of itself.
pub(super) const INITIALIZED: &str = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}}}}"#;

/// A piece of text.
pub(super) fn chunk(text: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"{AGENT_SESSION}\",\"update\":\
         {{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{{\"type\":\"text\",\"text\":\"{text}\"}}}}}}}}\n"
    )
}
