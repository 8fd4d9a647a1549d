//! Start, handshake, prompt, close.

use serde_json::json;

use super::rig::{AGENT_SESSION, Rig};
use crate::agent::AgentDefinition;
use crate::failure::{FailureCode, RefusalCode};
use crate::journal::{
    ChildRow, ItemBody, Outcome, RootProof, RowKind, SubmissionState, TreeProof, TurnState,
};
use crate::platform::{Exit, Report, SpawnError};
use crate::session::Answer;
use crate::session::ladder::EndedHow;
use crate::status::{ChildPhase, Status};

#[test]
fn t01_starting_is_published_after_the_identity_is_stored_and_ready_only_after_the_handshake() {
    let mut rig = Rig::new();
    rig.send("m1", "hello");
    assert_eq!(rig.summary().status, Some(Status::Working));
    assert_eq!(rig.summary().host_execution_phase, Some(ChildPhase::Starting));
    let started =
        rig.stored.iter().any(|r| matches!(&r.kind, RowKind::Child(ChildRow::Started { .. })));
    assert!(started, "the identity is on disk before the handshake");
    rig.handshake();
    assert_eq!(rig.summary().host_execution_phase, Some(ChildPhase::Ready));
    let phases: Vec<_> = rig.summaries.iter().map(|s| s.host_execution_phase).collect();
    assert!(
        !phases.contains(&Some(ChildPhase::Ready)) || phases.contains(&Some(ChildPhase::Starting))
    );
}

#[test]
fn a_prompt_turn_runs_to_its_end_and_reads_success() {
    let mut rig = Rig::working("hello");
    assert_eq!(rig.state_of("m1"), SubmissionState::HandedOver);
    rig.chunk("hi ");
    rig.chunk("there");
    assert_eq!(rig.state_of("m1"), SubmissionState::Accepted, "an event of the turn accepts it");
    rig.reply_prompt(json!({"stopReason": "end_turn", "usage": {"inputTokens": 5, "outputTokens": 2, "totalTokens": 7}}));
    let turn = rig.last_turn();
    assert_eq!((turn.state, turn.outcome), (TurnState::Completed, Some(Outcome::Success)));
    assert_eq!(turn.usage.map(|u| u.total), Some(7));
    assert_eq!(rig.summary().turn_outcome, Some(Outcome::Success));
    assert_eq!(rig.summary().last_assistant_message.as_deref(), Some("hi there"));
    let kinds: Vec<_> = rig.items().iter().map(|i| i.item.to_string()).collect();
    assert_eq!(kinds, ["user:m1", "turn:prompt%3Am1", "text:1:1"]);
}

#[test]
fn t03_another_protocol_version_fails_the_start_by_name_and_ends_the_child_by_the_ladder() {
    for version in [json!(2), json!(0), json!(null), json!("two")] {
        let mut rig = Rig::new();
        rig.send("m1", "hello");
        let initialize = rig.expect("initialize");
        rig.reply(&initialize, json!({"protocolVersion": version}));
        assert!(rig.stdin_closed, "EOF first");
        assert!(rig.frames.is_empty(), "no session call after a mismatch");
        rig.exits(Exit::Code(0));
        assert_eq!(rig.signals(), [], "it left on EOF");
        assert_eq!(rig.state_of("m1"), SubmissionState::Rejected);
        assert_eq!(rig.lines().len(), 1, "one error row");
        assert!(rig.lines()[0].starts_with(FailureCode::VersionMismatch.sentence()));
        assert_eq!(rig.summary().turn_outcome, Some(Outcome::Failure));
    }
}

#[test]
fn a_version_given_as_text_is_tolerated() {
    let mut rig = Rig::new();
    rig.send("m1", "hello");
    let initialize = rig.expect("initialize");
    rig.reply(&initialize, json!({"protocolVersion": "1"}));
    rig.expect("session/new");
}

#[test]
fn t04_one_sign_in_and_one_repeat_of_the_session_request() {
    let mut rig = Rig::new();
    rig.send("m1", "hello");
    let initialize = rig.expect("initialize");
    let methods = json!([{"id": "key", "name": "API key"}]);
    rig.reply(&initialize, json!({"protocolVersion": 1, "authMethods": methods}));
    let new = rig.expect("session/new");
    rig.fail(&new, json!({"code": -32000, "message": "sign in first"}));
    let authenticate = rig.expect("authenticate");
    assert_eq!(authenticate["params"]["methodId"], "key");
    rig.reply(&authenticate, json!({}));
    let again = rig.expect("session/new");
    rig.fail(&again, json!({"code": -32000, "message": "still not"}));
    rig.exits(Exit::Code(0));
    assert_eq!(rig.state_of("m1"), SubmissionState::Rejected);
    assert_eq!(rig.lines().len(), 1);
    assert!(rig.lines()[0].starts_with(FailureCode::NotSignedIn.sentence()), "{:?}", rig.lines());
}

