//! Every document of this repository, in simulation: in the run in which nothing strays, and over a fixed count of seeds
//! on each kernel.

mod common;

use moored_scenarios::{SimulatedRun, builtin, play_simulated};
use moored_sim::kernel::KernelKind;

use common::{document, documents_folder, groups};

/// Seeds of each document on each kernel.
const SEEDS: u64 = 12;
/// Documents of many megabytes get this many.
const SEEDS_OF_HEAVY: u64 = 1;
const HEAVY: [&str; 3] = ["flooder", "oversize-frame", "stderr-flood"];

fn holds(name: &str) {
    let document = document(name);
    let benign = play_simulated(&document, &SimulatedRun::default()).expect("it can be played");
    assert_eq!(benign.failures, [""; 0], "{}", benign.canonical);
    let seeds = if HEAVY.contains(&name) { SEEDS_OF_HEAVY } else { SEEDS };
    for kernel in KernelKind::available() {
        for seed in 0..seeds {
            let run = SimulatedRun { seed: Some(seed), kernel: *kernel, ..SimulatedRun::default() };
            let played = play_simulated(&document, &run).expect("it can be played");
            assert_eq!(played.failures, [""; 0], "{kernel}, seed {seed}\n{}", played.canonical);
        }
    }
}

macro_rules! each_holds {
    ($($how:ident { $($ident:ident = $name:literal,)* })*) => {
        mod each {
            $($(#[test] fn $ident() { super::holds($name); })*)*
        }
    };
}
moored_scenarios::each_document!(each_holds);

#[test]
fn the_list_has_every_document_of_the_folder_under_its_name_in_its_group() {
    let files = documents_folder();
    let listed: Vec<_> = builtin().into_iter().map(|d| d.name).collect();
    assert_eq!(listed, files, "src/builtin.rs lists the files of documents/ by the names inside");
    for (name, group) in groups() {
        let document = document(name);
        let meant = match (document.parity, document.simulation_only) {
            (true, _) => "parity",
            (_, true) => "simulated",
            _ => "natively",
        };
        assert_eq!(group, meant, "{name} is listed where it belongs");
    }
}

#[test]
fn every_persona_has_a_document_with_parity() {
    for persona in moored_fake_agents::PERSONAS {
        let wanted = moored_scenarios::document::AgentSource::Persona(persona.name.to_owned());
        let played = builtin().into_iter().any(|d| d.parity && d.agent == wanted);
        assert!(played, "{} has one", persona.name);
    }
}

#[test]
fn every_document_expects_something_that_names_its_end() {
    for document in builtin() {
        let expect = &document.expect;
        assert!(!expect.journal.is_empty(), "{} expects lines", document.name);
        assert!(expect.refused.is_some(), "{} says what is refused", document.name);
        assert!(expect.survivors.is_some(), "{} says who outlived the agent", document.name);
    }
}

#[test]
fn the_rulebooks_tests_of_this_slice_are_all_played() {
    let tests: std::collections::BTreeSet<_> =
        builtin().into_iter().flat_map(|d| d.tests).collect();
    for test in "T01 T02 T03 T04 T19 T20 T21 T22 T23 T24 T26".split(' ') {
        assert!(tests.contains(test), "{test} is played");
    }
}

#[test]
fn an_expectation_that_does_not_hold_is_a_failure_in_words() {
    let mut wrong = document("echo");
    wrong.expect.journal = vec!["turn prompt:m1 interrupted".to_owned()];
    wrong.expect.journal_without = vec!["hello".to_owned()];
    wrong.expect.statuses = vec![moored::status::Status::Attention];
    wrong.expect.phases = vec![moored::status::ChildPhase::Ready; 2];
    wrong.expect.stops = Some(vec![true]);
    wrong.expect.wire = Some(Vec::new());
    wrong.expect.ends = Some(Vec::new());
    wrong.expect.refused = Some(vec!["not_saved".to_owned()]);
    wrong.expect.survivors = Some(1);
    wrong.expect.edges = Some(vec!["attention".to_owned()]);
    wrong.expect.notes = Some(vec!["Cancellation requested.".to_owned()]);
    wrong.expect.stop_events = Some(vec!["user-stop".to_owned()]);
    wrong.expect.context = Some(vec!["1 of 2".to_owned()]);
    wrong.expect.usage = Some(vec![Some(1)]);
    wrong.expect.unproven = Some(1);
    wrong.expect.left = Some(1);
    wrong.expect.lasts_at_least_ms = Some(u64::MAX);
    let played = play_simulated(&wrong, &SimulatedRun::default()).expect("it can be played");
    assert_eq!(played.failures.len(), 17, "{:#?}", played.failures);
}

#[test]
fn what_never_comes_is_a_failure_and_not_a_hang() {
    let mut wrong = document("echo");
    wrong.actions[1].when = Some(moored_scenarios::document::Trigger::Text("goodbye".to_owned()));
    let played = play_simulated(&wrong, &SimulatedRun::default()).expect("it can be played");
    assert!(played.failures[0].contains("did not come within 60000 ms"), "{:?}", played.failures);
}
