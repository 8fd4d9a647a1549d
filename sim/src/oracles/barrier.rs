//! An agent that offers it saves a turn that was cut before its stdin is closed, and is not waited for without end.

use std::collections::{BTreeMap, BTreeSet};

use moored::agent::Barrier;
use moored::ids::SessionId;
use moored::journal::SendMode;
use moored::limits::{CLOSE_BARRIER_MS, STOP_GRACE_MS};
use moored::platform::Mono;
use moored::store::Refusal;
use serde::Deserialize;

use super::{Oracle, Verdict};
use crate::scenario::{Act, Fault};
use crate::witness::{ChildNo, Facts, HostNo, Line, Seen, Shape, same_id};

/// What a timer may be late by.
const LATE_MS: u64 = 100;
/// An answer may be on its way this long, and counts for none.
const ON_ITS_WAY_MS: u64 = 1_000;
/// The press that ends it (decision D14).
const PRESSES_TO_CUT: usize = 3;

/// Between the answer to a cancel and stdin EOF comes `session/close`, where it is offered; then its answer, or its 8 000 ms,
/// or somebody who presses again.
#[derive(Default)]
pub(super) struct SavedBeforeItsEnd {
    children: BTreeMap<ChildNo, Child>,
    /// Sessions in which a cancel may make way for a steer: which cancel a Stop's is cannot be told.
    steered: BTreeSet<SessionId>,
    /// Sessions whose agent's definition switches it off.
    off: BTreeSet<SessionId>,
    /// Stops and closes of each session: one may be on its way when the cancel of another is written.
    presses: BTreeMap<SessionId, usize>,
    /// Hosts that lost their store.
    lost: BTreeSet<HostNo>,
    /// Something was done to the world: what an agent writes may be read late, or never.
    struck: bool,
    /// The machine slept, and no timer ran.
    slept: bool,
}

#[derive(Default)]
struct Child {
    initialize: Option<String>,
    offers: bool,
    prompted: bool,
    cancelled: Option<Mono>,
    cancel_answered: bool,
    close: Option<(String, Mono)>,
    close_answered: bool,
    /// Somebody pressed Stop after the cancel.
    pressed: bool,
    /// It closed a stream of its own.
    broken: bool,
}

impl Child {
    fn closed(&self, now: Mono, no: ChildNo, owes: bool) -> Verdict {
        let Some((_, asked)) = &self.close else {
            return match owes && self.offers && self.cancel_answered {
                true => Err(format!(
                    "the stdin of child {no} is closed, and it was not asked to save what was cut"
                )),
                false => Ok(()),
            };
        };
        let had_us = now.0.saturating_sub(asked.0);
        let had = had_us / 1_000;
        if had > CLOSE_BARRIER_MS + LATE_MS {
            return Err(format!(
                "the stdin of child {no} is closed {had} ms after it was asked to save"
            ));
        }
        if !self.close_answered && !self.pressed && had_us < CLOSE_BARRIER_MS * 1_000 {
            return Err(format!(
                "the stdin of child {no} is closed {had} ms after it was asked to save, and it has not answered"
            ));
        }
        Ok(())
    }

    fn asked(&mut self, now: Mono, no: ChildNo, line: &Line<'_>) -> Verdict {
        match (line.method(), line.id) {
            (Some("initialize"), Some(id)) => self.initialize = Some(id.to_owned()),
            (Some("session/prompt"), _) => {
                self.prompted = true;
                (self.cancelled, self.cancel_answered) = (None, false);
            }
            (Some("session/cancel"), _) if self.prompted => {
                self.cancelled = self.cancelled.or(Some(now));
            }
            (Some("session/close"), Some(id)) => {
                if self.close.is_some() {
                    return Err(format!("child {no} is asked twice to save"));
                }
                if !self.offers {
                    return Err(format!("child {no} is asked to save, which it does not offer"));
                }
                self.close = Some((id.to_owned(), now));
            }
            _ => {}
        }
        Ok(())
    }

    fn answers(&mut self, now: Mono, line: &Line<'_>, answers_prompt: bool) {
        let means = |asked: &str| line.id.is_some_and(|id| same_id(asked, id));
        if self.initialize.as_deref().is_some_and(means) {
            self.initialize = None;
            self.offers = offers_close(line.bytes);
        } else if self.close.as_ref().is_some_and(|(id, _)| means(id)) {
            self.close_answered = true;
        } else if answers_prompt {
            self.prompted = false;
            let had = self.cancelled.map(|at| now.0.saturating_sub(at.0) / 1_000);
            self.cancel_answered = had.is_some_and(|ms| ms + ON_ITS_WAY_MS < STOP_GRACE_MS);
        }
    }
}

/// Whether an answer to `initialize` offers `session/close`.
fn offers_close(answer: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Answer {
        result: serde_json::Value,
    }
    let close = "/agentCapabilities/sessionCapabilities/close";
    serde_json::from_slice::<Answer>(answer)
        .is_ok_and(|answer| answer.result.pointer(close).is_some_and(serde_json::Value::is_object))
}

