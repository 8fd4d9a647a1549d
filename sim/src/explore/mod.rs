//! Exhaustive exploration: every order of a small alphabet, on the session core alone (`docs/explore.md`).
//!
//! A state is a session's machine and the small world around it. From each, every step that the world allows is taken;
//! states with the same digest are one. After each step the machine's invariants and the explorer's own oracles are
//! checked. Nothing here needs a kernel: the search is breadth-first, so that a violation comes with the shortest way
//! to it, and its result is the same on any number of threads.
//!
//! ```
//! use moored_sim::explore::{Bounds, Explorer};
//!
//! let explored = Explorer { bounds: Bounds { stops: 1, ..Bounds::default() }, depth: 60 }.run(1);
//! assert!(explored.violation.is_none() && explored.closed);
//! ```

mod agent;
mod oracle;
mod search;
mod step;
#[cfg(test)]
mod tests;
mod transition;
mod world;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use step::Step;
pub use transition::{Fact, Transition, key_of};

/// How often each step may be taken that nothing else bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Messages; eight at most count.
    pub sends: u8,
    /// Presses of Stop.
    pub stops: u8,
    /// Crashes of the host.
    pub crashes: u8,
    /// Pieces of text behind an answer.
    pub late_updates: u8,
    /// Times the store refuses all that waits.
    pub refusals: u8,
}

/// Messages of one exploration.
pub const SENDS_MAX: u8 = 7;

/// What to explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explorer {
    /// The alphabet.
    pub bounds: Bounds,
    /// Steps from a session that was just created.
    pub depth: usize,
}

/// A built-in alphabet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alphabet {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Its bounds.
    pub bounds: Bounds,
    /// How deep it is explored when nobody says how deep; absent, until no state is left.
    pub depth: Option<usize>,
}

/// The built-in alphabets.
pub const ALPHABETS: [Alphabet; 4] = [
    Alphabet {
        name: "late",
        about: "1 message, 1 Stop, 2 late updates",
        bounds: Bounds { sends: 1, stops: 1, crashes: 0, late_updates: 2, refusals: 0 },
        depth: None,
    },
    Alphabet {
        name: "race",
        about: "2 messages, 2 Stops, 1 crash of the host",
        bounds: Bounds { sends: 2, stops: 2, crashes: 1, late_updates: 0, refusals: 0 },
        depth: Some(20),
    },
    Alphabet {
        name: "stop",
        about: "1 message, 2 Stops",
        bounds: Bounds { sends: 1, stops: 2, crashes: 0, late_updates: 0, refusals: 0 },
        depth: None,
    },
    Alphabet {
        name: "store",
        about: "1 message, 1 Stop, 1 crash of the host, 1 refusal of the store",
        bounds: Bounds { sends: 1, stops: 1, crashes: 1, late_updates: 0, refusals: 1 },
        depth: None,
    },
];

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explored {
    /// Different states, the first among them.
    pub states: u64,
    /// Steps that were taken from them.
    pub transitions: u64,
    /// Steps that led to a state that was known.
    pub merges: u64,
    /// States in which nothing more is enabled.
    pub ends: u64,
    /// The longest of the shortest ways to a state.
    pub depth: usize,
    /// No state is left that was not expanded.
    pub closed: bool,
    /// Whoever watched it ended it before it was complete.
    pub cut_short: bool,
    /// The transitions of the machine, seen coarsely.
    pub seen: BTreeSet<Transition>,
    /// The first violation; nothing was explored behind it.
    pub violation: Option<Violation>,
}

/// Something that must hold, and does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What, in one sentence.
    pub what: String,
    /// The shortest way to it.
    pub steps: Vec<Step>,
    /// The same in words, with what the machine asked for at each step: one step a line.
    pub lines: Vec<String>,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, line) in self.lines.iter().enumerate() {
            writeln!(f, "{:>3}. {line}", number + 1)?;
        }
        write!(f, "=> {}", self.what)
    }
}

/// How far an exploration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The depth that is being expanded.
    pub depth: usize,
    /// States of this depth that are expanded, and all of them.
    pub expanded: usize,
    /// States of this depth.
    pub frontier: usize,
    /// All states so far.
    pub states: u64,
}

impl Explorer {
    /// Explores on so many threads.
    pub fn run(&self, jobs: usize) -> Explored {
        self.run_watched(jobs, &mut |_| true)
    }

    /// The same, and `watch` is told on the way; it ends the exploration by answering `false`.
    pub fn run_watched(&self, jobs: usize, watch: &mut dyn FnMut(Progress) -> bool) -> Explored {
        search::explore(self, jobs.max(1), watch)
    }
}
