//! The layer on tokio and the operating system.
//!
//! Linux 5.4 or newer: the proof of a tree rests on subreapers and pidfds. A [`Native`] must be used inside a tokio
//! runtime with its I/O and time drivers enabled.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the layer: the real clock, the real runtime and real processes are reached here"
)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "moored's feature `native` is written for Linux only: on other systems no native adapter has been checked yet; \
     build with default-features = false for the core without processes"
);

mod child;
mod client;
mod lost;
pub(crate) mod procfs;
mod program;
mod tail;

use std::time::{Duration, Instant, SystemTime};

pub use procfs::{Liveness, boot_id, is_alive};
pub use program::{NativeError, SupervisorProgram};

use super::{
    BoxFuture, ChildSpec, FilePattern, FileTail, Mono, Platform, SpawnError, SpawnedChild,
};

/// The machine this program runs on.
#[derive(Debug)]
pub struct Native {
    born: Instant,
    boot: String,
    supervisor: program::Checked,
    looks: tail::Looks,
}

impl Native {
    /// Checks that `program` acts as a supervisor when it is asked to, once a process and program; nothing else is
    /// started. Blocks for as long as that program takes to answer.
    pub fn new(program: SupervisorProgram) -> Result<Self, NativeError> {
        let boot = boot_id().map_err(|e| NativeError::Boot { reason: e.to_string() })?;
        let supervisor = program::check(program)?;
        Ok(Self { born: Instant::now(), boot, supervisor, looks: tail::Looks::new() })
    }

    /// Which boot this machine is in: part of every identity that is stored.
    pub fn boot(&self) -> &str {
        &self.boot
    }
}

impl Platform for Native {
    fn now(&self) -> Mono {
        // CLOCK_MONOTONIC, which stands still while the machine sleeps (decision D7).
        Mono(u64::try_from(self.born.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn wall_ms(&self) -> u64 {
        // A clock before 1970 is displayed as 1970; nothing is decided by it.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep_until(&self, at: Mono) -> BoxFuture<()> {
        match self.born.checked_add(Duration::from_micros(at.0)) {
            Some(at) => Box::pin(tokio::time::sleep_until(at.into())),
            // Later than the clock can say.
            None => Box::pin(std::future::pending()),
        }
    }

    fn spawn_task(&self, _name: &'static str, task: BoxFuture<()>) {
        drop(tokio::spawn(task));
    }

    fn spawn_child(&self, spec: ChildSpec) -> BoxFuture<Result<SpawnedChild, SpawnError>> {
        let supervisor = self.supervisor.clone();
        let boot = self.boot.clone();
        Box::pin(async move {
            // A task of its own: a caller that goes away half-way must not leave a started child unowned.
            let start = tokio::spawn(child::start(supervisor, boot, spec));
            start.await.unwrap_or_else(|error| {
                Err(SpawnError::Supervisor { reason: format!("its start was cut short: {error}") })
            })
        })
    }

    fn read_tail(&self, pattern: FilePattern, bytes_max: u64) -> BoxFuture<FileTail> {
        Box::pin(self.looks.begin(pattern, bytes_max))
    }

    fn entropy(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
            .expect("the kernel gives up to 256 bytes without fail or interruption");
        bytes
    }
}
