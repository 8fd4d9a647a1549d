//! What shows each numbered test and report of Stop: documents of this repository, and tests that are named here or bear
//! the number in their own name. `docs/stop-tests.md` is the table of it.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use moored_scenarios::builtin;

use common::test_names::{Found, functions_of, test_functions};
use common::{hold_file, read};

/// The numbered tests of the rulebook about Stop, its ladder, and what is shown of it.
const TESTS: [(u32, u32); 4] = [(12, 18), (27, 54), (84, 84), (86, 86)];
/// The reports about Stop.
const REPORTS: [u32; 21] =
    [1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 15, 17, 22, 24, 25, 26, 29, 31, 33, 34, 35];

/// Nothing shows these yet. One that is shown has to leave this list.
const UNSHOWN: &[&str] = &[];

/// Tests that show a number and do not bear it in their names.
const NAMED: &[(&str, &str, &str)] = &[
    ("T12", "runtime/src/session/ladder.rs", "win32_has_no_term_and_kills_the_tree_after_1500"),
    ("T13", "runtime/src/session/ladder.rs", "win32_has_no_term_and_kills_the_tree_after_1500"),
    (
        "T14",
        "runtime/src/session/ladder.rs",
        "posix_goes_eof_then_term_after_1000_then_kill_after_3000_then_gives_up",
    ),
    (
        "T16",
        "runtime/src/supervisor/core.rs",
        "when_the_host_dies_the_agent_gets_its_eof_window_then_term_then_kill",
    ),
    ("T16", "sim/tests/world.rs", "whatever_the_seed_a_dead_host_leaves_nobody_behind"),
    ("T16", "runtime/tests/native_process.rs", "a_start_nobody_waits_for_any_more_leaves_nobody"),
    (
        "T17",
        "runtime/tests/native_process.rs",
        "a_survivor_that_ignores_sigterm_and_one_that_is_stopped_are_killed",
    ),
    (
        "T18",
        "runtime/src/session/tests/life.rs",
        "an_agent_that_ignores_everything_is_told_unproven_and_the_next_close_runs_the_ladder_again",
    ),
    (
        "T30",
        "runtime/src/session/tests/stop.rs",
        "the_next_send_waits_for_the_old_child_and_runs_on_the_resumed_session_at_a_higher_fence",
    ),
    ("T31", "runtime/src/session/tests/review.rs", "a_second_stop_withdraws_a_held_message"),
    ("T32", "runtime/src/session/tests/stop_matrix.rs", "the_stop_matrix"),
    ("T35", "runtime/src/host/tests/machine.rs", "a_stop_asked_again_never_stops_again"),
    (
        "T37",
        "runtime/src/session/tests/stop_matrix.rs",
        "an_unconfirmed_stop_that_is_proven_later_reads_taken_for_everybody",
    ),
    (
        "T42",
        "runtime/src/session/tests/stop_matrix.rs",
        "the_wall_clock_does_not_say_whether_an_exit_came_before_the_press",
    ),
    (
        "T43",
        "runtime/src/session/tests/stop.rs",
        "a_close_mid_turn_winds_down_as_a_stop_does_and_the_cut_turn_is_the_persons",
    ),
    (
        "T45",
        "runtime/src/session/tests/persist.rs",
        "a_stop_reaches_the_agent_while_the_store_refuses",
    ),
    ("T49", "runtime/tests/status_fold.rs", "lost_contact_drops_only_what_the_host_alone_can_know"),
    (
        "T50",
        "runtime/tests/status_fold.rs",
        "the_newest_frame_of_a_session_stands_and_no_session_is_lost",
    ),
    (
        "T86",
        "runtime/src/session/tests/review.rs",
        "an_answer_on_its_way_to_the_disk_reaches_the_agent_before_its_stdin_closes",
    ),
    ("FR-33", "runtime/tests/native_process.rs", "a_killed_supervisor_takes_its_agent_along"),
];

#[test]
fn every_number_is_shown_by_something_that_exists() {
    let tests = test_functions();
    let shown = shown(&tests);
    let mut missing: Vec<_> = { numbers() }.into_iter().filter(|n| shown[n].is_empty()).collect();
    missing.sort();
    assert_eq!(missing, UNSHOWN, "these numbers have nothing that shows them");
    for (number, file, name) in NAMED {
        let named = ((*file).to_owned(), (*name).to_owned());
        assert!(tests.contains(&named), "{number} names {name}, which is no test of {file}");
    }
}

#[test]
fn the_table_is_as_it_is_stored() {
    let shown = shown(&test_functions());
    let mut table = read("tests/stop-tests.head.md");
    for number in numbers() {
        let by = match &shown[&number][..] {
            [] => "nothing yet".to_owned(),
            by => by.join(", "),
        };
        table.push_str(&format!("| {number} | {by} |\n"));
    }
    hold_file("../docs/stop-tests.md", &table, "MOORED_UPDATE_DOCS");
}

#[test]
fn a_name_that_no_test_has_is_found_out() {
    let source = "#[test]\n#[ignore]\nfn t38_moves() {}\nfn t39_is_none() {}\n#[tokio::test]\nasync fn waits() {}\n";
    let names: Vec<_> = functions_of(source).collect();
    assert_eq!(names, ["t38_moves", "waits"]);
    assert_eq!(number_of("t38_moves").as_deref(), Some("T38"));
    assert_eq!(number_of("fr_05_goes_on").as_deref(), Some("FR-05"));
    assert_eq!(number_of("t3x_moves"), None);
    assert_eq!(number_of("tests_of_it"), None);
}

/// Every number, tests first.
fn numbers() -> Vec<String> {
    let tests = TESTS.iter().flat_map(|(from, to)| *from..=*to).map(|n| format!("T{n:02}"));
    let reports: BTreeSet<_> = REPORTS.into_iter().collect();
    tests.chain(reports.into_iter().map(|n| format!("FR-{n:02}"))).collect()
}

/// What shows each number, as the table says it.
fn shown(tests: &BTreeSet<Found>) -> BTreeMap<String, Vec<String>> {
    let mut shown: BTreeMap<_, Vec<String>> =
        numbers().into_iter().map(|n| (n, Vec::new())).collect();
    let mut add = |number: &str, by: String| {
        if let Some(shown) = shown.get_mut(number).filter(|shown| !shown.contains(&by)) {
            shown.push(by);
        }
    };
    for document in builtin() {
        let link = format!("[{0}](../scenarios/documents/{0}.json)", document.name);
        document.tests.iter().for_each(|number| add(number, link.clone()));
    }
    let words = |file: &str, name: &str| format!("`{name}` in [{file}](../{file})");
    for (number, file, name) in NAMED {
        add(number, words(file, name));
    }
    for (file, name) in tests {
        if let Some(number) = number_of(name) {
            add(&number, words(file, name));
        }
    }
    shown
}

/// The number that a test bears in its name.
fn number_of(name: &str) -> Option<String> {
    let (prefix, rest) = match name.strip_prefix("fr_") {
        Some(rest) => ("FR-", rest),
        None => ("T", name.strip_prefix('t')?),
    };
    let (number, _) = rest.split_once('_')?;
    let is_number = number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| format!("{prefix}{number}"))
}
