//! The supervisor of the library, as a program the tests can name.

use std::process::ExitCode;

fn main() -> ExitCode {
    moored::supervisor::run()
}
