//! Status: the summary of each session, its derivation from the journal, and the fold clients use. Pure.

mod summary;

pub use summary::*;
