//! Sends whose row the store refuses (rule 5.10.5, decision D8): refused by name at once, and nothing is left of them.

use serde_json::json;

use super::rig::Rig;
use crate::failure::RefusalCode;
use crate::journal::{ItemBody, Mark, RowKind, SendMode, SubmissionState, TurnState};
use crate::limits::STORE_RETRY_MS;
use crate::platform::Exit;
use crate::session::{Answer, CallId};
use crate::status::StorageState;
use crate::store::{Refusal, RetryReason};

fn is_refused(rig: &Rig, call: CallId) -> bool {
    match rig.answers.get(&call) {
        Some(Answer::Sent(Err(refusal))) => refusal.code == RefusalCode::NotSaved,
        Some(other) => panic!("{other:?}"),
        None => false,
    }
}

fn rows_follow_each_other(rig: &Rig) {
    let seqs: Vec<u64> = rig.stored.iter().map(|row| row.seq).collect();
    let wanted: Vec<u64> = (1..=seqs.len() as u64).collect();
    assert_eq!(seqs, wanted);
}

/// The store takes again what waits.
fn heals(rig: &mut Rig) {
    rig.pass_ms(STORE_RETRY_MS);
    rig.commit_all();
    rig.commits = true;
}

#[test]
fn a_send_whose_own_row_is_refused_first_is_refused_by_name() {
    let mut rig = Rig::ready();
    rig.commits = false;
    let call = rig.send("m2", "two");
    assert_eq!(rig.units.len(), 2, "its acceptance and its handover");
    rig.refuse_all();
    assert!(is_refused(&rig, call));
    assert_eq!(rig.summary().storage, Some(StorageState::NotSaved));
    assert!(is_refused_at_once(&mut rig));
    rig.pass_ms(STORE_RETRY_MS);
    assert_eq!(rig.summary().storage, None, "nothing waits; the next thing to save tells");
    assert!(rig.units.is_empty() && rig.frames.is_empty());

    rig.commits = true;
    // Nothing is left of it: under the same id it is a message like any other.
    let again = rig.send("m2", "two");
    assert!(matches!(rig.answers[&again], Answer::Sent(Ok(_))));
    rig.reply_prompt(json!({"stopReason": "end_turn"}));
    assert_eq!(rig.last_turn().state, TurnState::Completed);
    rows_follow_each_other(&rig);
}

fn is_refused_at_once(rig: &mut Rig) -> bool {
    let call = rig.send("m9", "meanwhile");
    is_refused(rig, call)
}

#[test]
fn a_stop_behind_a_refused_send_keeps_its_rows_and_its_answer() {
    let mut rig = Rig::working("hello");
    let prompt = rig.expect("session/prompt");
    rig.commits = false;
    let send = rig.send("m2", "two");
    let again = rig.send("m2", "two");
    let stop = rig.stop(None);
    rig.expect("session/cancel");
    assert!(matches!(rig.answers.get(&stop), Some(Answer::Stopped(Ok(s))) if s.cancelled));
    rig.refuse_all();
    assert!(is_refused(&rig, send) && is_refused(&rig, again));
    heals(&mut rig);
    rows_follow_each_other(&rig);
    let stops =
        rig.stored.iter().filter(|r| matches!(&r.kind, RowKind::Mark { mark: Mark::Stop(_) }));
    assert_eq!(stops.count(), 1);
    assert!(rig.timeline.submission(&"m2".into()).is_none());
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    rig.exits(Exit::Code(0));
    assert_eq!(rig.last_turn().state, TurnState::Interrupted);
    rows_follow_each_other(&rig);
}

#[test]
fn a_message_that_is_on_disk_stays_where_one_behind_it_is_refused() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    rig.commits = false;
    let first = rig.send("m2", "two");
    let second = rig.send("m3", "three");
    rig.commit_one();
    assert!(matches!(rig.answers.get(&first), Some(Answer::Sent(Ok(_)))));
    rig.chunk("on");
    rig.pass_ms(20);
    rig.refuse_all();
    assert!(is_refused(&rig, second));
    heals(&mut rig);
    assert_eq!(rig.state_of("m2"), SubmissionState::Queued);
    rows_follow_each_other(&rig);
}

