//! What the generator makes of a seed: one seed, one whole trace, in two runs, in two processes, and by recorded hashes
//! in every build.
//!
//! Whole traces of two builds are compared with the other build's binary of this test:
//! `MOORED_OTHER_BUILD=target/release/deps/determinism_generated-... cargo test -p moored-scenarios --test
//! determinism_generated`.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a second process of this test binary is what is compared with"
)]

mod common;

use std::fmt::Write;
use std::process::Command;

use moored_sim::generate::generate;
use moored_sim::kernel::KernelKind;
use moored_sim::play::{Playing, play};
use moored_sim::trace::{Keep, Trace};

use common::{hold_file, is_set};

const SEEDS: u64 = 40;
const SEEDS_ON_EVERY_KERNEL: u64 = 6;
/// Set in the process that only prints.
const PRINT_VARIABLE: &str = "MOORED_PRINT_GENERATED_TRACES";
/// Names the binary of this test that is the other process; without it this one is.
const OTHER_VARIABLE: &str = "MOORED_OTHER_BUILD";
/// Stands before each printed event: what else a test binary prints is no event.
const MARK: &str = "trace| ";

/// The seeds, each with a kernel: the one the generator chose; and for the first few every other one too, since it
/// chooses the tape alone nearly always. A kernel that this build lacks is left out.
fn runs() -> Vec<(u64, KernelKind)> {
    let here = KernelKind::available();
    let drawn = |seed| (seed, generate(seed).options.kernel);
    let others = |seed| here.iter().map(move |kernel| (seed, *kernel));
    let drawn = (0..SEEDS).map(drawn).filter(|(_, kernel)| here.contains(kernel));
    drawn.chain((0..SEEDS_ON_EVERY_KERNEL).flat_map(others)).collect()
}

fn traced((seed, kernel): (u64, KernelKind)) -> Trace {
    let mut scenario = generate(seed);
    scenario.options.kernel = kernel;
    let playing = Playing { keep: Keep::Lines, ..Playing::default() };
    let trace = play(&scenario, &playing).expect("it can be played").trace;
    assert!(trace.lines().len() > 20, "the trace of seed {seed} tells what happened");
    trace
}

/// Every event of every run, each in one line with its run.
fn events() -> Vec<String> {
    let mut events = Vec::new();
    for (seed, kernel) in runs() {
        let told = |line: &_| format!("{kernel}, seed {seed}: {line}").replace(['\n', '\r'], " ");
        events.extend(traced((seed, kernel)).lines().iter().map(told));
    }
    events
}

/// The first event in which two processes differ, from both.
fn divergence(mine: &[String], theirs: &[String]) -> Option<String> {
    let at = (0..mine.len().max(theirs.len())).find(|at| mine.get(*at) != theirs.get(*at))?;
    let told = |events: &[String]| events.get(at).map_or("(ended)".to_owned(), Clone::clone);
    Some(format!("event {at}\n  here:  {}\n  there: {}", told(mine), told(theirs)))
}

#[test]
fn two_runs_of_a_seed_are_equal_event_by_event() {
    for (seed, kernel) in runs() {
        let (first, second) = (traced((seed, kernel)), traced((seed, kernel)));
        if let Some(divergence) = first.divergence(&second) {
            panic!("seed {seed} on {kernel}: two runs part at {divergence}");
        }
        assert_eq!(first.hash(), second.hash(), "seed {seed} on {kernel}");
    }
}

#[test]
fn another_process_leaves_the_same_events() {
    let mine = events();
    if is_set(PRINT_VARIABLE) {
        // This is the other process.
        println!();
        mine.iter().for_each(|event| println!("{MARK}{event}"));
        return;
    }
    let me = std::env::current_exe().expect("a running test has a path");
    let other = std::env::var_os(OTHER_VARIABLE).map_or(me, Into::into);
    let output = Command::new(&other)
        .args(["--exact", "another_process_leaves_the_same_events", "--nocapture"])
        .env(PRINT_VARIABLE, "1")
        .output()
        .unwrap_or_else(|error| panic!("{} cannot be run: {error}", other.display()));
    let printed = String::from_utf8(output.stdout).expect("traces are text");
    let theirs = printed.lines().filter_map(|line| Some(line.strip_prefix(MARK)?.to_owned()));
    let theirs: Vec<String> = theirs.collect();
    assert!(output.status.success(), "the other process failed after {} events", theirs.len());
    if let Some(divergence) = divergence(&mine, &theirs) {
        panic!("another process ran otherwise from {divergence}");
    }
}

#[test]
fn where_two_processes_part_both_are_quoted() {
    let events = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    let (one, other) = (events(&["a", "b"]), events(&["a", "c", "d"]));
    let told = divergence(&one, &other).expect("they differ");
    assert!(told.contains("here:  b") && told.contains("there: c"), "{told}");
    let told = divergence(&one, &one[..1]).expect("one is shorter");
    assert!(told.contains("there: (ended)"), "{told}");
    assert_eq!(divergence(&one, &one), None);
}

#[test]
fn the_recorded_hashes_hold_in_every_build() {
    let mut table = String::new();
    for (seed, kernel) in runs() {
        let hash = traced((seed, kernel)).hash();
        let _ = writeln!(table, "{kernel}\t{seed}\t{hash:016x}");
    }
    hold_file("tests/generated-trace-hashes.tsv", &table, "MOORED_UPDATE_HASHES");
}
