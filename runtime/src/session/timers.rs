//! The machine's timers: a closed set in a fixed table.

use crate::platform::Mono;

/// What may fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// An agent-initiated turn has been quiet (decision D4).
    AgentTurnQuiet,
    /// An agent that was asked to put its session on disk has had its time (decision D13).
    CloseBarrier,
    /// A window of the ladder has passed (rule 1.6).
    Ladder,
    /// The agent's session file is being read (decision D28).
    SessionFile,
    /// Frames before stdin EOF have had their time to leave.
    StdinDrain,
    /// The tree is swept and stdout still has not ended: somebody left on purpose holds it.
    StdoutDrain,
    /// stdout ended and the root still lives (decision D34).
    StdoutEnd,
    /// A Stop or close has waited for the turn to end for 4 000 ms from the cancel (rule 3.5.2).
    StopGrace,
    /// The store refused and is asked again (decision D8).
    StoreRetry,
    /// Streamed text has waited to be committed.
    TextFlush,
}

const TIMERS: [Timer; 10] = [
    Timer::AgentTurnQuiet,
    Timer::CloseBarrier,
    Timer::Ladder,
    Timer::SessionFile,
    Timer::StdinDrain,
    Timer::StdoutDrain,
    Timer::StdoutEnd,
    Timer::StopGrace,
    Timer::StoreRetry,
    Timer::TextFlush,
];

/// When each timer fires, if it is armed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Timers {
    at: [Option<Mono>; TIMERS.len()],
}

impl Timers {
    pub(super) fn arm(&mut self, timer: Timer, at: Mono) {
        self.at[timer as usize] = Some(at);
    }

    pub(super) fn clear(&mut self, timer: Timer) {
        self.at[timer as usize] = None;
    }

    pub(super) fn is_armed(&self, timer: Timer) -> bool {
        self.at[timer as usize].is_some()
    }

    pub(super) fn next(&self) -> Option<Mono> {
        self.at.iter().flatten().min().copied()
    }

    /// The earliest timer that is due, disarmed; equal times fire in the order of the table.
    pub(super) fn take_due(&mut self, now: Mono) -> Option<Timer> {
        let due = TIMERS.into_iter().filter_map(|t| Some((self.at[t as usize]?, t)));
        let (_, timer) = due.filter(|(at, _)| *at <= now).min_by_key(|(at, _)| *at)?;
        self.clear(timer);
        Some(timer)
    }
}
