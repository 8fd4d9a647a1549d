//! What persons and clients do.

use std::fmt;

use moored::journal::SendMode;
use serde::{Deserialize, Serialize};

/// Something a person or a client does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Act {
    /// Sends a message. Its text names it, so that it is known again on the agent's side.
    Send {
        /// To which session.
        #[serde(default, skip_serializing_if = "is_zero")]
        session: usize,
        /// Its number: the id is `m<number>`.
        message: u32,
        /// Further text.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        /// How it goes out when a turn runs.
        #[serde(default, skip_serializing_if = "is_after_turn")]
        mode: SendMode,
    },
    /// Presses Stop.
    Stop {
        /// On which session.
        #[serde(default, skip_serializing_if = "is_zero")]
        session: usize,
        /// The turn it names.
        #[serde(default, skip_serializing_if = "NamedTurn::is_none")]
        turn: NamedTurn,
    },
    /// Answers the oldest pending permission that the person's own client shows; nothing if it shows none.
    Answer {
        /// Of which session.
        #[serde(default, skip_serializing_if = "is_zero")]
        session: usize,
        /// Which of the options, from 0; none dismisses the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option: Option<usize>,
    },
    /// Closes the session.
    Close {
        /// Which.
        #[serde(default, skip_serializing_if = "is_zero")]
        session: usize,
    },
    /// The host lets its child go, and keeps the session.
    Evict {
        /// Of which session.
        #[serde(default, skip_serializing_if = "is_zero")]
        session: usize,
    },
    /// Makes an earlier call again with the same operation id, as a client does that never saw the answer.
    Again {
        /// Which of the calls, from 0, in the order in which they were made; nothing if there is no such call yet.
        call: usize,
        /// What is not as it was.
        #[serde(default, skip_serializing_if = "Changed::is_nothing")]
        changed: Changed,
    },
    /// A client does something of its own.
    Client {
        /// Which; 0 is the person's own.
        client: usize,
        /// What.
        act: ClientAct,
    },
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAct {
    /// Loses its connection, and comes back after a while with what it had.
    Leave {
        /// Milliseconds.
        ms: u64,
    },
    /// Loads the session's history and applies it late (decision D26).
    LoadLate {
        /// Milliseconds.
        ms: u64,
    },
    /// Takes no frame for a while.
    Pause {
        /// Milliseconds.
        ms: u64,
    },
}

/// How a call that is made again differs from the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Changed {
    /// Another call under the same operation id (rule 5.10.2).
    Call,
    /// A new operation, with a digest that is not its own.
    Digest,
    /// A new operation, that expects a fence which never was.
    Fence,
    /// Not at all.
    #[default]
    Nothing,
    /// A new operation, older than any that may begin (rule 5.10.3).
    Time,
}

impl Changed {
    fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
}

/// Which turn a Stop names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NamedTurn {
    /// One that was over when the person pressed; none if there is none.
    Ended,
    /// None.
    #[default]
    None,
    /// The one that runs, as far as the person's client knows; none if none runs.
    Running,
    /// One that never was.
    Unknown,
}

impl NamedTurn {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

fn is_after_turn(mode: &SendMode) -> bool {
    *mode == SendMode::AfterTurn
}

impl Act {
    /// The session it is about, if it is about one.
    pub fn session(&self) -> Option<usize> {
        match self {
            Self::Send { session, .. }
            | Self::Stop { session, .. }
            | Self::Answer { session, .. }
            | Self::Close { session }
            | Self::Evict { session } => Some(*session),
            Self::Again { .. } | Self::Client { .. } => None,
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { session, message, mode: SendMode::AfterTurn, .. } => {
                write!(f, "send m{message} to s{session}")
            }
            Self::Send { session, message, .. } => write!(f, "steer s{session} with m{message}"),
            Self::Stop { session, turn: NamedTurn::None } => write!(f, "stop s{session}"),
            Self::Stop { session, turn } => write!(f, "stop s{session}, naming {turn:?}"),
            Self::Answer { session, option: Some(n) } => {
                write!(f, "answer s{session} with option {n}")
            }
            Self::Answer { session, option: None } => {
                write!(f, "dismiss the question of s{session}")
            }
            Self::Close { session } => write!(f, "close s{session}"),
            Self::Evict { session } => write!(f, "let the child of s{session} go"),
            Self::Again { call, changed: Changed::Nothing } => {
                write!(f, "repeat call {call} with its operation id")
            }
            Self::Again { call, changed } => write!(f, "repeat call {call}, changed: {changed:?}"),
            Self::Client { client, act } => write!(f, "client {client}: {act:?}"),
        }
    }
}
