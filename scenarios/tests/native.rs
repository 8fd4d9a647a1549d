//! Documents without `parity`, with real processes: against their own expectations.
#![cfg(feature = "native")]
#![expect(clippy::disallowed_methods, reason = "how often a suite runs is said in its environment")]

mod common;

use moored_scenarios::{PlayError, play_native};

use common::{document, native_run, together};

fn holds(name: &'static str) {
    let played = together::played(NAMES, name).expect("it can be played");
    assert_eq!(played.failures, [""; 0], "{}", played.canonical);
}

macro_rules! each_holds {
    (parity { $($p:ident = $pn:literal,)* } natively { $($ident:ident = $name:literal,)* } $($rest:tt)*) => {
        const NAMES: &[&str] = &[$($name,)*];

        mod each {
            $(#[test] fn $ident() { super::holds($name); })*
        }
    };
}
moored_scenarios::each_document!(each_holds);

/// How often the documents about processes are played; absent: once.
const RUNS_VARIABLE: &str = "MOORED_NATIVE_RUNS";

/// What an ending child's processes do to each other, and to the host.
const ABOUT_PROCESSES: &[&str] = &[
    "fr-17-exits-when-cancelled",
    "fr-29-worker-behind-a-dead-launcher",
    "fr-29-worker-behind-its-launcher",
    "fr-31-ignores-everything",
    "fr-33-one-tree-at-a-time",
    "fr-35-tool-at-work",
    "frozen",
    "frozen-before-the-press",
    "frozen-supervisor-before-the-press",
    "keep-background",
    "late-persister",
    "orphan-maker",
    "t12-win32-leaves-on-eof",
    "t13-win32-ignores-eof",
    "t14-posix-ladder",
    "t15-persists-200-ms-late",
    "t15-persists-28-ms-late",
    "t15-persists-5-ms-late",
    "t15-win32-persists-200-ms-late",
    "t17-stop-ends-the-whole-tree",
    "t18-two-closes",
    "t18-unproven-end-again",
    "t29-full-pipe",
    "t36-unconfirmed-then-pressed-again",
    "t37-unconfirmed-then-exits",
    "t47-background-work-of-a-stopped-agent",
];

#[test]
fn stops_of_real_processes_hold_run_after_run() {
    let asked = std::env::var(RUNS_VARIABLE).ok();
    let runs = asked.map_or(1, |n| n.parse().expect("MOORED_NATIVE_RUNS is a count"));
    let failures = together::failures(ABOUT_PROCESSES, runs);
    assert!(failures.is_empty(), "of {runs} runs each:\n{}", failures.join("\n"));
}

#[test]
fn what_a_run_leaves_behind_is_a_failure_and_is_ended() {
    let mut careless = document("keep-background");
    careless.expect.left = None;
    let mut run = native_run();
    let folder = tempfile::tempdir().expect("there is room");
    run.state_dir = Some(folder.path().to_owned());
    let played = play_native(&careless, &run).expect("it can be played");
    assert!(played.failures[0].contains("are left: scenario-agent"), "{:?}", played.failures);
    // A second run in the same folders would find it, were it still there.
    run.state_dir = Some(folder.path().to_owned());
    let mut tidy = document("echo");
    tidy.expect = moored_scenarios::document::Expectations::default();
    tidy.name = "tidy".to_owned();
    std::fs::remove_dir_all(folder.path().join("store")).expect("the store can go");
    let played = play_native(&tidy, &run).expect("it can be played");
    assert_eq!(played.failures, [""; 0]);
}

#[test]
fn the_windows_of_win32_are_refused_unless_the_document_allows_them() {
    let mut refused = document("t13-win32-ignores-eof");
    refused.win32_natively = false;
    let Err(PlayError::Unplayable(words)) = play_native(&refused, &native_run()) else {
        panic!("this system has no such windows");
    };
    assert!(words.contains("\"win32_natively\""), "{words}");
}

#[test]
fn a_document_for_simulation_alone_is_refused() {
    let Err(PlayError::Unplayable(words)) =
        play_native(&document("t02-no-handshake"), &native_run())
    else {
        panic!("nobody waits for half an hour");
    };
    assert!(words.contains("\"simulation_only\""), "{words}");
}

#[test]
fn a_program_that_is_no_supervisor_is_refused_in_a_sentence() {
    let mut run = native_run();
    run.supervisor =
        moored::platform::native::SupervisorProgram::Program("/no/such/supervisor".into());
    let Err(PlayError::Setup(words)) = play_native(&document("echo"), &run) else {
        panic!("there is no supervisor");
    };
    assert!(words.contains("/no/such/supervisor"), "{words}");
}
