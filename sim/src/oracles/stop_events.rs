//! What the journal says of each Stop: whose it is, what it reaches, and once (rules 3.3, 3.8.2, 3.9, 3.10).

use std::collections::{BTreeMap, BTreeSet};

use moored::failure::{FailureCode, RefusalCode};
use moored::ids::{MessageId, SessionId, TurnKey};
use moored::journal::{DispatchState, Row, RowKind, StopEvent, StopReason, TurnState};
use moored::platform::Mono;
use moored::store::Unit;

use super::rows;
use super::{Oracle, Verdict};
use crate::scenario::{Act, NamedTurn};
use crate::witness::{Facts, Seen};

/// An event names the turn that runs and none that is over; a second press on that turn writes none; the host's own stop
/// writes one only where it ends work that no person's Stop owns; what it withdraws is rejected in its own name.
#[derive(Default)]
pub(super) struct StopEvents {
    sessions: BTreeMap<SessionId, Session>,
}

#[derive(Default)]
struct Session {
    running: Option<TurnKey>,
    over: BTreeSet<TurnKey>,
    handed_over: BTreeSet<MessageId>,
    /// The newest Stop, and whether anything was sent since.
    stop: Option<(StopEvent, bool)>,
    /// Somebody pressed for a turn that was over, and for one that was not as far as they knew.
    named_over: bool,
    named_otherwise: bool,
}

impl Session {
    fn learn(&mut self, row: &Row) {
        for turn in rows::turns(row) {
            let is_running = turn.state == TurnState::Running;
            if is_running {
                self.running = Some(turn.turn.clone());
            } else if self.running.as_ref() == Some(&turn.turn) {
                self.running = None;
            }
            if matches!(turn.state, TurnState::Completed | TurnState::Interrupted) {
                self.over.insert(turn.turn.clone());
            }
        }
        for dispatch in rows::dispatches(row) {
            match dispatch.state {
                DispatchState::HandedOver => {
                    self.handed_over.insert(dispatch.message_id.clone());
                }
                _ => {
                    self.handed_over.remove(&dispatch.message_id);
                }
            }
        }
        if let (RowKind::Submission { .. }, Some((_, sent))) = (&row.kind, &mut self.stop) {
            *sent = true;
        }
    }

    /// What is wrong with an event that is written now; `worked` is whether anything was at work before its unit.
    fn refuse(&self, stop: &StopEvent, worked: bool, withdraws: bool) -> Option<String> {
        let running = self.running.as_ref();
        if stop.reason == StopReason::HostStop {
            return Some("is of a host that quits, which writes none (rule 3.10.3)".to_owned());
        }
        if let Some(turn) = stop.turn.as_ref().filter(|turn| self.over.contains(*turn)) {
            return Some(format!("names {turn}, which is over (rule 3.3.2)"));
        }
        if let Some(turn) = running.filter(|turn| stop.turn.as_ref() != Some(turn)) {
            return Some(format!("does not name {turn}, which runs (rule 3.3.1)"));
        }
        if let Some(turn) =
            running.filter(|_| stop.named && self.named_over && !self.named_otherwise)
        {
            return Some(format!("stops {turn} for one that was over (rule 3.2.4)"));
        }
        let same = |(last, sent): &&(StopEvent, bool)| {
            last.reason.is_a_persons() && !sent && running.is_some() && last.turn == stop.turn
        };
        match (stop.reason, self.stop.as_ref().filter(same)) {
            (StopReason::UserStop, Some((last, _)))
                if last.reason == StopReason::UserStop && !withdraws =>
            {
                Some("repeats the last one (rule 3.3.3)".to_owned())
            }
            (StopReason::Evict, Some(_)) => {
                Some("takes the turn away from a person's Stop (rule 3.10.2)".to_owned())
            }
            (StopReason::Evict, None) if !worked => {
                Some("is of a host's stop that ends no work (rule 3.10.1)".to_owned())
            }
            _ => None,
        }
    }
}

/// A message is rejected in the name of whoever withdrew it.
fn misnamed(unit: &Unit) -> Option<String> {
    let reason = unit.rows.iter().find_map(rows::stop)?.reason;
    let code = match reason {
        StopReason::UserStop => FailureCode::Cancelled,
        StopReason::UserClose => FailureCode::ChatClosed,
        _ => return None,
    };
    let mut rejected = unit.rows.iter().flat_map(rows::dispatches);
    let wrong = rejected.find(|dispatch| {
        dispatch.state == DispatchState::Rejected
            && dispatch.fact.as_ref().is_none_or(|fact| fact.code != code)
    })?;
    Some(format!("withdraws {} and does not say so (rules 3.8.2, 3.9.2)", wrong.message_id))
}

