//! The alphabet.

use std::fmt;

use serde::Serialize;

/// One thing that may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The person sends the next message.
    Send,
    /// The person presses Stop.
    Stop,
    /// The store has the oldest unit.
    Durable,
    /// The store refuses all that waits.
    Refused,
    /// The process that was asked for exists.
    Spawned,
    /// The agent answers `initialize`.
    Initialized,
    /// The agent answers the session request.
    Opened,
    /// The agent answers its prompt with `end_turn`.
    AnsweredEndTurn,
    /// The agent answers its prompt with `cancelled`.
    AnsweredCancelled,
    /// The agent says something behind its answer.
    LateUpdate,
    /// The root exits.
    Exited,
    /// Its stdout and stderr end.
    PipesEnded,
    /// Nothing is left of its tree.
    TreeEmpty,
    /// Time passes up to the earliest timer.
    Timer,
    /// The host crashes, and is restarted on what is stored.
    Crashed,
    /// The same, and the store had taken the oldest unit without the host hearing of it.
    CrashedUnheard,
}

impl Step {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 16] = [
        Self::Send,
        Self::Stop,
        Self::Durable,
        Self::Refused,
        Self::Spawned,
        Self::Initialized,
        Self::Opened,
        Self::AnsweredEndTurn,
        Self::AnsweredCancelled,
        Self::LateUpdate,
        Self::Exited,
        Self::PipesEnded,
        Self::TreeEmpty,
        Self::Timer,
        Self::Crashed,
        Self::CrashedUnheard,
    ];
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "the person sends a message",
            Self::Stop => "the person presses Stop",
            Self::Durable => "the store has the oldest unit",
            Self::Refused => "the store refuses all that waits",
            Self::Spawned => "the process exists",
            Self::Initialized => "the agent answers initialize",
            Self::Opened => "the agent answers the session request",
            Self::AnsweredEndTurn => "the agent answers end_turn",
            Self::AnsweredCancelled => "the agent answers cancelled",
            Self::LateUpdate => "the agent speaks behind its answer",
            Self::Exited => "the root exits",
            Self::PipesEnded => "its stdout and stderr end",
            Self::TreeEmpty => "its tree is empty",
            Self::Timer => "the earliest timer fires",
            Self::Crashed => "the host crashes and is restarted",
            Self::CrashedUnheard => "the host crashes behind a commit, and is restarted",
        })
    }
}
