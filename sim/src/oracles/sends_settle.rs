//! Every message settles, once; and with its turn everything that was open in it.

use std::collections::BTreeMap;

use moored::ids::{MessageId, SessionId};
use moored::journal::{DispatchState, Fold, RowKind, Touched};
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Rest, Verdict};
use crate::witness::{Facts, Seen};

/// A message is stored, handed over once, and settled once; at rest nothing is queued, on the wire, asked or running.
#[derive(Default)]
pub(super) struct SendsSettleOnce {
    sessions: BTreeMap<SessionId, BTreeMap<MessageId, Option<DispatchState>>>,
}

impl Oracle for SendsSettleOnce {
    fn name(&self) -> &'static str {
        "sends-settle-once"
    }

    fn rule(&self) -> &'static str {
        "5.1.3, 5.2.1, 2.3.1"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        let Seen::Stored { unit, .. } = seen else { return Ok(()) };
        let session = &unit.session;
        for row in &unit.rows {
            let seq = row.seq;
            if let RowKind::Submission { message_id, .. } = &row.kind {
                let sends = rows::of(&mut self.sessions, session);
                if sends.insert(message_id.clone(), None).is_some() {
                    return Err(format!(
                        "row {seq} of {session} stores {message_id} a second time"
                    ));
                }
            }
            for dispatch in rows::dispatches(row) {
                let sends = rows::of(&mut self.sessions, session);
                let message = &dispatch.message_id;
                let Some(state) = sends.get_mut(message) else {
                    return Err(format!(
                        "row {seq} of {session} is about {message}, which was never sent"
                    ));
                };
                let new = dispatch.state;
                let follows = match state {
                    None => matches!(new, DispatchState::HandedOver | DispatchState::Rejected),
                    Some(DispatchState::HandedOver) => new != DispatchState::HandedOver,
                    Some(_) => false,
                };
                if !follows {
                    let was = state.map_or("queued".to_owned(), |state| format!("{state:?}"));
                    return Err(format!(
                        "row {seq} of {session} makes {message} {new:?}, which was {was}"
                    ));
                }
                *state = Some(new);
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
    use moored::journal::{ItemBody, ToolBody, ToolStatus};

    use super::super::kit::{Story, dispatch, item, submission};
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
    fn a_call_that_runs_at_rest_is_found() {
        let open = story().stored(1, [dispatch(1, DispatchState::Accepted)]);
        open.stored(1, [tool(ToolStatus::Running)]).rests(&[]).breaks("is still open at rest");
    }
}
