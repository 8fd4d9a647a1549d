//! What the runs of a sweep have shown so far.

use std::collections::BTreeMap;

use moored::coverage::{CoverageMark, CoverageMarks};
use moored_sim::KernelKind;
use moored_sim::marks::{WorldMark, WorldMarks};
use moored_sim::oracles::Violation;
use moored_sim::play::Run;

use super::distinct::{Distinct, mixed};
use super::plan::{Job, Jobs};
use super::report::{First, MarkKind, MarkRow, SweepFailure, SweepRow};

/// Orders of events of one row that are kept to be counted.
pub const ORDERS_KEPT_MAX: usize = 4_096;
/// Transitions of the session machine that are kept to be counted.
pub const TRANSITIONS_KEPT_MAX: usize = 1 << 20;
/// Failures of one row and one oracle that are told; more are counted.
pub const FAILURES_TOLD_MAX: usize = 3;

/// What one run has shown.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) violation: Option<Violation>,
    virtual_ms: u64,
    hash: u64,
    order: u64,
    met: CoverageMarks,
    world: WorldMarks,
    transitions: Vec<u64>,
    /// The run was made twice.
    pub(super) checked: bool,
}

impl Shown {
    pub(super) fn of(run: Run) -> Self {
        Self {
            violation: run.violation,
            virtual_ms: run.virtual_ms,
            hash: run.trace.hash(),
            order: run.trace.order_hash(),
            met: run.met,
            world: run.world,
            transitions: run.transitions.into_iter().collect(),
            checked: false,
        }
    }

    /// A run that could not be made.
    pub(super) fn unplayed(violation: Violation) -> Self {
        Self {
            violation: Some(violation),
            virtual_ms: 0,
            hash: 0,
            order: 0,
            met: CoverageMarks::EMPTY,
            world: WorldMarks::default(),
            transitions: Vec::new(),
            checked: false,
        }
    }
}

/// Everything so far. Runs are added in the order of their numbers.
pub(super) struct Tally {
    rows: Vec<RowTally>,
    library: Vec<MarkTally>,
    world: Vec<MarkTally>,
    transitions: Distinct,
    failures: Vec<SweepFailure>,
    told: BTreeMap<(usize, String), usize>,
    checked: u64,
    pub(super) runs: u64,
    pub(super) failed: u64,
    pub(super) marks: u64,
    /// Runs since one showed something new.
    pub(super) quiet: u64,
}

#[derive(Clone)]
struct RowTally {
    runs: u64,
    failed: u64,
    orders: Distinct,
    virtual_ms: u64,
    hash: u64,
}

#[derive(Clone, Default)]
struct MarkTally {
    runs: u64,
    first: Option<Job>,
}

impl Tally {
    pub(super) fn new(jobs: &Jobs) -> Self {
        let row = RowTally {
            runs: 0,
            failed: 0,
            orders: Distinct::new(ORDERS_KEPT_MAX),
            virtual_ms: 0,
            hash: 0,
        };
        Self {
            rows: vec![row; jobs.rows().len()],
            library: vec![MarkTally::default(); CoverageMark::ALL.len()],
            world: vec![MarkTally::default(); WorldMark::ALL.len()],
            transitions: Distinct::new(TRANSITIONS_KEPT_MAX),
            failures: Vec::new(),
            told: BTreeMap::new(),
            checked: 0,
            runs: 0,
            failed: 0,
            marks: 0,
            quiet: 0,
        }
    }

    /// Adds a run.
    pub(super) fn add(&mut self, jobs: &Jobs, job: Job, shown: Shown) {
        let row = &mut self.rows[job.row];
        row.runs += 1;
        row.virtual_ms += shown.virtual_ms;
        row.orders.insert(mixed(shown.order));
        // A sum, so that the order does not matter; with the number, so that equal traces do not stand for each other.
        row.hash = row.hash.wrapping_add(mixed(shown.hash ^ mixed(job.number)));
        self.runs += 1;
        self.checked += u64::from(shown.checked);
        let mut is_new = false;
        let library = CoverageMark::ALL.iter().zip(&mut self.library);
        let library = library.filter(|(mark, _)| shown.met.contains(**mark)).map(|(_, t)| t);
        let world = WorldMark::ALL.iter().zip(&mut self.world);
        let world = world.filter(|(mark, _)| shown.world.contains(**mark)).map(|(_, t)| t);
        for tally in library.chain(world) {
            tally.runs += 1;
            if tally.first.is_none() {
                tally.first = Some(job);
                self.marks += 1;
                is_new = true;
            }
        }
        for transition in shown.transitions {
            is_new |= self.transitions.insert(transition);
        }
        self.quiet = if is_new { 0 } else { self.quiet + 1 };
        if let Some(violation) = shown.violation {
            self.fail(jobs, job, violation);
        }
    }

    fn fail(&mut self, jobs: &Jobs, job: Job, violation: Violation) {
        self.failed += 1;
        self.rows[job.row].failed += 1;
        let told = self.told.entry((job.row, violation.oracle.to_string())).or_default();
        if *told < FAILURES_TOLD_MAX {
            *told += 1;
            self.failures.push(SweepFailure {
                number: job.number,
                scenario: jobs.rows()[job.row].scenario.clone(),
                row_kernel: jobs.rows()[job.row].kernel,
                kernel: jobs.playable(job).kernel(),
                seed: job.seed,
                replays: jobs.kept_failure(job).map(|kept| kept.name.clone()),
                violation,
                file: None,
            });
        }
    }

    /// The parts of a report: rows, marks, transitions, failures, runs that were made twice.
    pub(super) fn into_parts(
        self,
        jobs: &Jobs,
    ) -> (Vec<SweepRow>, Vec<MarkRow>, Distinct, Vec<SweepFailure>, u64) {
        let rows = jobs.rows().iter().zip(self.rows);
        let rows = rows.map(|(row, tally)| SweepRow {
            scenario: row.scenario.clone(),
            kernel: row.kernel,
            runs: tally.runs,
            failed: tally.failed,
            orders: tally.orders,
            virtual_ms: tally.virtual_ms,
            hash: tally.hash,
        });
        let first = |tally: &MarkTally| {
            tally.first.map(|job| First {
                number: job.number,
                scenario: jobs.rows()[job.row].scenario.clone(),
                kernel: jobs.rows()[job.row].kernel,
                seed: job.seed,
            })
        };
        let library = CoverageMark::ALL.iter().zip(&self.library).map(|(mark, tally)| MarkRow {
            kind: MarkKind::Library,
            name: mark.name().to_owned(),
            rule: Some(mark.rule().to_owned()),
            runs: tally.runs,
            first: first(tally),
        });
        let world = WorldMark::ALL.iter().zip(&self.world).map(|(mark, tally)| MarkRow {
            kind: MarkKind::World,
            name: mark.name().to_owned(),
            rule: None,
            runs: tally.runs,
            first: first(tally),
        });
        let marks = library.chain(world).collect();
        (rows.collect(), marks, self.transitions, self.failures, self.checked)
    }
}

/// Whether a build can meet a world's mark at all.
pub(super) fn is_reachable(kind: MarkKind, name: &str) -> bool {
    kind != MarkKind::World
        || name != WorldMark::MadsimScheduled.name()
        || KernelKind::available().contains(&KernelKind::Madsim)
}
