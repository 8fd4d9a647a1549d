//! Clients: they watch every session, lag, lose their connection and come back with what they had, and load history that
//! they apply late. Whatever they do, what they hold must converge.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use moored::driver::WatchFrame;
use moored::ids::SessionId;
use moored::journal::Timeline;
use moored::platform::{Mono, Raced, Watched, race};
use moored::status::{StatusFrame, Summary};

use super::hosts::{Current, Hosts};
use crate::kernel::SharedKernel;
use crate::marks::WorldMark;
use crate::scenario::{ClientAct, Scenario};
use crate::witness::{HostNo, Seen, SharedWitness};
use crate::world::SharedWorld;

/// A client whose watch ended looks for it again after this.
const COME_BACK_US: u64 = 50_000;

#[derive(Default)]
struct Client {
    /// Takes no frame until then.
    paused_until: Mono,
    /// Has no connection until then.
    away_until: Mono,
    timelines: BTreeMap<SessionId, Timeline>,
    summaries: BTreeMap<SessionId, Summary>,
}

/// Every client of a run.
pub(super) struct Clients {
    kernel: SharedKernel,
    witness: SharedWitness,
    hosts: Arc<Hosts>,
    sessions: Vec<SessionId>,
    late_us_max: u64,
    clients: Vec<Mutex<Client>>,
    /// Counts frames that were folded, and what clients were told to do.
    changed: Watched<u64>,
    told: Watched<u64>,
}

