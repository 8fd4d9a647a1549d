//! How an agent reacts: to a cancel, to the end of its input, to signals, to a second prompt, to a broken pipe.

mod bench;

use bench::Bench;
use moored_fake_agents::{End, LINE_BYTES_MAX, PROMPTS_QUEUED_MAX, STRANDS_MAX, Signal};
use serde_json::{Value, json};

const EXITED: Option<End> = Some(End::Exited(0));

/// An agent whose turn says `a`, takes a second, and answers.
fn slow(on: Value) -> Bench {
    let steps =
        json!([{ "do": "say", "text": "a" }, { "do": "delay", "ms": 1000 }, { "do": "reply" }]);
    Bench::ready(&json!({ "on": on, "turns": [{ "steps": steps }] }).to_string())
}

#[test]
fn a_well_behaved_agent_answers_a_cancel_and_then_writes_the_aborted_entry() {
    let mut bench = slow(json!({}));
    bench.prompt(3, "hi");
    bench.cancel();
    assert_eq!(bench.frames(), ["say a", "3 cancelled"]);
    assert_eq!(bench.file(), ["session", "user hi", "assistant aborted a"]);
    bench.pass(5_000);
    bench.end_input();
    assert_eq!((bench.frames().len(), bench.end()), (0, EXITED));
    assert_eq!(bench.file().last().unwrap(), "custom session_exit manual");
}

#[test]
fn a_cancel_is_ignored_or_obeyed_late_or_twice() {
    let mut bench = slow(json!({ "cancel": { "obey": "never" } }));
    bench.prompt(3, "hi");
    bench.cancel();
    bench.pass(1000);
    assert_eq!(bench.frames(), ["say a", "3 end_turn"]);

    let mut bench = slow(json!({ "cancel": { "after_ms": 300 } }));
    bench.prompt(3, "hi");
    bench.cancel();
    bench.pass(299);
    assert_eq!(bench.frames(), ["say a"]);
    bench.pass(1);
    assert_eq!(bench.frames(), ["3 cancelled"]);

    let mut bench = slow(json!({ "cancel": { "obey": "twice" } }));
    bench.prompt(3, "hi");
    bench.cancel();
    assert_eq!(bench.frames(), ["say a", "3 cancelled", "3 cancelled"]);
}

#[test]
fn a_cancel_that_comes_too_late_for_its_turn_does_nothing() {
    let mut bench = slow(json!({ "cancel": { "after_ms": 1500 } }));
    bench.prompt(3, "hi");
    bench.cancel();
    bench.pass(1000);
    bench.prompt(4, "next");
    bench.pass(1000);
    assert_eq!(bench.frames(), ["say a", "3 end_turn", "say a", "4 end_turn"]);
}

#[test]
fn a_cancel_right_behind_its_prompt_is_lost_and_a_second_one_works() {
    let mut bench = slow(json!({ "cancel": { "lost_within_ms": 5 } }));
    bench.prompt(3, "hi");
    bench.cancel();
    bench.pass(5);
    assert_eq!(bench.frames(), ["say a"]);
    bench.cancel();
    assert_eq!(bench.frames(), ["3 cancelled"]);
}

#[test]
fn a_cancel_of_another_session_is_none_of_this_ones() {
    let mut bench = slow(json!({}));
    bench.prompt(3, "hi");
    bench.send(json!({ "method": "session/cancel", "params": { "sessionId": "another" } }));
    bench.pass(1000);
    assert_eq!(bench.frames(), ["say a", "3 end_turn"]);
}

#[test]
fn a_stale_cancel_hits_the_next_turn_or_the_next_permission_or_nothing() {
    let story = |stale: &str| {
        let permission = json!({ "do": "permission", "tool": "c",
            "on_answer": { "cancelled": [{ "do": "say", "text": "judged cancelled" }] } });
        let script = json!({ "on": { "cancel": { "stale": stale } }, "turns": [
            { "when": { "contains": "ask" }, "steps": [permission, { "do": "reply" }] }] });
        let mut bench = Bench::ready(&script.to_string());
        bench.prompt(3, "hi");
        bench.cancel();
        bench.prompt(4, "ask");
        let mut frames = bench.frames();
        frames.drain(..2);
        frames
    };
    assert_eq!(story("cancels_next_turn"), ["4 cancelled"]);
    assert_eq!(story("cancels_next_permission"), ["say judged cancelled", "4 end_turn"]);
    assert!(story("ignored")[0].contains("session/request_permission"));
}

