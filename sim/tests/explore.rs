//! Small alphabets, explored whole. The counts change when the core's behaviour does: look at why, then write them anew.

use moored_sim::explore::{Bounds, Explored, Explorer};

/// Deeper than any of these goes.
const DEPTH: usize = 200;

fn explore(bounds: Bounds, jobs: usize) -> Explored {
    let explored = Explorer { bounds, depth: DEPTH }.run(jobs);
    if let Some(violation) = &explored.violation {
        panic!("{violation}");
    }
    explored
}

/// States, transitions, merges, depth.
fn counts(explored: &Explored) -> (u64, u64, u64, usize) {
    (explored.states, explored.transitions, explored.merges, explored.depth)
}

#[test]
fn one_message_is_explored_whole() {
    let explored = explore(Bounds { sends: 1, ..Bounds::default() }, 1);
    assert!(explored.closed && !explored.cut_short);
    assert_eq!(counts(&explored), (212, 350, 139, 18));
}

#[test]
fn presses_of_stop_with_nothing_to_stop_end_at_once() {
    let explored = explore(Bounds { stops: 2, ..Bounds::default() }, 1);
    assert!(explored.closed);
    assert_eq!(counts(&explored), (6, 6, 1, 4));
}

#[test]
fn a_message_and_a_stop_hold_in_every_order() {
    let explored = explore(Bounds { sends: 1, stops: 1, ..Bounds::default() }, 2);
    assert!(explored.closed);
    let phases: Vec<String> = explored.seen.iter().map(ToString::to_string).collect();
    for transition in [
        "ready+handed+turn | stop | ending+handed+turn+stop",
        "starting+queued | stop | ending+stop",
        "ending+stop | deadline | unproven+stop",
    ] {
        assert!(phases.iter().any(|t| t == transition), "{transition} is seen");
    }
}

#[test]
fn a_message_and_a_crash_hold_in_every_order() {
    assert!(explore(Bounds { sends: 1, crashes: 1, ..Bounds::default() }, 2).closed);
}

#[test]
fn a_message_and_late_words_hold_in_every_order() {
    assert!(explore(Bounds { sends: 1, late_updates: 1, ..Bounds::default() }, 2).closed);
}

#[test]
fn a_message_and_a_refusing_store_hold_in_every_order() {
    assert!(explore(Bounds { sends: 1, refusals: 1, ..Bounds::default() }, 2).closed);
}

#[test]
fn the_result_is_the_same_on_any_number_of_threads() {
    let bounds = Bounds { sends: 1, stops: 1, crashes: 1, ..Bounds::default() };
    let explored = |jobs| Explorer { bounds, depth: 16 }.run(jobs);
    let alone = explored(1);
    assert!(!alone.closed, "it was cut at its depth");
    assert_eq!(alone, explored(2));
    assert_eq!(alone, explored(3));
}

#[test]
fn whoever_watches_may_end_it() {
    let bounds = Bounds { sends: 1, ..Bounds::default() };
    let mut told = 0;
    let explored = Explorer { bounds, depth: DEPTH }.run_watched(1, &mut |progress| {
        told += 1;
        progress.depth < 3
    });
    assert!(explored.cut_short && !explored.closed);
    assert_eq!(told, 4);
}
