//! The supervisor of the library, as a program the tests of this crate can name.

use std::process::ExitCode;

fn main() -> ExitCode {
    moored::supervisor::run()
}
