//! `moored sweep`: the main job. Every scenario over as many seeds as there is time for, on all cores.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a binary measures how long a person has waited, and asks its environment which part it is"
)]

pub mod shown;

use std::io::IsTerminal;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use moored_scenarios::builtin;
use moored_scenarios::sweep::{
    CHECKED_ONE_IN, Extent, FAILURES_KEPT_MAX, Jobs, Progress, Regression, SEEDS_DEFAULT, Shard,
    Simulator, Subject, SweepPlan, SweepReport, keep, sweep,
};
use moored_sim::failure::FailureFile;

use crate::args::{ShardAsked, Sweep, build};
use crate::error::{Verdict, say};
use crate::scenario::Named;
use crate::{files, scenario};

use shown::{Typed, shrink_command, tell};

/// Seeds of a sweep that something else ends.
const SEEDS_MAX: u64 = 1_000_000_000;
/// The bar moves so often a second.
const BAR_HZ: u8 = 5;
/// Where kept failures are looked for if nobody says.
const REGRESSIONS_FOLDER: &str = "scenarios/regressions";

/// Sweeps, writes what failed, and prints a table.
pub fn run(options: &Sweep) -> anyhow::Result<Verdict> {
    scenario::keep_simulated_panics_quiet();
    let (plan, typed) = plan(options)?;
    let jobs = Jobs::new(plan);
    let threads = options
        .jobs
        .map(usize::from)
        .unwrap_or_else(|| std::thread::available_parallelism().map(usize::from).unwrap_or(1));
    let began = Instant::now();
    let bar = Bar::new(options.time_ms);
    let player = Simulator::default();
    let mut report = sweep(&jobs, threads, &player, &|progress| {
        let waited = began.elapsed();
        bar.show(progress, waited);
        options.time_ms.is_none_or(|limit_ms| waited < Duration::from_millis(limit_ms))
    });
    bar.clear();
    report.wall_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    if let Err(error) = write_failures(&jobs, &player, &mut report, &options.out) {
        // What was found is told all the same.
        say(&format!("failures are not written: {error:#}"));
    }
    tell(&report, &typed, options.junit.as_deref(), options.report.as_deref(), options.json)
}

fn plan(options: &Sweep) -> anyhow::Result<(SweepPlan, Typed)> {
    let mut typed = Typed::new();
    let mut subjects = Vec::new();
    for named in &options.names {
        let (subject, name) = match scenario::find_any(named)? {
            Named::Document(document) => {
                let name = document.name.clone();
                (Subject::Document(Arc::from(document)), name)
            }
            Named::Generated => (Subject::Generated, String::new()),
            Named::Scenario(scenario) => {
                let name = scenario.name.clone();
                (Subject::Scenario(scenario), name)
            }
            Named::Failure(failure) => {
                let scenario = failure.scenario().cloned().with_context(|| {
                    format!("{named} is the run of a document; sweep the document itself")
                })?;
                let name = scenario.name.clone();
                (Subject::Scenario(Box::new(scenario)), name)
            }
        };
        typed.insert(name, named.clone());
        subjects.push(subject);
    }
    let extent = if subjects.is_empty() { Extent::Everything } else { Extent::Named };
    if extent == Extent::Everything {
        subjects.extend(builtin().into_iter().map(|d| Subject::Document(Arc::new(d))));
        subjects.push(Subject::Generated);
    }
    let plan = SweepPlan {
        regressions: regressions(options)?,
        subjects,
        extent,
        seeds: seeds(options),
        kernel: options.kernel,
        shard: match options.shard {
            None => Shard::WHOLE,
            Some(ShardAsked::Part(shard)) => shard,
            Some(ShardAsked::Auto) => Shard::from_environment(|name| std::env::var(name).ok())?,
        },
        checked_one_in: if options.check_determinism { 1 } else { CHECKED_ONE_IN },
        quiet_runs: options.until_quiet.map(|runs| runs.get() as u64),
        build: build(),
    };
    Ok((plan, typed))
}

