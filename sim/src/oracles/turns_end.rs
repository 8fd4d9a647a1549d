//! Every turn ends, once, and one runs at a time.

use std::collections::{BTreeMap, BTreeSet};

use moored::ids::{SessionId, TurnKey};
use moored::journal::{TurnBody, TurnState};
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Rest, Verdict};
use crate::witness::{Facts, Seen};

/// A turn that began ends once; only proof writes an unverifiable end again; what is over does not run again.
#[derive(Default)]
pub(super) struct TurnsEndOnce {
    sessions: BTreeMap<SessionId, Turns>,
}

#[derive(Default)]
struct Turns {
    running: BTreeSet<TurnKey>,
    ended: BTreeMap<TurnKey, TurnBody>,
}

/// An end that was not proven; and one that stands, with a doubt about its message (decision D20).
fn may_be_written_again(before: &TurnBody, again: &TurnBody) -> bool {
    let doubted = TurnBody { delivery_unproven: true, ..before.clone() };
    before.state == TurnState::Unverifiable || (!before.delivery_unproven && *again == doubted)
}

impl Oracle for TurnsEndOnce {
    fn name(&self) -> &'static str {
        "turns-end-once"
    }

    fn rule(&self) -> &'static str {
        "2.1.7, 2.3.8"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        let Seen::Stored { unit, .. } = seen else { return Ok(()) };
        let session = &unit.session;
        for row in &unit.rows {
            for turn in rows::turns(row) {
                let turns = rows::of(&mut self.sessions, session);
                let (name, seq) = (&turn.turn, row.seq);
                let before = turns.ended.get(name);
                if !rows::is_over(turn.state) {
                    if before.is_some() {
                        return Err(format!(
                            "row {seq} of {session} runs {name} again, which is over"
                        ));
                    }
                    turns.running.insert(name.clone());
                    continue;
                }
                if before.is_some_and(|before| !may_be_written_again(before, turn)) {
                    return Err(format!("row {seq} of {session} ends {name} a second time"));
                }
                turns.running.remove(name);
                turns.ended.insert(name.clone(), turn.clone());
            }
        }
        // One unit ends a turn and begins the next.
        let turns = self.sessions.get(session);
        match turns.map(|turns| turns.running.len()) {
            Some(count @ 2..) => Err(format!("{count} turns of {session} run at once")),
            _ => Ok(()),
        }
    }

    fn at_rest(&mut self, rest: &Rest<'_>) -> Verdict {
        for session in rest.sessions {
            let turns = self.sessions.get(&session.id);
            if let Some(turn) = turns.and_then(|turns| turns.running.first()) {
                return Err(format!("{turn} of {} still reads running at rest", session.id));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use moored::journal::{Outcome, RowKind};

    use super::super::kit::{Story, turn};
    use super::*;

    fn story() -> Story {
        Story::of(TurnsEndOnce::default()).stored(1, [turn(1, TurnState::Running, None)])
    }

    fn done() -> RowKind {
        turn(1, TurnState::Completed, Some(Outcome::Success))
    }

    #[test]
    fn one_after_the_other_holds_and_so_does_a_proof() {
        let next = [done(), turn(2, TurnState::Running, None)];
        let unproven = story().stored(1, next).stored(1, [turn(2, TurnState::Unverifiable, None)]);
        unproven.stored(2, [turn(2, TurnState::Interrupted, None)]).rests(&[]).holds();
    }

    #[test]
    fn two_ends_two_turns_a_return_and_no_end_are_found() {
        story().stored(1, [done(), done()]).breaks("ends t1 a second time");
        let again = story().stored(1, [done(), turn(1, TurnState::Running, None)]);
        again.breaks("runs t1 again");
        story().stored(1, [turn(2, TurnState::Running, None)]).breaks("2 turns of s1 run at once");
        story().rests(&[]).breaks("t1 of s1 still reads running");
    }
}