#[test]
fn a_refusal_that_comes_late_for_what_was_given_up_refuses_nothing_newer() {
    let mut rig = Rig::ready();
    rig.commits = false;
    rig.send("m2", "two");
    let units = std::mem::take(&mut rig.units);
    let refuse = |rig: &mut Rig, at: usize, reason| {
        let refusal = Refusal::Retry { reason };
        rig.session.handle_refused(rig.now, units[at].0, refusal);
        rig.settle();
    };
    refuse(&mut rig, 0, RetryReason::Full);
    rig.pass_ms(STORE_RETRY_MS);
    let third = rig.send("m3", "three");
    // The handover of the first was still on its way to its refusal.
    refuse(&mut rig, 1, RetryReason::Behind);
    assert!(!rig.answers.contains_key(&third));
    assert!(rig.units[0].1.resumes, "the store lets it pass");
    assert!(!rig.units[1].1.resumes);
    rig.commit_all();
    assert!(matches!(rig.answers.get(&third), Some(Answer::Sent(Ok(_)))));
    rig.expect("session/prompt");
}

#[test]
fn no_agent_is_started_for_a_message_that_was_refused() {
    let mut rig = Rig::new();
    rig.commits = false;
    rig.mints = false;
    let call = rig.send("m1", "hello");
    rig.refuse_all();
    assert!(is_refused(&rig, call));
    rig.mint();
    rig.settle();
    assert!(rig.spawns.is_empty() && rig.units.is_empty());
    rig.pass_ms(STORE_RETRY_MS);
    rig.commits = true;
    rig.mints = true;
    rig.send("m2", "hello");
    rig.handshake();
}

#[test]
fn an_agent_that_was_reserved_for_a_refused_message_waits_idle_for_the_next() {
    let mut rig = Rig::new();
    rig.commits = false;
    let call = rig.send("m1", "hello");
    assert_eq!(rig.units.len(), 2, "its acceptance and the reservation");
    rig.refuse_all();
    assert!(is_refused(&rig, call));
    assert!(rig.spawns.is_empty());
    heals(&mut rig);
    rig.send("m2", "later");
    rig.handshake();
    let prompt = rig.expect("session/prompt");
    assert_eq!(prompt["params"]["prompt"][0]["text"], "later");
    rows_follow_each_other(&rig);
}

#[test]
fn a_stop_of_a_message_that_was_refused_leaves_no_note() {
    let mut rig = Rig::ready();
    let notes = |rig: &Rig| {
        rig.items().iter().filter(|item| matches!(item.body, ItemBody::Status(_))).count()
    };
    rig.commits = false;
    let send = rig.send("m2", "two");
    let stop = rig.stop(None);
    rig.refuse_all();
    assert!(is_refused(&rig, send));
    assert!(matches!(rig.answers.get(&stop), Some(Answer::Stopped(Ok(_)))));
    heals(&mut rig);
    rows_follow_each_other(&rig);
    assert_eq!(notes(&rig), 0, "nothing ran (rule 3.6.4)");
    assert!(!rig.summary().stopping);
}

#[test]
fn a_second_stop_that_withdrew_nothing_but_a_refused_message_leaves_no_event() {
    let mut rig = Rig::working("hello");
    let prompt = rig.expect("session/prompt");
    rig.stop(None);
    rig.expect("session/cancel");
    rig.commits = false;
    let send = rig.send("m2", "two");
    rig.stop(None);
    rig.refuse_all();
    assert!(is_refused(&rig, send));
    heals(&mut rig);
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    rig.exits(Exit::Code(0));
    rows_follow_each_other(&rig);
    let stops =
        rig.stored.iter().filter(|r| matches!(&r.kind, RowKind::Mark { mark: Mark::Stop(_) }));
    assert_eq!(stops.count(), 1, "the second press was a repeat (rule 3.3.3)");
}

#[test]
fn a_steer_cuts_nothing_before_it_is_on_disk() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    rig.commits = false;
    let refused = rig.send_as("m2", "two", SendMode::Steer);
    assert!(rig.frames.is_empty());
    rig.refuse_all();
    assert!(is_refused(&rig, refused));
    rig.pass_ms(STORE_RETRY_MS);
    assert!(rig.frames.is_empty(), "it cut nothing");
    rig.send_as("m3", "three", SendMode::Steer);
    assert!(rig.frames.is_empty());
    rig.commit_one();
    rig.expect("session/cancel");
}
