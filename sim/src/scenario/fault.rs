//! What goes wrong.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// The newest agent's root is killed by somebody.
    AgentKilled,
    /// The newest agent's root is frozen, and continued after a while if at all before the world heals.
    AgentFrozen {
        /// Milliseconds until somebody continues it; none is never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
    },
    /// The wall clock is set.
    ClockStep {
        /// By so many milliseconds, either way.
        ms: i64,
    },
    /// The host's process is killed, and started again on the same store.
    HostCrash {
        /// Milliseconds until it is started again.
        restart_ms: u64,
    },
    /// The host is asked to end, ends, and is opened again on the same store.
    HostRestart {
        /// Milliseconds until it is opened again.
        restart_ms: u64,
    },
    /// The host dies at its next commit, and is started again on the same store.
    CrashAtCommit {
        /// With the transaction stored and nobody told, or with nothing of it stored.
        stored: bool,
        /// Milliseconds until it is started again.
        restart_ms: u64,
    },
    /// The whole machine loses its power and boots again.
    PowerLoss {
        /// Milliseconds until the host is started again.
        restart_ms: u64,
    },
    /// A second host tries to open the same store.
    SecondHost {
        /// The lock is lost first, so that it succeeds.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lock_lost: bool,
    },
    /// The next transactions are refused.
    StoreRefuses {
        /// How many.
        commits: u32,
    },
    /// The store is closed for good, until a host is opened again.
    StoreCloses,
    /// The next transaction takes this long.
    StoreStalls {
        /// Milliseconds.
        ms: u64,
    },
    /// The next transaction is stored at once, or the next unit refused, and that is answered this late.
    StoreAnswersLate {
        /// Milliseconds.
        ms: u64,
    },
    /// The newest agent's supervisor is killed by somebody.
    SupervisorKilled,
    /// The machine is suspended: nothing runs, and the wall clock goes on.
    Suspend {
        /// Milliseconds.
        ms: u32,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AgentKilled => f.write_str("the agent is killed"),
            Self::AgentFrozen { ms: Some(ms) } => write!(f, "the agent is frozen for {ms} ms"),
            Self::AgentFrozen { ms: None } => f.write_str("the agent is frozen"),
            Self::ClockStep { ms } => write!(f, "the wall clock is set by {ms} ms"),
            Self::HostCrash { restart_ms } => {
                write!(f, "the host crashes and is back after {restart_ms} ms")
            }
            Self::HostRestart { restart_ms } => {
                write!(f, "the host is ended and opened again {restart_ms} ms later")
            }
            Self::CrashAtCommit { stored, restart_ms } => {
                let when = if *stored { "right after" } else { "right before" };
                write!(
                    f,
                    "the host crashes {when} its next commit, and is back after {restart_ms} ms"
                )
            }
            Self::PowerLoss { restart_ms } => {
                write!(f, "the machine loses its power; the host is back after {restart_ms} ms")
            }
            Self::SecondHost { lock_lost: false } => f.write_str("a second host opens the store"),
            Self::SecondHost { lock_lost: true } => {
                f.write_str("the store's lock is lost, and a second host opens it")
            }
            Self::StoreRefuses { commits } => write!(f, "the store refuses {commits} commits"),
            Self::StoreCloses => f.write_str("the store is closed for good"),
            Self::StoreStalls { ms } => write!(f, "a commit takes {ms} ms"),
            Self::StoreAnswersLate { ms } => write!(f, "a commit is answered {ms} ms late"),
            Self::SupervisorKilled => f.write_str("the supervisor is killed"),
            Self::Suspend { ms } => write!(f, "the machine is suspended for {ms} ms"),
        }
    }
}
