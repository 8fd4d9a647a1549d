//! Stops whose end of the process fails before any turn showed (rules 3.4.5, 3.4.6, 3.6.5, 3.7.5).

use serde_json::json;

use super::rig::Rig;
use crate::journal::{ItemBody, Outcome, TurnState, stop_note_item};
use crate::platform::Exit;
use crate::status::Status;

/// The dispatch row of `m1` is on its way to the disk, and no turn has opened: Stop, and the agent resists it for ever.
pub(super) fn pressed_before_any_turn() -> Rig {
    let mut rig = Rig::ready();
    rig.pass_ms(1_000);
    rig.commits = false;
    rig.send("m2", "hello");
    rig.commit_one();
    rig.stop(None);
    assert!(rig.summary().stopping, "from the press on");
    rig.commits = true;
    rig.commit_all();
    rig
}

fn notes(rig: &Rig) -> Vec<(String, String)> {
    let notes = rig.items().into_iter().filter_map(|item| match item.body {
        ItemBody::Status(status) if item.item.as_str().starts_with("stop:") => {
            Some((item.item.to_string(), status.text))
        }
        _ => None,
    });
    notes.collect()
}

#[test]
pub(super) fn t38_a_note_that_was_written_before_the_turn_moves_to_it_in_one_batch() {
    let mut rig = pressed_before_any_turn();
    let [(by_press, taken)] = &notes(&rig)[..] else { panic!("one note: {:?}", notes(&rig)) };
    assert_eq!(taken, "Cancellation requested.");
    rig.chunk("on my own");
    let turn = rig.last_turn();
    assert_eq!((turn.state, turn.user_item), (TurnState::Running, None));
    let before = rig.batches.len();
    rig.pass_ms(60_000);
    let moved = [(
        stop_note_item(turn.turn.as_str()).to_string(),
        "Cancellation was not confirmed.".to_owned(),
    )];
    assert_eq!(notes(&rig), moved);
    let batch = rig.batches[before..]
        .iter()
        .find(|batch| batch.removed.iter().any(|gone| gone.item.as_str() == by_press))
        .expect("the old note is taken away");
    assert!(batch.items.iter().any(|item| item.item.as_str() == moved[0].0), "in the same batch");
}

#[test]
pub(super) fn t39_a_turn_behind_a_failed_stop_keeps_a_verdict_of_its_own() {
    let mut rig = pressed_before_any_turn();
    rig.pass_ms(60_000);
    assert_eq!(rig.summary().status, Some(Status::Idle));
    assert!(!rig.summary().stopping, "nothing works");
    rig.chunk("on my own");
    // It is the turn that the failed Stop is for (rule 3.7.5). But the flag has fallen since the press, and rises only once
    // between two presses (decision D27, which goes before the rule).
    assert!(!rig.summary().stopping);
    rig.exits(Exit::Signal(9));
    let turn = rig.last_turn();
    assert_eq!((turn.state, turn.outcome), (TurnState::Interrupted, None), "not the person's");
    assert_eq!(rig.summary().turn_outcome, Some(Outcome::Interruption));
}

#[test]
pub(super) fn t40_a_second_press_that_fails_as_well_keeps_what_the_first_one_failed_on() {
    let mut rig = pressed_before_any_turn();
    rig.pass_ms(60_000);
    rig.chunk("on my own");
    rig.stop(None);
    assert!(rig.summary().stopping);
    rig.pass_ms(60_000);
    assert!(rig.summary().stopping, "it still runs, and was never stopped (rule 3.4.6)");
    assert_eq!(rig.last_turn().state, TurnState::Running);
}

#[test]
pub(super) fn t48_an_edge_of_the_settle_writes_no_row_publishes_once_and_wakes_what_is_held() {
    let mut rig = Rig::working("hello");
    let prompt = rig.expect("session/prompt");
    rig.commits = false;
    let (published, batches) = (rig.summaries.len(), rig.batches.len());
    let since = rig.summary().status_started_at;
    rig.stop(None);
    rig.expect("session/cancel");
    assert_eq!(rig.summaries.len(), published + 1, "it opens, and is published once");
    assert_eq!(rig.batches.len(), batches, "nothing is on disk, and no history is delivered");
    assert_eq!(rig.summary().status_started_at, since, "no activity, no new date (decision D27)");
    rig.commits = true;
    rig.commit_all();
    rig.send("m2", "held");
    assert!(rig.frames.is_empty());
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert!(!rig.summary().stopping);
    rig.exits(Exit::Code(0));
    rig.expect("initialize");
}
