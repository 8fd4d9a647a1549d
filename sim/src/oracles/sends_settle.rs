//! Every message settles, once; and with its turn everything that was open in it.

use std::collections::BTreeMap;

use moored::failure::FailureCode;
use moored::ids::{MessageId, SessionId};
use moored::journal::{DispatchRow, DispatchState, Fold, RowKind, Touched};
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Rest, Verdict};
use crate::witness::{Facts, HostNo, Seen};

/// A message is stored, handed over once by the host that took it, and settled once; what was queued at a Stop is
/// withdrawn; at rest nothing is queued, on the wire, asked or running.
#[derive(Default)]
pub(super) struct SendsSettleOnce {
    sessions: BTreeMap<SessionId, BTreeMap<MessageId, Sent>>,
}

struct Sent {
    host: HostNo,
    state: Option<DispatchState>,
    /// A person's Stop came while it was queued.
    withdrawn: bool,
}

/// What a later host can say of a message: one on the wire is unknown, one that never was is rejected for the restart
/// (rule 6.11.1).
fn is_known_to_another(was: Option<DispatchState>, now: &DispatchRow) -> bool {
    match (was, now.state) {
        (Some(DispatchState::HandedOver), new) => new == DispatchState::Unknown,
        (None, DispatchState::Rejected) => {
            now.fact.as_ref().is_some_and(|fact| fact.code == FailureCode::HostRestarted)
        }
        _ => true,
    }
}

