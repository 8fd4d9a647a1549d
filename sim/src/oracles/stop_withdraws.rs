//! A Stop withdraws what waits, also what an earlier Stop held back (rules 3.1.1, 3.8.1).

use std::collections::{BTreeMap, BTreeSet};

use moored::ids::{MessageId, SessionId};
use moored::journal::{DispatchState, RowKind};
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Verdict};
use crate::scenario::{Act, NamedTurn};
use crate::witness::{Facts, HostNo, Seen};

/// A message that was queued on disk when a person pressed is not handed over once the press was answered.
///
/// A handover that is on its way to the disk at the press is held back and runs later (decision D24): while the store
/// refuses nobody outside can tell the two apart, so such a session is left out.
#[derive(Default)]
pub(super) struct StopWithdraws {
    sessions: BTreeMap<SessionId, Session>,
    /// What each press that is not answered yet must withdraw.
    presses: BTreeMap<usize, (HostNo, BTreeSet<MessageId>)>,
}

#[derive(Default)]
struct Session {
    queued: BTreeSet<MessageId>,
    handed_in: BTreeSet<MessageId>,
    withdrawn: BTreeSet<MessageId>,
    refused: bool,
}

impl Oracle for StopWithdraws {
    fn name(&self) -> &'static str {
        "stop-withdraws-what-waits"
    }

    fn rule(&self) -> &'static str {
        "3.1.1, 3.8.1"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        match seen {
            Seen::Called { call, host, act, session, again: false, expects: None } => {
                let Act::Stop { turn: NamedTurn::None, .. } = act else { return Ok(()) };
                let queued = rows::of(&mut self.sessions, session).queued.clone();
                self.presses.insert(*call, (*host, queued));
            }
            Seen::Answered { call, refused, session, .. } => {
                let Some((_, queued)) = self.presses.remove(call) else { return Ok(()) };
                let kept = rows::of(&mut self.sessions, session);
                if refused.is_none() && !kept.refused {
                    let waits = queued.into_iter().filter(|m| !kept.handed_in.contains(m));
                    kept.withdrawn.extend(waits);
                }
            }
            Seen::UnitAnswered { session, refusal: Some(_), .. } => {
                rows::of(&mut self.sessions, session).refused = true;
            }
            Seen::Submitted { unit, .. } => {
                let kept = rows::of(&mut self.sessions, &unit.session);
                for dispatch in unit.rows.iter().flat_map(rows::dispatches) {
                    if dispatch.state == DispatchState::HandedOver {
                        kept.handed_in.insert(dispatch.message_id.clone());
                    }
                }
            }
            Seen::Stored { unit, .. } => {
                let kept = rows::of(&mut self.sessions, &unit.session);
                for row in &unit.rows {
                    if let RowKind::Submission { message_id, .. } = &row.kind {
                        kept.queued.insert(message_id.clone());
                    }
                    for dispatch in rows::dispatches(row) {
                        let message = &dispatch.message_id;
                        kept.queued.remove(message);
                        if dispatch.state == DispatchState::HandedOver
                            && kept.withdrawn.contains(message)
                        {
                            let session = &unit.session;
                            return Err(format!(
                                "{message} of {session} waited at a Stop, and is handed over behind it"
                            ));
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::kit::{Story, dispatch, submission};
    use super::*;

    fn press() -> Act {
        Act::Stop { session: 0, turn: NamedTurn::None }
    }

    fn pressed() -> Story {
        let story = Story::of(StopWithdraws::default()).stored(1, [submission(1)]);
        story.called(&press()).answered(0, None)
    }

    #[test]
    fn what_waited_is_withdrawn_and_what_comes_later_runs() {
        let withdrawn = pressed().stored(1, [dispatch(1, DispatchState::Rejected)]);
        let later = withdrawn.stored(1, [submission(2), dispatch(2, DispatchState::HandedOver)]);
        later.holds();
    }

    #[test]
    fn what_runs_in_spite_of_it_is_found() {
        pressed().stored(1, [dispatch(1, DispatchState::HandedOver)]).breaks("waited at a Stop");
    }

    #[test]
    fn a_handover_that_was_on_its_way_is_held_back_instead() {
        let story = Story::of(StopWithdraws::default()).stored(1, [submission(1)]);
        let story = story.called(&press()).stored(1, [dispatch(1, DispatchState::HandedOver)]);
        story.answered(0, None).holds();
    }
}
