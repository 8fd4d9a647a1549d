//! What the processes of any platform must do: one suite, run by the simulated world and by real processes alike.
//!
//! A body is written against [`Arm`]; programs are named by what they are for, and each arm brings its own. No body
//! asks the clock: what it waits for is a report, a byte or an end. A body panics where the platform fails it.

mod bodies;
mod programs;

use std::future::Future;
use std::pin::Pin;

use moored::platform::{ChildSpec, ProcessIdentity, SharedPlatform};

pub use bodies::BODIES;
pub use programs::programs;

/// What a program of the suite is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Closes its stdin, says `closed` and a line feed on stdout, then sleeps for ever.
    CloseStdinThenSleep,
    /// Says `it hurts` on stderr without a line feed and exits with 3.
    ComplainAndExitWith3,
    /// Gives every byte of stdin back on stdout; exits with 0 at its end.
    EchoUntilEof,
    /// Forks a child into its own session, which forks one into its own session again and exits; then exits with 0.
    /// Both children sleep for ever, keep no stream and end at SIGTERM.
    ForkTwiceThenExit,
    /// Forks a child that keeps stdout open and sleeps for ever, then exits with 0. The child ends at SIGTERM.
    ForkHoldingStdoutThenExit,
    /// Forks a child into its own session that ignores SIGTERM and sleeps for ever, then exits with 0.
    ForkIgnoringTermThenExit,
    /// Ignores SIGTERM, says `ready` and a line feed, and sleeps for ever.
    IgnoreTerm,
    /// There is no such program.
    Missing,
    /// Says each variable of its environment as `NAME=value` and a line feed, then exits with 0.
    PrintEnvironment,
    /// Sleeps for ever, whatever happens to its stdin.
    SleepForever,
    /// Says `ready` and a line feed, then stops itself with SIGSTOP.
    StopItself,
    /// Says [`MEBIBYTE`] bytes, counting up and wrapping, then exits with 0.
    WriteAMebibyte,
    /// Writes until that fails with a broken pipe, then exits with 7.
    WriteUntilBroken,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::CloseStdinThenSleep,
        Self::ComplainAndExitWith3,
        Self::EchoUntilEof,
        Self::ForkTwiceThenExit,
        Self::ForkHoldingStdoutThenExit,
        Self::ForkIgnoringTermThenExit,
        Self::IgnoreTerm,
        Self::Missing,
        Self::PrintEnvironment,
        Self::SleepForever,
        Self::StopItself,
        Self::WriteAMebibyte,
        Self::WriteUntilBroken,
    ];

    /// The name its program goes by.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CloseStdinThenSleep => "close-stdin-then-sleep",
            Self::ComplainAndExitWith3 => "complain-and-exit-with-3",
            Self::EchoUntilEof => "echo-until-eof",
            Self::ForkTwiceThenExit => "fork-twice-then-exit",
            Self::ForkHoldingStdoutThenExit => "fork-holding-stdout-then-exit",
            Self::ForkIgnoringTermThenExit => "fork-ignoring-term-then-exit",
            Self::IgnoreTerm => "ignore-term",
            Self::Missing => "missing",
            Self::PrintEnvironment => "print-environment",
            Self::SleepForever => "sleep-forever",
            Self::StopItself => "stop-itself",
            Self::WriteAMebibyte => "write-a-mebibyte",
            Self::WriteUntilBroken => "write-until-broken",
        }
    }
}

/// What [`Purpose::WriteAMebibyte`] writes: more than any pipe holds.
pub const MEBIBYTE: usize = 1024 * 1024;

/// One implementation under test.
pub trait Arm: Send + Sync {
    /// The platform.
    fn platform(&self) -> SharedPlatform;

    /// How to start a program of that purpose, with the stock ladder of the machine's profile, the variables
    /// `KEPT=kept` and `DROPPED=dropped` in the host's environment, and `DROPPED` to be dropped.
    fn spec(&self, purpose: Purpose) -> ChildSpec;

    /// Whether that very process lives; a zombie does not.
    fn is_alive(&self, identity: &ProcessIdentity) -> bool;
}

/// A body's future.
pub type BodyFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// What of a machine a body needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Any machine will do.
    Anything,
    /// Signals, sessions and reparenting.
    Signals,
}

/// One test of the suite.
#[derive(Clone, Copy)]
pub struct Body {
    /// What must hold, in words.
    pub name: &'static str,
    /// What it needs.
    pub needs: Needs,
    /// Runs it.
    pub run: fn(&dyn Arm) -> BodyFuture<'_>,
}
