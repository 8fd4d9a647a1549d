//! A scripted agent, as a program the tests of this crate can name.

use std::process::ExitCode;

fn main() -> ExitCode {
    moored_fake_agents::main_with_args(std::env::args_os().skip(1))
}
