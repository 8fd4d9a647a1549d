//! How a machine is set up: its kind, and how far it may stray.

use std::collections::BTreeMap;

use moored::session::ladder::Profile;
use serde::{Deserialize, Serialize};

/// The bounds of what a world may choose. `..._one_in` is 0 for never; `..._max` bounds a delay from above and is not
/// reached. Which values are taken is the kernel's choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorldOptions {
    /// Which operating system it is like.
    pub profile: Profile,
    /// How long a start takes.
    pub spawn_us_max: u64,
    /// How long a process takes to be gone after its own exit.
    pub exit_us_max: u64,
    /// How long a process takes to be gone after it was killed.
    pub death_us_max: u64,
    /// How late a signal is.
    pub signal_us_max: u64,
    /// How often the operating system refuses a signal.
    pub signal_refused_one_in: u64,
    /// How often a fork is refused.
    pub fork_refused_one_in: u64,
    /// How often a supervisor cannot be started.
    pub supervisor_refused_one_in: u64,
    /// How often a start time cannot be read; the third time in a row the start has failed (rule 1.1.6).
    pub start_unreadable_one_in: u64,
    /// How often a number is given again as soon as it is free.
    pub pid_reused_one_in: u64,
    /// How late a piece of a pipe's stream is.
    pub pipe_us_max: u64,
    /// How late the host reads the end of an agent's stdout or stderr, each in its own time: somebody whom nobody sees
    /// holds it for a while. Past the library's window for it as well.
    #[serde(skip_serializing_if = "is_zero")]
    pub pipe_end_us_max: u64,
    /// How late an order or a report is on the control pipe.
    pub control_us_max: u64,
    /// How long a supervisor takes for a look or a signal.
    pub supervisor_us_max: u64,
    /// How long a file operation takes.
    pub file_us_max: u64,
    /// How late a timer fires.
    pub timer_late_us_max: u64,
    /// How long a tree kill takes; past rule 1.6.4's 5 000 ms it is given up (win32).
    pub tree_kill_us_max: u64,
    /// The wall clock at boot, in milliseconds since the epoch.
    pub wall_start_ms: u64,
    /// The environment a host runs in.
    pub host_environment: BTreeMap<String, String>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            profile: Profile::Posix,
            spawn_us_max: 5_000,
            exit_us_max: 2_000,
            death_us_max: 3_000,
            signal_us_max: 1_000,
            signal_refused_one_in: 0,
            fork_refused_one_in: 0,
            supervisor_refused_one_in: 0,
            start_unreadable_one_in: 0,
            pid_reused_one_in: 8,
            pipe_us_max: 3_000,
            pipe_end_us_max: 0,
            control_us_max: 1_000,
            supervisor_us_max: 500,
            file_us_max: 1_000,
            timer_late_us_max: 300,
            tree_kill_us_max: 400_000,
            wall_start_ms: 1_700_000_000_000,
            host_environment: BTreeMap::new(),
        }
    }
}

impl WorldOptions {
    /// A machine of the win32 kind, where starts and kills are slower.
    pub fn win32() -> Self {
        Self {
            profile: Profile::Win32,
            spawn_us_max: 80_000,
            death_us_max: 50_000,
            ..Self::default()
        }
    }

    /// The same machine with nothing refused any more: delays stay.
    #[must_use]
    pub fn healed(&self) -> Self {
        Self {
            signal_refused_one_in: 0,
            fork_refused_one_in: 0,
            supervisor_refused_one_in: 0,
            start_unreadable_one_in: 0,
            tree_kill_us_max: self.tree_kill_us_max.min(Self::default().tree_kill_us_max),
            ..self.clone()
        }
    }

    /// Whether it is of the win32 kind.
    pub fn is_win32(&self) -> bool {
        self.profile == Profile::Win32
    }
}