#[test]
fn what_follows_a_cancel_can_be_anything() {
    let steps = json!([{ "do": "repeat", "times": 2, "every_ms": 60, "steps": [{ "do": "say", "text": "still here" }] },
        { "do": "reply", "error": { "code": -32603, "message": "cancel unsupported" }, "id": "null" }]);
    let mut bench = slow(json!({ "cancel": { "steps": steps } }));
    bench.prompt(3, "hi");
    bench.cancel();
    bench.pass(60);
    assert_eq!(bench.frames(), ["say a", "say still here", "say still here", "null error -32603"]);
}

#[test]
fn a_permission_that_is_cancelled_is_not_answered_afterwards() {
    let steps = json!([{ "do": "permission", "tool": "c", "on_answer": { "*": [{ "do": "say", "text": "ran" }] } }, { "do": "reply" }]);
    let mut bench = Bench::ready(&json!({ "turns": [{ "steps": steps }] }).to_string());
    bench.prompt(3, "hi");
    bench.cancel();
    bench.answer(
        json!(0),
        json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } }),
    );
    assert_eq!(bench.frames()[1..], ["3 cancelled"]);
}

#[test]
fn the_end_of_input_settles_the_turn_unless_the_script_says_otherwise() {
    let mut bench = slow(json!({}));
    bench.prompt(3, "hi");
    bench.end_input();
    assert_eq!(
        (bench.frames()[1..].to_vec(), bench.end()),
        (vec!["3 cancelled".to_string()], EXITED)
    );
    assert_eq!(bench.file()[2..], ["assistant aborted a", "custom session_exit manual"]);

    // As omp does: the turn runs to its end first.
    let steps =
        json!([{ "do": "wait_for", "event": "turn_over", "timeout_ms": 30_000 }, { "do": "exit" }]);
    let mut bench = slow(json!({ "eof": { "steps": steps } }));
    bench.prompt(3, "hi");
    bench.end_input();
    assert_eq!(bench.end(), None);
    bench.pass(1000);
    assert_eq!(
        (bench.frames()[1..].to_vec(), bench.end()),
        (vec!["3 end_turn".to_string()], EXITED)
    );

    let mut bench = slow(json!({ "eof": { "after_ms": 700 } }));
    bench.end_input();
    bench.pass(699);
    assert_eq!(bench.end(), None);
    bench.pass(1);
    assert_eq!(bench.end(), EXITED);

    let mut bench = slow(json!({ "eof": { "obey": "never" } }));
    bench.end_input();
    bench.pass(600_000);
    assert_eq!(bench.end(), None);
}

#[test]
fn the_end_of_input_waits_for_what_a_cancel_still_has_to_write() {
    let steps = json!([{ "do": "reply", "stop_reason": "cancelled", "persist": "never" }, { "do": "delay", "ms": 200 },
        { "do": "persist", "entry": "aborted" }]);
    let mut bench = slow(json!({ "cancel": { "steps": steps } }));
    bench.prompt(3, "hi");
    bench.cancel();
    bench.end_input();
    bench.pass(199);
    assert_eq!((bench.end(), bench.file().len()), (None, 2));
    bench.pass(1);
    assert_eq!(bench.end(), EXITED);
    assert_eq!(bench.file()[2..], ["assistant aborted a", "custom session_exit manual"]);
}

