//! `moored sweep`: the main job. Every scenario over as many seeds as there is time for, on all cores.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a binary measures how long a person has waited"
)]

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use moored_scenarios::sweep::{Progress, SweepFailure, SweepOptions, SweepReport, SweepRow, sweep};
use moored_sim::KernelKind;
use serde_json::json;

use crate::args::Sweep;
use crate::error::Verdict;
use crate::words::{counted, one_line};
use crate::{output, scenario};

/// How long a sweep without seeds and without a time goes on.
const SWEEP_MS: u64 = 20_000;
/// Seeds of a sweep that only a time ends.
const SEEDS_MAX: u64 = 1_000_000_000;
/// The bar moves so often a second.
const BAR_HZ: u8 = 5;
const FAILURE_CHARS_MAX: usize = 300;

/// What was typed for each scenario: a name, or the file it is in.
type Typed = BTreeMap<String, String>;

/// Sweeps, and prints a table.
pub fn run(options: &Sweep) -> anyhow::Result<Verdict> {
    let found = scenario::find_all(&options.names)?;
    let typed: Typed =
        found.iter().map(|(typed, document)| (document.name.clone(), typed.clone())).collect();
    let documents = found.into_iter().map(|(_, document)| document).collect();
    let jobs = options
        .jobs
        .map(usize::from)
        .unwrap_or_else(|| std::thread::available_parallelism().map(usize::from).unwrap_or(1));
    let limit_ms = match (options.time_ms, &options.seeds) {
        (None, None) => Some(SWEEP_MS),
        (limit_ms, _) => limit_ms,
    };
    let plan = SweepOptions {
        documents,
        seeds: options.seeds.clone().unwrap_or(0..SEEDS_MAX),
        kernels: match options.kernel {
            Some(kernel) => vec![kernel],
            None => KernelKind::available().to_vec(),
        },
        jobs,
    };
    scenario::keep_simulated_panics_quiet();
    let began = Instant::now();
    let bar = Bar::new(limit_ms);
    let report = sweep(&plan, &|progress| {
        let waited = began.elapsed();
        bar.show(progress, waited);
        limit_ms.is_none_or(|limit_ms| waited < Duration::from_millis(limit_ms))
    });
    bar.clear();
    let took = began.elapsed();
    match options.json {
        true => output::print_json(&json!({
            "holds": report.holds(),
            "runs": report.runs(),
            "wall_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "rows": report.rows,
            "failures": report.failures.iter().map(|f| failure_json(f, &typed)).collect::<Vec<_>>(),
            "cut_short": report.cut_short,
        }))?,
        false => output::print(&shown(&plan, &report, &typed, took))?,
    };
    Ok(if report.holds() { Verdict::Holds } else { Verdict::Failed })
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
        self.bar.set_message(format!("{} runs, {} failed", progress.done, progress.failed));
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn shown(plan: &SweepOptions, report: &SweepReport, typed: &Typed, took: Duration) -> String {
    let head = ["SCENARIO", "KERNEL", "RUNS", "FAILED", "ORDERS", "VIRTUAL"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(report.rows.iter().map(cells));
    let mut text = output::table(&rows);
    // The first of each row; `--json` has all that were kept.
    let mut told = None;
    for failure in &report.failures {
        let row = Some((&failure.scenario, failure.kernel));
        if told != row {
            text.push_str(&failure_text(failure, typed));
            told = row;
        }
    }
    let virtual_ms: u64 = report.rows.iter().map(|row| row.virtual_ms).sum();
    let seconds = took.as_secs_f64().max(0.001);
    text.push_str(&format!(
        "\n{} of {} on {}, {} simulated in {seconds:.1} s ({:.0} runs a second): ",
        counted(usize::try_from(report.runs()).unwrap_or(usize::MAX), "run"),
        counted(plan.documents.len(), "scenario"),
        counted(plan.kernels.len(), "kernel"),
        seconds_text(virtual_ms),
        report.runs() as f64 / seconds,
    ));
    let failed: u64 = report.rows.iter().map(|row| row.failed).sum();
    match failed {
        0 => text.push_str("everything holds\n"),
        failed => text.push_str(&format!("{failed} failed\n")),
    }
    text
}

fn cells(row: &SweepRow) -> Vec<String> {
    vec![
        row.scenario.clone(),
        row.kernel.to_string(),
        row.runs.to_string(),
        row.failed.to_string(),
        row.orders.to_string(),
        seconds_text(row.virtual_ms),
    ]
}

fn failure_text(failure: &SweepFailure, typed: &Typed) -> String {
    let SweepFailure { scenario, kernel, seed, failures } = failure;
    let first = failures.first().map_or("", String::as_str);
    format!(
        "\n{scenario} fails on {kernel} with seed {seed}: {}\n  {}\n",
        one_line(first, FAILURE_CHARS_MAX),
        replay_command(failure, typed)
    )
}

/// What shows the failure again.
fn replay_command(failure: &SweepFailure, typed: &Typed) -> String {
    let SweepFailure { scenario, kernel, seed, .. } = failure;
    let scenario = typed.get(scenario).unwrap_or(scenario);
    format!("moored replay {scenario} --seed {seed} --kernel {}", scenario::kernel_word(*kernel))
}

fn failure_json(failure: &SweepFailure, typed: &Typed) -> serde_json::Value {
    let mut value = json!(failure);
    value["replay"] = json!(replay_command(failure, typed));
    value
}

fn seconds_text(ms: u64) -> String {
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
}
