//! Conversations, as a person or a script holds them.

#![expect(clippy::disallowed_methods, reason = "a harness of real processes: looks at their files")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use common::{MOORED, Place, Ran, interrupt, scripted};
use serde_json::Value;

#[test]
fn a_prompt_is_answered_and_the_answer_alone_is_on_stdout() {
    let place = Place::new();
    let ran = place.run(&["chat", "--prompt", "hello"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "hello\n"), "{ran:?}");
    let session = place.only_session();
    assert!(ran.err.contains(&format!("moored journal {session}")), "{ran:?}");
    assert!(ran.err.contains("the agent left when its input was closed, with code 0"), "{ran:?}");
}

#[test]
fn each_line_of_a_pipe_is_a_turn_and_its_end_is_a_close() {
    let place = Place::new();
    let ran = place.run_with(&["chat"], "one\n\ntwo\n");
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "one\ntwo\n"), "{ran:?}");
    let sessions = place.sessions();
    assert_eq!(sessions[0]["closed"], true);
    assert_eq!(sessions[0]["latestPrompt"], "two");
}

#[test]
fn the_status_says_how_the_turn_ended() {
    let place = Place::new();
    let ran = place.run(&["chat", "--persona", "refuser", "--prompt", "please"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.err.contains("the turn ended in failure"), "{ran:?}");
    let ran = place.run(&["chat", "--persona", "crasher", "--prompt", "please"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(1), "one two \n"), "{ran:?}");
    assert!(ran.err.contains("the agent ended by itself, with code 1"), "{ran:?}");
    let outcomes: Vec<Value> =
        place.sessions().iter().map(|session| session["turnOutcome"].clone()).collect();
    assert_eq!(outcomes, ["failure", "interruption"]);
}

#[test]
fn an_agent_that_stays_is_ended_and_so_reported() {
    let place = Place::new();
    let ran = place.run(&["chat", "--persona", "ignores-eof", "--prompt", "hello"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "hello\n"), "{ran:?}");
    assert!(ran.err.contains("was ended by SIGTERM"), "{ran:?}");
    let ran = place.run(&["chat", "--persona", "orphan-maker", "--prompt", "hello"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.err.contains("nothing of it is left"), "{ran:?}");
}

#[test]
fn a_flood_arrives_whole() {
    let place = Place::new();
    let ran = place.run(&["chat", "--persona", "flooder", "--prompt", "go"]);
    assert_eq!(ran.status, Some(0));
    let words: String = (1..=2000).map(|n| format!("word{n} ")).collect();
    assert!(ran.out.starts_with(&words), "no word is lost or doubled");
}

const ASKS: &str = r#"{"turns": [{"steps": [
    {"do": "tool_call", "id": "c1"},
    {"do": "permission", "tool": "c1", "on_answer": {
        "*": [{"do": "say", "text": "did it"}, {"do": "tool_update", "id": "c1", "status": "completed"},
              {"do": "reply"}],
        "cancelled": [{"do": "say", "text": "left it"}, {"do": "reply"}]}}
]}]}"#;

#[test]
fn a_question_is_asked_and_answered_by_its_number() {
    let place = Place::new();
    let file = place.file("asks.json", ASKS);
    let args = [&["chat", "--prompt", "go", "--"][..], &scripted(&file)].concat();
    let ran = place.run_with(&args, "nonsense\n9\n1\n");
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "did it\n"), "{ran:?}");
    assert!(ran.err.contains("1 Allow once"), "{ran:?}");
    assert_eq!(ran.err.matches("answer with a number from 0 to 4").count(), 2, "{ran:?}");
    assert!(ran.err.contains("[tool] $ sleep 30: done"), "{ran:?}");
}

#[test]
fn a_question_that_nobody_can_answer_is_dismissed() {
    let place = Place::new();
    let file = place.file("asks.json", ASKS);
    let args = [&["chat", "--prompt", "go", "--"][..], &scripted(&file)].concat();
    let ran = place.run(&args);
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "left it\n"), "{ran:?}");
}

#[test]
fn ctrl_c_stops_a_turn_and_at_rest_it_closes() {
    let place = Place::new();
    let mut chat = place
        .moored(&["chat", "--persona", "late-persister"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdin = chat.stdin.take().expect("piped");
    let mut stdout = chat.stdout.take().expect("piped");
    let mut stderr = BufReader::new(chat.stderr.take().expect("piped"));
    let mut said = String::new();
    let mut read_to = |words: &str| {
        while !said.contains(words) {
            assert_ne!(stderr.read_line(&mut said).expect("read"), 0, "it ended: {said}");
        }
    };
    writeln!(stdin, "work").expect("typed");
    let mut working = [0; 7];
    stdout.read_exact(&mut working).expect("the agent works");
    interrupt(&chat);
    read_to("[stop] Stopping\u{2026}; Ctrl-C again closes the session\n");
    read_to("[note] Cancellation requested.\n");
    read_to("[turn] Interrupted after ");
    // The session goes on in a new child that reopened it.
    writeln!(stdin, "finish").expect("typed");
    let mut finished = [0; 10];
    stdout.read_exact(&mut finished).expect("the agent answers");
    assert_eq!(&finished, b"\nfinished\n");
    interrupt(&chat);
    read_to("[end] the journal is kept");
    assert_eq!(chat.wait().expect("it ends").code(), Some(0));
    drop(stdin);
    let session = place.only_session();
    let journal = place.run(&["journal", &session]).out;
    assert!(journal.contains("a person's Stop reaches turn"), "{journal}");
    assert_eq!(journal.matches("agent started as process").count(), 2, "{journal}");
}

#[test]
fn a_stopped_prompt_is_no_success() {
    let place = Place::new();
    let mut chat = place
        .moored(&["chat", "--persona", "late-persister", "--prompt", "work"])
        .spawn()
        .expect("it runs");
    let mut working = [0; 7];
    chat.stdout.as_mut().expect("piped").read_exact(&mut working).expect("the agent works");
    interrupt(&chat);
    let ran = Ran::new(chat.wait_with_output().expect("it ends"));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.err.contains("[turn] Interrupted after "), "{ran:?}");
}

#[test]
fn each_line_of_json_is_an_event() {
    let place = Place::new();
    let ran = place.run(&["chat", "--json", "--prompt", "hello"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    let events: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(events[0]["session"]["agent"], "echo");
    let named = |name: &str| events.iter().find(|event| event["event"] == name).expect("it came");
    assert_eq!(named("turn")["turn"]["outcome"], "success");
    assert_eq!(named("end")["end"]["child"]["how"], "onEof");
    assert_eq!(named("end")["end"]["session"], place.only_session());
}

#[test]
fn an_agent_may_be_described_in_a_file() {
    let place = Place::new();
    let command = serde_json::json!([MOORED, "fake-agent", "--persona", "echo"]);
    let definition = serde_json::json!({
        "name": "mine",
        "command": command,
        "values": { "home": { "about": "Where it keeps its sessions.", "kind": "absolute_path" } },
        "pin_env": { "FAKE_AGENT_HOME": "{home}" },
    });
    let file = place.file("mine.json", &definition.to_string());
    let home = format!("home={}", place.workspace().display());
    let ran = place.run(&["chat", "--agent", &file, "--value", &home, "--prompt", "hello"]);
    assert!(std::fs::read_dir(place.workspace()).expect("a folder").next().is_some(), "its file");
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "hello\n"), "{ran:?}");
    assert_eq!(place.sessions()[0]["agent"], "mine");
}
