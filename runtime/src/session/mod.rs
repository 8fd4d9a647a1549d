//! The session's machine: child, handshake, turns, sends, Stop, permissions, reattach. Pure.

mod effect;
pub mod ladder;
mod machine;
pub mod record;
mod settings;

pub use effect::*;
pub use machine::Session;
pub use settings::Policy;
