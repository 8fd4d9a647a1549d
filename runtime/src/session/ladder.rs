//! The ladder: stdin EOF, a graceful window, and only then force (rules 1.6.1, 1.6.2).
//!
//! One owner: while the host lives, the session's machine runs this module and the supervisor obeys; once the host is
//! gone, the supervisor runs the same module from EOF on (rule 1.7.7). A child that leaves inside its EOF window is
//! never signalled.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::platform::{Mono, Signal};

/// POSIX: from stdin EOF to SIGTERM (rule 1.6.1).
pub const POSIX_EOF_GRACE_MS: u64 = 1_000;
/// POSIX: from SIGTERM to SIGKILL (rule 1.6.1).
pub const POSIX_TERM_GRACE_MS: u64 = 3_000;
/// POSIX: how long a killed group may take to vanish (rule 1.6.2).
pub const POSIX_KILL_WAIT_MS: u64 = 1_500;
/// Windows: from stdin EOF to the tree kill (rule 1.6.1).
pub const WIN32_EOF_GRACE_MS: u64 = 1_500;
/// Windows: how long a tree kill may take (rule 1.6.4).
pub const WIN32_KILL_WAIT_MS: u64 = 5_000;
/// The supervisor must answer an order within this, or it is taken for lost (`docs/architecture.md`, "Processes").
pub const SUPERVISOR_ANSWER_MS: u64 = 1_000;
/// Longest stop of a supervised child under the stock windows: a policy may not be shorter (rule 1.6.2).
pub const POSIX_STOP_MS_MAX: u64 = POSIX_EOF_GRACE_MS + POSIX_TERM_GRACE_MS + POSIX_KILL_WAIT_MS;

const _: () = assert!(POSIX_STOP_MS_MAX == 5_500, "rule 1.6.2 names the sum");

/// Whose windows are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// EOF, SIGTERM, SIGKILL.
    #[default]
    Posix,
    /// EOF, tree kill.
    Win32,
}

/// The windows of one child's end, in the order they run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LadderPolicy {
    /// Decides whether there is a SIGTERM step.
    pub profile: Profile,
    /// From stdin EOF to the first force, in milliseconds.
    pub eof_grace_ms: u64,
    /// From SIGTERM to SIGKILL, in milliseconds; unused on win32.
    pub term_grace_ms: u64,
    /// From SIGKILL to "not proven", in milliseconds.
    pub kill_wait_ms: u64,
    /// Leave what the agent left running, and report it (decision D21).
    #[serde(default)]
    pub keep_background: bool,
}

impl LadderPolicy {
    /// The stock windows of a profile.
    pub fn stock(profile: Profile) -> Self {
        match profile {
            Profile::Posix => Self {
                profile,
                eof_grace_ms: POSIX_EOF_GRACE_MS,
                term_grace_ms: POSIX_TERM_GRACE_MS,
                kill_wait_ms: POSIX_KILL_WAIT_MS,
                keep_background: false,
            },
            Profile::Win32 => Self {
                profile,
                eof_grace_ms: WIN32_EOF_GRACE_MS,
                term_grace_ms: 0,
                kill_wait_ms: WIN32_KILL_WAIT_MS,
                keep_background: false,
            },
        }
    }

    /// The same windows with the EOF window lengthened to `eof_grace_ms`; it is never shortened (decision D13).
    #[must_use]
    pub fn with_eof_grace_ms(mut self, eof_grace_ms: Option<u64>) -> Self {
        self.eof_grace_ms = self.eof_grace_ms.max(eof_grace_ms.unwrap_or(0));
        self
    }

    /// Why these windows may not be used, if they may not: none is shorter than the stock one (rule 1.6.2).
    pub fn refusal(&self) -> Option<String> {
        let stock = Self::stock(self.profile);
        let windows = [
            ("eof_grace_ms", self.eof_grace_ms, stock.eof_grace_ms),
            ("term_grace_ms", self.term_grace_ms, stock.term_grace_ms),
            ("kill_wait_ms", self.kill_wait_ms, stock.kill_wait_ms),
        ];
        windows.into_iter().find(|(_, asked, least)| asked < least).map(|(name, asked, least)| {
            format!("{name} is {asked}, and may not be shorter than {least}")
        })
    }
}

/// How a child ended (decision D10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum EndedHow {
    /// Inside its EOF window, never signalled.
    OnEof,
    /// After SIGTERM.
    AfterTerm,
    /// After SIGKILL or a tree kill.
    AfterKill,
    /// The host had not asked for it.
    ByItself,
    /// No process ever existed.
    NeverStarted,
}

/// What the ladder wants done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// Close the child's stdin.
    CloseStdin,
    /// Signal the child's group.
    Signal(Signal),
    /// Every window has passed and the child has not been seen to end: its end is unproven, and the next caller runs
    /// the ladder again in full (rule 1.6.8).
    GiveUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Step {
    Eof,
    Term,
    Kill,
    GaveUp,
}

