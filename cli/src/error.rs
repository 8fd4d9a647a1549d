//! How a command ends: its exit status, and one line that says what happened and what to do.

use std::io::Write;
use std::process::ExitCode;

use crate::words::one_line;

/// Longest line of an error; an agent's own words may be in it.
const LINE_CHARS_MAX: usize = 2_048;
/// Exit status when the command could not do its work.
const CANNOT_RUN: u8 = 2;

/// What a command found that could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything that was looked at holds: exit status 0.
    Holds,
    /// Something failed its check: exit status 1.
    Failed,
}

impl Verdict {
    /// The exit status, as a number.
    pub fn status(self) -> u8 {
        match self {
            Self::Holds => 0,
            Self::Failed => 1,
        }
    }
}

/// Says why a command could not run, and gives the exit status.
pub fn exit_code(outcome: anyhow::Result<Verdict>) -> ExitCode {
    match outcome {
        Ok(verdict) => ExitCode::from(verdict.status()),
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::from(CANNOT_RUN)
        }
    }
}

/// One line on stderr, in the command's name.
pub fn say(sentence: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stderr(), "moored: {}", one_line(sentence, LINE_CHARS_MAX));
}
