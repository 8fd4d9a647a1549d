//! `moored generate`: what the generator makes of a seed, as a value.

use moored_scenarios::sweep::generated;

use crate::args::Generate;
use crate::error::Verdict;
use crate::output;

/// Prints the scenario of a seed.
pub fn run(options: &Generate) -> anyhow::Result<Verdict> {
    let text = generated(options.seed, options.kernel).to_text();
    output::print(&format!("{}\n", text.trim_end()))
}
