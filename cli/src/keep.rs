//! `moored keep`: a failure becomes a regression.

use anyhow::Context;
use moored_scenarios::Playable;
use moored_sim::play::Playing;
use serde_json::json;

use crate::args::Keep;
use crate::error::{Verdict, say};
use crate::{files, output, scenario};

/// Replays a failure, and copies it to the regressions if it does what was said of it.
pub fn run(options: &Keep) -> anyhow::Result<Verdict> {
    scenario::keep_simulated_panics_quiet();
    let named = options.failure.display();
    let unreadable = || format!("the failure {named} cannot be read");
    let failure = files::read_failure(&options.failure)?;
    let playable = Playable::of_failure(&failure).with_context(unreadable)?;
    let run = playable.play(&Playing::default()).with_context(unreadable)?;
    let oracle = &failure.violation.oracle;
    let refused = match (&run.violation, options.fixed) {
        (None, true) => None,
        (Some(_), false) if failure.is_broken_by(&run) => None,
        (None, false) => Some(format!("{oracle} holds in it now; `--fixed` keeps it as mended")),
        (Some(now), false) => {
            Some(format!("it breaks {} now, and {oracle} when it was found", now.oracle))
        }
        (Some(now), true) => Some(format!("it still breaks {}: {}", now.oracle, now.words)),
    };
    if let Some(why) = refused {
        if options.json {
            output::print_json(&json!({ "kept": null, "why": why, "oracle": oracle }))?;
        }
        say(&format!("{named} is not kept: {why}"));
        return Ok(Verdict::Failed);
    }
    let path = options.into.join(format!("{}.json", failure.name()));
    let text = failure.to_text();
    let was_there = files::read(&path)?.is_some_and(|there| there == text);
    if !was_there {
        files::make_folder(&options.into)?;
        files::write(&path, &text)?;
    }
    if options.json {
        return output::print_json(&json!({
            "kept": path, "oracle": oracle, "fixed": options.fixed, "was_there": was_there,
        }));
    }
    let now = if options.fixed { "it holds" } else { "it fails until it is mended" };
    output::print(&format!("kept as {}; {now}\n", path.display()))
}