#[test]
fn without_a_usable_method_nobody_signs_in() {
    for methods in [json!([]), json!([{"id": "t", "type": "terminal"}])] {
        let mut rig = Rig::new();
        rig.send("m1", "hello");
        let initialize = rig.expect("initialize");
        rig.reply(&initialize, json!({"protocolVersion": 1, "authMethods": methods}));
        let new = rig.expect("session/new");
        rig.fail(&new, json!({"code": -32000, "message": "sign in first"}));
        assert!(rig.frames.is_empty());
        assert!(rig.stdin_closed);
    }
}

#[test]
fn t02_an_agent_that_never_answers_initialize_stays_starting() {
    let mut rig = Rig::new();
    rig.send("m1", "hello");
    rig.pass_ms(29 * 60 * 1_000);
    assert_eq!(rig.summary().host_execution_phase, Some(ChildPhase::Starting));
    assert_eq!(rig.summary().status, Some(Status::Working));
    assert_eq!(rig.lines(), [""; 0]);
    assert!(!rig.stdin_closed);
}

#[test]
fn the_last_words_of_an_agent_are_waited_for_when_its_stdout_ends_first() {
    let mut rig = Rig::working("hello");
    let generation = rig.generation.clone();
    rig.session.handle_report(rig.now, &generation, Report::Exited { exit: Exit::Code(1) });
    rig.session.handle_stdout_end(rig.now, &generation);
    rig.settle();
    assert_eq!(rig.lines(), [""; 0], "stderr is still read");
    rig.session.handle_stderr(rig.now, &generation, b"fatal: out of cheese\n");
    rig.session.handle_stderr_end(rig.now, &generation);
    rig.settle();
    assert!(rig.lines()[0].contains("fatal: out of cheese"));
}

#[test]
fn a_start_that_dies_rejects_the_message_it_was_for_with_the_agents_last_words() {
    let mut rig = Rig::new();
    rig.send("m1", "one");
    rig.send("m2", "two");
    let generation = rig.generation.clone();
    rig.session.handle_stderr(rig.now, &generation, b"error: no config\n");
    rig.exits(Exit::Code(1));
    assert_eq!(rig.state_of("m1"), SubmissionState::Rejected, "the start was for it");
    assert!(rig.lines()[0].contains("error: no config"));
    assert_eq!(
        rig.state_of("m2"),
        SubmissionState::Queued,
        "the next gets its own start (rule 5.3.4)"
    );
    assert_eq!(rig.spawns.len(), 2);
}

#[test]
fn a_program_that_does_not_exist_leaves_a_reservation_that_can_be_taken_again() {
    let mut rig = Rig::new();
    rig.spawns_succeed = false;
    rig.send("m1", "hello");
    let generation = rig.generation.clone();
    let error = SpawnError::NotFound { program: "agent".to_owned() };
    rig.session.handle_spawn_failed(rig.now, &generation, error);
    rig.settle();
    assert_eq!(rig.state_of("m1"), SubmissionState::Rejected);
    assert!(rig.session.record().lease.processless);
    assert!(!rig.session.has_child());
    rig.spawns_succeed = true;
    rig.send("m2", "again");
    rig.handshake();
}

#[test]
fn closing_an_idle_session_sends_no_cancel_and_ends_it_on_eof() {
    let mut rig = Rig::ready();
    let call = rig.close();
    assert!(rig.frames.is_empty(), "no cancel when idle (rule 1.8.3)");
    assert!(rig.stdin_closed);
    rig.pass_ms(900);
    rig.exits(Exit::Code(0));
    let Some(Answer::Closed(Ok(ended))) = rig.answers.get(&call) else {
        panic!("the close is answered");
    };
    assert_eq!(ended.how, Some(EndedHow::OnEof));
    assert_eq!((ended.root, ended.tree), (RootProof::Exited, TreeProof::Gone));
    assert_eq!(rig.signals(), []);
    let later = rig.send("m9", "too late");
    let Some(Answer::Sent(Err(refused))) = rig.answers.get(&later) else {
        panic!("a closed session refuses");
    };
    assert_eq!(refused.code, RefusalCode::SessionClosed);
}

