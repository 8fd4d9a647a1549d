//! The session's machine: child, handshake, turns, sends, Stop, permissions, reattach. Pure.

mod append;
mod barrier;
mod break_off;
mod child;
mod defects;
mod deliver;
mod digest;
mod effect;
mod encoding;
mod ending;
mod exit;
mod gone;
pub mod ladder;
mod machine;
mod misread;
mod permission;
mod persisted;
mod phase;
pub mod record;
mod restore;
mod serializer;
mod settings;
mod settle;
mod start;
mod stop;
mod text;
mod timers;
mod turn;
mod update;

pub use crate::journal::STOP_NOTE;
pub use defects::{Defects, Fault};
pub use effect::*;
pub use machine::Session;
pub use phase::{ChildStands, Queued, SessionPhase};
pub use settings::Policy;

#[cfg(test)]
mod tests;
