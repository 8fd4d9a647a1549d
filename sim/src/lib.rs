//! The deterministic world in which `moored`'s shipping code is run.
//!
//! A run is a [`kernel`] (who runs next, what time it is), a [`world`] on it (processes, pipes, signals, files, clocks)
//! and a [`SimPlatform`] in the world, which is all the library sees. Whatever could go otherwise is a recorded choice
//! ([`draws`]), so that a run is a value: the same seed or the same tape gives the same trace, to the bit.
//!
//! ```
//! use moored::platform::Platform;
//! use moored_sim::kernel::{self, KernelKind, RunOptions};
//! use moored_sim::{Programs, SimPlatform, World, WorldOptions};
//!
//! let run = |seed| {
//!     kernel::run(RunOptions::seed(KernelKind::Tape, seed), |kernel| {
//!         Box::pin(async move {
//!             let world = World::new(kernel, WorldOptions::default(), Programs::default());
//!             let host = SimPlatform::start(&world, "host");
//!             moored::platform::sleep_ms(&host, 1_000).await;
//!             host.now().as_ms()
//!         })
//!     })
//! };
//! assert_eq!(run(1)?.trace.hash(), run(1)?.trace.hash());
//! # Ok::<(), kernel::RunError>(())
//! ```

pub mod agent;
pub mod conformance;
pub mod draws;
pub mod embed;
pub mod explore;
pub mod failure;
pub mod generate;
pub mod kernel;
pub mod marks;
pub mod oracles;
mod platform;
pub mod play;
pub mod scenario;
pub mod shrink;
pub mod timeline;
pub mod trace;
pub mod witness;
pub mod world;

pub use kernel::{KernelKind, RunOptions, SharedKernel};
pub use platform::SimPlatform;
pub use world::{ProcessHandle, Programs, SharedWorld, World, WorldOptions};

/// Makes a test that is played over seeds: see [`embed`].
pub use moored_sim_macros::test;
