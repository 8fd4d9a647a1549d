//! The host's own stops (rules 3.4.9, 3.10): a child is let go, its session stays.

use serde_json::json;

use super::rig::Rig;
use crate::coverage::CoverageMark::{EvictAtRest, EvictEndedWork, EvictJoinedEnd};
use crate::journal::{Mark, Outcome, RowKind, StopReason, SubmissionState, TurnState};
use crate::platform::Exit;
use crate::session::{Answer, CallId};
use crate::status::Status;

/// The reasons of the Stop events on disk.
fn events(rig: &Rig) -> Vec<StopReason> {
    let rows = rig.stored.iter().filter_map(|row| match &row.kind {
        RowKind::Mark { mark: Mark::Stop(stop) } => Some(stop.reason),
        _ => None,
    });
    rows.collect()
}

fn ended_work(rig: &Rig, call: CallId) -> bool {
    match rig.answers.get(&call) {
        Some(Answer::Stopped(Ok(answer))) => answer.cancelled,
        other => panic!("it is answered: {other:?}"),
    }
}

#[test]
pub(super) fn t43_a_turn_that_the_host_cuts_is_nobodys_cancellation() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    let evict = rig.evict();
    assert!(ended_work(&rig, evict), "it is answered at once");
    assert_eq!(events(&rig), [StopReason::Evict], "its event is written before the child goes");
    rig.expect("session/cancel");
    assert!(!rig.summary().stopping, "never for a stop of the host's own (rule 4.1.4)");
    rig.pass_ms(4_000);
    rig.exits(Exit::Code(0));
    let turn = rig.last_turn();
    assert_eq!((turn.state, turn.outcome), (TurnState::Interrupted, None));
    assert!(!turn.under_stop);
    let summary = rig.summary();
    assert_eq!(summary.status, Some(Status::Idle));
    assert_eq!(summary.turn_outcome, Some(Outcome::Interruption));
    assert!(rig.lines().is_empty(), "no note, and no row of a death");
    assert!(rig.session.met().contains(EvictEndedWork));
}

#[test]
pub(super) fn t43_a_close_is_a_persons_and_does_carry_the_cancellation() {
    let mut rig = Rig::working("hello");
    rig.close();
    rig.pass_ms(4_000);
    rig.exits(Exit::Code(0));
    assert_eq!(events(&rig), [StopReason::UserClose]);
    assert_eq!(rig.last_turn().outcome, Some(Outcome::Cancellation));
}

#[test]
pub(super) fn t44_no_event_of_the_host_takes_a_persons_stop_away() {
    for quits in [false, true] {
        let mut rig = Rig::working("hello");
        rig.stop(None);
        match quits {
            false => drop(rig.evict()),
            true => {
                rig.session.end_child(rig.now, StopReason::HostStop);
                rig.settle();
            }
        }
        rig.pass_ms(4_000);
        rig.exits(Exit::Code(0));
        assert_eq!(events(&rig), [StopReason::UserStop]);
        assert_eq!(rig.last_turn().outcome, Some(Outcome::Cancellation), "quits: {quits}");
        assert_eq!(rig.session.met().contains(EvictJoinedEnd), !quits);
    }
}

#[test]
pub(super) fn a_child_at_rest_is_let_go_without_an_event_and_the_next_message_starts_another() {
    let mut rig = Rig::ready();
    let evict = rig.evict();
    assert!(rig.stdin_closed && events(&rig).is_empty());
    assert!(rig.session.met().contains(EvictAtRest));
    assert!(!ended_work(&rig, evict));
    rig.exits(Exit::Code(0));
    rig.send("m2", "again");
    rig.expect("initialize");
    // There is nobody any more.
    let mut gone = Rig::ready();
    gone.exits(Exit::Code(0));
    let evict = gone.evict();
    assert!(!ended_work(&gone, evict));
}

#[test]
fn what_waits_is_not_withdrawn_by_the_host_and_runs_on_the_next_child() {
    let mut rig = Rig::working("hello");
    let prompt = rig.expect("session/prompt");
    rig.send("m2", "waits");
    rig.evict();
    rig.expect("session/cancel");
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert!(rig.frames.is_empty(), "nothing is handed to a child that ends (invariant 10)");
    rig.exits(Exit::Code(0));
    // The agent's own word stands (rule 2.4.1, decision D37).
    assert_eq!(rig.last_turn().outcome, Some(Outcome::Cancellation));
    assert!(!rig.last_turn().under_stop);
    rig.handshake();
    assert_eq!(rig.expect("session/prompt")["params"]["prompt"][0]["text"], "waits");
    assert_eq!(rig.state_of("m2"), SubmissionState::HandedOver);
}

#[test]
pub(super) fn a_host_that_quits_writes_no_event() {
    let mut rig = Rig::working("hello");
    rig.session.end_child(rig.now, StopReason::HostStop);
    rig.settle();
    rig.pass_ms(4_000);
    rig.exits(Exit::Code(0));
    assert!(events(&rig).is_empty(), "rule 3.10.3");
    assert_eq!(rig.last_turn().outcome, None);
}
