//! `moored play`: one run of one scenario document, in simulation or with real processes.

#![expect(clippy::disallowed_methods, reason = "a binary knows where it is itself")]

use anyhow::Context;
use moored::platform::native::SupervisorProgram;
use moored_scenarios::{Document, NativeRun, Played, SimulatedRun, play_native, play_simulated};
use serde_json::json;

use crate::args::Play;
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
    let mut text = played.canonical.clone();
    for name in &played.refused {
        text.push_str(&format!("refused {name}\n"));
    }
    report(&document, &played, &text, options.json)
}

/// This very program is the agent and its supervisor.
fn native_run() -> anyhow::Result<NativeRun> {
    let program = std::env::current_exe().context("this program cannot find itself")?;
    let agent_program = vec![program.display().to_string(), fake_agent::WORD.to_owned()];
    Ok(NativeRun { agent_program, supervisor: SupervisorProgram::ThisExecutable, state_dir: None })
}

/// Prints what a document left: `text`, or everything as JSON.
pub fn report(
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
