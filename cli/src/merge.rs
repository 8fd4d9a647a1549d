//! `moored merge`: one report of the parts of a sweep.

use moored_scenarios::sweep::{merge, read_report};

use crate::args::Merge;
use crate::error::Verdict;
use crate::files;
use crate::sweep::shown::{Typed, tell};

/// Merges the parts, and prints what the whole sweep would have.
pub fn run(options: &Merge) -> anyhow::Result<Verdict> {
    let mut parts = Vec::new();
    for path in &options.files {
        let name = path.display().to_string();
        let report = read_report(&name, &files::read_existing(path)?)?;
        parts.push((name, report));
    }
    let report = merge(parts)?;
    tell(
        &report,
        &Typed::default(),
        options.junit.as_deref(),
        options.report.as_deref(),
        options.json,
    )
}
