//! What a sweep shows: a table, each failure with the commands that show it again, and the coverage marks.

use std::collections::BTreeMap;
use std::path::Path;

use moored_scenarios::sweep::{
    Extent, GENERATED, HowEnded, MarkKind, Shard, SweepFailure, SweepReport, SweepRow, junit,
};
use serde_json::{Value, json};

use crate::error::Verdict;
use crate::words::{counted, one_line};
use crate::{files, output, scenario};

/// Longest words of a failure in the table's foot; the file has them whole.
const FAILURE_CHARS_MAX: usize = 300;
/// Columns of a line of names.
const NAMES_COLUMNS: usize = 100;
/// Failures that are printed; `--json` has all that are told.
const FAILURES_SHOWN_MAX: usize = 16;
/// A run that goes otherwise does not always; so often is enough to see it, as a rule.
const DIVERGENCE_REPLAYS: u32 = 20;

/// What was typed for each scenario: a name, or the file it is in.
pub type Typed = BTreeMap<String, String>;

/// Writes and prints a report, and says how the command ends.
pub fn tell(
    report: &SweepReport,
    typed: &Typed,
    junit_file: Option<&Path>,
    report_file: Option<&Path>,
    as_json: bool,
) -> anyhow::Result<Verdict> {
    if let Some(path) = report_file {
        files::write_private(path, &(serde_json::to_string(report)? + "\n"))?;
    }
    if let Some(path) = junit_file {
        files::write_private(path, &junit(report, |failure| replay_command(failure, typed)))?;
    }
    match as_json {
        true => output::print_json(&document(report, typed))?,
        false => output::print(&text(report, typed))?,
    };
    Ok(if report.holds() { Verdict::Holds } else { Verdict::Failed })
}

