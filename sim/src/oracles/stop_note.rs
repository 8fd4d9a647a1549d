//! The note of a Stop: where it stands, and how it is read once it was not confirmed (rule 3.6).

use std::collections::{BTreeMap, BTreeSet};

use moored::driver::WatchFrame;
use moored::ids::{ItemKey, MessageId, OperationId, SessionId, TurnKey};
use moored::journal::{
    DispatchState, ItemBody, ItemRow, ItemView, Mutation, Row, RowKind, STOP_NOTE, StatusBody,
    StopReason, TurnState, stop_note_item,
};
use moored::platform::Mono;
use moored::store::Unit;

use super::rows;
use super::{Oracle, Verdict};
use crate::witness::{Facts, Seen};

/// A Stop of a running turn leaves one note, keyed and scoped by that turn; one that is in doubt reads taken for everybody
/// once its turn was interrupted, and for nobody before.
#[derive(Default)]
pub(super) struct StopNotes {
    sessions: BTreeMap<SessionId, Session>,
}

#[derive(Default)]
struct Session {
    running: Option<TurnKey>,
    turns: BTreeMap<TurnKey, TurnState>,
    handed_over: BTreeSet<MessageId>,
    /// The notes that stand: the turn of each, and where in the journal it was put in doubt.
    notes: BTreeMap<ItemKey, (Option<TurnKey>, Option<u64>)>,
    /// The operation of the newest Stop.
    op: Option<OperationId>,
}

/// The note of a Stop that an item row is.
fn note(item: &ItemRow) -> Option<&StatusBody> {
    match &item.body {
        ItemBody::Status(status) if item.item.as_str().starts_with("stop:") => Some(status),
        _ => None,
    }
}

impl Session {
    fn learn(&mut self, row: &Row) -> Verdict {
        for turn in rows::turns(row) {
            self.turns.insert(turn.turn.clone(), turn.state);
            match turn.state {
                TurnState::Running => self.running = Some(turn.turn.clone()),
                _ if self.running.as_ref() == Some(&turn.turn) => self.running = None,
                _ => {}
            }
        }
        let gone: Vec<&ItemKey> = match &row.kind {
            RowKind::Tombstone { item, .. } => vec![item],
            RowKind::Batch { mutations, .. } => mutations.iter().filter_map(tombstone).collect(),
            _ => Vec::new(),
        };
        for item in gone {
            self.notes.remove(item);
        }
        for item in rows::items(row) {
            let Some(status) = note(item) else { continue };
            let doubted = status.is_unconfirmed_stop().then_some(row.seq);
            let by_press = self.op.as_ref().map(|op| stop_note_item(op.as_str()));
            let left = by_press.filter(|key| *key != item.item && self.notes.contains_key(key));
            if let (Some(left), true) = (left, doubted.is_some()) {
                return Err(format!("{} leaves {left} behind (rule 3.6.5)", item.item));
            }
            self.notes.insert(item.item.clone(), (item.scope.clone(), doubted));
        }
        Ok(())
    }

    /// The unit of a person's Stop.
    fn check_press(&self, unit: &Unit) -> Verdict {
        let notes: Vec<&ItemRow> =
            unit.rows.iter().flat_map(rows::items).filter(|item| note(item).is_some()).collect();
        let mut dispatches = unit.rows.iter().flat_map(rows::dispatches);
        // One that withdraws something may have joined an end, and then leaves none.
        let withdraws = dispatches.any(|d| d.state == DispatchState::Rejected);
        match (&self.running, &notes[..]) {
            (Some(turn), []) if !withdraws => Err(format!("leaves no note of {turn} (rule 3.6.4)")),
            (Some(turn), [one]) => {
                let text = note(one).map(|status| status.text.as_str());
                if one.item != stop_note_item(turn.as_str()) || one.scope.as_ref() != Some(turn) {
                    Err(format!("has a note that does not stand by {turn} (rules 3.6.2, 3.6.3)"))
                } else if text != Some(STOP_NOTE) {
                    Err(format!("is in doubt of {turn} at once (rule 3.6.1)"))
                } else {
                    Ok(())
                }
            }
            (None, [_, ..]) if self.handed_over.is_empty() => {
                Err("leaves a note, and nothing ran (rule 3.6.4)".to_owned())
            }
            (_, [_, _, ..]) => Err("leaves two notes (rule 3.6.2)".to_owned()),
            _ => Ok(()),
        }
    }

