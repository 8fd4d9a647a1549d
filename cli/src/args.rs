//! What may be typed.

mod prove;

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::bail;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use moored_sim::KernelKind;

use crate::error::Verdict;
use crate::{output, scenario};

pub use prove::{Generate, Keep, Merge, Replay, ShardAsked, Shrink, Sweep};

/// What `moored` alone says.
pub const EXPLANATION: &str = "\
moored hosts ACP agent sessions over stdio, and gets their whole life right: start, settle, Stop, crash, restart,
reattach. Every conversation is journaled, and what happens to it is tried under simulation first.

Prove it:
  moored sweep                     every scenario over seeds, simulated, on all cores; a table at the end
  moored explore                   every order of a few messages, Stops and a crash, on the pure core
  moored replay [NAME] --seed N    one of those runs again, identically; or FILE, a failure that was written
  moored merge FILE...             one report of the parts of a sweep that many machines ran
  moored shrink FILE               the smallest run that still fails in the same way
  moored keep FILE                 a failure becomes a regression, replayed first from then on
  moored play FILE [--native]      a scenario document, in simulation or with real processes

Talk:
  moored chat                      talk to the built-in scripted agent
  moored chat -- omp acp           talk to a real agent, given after --
  moored chat --prompt 'hello'     one turn, for scripts

Look at what was kept:
  moored ps                        the sessions of the store
  moored journal SESSION           what happened in one, line by line

The store is --store DIR, else $MOORED_STORE, else $XDG_STATE_HOME/moored, else ~/.local/state/moored.
Every command takes --json. Exit status: 0 it holds, 1 something failed its check, 2 it could not run.
`moored help COMMAND` says more.
";

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "moored", version = version(), about = "Hosts ACP agent sessions, and proves that it does.")]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Hold a conversation with an agent, journaled.
    ///
    /// The agent is the command line after `--`; without one, a built-in scripted agent runs as a real process. Type a
    /// message and press Enter. Ctrl-C while the agent works is a Stop; Ctrl-C or Ctrl-D at rest closes the session.
    ///
    /// At a terminal the line to write on stays below what the agent says. Alt-Enter and pasted text make a message of
    /// several lines; Up brings back an earlier one. A message that is sent while a turn runs waits for its end, one that
    /// is sent while a Stop is under way runs after the stop. Each Ctrl-C is another Stop as long as anything runs or
    /// waits; a message that a Stop withdraws comes back to the line. With nothing to stop, Ctrl-C clears the line, and
    /// closes the session when there is nothing on it. Ctrl-D on an empty line closes at any time, and cuts a turn that
    /// runs; so do SIGTERM, SIGHUP and the end of the terminal. Ctrl-Z suspends.
    ///
    /// From a pipe each line is a turn, and the end of the pipe closes the session. SIGINT is a Stop while a turn runs, and
    /// closes the session at rest or when it comes again.
    Chat(Chat),
    /// Try every order of a small alphabet on the pure core, each state once: the first violation comes with the
    /// shortest way to it.
    ///
    /// Without a name: 2 messages, 2 Stops and 1 crash of the host, to 20 steps.
    Explore(Explore),
    /// Print the journal of a session, one line a row, times as offsets from its first row.
    Journal(Journal),
    /// Play a scenario document, in simulation or with real processes and real pipes.
    ///
    /// Prints the canonical journal, on which the two agree, and what of the document's expectations does not hold.
    Play(Play),
    /// List the sessions of a store.
    Ps(Ps),
    /// Run one scenario again, identically, and print its rows, its events or its timeline.
    ///
    /// FILE may be a failure that a sweep wrote, a scenario value or a scenario document. Without a name it is what the
    /// generator makes of the seed.
    Replay(Replay),
    /// The main job: run scenarios under simulation, over seeds, on all cores; print a table and every failure.
    ///
    /// Without names it sweeps everything: the generator over 10000 seeds, every built-in document over one in 5000
    /// of them on each kernel, and the kept failures first. Such a full sweep also fails when a coverage mark was never
    /// met; a narrowed one only reports that.
    Sweep(Sweep),
    /// Make one report of the parts that `moored sweep --shard I/N --report FILE` wrote.
    Merge(Merge),
    /// Make a failure a regression, which `moored sweep` and `cargo test` replay first from then on.
    Keep(Keep),
    /// Make a failure smaller: the least that still breaks the same oracle.
    Shrink(Shrink),
    /// Print the scenario that the generator makes of a seed.
    Generate(Generate),
}

/// Options of `moored chat`.
#[derive(Debug, Args)]
pub struct Chat {
    /// The state directory that keeps the journal.
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// A built-in agent definition by name, or one of your own in a JSON file.
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "persona")]
    pub agent: Option<String>,
    /// A value that the definition asks for, as `agent_dir=/home/me/.omp/agent`; may be given several times.
    #[arg(long = "value", value_name = "NAME=VALUE", value_parser = named_value, requires = "agent")]
    pub values: Vec<(String, String)>,
    /// Which scripted agent to talk to (`moored fake-agent --list` names them) [default: echo].
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub persona: Option<String>,
    /// Send this, wait for the end of its turn, close, and exit with 0 if the agent finished, else with 1.
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// The folder the agent works in [default: the current one].
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Print each commit of the session as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// The agent's program and its arguments.
    #[arg(last = true, value_name = "AGENT ARGS")]
    pub command: Vec<String>,
}

