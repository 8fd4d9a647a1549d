//! What cannot be done is said in one line, with exit status 2.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a harness of real processes"
)]

mod common;

use std::process::{Command, Stdio};

use common::{MOORED, Place, Ran, scripted};

#[test]
fn alone_it_explains_itself() {
    let place = Place::new();
    let ran = place.run(&[]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    for command in ["moored chat", "moored ps", "moored journal"] {
        assert!(ran.out.contains(command), "{}", ran.out);
    }
}

#[test]
fn the_version_names_the_kernels() {
    let ran = Place::new().run(&["--version"]);
    assert_eq!(ran.status, Some(0));
    for kernel in moored_sim::KernelKind::available() {
        assert!(ran.out.contains(&kernel.to_string()), "{}", ran.out);
    }
}

#[test]
fn what_is_typed_wrongly_is_one_line() {
    let place = Place::new();
    place.run(&["frobnicate"]).cannot_run(&["frobnicate", "moored help"]);
    place.run(&["journal"]).cannot_run(&["SESSION"]);
    place.run(&["chat", "--persona", "echo", "--", "agent"]).cannot_run(&["--persona"]);
}

#[test]
fn an_agent_that_does_not_exist() {
    let place = Place::new();
    let ran = place.run(&["chat", "--prompt", "hello", "--", "/no/such/agent"]);
    ran.cannot_run(&["/no/such/agent", "name one that exists"]);
    // In a conversation too: none is possible.
    let ran = place.run_with(&["chat", "--json", "--", "/no/such/agent"], "hello\nagain\n");
    ran.cannot_run(&["/no/such/agent"]);
    assert!(place.sessions().iter().all(|session| session["closed"] == true));
}

#[test]
fn an_agent_that_cannot_be_started_or_understood() {
    let place = Place::new();
    let file = place.file("not-a-program", "hello");
    let ran = place.run(&["chat", "--prompt", "hello", "--", &file]);
    ran.cannot_run(&["not-a-program", "check that it may be executed"]);
    let ran = place.run(&["chat", "--prompt", "hello", "--", "/bin/sh", "-c", "exit 3"]);
    ran.cannot_run(&["the agent did not start"]);
}

#[test]
fn another_version_of_the_protocol() {
    let place = Place::new();
    let file = place.file("v2.json", r#"{"agent": {"protocol_version": 2}}"#);
    let args = [&["chat", "--prompt", "hello", "--"][..], &scripted(&file)].concat();
    place.run(&args).cannot_run(&["another version of the protocol", "speaks protocol version 1"]);
}

#[test]
fn a_release_that_is_not_supported() {
    let place = Place::new();
    let definition = serde_json::json!({
        "name": "mine",
        "command": [MOORED, "fake-agent", "--persona", "echo"],
        "versions": { "from": "999.0.0" },
    });
    let file = place.file("mine.json", &definition.to_string());
    let ran = place.run(&["chat", "--agent", &file, "--prompt", "hello"]);
    ran.cannot_run(&["999.0.0", "install a supported release"]);
}

#[test]
fn a_definition_that_is_not_one() {
    let place = Place::new();
    let ran = place.run(&["chat", "--agent", "nobody", "--prompt", "hello"]);
    ran.cannot_run(&["nobody", "omp", "JSON file"]);
    let file = place.file("bad.json", "{\n  \"name\": \"mine\",\n  \"reopne\": \"load\"\n}");
    let ran = place.run(&["chat", "--agent", &file, "--prompt", "hello"]);
    ran.cannot_run(&["bad.json", "reopne", "line 3"]);
    let file = place.file("empty.json", r#"{"name": "mine"}"#);
    let ran = place.run(&["chat", "--agent", &file, "--prompt", "hello"]);
    ran.cannot_run(&["names no command", "after --"]);
}

#[test]
fn a_value_that_a_definition_asks_for() {
    let place = Place::new();
    let ran = place.run(&["chat", "--agent", "omp", "--prompt", "hello"]);
    ran.cannot_run(&["asks for agent_dir", "--value agent_dir="]);
    let omp = ["chat", "--agent", "omp", "--prompt", "hello", "--value"];
    let ran = |value| place.run(&[&omp[..], &[value]].concat());
    ran("agent_dir=here").cannot_run(&["absolute path"]);
    ran("agent_dri=/here").cannot_run(&["agent_dri", "agent_dir"]);
    ran("agent_dir").cannot_run(&["NAME=VALUE"]);
}

#[test]
fn a_persona_or_a_workspace_that_does_not_exist() {
    let place = Place::new();
    let ran = place.run(&["chat", "--persona", "nobody"]);
    ran.cannot_run(&["nobody", "echo", "crasher"]);
    let ran = place.run(&["chat", "--workspace", "/no/such/folder", "--prompt", "hello"]);
    ran.cannot_run(&["/no/such/folder", "create it"]);
    assert!(!place.store().exists(), "nothing was made for what could not begin");
}

#[test]
fn a_store_that_is_none_or_a_newer_one() {
    let place = Place::new();
    place.run(&["ps"]).cannot_run(&["no store", "`moored chat` makes a store"]);
    assert_eq!(place.run(&["chat", "--prompt", "hello"]).status, Some(0));
    let database = place.store().join("journal.sqlite");
    let mut bytes = std::fs::read(&database).expect("a database");
    // `user_version` lies big-endian at byte 60 of the file's header.
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(&database, &bytes).expect("written");
    for args in [&["ps"][..], &["chat", "--prompt", "hello"], &["journal", "x"]] {
        place.run(args).cannot_run(&["newer version", "schema 99", "update this program"]);
    }
    std::fs::write(&database, b"something else altogether").expect("written");
    place.run(&["ps"]).cannot_run(&["not a store", "--store"]);
}

/// The file size limit of a process stands in for a disk without space: the database may not grow past it.
fn on_a_full_disk(place: &Place, blocks: u32, args: &str) -> Ran {
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec {MOORED} {args}");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script]).current_dir(place.workspace()).env("MOORED_STORE", place.store());
    Ran::new(shell.stdin(Stdio::null()).output().expect("it runs"))
}

#[test]
fn a_full_disk_is_told_and_nothing_is_lost() {
    let place = Place::new();
    assert_eq!(place.run(&["chat", "--prompt", "kept"]).status, Some(0));
    let before = place.run(&["journal", "session-", "--raw"]).out;
    on_a_full_disk(&place, 8, "chat --prompt lost").cannot_run(&["store", "cannot be"]);
    assert_eq!(place.run(&["journal", &place.only_session(), "--raw"]).out, before);
    assert_eq!(place.run(&["chat", "--prompt", "again"]).status, Some(0));
}

#[test]
fn a_disk_that_fills_up_is_told_too() {
    let place = Place::new();
    // Enough for an empty store, and not for a session in it.
    let ran = on_a_full_disk(&place, 100, "chat --prompt lost");
    ran.cannot_run(&["cannot be written", "free some space", "kept"]);
    assert_eq!(place.run(&["chat", "--prompt", "again"]).status, Some(0));
}
