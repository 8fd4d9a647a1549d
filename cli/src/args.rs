//! What may be typed.

use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::bail;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};

use crate::error::Verdict;
use crate::output;

/// What `moored` alone says.
pub const EXPLANATION: &str = "\
moored hosts ACP agent sessions over stdio, and gets their whole life right: start, settle, Stop, crash, restart,
reattach. Every conversation is journaled, and what happens to it is tried under simulation first.

Try it:
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
    Chat(Chat),
    /// Print the journal of a session, one line a row, times as offsets from its first row.
    Journal(Journal),
    /// List the sessions of a store.
    Ps(Ps),
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
    /// A value that the definition asks for, say where the agent keeps its sessions. May be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "agent")]
    pub values: Vec<String>,
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

/// The version, and the kernels on which this build can simulate.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let kernels = moored_sim::KernelKind::available().iter().map(ToString::to_string);
        let kernels: Vec<String> = kernels.collect();
        format!("{} (simulation kernels: {})", env!("CARGO_PKG_VERSION"), kernels.join(", "))
    })
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
