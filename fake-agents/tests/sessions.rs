//! What an agent keeps, and what it says of it to the next process.
#![expect(clippy::unwrap_used, reason = "what fails here is a test")]

mod bench;

use bench::{Bench, Files};
use moored_fake_agents::Script;
use serde_json::{Value, json};

const NOT_FOUND: &str = "ACP session not found: fake-0-1";

fn script(script: Value) -> Script {
    script.to_string().parse().unwrap()
}

/// A home in which a process held a conversation of two turns, the second of them stopped.
fn conversation() -> Files {
    let files = Files::default();
    let hangs = json!([{ "do": "say", "text": "part" }]);
    let script = script(json!({ "turns": [{ "when": { "contains": "hang" }, "steps": hangs }] }));
    let mut bench = Bench::process(script, &files, 100);
    bench.open();
    bench.prompt(3, "hello");
    bench.prompt(4, "hang");
    bench.cancel();
    bench.end_input();
    assert!(bench.end().is_some());
    files
}

/// What a next process of `script` answers to this request for the session.
fn reopen(script: Value, files: &Files, method: &str, cwd: &str) -> Vec<String> {
    let mut bench = Bench::process(self::script(script), files, 200);
    bench.request(1, method, json!({ "sessionId": "fake-0-1", "cwd": cwd, "mcpServers": [] }));
    bench.frames()
}

fn details(frames: &[String], files: &Files, script_value: Value, method: &str) -> String {
    assert_eq!(frames, ["1 error -32603"]);
    let mut bench = Bench::process(script(script_value), files, 300);
    bench.request(1, method, json!({ "sessionId": "fake-0-1", "cwd": "/ws" }));
    let answer: Value = serde_json::from_slice(&bench.output()).unwrap();
    answer["error"]["data"]["details"].as_str().unwrap().to_string()
}

#[test]
fn a_load_replays_what_was_kept_and_a_resume_replays_nothing() {
    let files = conversation();
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    assert_eq!(reopen(json!({}), &files, "session/resume", "/ws"), [answer]);
    let replayed = ["user hello", "say hello", "user hang", answer];
    assert_eq!(reopen(json!({}), &files, "session/load", "/ws"), replayed);

    let extra = json!({ "store": { "replay": { "own": false, "extra": 68 } } });
    let frames = reopen(extra, &files, "session/load", "/ws");
    assert_eq!(
        (frames.len(), frames[67].as_str(), frames[68].as_str()),
        (69, "say replayed 68", answer)
    );

    let late = json!({ "store": { "replay": { "after_answer": true } } });
    let mut frames = reopen(late, &files, "session/load", "/ws");
    assert_eq!(frames.remove(0), answer);
    assert_eq!(frames, replayed[..3]);
}

#[test]
fn a_reopened_session_goes_on_in_its_file() {
    let files = conversation();
    let mut bench = Bench::process(script(json!({})), &files, 200);
    bench.request(1, "session/resume", json!({ "sessionId": "fake-0-1", "cwd": "/ws" }));
    bench.prompt(2, "again");
    let expected = [
        "session",
        "user hello",
        "assistant stop hello",
        "user hang",
        "assistant aborted part",
        "custom session_exit manual",
        "user again",
        "assistant stop again",
    ];
    assert_eq!(bench.file(), expected);
    let text = files.lock().unwrap()["/home/fake/sessions/fake-0-1.jsonl"].clone();
    let entries: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(entries[0]["cwd"], "/ws");
    assert_eq!(entries[1]["parentId"], Value::Null);
    for pair in entries[1..].windows(2) {
        assert_eq!(pair[1]["parentId"], pair[0]["id"], "each entry names the one before it");
    }
}