    /// What a client is shown, as of `seq`.
    fn check_shown(&self, seq: u64, shown: &[ItemView], is_whole: bool) -> Verdict {
        let state = |turn: &TurnKey| self.turns.get(turn).copied();
        for (item, (turn, doubted)) in &self.notes {
            if doubted.is_none_or(|doubted| doubted > seq) {
                continue;
            }
            let told = shown.iter().find(|view| view.item == *item);
            // The turn as this client is shown it, in the same frame.
            let ended = shown.iter().any(|view| match &view.body {
                ItemBody::Turn(body) => {
                    Some(&body.turn) == turn.as_ref() && body.state == TurnState::Interrupted
                }
                _ => false,
            });
            let text = told.and_then(|view| match &view.body {
                ItemBody::Status(status) => Some(status.text.as_str()),
                _ => None,
            });
            let interrupted = turn.as_ref().and_then(state) == Some(TurnState::Interrupted);
            match text {
                Some(STOP_NOTE) if !interrupted => {
                    return Err(format!("{item} reads taken, and its turn goes on (rule 3.6.6)"));
                }
                Some(STOP_NOTE) => {}
                Some(_) if ended => {
                    return Err(format!("{item} is in doubt beside its turn's end (rule 3.6.6)"));
                }
                None if ended => {
                    return Err(format!("{item} is missing beside its turn's end (rule 3.6.7)"));
                }
                None if is_whole => return Err(format!("{item} is missing in a whole")),
                _ => {}
            }
        }
        Ok(())
    }
}

fn tombstone(mutation: &Mutation) -> Option<&ItemKey> {
    match mutation {
        Mutation::Tombstone { item, .. } => Some(item),
        _ => None,
    }
}