/// Options of `moored explore`.
#[derive(Debug, Args)]
pub struct Explore {
    /// A built-in alphabet (`--list` names them) [default: race].
    pub name: Option<String>,
    /// Go no deeper than this many steps [default: the alphabet's own; most go on until no state is left].
    #[arg(long, value_name = "N")]
    pub depth: Option<usize>,
    /// Messages, in place of the alphabet's own number.
    #[arg(long, value_name = "N")]
    pub sends: Option<u8>,
    /// Presses of Stop.
    #[arg(long, value_name = "N")]
    pub stops: Option<u8>,
    /// Crashes of the host.
    #[arg(long, value_name = "N")]
    pub crashes: Option<u8>,
    /// Pieces of text behind an answer.
    #[arg(long, value_name = "N")]
    pub late_updates: Option<u8>,
    /// Times the store refuses.
    #[arg(long, value_name = "N")]
    pub refusals: Option<u8>,
    /// Threads [default: one a core].
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// End after this time: `30s`, `5m`, `500ms`.
    #[arg(long = "for", value_name = "TIME", value_parser = time_ms)]
    pub time_ms: Option<u64>,
    /// Name the built-in alphabets.
    #[arg(long)]
    pub list: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// Options of `moored journal`.
#[derive(Debug, Args)]
pub struct Journal {
    /// The session's id, or as much of its beginning as names no other.
    pub session: String,
    /// The state directory that keeps the journal.
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Print one JSON document: the rows and the record.
    #[arg(long, conflicts_with = "raw")]
    pub json: bool,
    /// Print the rows as they are stored: one line of JSON each.
    #[arg(long)]
    pub raw: bool,
}

/// Options of `moored ps`.
#[derive(Debug, Args)]
pub struct Ps {
    /// The state directory to read.
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// Options of `moored play`.
#[derive(Debug, Args)]
pub struct Play {
    /// A scenario document, or the name of a built-in one.
    #[arg(value_name = "FILE|NAME")]
    pub scenario: String,
    /// Play it with real processes and real pipes.
    #[arg(long, conflicts_with_all = ["seed", "kernel"])]
    pub native: bool,
    /// Which of the possible runs [default: the one in which nothing strays].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// What the simulation stands on.
    #[arg(long, value_name = "KERNEL", value_parser = scenario::kernel)]
    pub kernel: Option<KernelKind>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

fn named_value(typed: &str) -> Result<(String, String), String> {
    let named = typed.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = named.ok_or_else(|| "give it as NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

fn seeds(typed: &str) -> Result<Range<u64>, String> {
    let hint = || "give a range as in 0..100".to_owned();
    let number = |text: &str| text.parse::<u64>().map_err(|_| hint());
    let range = match typed.split_once("..") {
        Some((first, end)) => number(first)?..number(end)?,
        None => 0..number(typed)?,
    };
    if range.is_empty() { Err("there is no seed in it".to_owned()) } else { Ok(range) }
}

fn time_ms(typed: &str) -> Result<u64, String> {
    let digits = typed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ms = match &typed[digits.len()..] {
        "ms" => Some(1),
        "s" | "" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let ms = unit_ms.and_then(|unit_ms: u64| digits.parse::<u64>().ok()?.checked_mul(unit_ms));
    ms.filter(|ms| *ms > 0).ok_or_else(|| "give a time as in 30s, 5m or 500ms".to_owned())
}

/// This build, and the kernels on which it can simulate.
pub fn build() -> String {
    let kernels: Vec<String> = KernelKind::available().iter().map(ToString::to_string).collect();
    format!("{} (simulation kernels: {})", env!("CARGO_PKG_VERSION"), kernels.join(", "))
}

fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(build)
}

/// What clap has to say: help and versions are answers, anything else is one line.
pub fn not_understood(told: &clap::Error) -> anyhow::Result<Verdict> {
    if matches!(told.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return output::print(&told.render().to_string());
    }
    let text = told.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    bail!("{}; `moored help` says what may be typed", first.trim_start_matches("error: ").trim());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        <Arguments as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn ranges_and_times_are_read_or_refused() {
        assert_eq!(seeds("3..7"), Ok(3..7));
        assert_eq!(seeds("7"), Ok(0..7));
        assert!(seeds("7..7").is_err() && seeds("a..b").is_err() && seeds("").is_err());
        assert_eq!(
            (time_ms("30s"), time_ms("2m"), time_ms("5ms")),
            (Ok(30_000), Ok(120_000), Ok(5))
        );
        assert_eq!(time_ms("3"), Ok(3_000));
        assert!(time_ms("0s").is_err() && time_ms("s").is_err() && time_ms("3h").is_err());
    }
}
