//! The driver: the tasks around the pure core, and the handle an embedder holds.
//!
//! One task for the host, one for each session, three for each child. Each machine has one caller, its task; tasks meet
//! in bounded queues and never wait for one another's machines. Everything of the outside comes through
//! [`crate::platform`] and [`crate::store`], so the same tasks run in production and in a simulated world.

mod child;
mod config;
mod events;
mod feed;
mod handle;
mod host_task;
mod met;
#[cfg(feature = "native")]
mod native;
mod open;
mod session_task;
mod streams;
#[cfg(feature = "native")]
mod thread;

pub use config::*;
pub use handle::{Host, Unproven};
#[cfg(feature = "native")]
pub use native::NativeHost;
pub use streams::{StatusStream, Watch, WatchFrame};

use crate::platform::Platform;

/// The observation point of a session whose task was lost to a fault of our own. A trace may hold its words; a log never
/// does.
pub const SESSION_FAILED: &str = "session.failed";

/// Sixteen fresh bytes in lower-case hexadecimal.
fn hex_id(platform: &dyn Platform) -> String {
    crate::digest::hex(&platform.entropy())
}
