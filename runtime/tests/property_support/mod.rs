//! What the property tests share: how they are run, and histories of rows that could have been written.
#![allow(dead_code, reason = "each suite takes its own part")]

pub mod bodies;
pub mod history;

use proptest::test_runner::{Config, FileFailurePersistence};

/// What proptest takes when nobody says otherwise.
const STOCK_CASES: u32 = 256;

/// So many cases, or as many as `PROPTEST_CASES` asks for. What fails is kept in `file`, beside the test, and is tried
/// first from then on: commit it, with a test that tells the story.
pub fn kept(file: &'static str, cases: u32) -> Config {
    let stock = Config::default();
    let cases = if stock.cases == STOCK_CASES { cases } else { stock.cases };
    let persistence = FileFailurePersistence::Direct(file);
    Config { cases, failure_persistence: Some(Box::new(persistence)), ..stock }
}
