//! The client of version 1, frozen: the readers of rows, views and summaries, and the folds over them, as they were before
//! any later field existed. It is compiled in tests only and names nothing of today's library.
//!
//! Do not change it: what it cannot read, a client that was not updated cannot read either.

#![allow(dead_code, missing_docs, reason = "a whole client is kept, not only what a test calls")]

pub mod facts;
pub mod ids;
pub mod item;
pub mod row;
pub mod statuses;
pub mod summary;
pub mod timeline;
pub mod view;
