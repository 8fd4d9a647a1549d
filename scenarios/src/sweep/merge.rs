//! Parts of a sweep become the report that one machine would have written.

use std::collections::BTreeMap;

use super::report::{MarkRow, REPORT_VERSION, SweepReport, SweepRow};
use super::shard::Shard;
use super::tally::FAILURES_TOLD_MAX;

/// Why parts are no whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A part came twice.
    #[error("{first} and {second} are both part {shard}; give each part once")]
    Duplicate {
        /// One file.
        first: String,
        /// The other.
        second: String,
        /// The part.
        shard: Shard,
    },
    /// Parts are missing.
    #[error("of {of} parts {missing} missing; run them, and merge again")]
    Missing {
        /// How many there are.
        of: u64,
        /// Which are not there, in words.
        missing: String,
    },
    /// None was given.
    #[error("there is no part to merge; name the files that `moored sweep --report` wrote")]
    Nothing,
    /// Two are not of one sweep.
    #[error(
        "{first} and {second} are parts of different sweeps: their {what} differ; merge parts of one sweep, made by one build"
    )]
    Different {
        /// One file.
        first: String,
        /// The other.
        second: String,
        /// What differs.
        what: &'static str,
    },
    /// It is no report.
    #[error("{file} is no report of this build: {words}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        words: String,
    },
}

/// Numbers of missing parts that are named.
const MISSING_NAMED_MAX: usize = 10;

/// Reads a report; `file` is what an error calls it.
pub fn read_report(file: &str, text: &str) -> Result<SweepReport, MergeError> {
    let unreadable = |words: String| MergeError::Unreadable { file: file.to_owned(), words };
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
    match value.get("v").and_then(serde_json::Value::as_u64) {
        Some(v) if v == u64::from(REPORT_VERSION) => {}
        Some(v) => {
            return Err(unreadable(format!("it has version {v}, and {REPORT_VERSION} is read")));
        }
        None => return Err(unreadable("it has no version".to_owned())),
    }
    serde_json::from_value(value).map_err(|error| unreadable(error.to_string()))
}

/// Merges all the parts of one sweep, each with the name of its file.
pub fn merge(mut parts: Vec<(String, SweepReport)>) -> Result<SweepReport, MergeError> {
    parts.sort_by_key(|(_, part)| part.shard.index());
    let Some(((first, whole), others)) = parts.split_first() else {
        return Err(MergeError::Nothing);
    };
    for (name, part) in others {
        let different = [
            (part.build != whole.build, "builds"),
            (part.swept.digest != whole.swept.digest, "scenarios"),
            (part.swept != whole.swept, "options"),
            (part.shard.of() != whole.shard.of(), "numbers of parts"),
            (!same_shape(part, whole), "rows"),
        ];
        if let Some((_, what)) = different.into_iter().find(|(differs, _)| *differs) {
            let (first, second) = (first.clone(), name.clone());
            return Err(MergeError::Different { first, second, what });
        }
    }
    complete(&parts)?;
    let mut whole = whole.clone();
    whole.shard = Shard::WHOLE;
    for (_, part) in others {
        add(&mut whole, part);
    }
    whole.failures.sort_by_key(|failure| failure.number);
    let mut told: BTreeMap<(String, String), usize> = BTreeMap::new();
    whole.failures.retain(|failure| {
        let row = format!("{} {:?}", failure.scenario, failure.row_kernel);
        let told = told.entry((row, failure.violation.oracle.to_string())).or_default();
        *told += 1;
        *told <= FAILURES_TOLD_MAX
    });
    Ok(whole)
}

fn same_shape(one: &SweepReport, other: &SweepReport) -> bool {
    let row = |row: &SweepRow| (row.scenario.clone(), row.kernel);
    let mark = |mark: &MarkRow| (mark.kind, mark.name.clone());
    one.rows.iter().map(row).eq(other.rows.iter().map(row))
        && one.marks.iter().map(mark).eq(other.marks.iter().map(mark))
}

/// Every part once. The parts are in order.
fn complete(parts: &[(String, SweepReport)]) -> Result<(), MergeError> {
    for pair in parts.windows(2) {
        let [(first, one), (second, other)] = pair else { continue };
        if one.shard == other.shard {
            let (first, second) = (first.clone(), second.clone());
            return Err(MergeError::Duplicate { first, second, shard: one.shard });
        }
    }
    let of = parts.first().map_or(0, |(_, part)| part.shard.of());
    let there: Vec<u64> = parts.iter().map(|(_, part)| part.shard.index()).collect();
    let missing: Vec<String> = (1..=of)
        .filter(|index| there.binary_search(index).is_err())
        .map(|index| index.to_string())
        .collect();
    let named = missing[..missing.len().min(MISSING_NAMED_MAX)].join(", ");
    match missing.len() {
        0 => Ok(()),
        1 => Err(MergeError::Missing { of, missing: format!("{named} is") }),
        n if n > MISSING_NAMED_MAX => {
            let more = n - MISSING_NAMED_MAX;
            Err(MergeError::Missing { of, missing: format!("{named} and {more} more are") })
        }
        _ => Err(MergeError::Missing { of, missing: format!("{named} are") }),
    }
}

fn add(whole: &mut SweepReport, part: &SweepReport) {
    for (row, other) in whole.rows.iter_mut().zip(&part.rows) {
        row.runs += other.runs;
        row.failed += other.failed;
        row.virtual_ms += other.virtual_ms;
        row.orders.join(&other.orders);
        row.hash = row.hash.wrapping_add(other.hash);
    }
    for (mark, other) in whole.marks.iter_mut().zip(&part.marks) {
        mark.runs += other.runs;
        let firsts = mark.first.iter().chain(&other.first);
        mark.first = firsts.min_by_key(|first| first.number).cloned();
    }
    whole.transitions.join(&part.transitions);
    whole.failures.extend(part.failures.iter().cloned());
    whole.checked += part.checked;
    whole.ended = whole.ended.max(part.ended);
    whole.wall_ms += part.wall_ms;
}
