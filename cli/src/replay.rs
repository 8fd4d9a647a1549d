//! `moored replay`: one run again, identically, and what is to be seen of it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use moored_scenarios::canonical::journal_lines;
use moored_scenarios::sweep::{Player, Simulator, generated, seeded};
use moored_scenarios::{Document, Playable, SimulatedRun, play_simulated};
use moored_sim::failure::FailureFile;
use moored_sim::play::{Playing, Run};
use moored_sim::trace::Keep;
use serde_json::json;

use crate::args::Replay;
use crate::error::{Verdict, say};
use crate::scenario::Named;
use crate::{files, output, play, scenario};

/// Plays a run again, and prints what was asked for.
pub fn run(options: &Replay) -> anyhow::Result<Verdict> {
    scenario::keep_simulated_panics_quiet();
    let found = match &options.scenario {
        None => Named::Generated,
        Some(named) => scenario::find_any(named)?,
    };
    let shows_timeline = options.text || options.html.is_some();
    let playable = match found {
        Named::Document(document) if options.times.is_none() && !shows_timeline => {
            return document_rows(&document, options);
        }
        found => playable(found, options)?,
    };
    if let Some(times) = options.times {
        return compare(&playable, times.get(), options.json);
    }
    let keep = if options.trace { Keep::Lines } else { Keep::Hashes };
    let mut how = Playing { keep, ..Playing::default() };
    how.timeline = shows_timeline;
    let run =
        playable.play(&how).with_context(|| format!("{} cannot be played", playable.name()))?;
    let timeline = shows_timeline.then(|| playable.timeline(&run, facts(options)));
    if let (Some(timeline), Some(path)) = (&timeline, &options.html) {
        files::write_private(path, &timeline.to_html())?;
    }
    if options.json {
        output::print_json(&document(&playable, &run, options))?;
    } else {
        let trace = || run.trace.lines().iter().map(|line| format!("{line}\n")).collect();
        output::print(&match (&timeline, options.trace) {
            (Some(timeline), _) if options.text => timeline.to_text(),
            (_, true) => trace(),
            _ => String::new(),
        })?;
        if !options.text && !options.trace {
            output::print(&format!("{}\n", summary(&playable, &run)))?;
        }
    }
    if let Some(violation) = &run.violation {
        let (oracle, rule, words) = (&violation.oracle, &violation.rule, &violation.words);
        say(&format!("{} breaks {oracle} (rule {rule}): {words}", playable.name()));
    }
    Ok(if run.holds() { Verdict::Holds } else { Verdict::Failed })
}

/// What was named, as one run.
fn playable(found: Named, options: &Replay) -> anyhow::Result<Playable> {
    let seed = || options.seed.context("which of its runs? give --seed N");
    Ok(match found {
        Named::Document(document) => {
            Playable::document(Arc::from(document), options.kernel.unwrap_or_default(), seed()?)
        }
        Named::Generated => Playable::Scenario(Box::new(generated(seed()?, options.kernel))),
        Named::Scenario(mut scenario) => {
            if let Some(seed) = options.seed {
                *scenario = seeded(&scenario, seed, None);
            }
            scenario.options.kernel = options.kernel.unwrap_or(scenario.options.kernel);
            Playable::Scenario(scenario)
        }
        Named::Failure(failure) => kept(&failure, options)?,
    })
}

fn kept(failure: &FailureFile, options: &Replay) -> anyhow::Result<Playable> {
    if options.seed.is_some() || options.kernel.is_some() {
        bail!(
            "a failure is one run, with its choices and its kernel; leave --seed and --kernel out"
        );
    }
    Playable::of_failure(failure).context("the failure cannot be read; correct it at")
}

/// A document by name or file: its rows or its events.
fn document_rows(document: &Document, options: &Replay) -> anyhow::Result<Verdict> {
    let run = SimulatedRun {
        seed: Some(options.seed.context("which of its runs? give --seed N")?),
        kernel: options.kernel.unwrap_or_default(),
        trace: options.trace,
        ..SimulatedRun::default()
    };
    let played = play_simulated(document, &run)
        .with_context(|| format!("{} cannot be played", document.name))?;
    let text = match options.trace {
        true => played.trace.iter().map(|line| format!("{line}\n")).collect(),
        false => journal_lines(&played.rows),
    };
    play::report(document, &played, &text, options.json)
}

