//! Status: the summary of each session, its derivation from the journal, and what clients make of it: the fold over the
//! stream, what a session reads as, the rows of lists. Pure.

mod derive;
mod display;
mod fold;
mod row;
mod summary;

pub use derive::*;
pub use display::*;
pub use fold::*;
pub use row::*;
pub use summary::*;

#[cfg(test)]
mod tests;
