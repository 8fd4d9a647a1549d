//! The plain Stop of a running turn.

use serde_json::json;

use super::rig::{AGENT_SESSION, Rig};
use crate::coverage::CoverageMark;
use crate::failure::FailureCode;
use crate::journal::{
    ChildRow, ItemBody, Mark, Outcome, Resolution, RowKind, SendMode, SubmissionState, TurnState,
};
use crate::limits::{LATE_UPDATE_WINDOW_MS, STDIN_DRAIN_MS, STOP_GRACE_MS};
use crate::platform::Exit;
use crate::session::ladder::{EndedHow, POSIX_EOF_GRACE_MS};
use crate::session::{Answer, STOP_NOTE, StopAnswer};
use crate::status::Status;

#[test]
pub(super) fn t27_a_stop_cancels_waits_for_the_answer_and_ends_the_child_on_eof() {
    let mut rig = Rig::working("hello");
    rig.chunk("one");
    let prompt = rig.expect("session/prompt");
    let call = rig.stop(None);
    let answer = StopAnswer { turn: None, cancelled: true };
    assert_eq!(rig.answers.get(&call), Some(&Answer::Stopped(Ok(answer))));
    rig.expect("session/cancel");
    assert!(!rig.stdin_closed, "never at the press (rule 1.9.1)");
    rig.pass_ms(20);
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert!(rig.stdin_closed);
    rig.pass_ms(500);
    rig.exits(Exit::Code(0));
    let turn = rig.last_turn();
    assert_eq!((turn.state, turn.outcome), (TurnState::Interrupted, Some(Outcome::Cancellation)));
    assert!(turn.under_stop);
    assert_eq!(rig.lines(), [STOP_NOTE]);
    assert_eq!(rig.signals(), []);
    let how = rig.stored.iter().find_map(|r| match &r.kind {
        RowKind::Child(ChildRow::Exited { how, requested, .. }) => Some((*how, *requested)),
        _ => None,
    });
    assert_eq!(how, Some((EndedHow::OnEof, true)));
    let stops =
        rig.stored.iter().filter(|r| matches!(&r.kind, RowKind::Mark { mark: Mark::Stop(_) }));
    assert_eq!(stops.count(), 1);
}

#[test]
pub(super) fn t28_an_unanswered_cancel_waits_4000_ms_and_the_turn_ends_cancelled_at_the_exit() {
    let mut rig = Rig::working("hello");
    rig.chunk("one");
    rig.stop(None);
    rig.pass_ms(3_999);
    assert!(!rig.stdin_closed, "not earlier");
    rig.pass_ms(1);
    assert!(rig.stdin_closed);
    assert_eq!(rig.signals().len(), 0);
    rig.pass_ms(1_000);
    assert_eq!(rig.signals().len(), 1, "SIGTERM after the EOF window");
    rig.exits(Exit::Signal(15));
    let turn = rig.last_turn();
    assert_eq!((turn.state, turn.outcome), (TurnState::Interrupted, Some(Outcome::Cancellation)));
    assert_eq!(rig.lines(), [STOP_NOTE], "no error row for what a person asked for");
}

#[test]
fn t46_the_agents_own_verdict_stands_after_a_stop() {
    let mut rig = Rig::working("hello");
    let prompt = rig.expect("session/prompt");
    rig.stop(None);
    rig.reply(&prompt, json!({"stopReason": "end_turn"}));
    let turn = rig.last_turn();
    assert_eq!((turn.state, turn.outcome), (TurnState::Completed, Some(Outcome::Success)));
    assert!(turn.under_stop, "a client can tell it was being stopped (decision D1)");
}

#[test]
pub(super) fn the_next_send_waits_for_the_old_child_and_runs_on_the_resumed_session_at_a_higher_fence()
 {
    let mut rig = Rig::working("hello");
    let prompt = rig.expect("session/prompt");
    rig.stop(None);
    rig.expect("session/cancel");
    rig.send("m2", "go on");
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert_eq!(rig.spawns.len(), 1, "no second process before the old one is gone");
    rig.exits(Exit::Code(0));
    assert_eq!(rig.spawns.len(), 2);
    let initialize = rig.expect("initialize");
    let offered = json!({"sessionCapabilities": {"resume": {}}});
    rig.reply(&initialize, json!({"protocolVersion": 1, "agentCapabilities": offered}));
    let resume = rig.expect("session/resume");
    assert_eq!(resume["params"]["sessionId"], AGENT_SESSION);
    rig.reply(&resume, json!({}));
    rig.expect("session/prompt");
    assert_eq!(rig.session.fence().0, 2);
    assert_eq!(rig.state_of("m2"), SubmissionState::HandedOver);
}

