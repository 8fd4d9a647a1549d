//! The sweep: scenarios over seeds, on every core.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use moored_sim::kernel::KernelKind;

use crate::document::Document;
use crate::simulated::{SimulatedRun, play_simulated};

/// Failures of one row that are kept whole; more are counted.
pub const FAILURES_KEPT_MAX: usize = 8;

/// What is swept.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// The scenarios.
    pub documents: Vec<Document>,
    /// Seeds of each.
    pub seeds: Range<u64>,
    /// Kernels of each.
    pub kernels: Vec<KernelKind>,
    /// Threads.
    pub jobs: usize,
}

/// How far a sweep is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Runs that are done.
    pub done: u64,
    /// All of them.
    pub all: u64,
    /// Runs that failed.
    pub failed: u64,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SweepRow {
    /// The scenario.
    pub scenario: String,
    /// What it stood on.
    pub kernel: KernelKind,
    /// Runs.
    pub runs: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Different orders of events that were seen.
    pub orders: u64,
    /// Virtual milliseconds in all.
    pub virtual_ms: u64,
    /// The exclusive or of the runs' trace hashes: equal sweeps have equal ones, whatever the threads did.
    pub hash: u64,
}

/// One failing run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SweepFailure {
    /// The scenario.
    pub scenario: String,
    /// What it stood on.
    pub kernel: KernelKind,
    /// Its seed.
    pub seed: u64,
    /// What does not hold.
    pub failures: Vec<String>,
}

/// What a sweep found.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SweepReport {
    /// A row for each scenario and kernel, in the order they were given.
    pub rows: Vec<SweepRow>,
    /// The first failures of each row.
    pub failures: Vec<SweepFailure>,
    /// The sweep was ended before all its runs were done.
    pub cut_short: bool,
}

impl SweepReport {
    /// Whether everything held.
    pub fn holds(&self) -> bool {
        self.rows.iter().all(|r| r.failed == 0)
    }

    /// Runs in all.
    pub fn runs(&self) -> u64 {
        self.rows.iter().map(|r| r.runs).sum()
    }
}

/// Sweeps. `progress` is called after each run; it ends the sweep by answering `false`.
pub fn sweep(options: &SweepOptions, progress: &(dyn Fn(Progress) -> bool + Sync)) -> SweepReport {
    let work = Work::new(options);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| work.run(progress));
        }
    });
    work.report()
}

/// One row while it is worked on.
#[derive(Default)]
struct Tally {
    runs: u64,
    failed: u64,
    orders: BTreeSet<u64>,
    virtual_ms: u64,
    hash: u64,
    failures: Vec<SweepFailure>,
}

struct Work<'a> {
    options: &'a SweepOptions,
    next: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    ended: AtomicBool,
    tallies: Vec<Mutex<Tally>>,
}

impl<'a> Work<'a> {
    fn new(options: &'a SweepOptions) -> Self {
        let rows = options.documents.len() * options.kernels.len();
        Self {
            options,
            next: AtomicU64::new(0),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            tallies: (0..rows).map(|_| Mutex::default()).collect(),
        }
    }

    fn all(&self) -> u64 {
        let seeds = self.options.seeds.end.saturating_sub(self.options.seeds.start);
        seeds * self.tallies.len() as u64
    }

    /// Seed by seed over all rows, so that a sweep cut short has looked at every scenario.
    fn run(&self, progress: &(dyn Fn(Progress) -> bool + Sync)) {
        while !self.ended.load(Ordering::Relaxed) {
            let job = self.next.fetch_add(1, Ordering::Relaxed);
            if job >= self.all() {
                return;
            }
            let rows = self.tallies.len() as u64;
            let (row, seed) = (job % rows, self.options.seeds.start + job / rows);
            let Ok(row) = usize::try_from(row) else { return };
            let failed = self.run_one(row, seed);
            let failed =
                self.failed.fetch_add(u64::from(failed), Ordering::Relaxed) + u64::from(failed);
            let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
            if !progress(Progress { done, all: self.all(), failed }) {
                self.ended.store(true, Ordering::Relaxed);
            }
        }
    }

    fn run_one(&self, row: usize, seed: u64) -> bool {
        let (document, kernel) = self.row(row);
        let run = SimulatedRun { seed: Some(seed), kernel, ..SimulatedRun::default() };
        let played = play_simulated(document, &run);
        let mut tally = self.tallies[row].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tally.runs += 1;
        let failures = match played {
            Ok(played) => {
                tally.virtual_ms += played.took_ms;
                tally.orders.extend(played.order_hash);
                // Weighted by the seed, so that two equal traces do not cancel each other out.
                tally.hash ^= played.trace_hash.unwrap_or(0).rotate_left((seed % 64) as u32);
                played.failures
            }
            Err(error) => vec![error.to_string()],
        };
        if failures.is_empty() {
            return false;
        }
        tally.failed += 1;
        if tally.failures.len() < FAILURES_KEPT_MAX {
            let scenario = document.name.clone();
            tally.failures.push(SweepFailure { scenario, kernel, seed, failures });
        }
        true
    }

    fn row(&self, row: usize) -> (&Document, KernelKind) {
        let kernels = self.options.kernels.len();
        (&self.options.documents[row / kernels], self.options.kernels[row % kernels])
    }

    fn report(self) -> SweepReport {
        let cut_short = self.done.load(Ordering::Relaxed) < self.all();
        let mut report = SweepReport { cut_short, ..SweepReport::default() };
        for (row, tally) in self.tallies.iter().enumerate() {
            let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (document, kernel) = self.row(row);
            report.rows.push(SweepRow {
                scenario: document.name.clone(),
                kernel,
                runs: tally.runs,
                failed: tally.failed,
                orders: tally.orders.len() as u64,
                virtual_ms: tally.virtual_ms,
                hash: tally.hash,
            });
            tally.failures.sort_by_key(|f| f.seed);
            report.failures.append(&mut tally.failures);
        }
        report
    }
}