/// One run of the ladder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ladder {
    policy: LadderPolicy,
    step: Step,
    until: Mono,
    /// An earlier run has come to force: whatever rung the child leaves on, it did not leave by itself.
    forced: bool,
}

impl Ladder {
    /// Begins at stdin EOF, which the caller carries out now.
    pub fn begin(policy: LadderPolicy, now: Mono) -> (Self, Rung) {
        let until = now.plus_ms(policy.eof_grace_ms);
        (Self { policy, step: Step::Eof, until, forced: false }, Rung::CloseStdin)
    }

    /// Begins again after a run that has proven nothing (rule 1.6.8).
    pub fn begin_again(policy: LadderPolicy, now: Mono) -> (Self, Rung) {
        let (ladder, rung) = Self::begin(policy, now);
        (Self { forced: true, ..ladder }, rung)
    }

    /// When the present window closes; `None` once given up.
    pub fn deadline(&self) -> Option<Mono> {
        (self.step != Step::GaveUp).then_some(self.until)
    }

    /// The next rung, once the present window has passed.
    pub fn handle_deadline(&mut self, now: Mono) -> Option<Rung> {
        if self.step == Step::GaveUp || now < self.until {
            return None;
        }
        let (step, window_ms, rung) = match (self.step, self.policy.profile) {
            (Step::Eof, Profile::Posix) => {
                (Step::Term, self.policy.term_grace_ms, Rung::Signal(Signal::Term))
            }
            (Step::Eof, Profile::Win32) | (Step::Term, _) => {
                (Step::Kill, self.policy.kill_wait_ms, Rung::Signal(Signal::Kill))
            }
            (Step::Kill | Step::GaveUp, _) => (Step::GaveUp, 0, Rung::GiveUp),
        };
        self.step = step;
        self.until = now.plus_ms(window_ms);
        Some(rung)
    }

    /// How a child that is seen to end now has ended.
    pub fn ended_how(&self) -> EndedHow {
        match self.step {
            _ if self.forced => EndedHow::AfterKill,
            Step::Eof => EndedHow::OnEof,
            Step::Term => EndedHow::AfterTerm,
            Step::Kill | Step::GaveUp => EndedHow::AfterKill,
        }
    }

    /// Whether every window has passed without an end.
    pub fn gave_up(&self) -> bool {
        self.step == Step::GaveUp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rungs(policy: LadderPolicy) -> Vec<(u64, Rung)> {
        let start = Mono::from_ms(10_000);
        let (mut ladder, first) = Ladder::begin(policy, start);
        let mut seen = vec![(0, first)];
        while let Some(at) = ladder.deadline() {
            assert_eq!(ladder.handle_deadline(Mono(at.0 - 1)), None, "no force before its window");
            let rung = ladder.handle_deadline(at).expect("a window that passed has a rung");
            seen.push((at.as_ms() - start.as_ms(), rung));
        }
        seen
    }

    #[test]
    fn posix_goes_eof_then_term_after_1000_then_kill_after_3000_then_gives_up() {
        assert_eq!(
            rungs(LadderPolicy::stock(Profile::Posix)),
            [
                (0, Rung::CloseStdin),
                (1_000, Rung::Signal(Signal::Term)),
                (4_000, Rung::Signal(Signal::Kill)),
                (5_500, Rung::GiveUp),
            ]
        );
    }

    #[test]
    fn win32_has_no_term_and_kills_the_tree_after_1500() {
        assert_eq!(
            rungs(LadderPolicy::stock(Profile::Win32)),
            [(0, Rung::CloseStdin), (1_500, Rung::Signal(Signal::Kill)), (6_500, Rung::GiveUp)]
        );
    }

    #[test]
    fn a_definition_lengthens_the_eof_window_and_never_shortens_it() {
        let stock = LadderPolicy::stock(Profile::Posix);
        assert_eq!(stock.clone().with_eof_grace_ms(Some(7_000)).eof_grace_ms, 7_000);
        assert_eq!(stock.clone().with_eof_grace_ms(Some(10)).eof_grace_ms, 1_000);
        assert_eq!(stock.refusal(), None);
        let short = LadderPolicy { eof_grace_ms: 999, ..stock };
        assert_eq!(
            short.refusal().as_deref(),
            Some("eof_grace_ms is 999, and may not be shorter than 1000")
        );
    }

    #[test]
    fn how_a_child_ended_is_the_rung_it_left_on() {
        let (mut ladder, _) = Ladder::begin(LadderPolicy::stock(Profile::Posix), Mono::ZERO);
        assert_eq!(ladder.ended_how(), EndedHow::OnEof);
        ladder.handle_deadline(Mono::from_ms(1_000));
        assert_eq!(ladder.ended_how(), EndedHow::AfterTerm);
        ladder.handle_deadline(Mono::from_ms(4_000));
        assert_eq!(ladder.ended_how(), EndedHow::AfterKill);
    }
}
