//! Corners where two things meet: each was once answered wrongly.

use serde_json::json;

use super::persist::asked;
use super::rig::{AGENT_SESSION, Rig};
use crate::failure::RefusalCode;
use crate::journal::{EndedAs, ItemBody, SubmissionState, ToolStatus, TurnState};
use crate::platform::{Exit, Report};
use crate::session::ladder::EndedHow;
use crate::session::record::Claim;
use crate::session::{Answer, Policy, Session};
use crate::store::{Refusal, StoredRows};

/// A ready child, and a message whose dispatch row waits for the store.
fn dispatching() -> Rig {
    let mut rig = Rig::ready();
    rig.commits = false;
    rig.send("m2", "two");
    rig.commit_one();
    assert_eq!(rig.units.len(), 1, "the dispatch row waits");
    rig
}

/// A message that a Stop held back, its child gone and the next one starting for it.
fn withheld_and_starting() -> Rig {
    let mut rig = dispatching();
    rig.stop(None);
    rig.commits = true;
    rig.commit_all();
    rig.exits(Exit::Code(0));
    assert_eq!(rig.spawns.len(), 2);
    assert_eq!(rig.state_of("m2"), SubmissionState::HandedOver);
    rig
}

fn ask(rig: &mut Rig, id: u64) {
    let params = json!({"sessionId": AGENT_SESSION, "toolCall": {"title": "x"},
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]});
    rig.says(&json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}));
}

fn stored(rig: &Rig) -> StoredRows {
    let epoch = Some(rig.session.record().epoch.clone());
    StoredRows { epoch, rows: rig.stored.clone(), fault: None }
}

fn tools(rig: &Rig) -> Vec<(ToolStatus, Option<EndedAs>)> {
    let items = rig.items().into_iter();
    items
        .filter_map(|i| match i.body {
            ItemBody::Tool(t) => Some((t.status, t.ended_as)),
            _ => None,
        })
        .collect()
}

#[test]
fn a_unit_planned_while_the_store_heals_is_stored_in_its_order() {
    let mut rig = Rig::working("hello");
    rig.commits = false;
    rig.chunk("one ");
    rig.pass_ms(20);
    rig.refuse_all();
    rig.pass_ms(250);
    assert!(!rig.units.is_empty(), "the store is asked again");
    rig.chunk("two ");
    rig.pass_ms(20);
    rig.commit_all();
    rig.chunk("three ");
    rig.pass_ms(20);
    rig.commit_all();
    rig.pass_ms(1_000);
    assert!(rig.units.is_empty());
    let text = rig.items().into_iter().find_map(|i| match i.body {
        ItemBody::Message(m) => Some(m.text),
        _ => None,
    });
    assert_eq!(text.as_deref(), Some("one two three "));
}

#[test]
fn a_send_that_a_lost_store_dropped_is_not_answered_as_accepted_when_it_is_asked_again() {
    let mut rig = Rig::ready();
    rig.commits = false;
    rig.send("m2", "two");
    let (ticket, _) = rig.units.remove(0);
    rig.session.handle_refused(rig.now, ticket, Refusal::Closed { reason: "lost".to_owned() });
    rig.settle();
    let again = rig.send("m2", "two");
    let Some(Answer::Sent(Err(refused))) = rig.answers.get(&again) else {
        panic!("it is on no disk");
    };
    assert_eq!(refused.code, RefusalCode::StoreClosed);
    let kept = rig.send("m1", "warm up");
    assert!(matches!(rig.answers.get(&kept), Some(Answer::Sent(Ok(_)))), "this one is on disk");
}

#[test]
fn a_held_message_whose_start_fails_is_rejected_once_and_never_starts_another_child() {
    let mut rig = withheld_and_starting();
    rig.exits(Exit::Code(1));
    assert_eq!(rig.state_of("m2"), SubmissionState::Rejected);
    assert_eq!(rig.spawns.len(), 2, "nothing is left to start for");
    rig.send("m3", "three");
    assert_eq!(rig.spawns.len(), 3);
    let initialize = rig.frames.pop_back().expect("a frame");
    rig.frames.clear();
    rig.reply(
        &initialize,
        json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}),
    );
    let load = rig.expect("session/load");
    rig.reply(&load, json!({}));
    let prompt = rig.expect("session/prompt");
    assert_eq!(prompt["params"]["prompt"][0]["text"], "three", "a rejected message never goes out");
}

