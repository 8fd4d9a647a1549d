//! A cancelled agent has its time to answer before its stdin is closed, and no more than that.

use std::collections::{BTreeMap, BTreeSet};

use moored::ids::SessionId;
use moored::limits::STOP_GRACE_MS;
use moored::platform::Mono;
use moored::store::Refusal;

use super::rows;
use super::{Oracle, Verdict};
use crate::scenario::{Act, Fault};
use crate::witness::{ChildNo, Facts, HostNo, Seen, Shape};

/// What a timer may be late by, and the store.
const LATE_MS: u64 = 100;
/// How long a call may be on its way to its session.
const ON_ITS_WAY_US: u64 = 1_000_000;

/// After `session/cancel` its turn has 4 000 ms to end, unless somebody presses again, the store is lost, or the agent
/// itself breaks the connection. Whoever presses again does not lengthen them.
#[derive(Default)]
pub(super) struct CancelHasItsGrace {
    /// Prompts that are not answered.
    prompts: BTreeMap<ChildNo, String>,
    cancelled: BTreeMap<ChildNo, Mono>,
    /// Since when each agent is being stopped: its prompt was cancelled, and a Stop of its turn is stored.
    stopping: BTreeMap<ChildNo, Stopping>,
    fences: rows::Fences,
    /// The machine slept, and no timer ran.
    slept: bool,
    /// Hosts that lost their store.
    lost: BTreeSet<HostNo>,
    /// Agents that closed a stream of their own.
    broken: BTreeSet<ChildNo>,
    /// Agents that were asked to save: how long those have is another rule.
    asked_to_save: BTreeSet<ChildNo>,
    /// Some players tell nobody what persons do.
    calls_are_told: bool,
    /// The two latest presses of each session.
    presses: BTreeMap<SessionId, [Option<Mono>; 2]>,
}

#[derive(Default)]
struct Stopping {
    cancelled: Option<Mono>,
    stored: Option<Mono>,
}

impl CancelHasItsGrace {
    /// The wait of a living child ends: its stdin is closed, or it is asked to save.
    fn is_over(&self, child: ChildNo, now: Mono, what: &str, facts: &Facts) -> Verdict {
        let Some(of) = facts.children.get(child) else { return Ok(()) };
        let broken = of.exit.is_some()
            || of.lost
            || self.lost.contains(&of.host)
            || self.broken.contains(&child);
        if broken {
            return Ok(());
        }
        let stopping = self.stopping.get(&child).filter(|_| !self.slept);
        let since = stopping.and_then(|s| Some(s.cancelled?.max(s.stored?)));
        let had_ms = since.map_or(0, |since| now.0.saturating_sub(since.0) / 1_000);
        if had_ms > STOP_GRACE_MS + LATE_MS {
            return Err(format!(
                "the {what} of child {child} is closed {had_ms} ms after its turn was stopped"
            ));
        }
        let had_us = self.cancelled.get(&child).map(|at| now.0.saturating_sub(at.0));
        match had_us.filter(|us| *us < STOP_GRACE_MS * 1_000) {
            Some(us) if self.prompts.contains_key(&child) => Err(format!(
                "the {what} of child {child} is closed {} ms after its cancel, which is not answered",
                us / 1_000
            )),
            _ => Ok(()),
        }
    }

    /// Two presses may be on their way before the first one's cancel is written.
    fn is_pressed_twice(&self, child: ChildNo, now: Mono, facts: &Facts) -> bool {
        let session = facts.children.get(child).map(|of| &of.session);
        let presses = session.and_then(|session| self.presses.get(session));
        presses.is_some_and(|[first, _]| first.is_some_and(|at| at.0 + ON_ITS_WAY_US > now.0))
    }

    /// Whoever presses again takes the grace away.
    fn pressed(&mut self, now: Mono, session: &SessionId, facts: &Facts) {
        let presses = self.presses.entry(session.clone()).or_default();
        *presses = [presses[1], Some(now)];
        self.cancelled.retain(|child, _| facts.children[*child].session != *session);
    }
}

