//! The supervisor as a program, for the native player.
use std::process::ExitCode;

fn main() -> ExitCode {
    moored::supervisor::run()
}
