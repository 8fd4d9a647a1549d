//! What was kept, read again.

mod common;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use common::Place;
use moored::journal::{Fold, Row, Touched};

#[test]
fn a_journal_is_readable_one_line_a_row() {
    let place = Place::new();
    place.run(&["chat", "--prompt", "hello\nworld"]);
    let session = place.only_session();
    let ran = place.run(&["journal", &session]);
    assert_eq!(ran.status, Some(0));
    let raw = place.run(&["journal", &session, "--raw"]).out;
    assert_eq!(ran.out.lines().count(), raw.lines().count(), "{}", ran.out);
    let first = ran.out.lines().next().expect("a line");
    assert!(first.trim_start().starts_with("+0.000  #1 "), "{first}");
    for words in ["agent says", "\"hello world\"", "completed, success", "nothing of it is left"] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
}

#[test]
fn the_raw_journal_is_the_stored_one() {
    let place = Place::new();
    place.run(&["chat", "--prompt", "hello"]);
    let session = place.only_session();
    let raw = place.run(&["journal", &session, "--raw"]).out;
    let mut fold = Fold::new();
    for line in raw.lines() {
        let row = Row::parse(line).expect("a row");
        fold.apply(&row, &mut Touched::default());
    }
    assert!(fold.timeline().count() >= 3, "the prompt, the turn, the answer");
    let document = place.json(&["journal", &session, "--json"]);
    assert_eq!(document["record"]["session"], session);
    assert_eq!(document["rows"].as_array().expect("rows").len(), raw.lines().count());
}

#[test]
fn a_session_is_found_by_the_beginning_of_its_id() {
    let place = Place::new();
    place.run(&["chat", "--prompt", "one"]);
    let first = place.only_session();
    assert_eq!(place.run(&["journal", &first[..20]]).status, Some(0));
    place.run(&["chat", "--prompt", "two"]);
    place.run(&["journal", "session-"]).cannot_run(&["2 sessions begin with session-"]);
    place.run(&["journal", "nobody"]).cannot_run(&["no session nobody", "`moored ps` lists"]);
    place.run(&["journal", ""]).cannot_run(&["no session"]);
}

#[test]
fn the_list_is_a_table_or_a_document() {
    let place = Place::new();
    place.run(&["chat", "--prompt", "hello"]);
    place.run(&["chat", "--persona", "refuser", "--prompt", "hello"]);
    let table = place.run(&["ps"]);
    assert_eq!(table.status, Some(0));
    let lines: Vec<&str> = table.out.lines().collect();
    assert!(lines[0].starts_with("SESSION"), "{table:?}");
    assert!(lines[1].contains("closed") && lines[1].contains("success"), "{table:?}");
    assert!(lines[2].contains("refuser") && lines[2].contains("failure"), "{table:?}");
    let sessions = place.sessions();
    assert_eq!(sessions[0]["turnOutcome"], "success");
    assert_eq!(sessions[0]["lastAssistantMessage"], "hello");
    assert_eq!(sessions[0]["workspaceId"], place.workspace().display().to_string());
}

#[test]
fn a_store_that_is_in_use_can_be_read_and_not_be_used() {
    let place = Place::new();
    let mut chat = place.moored(&["chat"]).stdin(Stdio::piped()).spawn().expect("it runs");
    let mut stdin = chat.stdin.take().expect("piped");
    writeln!(stdin, "hello").expect("typed");
    let mut answer = [0; 6];
    chat.stdout.as_mut().expect("piped").read_exact(&mut answer).expect("answered");
    let pid = chat.id().to_string();
    place.run(&["chat", "--prompt", "me too"]).cannot_run(&["in use by process", &pid, "--store"]);
    let sessions = place.sessions();
    assert_eq!((sessions[0]["closed"].as_bool(), sessions.len()), (Some(false), 1));
    assert_eq!(sessions[0]["status"], "idle");
    drop(stdin);
    assert_eq!(chat.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_store_belongs_to_its_owner_alone() {
    let place = Place::new();
    place.run(&["chat", "--prompt", "hello"]);
    let mode = std::fs::metadata(place.store()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn the_flag_is_stronger_than_the_variable() {
    let (place, other) = (Place::new(), Place::new());
    let store = other.store().display().to_string();
    assert_eq!(place.run(&["chat", "--store", &store, "--prompt", "hello"]).status, Some(0));
    place.run(&["ps"]).cannot_run(&["no store", "--store"]);
    assert_eq!(other.sessions().len(), 1);
}
