//! The note of a Stop: where it stands, and how it is read once it was not confirmed (rule 3.6).

use serde_json::{Value, json};

use super::rig::Rig;
use crate::ids::TurnKey;
use crate::journal::{
    ChildRow, Fold, ItemBody, ItemRow, ItemView, ROW_VERSION, Row, RowKind, STOP_NOTE, Timeline,
    TurnState, stop_note, stop_note_item,
};
use crate::platform::{Exit, Report};
use crate::session::ladder::EndedHow;

const UNCONFIRMED: &str = "Cancellation was not confirmed.";

#[test]
pub(super) fn the_note_is_keyed_and_scoped_by_the_turn_that_was_stopped() {
    let mut rig = Rig::working("hello");
    rig.stop(None);
    let is_line =
        |item: &ItemView| matches!(&item.body, ItemBody::Status(s) if s.text == STOP_NOTE);
    let notes: Vec<_> = rig.items().into_iter().filter(is_line).collect();
    let [note] = &notes[..] else { panic!("one note: {notes:?}") };
    assert_eq!(note.item, stop_note_item("prompt:m1"), "rule 3.6.2");
    assert_eq!(note.scope, Some("prompt:m1".into()), "rule 3.6.3");
}

/// A Stop of `m1` whose process ignored everything, so that its note says so.
fn unconfirmed() -> Rig {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    rig.chunk("one");
    rig.stop(None);
    rig.expect("session/cancel");
    rig.pass_ms(60_000);
    assert_eq!(rig.lines(), [UNCONFIRMED]);
    rig
}

fn note_of(items: &[ItemView]) -> Option<&ItemView> {
    items.iter().find(|view| view.item == stop_note_item("prompt:m1"))
}

fn text(note: Option<&ItemView>) -> Option<&str> {
    match &note?.body {
        ItemBody::Status(status) => Some(&status.text),
        _ => None,
    }
}

fn end_of_turn(items: &[ItemView]) -> Option<TurnState> {
    items.iter().find_map(|view| match &view.body {
        ItemBody::Turn(turn) if turn.turn == TurnKey::from("prompt:m1") => Some(turn.state),
        _ => None,
    })
}

/// What each carrier says of the note, as `name: text`; a batch only if one of them carries the end of the turn. History
/// pages and catch-ups from a cursor are not there yet.
fn carried(rig: &Rig, before: usize, ends: TurnState) -> Vec<(&'static str, ItemView)> {
    let ended = rig.batches[before..].iter().find(|b| end_of_turn(&b.items) == Some(ends));
    let batch = ended.map(|batch| batch.items.clone());
    // What a client folds that was there all the time, and one that comes now.
    let followed = rig.items();
    let whole = rig.session.snapshot();
    let mut joined = Timeline::default();
    joined.apply_snapshot(whole.clone());
    let joined: Vec<_> = joined.items().into_iter().cloned().collect();
    // And one that comes to the next host.
    let mut next = rig.clone();
    next.restart();
    let restarted = next.session.snapshot().items;
    let carriers = [
        ("a live batch", batch),
        ("a client that followed", Some(followed)),
        ("the snapshot", Some(whole.items)),
        ("a client that joined", Some(joined)),
        ("the next host", Some(restarted)),
    ];
    let note = |(name, items): (&'static str, Option<Vec<ItemView>>)| {
        Some((name, note_of(&items?)?.clone()))
    };
    carriers.into_iter().filter_map(note).collect()
}

/// The rows of the note on disk.
fn stored(rig: &Rig) -> Vec<String> {
    let item = serde_json::to_string(&stop_note_item("prompt:m1")).expect("it is JSON");
    let rows = rig.stored.iter().map(|row| serde_json::to_string(row).expect("it is JSON"));
    rows.filter(|row| row.contains(&format!("\"item\":{item}"))).collect()
}

fn late_answer(rig: &mut Rig, result: Value) {
    // The prompt is the third request of a child.
    rig.says(&json!({"jsonrpc": "2.0", "id": 2, "result": result}));
}

/// A row behind what is stored, as another host would have written it.
fn store(rig: &mut Rig, kind: RowKind) {
    let last = rig.stored.last().expect("there are rows").clone();
    rig.stored.push(Row { v: ROW_VERSION, seq: last.seq + 1, kind, ..last });
}

