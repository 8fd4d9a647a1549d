//! How turns end: the table of rule 2.2.1, tools, late frames, agent turns.

use serde_json::json;

use super::rig::{AGENT_SESSION, Rig};
use crate::host::PermissionAnswer;
use crate::journal::{
    EndedAs, ItemBody, Outcome, Resolution, SubmissionState, ToolBody, ToolStatus, TurnState,
};
use crate::session::{Answer, Fault};
use crate::status::Status;

fn tools(rig: &Rig) -> Vec<ToolBody> {
    rig.items()
        .into_iter()
        .filter_map(|i| if let ItemBody::Tool(tool) = i.body { Some(tool) } else { None })
        .collect()
}

#[test]
fn t19_each_stop_reason_has_its_state_outcome_and_row() {
    use Outcome::{Cancellation, Failure, Success};
    use TurnState::{Completed, Interrupted};
    let table = [
        (json!("end_turn"), Completed, Some(Success), 0),
        (json!("cancelled"), Interrupted, Some(Cancellation), 0),
        (json!("refusal"), Completed, Some(Failure), 0),
        (json!("max_tokens"), Completed, Some(Failure), 0),
        (json!("max_turn_requests"), Completed, Some(Failure), 0),
        (json!("error"), Completed, Some(Failure), 1),
        (json!("rate_limit"), Completed, Some(Failure), 1),
        (json!("canceled"), Completed, None, 0),
        (json!("END_TURN"), Completed, None, 0),
        (json!(null), Completed, None, 0),
    ];
    for (reason, state, outcome, rows) in table {
        let mut rig = Rig::working("hello");
        rig.reply_prompt(json!({"stopReason": reason}));
        let turn = rig.last_turn();
        assert_eq!((turn.state, turn.outcome), (state, outcome), "{reason}");
        assert_eq!(rig.lines().len(), rows, "{reason}");
        assert_eq!(rig.state_of("m1"), SubmissionState::Accepted, "{reason}");
        rig.send("m2", "next");
        rig.expect("session/prompt");
    }
}

#[test]
fn t20_an_error_answer_fails_the_turn_with_one_row_before_its_end() {
    let mut rig = Rig::working("hello");
    let prompt = rig.expect("session/prompt");
    rig.fail(
        &prompt,
        json!({"code": -32603, "message": "Internal error", "data": {"details": "no quota"}}),
    );
    let turn = rig.last_turn();
    assert_eq!((turn.state, turn.outcome), (TurnState::Completed, Some(Outcome::Failure)));
    assert_eq!(rig.lines(), ["The agent ended the turn with an error. The agent said: no quota"]);
    let batch = rig.batches.iter().rev().find(|b| b.items.len() == 2).expect("one batch");
    assert!(matches!(batch.items[0].body, ItemBody::Turn(_) | ItemBody::Status(_)));
    assert_eq!(rig.state_of("m1"), SubmissionState::Accepted);
    rig.send("m2", "next");
    rig.expect("session/prompt");
}

#[test]
fn a_signed_out_error_is_worded_as_not_signed_in() {
    let mut rig = Rig::working("hello");
    let prompt = rig.expect("session/prompt");
    let details = "No model selected. Use /login";
    rig.fail(
        &prompt,
        json!({"code": -32603, "message": "Internal error", "data": {"details": details}}),
    );
    assert!(rig.lines()[0].starts_with("The agent is not signed in."), "{:?}", rig.lines());
}

#[test]
fn t21_an_answer_that_does_not_parse_fails_the_turn_and_nothing_is_cancelled() {
    for result in [json!("done"), json!(17), json!([])] {
        let mut rig = Rig::working("hello");
        rig.reply_prompt(result.clone());
        let turn = rig.last_turn();
        assert_eq!(
            (turn.state, turn.outcome),
            (TurnState::Completed, Some(Outcome::Failure)),
            "{result}"
        );
        assert_eq!(rig.lines(), ["The agent ended the turn with an error."]);
        assert!(rig.frames.is_empty(), "no cancel is sent");
        assert!(!rig.stdin_closed, "the child stays");
    }
}

