//! The `moored` command: conversations through the library, and the simulator that proves it.

mod args;
mod chat;
mod error;
mod explore;
mod fake_agent;
mod files;
mod generate;
mod journal;
mod keep;
mod merge;
mod output;
mod play;
mod ps;
mod replay;
mod scenario;
mod shrink;
mod store_dir;
mod stored;
mod sweep;
mod words;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};
use error::Verdict;

/// Sweeps are mostly small allocations that live for one step: a third fewer CPU seconds with this one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // First, since the same program is run again as its own agents' supervisor.
    moored::supervisor::run_if_asked();
    if let Some(code) = fake_agent::run_if_asked() {
        return code;
    }
    let outcome = match Arguments::try_parse() {
        Ok(arguments) => run(arguments),
        Err(told) => args::not_understood(&told),
    };
    error::exit_code(outcome)
}

fn run(arguments: Arguments) -> anyhow::Result<Verdict> {
    match arguments.command {
        None => output::print(args::EXPLANATION),
        Some(Command::Chat(options)) => chat::run(options),
        Some(Command::Explore(options)) => explore::run(&options),
        Some(Command::Journal(options)) => journal::run(&options),
        Some(Command::Play(options)) => play::run(&options),
        Some(Command::Ps(options)) => ps::run(&options),
        Some(Command::Replay(options)) => replay::run(&options),
        Some(Command::Sweep(options)) => sweep::run(&options),
        Some(Command::Merge(options)) => merge::run(&options),
        Some(Command::Keep(options)) => keep::run(&options),
        Some(Command::Shrink(options)) => shrink::run(&options),
        Some(Command::Generate(options)) => generate::run(&options),
    }
}
