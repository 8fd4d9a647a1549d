//! The swappable layer under the driver: clock, timers, tasks, processes, entropy.
//!
//! `native` implements it on tokio and the operating system, the simulator on its own world. The driver and everything
//! above reach the machine only through here; the lint lists hold them to it. The trait is object safe on purpose: a
//! `Host` is one type, whatever it runs on.

mod file;
#[cfg(feature = "native")]
pub mod native;
mod process;
mod race;
mod tasks;
mod time;
mod watched;

pub use file::{FilePattern, FileTail, PathComponent, PatternPart};
pub use process::*;
pub use race::{Raced, race, when};
pub use tasks::{AbortHandle, Task, TaskError, Tasks, spawn};
pub use time::{Elapsed, Moment, Mono, sleep_ms, timeout};
pub use watched::Watched;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::coverage::CoverageMark;
use crate::session::SessionPhase;

/// A boxed future of the layer.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// The layer, as everything above it holds it.
pub type SharedPlatform = Arc<dyn Platform>;

/// What the driver may ask of the machine it runs on.
pub trait Platform: Send + Sync + 'static {
    /// Monotonic time that does not count suspended time (decision D7).
    fn now(&self) -> Mono;

    /// Milliseconds since the Unix epoch. Displayed and stored only; nothing is ever decided by it (decision D7).
    fn wall_ms(&self) -> u64;

    /// Resolves at or after `at`.
    fn sleep_until(&self, at: Mono) -> BoxFuture<()>;

    /// Runs a task to its end. Names are mandatory: they are what a trace shows.
    fn spawn_task(&self, name: &'static str, task: BoxFuture<()>);

    /// Starts an agent under its supervisor with piped stdio.
    fn spawn_child(&self, spec: ChildSpec) -> BoxFuture<Result<SpawnedChild, SpawnError>>;

    /// Reads the last `bytes_max` bytes of the one file that is as `pattern` says.
    fn read_tail(&self, pattern: FilePattern, bytes_max: u64) -> BoxFuture<FileTail>;

    /// Sixteen fresh random bytes: ids and tokens are minted from them.
    fn entropy(&self) -> [u8; 16];

    /// An observation point: free in production, the trace in simulation.
    fn event(&self, _what: &'static str, _detail: fmt::Arguments<'_>) {}

    /// Whether [`Platform::stepped`] is to be told; asked before each step, because what it is told costs a little.
    fn observes_steps(&self) -> bool {
        false
    }

    /// A session's machine was told something: where it stood, what it was told, where it stands.
    fn stepped(&self, _before: SessionPhase, _fact: &'static str, _after: SessionPhase) {}

    /// A rare branch of a rule was met: told once by each machine, free in production.
    fn met(&self, _mark: CoverageMark) {}
}
