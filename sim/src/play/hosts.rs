//! The hosts of a run: opened, crashed, ended and opened again on one store.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use moored::agent::AgentDefinition;
use moored::driver::{Host, HostConfig, HostLimits};
use moored::host::NewSession;
use moored::ids::{CallerId, SessionId};
use moored::platform::{Platform, SharedPlatform, Watched};
use moored::session::Policy;
use moored::store::SharedStore;
use moored::store::memory::{MemoryDisk, MemoryStore};
use tokio::sync::{mpsc, oneshot};

use super::platform::SeenPlatform;
use super::store::{Dies, DiskFaults, HostDisk, SeenStore};
use super::{Callback, Playing, Sim};
use crate::SimPlatform;
use crate::agent::PROGRAM;
use crate::scenario::Scenario;
use crate::witness::{HostNo, Seen, SharedWitness};
use crate::world::SharedWorld;

/// How long a host may take to end: its own bound, and the time its last commits take.
const END_MS_MAX: u64 = 60_000;

/// A host that is open.
#[derive(Clone)]
pub(super) struct Current {
    pub(super) no: HostNo,
    pub(super) host: Host,
}

struct Process {
    no: HostNo,
    /// Once it is open.
    host: Option<Host>,
    platform: SimPlatform,
    store: Arc<MemoryStore>,
    crashing: Arc<AtomicBool>,
}

impl Process {
    /// The operating system ends it: its tasks, its ends of pipes, its lock.
    fn end(&self) {
        self.store.die();
        self.platform.crash();
    }
}

/// All hosts of a run.
pub(super) struct Hosts {
    world: SharedWorld,
    witness: SharedWitness,
    config: HostConfig,
    definition: AgentDefinition,
    pub(super) disk: MemoryDisk,
    pub(super) faults: DiskFaults,
    commit_us_max: u64,
    opened: AtomicUsize,
    /// The host that got the store last. One from before it can commit nothing any more.
    owner: Mutex<Option<HostNo>>,
    /// Hosts whose processes live, oldest first.
    processes: Mutex<Vec<Process>>,
    /// The one that persons and clients talk to.
    current: Watched<Option<Current>>,
    dies: mpsc::UnboundedSender<Dies>,
    deaths: Mutex<Option<mpsc::UnboundedReceiver<Dies>>>,
    /// Starts of a host that are on their way.
    coming: Watched<usize>,
    hooks: Mutex<Option<(Vec<Callback>, Sim)>>,
}

/// The embedder's code is hooked in until this is dropped.
pub(super) struct Hooked(Arc<Hosts>);

impl Drop for Hooked {
    fn drop(&mut self) {
        let hooks = self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Not under the lock: it may be the last that holds the hosts.
        drop(hooks);
    }
}

impl Hosts {
    pub(super) fn new(
        world: &SharedWorld,
        scenario: &Scenario,
        playing: &Playing,
        disk: MemoryDisk,
    ) -> Arc<Self> {
        let options = &scenario.options;
        let mut policy = Policy::stock(options.world.profile);
        policy.ladder.keep_background = options.keep_background;
        #[cfg(feature = "planted-bugs")]
        {
            policy.planted = playing.planted;
        }
        #[cfg(not(feature = "planted-bugs"))]
        let _ = playing;
        let limits =
            HostLimits { watch_frames_max: options.watch_frames_max, ..HostLimits::default() };
        let (dies, deaths) = mpsc::unbounded_channel();
        #[expect(clippy::expect_used, reason = "a world has its witness before it has hosts")]
        let witness = Arc::clone(world.witness().expect("a world has its witness"));
        Arc::new(Self {
            world: Arc::clone(world),
            witness,
            config: HostConfig { policy, limits, check_invariants: true },
            definition: definition(scenario),
            disk,
            faults: DiskFaults::default(),
            commit_us_max: options.commit_us_max,
            opened: AtomicUsize::new(0),
            owner: Mutex::default(),
            processes: Mutex::default(),
            current: Watched::new(None),
            dies,
            deaths: Mutex::new(Some(deaths)),
            coming: Watched::new(0),
            hooks: Mutex::default(),
        })
    }

    /// From now on the embedder's code runs in every host's process once it is open, as long as what is returned is kept:
    /// a `Sim` holds the hosts, and they would hold each other for ever.
    pub(super) fn hook(self: &Arc<Self>, callbacks: Vec<Callback>, sim: Sim) -> Hooked {
        *self.hooks.lock().unwrap_or_else(PoisonError::into_inner) = Some((callbacks, sim));
        Hooked(Arc::clone(self))
    }

