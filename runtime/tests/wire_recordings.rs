//! Wires of a real agent (omp 18.2.3), decoded without a single finding; and the fuzz target's
//! corpus.
#![expect(clippy::disallowed_methods, reason = "test data lies in files")]
mod wire_support;

use std::path::Path;

use moored::wire::answer::{Initialize, PromptAnswer, SessionOpened, StopReason, VersionAnswer};
use moored::wire::{Event, Findings, ReplyOutcome, Update, fuzz};
use serde::Deserialize;
use serde_json::value::RawValue;
use wire_support::read;

#[derive(Deserialize)]
struct Recorded {
    dir: String,
    frame: Box<RawValue>,
}

const RECORDINGS: [&str; 6] = [
    "wire-error-http401",
    "wire-load",
    "wire-permission-allow",
    "wire-request-errors",
    "wire-stop-bash",
    "wire-turn-tool",
];

/// What the agent wrote in one recording, as the bytes of its stdout.
fn stdout_of(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let text = std::fs::read_to_string(path.with_extension("ndjson")).expect("it is there");
    let mut bytes = Vec::new();
    for line in text.lines() {
        let recorded: Recorded = serde_json::from_str(line).expect("it is JSON");
        if recorded.dir == "out" {
            bytes.extend_from_slice(recorded.frame.get().as_bytes());
            bytes.push(b'\n');
        }
    }
    bytes
}

#[test]
fn a_real_agent_needs_no_tolerance() {
    for name in RECORDINGS {
        let bytes = stdout_of(name);
        let (events, decoder) = read(&bytes);
        assert!(decoder.quirks().is_empty(), "{name}: {:?}", decoder.quirks());
        assert_eq!(events.len(), bytes.split(|byte| *byte == b'\n').count() - 1, "{name}");
        for event in &events {
            assert!(!matches!(event, Event::Defect(_) | Event::Noise { .. }), "{name}: {event:?}");
            assert!(
                !matches!(
                    event,
                    Event::Update { update: Update::Unknown { .. } | Update::Content { .. }, .. }
                ),
                "{name}: {event:?}"
            );
        }
    }
}

#[test]
fn its_answers_decode() {
    for name in RECORDINGS {
        let (events, _) = read(&stdout_of(name));
        let mut findings = Findings::default();
        let mut results = events.iter().filter_map(|event| match event {
            Event::Reply { outcome: ReplyOutcome::Result(result), .. } => Some(result.as_str()),
            _ => None,
        });
        let initialize = Initialize::decode(results.next().unwrap(), &mut findings);
        assert_eq!(initialize.protocol_version, VersionAnswer::Accepted, "{name}");
        assert!(initialize.capabilities.resume && initialize.capabilities.close, "{name}");
        let opened = SessionOpened::decode(results.next().unwrap(), "session/new", &mut findings);
        assert!(opened.config_options.is_some(), "{name}");
        assert_eq!(findings, Findings::default(), "{name}");
    }
    let (events, _) = read(&stdout_of("wire-stop-bash"));
    let stopped = events.iter().any(|event| match event {
        Event::Reply { outcome: ReplyOutcome::Result(result), .. } => {
            let answer = PromptAnswer::decode(result.as_str(), &mut Findings::default());
            answer.stop_reason == StopReason::Cancelled
        }
        _ => false,
    });
    assert!(stopped, "the stopped turn was answered cancelled");
}

#[test]
fn a_permission_request_comes_before_its_tool_call() {
    let (events, _) = read(&stdout_of("wire-permission-allow"));
    let asked = events.iter().position(|event| match event {
        Event::Request { typed: Some(asked), .. } => {
            asked.tool.id.as_deref() == Some("call_1") && asked.options.len() == 4
        }
        _ => false,
    });
    let called = events.iter().position(|event| {
        matches!(event, Event::Update { update: Update::ToolCall(tool), .. }
            if tool.id.as_deref() == Some("call_1"))
    });
    assert!(asked.unwrap() < called.unwrap());
}

#[test]
fn the_fuzz_corpus_holds_the_contract() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/wire");
    let mut seeds: Vec<_> =
        std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(seeds.len() >= 10, "the corpus is there");
    for seed in seeds {
        let bytes = std::fs::read(&seed).unwrap();
        for step in 0..16 {
            for limit in [0, 16, 60, 255] {
                let input = [&[step, limit], bytes.get(2..).unwrap_or(&[])].concat();
                fuzz::chunked(&input);
            }
        }
    }
}