impl Clients {
    pub(super) fn new(
        scenario: &Scenario,
        sessions: &[SessionId],
        hosts: &Arc<Hosts>,
    ) -> Arc<Self> {
        let world: &SharedWorld = hosts.world();
        Arc::new(Self {
            kernel: Arc::clone(world.kernel()),
            witness: Arc::clone(hosts.witness()),
            hosts: Arc::clone(hosts),
            sessions: sessions.to_vec(),
            late_us_max: scenario.options.client_us_max,
            clients: (0..scenario.options.clients).map(|_| Mutex::default()).collect(),
            changed: Watched::new(0),
            told: Watched::new(0),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.clients.len()
    }

    fn lock(&self, client: usize) -> MutexGuard<'_, Client> {
        self.clients[client].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Each watches every session, and the statuses of all.
    pub(super) fn start(self: &Arc<Self>) {
        for client in 0..self.count() {
            for session in &self.sessions {
                let (clients, session) = (Arc::clone(self), session.clone());
                let watch = async move { clients.watch(client, session).await };
                self.kernel.spawn("client", Box::pin(watch));
            }
            let clients = Arc::clone(self);
            let listen = async move { clients.listen(client).await };
            self.kernel.spawn("client statuses", Box::pin(listen));
        }
    }

    /// What a client has of a session.
    pub(super) fn timeline(&self, client: usize, session: &SessionId) -> Timeline {
        self.lock(client).timelines.get(session).cloned().unwrap_or_default()
    }

    /// Looks at what a client has of a session.
    pub(super) fn look<T>(
        &self,
        client: usize,
        session: &SessionId,
        look: impl FnOnce(&Timeline) -> T,
    ) -> T {
        let guard = self.lock(client);
        match guard.timelines.get(session) {
            Some(timeline) => look(timeline),
            None => look(&Timeline::default()),
        }
    }

    /// What a client was last told of a session.
    pub(super) fn summary(&self, client: usize, session: &SessionId) -> Option<Summary> {
        self.lock(client).summaries.get(session).cloned()
    }

    /// Resolves at the next change of what any client has.
    pub(super) async fn change(&self, since: u64) {
        self.changed.wait_for(|changed| *changed != since).await;
    }

    /// Counts the changes.
    pub(super) fn changes(&self) -> u64 {
        self.changed.get()
    }

    /// Resolves to `true` once it holds, looked at whenever a client's copy changes, and to `false` after `ms`.
    pub(super) async fn within(
        &self,
        kernel: &SharedKernel,
        ms: u64,
        holds: impl Fn() -> bool,
    ) -> bool {
        let until = kernel.now().plus_ms(ms);
        loop {
            let changes = self.changes();
            if holds() {
                return true;
            }
            if kernel.now() >= until {
                return false;
            }
            race(self.change(changes), kernel.sleep_until(until)).await;
        }
    }

    /// A client does something of its own.
    pub(super) async fn act(self: &Arc<Self>, client: usize, act: ClientAct) {
        if client >= self.count() {
            return;
        }
        let now = self.kernel.now();
        match act {
            ClientAct::Leave { ms } => self.lock(client).away_until = now.plus_ms(ms),
            ClientAct::Pause { ms } => self.lock(client).paused_until = now.plus_ms(ms),
            ClientAct::LoadLate { ms } => return self.load_late(client, ms).await,
        }
        self.told.update(|told| *told += 1);
    }

    async fn load_late(&self, client: usize, ms: u64) {
        let Some(current) = self.hosts.current() else { return };
        for session in &self.sessions {
            let Ok(snapshot) = current.host.snapshot(session).await else { continue };
            self.kernel.sleep_us(ms * 1_000).await;
            let as_of = snapshot.cursor.seq;
            let frame = WatchFrame::Snapshot(snapshot);
            let newer = self.fold(client, session, current.no, frame);
            if newer > as_of {
                self.witness.met_in_world(WorldMark::LateHistoryApplied);
            }
        }
    }

    /// Folds a frame; gives where the client's copy stands.
    fn fold(&self, client: usize, session: &SessionId, host: usize, frame: WatchFrame) -> u64 {
        self.witness.see(&Seen::Fed { client, session, host, frame: &frame });
        let at = {
            let mut guard = self.lock(client);
            let timeline = guard.timelines.entry(session.clone()).or_default();
            match frame {
                WatchFrame::Snapshot(snapshot) => timeline.apply_snapshot(snapshot),
                WatchFrame::Batch(batch) => timeline.apply_batch(batch),
                _ => {}
            }
            timeline.cursor().seq
        };
        self.changed.update(|changed| *changed += 1);
        at
    }

    async fn watch(self: Arc<Self>, client: usize, session: SessionId) {
        let mut last = None;
        loop {
            let current = self.connect(client, last).await;
            last = Some(current.no);
            if !self.look(client, &session, |timeline| timeline.items().is_empty()) {
                self.witness.met_in_world(WorldMark::ClientCameBack);
            }
            let mut watch = current.host.watch(&session);
            let mut wholes = 0;
            while let Some(frame) = self.take(client, current.no, watch.next()).await {
                if frame == WatchFrame::End {
                    break;
                }
                if matches!(frame, WatchFrame::Snapshot(_)) {
                    wholes += 1;
                    if wholes > 1 {
                        self.witness.met_in_world(WorldMark::ClientLagged);
                    }
                }
                self.fold(client, &session, current.no, frame);
            }
            drop(watch);
            self.kernel.sleep_us(COME_BACK_US).await;
        }
    }

    async fn listen(self: Arc<Self>, client: usize) {
        let mut last = None;
        loop {
            let current = self.connect(client, last).await;
            last = Some(current.no);
            let mut statuses = current.host.subscribe();
            while let Some(frame) = self.take(client, current.no, statuses.next()).await {
                self.witness.see(&Seen::Told { client, host: current.no, frame: &frame });
                let mut guard = self.lock(client);
                match frame {
                    StatusFrame::Snapshot { summaries } => {
                        guard.summaries =
                            summaries.into_iter().map(|s| (s.session_id.clone(), s)).collect();
                    }
                    StatusFrame::Status { summary } => {
                        guard.summaries.insert(summary.session_id.clone(), *summary);
                    }
                    _ => break,
                }
                drop(guard);
                self.changed.update(|changed| *changed += 1);
            }
            drop(statuses);
            self.kernel.sleep_us(COME_BACK_US).await;
        }
    }

    /// The host to talk to, once the client has its connection back; `last` is the one it had before.
    async fn connect(&self, client: usize, last: Option<HostNo>) -> Current {
        self.be_back(client).await;
        match self.hosts.current() {
            Some(current) => current,
            None => self.hosts.after(last).await,
        }
    }

    /// The next frame of a stream, in the client's own time; none once the stream, the connection or the host is gone.
    async fn take<T>(
        &self,
        client: usize,
        host: HostNo,
        next: impl Future<Output = Option<T>>,
    ) -> Option<T> {
        let mut next = pin!(next);
        let frame = loop {
            let told = self.told.get();
            let moved = race(self.told.wait_for(|t| *t != told), self.hosts.replaced(host));
            match race(moved, next.as_mut()).await {
                Raced::First(Raced::Second(())) => return None,
                Raced::First(_) if self.is_away(client) => return None,
                Raced::First(_) => {}
                Raced::Second(frame) => break frame,
            }
        };
        self.be_slow(client).await;
        frame
    }

    fn is_away(&self, client: usize) -> bool {
        self.lock(client).away_until > self.kernel.now()
    }

    async fn be_back(&self, client: usize) {
        loop {
            let until = self.lock(client).away_until;
            if until <= self.kernel.now() {
                return;
            }
            self.kernel.sleep_until(until).await;
        }
    }

    async fn be_slow(&self, client: usize) {
        if self.late_us_max > 0 {
            let us = self.kernel.choose("client.late_us", self.late_us_max);
            self.kernel.sleep_us(us).await;
        }
        loop {
            let until = self.lock(client).paused_until;
            let now = self.kernel.now();
            if until <= now {
                return;
            }
            let told = self.told.get();
            // A pause may be cut short.
            let cut = self.told.wait_for(|t| *t != told);
            race(cut, self.kernel.sleep_until(until)).await;
        }
    }

    /// Everybody is there and takes what comes.
    pub(super) fn heal(&self) {
        for client in 0..self.count() {
            let mut guard = self.lock(client);
            guard.away_until = Mono::ZERO;
            guard.paused_until = Mono::ZERO;
        }
        self.told.update(|told| *told += 1);
    }
}