#[test]
fn t22_calls_that_run_end_with_their_turn_in_the_same_batch() {
    for (reason, ended_as) in [("cancelled", Some(EndedAs::Interrupted)), ("end_turn", None)] {
        let mut rig = Rig::working("hello");
        rig.tool("t1", "pending");
        rig.tool("t2", "in_progress");
        let before = rig.batches.len();
        rig.reply_prompt(json!({"stopReason": reason}));
        for tool in tools(&rig) {
            assert_eq!((tool.status, tool.ended_as), (ToolStatus::Failed, ended_as));
        }
        let ending = &rig.batches[before];
        assert_eq!(ending.items.len(), 3, "two calls and the turn, at once");
    }
}

#[test]
fn t22_a_broken_connection_leaves_calls_unverifiable_and_the_proof_revises_them() {
    let mut rig = Rig::working("hello");
    rig.chunk("x");
    rig.tool("t1", "in_progress");
    let generation = rig.generation.clone();
    rig.session.handle_stdout_end(rig.now, &generation);
    rig.settle();
    assert_eq!(
        rig.last_turn().state,
        TurnState::Running,
        "stdout ending alone is no loss (rule 1.5.1)"
    );
    rig.pass_ms(4_000);
    assert_eq!(rig.last_turn().state, TurnState::Unverifiable);
    assert_eq!(tools(&rig)[0].ended_as, Some(EndedAs::Unverifiable));
    assert_eq!(rig.lines().len(), 0, "no row before the proof");
    rig.exits(crate::platform::Exit::Signal(15));
    assert_eq!(rig.last_turn().state, TurnState::Interrupted);
    assert_eq!(tools(&rig)[0].ended_as, Some(EndedAs::Interrupted), "calls follow their turn");
    assert_eq!(rig.last_turn().outcome, None);
    assert_eq!(rig.lines().len(), 1);
}

#[test]
fn t23_a_call_that_completed_a_moment_earlier_stays_completed() {
    let mut rig = Rig::working("hello");
    rig.tool("t1", "in_progress");
    let prompt = rig.expect("session/prompt");
    let done = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": AGENT_SESSION,
        "update": {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed"}}});
    let answer =
        json!({"jsonrpc": "2.0", "id": prompt["id"], "result": {"stopReason": "cancelled"}});
    rig.says_bytes(format!("{done}\n{answer}\n").as_bytes());
    assert_eq!(tools(&rig)[0].status, ToolStatus::Completed);
}

#[test]
fn t24_a_late_update_of_a_cut_turns_call_is_dropped_and_of_a_finished_one_is_marked() {
    for (reason, status, late) in
        [("cancelled", ToolStatus::Failed, false), ("end_turn", ToolStatus::Completed, true)]
    {
        let mut rig = Rig::working("hello");
        rig.tool("t1", "in_progress");
        rig.reply_prompt(json!({"stopReason": reason}));
        rig.pass_ms(8_000);
        rig.tool_update("t1", "completed");
        let tool = &tools(&rig)[0];
        assert_eq!((tool.status, tool.late), (status, late));
        assert_eq!(rig.turns().len(), 1, "nothing reopens a turn");
        let counted = rig.session.defects().map(|d| d.of(Fault::LateUpdate));
        assert_eq!(counted, Some(u64::from(!late)));
    }
}

#[test]
fn text_right_behind_the_answer_joins_its_turn_and_is_marked_late() {
    let mut rig = Rig::working("hello");
    rig.chunk("one ");
    rig.reply_prompt(json!({"stopReason": "end_turn"}));
    rig.pass_ms(200);
    rig.chunk("two");
    rig.pass_ms(20);
    assert_eq!(rig.turns().len(), 1);
    let late: Vec<_> = rig
        .items()
        .into_iter()
        .filter_map(
            |i| if let ItemBody::Message(m) = i.body { Some((m.text, m.late)) } else { None },
        )
        .collect();
    assert_eq!(late, [("one ".to_owned(), false), ("two".to_owned(), true)]);
    assert_eq!(rig.summary().status, Some(Status::Idle));
}

#[test]
fn t26_usage_at_rest_opens_no_turn_and_text_opens_one_of_the_agents_own() {
    let mut rig = Rig::ready();
    rig.pass_ms(1_000);
    rig.update(&json!({"sessionUpdate": "usage_update", "used": 5, "size": 100}));
    assert_eq!(rig.turns().len(), 1);
    assert_eq!(rig.timeline.context().map(|c| (c.used, c.size)), Some((5, 100)));
    rig.chunk("by the way");
    assert_eq!(rig.turns().len(), 2);
    let turn = rig.last_turn();
    assert_eq!((turn.state, turn.user_item), (TurnState::Running, None));
    rig.pass_ms(3_000);
    let turn = rig.last_turn();
    assert_eq!(
        (turn.state, turn.outcome),
        (TurnState::Completed, None),
        "quiet ends it (decision D4)"
    );
}

#[test]
fn a_prompt_takes_the_place_of_a_turn_the_agent_opened() {
    let mut rig = Rig::ready();
    rig.pass_ms(1_000);
    rig.chunk("by the way");
    rig.send("m2", "never mind");
    let turns = rig.turns();
    assert_eq!(turns[1].outcome, Some(Outcome::Superseded));
    assert_eq!(turns[2].state, TurnState::Running);
}

#[test]
fn a_second_answer_touches_no_other_turn() {
    let mut rig = Rig::working("one");
    let first = rig.expect("session/prompt");
    rig.reply(&first, json!({"stopReason": "end_turn"}));
    rig.send("m2", "two");
    rig.reply(&first, json!({"stopReason": "cancelled"}));
    assert_eq!(rig.last_turn().state, TurnState::Running);
    assert_eq!(rig.session.defects().map(|d| d.of(Fault::DuplicateReply)), Some(1));
}

fn ask(rig: &mut Rig, id: u64) {
    let options = json!([{"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"}]);
    let params = json!({"sessionId": AGENT_SESSION, "toolCall": {"toolCallId": "t1", "title": "touch x"},
        "options": options});
    rig.says(&json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}));
}