impl Oracle for StopEvents {
    fn name(&self) -> &'static str {
        "stop-events"
    }

    fn rule(&self) -> &'static str {
        "3.2.4, 3.3, 3.8.2, 3.9, 3.10"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        match seen {
            Seen::Called { act: Act::Stop { turn, .. }, session, .. } => {
                let kept = rows::of(&mut self.sessions, session);
                kept.named_over |= *turn == NamedTurn::Ended;
                kept.named_otherwise |= matches!(turn, NamedTurn::Running | NamedTurn::Unknown);
            }
            // It was sent all the same: a press behind it withdrew it before it was refused with its row (decision D8).
            Seen::Answered { refused: Some(name), session, .. }
                if *name == RefusalCode::NotSaved.name() =>
            {
                if let Some((_, sent)) = &mut rows::of(&mut self.sessions, session).stop {
                    *sent = true;
                }
            }
            Seen::Stored { unit, .. } => {
                let session = &unit.session;
                let kept = rows::of(&mut self.sessions, session);
                let worked = kept.running.is_some() || !kept.handed_over.is_empty();
                let mut all = unit.rows.iter().flat_map(rows::dispatches);
                let withdraws = all.any(|d| d.state == DispatchState::Rejected);
                for row in &unit.rows {
                    kept.learn(row);
                    let Some(stop) = rows::stop(row) else { continue };
                    if let Some(why) =
                        kept.refuse(stop, worked, withdraws).or_else(|| misnamed(unit))
                    {
                        let seq = row.seq;
                        return Err(format!("the Stop in row {seq} of {session} {why}"));
                    }
                    kept.stop = Some((stop.clone(), false));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use moored::failure::FailureFact;

    use super::super::kit::{Story, dispatch, message, stop, submission, turn};
    use super::*;

    fn working() -> Story {
        let rows = [submission(1), turn(1, TurnState::Running, None)];
        Story::of(StopEvents::default()).stored(1, rows)
    }

    fn stopped() -> Story {
        working().stored(1, [stop(StopReason::UserStop, Some("t1"))])
    }

    fn rejected(code: FailureCode) -> RowKind {
        RowKind::Dispatch(moored::journal::DispatchRow {
            message_id: message(2),
            state: DispatchState::Rejected,
            scope: None,
            fact: Some(FailureFact::new(code)),
            reason: None,
        })
    }

    #[test]
    fn a_stop_of_what_runs_and_another_that_withdraws_hold() {
        let again = [rejected(FailureCode::Cancelled), stop(StopReason::UserStop, Some("t1"))];
        stopped().stored(1, [submission(2)]).stored(1, again).holds();
        working().stored(1, [stop(StopReason::Evict, Some("t1"))]).holds();
        stopped().stored(1, [stop(StopReason::UserClose, Some("t1"))]).holds();
        // Between two turns none runs, and a Stop may name none.
        let over = working().stored(1, [turn(1, TurnState::Completed, None)]);
        let gap = over.stored(1, [submission(2), dispatch(2, DispatchState::HandedOver)]);
        gap.stored(1, [stop(StopReason::UserStop, None)]).holds();
    }

    #[test]
    fn an_event_that_names_the_wrong_turn_is_found() {
        working().stored(1, [stop(StopReason::UserStop, None)]).breaks("which runs");
        let over = working().stored(1, [turn(1, TurnState::Completed, None)]);
        over.stored(1, [stop(StopReason::UserStop, Some("t1"))]).breaks("which is over");
        let RowKind::Mark { mark: moored::journal::Mark::Stop(mut event) } =
            stop(StopReason::UserStop, Some("t1"))
        else {
            panic!("it is a Stop");
        };
        event.named = true;
        let named = || RowKind::Mark { mark: moored::journal::Mark::Stop(event.clone()) };
        let pressed = |turn| Act::Stop { session: 0, turn };
        let meant = working().called(&pressed(NamedTurn::Ended)).stored(1, [named()]);
        meant.breaks("for one that was over");
        working().called(&pressed(NamedTurn::Running)).stored(1, [named()]).holds();
    }

    #[test]
    fn an_event_too_many_is_found() {
        stopped().stored(1, [stop(StopReason::UserStop, Some("t1"))]).breaks("repeats");
        stopped().stored(1, [stop(StopReason::Evict, Some("t1"))]).breaks("takes the turn away");
        let idle = working().stored(1, [turn(1, TurnState::Completed, None)]);
        idle.stored(1, [stop(StopReason::Evict, None)]).breaks("ends no work");
        working().stored(1, [stop(StopReason::HostStop, Some("t1"))]).breaks("quits");
    }

    #[test]
    fn a_message_that_is_withdrawn_in_another_name_is_found() {
        let unit = |code| [rejected(code), stop(StopReason::UserStop, Some("t1"))];
        working().stored(1, unit(FailureCode::HostFault)).breaks("withdraws m2");
        let closed = [rejected(FailureCode::Cancelled), stop(StopReason::UserClose, Some("t1"))];
        working().stored(1, closed).breaks("withdraws m2");
    }
}
