//! When something is done: after the n-th event of a kind, and from there at a known edge.

use std::fmt;

use moored::limits;
use moored::session::ladder;
use serde::{Deserialize, Serialize};

/// After the n-th event of a kind, and a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// Which kind of event; none is the run's beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventKind>,
    /// Which of them, from 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub nth: u32,
    /// And then.
    #[serde(default, skip_serializing_if = "Delay::is_none")]
    pub then: Delay,
}

fn first() -> u32 {
    1
}

fn is_first(nth: &u32) -> bool {
    *nth == 1
}

impl Trigger {
    /// As soon as the host is open and its sessions are there.
    pub const fn at_start() -> Self {
        Self { event: None, nth: 1, then: Delay::None }
    }

    /// With the n-th event of a kind.
    pub const fn after(event: EventKind, nth: u32) -> Self {
        Self { event: Some(event), nth, then: Delay::None }
    }

    /// The same, and then a delay.
    #[must_use]
    pub const fn then(mut self, delay: Delay) -> Self {
        self.then = delay;
        self
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.event {
            None => f.write_str("at the beginning")?,
            Some(event) => write!(f, "at {} {}", event.name(), self.nth)?,
        }
        match self.then {
            Delay::None => Ok(()),
            Delay::Us(us) => write!(f, ", {} ms later", ms(i64::try_from(us).unwrap_or(i64::MAX))),
            Delay::Edge { edge, us } => {
                let ahead = if us < 0 { "before" } else { "after" };
                write!(f, ", {} ms {ahead} {} has passed", ms(us.abs()), edge.name())
            }
        }
    }
}

fn ms(us: i64) -> String {
    format!("{}.{:03}", us / 1_000, us % 1_000)
}

/// How long after its event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delay {
    /// At once.
    #[default]
    None,
    /// So many microseconds.
    Us(u64),
    /// At an edge of one of the library's own windows.
    Edge {
        /// Which.
        edge: Edge,
        /// Microseconds from the edge; negative is before it.
        us: i64,
    },
}

impl Delay {
    fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// In microseconds.
    pub fn as_us(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Us(us) => us,
            Self::Edge { edge, us } => (edge.ms() * 1_000).saturating_add_signed(us),
        }
    }
}

macro_rules! edges {
    ($($(#[$doc:meta])* $name:ident: $text:literal = $ms:expr;)*) => {
        /// A window of the library's own, at whose end things are decided.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Edge {
            $($(#[$doc])* $name,)*
        }

        impl Edge {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// How long the window is.
            pub const fn ms(self) -> u64 {
                match self { $(Self::$name => $ms,)* }
            }

            /// Its name in a sentence.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

edges! {
    /// Quiet that ends an agent-initiated turn (decision D4).
    AgentTurnQuiet: "the quiet of an agent's turn" = limits::AGENT_TURN_QUIET_MS;
    /// An agent is asked to save before its end (decision D13).
    CloseBarrier: "the wait for an agent that saves" = limits::CLOSE_BARRIER_MS;
    /// From stdin EOF to force (rule 1.6.1).
    EofGrace: "the EOF window" = ladder::POSIX_EOF_GRACE_MS;
    /// The same on win32.
    EofGraceWin32: "the EOF window of win32" = ladder::WIN32_EOF_GRACE_MS;
    /// From SIGKILL to "not proven" (rule 1.6.2).
    KillWait: "the wait for a killed child" = ladder::POSIX_KILL_WAIT_MS;
    /// Text of a turn that ended this recently still belongs to it (decision D3).
    LateUpdate: "the window for late updates" = limits::LATE_UPDATE_WINDOW_MS;
    /// stdout ended and the root lives (decision D34).
    StdoutEof: "the wait for an exit after stdout's end" = limits::STDOUT_EOF_GRACE_MS;
    /// A Stop waits for the turn to end (rule 3.5.2).
    StopGrace: "the cancel wait" = limits::STOP_GRACE_MS;
    /// A refused append is submitted again (decision D8).
    StoreRetry: "the store's retry" = limits::STORE_RETRY_MS;
    /// From SIGTERM to SIGKILL (rule 1.6.1).
    TermGrace: "the TERM window" = ladder::POSIX_TERM_GRACE_MS;
    /// Streamed text is committed.
    TextFlush: "the text's flush" = limits::TEXT_COALESCE_MS;
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident: $text:literal;)*) => {
        /// A kind of event that things may hang on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum EventKind {
            $($(#[$doc])* $name,)*
        }

        impl EventKind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name, as a trace shows it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

events! {
    /// An agent asked the host something.
    AgentAsked: "agent.asked";
    /// An agent answered a prompt.
    AgentAnswered: "agent.answered";
    /// An agent answered anything else.
    AgentReplied: "agent.replied";
    /// An agent wrote a `session/update`.
    AgentUpdated: "agent.updated";
    /// A call of a client was answered.
    CallAnswered: "call.answered";
    /// A client made a call.
    CallMade: "call.made";
    /// An agent read a `session/cancel`.
    CancelRead: "cancel.read";
    /// The host wrote a `session/cancel`.
    CancelWritten: "cancel.written";
    /// The host writes `session/close`.
    CloseWritten: "close.written";
    /// A client folded a batch or a snapshot.
    ClientFed: "client.fed";
    /// A host is open.
    HostOpened: "host.opened";
    /// A host crashed.
    HostCrashed: "host.crashed";
    /// The host wrote `initialize`.
    InitializeWritten: "initialize.written";
    /// A permission request is in the journal.
    PermissionRaised: "permission.raised";
    /// The root of a child's tree is gone.
    ProcessEnded: "process.ended";
    /// The root of a child's tree is there.
    ProcessStarted: "process.started";
    /// An agent read a prompt.
    PromptRead: "prompt.read";
    /// The host wrote a prompt.
    PromptWritten: "prompt.written";
    /// The host answered a request of an agent.
    ReplyWritten: "reply.written";
    /// The host wrote `session/new`, `session/load` or `session/resume`.
    SessionWritten: "session.written";
    /// A signal was sent.
    SignalSent: "signal.sent";
    /// The host closed an agent's stdin.
    StdinClosed: "stdin.closed";
    /// A client was told a status.
    StatusSeen: "status.seen";
    /// A turn's end is in the journal.
    TurnEnded: "turn.ended";
    /// A turn's beginning is in the journal.
    TurnStarted: "turn.started";
    /// A unit was answered.
    UnitAnswered: "unit.answered";
    /// A unit is on disk.
    UnitStored: "unit.stored";
    /// A unit was handed to the store.
    UnitSubmitted: "unit.submitted";
}