#[test]
fn a_close_that_comes_while_the_last_proof_is_being_stored_is_answered_with_it() {
    let mut rig = Rig::working("hello");
    rig.commits = false;
    rig.exits(Exit::Code(1));
    let call = rig.close();
    assert!(!rig.answers.contains_key(&call), "nothing of it is durable");
    rig.commit_all();
    let Some(Answer::Closed(Ok(ended))) = rig.answers.get(&call) else {
        panic!("the close is answered");
    };
    assert_eq!(ended.how, Some(EndedHow::ByItself));
    assert_eq!((ended.root, ended.tree), (RootProof::Exited, TreeProof::Gone));
    assert!(rig.session.is_at_rest());
}

#[test]
fn closing_a_starting_child_runs_the_ladder_at_once_without_a_cancel() {
    let mut rig = Rig::new();
    rig.send("m1", "hello");
    rig.expect("initialize");
    let call = rig.close();
    assert!(rig.frames.is_empty());
    assert!(rig.stdin_closed);
    rig.exits(Exit::Code(0));
    assert!(matches!(rig.answers.get(&call), Some(Answer::Closed(Ok(_)))));
    assert_eq!(rig.state_of("m1"), SubmissionState::Rejected);
    assert_eq!(rig.lines(), [""; 0], "a close the person asked for is no error");
}

#[test]
fn an_agent_that_ignores_everything_is_told_unproven_and_the_next_close_runs_the_ladder_again() {
    let mut rig = Rig::ready();
    let first = rig.close();
    rig.pass_ms(10_000);
    assert_eq!(rig.signals().len(), 2, "TERM and KILL");
    let Some(Answer::Closed(Err(refused))) = rig.answers.get(&first) else {
        panic!("an unproven close is answered");
    };
    assert_eq!(refused.code, RefusalCode::OwnershipUnknown);
    assert!(rig.session.is_unproven());
    let second = rig.close();
    rig.pass_ms(100);
    rig.exits(Exit::Signal(9));
    assert!(matches!(rig.answers.get(&second), Some(Answer::Closed(Ok(_)))));
}

#[test]
fn the_next_child_resumes_the_same_agent_session_by_preference() {
    let both = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
    let load = json!({"loadSession": true});
    let resume = json!({"sessionCapabilities": {"resume": {}}});
    for (prefer, offered, expected) in [
        ("resume", &both, "session/resume"),
        ("resume", &load, "session/load"),
        ("resume", &resume, "session/resume"),
        ("load", &both, "session/load"),
        ("load", &load, "session/load"),
        ("load", &resume, "session/resume"),
    ] {
        let mut agent = AgentDefinition::generic(vec!["agent".to_owned()]);
        agent.reopen = serde_json::from_value(json!(prefer)).expect("a preference");
        let mut rig = Rig::with_agent(agent);
        rig.send("m1", "hello");
        rig.handshake();
        rig.reply_prompt(json!({"stopReason": "end_turn"}));
        rig.exits(Exit::Code(0));
        rig.send("m2", "again");
        let initialize = rig.expect("initialize");
        rig.reply(&initialize, json!({"protocolVersion": 1, "agentCapabilities": offered}));
        let open = rig.expect(expected);
        assert_eq!(open["params"]["sessionId"], AGENT_SESSION);
        let items = rig.items().len();
        rig.chunk("replayed");
        rig.tool("old", "completed");
        assert_eq!(rig.items().len(), items, "replay makes no rows (rule 7.2.5)");
        rig.reply(&open, json!(null));
        rig.expect("session/prompt");
        assert_eq!(rig.session.record().handles.len(), 2);
    }
}

#[test]
fn a_session_that_cannot_be_reopened_goes_on_in_a_new_one_and_says_so_once() {
    let mut rig = Rig::ready();
    rig.exits(Exit::Code(0));
    rig.send("m2", "again");
    let initialize = rig.expect("initialize");
    rig.reply(
        &initialize,
        json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}),
    );
    let load = rig.expect("session/load");
    rig.fail(&load, json!({"code": -32603, "message": "gone"}));
    let new = rig.expect("session/new");
    rig.reply(&new, json!({"sessionId": "agent-session-2"}));
    let prompt = rig.expect("session/prompt");
    assert_eq!(prompt["params"]["sessionId"], "agent-session-2");
    let lost: Vec<_> =
        rig.lines().into_iter().filter(|l| l.contains("does not remember")).collect();
    assert_eq!(lost.len(), 1);
}