#[test]
fn a_second_stop_withdraws_a_held_message() {
    let mut rig = withheld_and_starting();
    let call = rig.stop(None);
    assert!(matches!(rig.answers.get(&call), Some(Answer::Stopped(Ok(a))) if a.cancelled));
    assert_eq!(rig.state_of("m2"), SubmissionState::Rejected, "rule 3.8.1");
    rig.exits(Exit::Code(0));
    assert_eq!(rig.spawns.len(), 2);
    assert!(!rig.session.has_child());
}

#[test]
fn a_close_or_a_quit_settles_a_message_whose_frame_never_left() {
    for quits in [false, true] {
        for held in [false, true] {
            let mut rig = dispatching();
            if held {
                rig.stop(None);
                rig.commit_all();
            }
            if quits {
                rig.session.end_child(rig.now, crate::journal::StopReason::HostStop);
                rig.settle();
            } else {
                rig.close();
            }
            rig.commits = true;
            rig.commit_all();
            rig.exits(Exit::Code(0));
            assert!(rig.session.is_at_rest());
            assert_eq!(
                rig.state_of("m2"),
                SubmissionState::Rejected,
                "quits {quits}, held {held}: it is proven not delivered"
            );
        }
    }
}

#[test]
fn a_request_that_waits_when_its_turn_ends_is_answered() {
    let mut rig = Rig::working("hello");
    let prompt = rig.expect("session/prompt");
    ask(&mut rig, 7);
    rig.reply(&prompt, json!({"stopReason": "end_turn"}));
    let reply = rig.frame();
    assert_eq!(
        (&reply["id"], &reply["result"]["outcome"]["outcome"]),
        (&json!(7), &json!("cancelled"))
    );
    rig.send("m2", "two");
    rig.expect("session/prompt");
    ask(&mut rig, 7);
    assert!(rig.frames.is_empty(), "its id is free again, and the new question waits for a person");
}

#[test]
fn two_answers_on_their_way_each_free_their_own_request() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    ask(&mut rig, 1);
    ask(&mut rig, 2);
    let cards: Vec<_> =
        rig.items().into_iter().filter(|i| i.item.as_str().starts_with("ask")).collect();
    rig.commits = false;
    for card in cards.iter().rev() {
        rig.answer(crate::host::PermissionAnswer {
            item: card.item.clone(),
            expected_revision: card.revision,
            option: Some("yes".to_owned()),
        });
    }
    rig.commit_one();
    assert_eq!(rig.frame()["id"], 2);
    ask(&mut rig, 1);
    assert_eq!(rig.frame()["error"]["code"], -32_600, "the first one is still open");
}

#[test]
fn a_proof_after_a_broken_connection_revises_the_calls_with_their_turn() {
    let mut rig = Rig::working("hello");
    rig.tool("t1", "in_progress");
    let generation = rig.generation.clone();
    rig.session.handle_stdout_end(rig.now, &generation);
    rig.settle();
    rig.pass_ms(4_000);
    assert_eq!(tools(&rig), [(ToolStatus::Failed, Some(EndedAs::Unverifiable))]);
    rig.exits(Exit::Signal(15));
    assert_eq!(rig.last_turn().state, TurnState::Interrupted);
    assert_eq!(tools(&rig), [(ToolStatus::Failed, Some(EndedAs::Interrupted))], "rule 1.5.3");
}

#[test]
fn nothing_is_journaled_of_an_agent_whose_supervisor_was_lost() {
    let mut rig = Rig::working("hello");
    let generation = rig.generation.clone();
    rig.session.handle_report(rig.now, &generation, Report::SupervisorLost);
    rig.settle();
    rig.pass_ms(500);
    let items = rig.items().len();
    rig.chunk("still here");
    rig.tool("t9", "in_progress");
    rig.pass_ms(100);
    assert_eq!(rig.items().len(), items, "rule 1.5.2");
    assert_eq!(rig.last_turn().state, TurnState::Unverifiable);
}

#[test]
fn a_child_that_leaves_after_force_never_reads_as_having_left_on_eof() {
    let mut rig = Rig::ready();
    rig.close();
    rig.pass_ms(10_000);
    let second = rig.close();
    rig.pass_ms(100);
    rig.exits(Exit::Signal(9));
    let Some(Answer::Closed(Ok(ended))) = rig.answers.get(&second) else {
        panic!("the close is answered");
    };
    assert_eq!(ended.how, Some(EndedHow::AfterKill), "decision D10");
}