/// What ends the stopped turn, and how.
type Ender = (&'static str, fn(&mut Rig), TurnState);

fn enders() -> Vec<Ender> {
    vec![
        ("a later exit", |rig| rig.exits(Exit::Code(0)), TurnState::Interrupted),
        (
            "a second Stop",
            |rig| {
                rig.stop(None);
                rig.pass_ms(1_000);
                rig.exits(Exit::Signal(15));
            },
            TurnState::Interrupted,
        ),
        (
            "a send",
            |rig| {
                rig.send("m2", "two");
                rig.pass_ms(1_000);
                rig.exits(Exit::Signal(15));
                rig.handshake();
            },
            TurnState::Interrupted,
        ),
        (
            "the agent's own interrupted result",
            |rig| late_answer(rig, json!({"stopReason": "cancelled"})),
            TurnState::Interrupted,
        ),
        (
            "a proof behind a restart",
            |rig| {
                // The child's end reached the disk, and its turn's did not.
                let generation = rig.generation.clone();
                let (how, exit) = (EndedHow::AfterKill, Some(Exit::Signal(9)));
                let exited = ChildRow::Exited { generation, how, exit, requested: true };
                store(rig, RowKind::Child(exited));
                rig.restart();
            },
            TurnState::Interrupted,
        ),
    ]
}

/// What does not end it so: there the note goes on saying what is stored.
fn controls() -> Vec<Ender> {
    vec![
        ("it runs on", |rig| rig.chunk("and on"), TurnState::Running),
        (
            "it completes",
            |rig| late_answer(rig, json!({"stopReason": "end_turn"})),
            TurnState::Completed,
        ),
        (
            "it fails",
            |rig| late_answer(rig, json!({"stopReason": "refusal"})),
            TurnState::Completed,
        ),
        (
            "nobody can prove anything",
            |rig| {
                let generation = rig.generation.clone();
                rig.session.handle_report(rig.now, &generation, Report::SupervisorLost);
                rig.settle();
            },
            TurnState::Unverifiable,
        ),
        ("a restart without a proof", Rig::restart, TurnState::Unverifiable),
    ]
}

#[test]
pub(super) fn t37_a_note_reads_taken_to_everybody_once_its_turn_was_interrupted_after_all() {
    for (name, end, state) in enders() {
        let mut rig = unconfirmed();
        let (rows, before) = (stored(&rig), rig.batches.len());
        let doubted = note_of(&rig.items()).expect("it is there").clone();
        end(&mut rig);
        let carried = carried(&rig, before, state);
        assert_eq!(carried.len(), 5, "{name}: {carried:?}");
        for (carrier, note) in &carried {
            assert_eq!(text(Some(note)), Some(STOP_NOTE), "{name}, on {carrier}");
            // The same note in the same place: nothing was written (rule 3.6.6).
            let identity = |note: &ItemView| (note.revision, note.position, note.scope.clone());
            assert_eq!(identity(note), identity(&doubted), "{name}, on {carrier}");
        }
        assert_eq!(stored(&rig), rows, "{name}: the row keeps the failure");
    }
}

#[test]
pub(super) fn t37_a_note_stays_in_doubt_while_nothing_says_that_its_turn_was_interrupted() {
    for (name, end, state) in controls() {
        let mut rig = unconfirmed();
        let before = rig.batches.len();
        end(&mut rig);
        assert_eq!(end_of_turn(&rig.session.snapshot().items), Some(state), "{name}");
        let carried = carried(&rig, before, state);
        assert!(carried.len() >= 4, "{name}: {carried:?}");
        for (carrier, note) in &carried {
            assert_eq!(text(Some(note)), Some(UNCONFIRMED), "{name}, on {carrier}");
        }
    }
}

/// A note whose turn has no row, and a failure of another kind in a turn that was interrupted.
#[test]
fn t37_neither_a_note_without_its_turn_nor_another_failure_is_corrected() {
    let mut rig = Rig::working("hello");
    rig.chunk("one");
    rig.exits(Exit::Code(1));
    let failure = rig.lines();
    let [failure] = &failure[..] else { panic!("one row: {failure:?}") };
    for scope in [Some("prompt:gone"), None] {
        let item = stop_note_item("prompt:gone");
        let body = ItemBody::Status(stop_note::unconfirmed());
        let row = ItemRow { item, revision: 1, scope: scope.map(Into::into), body };
        let mut rig = rig.clone();
        store(&mut rig, RowKind::Item(row));
        rig.restart();
        let mut fold = Fold::new();
        rig.stored.iter().for_each(|row| fold.apply(row, &mut Default::default()));
        for items in [rig.session.snapshot().items, fold.snapshot().items] {
            let lines: Vec<_> = items.iter().filter_map(|item| text(Some(item))).collect();
            assert_eq!(lines, [failure.as_str(), UNCONFIRMED], "scope {scope:?}");
        }
    }
}