#[test]
fn a_session_is_refused_by_name_when_it_is_missing_elsewhere_or_another_folders() {
    let files = conversation();
    for method in ["session/load", "session/resume"] {
        let none = Files::default();
        let frames = reopen(json!({}), &none, method, "/ws");
        assert_eq!(details(&frames, &none, json!({}), method), NOT_FOUND);

        let drift = json!({ "store": { "profile": "other" } });
        let frames = reopen(drift.clone(), &files, method, "/ws");
        assert_eq!(details(&frames, &files, drift, method), NOT_FOUND);

        let denied = json!({ "store": { "exists": false } });
        let frames = reopen(denied.clone(), &files, method, "/ws");
        assert_eq!(details(&frames, &files, denied, method), NOT_FOUND);

        let moved = json!({ "store": { "cwd": "/elsewhere" } });
        let frames = reopen(moved.clone(), &files, method, "/ws");
        let refusal = "ACP session load was cancelled: fake-0-1";
        assert_eq!(details(&frames, &files, moved, method), refusal);
        assert_eq!(reopen(json!({}), &files, method, "/other"), ["1 error -32603"]);

        let careless = json!({ "store": { "check_cwd": false } });
        assert!(reopen(careless, &files, method, "/other").last().unwrap().contains("\"result\""));
        let claimed = json!({ "store": { "exists": true } });
        assert!(reopen(claimed, &none, method, "/ws").last().unwrap().contains("\"result\""));
    }
}

#[test]
fn an_id_cannot_lead_out_of_the_home() {
    let files = conversation();
    let mut bench = Bench::process(script(json!({ "store": { "exists": true } })), &files, 200);
    let params = json!({ "sessionId": "../fake-0-1", "cwd": "/ws" });
    bench.request(1, "session/resume", params.clone());
    bench.request(2, "session/prompt", json!({ "sessionId": "../fake-0-1", "prompt": [] }));
    assert_eq!(bench.frames().last().unwrap(), "2 end_turn");
    assert!(files.lock().unwrap().keys().all(|path| !path.contains("..")));
}

#[test]
fn the_profile_and_the_home_come_from_the_environment_too() {
    let files = Files::default();
    let variables = [("FAKE_AGENT_HOME", "/h"), ("FAKE_AGENT_PROFILE", "work")];
    let mut bench = Bench::with_environment(script(json!({})), &files, 7, &variables);
    bench.open();
    assert_eq!(bench.file_of("/h/profiles/work/sessions/fake-0-1.jsonl"), ["session"]);
    let mut bench = Bench::with_environment(script(json!({})), &Files::default(), 7, &[]);
    bench.open();
    bench.prompt(3, "hi");
    assert_eq!(
        bench.frames(),
        ["say hi", "3 end_turn"],
        "without a home it keeps nothing and works"
    );
}

#[test]
fn session_ids_count_the_sessions_of_the_home() {
    let files = Files::default();
    let mut ids = Vec::new();
    for (seed, pid) in [(0, 100), (0, 101), (5, 101)] {
        let mut bench = Bench::process(script(json!({ "seed": seed })), &files, pid);
        for request in 1..=2 {
            bench.request(request, "session/new", json!({ "cwd": "/ws" }));
            let answer: Value = serde_json::from_slice(&bench.output()).unwrap();
            ids.push(answer["result"]["sessionId"].as_str().unwrap().to_string());
        }
    }
    assert_eq!(ids, ["fake-0-1", "fake-0-2", "fake-0-3", "fake-0-4", "fake-5-5", "fake-5-6"]);
}

#[test]
fn a_new_session_is_kept_before_its_answer_or_after_it_or_never() {
    for (moment, blocked, written) in [("before", 1, 1), ("after", 0, 1), ("never", 0, 0)] {
        let script = script(json!({ "store": { "persist_new": moment } }));
        let mut bench = Bench::process(script, &Files::default(), 7);
        bench.machine().room = Some(0);
        bench.request(1, "session/new", json!({ "cwd": "/ws" }));
        assert_eq!(bench.file().len(), blocked, "{moment}");
        bench.make_room(None);
        assert_eq!(bench.file().len(), written, "{moment}");
    }
    let mut bench = Bench::ready(r#"{ "store": { "persist_user": false } }"#);
    bench.prompt(3, "hi");
    assert_eq!(bench.file(), ["session", "assistant stop hi"]);
    let steps =
        json!([{ "do": "persist", "entry": "header" }, { "do": "reply", "persist": "never" }]);
    let mut bench =
        Bench::ready(&json!({ "on": { "requests": { "session/new": steps } } }).to_string());
    assert_eq!(bench.file(), ["session"]);
    bench.end_input();
    assert_eq!(bench.file(), ["session"], "a session without an answer notes no exit");
}

#[test]
fn frames_and_requests_come_before_the_answer_that_names_the_session() {
    let steps = json!([{ "do": "update", "update": { "sessionUpdate": "usage_update", "used": 1 } },
        { "do": "request", "method": "fs/read" }, { "do": "reply" }]);
    let on = json!({ "requests": { "session/new": steps }, "ready": [{ "do": "say", "text": "welcome" }] });
    let mut bench = Bench::new(&json!({ "on": on }).to_string());
    bench.request(1, "session/new", json!({ "cwd": "/ws" }));
    let frames = bench.frames();
    assert!(frames[0].contains("usage_update") && frames[0].contains("fake-0-1"));
    assert!(frames[1].contains("fs/read"));
    bench.answer(json!(0), json!({}));
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"fake-0-1"}}"#;
    assert_eq!(bench.frames(), [answer, "say welcome"]);
}

