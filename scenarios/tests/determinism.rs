//! One seed, one trace: in two runs, in two processes, on the tape alone and inside madsim, in debug and in release.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a second process of this test binary is what is compared with"
)]

mod common;

use std::fmt::Write;
use std::process::Command;

use moored_scenarios::{Played, SimulatedRun, play_simulated};
use moored_sim::kernel::KernelKind;

use common::{document, hold_file};

const DOCUMENTS: [&str; 5] =
    ["crasher", "orphan-maker", "permission-answered", "stop-then-send", "t13-win32-ignores-eof"];
const SEEDS: [u64; 3] = [1, 7, 20_000];
/// Set in the process that only prints.
const PRINT_VARIABLE: &str = "MOORED_PRINT_TRACES";
/// Begins the line of the first trace in the output of that process.
const MARK: &str = "traces:";

fn played(name: &str, kernel: KernelKind, seed: u64) -> Played {
    let run = SimulatedRun { seed: Some(seed), kernel, trace: true, ..SimulatedRun::default() };
    play_simulated(&document(name), &run).expect("it can be played")
}

/// Every line of every trace.
fn traces(kernel: KernelKind) -> String {
    let mut all = String::new();
    for name in DOCUMENTS {
        for seed in SEEDS {
            let played = played(name, kernel, seed);
            assert!(played.trace.len() > 20, "a trace of {name} tells what happened");
            let _ = writeln!(all, "{name} {seed}\n{}", played.trace.join("\n"));
        }
    }
    all
}

#[test]
fn two_runs_of_a_seed_are_equal_line_by_line() {
    for kernel in KernelKind::available() {
        assert!(traces(*kernel) == traces(*kernel), "two runs on {kernel} differ");
    }
}

#[test]
fn two_seeds_differ() {
    let of = |seed| played("stop-then-send", KernelKind::Tape, seed).trace;
    assert_ne!(of(1), of(2));
}

#[test]
fn the_tape_inside_madsim_is_the_tape_alone() {
    if KernelKind::available().contains(&KernelKind::TapeInMadsim) {
        assert!(traces(KernelKind::Tape) == traces(KernelKind::TapeInMadsim), "the tapes differ");
    }
}

#[test]
fn another_process_leaves_the_same_traces() {
    let mine: String = KernelKind::available().iter().map(|k| traces(*k)).collect();
    if std::env::var_os(PRINT_VARIABLE).is_some() {
        // This is the other process.
        print!("\n{MARK}\n{mine}");
        return;
    }
    let me = std::env::current_exe().expect("a running test has a path");
    let arguments = ["--exact", "another_process_leaves_the_same_traces", "--nocapture"];
    let output =
        Command::new(me).args(arguments).env(PRINT_VARIABLE, "1").output().expect("it runs");
    let printed = String::from_utf8(output.stdout).expect("traces are text");
    let (_, theirs) = printed.split_once(&format!("\n{MARK}\n")).expect("it printed its traces");
    assert!(theirs.starts_with(&mine), "another process ran otherwise");
}

#[test]
fn the_recorded_hashes_hold_in_every_build() {
    let mut table = String::new();
    for kernel in KernelKind::available() {
        for name in DOCUMENTS {
            for seed in SEEDS {
                let hash = played(name, *kernel, seed).trace_hash.expect("a simulated run has one");
                let _ = writeln!(table, "{kernel}\t{name}\t{seed}\t{hash:016x}");
            }
        }
    }
    hold_file("tests/trace-hashes.tsv", &table, "MOORED_UPDATE_HASHES");
}