#[test]
pub(super) fn t33_nothing_to_stop_stops_nothing() {
    let mut rig = Rig::ready();
    let rows = rig.stored.len();
    let call = rig.stop(None);
    let answer = StopAnswer { turn: None, cancelled: false };
    assert_eq!(rig.answers.get(&call), Some(&Answer::Stopped(Ok(answer))));
    assert_eq!(rig.stored.len(), rows, "no event, no note");
    assert!(rig.frames.is_empty());
}

#[test]
pub(super) fn t34_a_stop_that_names_an_ended_turn_leaves_the_running_one_alone() {
    let mut rig = Rig::ready();
    rig.send("m2", "two");
    rig.expect("session/prompt");
    let call = rig.stop(Some("prompt:m1"));
    let answer = StopAnswer { turn: Some("prompt:m1".into()), cancelled: false };
    assert_eq!(rig.answers.get(&call), Some(&Answer::Stopped(Ok(answer))));
    assert!(rig.frames.is_empty());
    assert_eq!(rig.last_turn().state, TurnState::Running);
}

#[test]
pub(super) fn a_stop_while_starting_withdraws_what_is_queued_and_ends_the_child() {
    let mut rig = Rig::new();
    rig.send("m1", "hello");
    rig.expect("initialize");
    let call = rig.stop(None);
    assert!(matches!(rig.answers.get(&call), Some(Answer::Stopped(Ok(a))) if a.cancelled));
    assert!(rig.stdin_closed);
    assert_eq!(rig.state_of("m1"), SubmissionState::Rejected);
    let fact = rig.timeline.submission(&"m1".into()).and_then(|s| s.fact.clone());
    assert_eq!(fact.map(|f| f.code), Some(FailureCode::Cancelled), "nobody's fault (rule 3.8.2)");
    rig.exits(Exit::Code(0));
    assert_eq!(rig.lines(), [""; 0], "no note: nothing ran");
    assert_eq!(rig.summary().status, None, "a withdrawn send makes nothing listable (rule 4.2.3)");
}

#[test]
fn a_stop_withdraws_the_pending_permission_before_it_cancels() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    let params = json!({"sessionId": AGENT_SESSION, "toolCall": {"title": "rm"}, "options": []});
    rig.says(&json!({"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": params.clone()}));
    rig.stop(None);
    assert_eq!(rig.frame()["result"]["outcome"]["outcome"], "cancelled");
    rig.expect("session/cancel");
    rig.says(&json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params}));
    assert_eq!(rig.frame()["result"]["outcome"]["outcome"], "cancelled", "no card after the Stop");
    let resolutions: Vec<_> = rig
        .items()
        .into_iter()
        .filter_map(|i| if let ItemBody::Approval(a) = i.body { Some(a.resolution) } else { None })
        .collect();
    assert_eq!(resolutions, [Resolution::Cancelled]);
}

#[test]
pub(super) fn a_stop_that_overtakes_the_dispatch_row_holds_the_message_back_and_it_runs_later() {
    let mut rig = Rig::ready();
    rig.commits = false;
    rig.send("m2", "two");
    rig.commit_one();
    assert!(rig.frames.is_empty(), "the dispatch row is not durable yet");
    rig.stop(None);
    rig.commit_all();
    rig.commits = true;
    assert!(rig.frames.is_empty(), "its frame never left (decision D24)");
    rig.exits(Exit::Code(0));
    let initialize = rig.expect("initialize");
    rig.reply(
        &initialize,
        json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}),
    );
    let load = rig.expect("session/load");
    rig.reply(&load, json!({}));
    let prompt = rig.expect("session/prompt");
    assert_eq!(prompt["params"]["prompt"][0]["text"], "two");
}