impl Oracle for SendsSettleOnce {
    fn name(&self) -> &'static str {
        "sends-settle-once"
    }

    fn rule(&self) -> &'static str {
        "5.1.3, 5.2.1, 5.8.1, 3.1.1, 2.3.1, 6.11.1"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        let Seen::Stored { unit, host } = seen else { return Ok(()) };
        let session = &unit.session;
        for row in &unit.rows {
            let seq = row.seq;
            if rows::stop(row).is_some_and(|stop| stop.reason.is_a_persons()) {
                let sends = rows::of(&mut self.sessions, session).values_mut();
                sends.filter(|sent| sent.state.is_none()).for_each(|sent| sent.withdrawn = true);
            }
            if let RowKind::Submission { message_id, .. } = &row.kind {
                let sends = rows::of(&mut self.sessions, session);
                let sent = Sent { host: *host, state: None, withdrawn: false };
                if sends.insert(message_id.clone(), sent).is_some() {
                    return Err(format!(
                        "row {seq} of {session} stores {message_id} a second time"
                    ));
                }
            }
            for dispatch in rows::dispatches(row) {
                let sends = rows::of(&mut self.sessions, session);
                let message = &dispatch.message_id;
                let Some(sent) = sends.get_mut(message) else {
                    return Err(format!(
                        "row {seq} of {session} is about {message}, which was never sent"
                    ));
                };
                let new = dispatch.state;
                if new == DispatchState::HandedOver && sent.host != *host {
                    let took = sent.host;
                    return Err(format!(
                        "host {host} hands over {message} of {session}, which host {took} took and left unsent"
                    ));
                }
                if sent.host != *host && !is_known_to_another(sent.state, dispatch) {
                    let took = sent.host;
                    return Err(format!(
                        "host {host} makes {message} of {session} {new:?}, and only host {took}, which took it, could tell"
                    ));
                }
                if new == DispatchState::HandedOver && sent.withdrawn {
                    return Err(format!(
                        "{message} of {session} is handed over, and a Stop withdrew it"
                    ));
                }
                let follows = match sent.state {
                    None => matches!(new, DispatchState::HandedOver | DispatchState::Rejected),
                    Some(DispatchState::HandedOver) => new != DispatchState::HandedOver,
                    Some(_) => false,
                };
                if !follows {
                    let was = sent.state.map_or("queued".to_owned(), |state| format!("{state:?}"));
                    return Err(format!(
                        "row {seq} of {session} makes {message} {new:?}, which was {was}"
                    ));
                }
                sent.state = Some(new);
            }
        }
        Ok(())
    }

    fn at_rest(&mut self, rest: &Rest<'_>) -> Verdict {
        for session in rest.sessions {
            let mut fold = Fold::new();
            session.rows.iter().for_each(|row| fold.apply(row, &mut Touched::unheard()));
            let id = &session.id;
            if let Some(message) = fold.queued().chain(fold.outstanding()).next() {
                return Err(format!("{message} of {id} is neither sent nor refused at rest"));
            }
            if let Some(item) = fold.pending_approvals().chain(fold.running_tools()).next() {
                return Err(format!("{item} of {id} is still open at rest"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use moored::journal::{ItemBody, StopReason, ToolBody, ToolStatus};

    use super::super::kit::{Story, dispatch, item, stop, submission};
    use super::*;

    fn story() -> Story {
        let handed_over = dispatch(1, DispatchState::HandedOver);
        Story::of(SendsSettleOnce::default()).stored(1, [submission(1), handed_over])
    }

    fn tool(status: ToolStatus) -> RowKind {
        let body = ToolBody {
            tool_call_id: "call".to_owned(),
            title: "make".to_owned(),
            tool_kind: None,
            status,
            ended_as: None,
            input: None,
            output: None,
            late: false,
        };
        item("tool:call", ItemBody::Tool(body))
    }

    #[test]
    fn a_message_that_settles_once_holds() {
        let settled = story().stored(1, [dispatch(1, DispatchState::Accepted)]);
        settled.stored(1, [tool(ToolStatus::Completed)]).rests(&[]).holds();
        let refused = [submission(2), dispatch(2, DispatchState::Rejected)];
        Story::of(SendsSettleOnce::default()).stored(1, refused).rests(&[]).holds();
    }

    #[test]
    fn another_fate_a_second_row_and_none_are_found() {
        let unknown = story().stored(1, [dispatch(1, DispatchState::Unknown)]);
        unknown.stored(1, [dispatch(1, DispatchState::HandedOver)]).breaks("which was Unknown");
        story().stored(1, [submission(1)]).breaks("stores m1 a second time");
        story().stored(1, [dispatch(2, DispatchState::Rejected)]).breaks("which was never sent");
        story().rests(&[]).breaks("m1 of s1 is neither sent nor refused");
        let early = Story::of(SendsSettleOnce::default()).stored(1, [submission(1)]);
        early.stored(1, [dispatch(1, DispatchState::Accepted)]).breaks("which was queued");
    }

    #[test]
    fn what_another_host_took_and_what_a_stop_withdrew_is_not_handed_over() {
        let handed_over = || [dispatch(1, DispatchState::HandedOver)];
        let sent = || Story::of(SendsSettleOnce::default()).stored(1, [submission(1)]);
        sent().stored_by(1, 1, handed_over(), None).breaks("which host 0 took and left unsent");
        let stopped = sent().stored(1, [stop(StopReason::UserStop, None)]);
        stopped.stored(1, handed_over()).breaks("a Stop withdrew it");
        let overtaken = sent().stored(1, handed_over());
        overtaken.stored(1, [stop(StopReason::UserStop, None)]).holds();
    }

    #[test]
    fn a_later_host_knows_no_more_of_a_message_than_that_its_host_is_gone() {
        let by_another =
            |state| move |story: Story| story.stored_by(1, 1, [dispatch(1, state)], None);
        let sent = || Story::of(SendsSettleOnce::default()).stored(1, [submission(1)]);
        by_another(DispatchState::Unknown)(story()).holds();
        let RowKind::Dispatch(mut row) = dispatch(1, DispatchState::Rejected) else {
            panic!("it is a dispatch");
        };
        row.fact = Some(moored::failure::FailureFact::new(FailureCode::HostRestarted));
        sent().stored_by(1, 1, [RowKind::Dispatch(row)], None).holds();
        let words = "only host 0, which took it, could tell";
        by_another(DispatchState::Rejected)(sent()).breaks(words);
        by_another(DispatchState::Rejected)(story()).breaks(words);
        by_another(DispatchState::Accepted)(story()).breaks(words);
    }

    #[test]
    fn a_call_that_runs_at_rest_is_found() {
        let open = story().stored(1, [dispatch(1, DispatchState::Accepted)]);
        open.stored(1, [tool(ToolStatus::Running)]).rests(&[]).breaks("is still open at rest");
    }
}
