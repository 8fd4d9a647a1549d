//! The supervisor as a program of its own, for hosts whose executable cannot be run again.

fn main() -> std::process::ExitCode {
    moored::supervisor::run()
}
