//! What is swept: rows of a table, and the order in which their runs are made.
//!
//! The runs of a sweep are numbered. Kept failures come first, then blocks: every row that is swept sparsely once, and so
//! many seeds of the others. A sweep that is cut short has therefore looked at everything, and what it has done is always
//! the beginning of one and the same list, whatever its threads did.

use std::ops::Range;
use std::sync::Arc;

use moored_sim::KernelKind;
use moored_sim::failure::FailureFile;
use moored_sim::scenario::Scenario;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::generated::generate;
use super::shard::Shard;
use crate::document::{Document, DocumentError};
use crate::playable::Playable;

/// The row of what the generator makes.
pub const GENERATED: &str = "generated";
/// The row of kept failures, which must hold by now.
pub const REGRESSIONS: &str = "regressions";
/// Seeds of the generator in a sweep of everything, if nobody says how many. Fewer make no full sweep.
pub const SEEDS_DEFAULT: u64 = 10_000;
/// In a sweep of everything a document gets one seed where the generator gets so many: a document has one story, and its
/// seeds differ in their order of events alone.
pub const DOCUMENT_STRIDE: u64 = 5_000;
/// One run in so many is made twice, and must leave the same trace.
pub const CHECKED_ONE_IN: u64 = 64;

const _: () = assert!(SEEDS_DEFAULT >= DOCUMENT_STRIDE, "a full sweep has whole blocks");

/// What is swept.
#[derive(Clone, Debug)]
pub struct SweepPlan {
    /// Failures that were kept: each is replayed first, and must hold.
    pub regressions: Vec<Regression>,
    /// What is swept over seeds.
    pub subjects: Vec<Subject>,
    /// Whether that is everything there is.
    pub extent: Extent,
    /// Seeds.
    pub seeds: Range<u64>,
    /// Only this kernel; none is each available one for documents, and the scenario's own for scenarios.
    pub kernel: Option<KernelKind>,
    /// Which part of it is run here.
    pub shard: Shard,
    /// One run in so many is made twice.
    pub checked_one_in: u64,
    /// The sweep is over once so many runs in a row have shown nothing new.
    pub quiet_runs: Option<u64>,
    /// The build, as failures name it.
    pub build: String,
}

/// How much is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// All there is: documents get one seed in [`DOCUMENT_STRIDE`].
    Everything,
    /// What was named: each gets every seed.
    Named,
}

/// Something that is swept over seeds.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A scenario document.
    Document(Arc<Document>),
    /// What the generator makes of each seed.
    Generated,
    /// One scenario, whose choices are drawn from each seed.
    Scenario(Box<Scenario>),
}

/// A failure that was kept.
#[derive(Clone, Debug)]
pub struct Regression {
    /// Its file, as it was named.
    pub name: String,
    /// The failure.
    pub failure: FailureFile,
    play: Playable,
}

impl Regression {
    /// A kept failure; its document, if it is one, must parse.
    pub fn new(name: String, failure: FailureFile) -> Result<Self, DocumentError> {
        let play = Playable::of_failure(&failure)?;
        Ok(Self { name, failure, play })
    }

    /// What is played.
    pub fn playable(&self) -> &Playable {
        &self.play
    }
}

/// One row of the table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) scenario: String,
    /// None: each run's own.
    pub(super) kernel: Option<KernelKind>,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Document(Arc<Document>),
    Generated,
    Regressions,
    Scenario(Box<Scenario>),
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number in the whole sweep.
    pub number: u64,
    /// Its row.
    pub row: usize,
    /// Its seed; of a kept failure its place in the list.
    pub seed: u64,
}

/// The runs of a plan, in their order.
#[derive(Clone, Debug)]
pub struct Jobs {
    plan: SweepPlan,
    rows: Vec<Row>,
    /// Rows that get every seed come last, and there are so many; those before them get one in `stride`.
    dense: usize,
    stride: u64,
}

impl Jobs {
    /// The runs of a plan.
    pub fn new(plan: SweepPlan) -> Self {
        let mut rows = Vec::new();
        if !plan.regressions.is_empty() {
            let what = What::Regressions;
            rows.push(Row { scenario: REGRESSIONS.to_owned(), kernel: None, what });
        }
        let (sparse, stride) = match plan.extent {
            Extent::Everything => (true, DOCUMENT_STRIDE),
            Extent::Named => (false, 1),
        };
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for subject in &plan.subjects {
            match subject {
                Subject::Document(_) if sparse => first.extend(plan.rows_of(subject)),
                _ => last.extend(plan.rows_of(subject)),
            }
        }
        let dense = last.len();
        rows.extend(first.into_iter().chain(last));
        Self { plan, rows, dense, stride }
    }

