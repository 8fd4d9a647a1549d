//! The frozen client of version 1 on today's output, and today's client on the samples of version 1.

mod common;
#[path = "../compat/v1/mod.rs"]
mod v1;

use std::sync::Arc;

use moored::journal::{Row, Timeline};
use moored_scenarios::{Fed, SimulatedRun, builtin, play_simulated};
use serde::de::DeserializeOwned;
use serde_json::Value;

use common::{document, hold_file, read};

/// The documents whose output was frozen.
const SAMPLED: [&str; 8] = [
    "crasher",
    "missing-program",
    "not-restored",
    "permission-answered",
    "stderr-flood",
    "stop-then-send",
    "t22-calls-of-a-lost-turn",
    "unknown-updates",
];
/// Writes the samples anew. They are what version 1 wrote: only that version may write them.
const FREEZE_VARIABLE: &str = "MOORED_FREEZE_V1";

/// What both clients are fed: JSON, as it crosses a wire.
struct Output {
    rows: Vec<String>,
    feed: Vec<String>,
}

fn today(name: &str) -> Output {
    let played =
        play_simulated(&document(name), &SimulatedRun::default()).expect("it can be played");
    let feed = played.feed.iter().map(|fed| serde_json::to_string(fed).expect("it is JSON"));
    Output { rows: played.rows.iter().map(Row::to_text).collect(), feed: feed.collect() }
}

fn frozen(name: &str) -> Output {
    let lines = |what: &str| {
        let text = read(&format!("compat/v1/samples/{name}.{what}.jsonl"));
        text.lines().map(str::to_owned).collect()
    };
    Output { rows: lines("rows"), feed: lines("feed") }
}

/// One line of a feed, by what it is.
fn member<T: DeserializeOwned>(line: &str, name: &str) -> Option<T> {
    let mut value: Value = serde_json::from_str(line).expect("a feed is JSON");
    let member = value.get_mut(name)?.take();
    Some(serde_json::from_value(member).unwrap_or_else(|e| panic!("{e} in {line}")))
}

/// What a client of version 1 holds at the end.
fn held_by_v1(output: &Output) -> Value {
    let mut timeline = v1::timeline::Timeline::default();
    let mut statuses = v1::statuses::Summaries::default();
    for line in &output.feed {
        if let Some(snapshot) = member(line, "snapshot") {
            timeline.apply_snapshot(snapshot);
        } else if let Some(batch) = member(line, "batch") {
            timeline.apply_batch(batch);
        } else if let Some(frame) = member(line, "status") {
            statuses = v1::statuses::fold(statuses, frame);
        }
    }
    serde_json::json!({
        "items": timeline.items(),
        "submissions": timeline.submissions(),
        "cursor": timeline.cursor(),
        "statuses": statuses.values().collect::<Vec<_>>(),
    })
}

/// What today's client holds at the end.
fn held_today(output: &Output) -> Value {
    let mut timeline = Timeline::default();
    let mut statuses = moored::status::Summaries::default();
    for line in &output.feed {
        match serde_json::from_str(line).expect("today's reader reads it") {
            Fed::Snapshot(snapshot) => timeline.apply_snapshot(*snapshot),
            Fed::Batch(batch) => timeline.apply_batch(*batch),
            Fed::Status(frame) => statuses = moored::status::fold(Arc::clone(&statuses), frame),
        }
    }
    serde_json::json!({
        "items": timeline.items(),
        "submissions": timeline.submissions(),
        "cursor": timeline.cursor(),
        "statuses": statuses.values().collect::<Vec<_>>(),
    })
}

/// `newer` says everything that `older` says: fields may have been added, none was changed or taken away.
fn extends(newer: &Value, older: &Value) -> bool {
    match (newer, older) {
        (Value::Object(newer), Value::Object(older)) => {
            older.iter().all(|(name, value)| newer.get(name).is_some_and(|n| extends(n, value)))
        }
        (Value::Array(newer), Value::Array(older)) => {
            newer.len() == older.len() && newer.iter().zip(older).all(|(n, o)| extends(n, o))
        }
        _ => newer == older,
    }
}

#[test]
fn the_frozen_client_reads_todays_rows() {
    for document in builtin() {
        for text in today(&document.name).rows {
            let row = v1::row::Row::parse(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            let again: Value = serde_json::from_str(&row.to_text()).expect("it is JSON");
            let whole: Value = serde_json::from_str(&text).expect("it is JSON");
            assert!(extends(&whole, &again), "{text} was read as {again}");
        }
    }
}

#[test]
fn the_frozen_client_holds_what_todays_client_holds() {
    for document in builtin() {
        let output = today(&document.name);
        let (held, seen) = (held_by_v1(&output), held_today(&output));
        assert!(extends(&seen, &held), "{}: {held} in {seen}", document.name);
        assert!(!held["items"].as_array().expect("a list").is_empty(), "{}", document.name);
        assert!(!held["statuses"].as_array().expect("a list").is_empty(), "{}", document.name);
    }
}

#[test]
fn todays_readers_read_the_frozen_samples() {
    for name in SAMPLED {
        let samples = frozen(name);
        assert!(!samples.rows.is_empty() && !samples.feed.is_empty(), "{name} was sampled");
        for text in &samples.rows {
            let row = Row::parse(text).unwrap_or_else(|e| panic!("{e}: {text}"));
            let again: Value = serde_json::from_str(&row.to_text()).expect("it is JSON");
            let whole: Value = serde_json::from_str(text).expect("it is JSON");
            assert!(extends(&again, &whole), "{text} was read as {again}");
        }
        let (held, seen) = (held_by_v1(&samples), held_today(&samples));
        assert!(extends(&seen, &held), "{name}: {held} in {seen}");
    }
}

#[test]
fn the_samples_are_frozen() {
    if !common::is_set(FREEZE_VARIABLE) {
        return assert_eq!(frozen_digest(), include_str!("../compat/v1/samples.sha256").trim());
    }
    for name in SAMPLED {
        let output = today(name);
        let lines = |all: &[String]| all.iter().map(|l| format!("{l}\n")).collect::<String>();
        let path = format!("compat/v1/samples/{name}");
        hold_file(&format!("{path}.rows.jsonl"), &lines(&output.rows), FREEZE_VARIABLE);
        hold_file(&format!("{path}.feed.jsonl"), &lines(&output.feed), FREEZE_VARIABLE);
    }
    hold_file("compat/v1/samples.sha256", &(frozen_digest() + "\n"), FREEZE_VARIABLE);
}

/// Over all samples and the frozen code itself.
fn frozen_digest() -> String {
    let mut all = String::new();
    for name in SAMPLED {
        let samples = frozen(name);
        all.extend(samples.rows.into_iter().chain(samples.feed));
    }
    for module in ["facts", "ids", "item", "mod", "row", "statuses", "summary", "timeline", "view"]
    {
        all.push_str(&read(&format!("compat/v1/{module}.rs")));
    }
    moored::digest_hex(all.as_bytes())
}
