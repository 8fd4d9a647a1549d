//! One error row a death, one a failed start, one a failed turn.

use std::collections::{BTreeMap, BTreeSet};

use moored::ids::{Fence, ItemKey, SessionId, TurnKey};
use moored::journal::{ItemBody, Outcome, Tone};
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Verdict};
use crate::witness::{Facts, Seen};

/// A person reads each failure once: under one fence, no more errors than turns that failed and the one end of its child.
#[derive(Default)]
pub(super) struct OneErrorRow {
    fences: BTreeMap<(SessionId, Fence), Failures>,
}

#[derive(Default)]
struct Failures {
    errors: BTreeSet<ItemKey>,
    turns: BTreeSet<TurnKey>,
}

impl Oracle for OneErrorRow {
    fn name(&self) -> &'static str {
        "one-error-row"
    }

    fn rule(&self) -> &'static str {
        "2.2.3, 2.7.1, 5.6.1"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        let Seen::Stored { unit, .. } = seen else { return Ok(()) };
        let session = &unit.session;
        for row in &unit.rows {
            for item in rows::items(row) {
                let key = || (session.clone(), row.fence);
                match &item.body {
                    // A Stop's note tells of the Stop, not of the child.
                    ItemBody::Status(status) if status.is_unconfirmed_stop() => {}
                    ItemBody::Status(status) if status.tone == Tone::Error => {
                        let failures = self.fences.entry(key()).or_default();
                        failures.errors.insert(item.item.clone());
                    }
                    ItemBody::Turn(turn) if turn.outcome == Some(Outcome::Failure) => {
                        let failures = self.fences.entry(key()).or_default();
                        failures.turns.insert(turn.turn.clone());
                    }
                    _ => {}
                }
            }
        }
        // A failed turn's row stands before its end, in the same unit.
        let last = unit.rows.last().and_then(|row| self.fences.get(&(session.clone(), row.fence)));
        let Some(failures) = last else { return Ok(()) };
        let (errors, turns) = (failures.errors.len(), failures.turns.len());
        if errors <= turns + 1 {
            return Ok(());
        }
        Err(format!("{session} tells {errors} errors of one child, of which {turns} turns failed"))
    }
}

#[cfg(test)]
mod tests {
    use moored::journal::{RowKind, StatusBody, TurnState};

    use super::super::kit::{Story, item, turn};
    use super::*;

    fn error(key: &str) -> RowKind {
        let text = "it is gone".to_owned();
        item(key, ItemBody::Status(StatusBody { tone: Tone::Error, text, fact: None }))
    }

    #[test]
    fn a_failed_turn_and_a_death_are_two() {
        let failed = turn(1, TurnState::Completed, Some(Outcome::Failure));
        let story = Story::of(OneErrorRow::default()).stored(1, [error("failed"), failed]);
        story.stored(1, [error("death")]).stored(2, [error("start")]).holds();
    }

    #[test]
    fn a_death_that_is_told_twice_is_found() {
        let story = Story::of(OneErrorRow::default()).stored(1, [error("death")]);
        story.stored(1, [error("connection")]).breaks("s1 tells 2 errors of one child");
    }
}