fn facts(options: &Replay) -> Vec<(String, String)> {
    let mut line = "moored replay".to_owned();
    if let Some(named) = &options.scenario {
        line.push_str(&format!(" {}", scenario::shell_word(Path::new(named))));
    }
    let mut facts = Vec::new();
    if let Some(seed) = options.seed {
        facts.push(("seed".to_owned(), seed.to_string()));
        line.push_str(&format!(" --seed {seed}"));
    }
    if let Some(kernel) = options.kernel {
        line.push_str(&format!(" --kernel {}", scenario::kernel_word(kernel)));
    }
    facts.push(("replay".to_owned(), line));
    facts
}

fn summary(playable: &Playable, run: &Run) -> String {
    let (name, kernel) = (playable.name(), playable.kernel());
    let (events, hash) = (run.trace.events(), run.trace.hash());
    let verdict = match &run.violation {
        None => "holds".to_owned(),
        Some(violation) => format!("breaks {} (rule {})", violation.oracle, violation.rule),
    };
    format!(
        "{name} on {kernel} {verdict}; {events} events in {} ms of virtual time, trace {hash:016x}",
        run.virtual_ms
    )
}

fn document(playable: &Playable, run: &Run, options: &Replay) -> serde_json::Value {
    let world: Vec<&str> = run.world.iter().map(|mark| mark.name()).collect();
    json!({
        "scenario": playable.name(),
        "kernel": playable.kernel(),
        "seed": options.seed,
        "holds": run.holds(),
        "violation": run.violation,
        "virtual_ms": run.virtual_ms,
        "events": run.trace.events(),
        "trace_hash": format!("{:016x}", run.trace.hash()),
        "trace": run.trace.lines().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "marks": { "library": run.met, "world": world },
        "timeline": run.entries,
        "html": options.html,
    })
}

/// Makes the run so many times, and shows the first event in which one differs from the first.
fn compare(playable: &Playable, times: usize, as_json: bool) -> anyhow::Result<Verdict> {
    let lines = Playing { keep: Keep::Lines, ..Playing::default() };
    let play = || {
        let run = Simulator::default().play(playable, &lines);
        run.map_err(|words| anyhow::anyhow!("{} cannot be played: {words}", playable.name()))
    };
    let first = play()?;
    let mut divergence = None;
    let mut played = 1;
    while played < times && divergence.is_none() {
        let again = play()?;
        played += 1;
        divergence = first.trace.divergence(&again.trace);
    }
    let hash = format!("{:016x}", first.trace.hash());
    if as_json {
        let line =
            |line: &Option<moored_sim::trace::TraceLine>| line.as_ref().map(ToString::to_string);
        output::print_json(&json!({
            "scenario": playable.name(),
            "kernel": playable.kernel(),
            "times": played,
            "identical": divergence.is_none(),
            "holds": first.holds() && divergence.is_none(),
            "violation": first.violation,
            "trace_hash": hash,
            "divergence": divergence.as_ref().map(|d| json!({
                "line": d.at, "first": line(&d.left), "other": line(&d.right),
            })),
        }))?;
    } else {
        match &divergence {
            None => output::print(&format!(
                "{played} runs are identical: {} events, trace {hash}\n",
                first.trace.events()
            ))?,
            Some(divergence) => output::print(&format!(
                "run {played} differs from the first in {}\n",
                divergence.to_string().replace(" / ", "\n  and\n  ")
            ))?,
        };
    }
    if let Some(violation) = &first.violation {
        say(&format!("{} breaks {}: {}", playable.name(), violation.oracle, violation.words));
    }
    let holds = divergence.is_none() && first.holds();
    Ok(if holds { Verdict::Holds } else { Verdict::Failed })
}