#[test]
fn a_late_update_never_sets_a_call_of_an_ended_turn_running_again() {
    let mut rig = Rig::working("hello");
    rig.tool("t1", "completed");
    rig.reply_prompt(json!({"stopReason": "end_turn"}));
    rig.tool_update("t1", "in_progress");
    assert_eq!(tools(&rig), [(ToolStatus::Completed, None)]);
}

#[test]
fn a_close_over_an_earlier_hosts_child_does_not_claim_that_it_is_gone() {
    let mut rig = Rig::ready();
    let record = rig.session.record().clone();
    assert_eq!(record.lease.claim, Claim::Live);
    let stored = stored(&rig);
    rig.session = Session::restore(Policy::default(), record, stored, rig.now);
    rig.settle();
    let call = rig.close();
    match rig.answers.get(&call) {
        Some(Answer::Closed(Err(refused))) => {
            assert_eq!(refused.code, RefusalCode::OwnershipUnknown);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_that_quit_is_restored_with_nothing_left_to_settle() {
    let mut rig = Rig::working("hello");
    rig.chunk("x");
    rig.session.end_child(rig.now, crate::journal::StopReason::HostStop);
    rig.settle();
    rig.pass_ms(4_000);
    rig.exits(Exit::Code(0));
    assert!(rig.session.is_at_rest());
    let rows = rig.stored.len();
    let durable = rig.session.journal().clone();
    let stored = stored(&rig);
    let record = rig.session.record().clone();
    rig.session = Session::restore(Policy::default(), record, stored, rig.now);
    rig.settle();
    assert_eq!(rig.stored.len(), rows, "no row is written");
    assert_eq!(*rig.session.journal(), durable, "the rows are the state");
    rig.send("m2", "again");
    rig.expect("session/prompt");
    rig.expect("session/cancel");
    rig.expect("initialize");
}

#[test]
fn the_buffer_of_a_ladder_counts_payloads() {
    let mut rig = Rig::working("hello");
    rig.commits = false;
    rig.chunk("x");
    rig.stop(None);
    rig.refuse_all();
    rig.pass_ms(4_000);
    let output = "o".repeat(16 * 1024);
    let mut most = 0;
    for n in 0..4_000 {
        let id = format!("t{n}");
        rig.update(&json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "t", "status": "completed",
            "rawInput": output}));
        most = most.max(rig.session.appends.bytes());
    }
    assert!(most >= crate::limits::LADDER_BUFFER_BYTES_MAX, "the bound is reached");
    assert!(most < crate::limits::LADDER_BUFFER_BYTES_MAX + 64 * 1024);
    assert!(rig.session.discarded > 0);
}

#[test]
fn debug_prints_no_text_of_anybody() {
    let mut rig = Rig::working("SECRET-prompt");
    let generation = rig.generation.clone();
    rig.session.handle_stderr(rig.now, &generation, b"SECRET-stderr");
    rig.chunk("SECRET-answer");
    rig.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "SECRET-title",
        "rawInput": {"x": "SECRET-input"}}));
    rig.says_bytes(b"SECRET-half-a-line");
    rig.send("m2", "SECRET-queued");
    let printed = format!("{:?} {:?} {:?}", rig.session, rig.stored, rig.batches);
    let at = printed.find("SECRET").map(|at| &printed[at.saturating_sub(60)..at + 20]);
    assert_eq!(at, None);
}

#[test]
fn background_work_that_is_left_on_purpose_is_no_unproven_end() {
    let mut rig = Rig::ready();
    rig.session.policy.ladder.keep_background = true;
    rig.session.end_child(rig.now, crate::journal::StopReason::HostStop);
    rig.settle();
    rig.commits = false;
    rig.ends(Exit::Code(0));
    rig.swept(false);
    assert!(!rig.session.is_unproven(), "its rows are on their way");
    assert!(!rig.session.is_at_rest());
    rig.commit_all();
    assert!(rig.session.is_at_rest());
}

#[test]
fn what_is_known_of_an_unproven_end_is_saved_before_a_host_may_end_over_it() {
    let mut rig = Rig::ready();
    rig.session.end_child(rig.now, crate::journal::StopReason::HostStop);
    rig.settle();
    rig.commits = false;
    rig.ends(Exit::Code(0));
    rig.swept(false);
    assert!(rig.session.is_unproven());
    assert!(!rig.session.is_saved());
    rig.commit_all();
    assert!(rig.session.is_unproven() && rig.session.is_saved());
}

