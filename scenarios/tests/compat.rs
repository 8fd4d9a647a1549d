//! The frozen client of version 1 on today's output, and today's client on the samples of version 1. Then clients and hosts
//! from before and after "Stopping..." was published (rule 4.8).

#[path = "../compat/before_stopping/mod.rs"]
mod before_stopping;
mod common;
#[path = "../compat/v1/mod.rs"]
mod v1;

use std::sync::Arc;

use moored::journal::{Row, Timeline};
use moored::status::{DisplayStatus, Press, StatusFrame, Summaries, Summary, fold, main_agent};
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

/// The frames of the status stream that a document's clients are sent today.
fn frames_today(name: &str) -> Vec<Value> {
    today(name).feed.iter().filter_map(|line| member(line, "status")).collect()
}

/// Frozen frames of a host that is older or younger than this one.
fn frozen_frames(of: &str) -> Vec<Value> {
    let text = read(&format!("compat/{of}/samples/frames.jsonl"));
    text.lines().map(|line| serde_json::from_str(line).expect("a frame is JSON")).collect()
}

fn frozen_summary(of: &str) -> Value {
    serde_json::from_str(&read(&format!("compat/{of}/samples/summary.json"))).expect("it is JSON")
}

/// What an old client's row says after each frame, and what today's reads the session as beside it.
fn shown(frames: &[Value], press: Press) -> Vec<(&'static str, DisplayStatus)> {
    let (mut old, mut new) = (before_stopping::Summaries::new(), Summaries::default());
    let mut shown = Vec::new();
    for frame in frames {
        let read = serde_json::from_value(frame.clone());
        before_stopping::fold(&mut old, read.unwrap_or_else(|e| panic!("{e} in {frame}")));
        let read = serde_json::from_value(frame.clone());
        new = fold(new, read.unwrap_or_else(|e| panic!("{e} in {frame}")));
        for (old, new) in old.values().zip(new.values()) {
            shown.push((before_stopping::shows(old), new.display_status(press)));
        }
    }
    shown
}

/// The same frames as a host sends them that knows nothing of Stops under way.
fn without_stopping(mut frames: Vec<Value>) -> Vec<Value> {
    for frame in &mut frames {
        let summaries = match frame["type"].as_str() {
            Some("snapshot") => frame["summaries"].as_array_mut().expect("a list").iter_mut(),
            Some("status") => std::slice::from_mut(&mut frame["summary"]).iter_mut(),
            _ => continue,
        };
        for summary in summaries {
            let summary = summary.as_object_mut().expect("a summary");
            summary.remove("stopping");
            summary.remove("held");
        }
    }
    frames
}

#[test]
fn t52_a_client_that_knows_no_stopping_shows_working_until_the_end() {
    let mut stops = 0;
    for document in builtin() {
        for (old, new) in shown(&frames_today(&document.name), Press::default()) {
            let expected = match new {
                DisplayStatus::Working | DisplayStatus::Stopping => "Working",
                DisplayStatus::NotWorking if old == "Working" => "not working",
                DisplayStatus::NotWorking => old,
            };
            assert_eq!(old, expected, "{} reads {new:?}", document.name);
            stops += usize::from(new == DisplayStatus::Stopping);
        }
    }
    assert!(stops > 0, "some document is stopped, and its clients see that");
    let mut words: Vec<_> =
        shown(&frozen_frames("later"), Press::default()).into_iter().map(|(old, _)| old).collect();
    words.dedup();
    assert_eq!(words, ["New", "Working", "Done"], "from the send, over the Stop, to the end");
}

#[test]
fn t52_with_a_host_that_never_says_stopping_only_the_own_press_shows_it() {
    use DisplayStatus::{NotWorking, Stopping, Working};
    let frames = frozen_frames("before_stopping");
    let read =
        |press| -> Vec<_> { shown(&frames, press).into_iter().map(|(_, new)| new).collect() };
    let mut press = Press::default();
    let unpressed = read(press);
    assert!(unpressed.contains(&Working) && !unpressed.contains(&Stopping));
    press.begin();
    for (unpressed, pressed) in unpressed.iter().zip(read(press)) {
        let expected = if *unpressed == Working { Stopping } else { NotWorking };
        assert_eq!(pressed, expected, "while the request is unanswered");
    }
    press.end();
    assert_eq!(read(press), unpressed, "then Working again, until the end");
    for document in builtin() {
        let frames = without_stopping(frames_today(&document.name));
        let reads_stopping = shown(&frames, press).iter().any(|(_, new)| *new == Stopping);
        assert!(!reads_stopping, "{}: nothing else makes it read so", document.name);
    }
}

#[test]
fn an_older_summary_reads_as_not_stopping_and_gains_nothing() {
    let older = frozen_summary("before_stopping");
    let summary: Summary = serde_json::from_value(older.clone()).expect("today's reader reads it");
    assert!(!summary.stopping && summary.held.is_empty());
    assert!(!main_agent(&summary).expect("a row").stopping);
    assert_eq!(serde_json::to_value(&summary).expect("it is JSON"), older);
    for frame in frozen_frames("before_stopping") {
        let read: StatusFrame = serde_json::from_value(frame.clone()).expect("today's reader");
        assert_eq!(serde_json::to_value(&read).expect("it is JSON"), frame);
    }
}

#[test]
fn a_later_summary_is_read_as_far_as_it_is_known() {
    let later = frozen_summary("later");
    let summary: Summary = serde_json::from_value(later.clone()).expect("today's reader reads it");
    assert!(summary.stopping && summary.held == ["m2".into()]);
    assert_eq!(summary.display_status(Press::default()), DisplayStatus::Stopping);
    let again = serde_json::to_value(&summary).expect("it is JSON");
    assert!(extends(&later, &again) && !extends(&again, &later), "{later} was read as {again}");
    for frame in frozen_frames("later") {
        let read: StatusFrame = serde_json::from_value(frame.clone()).expect("today's reader");
        let again = serde_json::to_value(&read).expect("it is JSON");
        assert!(extends(&frame, &again), "{frame} was read as {again}");
        let read: v1::summary::StatusFrame =
            serde_json::from_value(frame.clone()).expect("the reader of version 1");
        let again = serde_json::to_value(&read).expect("it is JSON");
        assert!(extends(&frame, &again), "{frame} was read as {again}");
    }
}

#[test]
fn some_document_lists_a_held_message() {
    let held = |document: &moored_scenarios::Document| {
        frames_today(&document.name).iter().any(|frame| !frame["summary"]["held"].is_null())
    };
    assert!(builtin().iter().any(held), "else the frozen clients never meet one");
}

#[test]
fn the_client_and_the_samples_around_stopping_are_frozen() {
    let mut all = read("compat/before_stopping/mod.rs");
    for of in ["before_stopping", "later"] {
        all += &read(&format!("compat/{of}/samples/frames.jsonl"));
        all += &read(&format!("compat/{of}/samples/summary.json"));
    }
    let frozen = include_str!("../compat/stopping.sha256").trim();
    assert_eq!(moored::digest_hex(all.as_bytes()), frozen);
}