    fn run_hooks(&self, platform: &SimPlatform) {
        let hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (callback, sim) in
            hooks.iter().flat_map(|(all, sim)| all.iter().map(move |one| (one, sim)))
        {
            let judged = super::hooks::judged(sim.clone(), callback(sim.clone()));
            platform.spawn_task("callback", Box::pin(judged));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn world(&self) -> &SharedWorld {
        &self.world
    }

    pub(super) fn witness(&self) -> &SharedWitness {
        &self.witness
    }

    /// Whether that host's process lives.
    pub(super) fn is_there(&self, no: Option<HostNo>) -> bool {
        self.lock().iter().any(|process| Some(process.no) == no)
    }

    /// Whether another host has taken the store of that one, even one that died at once: then it is closed for good to it
    /// (decisions D8, D35).
    pub(super) fn lost_its_store(&self, no: HostNo) -> bool {
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner) != Some(no)
    }

    /// The host that persons and clients talk to now.
    pub(super) fn current(&self) -> Option<Current> {
        self.current.get()
    }

    /// The next host to talk to that is not `last`.
    pub(super) async fn after(&self, last: Option<HostNo>) -> Current {
        let newer = |c: &Option<Current>| c.as_ref().is_some_and(|c| Some(c.no) != last);
        loop {
            if let Some(current) = self.current.wait_for(newer).await {
                return current;
            }
        }
    }

    /// Resolves once persons and clients talk to another host than `no`.
    pub(super) async fn replaced(&self, no: HostNo) {
        let other = |c: &Option<Current>| c.as_ref().is_some_and(|c| c.no != no);
        self.current.wait_for(other).await;
    }

    /// Starts a host process and opens its host. `None` when it is refused or dies meanwhile.
    pub(super) async fn open(self: &Arc<Self>) -> Option<Current> {
        self.coming.update(|coming| *coming += 1);
        let opened = self.open_one().await;
        self.coming.update(|coming| *coming -= 1);
        opened
    }

    async fn open_one(self: &Arc<Self>) -> Option<Current> {
        let no = self.opened.fetch_add(1, Ordering::Relaxed);
        let platform = SimPlatform::start(&self.world, "host");
        let crashing = Arc::new(AtomicBool::new(false));
        let faults = HostDisk {
            host: no,
            kernel: Arc::clone(self.world.kernel()),
            witness: Arc::clone(&self.witness),
            faults: self.faults.clone(),
            commit_us_max: self.commit_us_max,
            dies: self.dies.clone(),
        };
        let holder = crate::world::tag(platform.identity().pid);
        let (inner, writer) = match MemoryStore::open(&self.disk, &holder, Arc::new(faults)) {
            Ok(opened) => opened,
            Err(error) => {
                self.witness.see(&Seen::HostRefused { reason: &error.to_string() });
                platform.crash();
                return None;
            }
        };
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner) = Some(no);
        platform.spawn_task("store", writer);
        let witness = Arc::clone(&self.witness);
        let inner = Arc::new(inner);
        let process = Process {
            no,
            host: None,
            platform: platform.clone(),
            store: Arc::clone(&inner),
            crashing: Arc::clone(&crashing),
        };
        let store: SharedStore = Arc::new(SeenStore {
            inner,
            host: no,
            kernel: Arc::clone(self.world.kernel()),
            faults: self.faults.clone(),
            witness,
        });
        let seen: SharedPlatform = Arc::new(SeenPlatform {
            inner: platform.clone(),
            witness: Arc::clone(&self.witness),
            host: no,
            session: None,
            crashing: Arc::clone(&crashing),
        });
        self.lock().push(process);
        let (sender, opened) = oneshot::channel();
        let opening = Host::open_on(seen, store, self.config.clone());
        // In the host's own process: if that dies meanwhile, so does the opening.
        platform.spawn_task("open", Box::pin(async move { drop(sender.send(opening.await)) }));
        match opened.await {
            Ok(Ok(host)) => self.is_open(no, host, &platform),
            Ok(Err(error)) => {
                self.witness.see(&Seen::HostRefused { reason: &error.to_string() });
                self.take(no).iter().for_each(Process::end);
                None
            }
            Err(_) => None,
        }
    }

    /// A host has opened: from now on it is the one to talk to, unless it died before anybody heard of it.
    fn is_open(&self, no: HostNo, host: Host, platform: &SimPlatform) -> Option<Current> {
        self.lock().iter_mut().find(|process| process.no == no)?.host = Some(host.clone());
        self.witness.see(&Seen::HostOpened { host: no });
        let current = Current { no, host };
        self.current.update(|place| *place = Some(current.clone()));
        self.run_hooks(platform);
        Some(current)
    }