fn text(report: &SweepReport, typed: &Typed) -> String {
    let head = ["SCENARIO", "KERNEL", "RUNS", "FAILED", "ORDERS", "VIRTUAL"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(report.rows.iter().map(cells));
    let mut text = output::table(&rows);
    for failure in report.failures.iter().take(FAILURES_SHOWN_MAX) {
        text.push_str(&failure_text(failure, typed));
    }
    let untold =
        report.failed().saturating_sub(report.failures.len().min(FAILURES_SHOWN_MAX) as u64);
    if untold > 0 {
        text.push_str(&format!("\n{untold} more failed in the same rows\n"));
    }
    text.push_str(&marks_text(report));
    text.push_str(&foot(report));
    text
}

fn foot(report: &SweepReport) -> String {
    let seconds = report.wall_ms.max(1) as f64 / 1_000.0;
    let part = match report.shard {
        Shard::WHOLE => String::new(),
        shard => format!(" (part {shard})"),
    };
    let ended = match report.ended {
        HowEnded::Done => "",
        HowEnded::Quiet => "; it ended since nothing new was seen",
        HowEnded::Time => "; it was ended before all runs were made",
    };
    let mut text = format!(
        "{}{part} in {} rows, {} simulated in {seconds:.1} s ({:.0} runs a second), {} made twice, hash {:016x}{ended}: ",
        counted(usize::try_from(report.runs()).unwrap_or(usize::MAX), "run"),
        report.rows.len(),
        seconds_text(report.virtual_ms()),
        report.runs() as f64 / seconds,
        report.checked,
        report.hash(),
    );
    let missing = if report.is_full() { report.missing().len() } else { 0 };
    match (report.failed(), missing) {
        (0, 0) => text.push_str("everything holds\n"),
        (0, missing) => {
            text.push_str(&format!("{} never met\n", counted(missing, "coverage mark")));
        }
        (failed, _) => text.push_str(&format!("{failed} failed\n")),
    }
    text
}

fn cells(row: &SweepRow) -> Vec<String> {
    let about = if row.orders.is_exact() { "" } else { "~" };
    vec![
        row.scenario.clone(),
        row.kernel.map_or_else(|| "its own".to_owned(), |kernel| kernel.to_string()),
        row.runs.to_string(),
        row.failed.to_string(),
        format!("{about}{}", row.orders.count()),
        seconds_text(row.virtual_ms),
    ]
}

fn failure_text(failure: &SweepFailure, typed: &Typed) -> String {
    let SweepFailure { scenario, kernel, seed, violation, .. } = failure;
    let what = match &failure.replays {
        Some(kept) => format!("{kept} fails again"),
        None => format!("{scenario} fails on {kernel} with seed {seed}"),
    };
    let words = one_line(&violation.words, FAILURE_CHARS_MAX);
    let mut text = format!(
        "\n{what}: {} (rule {}): {words}\n  {}\n",
        violation.oracle,
        violation.rule,
        replay_command(failure, typed)
    );
    if let Some(command) = shrink_command(failure) {
        text.push_str(&format!("  {command}\n"));
    }
    if let Some(page) = timeline_path(failure) {
        text.push_str(&format!("  timeline: {page}\n"));
    }
    text
}

/// What shows the failure again: from its file, or from its seed while there is none.
pub fn replay_command(failure: &SweepFailure, typed: &Typed) -> String {
    let mut command = match failure.file.as_ref().or(failure.replays.as_ref()) {
        Some(file) => format!("moored replay {}", scenario::shell_word(Path::new(file))),
        None => seed_command(failure, typed),
    };
    if failure.is_divergence() {
        command.push_str(&format!(" --times {DIVERGENCE_REPLAYS}"));
    }
    command
}

/// What shows the failure again as long as scenario and generator stay as they are.
pub fn seed_command(failure: &SweepFailure, typed: &Typed) -> String {
    let SweepFailure { scenario, row_kernel, seed, .. } = failure;
    let mut command = "moored replay".to_owned();
    if scenario != GENERATED {
        let named = typed.get(scenario).unwrap_or(scenario);
        command.push_str(&format!(" {}", scenario::shell_word(Path::new(named))));
    }
    command.push_str(&format!(" --seed {seed}"));
    if let Some(kernel) = row_kernel {
        command.push_str(&format!(" --kernel {}", scenario::kernel_word(*kernel)));
    }
    command
}

/// What makes the failure smaller.
pub fn shrink_command(failure: &SweepFailure) -> Option<String> {
    let file = failure.file.as_ref()?;
    Some(format!("moored shrink {}", scenario::shell_word(Path::new(file))))
}

fn timeline_path(failure: &SweepFailure) -> Option<String> {
    Some(Path::new(failure.file.as_ref()?).with_extension("html").display().to_string())
}

fn marks_text(report: &SweepReport) -> String {
    let (library, world) = (reached(report, MarkKind::Library), reached(report, MarkKind::World));
    let mut text = format!(
        "\nmarks met: {} of {} of the library's, {} of {} of the world's; {} transitions\n",
        library.0,
        library.1,
        world.0,
        world.1,
        report.transitions.count()
    );
    let missing = report.missing();
    // A few named scenarios miss most of them, and nobody expects otherwise.
    if report.swept.extent == Extent::Everything && !missing.is_empty() {
        let mut line = "  never met:".to_owned();
        for (index, mark) in missing.iter().enumerate() {
            if line.len() + mark.name.len() > NAMES_COLUMNS {
                text.push_str(&format!("{line}\n"));
                line = "   ".to_owned();
            }
            let comma = if index + 1 < missing.len() { "," } else { "" };
            line.push_str(&format!(" {}{comma}", mark.name));
        }
        text.push_str(&format!("{line}\n"));
    }
    text
}

fn reached(report: &SweepReport, kind: MarkKind) -> (usize, usize) {
    let met = report.marks_of(kind).filter(|mark| mark.runs > 0).count();
    (met, report.marks_of(kind).count())
}

fn document(report: &SweepReport, typed: &Typed) -> Value {
    let kind = |kind| {
        let (reached, of) = reached(report, kind);
        json!({ "reached": reached, "of": of })
    };
    json!({
        "holds": report.holds(),
        "full": report.is_full(),
        "build": report.build,
        "shard": report.shard.to_string(),
        "ended": report.ended,
        "cut_short": report.ended != HowEnded::Done,
        "runs": report.runs(),
        "failed": report.failed(),
        "checked": report.checked,
        "virtual_ms": report.virtual_ms(),
        "wall_ms": report.wall_ms,
        "hash": format!("{:016x}", report.hash()),
        "rows": report.rows.iter().map(row_json).collect::<Vec<_>>(),
        "marks": {
            "library": kind(MarkKind::Library),
            "world": kind(MarkKind::World),
            "missing": report.missing().iter().map(|mark| &mark.name).collect::<Vec<_>>(),
            "all": report.marks,
        },
        "transitions": report.transitions.count(),
        "failures": report.failures.iter().map(|f| failure_json(f, typed)).collect::<Vec<_>>(),
    })
}

fn row_json(row: &SweepRow) -> Value {
    json!({
        "scenario": row.scenario,
        "kernel": row.kernel,
        "runs": row.runs,
        "failed": row.failed,
        "orders": row.orders.count(),
        "orders_exact": row.orders.is_exact(),
        "virtual_ms": row.virtual_ms,
        "hash": format!("{:016x}", row.hash),
    })
}

fn failure_json(failure: &SweepFailure, typed: &Typed) -> Value {
    json!({
        "scenario": failure.scenario,
        "kernel": failure.kernel,
        "seed": failure.seed,
        "oracle": failure.violation.oracle,
        "rule": failure.violation.rule,
        "words": failure.violation.words,
        "at_us": failure.violation.at,
        "file": failure.file,
        "timeline": timeline_path(failure),
        "replay": replay_command(failure, typed),
        "replay_by_seed": seed_command(failure, typed),
        "shrink": shrink_command(failure),
    })
}

fn seconds_text(ms: u64) -> String {
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
}