#[test]
fn load_can_succeed_in_every_shape_and_fail_in_any() {
    let files = conversation();
    let replay = json!({ "own": false });
    for (reply, frame) in [
        (json!({ "do": "reply", "result": null }), r#"{"jsonrpc":"2.0","id":1,"result":null}"#),
        (json!({ "do": "reply", "error": { "code": -32602, "message": "no" } }), "1 error -32602"),
        (json!({ "do": "reply", "id": "string" }), r#"{"jsonrpc":"2.0","id":"1","result":{}}"#),
    ] {
        let script = json!({ "store": { "replay": replay }, "on": { "requests": { "session/load": [reply] } } });
        assert_eq!(reopen(script, &files, "session/load", "/ws"), [frame]);
    }
    let modes =
        json!({ "store": { "replay": replay }, "agent": { "session_result": { "modes": {} } } });
    let frame = r#"{"jsonrpc":"2.0","id":1,"result":{"modes":{}}}"#;
    assert_eq!(reopen(modes, &files, "session/load", "/ws"), [frame]);
}

#[test]
fn a_session_wants_a_sign_in_until_there_is_one() {
    let ask = |bench: &mut Bench, method: &str| {
        bench.request(
            1,
            method,
            json!({ "cwd": "/ws", "sessionId": "fake-0-1", "methodId": "agent" }),
        );
        let answer: Value = serde_json::from_slice(&bench.output()).unwrap();
        answer["error"]["code"].as_i64()
    };
    for (sign_in, here, in_the_next) in [
        ("not_needed", [None, None], None),
        ("until_authenticate", [Some(-32000), None], None),
        ("until_respawn", [Some(-32000), Some(-32000)], None),
        ("never", [Some(-32000), Some(-32000)], Some(-32000)),
    ] {
        let files = Files::default();
        let script = script(json!({ "agent": { "sign_in": sign_in } }));
        let mut bench = Bench::process(script.clone(), &files, 7);
        let first = ask(&mut bench, "session/new");
        assert_eq!(ask(&mut bench, "authenticate"), None);
        assert_eq!([first, ask(&mut bench, "session/new")], here, "{sign_in}");
        let mut bench = Bench::process(script, &files, 8);
        assert_eq!(ask(&mut bench, "session/new"), in_the_next, "{sign_in}");
    }
}

#[test]
fn the_handshake_says_what_the_facts_say() {
    let facts = json!({ "agent": { "name": "n", "title": "t", "version": "18.2.3", "protocol_version": "1",
        "capabilities": { "loadSession": "yes" }, "auth_methods": [] } });
    let mut bench = Bench::new(&facts.to_string());
    bench.request(1, "initialize", json!({ "protocolVersion": 1 }));
    let answer: Value = serde_json::from_slice(&bench.output()).unwrap();
    let expected = json!({ "protocolVersion": "1", "agentInfo": { "name": "n", "title": "t", "version": "18.2.3" },
        "authMethods": [], "agentCapabilities": { "loadSession": "yes" } });
    assert_eq!(answer["result"], expected);
}

#[test]
fn a_turn_can_be_for_one_life_of_the_agent_only() {
    let files = Files::default();
    let crash = json!({ "when": { "life": 1, "nth": 1 }, "steps": [{ "do": "exit", "code": 1 }] });
    let script = script(json!({ "turns": [crash] }));
    let mut bench = Bench::process(script.clone(), &files, 100);
    bench.open();
    bench.prompt(3, "hi");
    assert!(bench.end().is_some());
    let mut bench = Bench::process(script, &files, 101);
    bench.prompt(3, "hi");
    assert_eq!(bench.frames(), ["say hi", "3 end_turn"]);
}
