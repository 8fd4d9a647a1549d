//! `moored play` and `moored replay`: one run of one scenario, in simulation or with real processes.

#![expect(clippy::disallowed_methods, reason = "a binary knows where it is itself")]

use anyhow::Context;
use moored::platform::native::SupervisorProgram;
use moored_scenarios::canonical::journal_lines;
use moored_scenarios::{Document, NativeRun, Played, SimulatedRun, play_native, play_simulated};
use serde_json::json;

use crate::args::{Play, Replay};
use crate::error::{Verdict, say};
use crate::{fake_agent, output, scenario};

/// Plays a scenario document, and prints the journal that simulated and native runs agree on.
pub fn run(options: &Play) -> anyhow::Result<Verdict> {
    scenario::keep_simulated_panics_quiet();
    let document = scenario::find(&options.scenario)?;
    let played = match options.native {
        true => play_native(&document, &native_run()?),
        false => {
            let kernel = options.kernel.unwrap_or_default();
            let run = SimulatedRun { seed: options.seed, kernel, ..SimulatedRun::default() };
            play_simulated(&document, &run)
        }
    };
    let played = played.with_context(|| format!("{} cannot be played", document.name))?;
    let text = played.canonical.clone();
    report(&document, &played, &text, options.json)
}

/// Plays a scenario under one seed again, and prints each row, or with `--trace` each event.
pub fn replay(options: &Replay) -> anyhow::Result<Verdict> {
    scenario::keep_simulated_panics_quiet();
    let document = scenario::find(&options.scenario)?;
    let run = SimulatedRun {
        seed: Some(options.seed),
        kernel: options.kernel.unwrap_or_default(),
        trace: options.trace,
        ..SimulatedRun::default()
    };
    let played = play_simulated(&document, &run)
        .with_context(|| format!("{} cannot be played", document.name))?;
    let text = match options.trace {
        true => played.trace.iter().map(|line| format!("{line}\n")).collect(),
        false => journal_lines(&played.rows),
    };
    report(&document, &played, &text, options.json)
}

/// This very program is the agent and its supervisor.
fn native_run() -> anyhow::Result<NativeRun> {
    let program = std::env::current_exe().context("this program cannot find itself")?;
    let agent_program = vec![program.display().to_string(), fake_agent::WORD.to_owned()];
    Ok(NativeRun { agent_program, supervisor: SupervisorProgram::ThisExecutable, state_dir: None })
}

fn report(
    document: &Document,
    played: &Played,
    text: &str,
    as_json: bool,
) -> anyhow::Result<Verdict> {
    let holds = played.failures.is_empty();
    match as_json {
        true => output::print_json(&json!({
            "scenario": document.name,
            "holds": holds,
            "failures": played.failures,
            "canonical": played.canonical.lines().collect::<Vec<_>>(),
            "wire": played.wire,
            "statuses": played.statuses,
            "refused": played.refused,
            "rows": played.rows,
            "took_ms": played.took_ms,
            "trace_hash": played.trace_hash.map(|hash| format!("{hash:016x}")),
            "trace": played.trace,
        }))?,
        false => output::print(text)?,
    };
    for failure in &played.failures {
        say(&format!("{} fails: {failure}", document.name));
    }
    Ok(if holds { Verdict::Holds } else { Verdict::Failed })
}
