//! The host's machine: registry, operation ledger, host start, quit. Pure.

mod api;

pub use api::*;
