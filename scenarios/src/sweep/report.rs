//! What a sweep found: a value that travels as JSON, so that parts from many machines can be merged.

use moored_sim::KernelKind;
use moored_sim::oracles::Violation;
use serde::{Deserialize, Serialize};

use super::distinct::Distinct;
use super::plan::{Extent, Jobs, SEEDS_DEFAULT};
use super::shard::Shard;
use super::tally::{Tally, is_reachable};

/// The version of the report this build writes and reads.
pub const REPORT_VERSION: u32 = 1;

/// What a sweep found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepReport {
    /// [`REPORT_VERSION`].
    pub v: u32,
    /// The build that swept.
    pub build: String,
    /// What was to be swept.
    pub swept: Swept,
    /// Which part of it this is.
    pub shard: Shard,
    /// A row for each scenario and kernel.
    pub rows: Vec<SweepRow>,
    /// Every coverage mark, with how often it was met.
    pub marks: Vec<MarkRow>,
    /// Transitions of the session machine that were seen.
    pub transitions: Distinct,
    /// The first failures of each row and oracle.
    pub failures: Vec<SweepFailure>,
    /// Runs that were made twice.
    pub checked: u64,
    /// How it ended.
    pub ended: HowEnded,
    /// How long it took, in milliseconds of the real clock; of merged parts, of all together.
    #[serde(default)]
    pub wall_ms: u64,
}

/// What was to be swept: equal for all parts of one sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Swept {
    /// Of scenarios, documents and kept failures.
    pub digest: String,
    /// How much.
    pub extent: Extent,
    /// The first seed.
    pub first_seed: u64,
    /// The one after the last.
    pub end_seed: u64,
    /// Only this kernel.
    pub kernel: Option<KernelKind>,
    /// One run in so many is made twice.
    pub checked_one_in: u64,
    /// Runs without anything new after which it ends.
    pub quiet_runs: Option<u64>,
}

/// How a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HowEnded {
    /// Every run was made.
    Done,
    /// Nothing new was seen for long enough.
    Quiet,
    /// Its time was up.
    Time,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepRow {
    /// The scenario.
    pub scenario: String,
    /// What it stood on; none if each run had its own.
    pub kernel: Option<KernelKind>,
    /// Runs.
    pub runs: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Different orders of events that were seen.
    pub orders: Distinct,
    /// Virtual milliseconds in all.
    pub virtual_ms: u64,
    /// Over the runs' traces: equal sweeps have equal ones, whatever the threads did.
    pub hash: u64,
}

/// A coverage mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkRow {
    /// Whose.
    pub kind: MarkKind,
    /// Its name.
    pub name: String,
    /// The rule it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Runs that met it.
    pub runs: u64,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<First>,
}

/// Whose mark it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// The library's: a branch of a rule.
    Library,
    /// The world's.
    World,
}

/// The first run that met something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct First {
    /// Its number in the whole sweep.
    pub number: u64,
    /// Its row.
    pub scenario: String,
    /// Its row's kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelKind>,
    /// Its seed.
    pub seed: u64,
}

/// One failing run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepFailure {
    /// Its number in the whole sweep.
    pub number: u64,
    /// Its row.
    pub scenario: String,
    /// Its row's kernel.
    pub row_kernel: Option<KernelKind>,
    /// What it stood on.
    pub kernel: KernelKind,
    /// Its seed.
    pub seed: u64,
    /// The kept failure that fails again, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replays: Option<String>,
    /// What does not hold.
    pub violation: Violation,
    /// Where it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl SweepReport {
    pub(super) fn new(jobs: &Jobs, tally: Tally, ended: HowEnded) -> Self {
        let plan = jobs.plan();
        let (rows, marks, transitions, failures, checked) = tally.into_parts(jobs);
        Self {
            v: REPORT_VERSION,
            build: plan.build.clone(),
            swept: Swept {
                digest: jobs.digest(),
                extent: plan.extent,
                first_seed: plan.seeds.start,
                end_seed: plan.seeds.end,
                kernel: plan.kernel,
                checked_one_in: plan.checked_one_in,
                quiet_runs: plan.quiet_runs,
            },
            shard: plan.shard,
            rows,
            marks,
            transitions,
            failures,
            checked,
            ended,
            wall_ms: 0,
        }
    }

    /// Whether everything held, and in a full sweep every mark was met.
    pub fn holds(&self) -> bool {
        self.failed() == 0 && (!self.is_full() || self.missing().is_empty())
    }

    /// Runs in all.
    pub fn runs(&self) -> u64 {
        self.rows.iter().map(|row| row.runs).sum()
    }

    /// Runs that failed.
    pub fn failed(&self) -> u64 {
        self.rows.iter().map(|row| row.failed).sum()
    }

    /// Virtual milliseconds in all.
    pub fn virtual_ms(&self) -> u64 {
        self.rows.iter().map(|row| row.virtual_ms).sum()
    }

    /// Over all rows.
    pub fn hash(&self) -> u64 {
        self.rows.iter().fold(0, |hash, row| hash.wrapping_add(row.hash))
    }

    /// Whether it was everything, with enough seeds, to its end: then every mark must have been met. A part is not.
    pub fn is_full(&self) -> bool {
        let Swept { extent, first_seed, end_seed, kernel, .. } = &self.swept;
        *extent == Extent::Everything
            && kernel.is_none()
            && end_seed.saturating_sub(*first_seed) >= SEEDS_DEFAULT
            && self.shard == Shard::WHOLE
            && self.ended == HowEnded::Done
    }

    /// The marks of a kind that this build can meet.
    pub fn marks_of(&self, kind: MarkKind) -> impl Iterator<Item = &MarkRow> {
        self.marks.iter().filter(move |mark| {
            mark.kind == kind && (mark.runs > 0 || is_reachable(kind, &mark.name))
        })
    }

    /// The marks that were not met, and could have been.
    pub fn missing(&self) -> Vec<&MarkRow> {
        let kinds = [MarkKind::Library, MarkKind::World].into_iter();
        kinds.flat_map(|kind| self.marks_of(kind)).filter(|mark| mark.runs == 0).collect()
    }
}
