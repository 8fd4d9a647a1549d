//! Every step of the language, one story each: a turn of these steps, and what the host reads.

mod bench;

use bench::Bench;
use moored_fake_agents::script::step::STEP_NAMES;
use moored_fake_agents::{End, Fork, Group, Signal, Stream};
use serde_json::{Value, json};

/// The steps of a turn, and what comes out after the prompt with id 3.
struct Story {
    name: &'static str,
    steps: Value,
    frames: &'static [&'static str],
}

const fn story(name: &'static str, steps: Value, frames: &'static [&'static str]) -> Story {
    Story { name, steps, frames }
}

fn turn(steps: Value) -> String {
    json!({ "turns": [{ "steps": steps }] }).to_string()
}

fn replies() -> Vec<Story> {
    vec![
        story("a plain reply", json!([{ "do": "reply" }]), &["3 end_turn"]),
        story(
            "any result",
            json!([{ "do": "reply", "result": [1, "two"] }]),
            &[r#"{"jsonrpc":"2.0","id":3,"result":[1,"two"]}"#],
        ),
        story(
            "a null result",
            json!([{ "do": "reply", "result": null }]),
            &[r#"{"jsonrpc":"2.0","id":3,"result":null}"#],
        ),
        story(
            "an error",
            json!([{ "do": "reply", "error": { "code": -32603, "message": "no" } }]),
            &["3 error -32603"],
        ),
        story(
            "an error given as text",
            json!([{ "do": "reply", "error": "no" }]),
            &[r#"{"jsonrpc":"2.0","id":3,"error":"no"}"#],
        ),
        story(
            "error: null",
            json!([{ "do": "reply", "error": null }]),
            &[r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"},"error":null}"#],
        ),
        story(
            "result and error together",
            json!([{ "do": "reply", "result": {}, "error": { "code": 1, "message": "both" } }]),
            &[r#"{"jsonrpc":"2.0","id":3,"result":{},"error":{"code":1,"message":"both"}}"#],
        ),
        story(
            "a reply twice",
            json!([{ "do": "reply", "times": 2 }]),
            &["3 end_turn", "3 end_turn"],
        ),
        story(
            "the id as a string",
            json!([{ "do": "reply", "id": "string" }]),
            &[r#""3" end_turn"#],
        ),
        story("the id as a fraction", json!([{ "do": "reply", "id": "float" }]), &["3.0 end_turn"]),
        story("the id as null", json!([{ "do": "reply", "id": "null" }]), &["null end_turn"]),
        story(
            "no id",
            json!([{ "do": "reply", "id": "absent" }]),
            &[r#"{"jsonrpc":"2.0","result":{"stopReason":"end_turn"}}"#],
        ),
        story("another id", json!([{ "do": "reply", "id": { "other": 99 } }]), &["99 end_turn"]),
        story(
            "an unknown stop reason",
            json!([{ "do": "reply", "stop_reason": "END_TURN" }]),
            &["3 END_TURN"],
        ),
        story(
            "a stop reason of null",
            json!([{ "do": "reply", "stop_reason": null }]),
            &[r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":null}}"#],
        ),
        story("usage", json!([{ "do": "reply", "usage": { "totalTokens": 3 } }]), &["3 end_turn"]),
        story(
            "no jsonrpc member, one too many",
            json!([{ "do": "reply", "extra": { "jsonrpc": 1 } }]),
            &["3 end_turn"],
        ),
        story(
            "a dropped reply",
            json!([{ "do": "say", "text": "a" }, { "do": "drop_reply" }]),
            &["say a"],
        ),
    ]
}

fn updates() -> Vec<Story> {
    vec![
        story(
            "updates before and after the reply",
            json!([{ "do": "say", "text": "${prompt}" }, { "do": "reply" },
                { "do": "repeat", "times": 2, "steps": [{ "do": "say", "text": "late ${n}" }] }]),
            &["say hi", "3 end_turn", "say late 1", "say late 2"],
        ),
        story(
            "an update of an unknown kind",
            json!([{ "do": "update", "update": { "sessionUpdate": "new" } }]),
            &[
                r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"fake-0-1","update":{"sessionUpdate":"new"}}}"#,
            ],
        ),
        story(
            "update: null",
            json!([{ "do": "update", "update": null }]),
            &[
                r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"fake-0-1","update":null}}"#,
            ],
        ),
        story(
            "a wrong session",
            json!([{ "do": "update", "update": 1, "session": 7 }]),
            &[r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":7,"update":1}}"#],
        ),
        story(
            "reasoning, and the user's message",
            json!([{ "do": "think", "text": "h" }, { "do": "echo_user" }]),
            &["think h", "user hi"],
        ),
        story(
            "a tool call",
            json!([{ "do": "tool_call", "id": "c" }, { "do": "tool_update", "id": "c", "status": "in_progress" },
                { "do": "tool_update", "id": "c", "status": "completed", "text": "done" }]),
            &[
                "tool_call c pending",
                "tool_call_update c in_progress",
                "tool_call_update c completed",
            ],
        ),
        story(
            "a notification",
            json!([{ "do": "notify", "method": "x/y", "params": { "s": "${session}" } }]),
            &[r#"{"jsonrpc":"2.0","method":"x/y","params":{"s":"fake-0-1"}}"#],
        ),
        story(
            "any frame",
            json!([{ "do": "raw", "frame": [{ "id": "${request}", "cwd": "${cwd}" }] }]),
            &[r#"[{"id":3,"cwd":"/ws"}]"#],
        ),
        story(
            "noise",
            json!([{ "do": "noise", "text": "Listening on ${port}" }, { "do": "noise", "text": "" }]),
            &["Listening on ${port}", ""],
        ),
        story(
            "a request nobody waits for",
            json!([{ "do": "request", "method": "fs/x", "wait": false }, { "do": "reply" }]),
            &[r#"{"jsonrpc":"2.0","id":0,"method":"fs/x","params":null}"#, "3 end_turn"],
        ),
        story(
            "a request withdrawn",
            json!([{ "do": "request", "method": "a", "id": "u-1", "wait": false }, { "do": "withdraw" }]),
            &[
                r#"{"jsonrpc":"2.0","id":"u-1","method":"a","params":null}"#,
                r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"u-1"}}"#,
            ],
        ),
    ]
}

#[test]
fn a_turn_of_these_steps_reads_like_this() {
    for Story { name, steps, frames } in replies().into_iter().chain(updates()) {
        let mut bench = Bench::ready(&turn(steps));
        bench.prompt(3, "hi");
        let usage = bench.machine().stdout.ends_with(b"\"usage\":{\"totalTokens\":3}}}\n");
        assert_eq!(
            bench.frames().iter().map(|f| if usage { "3 end_turn" } else { f }).collect::<Vec<_>>(),
            frames,
            "{name}"
        );
        assert_eq!(bench.end(), None, "{name}: the agent lives on");
    }
}

#[test]
fn a_split_frame_comes_in_pieces_with_pauses() {
    let steps = json!([{ "do": "split", "at": [5, 9], "gap_ms": 10 }, { "do": "raw", "frame": "0123456789" }]);
    let mut bench = Bench::ready(&turn(steps));
    bench.machine().writes.clear();
    bench.prompt(3, "hi");
    assert_eq!(bench.output(), b"\"0123");
    bench.pass(9);
    assert_eq!(bench.output(), b"");
    bench.pass(11);
    assert_eq!(bench.output(), b"4567".iter().chain(b"89\"\n").copied().collect::<Vec<_>>());
    assert_eq!(bench.machine().writes, [5, 4, 4]);
}

#[test]
fn a_frame_of_n_bytes_has_n_bytes_with_or_without_its_newline() {
    for (bytes, newline) in [(500, true), (500, false), (10, false), (100_000, true)] {
        let steps = json!([{ "do": "frame_of", "bytes": bytes, "newline": newline }]);
        let mut bench = Bench::ready(&turn(steps));
        bench.prompt(3, "hi");
        let output = bench.output();
        assert_eq!(output.len(), bytes + usize::from(newline));
        assert_eq!(output.ends_with(b"\n"), newline);
        assert_eq!(serde_json::from_slice::<Value>(&output).is_ok(), bytes > 200);
    }
}

#[test]
fn noise_can_be_bytes_that_are_no_text() {
    let mut bench =
        Bench::ready(&turn(json!([{ "do": "noise", "hex": "ff 00 1B", "newline": false }])));
    bench.prompt(3, "hi");
    assert_eq!(bench.output(), [0xff, 0, 0x1b]);
}

#[test]
fn stderr_takes_a_text_and_a_number_of_bytes() {
    let steps = json!([{ "do": "stderr", "text": "fatal" }, { "do": "stderr", "bytes": 100_000 }]);
    let mut bench = Bench::ready(&turn(steps));
    bench.prompt(3, "hi");
    assert!(bench.machine().stderr.starts_with(b"fatal\nstderr line 1\n"));
    assert_eq!(bench.machine().stderr.len(), 100_006);
    assert_eq!(bench.output(), b"");
}

#[test]
fn a_delay_and_a_pause_between_rounds_take_their_time() {
    let steps = json!([{ "do": "delay", "ms": 50 },
        { "do": "repeat", "times": 3, "every_ms": 20, "steps": [{ "do": "say", "text": "${n}" }] }, { "do": "reply" }]);
    let mut bench = Bench::ready(&turn(steps));
    bench.prompt(3, "hi");
    bench.pass(49);
    assert_eq!(bench.frames().len(), 0);
    bench.pass(1);
    assert_eq!(bench.frames(), ["say 1"]);
    bench.pass(39);
    assert_eq!(bench.frames(), ["say 2"]);
    bench.pass(1);
    assert_eq!(bench.frames(), ["say 3", "3 end_turn"]);
}

#[test]
fn later_steps_run_beside_the_next_turn() {
    let script = json!({ "turns": [{ "when": { "nth": 1 }, "steps": [
        { "do": "later", "after_ms": 80, "steps": [{ "do": "tool_update", "id": "c", "status": "completed" }] },
        { "do": "reply" }] }, { "steps": [{ "do": "delay", "ms": 100 }, { "do": "reply" }] }] });
    let mut bench = Bench::ready(&script.to_string());
    bench.prompt(3, "hi");
    bench.prompt(4, "hi");
    bench.pass(200);
    assert_eq!(bench.frames(), ["3 end_turn", "tool_call_update c completed", "4 end_turn"]);
}

#[test]
fn stdin_left_unread_stays_unread_until_it_is_read_again() {
    let steps = json!([{ "do": "stop_reading" }, { "do": "reply" }, { "do": "delay", "ms": 10 }, { "do": "read_again" }]);
    let mut bench = Bench::ready(&turn(steps));
    bench.prompt(3, "hi");
    let reads = bench.machine().reads;
    bench.prompt(4, "more");
    bench.end_input();
    assert_eq!(bench.machine().reads, reads);
    assert_eq!(bench.frames(), ["3 end_turn"]);
    bench.pass(10);
    assert_eq!(bench.frames(), ["4 cancelled"], "the end of the input came right behind it");
}

#[test]
fn streams_close_and_what_is_written_to_a_closed_one_is_gone() {
    let steps = json!([{ "do": "close", "stream": "stdin" }, { "do": "say", "text": "last" },
        { "do": "close", "stream": "stdout" }, { "do": "reply" }, { "do": "close", "stream": "stderr" },
        { "do": "stderr", "text": "unheard" }]);
    let mut bench = Bench::ready(&turn(steps));
    bench.prompt(3, "hi");
    assert_eq!(bench.machine().closed, [Stream::Stdin, Stream::Stdout, Stream::Stderr]);
    assert_eq!(bench.frames(), ["say last"]);
    assert!(bench.machine().stderr.is_empty());
    assert_eq!(bench.end(), None);
}

#[test]
fn a_process_ends_by_code_or_by_signal_once_its_words_are_out() {
    for (step, end) in [
        (json!({ "do": "exit", "code": 3 }), End::Exited(3)),
        (json!({ "do": "die", "signal": "KILL" }), End::Signalled(Signal::Kill)),
    ] {
        let mut bench = Bench::ready(&turn(json!([{ "do": "say", "text": "bye" }, step])));
        bench.machine().room = Some(5);
        bench.prompt(3, "hi");
        assert_eq!(bench.end(), None, "the pipe is full");
        bench.make_room(None);
        assert_eq!((bench.end(), bench.frames()), (Some(end), vec!["say bye".into()]));
    }
}

#[test]
fn a_frozen_process_goes_on_when_it_is_continued() {
    let mut bench = Bench::ready(&turn(json!([{ "do": "freeze" }, { "do": "reply" }])));
    bench.prompt(3, "hi");
    bench.end_input();
    bench.signal(Signal::Term);
    bench.pass(60_000);
    assert_eq!((bench.frames().len(), bench.end()), (0, None));
    bench.go_on();
    assert_eq!(bench.end(), Some(End::Exited(143)), "the signal was pending");
}

#[test]
fn a_child_is_started_as_the_script_says_and_has_a_name() {
    let steps = json!([
        { "do": "fork", "group": "own_session", "lives_ms": 900, "holds_stdout": true, "ignores_term": true },
        { "do": "say", "text": "${child}" }, { "do": "fork" }, { "do": "reply" }]);
    let mut bench = Bench::ready(&turn(steps));
    bench.prompt(3, "hi");
    let first = Fork {
        group: Group::OwnSession,
        lives_ms: Some(900),
        holds_stdout: true,
        ignores_term: true,
    };
    let second =
        Fork { group: Group::Same, lives_ms: None, holds_stdout: false, ignores_term: false };
    assert_eq!(bench.machine().forks, [first, second]);
    assert_eq!(bench.frames(), ["say 501", "3 end_turn"]);
}

#[test]
fn a_permission_leads_to_what_each_answer_leads_to() {
    let steps = json!([{ "do": "permission", "tool": "c", "on_answer": {
        "allow_once": [{ "do": "say", "text": "ran" }], "cancelled": [{ "do": "say", "text": "withdrawn" }],
        "error": [{ "do": "say", "text": "error" }], "*": [{ "do": "say", "text": "rejected" }] } }, { "do": "reply" }]);
    let selected = |option: &str| json!({ "result": { "outcome": { "outcome": "selected", "optionId": option } } });
    for (mut answer, word) in [
        (selected("allow_once"), "say ran"),
        (selected("reject_always"), "say rejected"),
        (selected("unheard_of"), "say rejected"),
        (json!({ "result": { "outcome": { "outcome": "cancelled" } } }), "say withdrawn"),
        (json!({ "error": { "code": -32603, "message": "no" } }), "say error"),
    ] {
        let mut bench = Bench::ready(&turn(steps.clone()));
        bench.prompt(3, "hi");
        let asked: Value = serde_json::from_slice(&bench.output()).unwrap();
        assert_eq!(
            (&asked["method"], &asked["id"]),
            (&json!("session/request_permission"), &json!(0))
        );
        assert_eq!(asked["params"]["options"].as_array().map(Vec::len), Some(4));
        answer["id"] = json!(0);
        bench.send(answer);
        assert_eq!(bench.frames(), [word, "3 end_turn"]);
    }
}

#[test]
fn a_request_waits_for_its_answer_as_long_as_it_has_patience() {
    let steps = json!([{ "do": "request", "method": "fs/read", "timeout_ms": 100,
        "on_result": [{ "do": "say", "text": "result" }], "on_error": [{ "do": "say", "text": "error" }] }, { "do": "reply" }]);
    let mut bench = Bench::ready(&turn(steps));
    bench.prompt(3, "hi");
    bench.answer(json!("0"), json!(1));
    assert_eq!(bench.frames().len(), 1, "an answer with an id of another type is no answer");
    bench.answer(json!(0), json!(null));
    assert_eq!(bench.frames(), ["say result", "3 end_turn"]);
    bench.prompt(4, "hi");
    bench.send(json!({ "id": 1, "error": "no" }));
    assert_eq!(bench.frames()[1..], ["say error", "4 end_turn"]);
    bench.prompt(5, "hi");
    bench.pass(100);
    assert_eq!(bench.frames()[1..], ["5 end_turn"], "it gave up");
}

#[test]
fn an_answer_nobody_waits_for_still_leads_somewhere() {
    let steps = json!([{ "do": "request", "method": "x", "wait": false, "on_result": [{ "do": "say", "text": "aha" }] },
        { "do": "reply" }]);
    let mut bench = Bench::ready(&turn(steps));
    bench.prompt(3, "hi");
    bench.answer(json!(0), json!({}));
    assert_eq!(bench.frames()[1..], ["3 end_turn", "say aha"]);
}

#[test]
fn a_poisoned_turn_is_played_once() {
    let script = json!({ "turns": [{ "when": { "nth": 1 }, "steps": [
        { "do": "poison", "steps": [{ "do": "reply", "error": { "code": 500, "message": "poisoned" } }] }, { "do": "reply" }] }] });
    let mut bench = Bench::ready(&script.to_string());
    for id in 3..6 {
        bench.prompt(id, "hi");
    }
    assert_eq!(bench.frames(), ["3 end_turn", "4 error 500", "say hi", "5 end_turn"]);
}

#[test]
fn a_second_answer_to_the_turn_before_can_come_in_the_next_turn() {
    let script = json!({ "turns": [{ "when": { "nth": 2 }, "steps": [
        { "do": "reply", "to": "previous_turn", "stop_reason": "cancelled" }, { "do": "reply" }] }] });
    let mut bench = Bench::ready(&script.to_string());
    bench.prompt(3, "hi");
    bench.prompt(4, "hi");
    assert_eq!(bench.frames(), ["say hi", "3 end_turn", "3 cancelled", "4 end_turn"]);
    assert_eq!(bench.file()[1..], ["user hi", "assistant stop hi", "user hi", "assistant stop"]);
}

#[test]
fn entries_are_written_before_or_after_a_reply_or_not_at_all() {
    let steps = json!([{ "do": "say", "text": "a" }, { "do": "persist", "entry": "tool_result" },
        { "do": "reply", "persist": "never" }, { "do": "delay", "ms": 5 }, { "do": "persist", "entry": "aborted" },
        { "do": "persist", "entry": "raw", "value": { "type": "custom", "customType": "x" } },
        { "do": "persist", "entry": "assistant" }, { "do": "persist", "entry": "user" },
        { "do": "persist", "entry": "session_exit" }]);
    let mut bench = Bench::ready(&turn(steps));
    bench.prompt(3, "hi");
    let before = ["session", "user hi", "toolResult Command aborted"];
    assert_eq!((bench.file(), bench.frames().len()), (before.map(String::from).to_vec(), 2));
    bench.pass(5);
    let after = [
        "assistant aborted a",
        "custom x",
        "assistant stop a",
        "user hi",
        "custom session_exit manual",
    ];
    assert_eq!(bench.file()[3..], after);

    // What goes after the answer waits until the answer is written.
    for (moment, entries) in [("before", 3), ("after", 2), ("never", 2)] {
        let mut bench = Bench::ready(&turn(json!([{ "do": "reply", "persist": moment }])));
        bench.machine().room = Some(0);
        bench.prompt(3, "hi");
        assert_eq!(bench.file().len(), entries, "{moment}");
        bench.make_room(None);
        assert_eq!(bench.file().len(), if moment == "never" { 2 } else { 3 }, "{moment}");
    }
}

#[test]
fn steps_wait_for_what_happens_to_the_agent() {
    let script = |event: &str| {
        let never = json!({ "obey": "never" });
        json!({ "on": { "cancel": never, "eof": never, "sigterm": never }, "turns": [{ "steps": [
            { "do": "wait_for", "event": event, "timeout_ms": 500 }, { "do": "say", "text": "woke" }] }] })
    };
    let wake = |event: &str, act: fn(&mut Bench)| {
        let mut bench = Bench::ready(&script(event).to_string());
        bench.prompt(3, "hi");
        assert_eq!(bench.frames().len(), 0, "{event}");
        act(&mut bench);
        assert_eq!(bench.frames(), ["say woke"], "{event}");
    };
    wake("cancel", Bench::cancel);
    wake("eof", Bench::end_input);
    wake("signal", |bench| bench.signal(Signal::Term));
    wake("prompt", |bench| bench.prompt(4, "more"));
    wake("cancel", |bench| bench.pass(500));
}

#[test]
fn the_same_input_in_any_pieces_gives_the_same_output() {
    let mut whole = Bench::new("{}");
    let conversation: String = [
        json!({ "id": 1, "method": "initialize" }),
        json!({ "id": 2, "method": "session/new", "params": { "cwd": "/ws" } }),
        json!({ "id": 3, "method": "session/prompt", "params": { "sessionId": "fake-0-1",
            "prompt": [{ "type": "text", "text": "\u{e4}\u{1f600}" }] } }),
    ]
    .iter()
    .map(|frame| format!("{frame}\r\n"))
    .collect();
    whole.bytes(conversation.as_bytes());
    let expected = whole.output();
    assert_eq!(expected.iter().filter(|byte| **byte == b'\n').count(), 4);
    for cut in 1..conversation.len() {
        let mut bench = Bench::new("{}");
        let (one, two) = conversation.as_bytes().split_at(cut);
        bench.bytes(one);
        bench.bytes(two);
        assert_eq!(bench.output(), expected, "cut at {cut}");
    }
}

#[test]
fn every_step_has_its_story_here() {
    let stories = include_str!("vocabulary.rs").to_string() + include_str!("reactions.rs");
    for name in STEP_NAMES {
        assert!(stories.contains(&format!("\"do\": \"{name}\"")), "{name} has no story");
    }
}
