//! `moored shrink`: the smallest run that still fails in the same way.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use moored_scenarios::{Playable, shrink_failure};
use moored_sim::failure::{FailedRun, FailureFile};
use moored_sim::play::Playing;
use serde_json::json;

use crate::args::Shrink;
use crate::error::{Verdict, say};
use crate::{files, output, scenario};

/// Makes a failure smaller, and writes what is left with its timeline.
pub fn run(options: &Shrink) -> anyhow::Result<Verdict> {
    scenario::keep_simulated_panics_quiet();
    let named = options.failure.display();
    let unreadable = || format!("the failure {named} cannot be read");
    let failure = files::read_failure(&options.failure)?;
    let shrunk = match shrink_failure(&failure) {
        Ok(shrunk) => shrunk,
        Err(why) => {
            if options.json {
                output::print_json(&json!({ "shrunk": null, "why": why.to_string() }))?;
            }
            say(&format!("{named} is not made smaller: {why}"));
            return Ok(Verdict::Failed);
        }
    };
    let path = options.out.clone().unwrap_or_else(|| beside(&options.failure));
    files::write_private(&path, &shrunk.failure.to_text())?;
    let page = path.with_extension("html");
    let playable = Playable::of_failure(&shrunk.failure).with_context(unreadable)?;
    let how = Playing { timeline: true, ..Playing::default() };
    let run = playable.play(&how).with_context(unreadable)?;
    let again = format!("moored replay {}", path.display());
    let timeline = playable.timeline(&run, vec![("play again".to_owned(), again.clone())]);
    files::write_private(&page, &timeline.to_html())?;
    let violation = &shrunk.failure.violation;
    if options.json {
        return output::print_json(&json!({
            "shrunk": path, "timeline": page, "replays": shrunk.replays,
            "cut_short": shrunk.cut_short, "violation": violation,
        }));
    }
    let mut words =
        format!("{} (rule {}): {}\n", violation.oracle, violation.rule, violation.words);
    told(&shrunk.failure, &mut words);
    let _ =
        writeln!(words, "after {} replays; {again}; timeline: {}", shrunk.replays, page.display());
    output::print(&words)
}

/// What is left, a line each.
fn told(failure: &FailureFile, words: &mut String) {
    match &failure.run {
        FailedRun::Scenario(scenario) => {
            for action in &scenario.actions {
                let _ = writeln!(words, "  {}: {}", action.when, action.act);
            }
            for planned in &scenario.faults {
                let _ = writeln!(words, "  {}: {}", planned.when, planned.fault);
            }
        }
        FailedRun::Document(run) => {
            let actions = run.document["actions"].as_array().map_or(0, Vec::len);
            let _ =
                writeln!(words, "  {actions} actions, {} choices that stray", run.tape.strayed());
        }
    }
}

fn beside(failure: &Path) -> PathBuf {
    failure.with_extension("small.json")
}
