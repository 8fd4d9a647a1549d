//! The event of a Stop, and its settle: what a press is written as, and whose the end of a turn is (rules 3.3, 3.4).

use serde_json::json;

use super::rig::{AGENT_SESSION, Rig, operation};
use super::unconfirmed::pressed_before_any_turn;
use crate::journal::{Outcome, StopReason, TurnState};
use crate::platform::{Exit, Signal};
use crate::session::Answer;
use crate::status::Status;

fn cancelled() -> serde_json::Value {
    json!({"stopReason": "cancelled"})
}

/// Its agent has the prompt of `m1`, and said something.
fn working() -> Rig {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    rig.chunk("one");
    rig
}

/// `m1` has ended, and the handover of `m2` is on its way to the disk.
fn in_the_gap() -> Rig {
    let mut rig = Rig::ready();
    rig.commits = false;
    rig.send("m2", "two");
    rig.commit_one();
    rig
}

#[test]
pub(super) fn the_event_of_a_stop_says_whose_it_is_when_and_what_it_stopped() {
    let mut rig = working();
    rig.pass_ms(7);
    let pressed_ms = rig.now.wall_ms;
    rig.stop(None);
    let [event] = &rig.stop_events()[..] else { panic!("one: {:?}", rig.stop_events()) };
    assert_eq!((event.reason, event.at_ms), (StopReason::UserStop, pressed_ms));
    assert_eq!(event.turn, Some("prompt:m1".into()), "the one that ran (rule 3.3.1)");
    assert!(!event.named && event.op != operation(1).op);
}

#[test]
pub(super) fn a_second_press_on_the_same_turn_writes_nothing() {
    let mut rig = working();
    rig.stop(None);
    rig.pass_ms(10);
    let lines = rig.lines();
    let again = rig.stop(None);
    assert_eq!(rig.stop_events().len(), 1, "rule 3.3.3");
    assert_eq!(rig.lines(), lines);
    assert!(matches!(rig.answers.get(&again), Some(Answer::Stopped(Ok(a))) if !a.cancelled));
    // What was sent since is withdrawn, and that is an event of its own.
    rig.send("m2", "two");
    rig.stop(None);
    assert_eq!(rig.stop_events().len(), 2);
}

/// Rule 3.2.5: no turn is live, so whatever it names, what is in flight is what it means.
#[test]
pub(super) fn a_stop_between_two_turns_stops_what_is_in_flight() {
    for (named, recorded) in [("prompt:m1", None), ("prompt:m2", Some("prompt:m2"))] {
        let mut rig = in_the_gap();
        let call = rig.stop(Some(named));
        let answer = rig.answers.get(&call);
        assert!(matches!(answer, Some(Answer::Stopped(Ok(a))) if a.cancelled), "{named}");
        rig.commit_all();
        assert!(rig.frames.is_empty() && rig.stdin_closed, "{named}: no prompt leaves");
        let turns: Vec<_> = rig.stop_events().into_iter().map(|event| event.turn).collect();
        assert_eq!(turns, [recorded.map(Into::into)], "never a turn that is over (rule 3.3.2)");
    }
}

/// Rule 3.4.2: there is nothing to find out, and so nothing reads stopping but the turn it named.
#[test]
pub(super) fn a_stop_that_named_its_turn_reads_stopping_on_that_turn_only() {
    for named in ["prompt:m1", "prompt:m9"] {
        let mut rig = in_the_gap();
        rig.stop(Some(named));
        rig.commit_all();
        let summary = rig.session.summary();
        assert_eq!((summary.status, summary.stopping), (Some(Status::Working), false), "{named}");
    }
    let mut rig = working();
    rig.stop(Some("prompt:m1"));
    assert!(rig.summary().stopping);
}

#[test]
pub(super) fn the_turn_that_runs_now_is_the_newest_one() {
    let mut rig = Rig::ready();
    rig.send("m2", "two");
    rig.expect("session/prompt");
    rig.stop(Some("prompt:m2"));
    assert!(rig.summary().stopping, "rule 4.1.3");
}

/// Rules 3.4.4, 3.4.10: the Stop named nothing and nothing ran; what ends while it settles is what it stopped.
#[test]
pub(super) fn a_turn_that_ends_while_a_stop_settles_is_what_it_stopped() {
    let mut rig = pressed_before_any_turn();
    rig.chunk("on my own");
    rig.send("m3", "three");
    assert!(rig.summary().stopping);
    rig.ends(Exit::Code(0));
    let turn = rig.last_turn();
    assert_eq!((turn.state, turn.outcome), (TurnState::Interrupted, Some(Outcome::Cancellation)));
    // Somebody whom the agent left behind is still being ended, and `m3` waits for that and not for the Stop.
    let summary = rig.summary();
    assert_eq!((summary.status, summary.stopping), (Some(Status::Working), false));
}

