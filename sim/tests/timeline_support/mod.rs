//! What the tests of the timeline share.

#[cfg(unix)]
pub mod browser;
mod sample;

pub use sample::{entry, sample};
