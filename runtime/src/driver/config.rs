//! What a host is opened with, and why it may not be.

use crate::session::Policy;
use crate::store::StoreError;

/// Calls that may wait for their answers at one time.
pub const CALLS_MAX: usize = 4_096;
/// Of those, how many only a Stop or a close may take: they always find room (decision D12).
pub const CALLS_KEPT_FOR_STOPS: usize = 64;
/// Open sessions of one host.
pub const SESSIONS_MAX: usize = 4_096;
/// Frames that may wait for one watcher of a session.
pub const WATCH_FRAMES_MAX: usize = 256;
/// Frames that may wait for one subscriber of the status stream.
pub const STATUS_FRAMES_MAX: usize = 1_024;
/// Watchers of one session.
pub const WATCHERS_MAX: usize = 256;
/// Subscribers of the status stream.
pub const SUBSCRIBERS_MAX: usize = 256;

const _: () = assert!(CALLS_KEPT_FOR_STOPS < CALLS_MAX, "ordinary calls find room too");

/// How much of everything a host holds at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// [`CALLS_MAX`].
    pub calls_max: usize,
    /// [`SESSIONS_MAX`].
    pub sessions_max: usize,
    /// [`WATCH_FRAMES_MAX`].
    pub watch_frames_max: usize,
    /// [`STATUS_FRAMES_MAX`].
    pub status_frames_max: usize,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            calls_max: CALLS_MAX,
            sessions_max: SESSIONS_MAX,
            watch_frames_max: WATCH_FRAMES_MAX,
            status_frames_max: STATUS_FRAMES_MAX,
        }
    }
}

/// How a host behaves, whatever it runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostConfig {
    /// How its sessions behave.
    pub policy: Policy,
    /// How much it holds.
    pub limits: HostLimits,
    /// Check every machine's invariants after each step in release builds too.
    pub check_invariants: bool,
}

impl HostConfig {
    /// Refuses what may not be used; nothing is started with it (rule 1.6.2).
    pub(super) fn check(&self) -> Result<(), OpenError> {
        if let Some(reason) = self.policy.ladder.refusal() {
            return Err(OpenError::Policy { reason });
        }
        let least = [
            ("calls_max", self.limits.calls_max, CALLS_KEPT_FOR_STOPS + 1),
            ("sessions_max", self.limits.sessions_max, 1),
            ("watch_frames_max", self.limits.watch_frames_max, 1),
            ("status_frames_max", self.limits.status_frames_max, 1),
        ];
        match least.into_iter().find(|(_, asked, least)| asked < least) {
            Some((name, asked, least)) => Err(OpenError::Limit { name, asked, least }),
            None => Ok(()),
        }
    }

    pub(super) fn checks_invariants(&self) -> bool {
        self.check_invariants || cfg!(debug_assertions)
    }
}

/// Why a host cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A window is shorter than what a child needs to end well.
    #[error("the policy cannot be used: {reason}")]
    Policy {
        /// Which window, and what it may be.
        reason: String,
    },
    /// A limit leaves no room for anything.
    #[error("the limit {name} is {asked}, and may not be lower than {least}")]
    Limit {
        /// Which.
        name: &'static str,
        /// What was asked for.
        asked: usize,
        /// The lowest that works.
        least: usize,
    },
    /// The store cannot be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine under the host refuses.
    #[error("the host cannot run here ({reason})")]
    Platform {
        /// What was said.
        reason: String,
    },
}
