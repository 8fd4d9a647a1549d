//! The persist barrier: `session/close` between a cut turn and stdin EOF (decisions D13, D14).

use serde_json::{Value, json};

use super::rig::{AGENT_SESSION, Rig};
use crate::agent::{AgentDefinition, Barrier};
use crate::coverage::CoverageMark::{self, *};
use crate::host::PermissionAnswer;
use crate::journal::{ItemBody, Outcome, SendMode, StopReason, SubmissionState, TurnState};
use crate::limits::{CLOSE_BARRIER_MS, STOP_GRACE_MS};
use crate::platform::Exit;
use crate::session::Answer;

fn offers() -> Value {
    json!({"loadSession": true, "sessionCapabilities": {"close": {}}})
}

/// An agent that offers `session/close` and has a prompt, which is answered with.
fn working() -> (Rig, Value) {
    working_as(AgentDefinition::generic(vec!["agent".to_owned()]))
}

fn working_as(agent: AgentDefinition) -> (Rig, Value) {
    let mut rig = Rig::with_agent(agent);
    rig.send("m1", "hello");
    rig.handshake_with(offers());
    rig.chunk("one");
    let prompt = rig.expect("session/prompt");
    (rig, prompt)
}

/// A Stop, and the agent answers its cancel.
fn stopped() -> (Rig, Value) {
    let (mut rig, prompt) = working();
    rig.stop(None);
    rig.expect("session/cancel");
    rig.pass_ms(20);
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    let close = rig.expect("session/close");
    (rig, close)
}

fn met(rig: &Rig, mark: CoverageMark) -> bool {
    rig.session.met().contains(mark)
}

#[test]
fn an_agent_that_answered_its_cancel_is_asked_to_save_and_eof_waits_for_its_answer() {
    let (mut rig, close) = stopped();
    assert_eq!(close["params"]["sessionId"], AGENT_SESSION);
    assert!(!rig.stdin_closed);
    let turn = rig.last_turn();
    assert_eq!((turn.state, turn.outcome), (TurnState::Interrupted, Some(Outcome::Cancellation)));
    rig.pass_ms(6_030);
    assert!(!rig.stdin_closed && rig.signals().is_empty());
    rig.reply(&close, json!({}));
    assert!(rig.stdin_closed && met(&rig, BarrierAnswered));
    rig.pass_ms(999);
    assert!(rig.signals().is_empty(), "the EOF window is whole");
    rig.pass_ms(1);
    assert_eq!(rig.signals().len(), 1);
}

#[test]
fn an_error_ends_it_as_well_and_a_late_answer_is_no_duplicate() {
    let (mut rig, close) = stopped();
    rig.fail(&close, json!({"code": -32601, "message": "Method not found"}));
    assert!(rig.stdin_closed && met(&rig, BarrierAnswered));
    let (mut rig, close) = stopped();
    rig.pass_ms(CLOSE_BARRIER_MS);
    rig.reply(&close, json!({}));
    assert!(!met(&rig, ReplyDuplicated) && !met(&rig, BarrierAnswered));
}

#[test]
fn an_agent_that_never_answers_it_is_closed_at_its_bound() {
    let (mut rig, _close) = stopped();
    rig.pass_ms(CLOSE_BARRIER_MS - 1);
    assert!(!rig.stdin_closed, "not earlier");
    rig.pass_ms(1);
    assert!(rig.stdin_closed && met(&rig, BarrierExpired));
}

#[test]
fn a_cancel_unanswered_at_4000_ms_gets_no_barrier() {
    let (mut rig, prompt) = working();
    rig.stop(None);
    rig.expect("session/cancel");
    rig.pass_ms(STOP_GRACE_MS);
    assert!(rig.stdin_closed && rig.frames.is_empty());
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert!(rig.frames.is_empty(), "stdin is closed");
}

#[test]
fn an_agent_that_does_not_offer_it_or_whose_definition_switches_it_off_is_not_asked() {
    let mut rig = Rig::working("hello");
    let prompt = rig.expect("session/prompt");
    rig.stop(None);
    rig.expect("session/cancel");
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert!(rig.stdin_closed && rig.frames.is_empty());

    let generic = AgentDefinition::generic(vec!["agent".to_owned()]);
    let (mut rig, prompt) = working_as(AgentDefinition { barrier: Barrier::Off, ..generic });
    rig.stop(None);
    rig.expect("session/cancel");
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert!(rig.stdin_closed && rig.frames.is_empty());
}

#[test]
fn a_close_and_a_quit_mid_turn_have_it_too_and_an_idle_child_has_none() {
    let (mut rig, prompt) = working();
    let call = rig.close();
    rig.expect("session/cancel");
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    let close = rig.expect("session/close");
    assert!(!rig.stdin_closed && !rig.answers.contains_key(&call));
    rig.reply(&close, json!({}));
    rig.exits(Exit::Code(0));
    assert!(matches!(rig.answers.get(&call), Some(Answer::Closed(Ok(_)))));

    let (mut rig, prompt) = working();
    rig.session.end_child(rig.now, StopReason::HostStop);
    rig.settle();
    rig.expect("session/cancel");
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    rig.expect("session/close");

    let (mut rig, prompt) = working();
    rig.reply(&prompt, json!({"stopReason": "end_turn"}));
    rig.close();
    assert!(rig.stdin_closed && rig.frames.is_empty(), "nothing was cut (rule 1.8.3)");
}

#[test]
fn the_next_message_waits_for_the_child_behind_its_barrier() {
    let (mut rig, close) = stopped();
    rig.send("m2", "go on");
    assert_eq!(rig.state_of("m2"), SubmissionState::Queued);
    assert_eq!((rig.spawns.len(), rig.frames.len()), (1, 0));
    rig.reply(&close, json!({}));
    rig.exits(Exit::Code(0));
    assert_eq!(rig.spawns.len(), 2);
}

