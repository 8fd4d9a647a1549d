//! `moored` hosts ACP agent sessions and gets their whole life right: start, settle, Stop, crash, restart, reattach.
//!
//! A pure core, a thin driver, a swappable platform. The core (`wire`, `session`, `journal`, `status`, `host`) has no
//! clock, no I/O, no tasks, no randomness and no hash maps: time is a parameter, ids come in with the fact or command,
//! and what must be done goes out as an effect. The `driver` carries effects out over a `platform` and a `store`; the
//! same code runs on tokio in production and in the simulator's world.

pub mod agent;
pub mod coverage;
mod digest;
pub mod driver;
pub mod failure;
pub mod host;
pub mod ids;
pub mod journal;
pub mod limits;
#[cfg(not(feature = "planted-bugs"))]
mod planted;
#[cfg(feature = "planted-bugs")]
pub mod planted;
pub mod platform;
pub mod session;
pub mod status;
pub mod store;
pub mod supervisor;
pub mod wire;

#[doc(hidden)]
pub use digest::sha256_hex as digest_hex;
