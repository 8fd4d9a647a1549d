//! The scripted agent, as a program the tests can name.

use std::process::ExitCode;

fn main() -> ExitCode {
    moored_fake_agents::main_with_args(std::env::args_os().skip(1))
}
