//! What may be typed after the commands around a sweep.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;

use clap::Args;
use moored_scenarios::sweep::Shard;
use moored_sim::KernelKind;

use super::{seeds, time_ms};
use crate::scenario;

/// Options of `moored sweep`.
#[derive(Debug, Args)]
pub struct Sweep {
    /// Scenarios by name or file, `generated` for the generator [default: everything].
    pub names: Vec<String>,
    /// Seeds, B not included; a single number is 0..B [default: 0..10000, or without end where something else ends it].
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    pub seeds: Option<Range<u64>>,
    /// Threads [default: one a core].
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// End after this time: `30s`, `5m`, `500ms`.
    #[arg(long = "for", value_name = "TIME", value_parser = time_ms)]
    pub time_ms: Option<u64>,
    /// End once so many runs in a row have shown no new mark and no new transition.
    #[arg(long, value_name = "N")]
    pub until_quiet: Option<NonZeroUsize>,
    /// Only this kernel.
    #[arg(long, value_name = "KERNEL", value_parser = scenario::kernel)]
    pub kernel: Option<KernelKind>,
    /// Make every run twice and compare the traces, not one run in 64.
    #[arg(long)]
    pub check_determinism: bool,
    /// Run part I of N and nothing else; `auto` asks the batch system or CI service which part this is.
    #[arg(long, value_name = "I/N|auto", value_parser = shard)]
    pub shard: Option<ShardAsked>,
    /// Where failures are written.
    #[arg(long, value_name = "DIR", default_value = "moored-failures")]
    pub out: PathBuf,
    /// The failures that were kept; replayed first in a sweep of everything [default: scenarios/regressions, if it exists].
    #[arg(long, value_name = "DIR", conflicts_with = "names")]
    pub regressions: Option<PathBuf>,
    /// Write the report as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the report as JSON, to be merged with those of the other parts.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// Options of `moored merge`.
#[derive(Debug, Args)]
pub struct Merge {
    /// What the parts wrote with --report: all of them.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write the merged report as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the merged report as JSON.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// Options of `moored shrink`.
#[derive(Debug, Args)]
pub struct Shrink {
    /// A failure that `moored sweep` wrote.
    #[arg(value_name = "FILE")]
    pub failure: PathBuf,
    /// Where the smallest one is written, with its timeline beside it [default: FILE with `.small` in its name].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// Options of `moored keep`.
#[derive(Debug, Args)]
pub struct Keep {
    /// A failure that a sweep wrote.
    #[arg(value_name = "FILE")]
    pub failure: PathBuf,
    /// The folder of the regressions.
    #[arg(long, value_name = "DIR", default_value = "scenarios/regressions")]
    pub into: PathBuf,
    /// It is mended: keep it only if it holds, not only if it still fails.
    #[arg(long)]
    pub fixed: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// Options of `moored replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// A failure, a scenario or a scenario document by file, or a built-in document by name [default: the generator].
    #[arg(value_name = "FILE|NAME")]
    pub scenario: Option<String>,
    /// Which of the possible runs. A failure is one run and takes none.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// What the simulation stands on.
    #[arg(long, value_name = "KERNEL", value_parser = scenario::kernel)]
    pub kernel: Option<KernelKind>,
    /// Print each event of the simulated world.
    #[arg(long, conflicts_with = "text")]
    pub trace: bool,
    /// Print the timeline, one line an event.
    #[arg(long)]
    pub text: bool,
    /// Write the timeline as a page.
    #[arg(long, value_name = "OUT")]
    pub html: Option<PathBuf>,
    /// Make the run so many times and compare the traces.
    #[arg(long, value_name = "N", conflicts_with_all = ["trace", "text", "html"])]
    pub times: Option<NonZeroUsize>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// Options of `moored generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// The seed.
    #[arg(long, value_name = "N")]
    pub seed: u64,
    /// Another kernel than the generator chose.
    #[arg(long, value_name = "KERNEL", value_parser = scenario::kernel)]
    pub kernel: Option<KernelKind>,
    /// Print one JSON document, which it is in any case.
    #[arg(long)]
    pub json: bool,
}

/// Which part was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardAsked {
    /// The one that the environment says.
    Auto,
    /// This one.
    Part(Shard),
}

fn shard(typed: &str) -> Result<ShardAsked, String> {
    match typed {
        "auto" => Ok(ShardAsked::Auto),
        _ => typed
            .parse()
            .map(ShardAsked::Part)
            .map_err(|e: moored_scenarios::sweep::ShardError| e.to_string()),
    }
}
