//! Invariant 4: the row is on disk before anybody outside may see what it stands for.

use std::collections::{BTreeMap, BTreeSet};

use moored::ids::{ItemKey, MessageId, SessionId, SpawnToken};
use moored::journal::{DispatchState, ItemBody, RowKind};
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Verdict};
use crate::scenario::Act;
use crate::witness::{ChildNo, Facts, Line, Seen};

/// A prompt follows its dispatch row, a spawn its reservation, and an acknowledgement its row.
#[derive(Default)]
pub(super) struct PersistBeforeAct {
    sessions: BTreeMap<SessionId, Durable>,
    calls: BTreeMap<usize, Called>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Called {
    Answer,
    Close,
    Send,
}

#[derive(Default)]
struct Durable {
    texts: BTreeMap<String, Vec<MessageId>>,
    submitted: BTreeSet<MessageId>,
    handed_over: BTreeSet<MessageId>,
    answered: BTreeSet<ItemKey>,
    answers: usize,
    token: Option<SpawnToken>,
    closed: bool,
}

impl PersistBeforeAct {
    fn learn(&mut self, unit: &moored::store::Unit) {
        let durable = rows::of(&mut self.sessions, &unit.session);
        for row in &unit.rows {
            if let RowKind::Submission { message_id, text, .. } = &row.kind {
                durable.submitted.insert(message_id.clone());
                durable.texts.entry(text.0.clone()).or_default().push(message_id.clone());
            }
            for dispatch in rows::dispatches(row) {
                if dispatch.state == DispatchState::HandedOver {
                    durable.handed_over.insert(dispatch.message_id.clone());
                }
            }
            for item in rows::items(row) {
                if let ItemBody::Approval(approval) = &item.body
                    && approval.resolved_by.is_some()
                {
                    durable.answered.insert(item.item.clone());
                }
            }
        }
        if let Some(change) = &unit.record {
            durable.token.clone_from(&change.record.lease.token);
            durable.closed = change.record.closed;
        }
    }

    fn prompted(&mut self, child: ChildNo, line: &Line<'_>, facts: &Facts) -> Verdict {
        let (Some(child_facts), Some(text)) = (facts.children.get(child), line.prompt_text())
        else {
            return Ok(());
        };
        let session = &child_facts.session;
        let durable = rows::of(&mut self.sessions, session);
        let messages = durable.texts.get(&text).map_or(&[][..], Vec::as_slice);
        if messages.iter().any(|m| durable.handed_over.contains(m)) {
            return Ok(());
        }
        let name = messages.first().map_or("a message that is not stored", MessageId::as_str);
        Err(format!("{name} is written to child {child} before {session} has its handover on disk"))
    }

    fn answered(&mut self, call: usize, message: Option<&MessageId>, on: &SessionId) -> Verdict {
        let durable = rows::of(&mut self.sessions, on);
        match (self.calls.get(&call), message) {
            (Some(Called::Send), Some(message)) if !durable.submitted.contains(message) => {
                Err(format!("call {call} acknowledges {message} before it is stored"))
            }
            (Some(Called::Answer), _) => {
                durable.answers += 1;
                let (answers, stored) = (durable.answers, durable.answered.len());
                if answers > stored {
                    return Err(format!(
                        "call {call} acknowledges an answer in {on}, and only {stored} are stored"
                    ));
                }
                Ok(())
            }
            (Some(Called::Close), _) if !durable.closed => {
                Err(format!("call {call} acknowledges that {on} is closed before that is stored"))
            }
            _ => Ok(()),
        }
    }
}

impl Oracle for PersistBeforeAct {
    fn name(&self) -> &'static str {
        "persist-before-act"
    }

    fn rule(&self) -> &'static str {
        "invariant 4, 5.1.2, 6.13.5"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::Stored { unit, .. } => {
                self.learn(unit);
                Ok(())
            }
            Seen::HostWrote { child, line } if line.method() == Some("session/prompt") => {
                self.prompted(*child, line, facts)
            }
            Seen::Spawning { child, session, token, .. } => {
                let durable = rows::of(&mut self.sessions, session);
                if durable.token.as_ref().map(SpawnToken::as_str) == Some(token) {
                    return Ok(());
                }
                Err(format!(
                    "child {child} of {session} is asked for before its reservation is stored"
                ))
            }
            // A replay answers again what was answered.
            Seen::Called { call, act, again: false, .. } => {
                let called = match act {
                    Act::Send { .. } => Called::Send,
                    Act::Answer { .. } => Called::Answer,
                    Act::Close { .. } => Called::Close,
                    _ => return Ok(()),
                };
                self.calls.insert(*call, called);
                Ok(())
            }
            Seen::Answered { call, refused: None, message, session } => {
                self.answered(*call, *message, session)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use moored::journal::{ApprovalBody, Resolution};

    use super::super::kit::{Story, dispatch, item, message, record, send_act, submission};
    use super::*;

    fn story() -> Story {
        Story::of(PersistBeforeAct::default()).recorded(record(Some("token0"), false))
    }

    #[test]
    fn what_is_stored_first_holds() {
        let story = story().spawned(0).called(&send_act(1)).stored(1, [submission(1)]);
        let story = story.answered(0, Some(&message(1)));
        story.stored(1, [dispatch(1, DispatchState::HandedOver)]).prompts(0, 1).holds();
        let closing = Story::of(PersistBeforeAct::default()).called(&Act::Close { session: 0 });
        closing.recorded(record(None, true)).answered(0, None).holds();
    }

    #[test]
    fn what_is_done_first_is_found() {
        Story::of(PersistBeforeAct::default()).asked_for(0).breaks("before its reservation");
        let unsaved = story().spawned(0).stored(1, [submission(1)]);
        unsaved.prompts(0, 1).breaks("m1 is written to child 0 before s1 has its handover");
        story().spawned(0).prompts(0, 1).breaks("a message that is not stored");
        let early = story().called(&send_act(1)).answered(0, Some(&message(1)));
        early.breaks("call 0 acknowledges m1 before it is stored");
        let close = story().called(&Act::Close { session: 0 }).answered(0, None);
        close.breaks("before that is stored");
    }

    #[test]
    fn an_answer_is_acknowledged_once_it_is_stored() {
        let approval = |resolved_by: Option<&str>| {
            let body = ApprovalBody {
                title: "May I?".to_owned(),
                tool_call_id: None,
                options: Vec::new(),
                resolution: Resolution::Pending,
                selected: None,
                resolved_by: resolved_by.map(str::to_owned),
                resolved_ms: None,
            };
            item("ask", ItemBody::Approval(body))
        };
        let act = Act::Answer { session: 0, option: Some(0) };
        let asked = || story().stored(1, [approval(None)]).called(&act);
        asked().stored(1, [approval(Some("person"))]).answered(0, None).holds();
        asked().answered(0, None).breaks("only 0 are stored");
    }
}