#[test]
fn the_same_message_id_is_delivered_once_and_another_text_under_it_is_refused() {
    let mut rig = Rig::ready();
    let frames = rig.frames.len();
    let again = rig.send("m1", "warm up");
    let Some(Answer::Sent(Ok(accepted))) = rig.answers.get(&again) else {
        panic!("a replay is answered with what was recorded");
    };
    assert_eq!(accepted.state, SubmissionState::Accepted);
    let other = rig.send("m1", "something else");
    let Some(Answer::Sent(Err(refused))) = rig.answers.get(&other) else {
        panic!("a reused id is refused");
    };
    assert_eq!(refused.code, RefusalCode::MessageIdReused);
    assert_eq!(rig.frames.len(), frames, "nothing more goes on the wire");
}

#[test]
fn a_crash_mid_turn_leaves_one_error_row_and_reads_interruption() {
    let mut rig = Rig::working("hello");
    rig.chunk("par");
    rig.tool("t1", "in_progress");
    rig.exits(Exit::Signal(9));
    let turn = rig.last_turn();
    assert_eq!((turn.state, turn.outcome), (TurnState::Interrupted, None));
    assert_eq!(rig.summary().turn_outcome, Some(Outcome::Interruption));
    assert_eq!(rig.lines().len(), 1);
    assert_eq!(rig.state_of("m1"), SubmissionState::Accepted);
    let tool = rig.items().into_iter().find_map(|i| match i.body {
        ItemBody::Tool(t) => Some((t.status, t.ended_as)),
        _ => None,
    });
    use crate::journal::{EndedAs, ToolStatus};
    assert_eq!(tool, Some((ToolStatus::Failed, Some(EndedAs::Interrupted))));
}

#[test]
fn a_crash_before_any_event_of_the_turn_leaves_the_send_unknown_and_nothing_is_sent_again() {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    rig.exits(Exit::Code(1));
    assert_eq!(rig.state_of("m1"), SubmissionState::Unknown);
    rig.pass_ms(60_000);
    assert_eq!(rig.spawns.len(), 1, "never resolved by sending again (invariant 3)");
    let status = rig.summary().status;
    assert_eq!(status, Some(Status::Idle), "nobody is left who could settle it (rule 8.2)");
}

#[test]
fn history_that_is_repeated_behind_the_answer_to_a_load_makes_no_rows_either() {
    let mut rig = Rig::ready();
    rig.exits(Exit::Code(0));
    rig.commits = false;
    rig.send("m2", "again");
    while rig.frames.is_empty() {
        rig.commit_one();
    }
    let initialize = rig.expect("initialize");
    rig.reply(
        &initialize,
        json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}),
    );
    let load = rig.expect("session/load");
    rig.reply(&load, json!(null));
    rig.commit_one();
    let turns = rig.turns().len();
    rig.chunk("replayed");
    rig.tool("old", "completed");
    rig.update(&json!({"sessionUpdate": "usage_update", "used": 7, "size": 100}));
    rig.commit_all();
    rig.commits = true;
    rig.expect("session/prompt");
    assert_eq!(rig.timeline.context().map(|c| c.used), Some(7), "a fact about the session is live");
    assert_eq!(rig.turns().len(), turns + 1, "only the prompt's own turn");
    rig.chunk("live");
    rig.pass_ms(20);
    assert_eq!(rig.summary().last_assistant_message.as_deref(), Some("live"));
}

#[test]
fn an_agent_that_is_gone_before_the_first_write_reaches_it_ended_by_itself() {
    let mut rig = Rig::new();
    rig.send("m1", "hello");
    let generation = rig.generation.clone();
    rig.session.handle_write_failed(rig.now, &generation);
    rig.settle();
    rig.exits(Exit::Code(0));
    let how = rig.stored.iter().find_map(|r| match &r.kind {
        RowKind::Child(ChildRow::Exited { how, requested, .. }) => Some((*how, *requested)),
        _ => None,
    });
    assert_eq!(how, Some((EndedHow::ByItself, false)), "the EOF came after its stdin was gone");
}