    /// Makes a session, as often as it takes while hosts come and go.
    pub(super) async fn create(&self, session: &SessionId) {
        let Some(Current { host, .. }) = self.current() else { return };
        let new = NewSession {
            id: session.clone(),
            agent: self.definition.clone(),
            workspace: format!("/sessions/{session}"),
        };
        let context = host.call_context(CallerId::from("person"));
        // Refused only where the scenario makes it so; the calls that follow are then refused by name.
        let _ = host.create(new, context).await;
    }

    /// Kills the newest host's process. `false` when there is none.
    pub(super) fn crash(&self) -> bool {
        let newest = self.lock().last().map(|process| process.no);
        newest.is_some_and(|no| self.crash_one(no))
    }

    /// Kills one host's process.
    fn crash_one(&self, no: HostNo) -> bool {
        let Some(process) = self.take(no) else { return false };
        self.forget(no);
        process.crashing.store(true, Ordering::Relaxed);
        self.witness.see(&Seen::HostCrashed { host: no });
        process.end();
        true
    }

    fn take(&self, no: HostNo) -> Option<Process> {
        let mut processes = self.lock();
        let at = processes.iter().position(|process| process.no == no)?;
        Some(processes.remove(at))
    }

    fn forget(&self, no: HostNo) {
        self.current.update(|place| {
            if place.as_ref().is_some_and(|current| current.no == no) {
                *place = None;
            }
        });
    }

    /// Asks the newest host to end, and waits for it. `None` when there is none; else whether it ended in its time.
    pub(super) async fn end(&self) -> Option<bool> {
        let (no, host) = self.lock().last().and_then(|p| Some((p.no, p.host.clone()?)))?;
        // Persons and clients go on to talk to it until it has ended.
        let ended = {
            let late = self.world.kernel().sleep_us(END_MS_MAX * 1_000);
            match moored::platform::race(host.shutdown(), late).await {
                moored::platform::Raced::First(ended) => Some(ended),
                moored::platform::Raced::Second(()) => None,
            }
        };
        self.forget(no);
        // It may have been killed meanwhile.
        let process = self.take(no)?;
        if let Some(ended) = &ended {
            let unproven = ended.as_ref().err().map_or(0, |unproven| unproven.sessions.len());
            self.witness.see(&Seen::HostEnded { host: no, unproven });
        }
        process.crashing.store(ended.is_none(), Ordering::Relaxed);
        process.end();
        Some(ended.is_some())
    }

    /// Opens a host again after a while, unless another is there by then.
    pub(super) async fn come_back(self: &Arc<Self>, after_ms: u64) {
        self.coming.update(|coming| *coming += 1);
        self.world.kernel().sleep_us(after_ms * 1_000).await;
        if self.lock().is_empty() {
            self.open().await;
        }
        self.coming.update(|coming| *coming -= 1);
    }

    /// Hosts whose store told them to die do so.
    pub(super) fn watch_for_deaths(self: &Arc<Self>) {
        let deaths = self.deaths.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut deaths) = deaths else { return };
        let hosts = Arc::clone(self);
        self.world.kernel().spawn(
            "deaths",
            Box::pin(async move {
                while let Some(Dies { host, restart_ms }) = deaths.recv().await {
                    if hosts.crash_one(host) {
                        hosts.come_back(restart_ms).await;
                    }
                }
            }),
        );
    }

    /// Resolves once no start of a host is on its way.
    pub(super) async fn nobody_is_coming(&self) {
        self.coming.wait_for(|coming| *coming == 0).await;
    }

    /// Every host's process.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }
}

/// The agent's definition: the generic one with the scenario's fields.
fn definition(scenario: &Scenario) -> AgentDefinition {
    let mut definition = AgentDefinition::generic(vec![PROGRAM.to_owned()]);
    if !scenario.options.definition.is_empty()
        && let Ok(serde_json::Value::Object(mut fields)) = serde_json::to_value(&definition)
    {
        fields.extend(scenario.options.definition.clone());
        if let Ok(changed) = serde_json::from_value(serde_json::Value::Object(fields)) {
            definition = changed;
        }
    }
    let home = moored_fake_agents::HOME_VARIABLE.to_owned();
    definition.pin_env.entry(home).or_insert_with(|| "/home/agent".to_owned());
    definition
}