/// Rules 3.4.6, 3.7.2: the second press settles anew, and what it stops is its own.
#[test]
pub(super) fn a_press_behind_a_failed_one_takes_the_turn_that_opened_meanwhile() {
    let mut rig = pressed_before_any_turn();
    rig.pass_ms(60_000);
    rig.chunk("on my own");
    rig.stop(None);
    rig.exits(Exit::Signal(15));
    assert_eq!(rig.last_turn().outcome, Some(Outcome::Cancellation));
}

/// Rule 3.7.2: a press on an end that was not proven runs it again, in full.
#[test]
pub(super) fn a_press_on_an_unproven_end_runs_it_again() {
    let mut rig = working();
    rig.stop(None);
    rig.pass_ms(60_000);
    assert_eq!(rig.signals(), [Signal::Term, Signal::Kill]);
    rig.stop(None);
    rig.pass_ms(60_000);
    assert_eq!(rig.signals()[2..], [Signal::Term, Signal::Kill]);
}

/// Rule 3.7.6: nothing was stopped, so nothing is bound: what comes later reads working.
#[test]
pub(super) fn t41_a_stop_that_stopped_no_turn_ends_with_its_child() {
    let mut rig = Rig::new();
    rig.send("m1", "hello");
    rig.expect("initialize");
    rig.commits = false;
    rig.stop(None);
    rig.send("m2", "two");
    rig.commits = true;
    rig.commit_all();
    rig.exits(Exit::Code(0));
    let summary = rig.session.summary();
    assert_eq!((summary.status, summary.stopping), (Some(Status::Working), false));
    rig.handshake();
    rig.expect("session/prompt");
    assert!(!rig.session.summary().stopping);
    rig.exits(Exit::Code(1));
    assert_eq!(rig.last_turn().outcome, None, "and its end is its own");
}

/// Rule 3.3.4: a Stop is in force until something is sent.
#[test]
pub(super) fn a_persons_stop_of_an_earlier_turn_holds_no_event_of_the_host_back() {
    let mut rig = working();
    rig.stop(None);
    rig.expect("session/cancel");
    rig.says(&json!({"jsonrpc": "2.0", "id": 2, "result": cancelled()}));
    rig.exits(Exit::Code(0));
    rig.send("m2", "two");
    rig.handshake();
    rig.evict();
    let reasons: Vec<_> = rig.stop_events().into_iter().map(|event| event.reason).collect();
    assert_eq!(reasons, [StopReason::UserStop, StopReason::Evict]);
}

/// Rule 3.10.4: the event is bookkeeping, and the end does not wait for it.
#[test]
pub(super) fn an_eviction_reaches_the_agent_while_the_store_refuses() {
    let mut rig = working();
    rig.commits = false;
    rig.chunk("two");
    rig.pass_ms(20);
    rig.refuse_all();
    let call = rig.evict();
    assert!(matches!(rig.answers.get(&call), Some(Answer::Stopped(Ok(a))) if a.cancelled));
    rig.expect("session/cancel");
    assert!(rig.stop_events().is_empty(), "it is on no disk yet");
}

/// Rule 4.1.6: the settle is memory, and the process is gone.
#[test]
pub(super) fn nothing_reads_stopping_behind_a_restart() {
    let mut rig = working();
    rig.stop(None);
    rig.exits(Exit::Code(0));
    rig.restart();
    rig.mints = false;
    rig.send("m2", "two");
    let summary = rig.session.summary();
    assert_eq!((summary.status, summary.stopping), (Some(Status::Working), false));
}

/// Rule 4.3.2: what a summary quotes is bounded.
#[test]
pub(super) fn a_summary_quotes_no_more_of_a_prompt_than_its_bound() {
    use crate::limits::PREVIEW_CHARS_MAX;
    let mut rig = Rig::working(&"long ".repeat(PREVIEW_CHARS_MAX));
    rig.tool(&"tool ".repeat(PREVIEW_CHARS_MAX), "in_progress");
    let params = rig.session.summary();
    let lengths = [params.latest_prompt, params.tool_name].map(|t| t.map(|t| t.chars().count()));
    assert_eq!(lengths, [Some(PREVIEW_CHARS_MAX), Some(PREVIEW_CHARS_MAX)]);
    assert_eq!(rig.frame()["params"]["sessionId"], AGENT_SESSION, "the agent is given the whole");
}