#[test]
fn what_the_agent_says_at_the_barrier_is_taken_and_what_it_asks_is_cancelled() {
    let (mut rig, close) = stopped();
    rig.chunk(" two");
    let params = json!({"sessionId": AGENT_SESSION, "toolCall": {"title": "rm"}, "options": []});
    rig.says(&json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params}));
    assert_eq!(rig.frame()["result"]["outcome"]["outcome"], "cancelled", "rule 3.5.4");
    assert!(!rig.stdin_closed && met(&rig, LateTextJoined));
    rig.reply(&close, json!({}));
    assert!(rig.stdin_closed);
}

#[test]
fn an_exit_or_the_end_of_stdout_ends_it() {
    let (mut rig, _close) = stopped();
    rig.exits(Exit::Code(0));
    assert!(met(&rig, BarrierLeft) && !met(&rig, ExitInWindDown));
    assert_eq!(rig.session.poll_deadline(), None);

    let (mut rig, _close) = stopped();
    rig.stdout_ends();
    assert!(rig.stdin_closed && met(&rig, BarrierLeft));

    let (mut rig, prompt) = working();
    rig.stop(None);
    rig.stdout_ends();
    assert!(!rig.stdin_closed, "the end of stdout alone is no loss (rule 1.5.1)");
    rig.expect("session/cancel");
    drop(prompt);
    rig.stop(None);
    assert!(rig.stdin_closed && rig.frames.is_empty(), "no answer could be read");
}

#[test]
fn a_broken_stdin_ends_it() {
    let (mut rig, _close) = stopped();
    let generation = rig.generation.clone();
    rig.session.handle_write_failed(rig.now, &generation);
    rig.settle();
    assert!(rig.stdin_closed);
}

#[test]
fn the_second_press_begins_it_though_the_cancel_is_unanswered_and_the_third_ends_it() {
    let (mut rig, prompt) = working();
    rig.stop(None);
    rig.expect("session/cancel");
    rig.pass_ms(1_000);
    rig.stop(None);
    rig.expect("session/close");
    assert!(!rig.stdin_closed && met(&rig, StopGraceCut));
    rig.pass_ms(4_000);
    assert!(!rig.stdin_closed, "the cancel's wait is over, the barrier's is not");
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert!(!rig.stdin_closed && rig.frames.is_empty(), "asked once");
    rig.stop(None);
    assert!(rig.stdin_closed && met(&rig, BarrierCut));
    rig.stop(None);
    rig.pass_ms(999);
    assert!(rig.signals().is_empty(), "no press shortens an EOF window");
}

#[test]
fn a_second_press_where_none_is_offered_closes_stdin_at_once() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    rig.stop(None);
    rig.expect("session/cancel");
    rig.stop(None);
    assert!(rig.stdin_closed && rig.frames.is_empty());
}

#[test]
fn a_second_press_that_finds_the_barrier_leaves_it_alone() {
    let (mut rig, _close) = stopped();
    rig.stop(None);
    assert!(!rig.stdin_closed);
    rig.stop(None);
    assert!(rig.stdin_closed);
}

#[test]
fn a_close_behind_a_stop_is_no_press() {
    let (mut rig, _prompt) = working();
    rig.stop(None);
    rig.close();
    rig.expect("session/cancel");
    assert!(!rig.stdin_closed && rig.frames.is_empty(), "rule 1.8.2");
}

#[test]
fn the_cancel_of_a_steer_that_a_stop_overtakes_counts() {
    let (mut rig, prompt) = working();
    rig.send_as("m2", "two", SendMode::Steer);
    rig.expect("session/cancel");
    rig.stop(None);
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    rig.expect("session/close");
}

#[test]
fn an_agents_own_turn_has_no_answer_and_no_barrier() {
    let (mut rig, prompt) = working();
    rig.reply(&prompt, json!({"stopReason": "end_turn"}));
    rig.pass_ms(300);
    rig.chunk("by myself");
    rig.stop(None);
    rig.expect("session/cancel");
    rig.pass_ms(STOP_GRACE_MS);
    assert!(rig.stdin_closed && rig.frames.is_empty());
}

#[test]
fn an_answer_of_a_person_that_is_not_saved_yet_holds_it_for_the_wait_at_most() {
    let (mut rig, prompt) = working();
    let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]);
    let params =
        json!({"sessionId": AGENT_SESSION, "toolCall": {"title": "rm"}, "options": options});
    rig.says(&json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params}));
    let asked = rig.items().into_iter().find(|i| matches!(i.body, ItemBody::Approval(_)));
    let asked = asked.expect("a card is shown");
    rig.commits = false;
    rig.answer(PermissionAnswer {
        item: asked.item,
        expected_revision: asked.revision,
        option: Some("yes".to_owned()),
    });
    rig.stop(None);
    rig.expect("session/cancel");
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert!(rig.frames.is_empty() && !rig.stdin_closed, "its reply goes first (rule 9.4.1)");
    rig.pass_ms(STOP_GRACE_MS);
    rig.expect("session/close");
    assert!(!rig.stdin_closed);
}

#[test]
fn a_host_that_quits_is_no_press() {
    let (mut rig, _prompt) = working();
    rig.session.end_child(rig.now, StopReason::HostStop);
    rig.settle();
    rig.expect("session/cancel");
    rig.stop(None);
    assert!(rig.frames.is_empty() && !rig.stdin_closed, "it is the first");
    rig.stop(None);
    rig.expect("session/close");
    rig.stop(None);
    assert!(rig.stdin_closed);
}
