//! Scenarios from the command line: played, swept, replayed.

mod common;

use common::Place;

/// Expects what does not come.
const WRONG: &str = r#"{
  "name": "wrong",
  "agent": { "persona": "echo" },
  "actions": [
    { "do": "send", "id": "m1", "text": "hello" },
    { "when": { "event": "turn_ended" }, "do": "close" }
  ],
  "expect": { "journal": ["turn prompt:m1 completed failure"] }
}"#;

#[test]
fn a_document_leaves_the_same_canonical_journal_in_simulation_and_with_real_processes() {
    let place = Place::new();
    let simulated = place.run(&["play", "echo"]);
    assert_eq!((simulated.status, simulated.err.as_str()), (Some(0), ""), "{simulated:?}");
    assert!(simulated.out.contains("turn prompt:m1 completed success"), "{simulated:?}");
    let native = place.run(&["play", "echo", "--native"]);
    assert_eq!((native.status, native.err.as_str()), (Some(0), ""), "{native:?}");
    assert_eq!(native.out, simulated.out);
}

#[test]
fn what_does_not_hold_is_exit_status_1() {
    let place = Place::new();
    let file = place.file("wrong.json", WRONG);
    for mode in [&["play", &file][..], &["play", &file, "--native"]] {
        let ran = place.run(mode);
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert!(ran.err.starts_with("moored: wrong fails: "), "{ran:?}");
    }
    let document = place.json(&["play", &file, "--json"]);
    assert_eq!((&document["scenario"], &document["holds"]), (&"wrong".into(), &false.into()));
}

#[test]
fn an_unreadable_scenario_is_named_by_field_and_line() {
    let place = Place::new();
    let file = place.file("bad.json", &WRONG.replace("\"persona\"", "\"person\""));
    place.run(&["play", &file]).cannot_run(&["bad.json:3", "agent", "person"]);
    let file = place.file("cut.json", &WRONG[..60]);
    place.run(&["play", &file]).cannot_run(&["cut.json:"]);
    place.run(&["play", "nobody"]).cannot_run(&["nobody", "echo"]);
    place.run(&["sweep", "nobody"]).cannot_run(&["nobody"]);
}

#[test]
fn a_replay_is_identical() {
    let place = Place::new();
    let args = ["replay", "echo", "--seed", "7", "--trace"];
    let first = place.run(&args).out;
    assert!(first.lines().count() > 20, "{first}");
    assert_eq!(place.run(&args).out, first);
    let rows = place.run(&["replay", "echo", "--seed", "7"]).out;
    assert!(rows.lines().next().is_some_and(|row| row.contains("epoch created")), "{rows}");
}

#[test]
fn a_sweep_is_a_table_and_each_failure_a_command_that_shows_it_again() {
    let place = Place::new();
    let file = place.file("wrong.json", WRONG);
    let ran = place.run(&["sweep", &file, "--seeds", "0..4", "--kernel", "tape"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.out.starts_with("SCENARIO"), "{ran:?}");
    assert!(ran.out.contains("4 failed"), "{ran:?}");
    let line = ran.out.lines().find(|line| line.trim().starts_with("moored replay"));
    let words: Vec<&str> = line.expect("a command").split_whitespace().skip(1).collect();
    let again = place.run(&words);
    assert_eq!(again.status, Some(1), "{words:?} {again:?}");
    assert!(again.err.starts_with("moored: wrong breaks expectations "), "{again:?}");
}

#[test]
fn two_sweeps_of_the_same_seeds_are_equal_whatever_the_threads_did() {
    let place = Place::new();
    let rows = |jobs| {
        place.json(&["sweep", "echo", "--seeds", "0..20", "--jobs", jobs, "--json"])["rows"].clone()
    };
    let (one, three) = (rows("1"), rows("3"));
    assert_eq!(one, three);
    assert_eq!(one.as_array().map(Vec::len), Some(moored_sim::KernelKind::available().len()));
}