    /// The plan.
    pub fn plan(&self) -> &SweepPlan {
        &self.plan
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Runs of the whole sweep, all shards together.
    pub fn all(&self) -> u64 {
        let seeds = self.plan.seeds.end.saturating_sub(self.plan.seeds.start);
        let sparse = self.sparse() as u64 * seeds.div_ceil(self.stride);
        let dense = seeds.saturating_mul(self.dense as u64);
        self.kept().saturating_add(sparse).saturating_add(dense)
    }

    /// The k-th run of this shard, from 0.
    pub fn of_shard(&self, k: u64) -> Option<Job> {
        let shard = self.plan.shard;
        (k < shard.jobs(self.all())).then(|| self.job(shard.number(k)))
    }

    /// How many runs this shard has.
    pub fn of_shard_len(&self) -> u64 {
        self.plan.shard.jobs(self.all())
    }

    fn job(&self, number: u64) -> Job {
        let Some(later) = number.checked_sub(self.kept()) else {
            return Job { number, row: 0, seed: number };
        };
        let (sparse, dense) = (self.sparse() as u64, self.dense as u64);
        let block = sparse + self.stride * dense;
        let first = self.plan.seeds.start + later / block * self.stride;
        let within = later % block;
        let (row, seed) = match within.checked_sub(sparse) {
            None => (within, first),
            Some(within) => (sparse + within % dense, first + within / dense),
        };
        // There are no more rows than fit the memory.
        let row = usize::from(self.kept() > 0) + usize::try_from(row).unwrap_or_default();
        Job { number, row, seed }
    }

    fn kept(&self) -> u64 {
        self.plan.regressions.len() as u64
    }

    fn sparse(&self) -> usize {
        self.rows.len() - self.dense - usize::from(self.kept() > 0)
    }

    /// What is played in a run.
    pub fn playable(&self, job: Job) -> Playable {
        let row = &self.rows[job.row];
        match &row.what {
            What::Document(document) => {
                Playable::document(Arc::clone(document), row.kernel.unwrap_or_default(), job.seed)
            }
            What::Generated => Playable::Scenario(Box::new(generated(job.seed, row.kernel))),
            What::Regressions => self.regression(job).play.clone(),
            What::Scenario(scenario) => {
                Playable::Scenario(Box::new(seeded(scenario, job.seed, row.kernel)))
            }
        }
    }

    /// The kept failure that a run replays, if it is one.
    pub fn kept_failure(&self, job: Job) -> Option<&Regression> {
        let kept = matches!(self.rows[job.row].what, What::Regressions);
        kept.then(|| self.regression(job))
    }

    fn regression(&self, job: Job) -> &Regression {
        &self.plan.regressions[usize::try_from(job.seed).unwrap_or_default()]
    }

    /// A digest of everything the runs depend on, so that only parts of one sweep are merged.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |value: String| {
            hash.update((value.len() as u64).to_le_bytes());
            hash.update(value);
        };
        for regression in &self.plan.regressions {
            add(regression.failure.to_text());
        }
        for row in &self.rows {
            add(format!("{} {:?}", row.scenario, row.kernel));
            match &row.what {
                What::Document(document) => {
                    add(serde_json::to_string(&**document).unwrap_or_default());
                }
                // What it makes of one seed stands for what it is.
                What::Generated => add(generate(0).to_text()),
                What::Regressions => {}
                What::Scenario(scenario) => add(scenario.to_text()),
            }
        }
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl SweepPlan {
    /// The rows of one subject.
    fn rows_of(&self, subject: &Subject) -> Vec<Row> {
        let one =
            |scenario: &str, kernel, what| Row { scenario: scenario.to_owned(), kernel, what };
        match subject {
            Subject::Document(document) => {
                let row = |kernel| {
                    one(&document.name, Some(kernel), What::Document(Arc::clone(document)))
                };
                match self.kernel {
                    Some(kernel) => vec![row(kernel)],
                    None => KernelKind::available().iter().copied().map(row).collect(),
                }
            }
            Subject::Generated => vec![one(GENERATED, self.kernel, What::Generated)],
            Subject::Scenario(scenario) => {
                vec![one(&scenario.name, self.kernel, What::Scenario(scenario.clone()))]
            }
        }
    }
}

/// What the generator makes of a seed, on another kernel if one is asked for.
pub fn generated(seed: u64, kernel: Option<KernelKind>) -> Scenario {
    let mut scenario = generate(seed);
    scenario.options.kernel = kernel.unwrap_or(scenario.options.kernel);
    scenario
}

/// A scenario with its choices drawn from a seed.
pub fn seeded(scenario: &Scenario, seed: u64, kernel: Option<KernelKind>) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.source = moored_sim::draws::Source::seed(seed);
    scenario.options.madsim_seed = seed;
    scenario.options.kernel = kernel.unwrap_or(scenario.options.kernel);
    scenario
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::builtin;