#[test]
fn a_close_of_a_tree_that_nobody_can_sweep_any_more_is_refused_by_name() {
    let mut rig = Rig::ready();
    let generation = rig.generation.clone();
    let exited = Report::Exited { exit: Exit::Code(0) };
    rig.session.handle_report(rig.now, &generation, exited);
    rig.settle();
    rig.session.handle_stdout_end(rig.now, &generation);
    rig.session.handle_stderr_end(rig.now, &generation);
    rig.session.handle_report(rig.now, &generation, Report::SupervisorLost);
    rig.settle();
    let close = rig.close();
    let Some(Answer::Closed(Err(refused))) = rig.answers.get(&close) else {
        panic!("the close waits for ever: {:?}", rig.answers.get(&close));
    };
    assert_eq!(refused.code, RefusalCode::OwnershipUnknown);
}

/// Rule 9.4.1: a claimed answer finishes. The agent has left its turn before the answer was on disk.
#[test]
fn an_answer_on_its_way_to_the_disk_reaches_the_agent_before_its_stdin_closes() {
    let mut rig = Rig::working("hello");
    let prompt = rig.expect("session/prompt");
    let answer = asked(&mut rig);
    rig.commits = false;
    rig.answer(answer);
    rig.stop(None);
    rig.expect("session/cancel");
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert!(!rig.stdin_closed, "the agent is owed an answer");
    rig.commit_one();
    assert_eq!(rig.frame()["result"]["outcome"]["optionId"], "yes");
    assert!(rig.stdin_closed);
}

/// The same when the store does not answer: no longer than the cancel wait (rule 3.5.2).
#[test]
fn an_answer_that_is_never_on_disk_holds_no_stop_up() {
    let mut rig = Rig::working("hello");
    let prompt = rig.expect("session/prompt");
    let answer = asked(&mut rig);
    rig.commits = false;
    rig.answer(crate::host::PermissionAnswer { option: None, ..answer });
    rig.stop(None);
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    rig.pass_ms(3_999);
    assert!(!rig.stdin_closed);
    rig.pass_ms(1);
    assert!(rig.stdin_closed);
}

/// Rule 5.3.3: an agent that leaves before it is given the message it was started for is not started for it again.
#[test]
fn an_agent_that_leaves_before_its_first_prompt_is_not_started_for_ever() {
    let mut rig = Rig::new();
    rig.send("m1", "one");
    let initialize = rig.expect("initialize");
    rig.reply(&initialize, json!({"protocolVersion": 1, "agentCapabilities": {}}));
    let new = rig.expect("session/new");
    rig.commits = false;
    rig.reply(&new, json!({"sessionId": AGENT_SESSION}));
    rig.commit_one();
    assert!(rig.frames.is_empty(), "its handover is not on disk yet");
    rig.exits(Exit::Code(0));
    rig.commit_all();
    assert_eq!(rig.state_of("m1"), crate::journal::SubmissionState::Rejected);
    assert_eq!(rig.spawns.len(), 1);
    assert!(rig.frames.is_empty());
}

/// A closed session whose lease is free is looked at by no later host: its child's end leaves no message open.
#[test]
fn a_message_that_a_close_overtook_at_its_handover_is_settled_with_the_child() {
    let mut rig = Rig::ready();
    rig.commits = false;
    rig.send("m2", "two");
    rig.commit_one();
    rig.close();
    rig.exits(Exit::Code(0));
    let releases = rig.units.iter().position(|(_, unit)| {
        unit.record.as_ref().is_some_and(|change| change.record.lease.claim == Claim::Released)
    });
    let last = releases.expect("the end releases the lease");
    (0..=last).for_each(|_| rig.commit_one());
    assert_eq!(rig.state_of("m2"), crate::journal::SubmissionState::Rejected);
    assert!(rig.frames.is_empty());
}

/// The other side of that boundary: the agent was not started for it, so it has a start of its own.
#[test]
fn a_later_message_survives_an_agent_that_leaves_before_its_prompt() {
    let mut rig = Rig::ready();
    rig.commits = false;
    rig.send("m2", "two");
    rig.commit_one();
    rig.exits(Exit::Code(0));
    rig.commits = true;
    rig.commit_all();
    assert_eq!(rig.spawns.len(), 2);
    rig.expect("initialize");
}
