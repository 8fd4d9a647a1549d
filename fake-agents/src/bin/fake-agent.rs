//! The fake-agent program: a scripted ACP agent as a real process.

use std::process::ExitCode;

fn main() -> ExitCode {
    moored_fake_agents::main_with_args(std::env::args_os().skip(1))
}