impl Oracle for CancelHasItsGrace {
    fn name(&self) -> &'static str {
        "cancel-has-its-grace"
    }

    fn rule(&self) -> &'static str {
        "3.5.2, 1.8.1, 1.8.2, 1.9.1"
    }

    fn see(&mut self, now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::HostWrote { child, line } => match (line.method(), line.id) {
                (Some("session/prompt"), Some(id)) => {
                    self.prompts.insert(*child, id.to_owned());
                    self.cancelled.remove(child);
                    self.stopping.remove(child);
                }
                (Some("session/cancel"), _) => {
                    if !self.is_pressed_twice(*child, now, facts) {
                        self.cancelled.insert(*child, now);
                    }
                    self.stopping.entry(*child).or_default().cancelled.get_or_insert(now);
                }
                (Some("session/close"), _) => {
                    self.asked_to_save.insert(*child);
                    // Where calls are not told, somebody may have pressed again.
                    if self.calls_are_told {
                        self.is_over(*child, now, "session", facts)?;
                    }
                }
                _ => {}
            },
            Seen::AgentWrote { child, line, .. }
                if line.shape == Shape::Answer
                    && self.prompts.get(child).map(String::as_str) == line.id =>
            {
                self.prompts.remove(child);
            }
            // The agent itself breaks the connection (decision D34).
            Seen::AgentClosed { child, .. } => {
                self.broken.insert(*child);
            }
            Seen::Stored { unit, .. } => {
                for row in &unit.rows {
                    self.fences.learn(&unit.session, row, facts);
                    if rows::stop(row).is_some_and(|stop| stop.turn.is_some())
                        && let Some(child) = self.fences.child(&unit.session, row.fence)
                    {
                        self.stopping.entry(child).or_default().stored.get_or_insert(now);
                    }
                }
            }
            Seen::Struck { fault: Fault::Suspend { .. }, .. } => self.slept = true,
            Seen::Called { act: Act::Send { .. }, .. } => self.calls_are_told = true,
            Seen::Called { act: Act::Stop { .. } | Act::Close { .. }, session, .. } => {
                self.pressed(now, session, facts);
            }
            Seen::UnitAnswered { host, refusal: Some(refusal), .. }
                if !matches!(refusal, Refusal::Retry { .. }) =>
            {
                self.lost.insert(*host);
            }
            // With the barrier or without it, the wait is over (decision D13).
            Seen::StdinClosed { child, by_crash: false, broken: false }
                if !self.asked_to_save.contains(child) =>
            {
                self.is_over(*child, now, "stdin", facts)?;
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use moored::journal::StopReason;

    use super::super::kit::{Story, root, started};
    use super::*;
    use crate::scenario::NamedTurn;

    fn cancelled() -> Story {
        Story::of(CancelHasItsGrace::default()).spawned(0).prompts(0, 1).at_ms(10).cancels(0)
    }

    #[test]
    fn the_end_waits_for_the_answer_or_the_grace_or_a_second_press() {
        cancelled().agent_wrote(0, r#"{"id":1,"result":{}}"#).at_ms(20).stdin_closed(0).holds();
        cancelled().at_ms(4_010).stdin_closed(0).holds();
        let stop = Act::Stop { session: 0, turn: NamedTurn::None };
        cancelled().called(&stop).at_ms(20).stdin_closed(0).holds();
        cancelled().dies(&root(0)).at_ms(20).stdin_closed(0).holds();
    }

    #[test]
    fn a_second_press_does_not_begin_it_anew() {
        let stop = || [super::super::kit::stop(StopReason::UserStop, Some("t1"))];
        let stopped = || {
            let story = Story::of(CancelHasItsGrace::default()).spawned(0);
            let story = story.stored(1, [started(0)]).prompts(0, 1).at_ms(10);
            story.stored(1, stop()).at_ms(20).cancels(0)
        };
        stopped().at_ms(3_000).stored(1, stop()).at_ms(4_020).stdin_closed(0).holds();
        let slept =
            stopped().see(&Seen::Struck { fault: &Fault::Suspend { ms: 9_000 }, hit: true });
        slept.at_ms(9_000).stdin_closed(0).holds();
        // What a steer cancelled is no Stop.
        cancelled().at_ms(9_000).stdin_closed(0).holds();
        let anew = stopped().at_ms(3_000).stored(1, stop()).at_ms(4_121).stdin_closed(0);
        anew.breaks("closed 4101 ms after its turn was stopped");
    }

    #[test]
    fn an_end_before_them_is_found() {
        cancelled().at_ms(4_009).stdin_closed(0).breaks("stdin of child 0 is closed 3999 ms after");
        let close = r#"{"id":2,"method":"session/close","params":{}}"#;
        let sent = super::super::kit::send_act(1);
        let early = cancelled().called(&sent).at_ms(4_009).host_wrote(0, close);
        early.breaks("session of child 0 is closed 3999 ms after its cancel");
        let answered = cancelled().agent_wrote(0, r#"{"id":1,"result":{}}"#).at_ms(20);
        answered.host_wrote(0, close).at_ms(8_020).stdin_closed(0).holds();
    }
}
