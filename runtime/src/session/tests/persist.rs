//! Persist before act: each gate holds until its rows are durable, and what is never gated is not.

use serde_json::json;

use super::rig::Rig;
use crate::coverage::CoverageMark;
use crate::failure::RefusalCode;
use crate::journal::TurnState;
use crate::limits::MESSAGE_ID_BYTES_MAX;
use crate::platform::Exit;
use crate::session::Answer;
use crate::status::StorageState;
use crate::store::Refusal;

#[test]
fn a_send_is_answered_only_once_it_is_durable() {
    let mut rig = Rig::new();
    rig.commits = false;
    let call = rig.send("m1", "hello");
    assert!(!rig.answers.contains_key(&call));
    rig.commit_one();
    assert!(rig.answers.contains_key(&call));
}

#[test]
fn a_message_id_is_bounded() {
    let longest = "m".repeat(MESSAGE_ID_BYTES_MAX);
    for (id, refused) in [("", true), (longest.as_str(), false), (&format!("{longest}m"), true)] {
        let mut rig = Rig::new();
        let call = rig.send(id, "hello");
        let code = match rig.answers.get(&call) {
            Some(Answer::Sent(answer)) => answer.as_ref().err().map(|refusal| refusal.code),
            other => panic!("it is answered: {other:?}"),
        };
        assert_eq!(code, refused.then_some(RefusalCode::MessageIdInvalid), "{} bytes", id.len());
    }
}

#[test]
fn each_step_of_a_start_waits_for_its_rows() {
    let mut rig = Rig::new();
    rig.commits = false;
    rig.send("m1", "hello");
    rig.commit_one();
    assert_eq!(rig.spawns.len(), 0, "the reservation is not durable");
    rig.commit_one();
    assert_eq!(rig.spawns.len(), 1);
    assert!(rig.frames.is_empty(), "the identity is not durable");
    rig.commit_one();
    let initialize = rig.expect("initialize");
    rig.reply(&initialize, json!({"protocolVersion": 1}));
    let new = rig.expect("session/new");
    rig.reply(&new, json!({"sessionId": "agent-session-1"}));
    assert!(rig.frames.is_empty(), "the handle link is not durable");
    rig.commit_one();
    assert!(rig.frames.is_empty(), "the dispatch row is not durable");
    rig.commit_one();
    rig.expect("session/prompt");
}

#[test]
fn nothing_is_published_before_it_is_durable() {
    let mut rig = Rig::working("hello");
    rig.commits = false;
    let (batches, summaries) = (rig.batches.len(), rig.summaries.len());
    rig.chunk("secret");
    rig.pass_ms(20);
    assert_eq!((rig.batches.len(), rig.summaries.len()), (batches, summaries));
    rig.commit_all();
    assert!(rig.batches.len() > batches);
}

/// The agent asks for permission; what a person answers who agrees.
pub(super) fn asked(rig: &mut Rig) -> crate::host::PermissionAnswer {
    let params = json!({"sessionId": "agent-session-1", "toolCall": {"title": "x"},
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]});
    rig.says(&json!({"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": params}));
    let item =
        rig.items().into_iter().find(|i| i.item.as_str().starts_with("ask")).expect("a card");
    crate::host::PermissionAnswer {
        item: item.item,
        expected_revision: item.revision,
        option: Some("yes".to_owned()),
    }
}

#[test]
fn a_persons_answer_goes_out_only_after_its_compare_and_set() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    let answer = asked(&mut rig);
    rig.commits = false;
    rig.answer(answer);
    assert!(rig.frames.is_empty());
    // A Stop does not take a committed answer back (rule 9.4.1).
    rig.stop(None);
    rig.expect("session/cancel");
    rig.commit_all();
    assert_eq!(rig.frame()["result"]["outcome"]["outcome"], "selected");
}

#[test]
fn stdin_stays_open_until_a_persons_answer_under_a_stop_went_out() {
    let mut rig = Rig::working("hello");
    let prompt = rig.expect("session/prompt");
    let answer = asked(&mut rig);
    rig.commits = false;
    rig.answer(answer);
    rig.stop(None);
    rig.expect("session/cancel");
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    // The agent has answered its cancel; the person's answer is on its way to the disk, and finishes (rule 9.4.1).
    assert!(!rig.stdin_closed);
    rig.commit_all();
    assert_eq!(rig.frame()["result"]["outcome"]["outcome"], "selected");
    assert!(rig.stdin_closed);
}

#[test]
fn a_second_press_waits_for_a_persons_answer_that_is_on_its_way_to_the_disk() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    let answer = asked(&mut rig);
    rig.commits = false;
    rig.answer(answer);
    rig.stop(None);
    rig.expect("session/cancel");
    rig.stop(None);
    assert!(!rig.stdin_closed, "the agent is owed an answer (rule 9.4.1)");
    rig.commit_all();
    assert_eq!(rig.frame()["result"]["outcome"]["outcome"], "selected");
    assert!(
        rig.stdin_closed,
        "and the second press has ended the wait for its turn (decision D14)"
    );
}