fn pending(rig: &Rig) -> Option<(crate::ids::ItemKey, u64)> {
    rig.items().into_iter().find_map(|i| match i.body {
        ItemBody::Approval(a) if a.resolution == Resolution::Pending => Some((i.item, i.revision)),
        _ => None,
    })
}

#[test]
fn a_permission_is_raised_answered_once_and_the_second_answer_learns_who_won() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    ask(&mut rig, 0);
    assert_eq!(rig.summary().status, Some(Status::Attention));
    let (item, expected_revision) = pending(&rig).expect("a card");
    let wrong = PermissionAnswer {
        item: item.clone(),
        expected_revision,
        option: Some("maybe".to_owned()),
    };
    rig.answer(wrong);
    assert!(rig.frames.is_empty(), "never a guess");
    let yes = PermissionAnswer { item, expected_revision, option: Some("yes".to_owned()) };
    rig.answer(yes.clone());
    let reply = rig.frame();
    assert_eq!(reply["result"]["outcome"], json!({"outcome": "selected", "optionId": "yes"}));
    let second = rig.answer(yes);
    assert!(matches!(rig.answers.get(&second), Some(Answer::Answered(Err(_)))));
    assert!(rig.frames.is_empty(), "exactly one reply");
    assert_eq!(rig.summary().status, Some(Status::Working));
}

#[test]
fn a_reused_request_id_makes_a_new_card_and_leaves_the_old_one() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    for expected in ["ask:g1:7", "ask:g1:7#2"] {
        ask(&mut rig, 7);
        let (item, expected_revision) = pending(&rig).expect("a card");
        assert_eq!(item.as_str(), expected);
        rig.answer(PermissionAnswer { item, expected_revision, option: Some("no".to_owned()) });
        rig.frame();
    }
}

#[test]
fn requests_that_cannot_be_shown_are_answered_at_once() {
    let mut rig = Rig::ready();
    ask(&mut rig, 1);
    assert_eq!(
        rig.frame()["result"]["outcome"]["outcome"],
        "cancelled",
        "nothing runs: no card (rule 9.1.2)"
    );
    assert_eq!(pending(&rig), None);
    rig.says(&json!({"jsonrpc": "2.0", "id": 2, "method": "fs/read_text_file", "params": {}}));
    assert_eq!(rig.frame()["error"]["code"], -32601);
    rig.says(&json!({"jsonrpc": "2.0", "id": 3, "method": "session/request_permission",
        "params": {"sessionId": "other", "toolCall": {}, "options": []}}));
    assert_eq!(rig.frame()["error"]["code"], -32602);
}

#[test]
fn open_requests_are_bounded() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    for id in 0..=128 {
        ask(&mut rig, id);
    }
    assert_eq!(rig.frames.len(), 1);
    assert_eq!(rig.frame()["error"]["code"], -32600);
}
