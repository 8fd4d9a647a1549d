//! Scenario documents: an agent, what a person does, and what must come of it.
//!
//! One document is played in simulation, over as many seeds as wanted, or with real processes and real pipes. The
//! player is the same code on both: it drives the library's own `Host` and sees what a client sees. What a run leaves is
//! its journal; the [canonical] form of it is what a simulated and a native run must agree on.

// The suites need all kernels; the library itself, and with it the command, builds without the cfg.
#[cfg(all(test, not(madsim)))]
compile_error!(
    "moored-scenarios needs --cfg madsim from .cargo/config.toml; an exported RUSTFLAGS (even an empty one) or another \
     working directory replaces it"
);

mod builtin;
pub mod canonical;
mod check;
pub mod document;
mod expect;
mod faults;
#[cfg(feature = "native")]
mod native;
mod playable;
mod simulated;
mod smaller;
mod stage;
pub mod sweep;
mod tap;
mod view;

pub use builtin::builtin;
pub use document::{Document, DocumentError};
#[cfg(feature = "native")]
pub use native::{NativeRun, play_native};
pub use playable::Playable;
pub use simulated::{EXPECTATIONS, SimulatedRun, play_simulated, simulate};
pub use smaller::{SmallerFailure, shrink_failure};
pub use stage::{Fed, PlayError, Played};