fn seeds(options: &Sweep) -> Range<u64> {
    let ends_otherwise = options.time_ms.is_some() || options.until_quiet.is_some();
    match &options.seeds {
        Some(seeds) => seeds.clone(),
        None if ends_otherwise => 0..SEEDS_MAX,
        None => 0..SEEDS_DEFAULT,
    }
}

/// The failures that were kept: of the folder that was named, or of the one of this project.
fn regressions(options: &Sweep) -> anyhow::Result<Vec<Regression>> {
    let folder = match &options.regressions {
        Some(folder) => folder.as_path(),
        None if options.names.is_empty() && Path::new(REGRESSIONS_FOLDER).is_dir() => {
            Path::new(REGRESSIONS_FOLDER)
        }
        None => return Ok(Vec::new()),
    };
    let mut kept = Vec::new();
    for path in files::listed(folder, "json")? {
        let name = path.display().to_string();
        let unreadable = || format!("the kept failure {name} cannot be read");
        let failure = FailureFile::from_text(&files::read_existing(&path)?);
        let failure = failure.with_context(unreadable)?;
        kept.push(Regression::new(name.clone(), failure).with_context(unreadable)?);
    }
    Ok(kept)
}

/// Writes the first failures, each as a value, a page and a text, and puts their paths into the report.
fn write_failures(
    jobs: &Jobs,
    player: &Simulator,
    report: &mut SweepReport,
    out: &Path,
) -> anyhow::Result<()> {
    let unwritten = report.failures.len().saturating_sub(FAILURES_KEPT_MAX);
    for failure in report.failures.iter_mut().take(FAILURES_KEPT_MAX) {
        files::make_private_folder(out)?;
        let path = out.join(format!("{}.json", failure.file_name()));
        let mut written = failure.clone();
        written.file = Some(path.display().to_string());
        let replay = shown::replay_command(&written, &Typed::new());
        let found = match &failure.replays {
            Some(kept) => ("kept as".to_owned(), kept.clone()),
            None => ("seed".to_owned(), failure.seed.to_string()),
        };
        let build = ("build".to_owned(), jobs.plan().build.clone());
        let mut facts = vec![found, build, ("replay".to_owned(), replay)];
        facts.extend(shrink_command(&written).map(|command| ("shrink".to_owned(), command)));
        let kept = match keep(jobs, player, failure, facts) {
            Ok(kept) => kept,
            Err(words) => {
                say(&format!("{} is not written: {words}", path.display()));
                continue;
            }
        };
        files::write_private(&path, &kept.file.to_text())?;
        files::write_private(&path.with_extension("html"), &kept.timeline.to_html())?;
        files::write_private(&path.with_extension("txt"), &kept.timeline.to_text())?;
        *failure = written;
        if !kept.fails_again && !failure.is_divergence() {
            say(&format!("{} holds when it is replayed; look at its determinism", path.display()));
        }
    }
    if unwritten > 0 {
        say(&format!("{unwritten} more failures are told and not written"));
    }
    Ok(())
}

/// What a person at a terminal sees meanwhile; nothing anywhere else.
struct Bar {
    bar: ProgressBar,
    limit_ms: Option<u64>,
}

impl Bar {
    fn new(limit_ms: Option<u64>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden(), limit_ms };
        }
        let target = indicatif::ProgressDrawTarget::stderr_with_hz(BAR_HZ);
        let bar = ProgressBar::with_draw_target(None, target);
        // Without the style the bar still moves.
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        Self { bar, limit_ms }
    }

    /// Towards the end of the time, or of the seeds.
    fn show(&self, progress: Progress, waited: Duration) {
        if self.bar.is_hidden() {
            return;
        }
        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let (done, all) = match self.limit_ms {
            Some(limit_ms) if progress.all > progress.done => (waited_ms.min(limit_ms), limit_ms),
            _ => (progress.done, progress.all),
        };
        self.bar.set_length(all);
        self.bar.set_position(done);
        let Progress { done, failed, marks, quiet, .. } = progress;
        self.bar.set_message(format!(
            "{done} runs, {failed} failed, {marks} marks met, {quiet} runs without anything new"
        ));
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