#[test]
fn a_last_line_without_newline_counts_and_half_a_line_does_not() {
    let mut bench = slow(json!({}));
    bench.bytes(br#"{"jsonrpc":"2.0","id":9,"method":"nope"}"#);
    assert_eq!(bench.frames().len(), 0);
    bench.end_input();
    assert_eq!((bench.frames(), bench.end()), (vec!["9 error -32601".into()], EXITED));
    let mut bench = slow(json!({}));
    bench.bytes(br#"{"jsonrpc":"2.0","id":9,"meth"#);
    bench.end_input();
    assert_eq!((bench.frames().len(), bench.end()), (0, EXITED));
}

#[test]
fn a_signal_is_obeyed_ignored_or_deadly() {
    for (signal, name, code) in
        [(Signal::Term, "sigterm", 143), (Signal::Int, "sigint", 130), (Signal::Hup, "sighup", 129)]
    {
        let mut bench = slow(json!({}));
        bench.prompt(3, "hi");
        bench.signal(signal);
        assert_eq!(bench.end(), Some(End::Exited(code)));
        assert_eq!(bench.file()[3], format!("custom session_exit {name}"));

        let mut bench = slow(json!({ name: { "obey": "never" } }));
        bench.signal(signal);
        bench.pass(10_000);
        assert_eq!(bench.end(), None, "{name} is ignored");

        let bench = slow(json!({ name: { "obey": "by_dying" } }));
        assert!(!bench.machine().handled.contains(&signal), "{name} has no handler");
        assert_eq!(bench.machine().handled.len(), 2);
    }
}

#[test]
fn a_signal_obeyed_twice_does_its_steps_twice_and_ends_once() {
    let steps = json!([{ "do": "persist", "entry": "assistant" }, { "do": "exit", "code": 7 }]);
    let mut bench = slow(json!({ "sigterm": { "obey": "twice", "after_ms": 10, "steps": steps } }));
    bench.signal(Signal::Term);
    bench.signal(Signal::Term);
    bench.pass(10);
    assert_eq!((bench.end(), bench.file().len()), (Some(End::Exited(7)), 3));
}

#[test]
fn a_signal_is_obeyed_while_the_pipe_is_full_and_the_end_of_input_is_not() {
    let exit = json!([{ "do": "exit", "code": 9 }]);
    let on = json!({ "sigterm": { "steps": exit }, "eof": { "steps": exit } });
    let mut bench = slow(on);
    bench.machine().room = Some(3);
    bench.prompt(3, "hi");
    bench.end_input();
    assert_eq!(bench.end(), None);
    bench.signal(Signal::Term);
    assert_eq!(bench.end(), Some(End::Exited(9)));
}

#[test]
fn a_second_prompt_meets_one_of_five_fates() {
    let story = |busy: &str, then: fn(&mut Bench)| {
        let mut bench = slow(json!({ "busy": busy }));
        bench.prompt(3, "one");
        bench.prompt(4, "two");
        then(&mut bench);
        bench.pass(3_000);
        bench.frames()
    };
    let nothing: fn(&mut Bench) = |_| {};
    assert_eq!(story("queue", nothing), ["say a", "3 end_turn", "say a", "4 end_turn"]);
    assert_eq!(story("queue", Bench::cancel), ["say a", "3 cancelled", "say a", "4 end_turn"]);
    assert_eq!(story("queue_cancelled", Bench::cancel), ["say a", "4 cancelled", "3 cancelled"]);
    assert_eq!(story("refuse", nothing), ["say a", "4 error -32603", "3 end_turn"]);
    assert_eq!(story("cancel_first", nothing), ["say a", "3 cancelled", "say a", "4 end_turn"]);
    assert_eq!(story("never_answer", nothing), ["say a", "3 end_turn"]);
}

#[test]
fn prompts_beyond_the_queue_are_refused() {
    let mut bench = slow(json!({}));
    for id in 0..=PROMPTS_QUEUED_MAX as u64 + 1 {
        bench.prompt(id, "hi");
    }
    assert_eq!(
        bench.frames(),
        ["say a".to_string(), format!("{} error -32603", PROMPTS_QUEUED_MAX + 1)]
    );
}

#[test]
fn with_half_the_strands_in_use_the_input_waits() {
    let script = json!({ "on": { "requests": { "x": [{ "do": "wait_for", "event": "signal" }, { "do": "reply", "result": 1 }] },
        "sigterm": { "obey": "never" } } });
    let mut bench = Bench::ready(&script.to_string());
    let requests = STRANDS_MAX as u64;
    for id in 0..requests {
        bench.request(id, "x", json!({}));
    }
    bench.signal(Signal::Term);
    let answered = bench.frames().len();
    assert_eq!(answered, STRANDS_MAX / 2, "the others were not even read");
    bench.signal(Signal::Term);
    assert_eq!(answered + bench.frames().len(), STRANDS_MAX);
}

#[test]
fn steps_beyond_all_strands_are_not_begun() {
    let many = STRANDS_MAX * 2;
    let steps = json!([{ "do": "repeat", "times": many, "steps": [
        { "do": "later", "after_ms": 10, "steps": [{ "do": "say", "text": "b" }] }] }, { "do": "reply" }]);
    let mut bench = Bench::ready(&json!({ "turns": [{ "steps": steps }] }).to_string());
    bench.prompt(3, "hi");
    bench.pass(10);
    assert_eq!(bench.frames().len(), 1 + STRANDS_MAX);
}

#[test]
fn a_line_over_the_limit_is_no_request() {
    let mut bench = slow(json!({}));
    let filler = "x".repeat(LINE_BYTES_MAX);
    bench.bytes(format!("{{\"id\":7,\"method\":\"x\",\"params\":\"{filler}\"}}\n").as_bytes());
    bench.request(8, "x", json!({}));
    assert_eq!(bench.frames(), ["8 error -32601"]);
}

#[test]
fn closing_a_session_is_a_barrier() {
    let mut bench = slow(
        json!({ "cancel": { "steps": [{ "do": "reply", "stop_reason": "cancelled", "persist": "never" },
        { "do": "delay", "ms": 40 }, { "do": "persist", "entry": "aborted" }] } }),
    );
    bench.prompt(3, "hi");
    bench.request(4, "session/close", json!({ "sessionId": "fake-0-1" }));
    assert_eq!(bench.frames(), ["say a", "3 cancelled"]);
    bench.pass(40);
    assert_eq!(bench.frames(), [r#"{"jsonrpc":"2.0","id":4,"result":{}}"#]);
    assert_eq!(bench.file()[2..], ["assistant aborted a", "custom session_exit dispose"]);

    let steps = json!([{ "do": "settle" }, { "do": "reply", "error": { "code": -32601, "message": "no" } }]);
    let mut bench = slow(json!({ "requests": { "session/close": steps } }));
    bench.prompt(3, "hi");
    bench.request(4, "session/close", json!({ "sessionId": "fake-0-1" }));
    assert_eq!(bench.frames(), ["say a", "3 cancelled", "4 error -32601"]);
}

#[test]
fn a_cancel_sent_as_a_request_is_answered_once_the_abort_is_written() {
    let mut bench = slow(json!({}));
    bench.prompt(3, "hi");
    bench.request(4, "session/cancel", json!({ "sessionId": "fake-0-1" }));
    assert_eq!(bench.frames()[1..], ["3 cancelled", r#"{"jsonrpc":"2.0","id":4,"result":{}}"#]);
    assert_eq!(bench.file()[2..], ["assistant aborted a"]);
}

#[test]
fn a_cancelled_request_is_left_alone_or_answered() {
    let notification =
        json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": 3 } });
    let mut bench = slow(json!({}));
    bench.prompt(3, "hi");
    bench.send(notification.clone());
    bench.pass(1000);
    assert_eq!(bench.frames(), ["say a", "3 end_turn"]);

    let steps =
        json!([{ "do": "reply", "error": { "code": -32800, "message": "Request cancelled" } }]);
    let mut bench = slow(json!({ "cancel_request": steps }));
    bench.prompt(3, "hi");
    bench.send(notification);
    bench.pass(1000);
    assert_eq!(bench.frames(), ["say a", "3 error -32800"]);
}

#[test]
fn a_broken_line_is_passed_over_or_kills() {
    for line in ["", "garbage", "[]", "42", "{}"] {
        let mut bench = slow(json!({}));
        bench.bytes(format!("{line}\n").as_bytes());
        assert_eq!((bench.frames().len(), bench.end()), (0, None), "{line}");
        let mut bench = slow(json!({ "bad_line": [{ "do": "settle" }, { "do": "exit" }] }));
        bench.prompt(3, "hi");
        bench.bytes(format!("{line}\n").as_bytes());
        assert_eq!(bench.end(), (!line.is_empty()).then_some(End::Exited(0)), "{line}");
    }
}

#[test]
fn a_broken_stdout_ends_the_agent_or_does_not() {
    let mut bench = slow(json!({}));
    bench.machine().stdout_broken = true;
    bench.prompt(3, "hi");
    assert_eq!(bench.end(), Some(End::Exited(1)));
    let mut bench = slow(json!({ "broken_stdout": [] }));
    bench.machine().stdout_broken = true;
    bench.prompt(3, "hi");
    bench.pass(1000);
    assert_eq!((bench.end(), bench.file().len()), (None, 3), "the turn went on to its end");
}

#[test]
fn at_idle_the_agent_begins_by_itself_unless_a_prompt_comes_first() {
    let on = json!({ "idle": [{ "after_ms": 100, "times": 2, "steps": [{ "do": "say", "text": "by the way" }] }] });
    let mut bench = slow(on);
    bench.pass(99);
    bench.prompt(3, "hi");
    bench.pass(1000);
    assert_eq!(bench.frames(), ["say a", "3 end_turn"]);
    bench.pass(100);
    assert_eq!(bench.frames(), ["say by the way"]);
    bench.pass(1000);
    assert_eq!(bench.frames().len(), 0, "nothing has happened since");
    bench.prompt(4, "hi");
    bench.pass(1100);
    assert_eq!(bench.frames(), ["say a", "4 end_turn", "say by the way"]);
    bench.prompt(5, "hi");
    bench.pass(2000);
    assert_eq!(bench.frames(), ["say a", "5 end_turn"], "twice is enough");
}

#[test]
fn a_slow_start_reads_nothing_until_it_is_over() {
    let script = json!({ "agent": { "start_delay_ms": 400 }, "on": { "start": [{ "do": "noise", "text": "banner" }] } });
    let mut bench = Bench::new(&script.to_string());
    bench.request(1, "initialize", json!({}));
    bench.end_input();
    bench.pass(399);
    assert_eq!(bench.machine().reads, 0);
    assert_eq!((bench.frames().len(), bench.end()), (0, None));
    bench.pass(1);
    assert_eq!(bench.frames().len(), 2);
    assert_eq!(bench.end(), EXITED);
}