    /// Two documents and the generator, on the tape.
    pub(in crate::sweep) fn plan(extent: Extent, seeds: Range<u64>) -> SweepPlan {
        let documents = builtin().into_iter().take(2);
        let mut subjects: Vec<_> = documents.map(|d| Subject::Document(Arc::new(d))).collect();
        subjects.push(Subject::Generated);
        SweepPlan {
            regressions: Vec::new(),
            subjects,
            extent,
            seeds,
            kernel: Some(KernelKind::Tape),
            shard: Shard::WHOLE,
            checked_one_in: CHECKED_ONE_IN,
            quiet_runs: None,
            build: "test".to_owned(),
        }
    }

    fn counts(jobs: &Jobs) -> BTreeMap<(usize, u64), u32> {
        let mut counts = BTreeMap::new();
        for k in 0..jobs.of_shard_len() {
            let job = jobs.of_shard(k).expect("there are so many");
            *counts.entry((job.row, job.seed)).or_default() += 1;
        }
        assert_eq!(jobs.of_shard(jobs.of_shard_len()), None);
        counts
    }

    #[test]
    fn named_rows_get_every_seed_once() {
        let jobs = Jobs::new(plan(Extent::Named, 3..9));
        let counts = counts(&jobs);
        assert_eq!(counts.len(), 18);
        for row in 0..3 {
            assert!((3..9).all(|seed| counts[&(row, seed)] == 1));
        }
    }

    #[test]
    fn of_everything_documents_get_one_seed_in_many() {
        let jobs = Jobs::new(plan(Extent::Everything, 5..12_505));
        let counts = counts(&jobs);
        assert_eq!(counts.len() as u64, 2 * 3 + 12_500);
        for seed in [5, 5_005, 10_005] {
            assert_eq!((counts[&(0, seed)], counts[&(1, seed)]), (1, 1));
        }
        assert!((5..12_505).all(|seed| counts[&(2, seed)] == 1));
        let first = jobs.of_shard(0).expect("a first one");
        assert_eq!((first.row, first.seed), (0, 5), "documents begin");
    }

    #[test]
    fn shards_run_exactly_the_whole() {
        let whole = counts(&Jobs::new(plan(Extent::Everything, 0..1_700)));
        let mut together = BTreeMap::new();
        for index in 1..=7 {
            let shard = Shard::new(index, 7).expect("a part");
            let part = SweepPlan { shard, ..plan(Extent::Everything, 0..1_700) };
            for (key, count) in counts(&Jobs::new(part)) {
                *together.entry(key).or_default() += count;
            }
        }
        assert_eq!(together, whole);
    }

    #[test]
    fn a_digest_tells_sweeps_apart() {
        let digest = |plan| Jobs::new(plan).digest();
        let one = digest(plan(Extent::Everything, 0..10));
        let mut other = plan(Extent::Everything, 0..10);
        other.subjects.remove(0);
        assert_ne!(one, digest(other));
        assert_eq!(one, digest(plan(Extent::Everything, 0..10)));
    }

    #[test]
    fn seeds_without_end_are_no_overflow() {
        let jobs = Jobs::new(plan(Extent::Everything, 0..u64::MAX));
        assert!(jobs.all() > u64::MAX / 2 && jobs.of_shard(5_000).is_some());
    }
}
