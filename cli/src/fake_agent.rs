//! The scripted agents, played by this very program: `moored fake-agent --persona NAME` is what `moored chat` starts
//! when no other agent is named, so that no second program has to be found.

use std::process::ExitCode;

/// The hidden first argument.
pub const WORD: &str = "fake-agent";
/// The first argument of what a scripted agent forks: this very program again.
const FORKED: &str = "--child";

/// The scripted agent's whole life, if this process was started as one.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1).peekable();
    if args.peek()? == WORD {
        args.next();
    } else if args.peek()? != FORKED {
        return None;
    }
    Some(moored_fake_agents::main_with_args(args))
}