impl Oracle for SavedBeforeItsEnd {
    fn name(&self) -> &'static str {
        "saved-before-its-end"
    }

    fn rule(&self) -> &'static str {
        "D13, D14"
    }

    fn see(&mut self, now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::HostWrote { child, line } => {
                return self.children.entry(*child).or_default().asked(now, *child, line);
            }
            Seen::AgentWrote { child, line, answers_prompt } if line.shape == Shape::Answer => {
                self.children.entry(*child).or_default().answers(now, line, *answers_prompt);
            }
            Seen::Stored { unit, .. } => {
                if let Some(change) = &unit.record
                    && change.record.agent.barrier == Barrier::Off
                {
                    self.off.insert(unit.session.clone());
                }
            }
            Seen::AgentClosed { child, .. } => {
                self.children.entry(*child).or_default().broken = true
            }
            Seen::Called { act: Act::Send { mode: SendMode::Steer, .. }, session, .. } => {
                self.steered.insert((*session).clone());
            }
            // A close is a Stop as well (rule 3.9.1).
            Seen::Called { act: Act::Stop { .. } | Act::Close { .. }, session, .. } => {
                *self.presses.entry((*session).clone()).or_default() += 1;
                let of = |no: &ChildNo| facts.children[*no].session == **session;
                let cancelled = self
                    .children
                    .iter_mut()
                    .filter(|(no, c)| of(no) && (c.cancelled.is_some() || c.close.is_some()));
                cancelled.for_each(|(_, child)| child.pressed = true);
            }
            Seen::Struck { fault, .. } => {
                self.struck = true;
                self.slept |= matches!(fault, Fault::Suspend { .. });
            }
            Seen::UnitAnswered { host, refusal: Some(refusal), .. } => {
                self.struck = true;
                if !matches!(refusal, Refusal::Retry { .. }) {
                    self.lost.insert(*host);
                }
            }
            Seen::StdinClosed { child, by_crash: false, broken: false } => {
                let (Some(of), Some(kept)) = (facts.children.get(*child), self.children.get(child))
                else {
                    return Ok(());
                };
                let excused = of.exit.is_some()
                    || of.lost
                    || kept.broken
                    || self.slept
                    || self.presses.get(&of.session).is_some_and(|n| *n >= PRESSES_TO_CUT)
                    || self.lost.contains(&of.host);
                if !excused {
                    let owes = !self.struck
                        && !self.steered.contains(&of.session)
                        && !self.off.contains(&of.session);
                    return kept.closed(now, *child, owes);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::kit::Story;
    use super::*;
    use crate::scenario::NamedTurn;

    const ANSWER: &str = r#"{"id":1,"result":{"stopReason":"cancelled"}}"#;
    const CLOSE: &str = r#"{"id":2,"method":"session/close","params":{"sessionId":"a"}}"#;
    const CLOSED: &str = r#"{"id":2,"result":{}}"#;

    fn started(session: &str) -> Story {
        let answer = format!(
            r#"{{"id":0,"result":{{"agentCapabilities":{{"sessionCapabilities":{session}}}}}}}"#
        );
        let story = Story::of(SavedBeforeItsEnd::default()).spawned(0);
        let story = story.host_wrote(0, r#"{"id":0,"method":"initialize","params":{}}"#);
        let prompt = super::super::kit::prompt(1);
        story.agent_wrote(0, &answer).host_wrote(0, &prompt).agent_read(0, &prompt)
    }

    fn cancelled() -> Story {
        started(r#"{"close":{}}"#).at_ms(10).cancels(0)
    }

    fn asked() -> Story {
        cancelled().at_ms(20).agent_wrote(0, ANSWER).host_wrote(0, CLOSE)
    }

    fn stop() -> Act {
        Act::Stop { session: 0, turn: NamedTurn::None }
    }

    #[test]
    fn its_answer_or_its_time_or_a_press_comes_before_the_end() {
        asked().at_ms(5_000).agent_wrote(0, CLOSED).stdin_closed(0).holds();
        asked().at_ms(8_020).stdin_closed(0).holds();
        asked().called(&stop()).at_ms(100).stdin_closed(0).holds();
        asked().dies(&super::super::kit::root(0)).stdin_closed(0).holds();
    }

    #[test]
    fn nobody_is_asked_who_does_not_offer_it_or_did_not_answer_in_time() {
        let plain = started(r#"{"resume":{}}"#).at_ms(10).cancels(0).agent_wrote(0, ANSWER);
        plain.stdin_closed(0).holds();
        cancelled().at_ms(4_010).stdin_closed(0).holds();
        cancelled().at_ms(3_900).agent_wrote(0, ANSWER).at_ms(4_010).stdin_closed(0).holds();
        // It had answered before.
        let crossed = started(r#"{"close":{}}"#).agent_wrote(0, ANSWER).at_ms(10).cancels(0);
        crossed.stdin_closed(0).holds();
    }

    #[test]
    fn an_end_without_it_before_it_and_long_after_it_are_found() {
        let forgotten = cancelled().at_ms(20).agent_wrote(0, ANSWER).at_ms(21).stdin_closed(0);
        forgotten.breaks("was not asked to save");
        asked().at_ms(8_019).stdin_closed(0).breaks("has not answered");
        asked().at_ms(8_121).stdin_closed(0).breaks("closed 8101 ms after");
        asked().host_wrote(0, CLOSE).breaks("asked twice");
        started("{}").host_wrote(0, CLOSE).breaks("does not offer");
    }
}