#[test]
fn a_close_mid_turn_winds_down_as_a_stop_does_and_the_cut_turn_is_the_persons() {
    let mut rig = Rig::working("hello");
    rig.chunk("x");
    let prompt = rig.expect("session/prompt");
    let call = rig.close();
    rig.expect("session/cancel");
    assert!(!rig.stdin_closed);
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert!(rig.stdin_closed);
    rig.exits(Exit::Code(0));
    assert_eq!(rig.last_turn().outcome, Some(Outcome::Cancellation));
    assert!(matches!(rig.answers.get(&call), Some(Answer::Closed(Ok(_)))));
}

#[test]
fn t61_steers_run_in_order_and_each_but_the_last_is_cut() {
    let mut rig = Rig::working("one");
    let first = rig.expect("session/prompt");
    rig.send_as("m2", "two", SendMode::Steer);
    rig.expect("session/cancel");
    rig.send_as("m3", "three", SendMode::Steer);
    assert!(rig.frames.is_empty(), "one cancel a prompt (decision D14)");
    rig.reply(&first, json!({"stopReason": "cancelled"}));
    let second = rig.expect("session/prompt");
    assert_eq!(second["params"]["prompt"][0]["text"], "two");
    rig.expect("session/cancel");
    rig.reply(&second, json!({"stopReason": "cancelled"}));
    let third = rig.expect("session/prompt");
    assert_eq!(third["params"]["prompt"][0]["text"], "three");
    assert!(rig.frames.is_empty(), "the last one runs to its end");
}

#[test]
fn a_message_whose_frame_never_left_is_rejected_when_no_child_will_come() {
    use crate::journal::StopReason;
    for quits in [false, true] {
        let mut rig = Rig::ready();
        rig.commits = false;
        rig.send("m2", "two");
        rig.commit_one();
        if quits {
            rig.session.end_child(rig.now, StopReason::HostStop);
            rig.settle();
        } else {
            rig.close();
        }
        rig.commit_all();
        rig.commits = true;
        assert!(rig.frames.is_empty());
        rig.exits(Exit::Code(0));
        assert_eq!(rig.state_of("m2"), SubmissionState::Rejected, "it is proven not delivered");
        assert!(rig.session.is_at_rest());
    }
}

#[test]
fn t29_an_agent_that_does_not_read_is_offered_eof_and_its_window_before_force() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    rig.pipe_drains = false;
    let stop = rig.stop(None);
    rig.expect("session/cancel");
    assert!(matches!(rig.answers.get(&stop), Some(Answer::Stopped(Ok(a))) if a.cancelled));
    rig.pass_ms(STOP_GRACE_MS);
    assert!(rig.stdin_closed && !rig.stdin_cut, "the cancel may still leave");
    rig.pass_ms(STDIN_DRAIN_MS);
    assert!(rig.stdin_cut, "it has not; EOF comes without it (invariant 8)");
    rig.pass_ms(POSIX_EOF_GRACE_MS - 1);
    assert!(rig.signals().is_empty(), "its window is whole from there on");
    rig.pass_ms(1);
    assert_eq!(rig.signals().len(), 1);
}

/// Rule 3.5.7: nothing of the old process can open a turn afterwards.
#[test]
pub(super) fn t47_what_a_stopped_agent_says_behind_its_turn_opens_none() {
    let mut rig = Rig::working("hello");
    let prompt = rig.expect("session/prompt");
    rig.stop(None);
    rig.expect("session/cancel");
    rig.chunk("cut");
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    rig.chunk("late");
    rig.pass_ms(20);
    // What it says under the Stop is kept (rule 3.5.5), and inside its window joins the turn (decision D3 c).
    assert_eq!(texts(&rig), "cutlate");
    rig.pass_ms(LATE_UPDATE_WINDOW_MS);
    rig.chunk("by the way");
    rig.tool("call-9", "in_progress");
    rig.pass_ms(20);
    assert!(texts(&rig).ends_with("late"));
    assert_eq!(rig.turns().len(), 1);
    assert_eq!(rig.summary().status, Some(Status::Idle));
    assert!(rig.session.met().contains(CoverageMark::LateWordsDropped));
}

fn texts(rig: &Rig) -> String {
    let words = rig.items().into_iter().filter_map(|item| match item.body {
        ItemBody::Message(message) => Some(message.text),
        _ => None,
    });
    words.collect()
}