impl Oracle for StopNotes {
    fn name(&self) -> &'static str {
        "stop-notes"
    }

    fn rule(&self) -> &'static str {
        "3.6"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        match seen {
            Seen::Stored { unit, .. } => {
                let session = &unit.session;
                let kept = rows::of(&mut self.sessions, session);
                if let Some(stop) = unit.rows.iter().find_map(rows::stop) {
                    kept.op = Some(stop.op.clone());
                    if stop.reason == StopReason::UserStop {
                        let told = |why| format!("a Stop of {session} {why}");
                        kept.check_press(unit).map_err(told)?;
                    }
                }
                for row in &unit.rows {
                    kept.learn(row).map_err(|why| format!("in {session} {why}"))?;
                    for dispatch in rows::dispatches(row) {
                        let message = &dispatch.message_id;
                        match dispatch.state {
                            DispatchState::HandedOver => kept.handed_over.insert(message.clone()),
                            _ => kept.handed_over.remove(message),
                        };
                    }
                }
                Ok(())
            }
            Seen::Fed { session, frame, client, .. } => {
                let Some(kept) = self.sessions.get(*session) else { return Ok(()) };
                let shown = match frame {
                    WatchFrame::Snapshot(all) => kept.check_shown(all.cursor.seq, &all.items, true),
                    WatchFrame::Batch(new) => kept.check_shown(new.cursor.seq, &new.items, false),
                    _ => Ok(()),
                };
                shown.map_err(|why| format!("client {client} of {session} is told that {why}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use moored::failure::{FailureCode, FailureFact};
    use moored::ids::EpochId;
    use moored::journal::{Cursor, Snapshot, Tone};

    use super::super::kit::{Story, session, stop, submission, turn, turn_body};
    use super::*;

    fn taken() -> StatusBody {
        StatusBody { tone: Tone::Info, text: STOP_NOTE.to_owned(), fact: None }
    }

    fn doubted() -> StatusBody {
        let fact = FailureFact::new(FailureCode::CancelUnconfirmed);
        StatusBody { tone: Tone::Error, text: fact.sentence(), fact: Some(fact) }
    }

    fn written(key: &str, scope: Option<&str>, body: StatusBody) -> RowKind {
        let (item, body) = (stop_note_item(key), ItemBody::Status(body));
        RowKind::Item(ItemRow { item, revision: 1, scope: scope.map(TurnKey::from), body })
    }

    fn working() -> Story {
        let rows = [submission(1), turn(1, TurnState::Running, None)];
        Story::of(StopNotes::default()).stored(1, rows)
    }

    fn pressed(note: Option<RowKind>) -> Story {
        let event = stop(StopReason::UserStop, Some("t1"));
        working().stored(1, [event].into_iter().chain(note))
    }

    /// The note is in doubt, and the turn has ended so.
    fn ended(state: TurnState) -> Story {
        let story = pressed(Some(written("t1", Some("t1"), taken())));
        let doubt = story.stored(1, [written("t1", Some("t1"), doubted())]);
        doubt.stored(1, [turn(1, state, None)])
    }

    /// A client is given a whole in which the turn stands so, and the note reads so.
    fn shown(story: Story, state: TurnState, note: Option<StatusBody>) -> Story {
        let view = |item: ItemKey, body| ItemView {
            item,
            revision: 1,
            position: Default::default(),
            scope: None,
            observed_ms: 0,
            body,
        };
        let turn = view("turn:t1".into(), ItemBody::Turn(turn_body(1, state, None)));
        let note = note.map(|body| view(stop_note_item("t1"), ItemBody::Status(body)));
        let seq = story.rows().len() as u64;
        let whole = Snapshot {
            cursor: Cursor { epoch: EpochId::from("e"), seq },
            fence: moored::ids::Fence(1),
            items: [turn].into_iter().chain(note).collect(),
            submissions: Vec::new(),
            context: None,
        };
        let frame = WatchFrame::Snapshot(whole);
        story.see(&Seen::Fed { client: 0, session: &session(), host: 0, frame: &frame })
    }

    #[test]
    fn a_note_by_its_turn_holds_and_one_elsewhere_or_none_is_found() {
        pressed(Some(written("t1", Some("t1"), taken()))).holds();
        pressed(None).breaks("leaves no note of t1");
        pressed(Some(written("op", Some("t1"), taken()))).breaks("does not stand by t1");
        pressed(Some(written("t1", None, taken()))).breaks("does not stand by t1");
        pressed(Some(written("t1", Some("t1"), doubted()))).breaks("in doubt of t1 at once");
        let idle = Story::of(StopNotes::default());
        let rows = [stop(StopReason::UserStop, None), written("op", None, taken())];
        idle.stored(1, rows).breaks("nothing ran");
    }

    #[test]
    fn a_note_that_moves_leaves_none_behind() {
        let opening = [submission(1), super::super::kit::dispatch(1, DispatchState::HandedOver)];
        let story = Story::of(StopNotes::default()).stored(1, opening);
        let rows = [stop(StopReason::UserStop, None), written("op", None, taken())];
        let story = story.stored(1, rows).stored(1, [turn(1, TurnState::Running, None)]);
        story.stored(1, [written("t1", Some("t1"), doubted())]).breaks("behind");
    }

    #[test]
    fn a_doubt_is_shown_until_its_turn_was_interrupted_and_no_longer() {
        let (cut, runs) = (TurnState::Interrupted, TurnState::Running);
        shown(ended(cut), cut, Some(taken())).holds();
        shown(ended(cut), cut, Some(doubted())).breaks("in doubt beside its turn's end");
        shown(ended(cut), cut, None).breaks("missing beside its turn's end");
        shown(ended(runs), runs, Some(doubted())).holds();
        shown(ended(runs), runs, Some(taken())).breaks("reads taken, and its turn goes on");
        let done = TurnState::Completed;
        shown(ended(done), done, Some(taken())).breaks("reads taken, and its turn goes on");
    }
}
