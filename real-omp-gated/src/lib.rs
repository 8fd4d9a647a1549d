//! Real agents under test, and the stub model server they talk to.
//!
//! The simulator proves the host against every interleaving it can think of; this crate asks the
//! real programs whether the simulator's picture of them is true. It runs real processes on real
//! pipes, so it is *gated*: an agent that is not installed is skipped with one line that says why,
//! never downloaded unasked, and never started with the user's own home, configuration or
//! credentials (`docs/real-agents.md`).
//!
//! - [`stub_model`]: a deterministic model server on loopback; the prompt itself names the scenario
//!   it wants.
//! - [`real_agent`]: finding or installing an agent, and the sandbox it runs in.
//! - [`recording`]: a recorded Stop as a scripted agent, with what came of it.

pub mod real_agent;
pub mod recording;
pub mod stub_model;

pub use real_agent::{Approval, Kind, RealAgent, Sandbox, Skipped};
pub use stub_model::StubModel;
