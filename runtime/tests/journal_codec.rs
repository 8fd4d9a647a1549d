//! Rows as text: whatever could have been written reads back, and what was damaged is said to be so.

mod property_support;

use moored::failure::FailureFact;
use moored::journal::{ROW_VERSION, Row, RowFault, RowKind};
use proptest::prelude::*;
use proptest::sample::Index;

use property_support::bodies::{child, fact};
use property_support::history::{histories, row};
use property_support::kept;

const KEPT: &str = "tests/proptest-regressions/journal_codec.txt";

/// One row of a history, as its text.
fn texts() -> impl Strategy<Value = String> {
    (histories(), any::<Index>()).prop_map(|(rows, at)| rows[at.index(rows.len())].to_text())
}

/// A bite out of a text, with something else in its place.
#[derive(Clone, Debug)]
struct Damage {
    from: Index,
    bytes: usize,
    other: Vec<u8>,
}

fn damage() -> impl Strategy<Value = Damage> {
    (any::<Index>(), 0..6_usize, prop::collection::vec(any::<u8>(), 0..4))
        .prop_map(|(from, bytes, other)| Damage { from, bytes, other })
}

fn damaged(text: &str, Damage { from, bytes, other }: Damage) -> String {
    let mut damaged = text.as_bytes().to_vec();
    let from = from.index(damaged.len());
    let to = damaged.len().min(from + bytes);
    damaged.splice(from..to, other);
    String::from_utf8_lossy(&damaged).into_owned()
}

proptest! {
    #![proptest_config(kept(KEPT, 200))]

    #[test]
    fn a_row_reads_back_and_is_one_line(rows in histories()) {
        for row in rows {
            let text = row.to_text();
            prop_assert!(!text.contains(['\n', '\r']));
            prop_assert_eq!(Row::parse(&text), Ok(row));
        }
    }

    #[test]
    fn every_fact_of_a_child_reads_back(child in child()) {
        let row = row(1, RowKind::Child(child));
        prop_assert_eq!(Row::parse(&row.to_text()), Ok(row));
    }

    #[test]
    fn every_failure_reads_back(fact in fact()) {
        let text = serde_json::to_string(&fact).expect("a fact is JSON");
        prop_assert_eq!(serde_json::from_str::<FailureFact>(&text).expect("it reads back"), fact);
    }

    #[test]
    fn a_torn_row_is_damaged(text in texts(), at in any::<Index>()) {
        let bounds: Vec<usize> = (0..text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        let torn = &text[..bounds[at.index(bounds.len())]];
        let is_damaged = matches!(Row::parse(torn), Err(RowFault::Damaged { .. }));
        prop_assert!(is_damaged, "{} bytes of {}", torn.len(), text.len());
    }

    /// What is read of a damaged row is at least a row: it is written and read like any other.
    #[test]
    fn no_damage_ends_the_reader_and_what_is_read_is_a_row(text in texts(), damage in damage()) {
        if let Ok(row) = Row::parse(&damaged(&text, damage)) {
            prop_assert!(row.seq > 0 && row.v <= ROW_VERSION && !row.epoch.as_str().is_empty());
            prop_assert_eq!(Row::parse(&row.to_text()), Ok(row));
        }
    }

    /// Rule 6.10.1: the bytes of a newer build are left alone, whatever else is in them.
    #[test]
    fn a_row_of_a_newer_build_is_told_from_a_damaged_one(text in texts(), by in 1..9_u32, word in "[a-z_]{10,14}") {
        let Ok(serde_json::Value::Object(row)) = serde_json::from_str(&text) else {
            return Err(TestCaseError::fail("a row is an object"));
        };
        for (member, newer) in [("v", (ROW_VERSION + by).into()), ("kind", word.into())] {
            let mut row = row.clone();
            let seq = row["seq"].as_u64();
            row.insert(member.to_owned(), newer);
            let read = Row::parse(&serde_json::Value::Object(row).to_string());
            let told = matches!(&read, Err(RowFault::Newer { seq: told, .. }) if Some(*told) == seq);
            prop_assert!(told, "{member}: {read:?}");
        }
    }
}
