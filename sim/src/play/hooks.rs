//! An embedder's own code in a run: its callbacks around the host, and what they may use.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use moored::driver::Host;
use moored::host::{CallContext, Send as Message};
use moored::ids::{CallerId, MessageId, SessionId};
use moored::journal::{SendMode, Timeline};
use moored::platform::{BoxFuture, Mono};

use super::Stage;
use super::clients::Clients;
use super::hosts::Hosts;
use super::settle::is_at_rest;
use crate::kernel::{SharedKernel, caught};
use crate::oracles::Violation;
use crate::witness::SharedWitness;

/// Code of an embedder's.
pub type Callback = Arc<dyn Fn(Sim) -> BoxFuture<()> + Send + Sync>;

/// The embedder's code in a run.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Run once, outside every host's process, from the beginning; the first phase waits for them.
    pub drives: Vec<Callback>,
    /// Run inside each host's process once it is open, and gone with it.
    pub on_host: Vec<Callback>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hooks({} drives, {} on a host)", self.drives.len(), self.on_host.len())
    }
}

/// A run, as an embedder's code holds it.
#[derive(Clone)]
pub struct Sim {
    kernel: SharedKernel,
    witness: SharedWitness,
    hosts: Arc<Hosts>,
    clients: Arc<Clients>,
    sessions: Arc<[SessionId]>,
}

impl Sim {
    pub(super) fn of(stage: &Stage) -> Self {
        Self {
            kernel: Arc::clone(&stage.kernel),
            witness: Arc::clone(&stage.witness),
            hosts: Arc::clone(&stage.hosts),
            clients: Arc::clone(&stage.clients),
            sessions: stage.sessions.clone().into(),
        }
    }

    /// The host that is open; waits while there is none.
    pub async fn host(&self) -> Host {
        match self.hosts.current() {
            Some(current) => current.host,
            None => self.hosts.after(None).await.host,
        }
    }

    /// The n-th session, from 0.
    ///
    /// # Panics
    ///
    /// When the scenario has no such session.
    pub fn session(&self, n: usize) -> &SessionId {
        &self.sessions[n]
    }

    /// What a call of the test's own carries.
    pub fn context(&self, host: &Host) -> CallContext {
        host.call_context(CallerId::from("test"))
    }

    /// Sends a message to the n-th session and waits until it is on disk. `false` when it was refused or the host died.
    pub async fn send(&self, n: usize, id: &str, text: &str) -> bool {
        let host = self.host().await;
        let message = Message {
            message_id: MessageId::from(id),
            text: text.to_owned(),
            mode: SendMode::AfterTurn,
        };
        host.send(self.session(n), message, self.context(&host)).await.is_ok()
    }

    /// Presses Stop on the n-th session. `false` when it was refused or the host died.
    pub async fn stop(&self, n: usize) -> bool {
        let host = self.host().await;
        host.stop(self.session(n), moored::host::Stop::default(), self.context(&host)).await.is_ok()
    }

    /// What a watching client has of the n-th session.
    pub fn timeline(&self, n: usize) -> Timeline {
        self.clients.timeline(0, self.session(n))
    }

    /// Resolves once that client sees the n-th session at rest, or after `ms` of virtual time; tells which.
    pub async fn until_rest(&self, n: usize, ms: u64) -> bool {
        let session = self.session(n);
        self.clients.within(&self.kernel, ms, || is_at_rest(&self.clients, session)).await
    }

    /// Virtual time.
    pub fn now(&self) -> Mono {
        self.kernel.now()
    }

    /// Sleeps in virtual time.
    pub async fn sleep_ms(&self, ms: u64) {
        self.kernel.sleep_us(ms * 1_000).await;
    }

    /// A choice of the test's own: a number below `n`, 0 the benign one.
    pub fn choose(&self, n: u64) -> u64 {
        self.kernel.choose("workload.test", n)
    }

    /// What the test finds wrong.
    pub fn fail(&self, words: impl Into<String>) {
        self.witness.accuse(Violation {
            oracle: TEST_ORACLE.into(),
            rule: "the test's own".into(),
            words: words.into(),
            at: self.kernel.now(),
        });
    }
}

/// The oracle under whose name a test's own findings go.
pub const TEST_ORACLE: &str = "the-test";

/// Runs a callback to its end; its panic is what the test finds wrong.
pub(super) async fn judged(sim: Sim, mut callback: BoxFuture<()>) {
    let ended = poll_fn(|cx| match caught(|| callback.as_mut().poll(cx)) {
        Ok(polled) => polled.map(Ok),
        Err(words) => Poll::Ready(Err(words)),
    })
    .await;
    if let Err(words) = ended {
        sim.fail(words);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, Weak};

    use super::{Callback, Hooks};
    use crate::generate::generate;
    use crate::play::hosts::Hosts;
    use crate::play::{Playing, play};
    use crate::world::World;

    #[test]
    fn a_run_that_is_over_is_freed_whole() {
        type Parts = (Weak<Hosts>, Weak<World>);
        let met: Arc<Mutex<Vec<Parts>>> = Arc::default();
        let kept = Arc::clone(&met);
        let callback: Callback = Arc::new(move |sim| {
            let world = Arc::downgrade(sim.hosts.world());
            kept.lock().unwrap().push((Arc::downgrade(&sim.hosts), world));
            Box::pin(async {})
        });
        let hooks = Hooks { on_host: vec![callback], ..Hooks::default() };
        for seed in 0..40 {
            play(&generate(seed), &Playing { hooks: hooks.clone(), ..Playing::default() }).unwrap();
        }
        let met = met.lock().unwrap();
        assert!(met.len() >= 40, "each run has a host");
        for (hosts, world) in met.iter() {
            assert!(hosts.upgrade().is_none() && world.upgrade().is_none(), "a run is left behind");
        }
    }
}
