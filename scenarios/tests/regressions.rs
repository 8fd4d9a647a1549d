//! Every failure that was ever kept, replayed: each must hold by now.
#![expect(clippy::disallowed_methods, reason = "the suite reads the repository's own files")]

use std::path::{Path, PathBuf};

use moored_scenarios::sweep::Regression;
use moored_scenarios::{EXPECTATIONS, Playable};
use moored_sim::KernelKind;
use moored_sim::failure::{FailureFile, Found};
use moored_sim::play::Playing;

/// The kept failures, in the order of their names.
fn kept() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it reads").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    paths
}

/// What a kept failure still breaks, in words.
fn broken(name: &str, text: &str) -> Option<String> {
    let failure = FailureFile::from_text(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let kept = Regression::new(name.to_owned(), failure);
    let kept = kept.unwrap_or_else(|error| panic!("{name}: {error}"));
    let run = kept.playable().play(&Playing::default());
    let run = run.unwrap_or_else(|error| panic!("{name}: {error}"));
    run.violation.map(|violation| format!("{name}: {violation:?}"))
}

#[test]
fn every_kept_failure_holds() {
    let broken: Vec<String> = kept()
        .iter()
        .filter_map(|path| {
            let text = std::fs::read_to_string(path).expect("it reads");
            broken(&path.display().to_string(), &text)
        })
        .collect();
    assert!(broken.is_empty(), "{} still fail:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn a_kept_failure_that_still_fails_is_noticed_and_one_that_was_mended_holds() {
    let mut document = moored_scenarios::builtin().remove(0);
    let right = document.expect.clone();
    document.expect.journal = vec!["no such line".to_owned()];
    let playable = Playable::document(document.clone().into(), KernelKind::Tape, 3);
    let run = playable.play(&Playing::default()).expect("it can be played");
    let violation = run.violation.expect("nothing else is expected");
    assert_eq!(violation.oracle, EXPECTATIONS);
    let found = Found {
        scenario: document.name.clone(),
        seed: Some(3),
        kernel: KernelKind::Tape,
        build: "0.0.0".to_owned(),
    };
    let failing = playable.failure(violation.clone(), &run.tape, found.clone());
    let words = broken("failing", &failing.to_text()).expect("it still fails");
    assert!(words.contains("no such line"), "{words}");
    document.expect = right;
    let mended = Playable::document(document.into(), KernelKind::Tape, 3);
    let mended = mended.failure(violation, &run.tape, found);
    assert_eq!(broken("mended", &mended.to_text()), None);
}

#[test]
fn a_document_replayed_from_its_tape_leaves_the_same_trace_on_every_kernel() {
    let document = moored_scenarios::builtin().into_iter().find(|d| d.name == "stop-then-send");
    let document = std::sync::Arc::new(document.expect("it is built in"));
    for kernel in KernelKind::available() {
        let drawn = Playable::document(document.clone(), *kernel, 11);
        let run = drawn.play(&Playing::default()).expect("it can be played");
        let found =
            Found { scenario: String::new(), seed: None, kernel: *kernel, build: String::new() };
        let violation = moored_sim::oracles::Violation {
            oracle: "none".into(),
            rule: "-".into(),
            words: String::new(),
            at: moored::platform::Mono(0),
        };
        let kept = drawn.failure(violation, &run.tape, found);
        let kept = FailureFile::from_text(&kept.to_text()).expect("it reads back");
        let again = Playable::of_failure(&kept).expect("the document parses");
        let again = again.play(&Playing::default()).expect("it can be played");
        assert_eq!(again.trace.hash(), run.trace.hash(), "{kernel}");
    }
}
