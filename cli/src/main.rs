//! The `moored` command.
fn main() {}
