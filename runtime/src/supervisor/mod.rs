//! The supervisor: a small process of ours between the host and one agent. It is the reaper of everything the agent
//! starts, obeys the host's ladder, and runs the same ladder by itself once the host is gone.
//!
//! An embedding program is its own supervisor: it calls [`run_if_asked`] first in `main`, and is run again with a
//! marker in its environment. What is to be started travels over a socket on the supervisor's stdin, never in its
//! arguments or environment.

#[cfg(feature = "native")]
mod control;
pub mod core;
#[cfg(feature = "native")]
mod process;
#[cfg(feature = "native")]
mod reaper;
#[cfg(feature = "native")]
pub(crate) mod wire;

#[cfg(feature = "native")]
pub use process::{run, run_if_asked};
