//! The row's main agent, in the words of rows.

use serde_json::json;

use super::{STATUSES, summary};
use crate::journal::Outcome;
use crate::status::*;

#[test]
fn a_row_says_in_its_own_words_what_the_summary_says_and_a_fresh_session_has_none() {
    let mut rows = Vec::new();
    for status in STATUSES {
        for stopping in [false, true] {
            // A host writes the outcome of idle sessions only, and stopping of working ones; a row trusts neither.
            let outcome = Some(Outcome::Success);
            let summary = Summary { turn_outcome: outcome, ..summary(status, stopping, &[]) };
            rows.push(serde_json::to_value(main_agent(&summary)).expect("it is JSON"));
        }
    }
    let working = json!({"state": "working", "stateStartedAt": 1});
    let stopping = json!({"state": "working", "stateStartedAt": 1, "stopping": true});
    let blocked = json!({"state": "blocked", "stateStartedAt": 1});
    let done = json!({"state": "done", "outcome": "success", "stateStartedAt": 1});
    let none = json!(null);
    let expected =
        [&none, &none, &working, &stopping, &blocked, &blocked, &done, &done].map(Clone::clone);
    assert_eq!(rows, expected);
}
