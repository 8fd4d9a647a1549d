//! Status: the summary of each session, its derivation from the journal, and the fold clients use. Pure.

mod derive;
mod fold;
mod summary;

pub use derive::*;
pub use fold::*;
pub use summary::*;
