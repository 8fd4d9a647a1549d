//! Transitions by name: what an exhaustive exploration and a random sweep are compared by.
//!
//! One transition is one call into a session's machine, seen coarsely: where the session stood, what it was told, where
//! it stands. Nothing here knows of the explorer, so that a sweep over the real driver can report the same.

use std::fmt;

use moored::session::SessionPhase;

/// What a session is told, by the method it is told with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fact {
    /// `handle_deadline`.
    Deadline,
    /// `handle_durable`.
    Durable,
    /// `handle_report` with an exit.
    Exited,
    /// `handle_minted`.
    Minted,
    /// `handle_refused`.
    Refused,
    /// `restore`.
    Restored,
    /// `send`.
    Send,
    /// `handle_spawned`.
    Spawned,
    /// `handle_stderr_end`.
    StderrEnd,
    /// `handle_stdout`.
    Stdout,
    /// `handle_stdout_end`.
    StdoutEnd,
    /// `stop`.
    Stop,
    /// `handle_report` with a swept tree.
    Swept,
    /// `handle_written`.
    Written,
}

impl Fact {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Deadline,
        Self::Durable,
        Self::Exited,
        Self::Minted,
        Self::Refused,
        Self::Restored,
        Self::Send,
        Self::Spawned,
        Self::StderrEnd,
        Self::Stdout,
        Self::StdoutEnd,
        Self::Stop,
        Self::Swept,
        Self::Written,
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Durable => "durable",
            Self::Exited => "exited",
            Self::Minted => "minted",
            Self::Refused => "refused",
            Self::Restored => "restored",
            Self::Send => "send",
            Self::Spawned => "spawned",
            Self::StderrEnd => "stderr-end",
            Self::Stdout => "stdout",
            Self::StdoutEnd => "stdout-end",
            Self::Stop => "stop",
            Self::Swept => "swept",
            Self::Written => "written",
        }
    }
}

/// One call into a session's machine, seen coarsely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transition {
    /// Where it stood; for a restored session, where the one before it stood.
    pub before: SessionPhase,
    /// What it was told.
    pub fact: Fact,
    /// Where it stands.
    pub after: SessionPhase,
}

impl Transition {
    /// The same as a number: what a sweep counts.
    pub const fn key(self) -> u64 {
        transition_key(self.before, self.fact as u64, self.after)
    }
}

/// The number of a transition that the driver told; none for a fact that no exploration knows.
pub fn key_of(before: SessionPhase, fact: &str, after: SessionPhase) -> Option<u64> {
    let fact = Fact::ALL.iter().find(|known| known.word() == fact)?;
    Some(transition_key(before, *fact as u64, after))
}

const fn transition_key(before: SessionPhase, fact: u64, after: SessionPhase) -> u64 {
    before.bits() as u64 | (after.bits() as u64) << 16 | fact << 32
}

/// `ready+turn | stop | ending+turn+stop`.
impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} | {} | {}", self.before, self.fact.word(), self.after)
    }
}
