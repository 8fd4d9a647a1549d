//! Stops of a real agent that were recorded, played again by a scripted agent: they end as they ended.
//!
//! In the simulator over many seeds, and with real processes; with the persist barrier and without.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "recordings lie in files")]

use std::fs;
use std::path::Path;

use moored::platform::native::SupervisorProgram;
use moored_real_omp_gated::recording::Recording;
use moored_scenarios::{Document, NativeRun, SimulatedRun, play_native, play_simulated};

/// How many orders of what may happen at one time each is played in.
const SEEDS: u64 = 50;

/// Every Stop that was recorded.
const STOPS: [&str; 8] = [
    "close-barrier",
    "stop-at-once-loses-user-message",
    "stop-bash",
    "stop-before-first-token",
    "stop-permission-unanswered",
    "stop-slow-abort",
    "stop-stream",
    "stop-then-send",
];

#[test]
fn every_recording_is_played() {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let names = files
        .filter_map(|path| Some(path.file_name()?.to_str()?.strip_suffix(".ndjson")?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names, STOPS);
}

#[test]
fn a_recorded_stop_ends_as_it_ended_in_the_simulator() {
    for (name, document) in documents() {
        let seeds = std::iter::once(None).chain((0..SEEDS).map(Some));
        for seed in seeds {
            let run = SimulatedRun { seed, ..SimulatedRun::default() };
            let played = play_simulated(&document, &run).unwrap();
            assert_eq!(played.failures, [""; 0], "{name}, {seed:?}\n{}", played.canonical);
        }
    }
}

#[test]
fn a_recorded_stop_ends_as_it_ended_with_real_processes() {
    let run = NativeRun {
        agent_program: vec![env!("CARGO_BIN_EXE_gated-agent").to_owned()],
        supervisor: SupervisorProgram::Program(env!("CARGO_BIN_EXE_gated-supervisor").into()),
        state_dir: None,
    };
    for (name, document) in documents() {
        let played = play_native(&document, &run).unwrap();
        assert_eq!(played.failures, [""; 0], "{name}\n{}", played.canonical);
    }
}

/// The abort took 5.1 s, and the bare windows of win32 end an agent 1 500 ms after its input: what it would have written
/// is not there. The barrier waits for it (decision D13).
#[test]
fn the_recorded_slow_abort_is_lost_under_the_windows_of_win32_unless_the_barrier_waits() {
    for (barrier, aborted, ends) in [(true, 1, "onEof"), (false, 0, "afterKill")] {
        let mut document = recording("stop-slow-abort").document("slow-abort-win32", barrier);
        document["profile"] = "win32".into();
        document["definition"]["eof_grace_ms"] = serde_json::Value::Null;
        document["expect"] = serde_json::json!({"ends": [ends], "stops": [true]});
        let document = parsed(&document);
        let played = play_simulated(&document, &SimulatedRun::default()).unwrap();
        assert_eq!(played.failures, [""; 0], "{}", played.canonical);
        let found = played.saved.iter().filter(|entry| *entry == "assistant aborted").count();
        assert_eq!(found, aborted, "{:?}", played.saved);
    }
}

fn documents() -> impl Iterator<Item = (String, Document)> {
    let both = |name: &'static str| {
        let recording = recording(name);
        [true, false].map(|barrier| {
            let name = format!("{name}-{}", if barrier { "barrier" } else { "without" });
            (name.clone(), parsed(&recording.document(&name, barrier)))
        })
    };
    STOPS.into_iter().flat_map(both)
}

fn parsed(document: &serde_json::Value) -> Document {
    Document::parse(&document.to_string(), "a recording").unwrap_or_else(|error| panic!("{error}"))
}

fn recording(name: &str) -> Recording {
    let read = |end: &str| fs::read_to_string(folder().join(format!("{name}.{end}"))).unwrap();
    Recording::read(&read("ndjson"), &read("session.jsonl"))
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings")
}