#[test]
fn a_turn_whose_first_row_is_not_on_disk_yet_reads_stopping_without_a_gap() {
    let mut rig = Rig::ready();
    rig.commits = false;
    rig.send("m2", "hello");
    while rig.frames.is_empty() {
        rig.commit_one();
    }
    rig.expect("session/prompt");
    rig.stop(None);
    assert!(rig.summary().stopping);
    // The agent does not die: the settle closes, and the turn it was bound to is not on disk.
    rig.pass_ms(60_000);
    assert!(rig.session.met().contains(CoverageMark::StopFailed) && !rig.units.is_empty());
    assert!(
        rig.summary().stopping,
        "it would rise a second time once the turn is on disk (decision D27)"
    );
    rig.commit_all();
    assert!(rig.summary().stopping);
}

#[test]
fn a_stop_reaches_the_agent_while_the_store_refuses() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    rig.commits = false;
    rig.chunk("more");
    rig.pass_ms(20);
    rig.refuse_all();
    assert!(!rig.reading, "reading pauses (decision D8)");
    assert_eq!(rig.summary().storage, Some(StorageState::NotSaved));
    let send = rig.send("m2", "two");
    let Some(Answer::Sent(Err(refused))) = rig.answers.get(&send) else {
        panic!("a send is refused by name");
    };
    assert_eq!(refused.code, RefusalCode::NotSaved);
    let stop = rig.stop(None);
    rig.expect("session/cancel");
    assert!(matches!(rig.answers.get(&stop), Some(Answer::Stopped(Ok(a))) if a.cancelled));
    rig.pass_ms(250);
    assert!(!rig.units.is_empty(), "it is asked again after 250 ms");
    rig.commit_all();
    rig.commits = true;
    assert_eq!(rig.summary().storage, None, "it heals by itself");
}

#[test]
fn what_was_refused_is_stored_later_in_order_and_once() {
    let mut rig = Rig::working("hello");
    rig.commits = false;
    rig.chunk("one ");
    rig.pass_ms(20);
    rig.chunk("two ");
    rig.pass_ms(20);
    rig.refuse_all();
    rig.pass_ms(250);
    rig.refuse_all();
    rig.pass_ms(250);
    rig.commit_all();
    rig.commits = true;
    let seqs: Vec<_> = rig.stored.iter().map(|r| r.seq).collect();
    let expected: Vec<_> = (1..=seqs.len() as u64).collect();
    assert_eq!(seqs, expected, "no hole, no repeat");
    assert!(rig.reading);
}

#[test]
fn a_store_lost_for_good_ends_the_child_and_tells_every_caller() {
    let mut rig = Rig::working("hello");
    rig.commits = false;
    let call = rig.send("m2", "two");
    let (ticket, _) = rig.units.remove(0);
    rig.session.handle_refused(rig.now, ticket, Refusal::Closed { reason: "lost".to_owned() });
    rig.settle();
    let Some(Answer::Sent(Err(refused))) = rig.answers.get(&call) else {
        panic!("the caller is told");
    };
    assert_eq!(refused.code, RefusalCode::StoreClosed);
    assert!(rig.stdin_closed, "EOF first, also now");
    rig.exits(Exit::Code(0));
    assert!(!rig.session.has_child());
}

#[test]
fn a_store_lost_for_good_still_answers_what_the_agent_asked() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    let answer = asked(&mut rig);
    rig.commits = false;
    // Also where a person's own answer was on its way to the disk.
    rig.answer(answer);
    let (ticket, _) = rig.units.remove(0);
    rig.session.handle_refused(rig.now, ticket, Refusal::Closed { reason: "lost".to_owned() });
    rig.settle();
    let reply = rig.frame();
    assert_eq!(reply["result"]["outcome"]["outcome"], "cancelled", "{reply}");
    assert!(rig.stdin_closed);
}

#[test]
fn streamed_text_is_coalesced_and_arrives_whole() {
    let mut rig = Rig::working("hello");
    let rows = rig.stored.len();
    for _ in 0..100 {
        rig.chunk("0123456789");
    }
    rig.pass_ms(16);
    // The turn's acceptance, and one row of text.
    assert_eq!(rig.stored.len(), rows + 2);
    let text = rig.summary().last_assistant_message.clone().unwrap_or_default();
    assert!(text.starts_with("0123456789"));
    let item =
        rig.items().into_iter().find(|i| i.item.as_str().starts_with("text")).expect("a text");
    let crate::journal::ItemBody::Message(message) = item.body else { panic!("a message") };
    assert_eq!(message.text.len(), 1_000);
}

#[test]
fn a_text_past_its_bound_is_cut_and_tells_its_length_and_digest() {
    use crate::limits::TEXT_ITEM_BYTES_MAX;
    let mut rig = Rig::working("hello");
    let piece = "a".repeat(1024 * 1024);
    for _ in 0..9 {
        rig.chunk(&piece);
    }
    rig.reply_prompt(json!({"stopReason": "end_turn"}));
    let item =
        rig.items().into_iter().find(|i| i.item.as_str().starts_with("text")).expect("a text");
    let crate::journal::ItemBody::Message(message) = item.body else { panic!("a message") };
    assert_eq!(message.text.len(), TEXT_ITEM_BYTES_MAX);
    let cut = message.cut.expect("it is marked");
    assert_eq!(cut.bytes, 9 * 1024 * 1024);
    let whole = piece.repeat(9);
    assert_eq!(cut.sha256, Some(crate::digest::sha256_hex(whole.as_bytes())));
    assert_eq!(rig.last_turn().state, TurnState::Completed);
}
