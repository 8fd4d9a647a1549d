//! Playing a scenario: hosts, persons, clients and faults around the library's shipping code, in two phases.
//!
//! First anything may go wrong. Then the faults are over, agents that start behave, and every session must come to rest
//! in bounded virtual time; at last a new message must be answered, or be refused by a name that says why.

mod clients;
mod faults;
mod hooks;
mod hosts;
mod people;
mod platform;
mod settle;
mod store;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use moored::coverage::CoverageMarks;
use moored::ids::SessionId;
use moored::platform::BoxFuture;
use moored::store::memory::MemoryDisk;

use crate::draws::Tape;
use crate::kernel::{self, KernelKind, Outcome, RunError, RunOptions, SharedKernel};
use crate::marks::{WorldMark, WorldMarks};
use crate::oracles::{self, Oracle, Violation};
use crate::scenario::{Scenario, Trigger};
use crate::timeline::Entry;
use crate::trace::{Keep, Trace};
use crate::witness::{SharedWitness, Testimony, Witness};
use crate::world::{SharedWorld, World};

pub use hooks::{Callback, Hooks, Sim, TEST_ORACLE};
use hosts::Hosts;
pub use platform::SeenPlatform;
pub use store::SeenStore;

/// Virtual time in which nothing at all is done after which the first phase is over, though some triggers never fired.
/// Longer than any window of the library's.
pub const QUIET_MS: u64 = 9_000;
/// The first phase is over after this in any case.
pub const FAULTY_MS_MAX: u64 = 600_000;
/// Waits longer than this do not count as simulated time.
pub const COUNTED_WAIT_MS_MAX: u64 = 60_000;

/// How a scenario is played, beside itself.
#[derive(Clone, Debug, Default)]
pub struct Playing {
    /// What of the trace is kept.
    pub keep: Keep,
    /// Keep the timeline.
    pub timeline: bool,
    /// The embedder's own code.
    pub hooks: Hooks,
    /// The bug that is planted in the library.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<moored::planted::PlantedBug>,
}

/// How a scenario went.
#[derive(Clone, Debug)]
pub struct Run {
    /// What does not hold; none if everything does.
    pub violation: Option<Violation>,
    /// Where in the timeline that is.
    pub violation_entry: Option<usize>,
    /// Every choice that was made.
    pub tape: Tape,
    /// The trace.
    pub trace: Trace,
    /// How much virtual time passed.
    pub virtual_ms: u64,
    /// The library's rare branches that were met.
    pub met: CoverageMarks,
    /// The world's own.
    pub world: WorldMarks,
    /// The session machine's transitions that were seen, by their digests.
    pub transitions: BTreeSet<u64>,
    /// The timeline's entries, if they were kept.
    pub entries: Vec<Entry>,
}

impl Run {
    /// Whether everything held.
    pub fn holds(&self) -> bool {
        self.violation.is_none()
    }
}

/// Plays a scenario with every oracle.
pub fn play(scenario: &Scenario, playing: &Playing) -> Result<Run, RunError> {
    play_with(scenario, playing, oracles::all())
}

/// Plays a scenario with these oracles.
pub fn play_with(
    scenario: &Scenario,
    playing: &Playing,
    oracles: Vec<Box<dyn Oracle>>,
) -> Result<Run, RunError> {
    let options = RunOptions {
        source: scenario.source.clone(),
        madsim_seed: scenario.options.madsim_seed,
        pick: scenario.options.pick,
        keep: playing.keep,
        ..RunOptions::seed(scenario.options.kernel, 0)
    };
    let (scenario, playing) = (Arc::new(scenario.clone()), playing.clone());
    let (outcome, testimony) = seen(options, oracles, playing.timeline, move |kernel, witness| {
        Box::pin(async move { Stage::new(kernel, scenario, playing, witness).run().await })
    })?;
    Ok(finish(outcome, testimony))
}

/// Runs `body` before a witness. Its words outlive a run that ends in a panic or a deadlock.
pub fn seen<T, F>(
    options: RunOptions,
    oracles: Vec<Box<dyn Oracle>>,
    keeps: bool,
    body: F,
) -> Result<(Outcome<T>, Testimony), RunError>
where
    T: Send + 'static,
    F: FnOnce(SharedKernel, SharedWitness) -> BoxFuture<T> + Send + 'static,
{
    let place: Arc<OnceLock<SharedWitness>> = Arc::default();
    let kept = Arc::clone(&place);
    let outcome = kernel::run(options, move |kernel| {
        let witness = Witness::new(Arc::clone(&kernel), oracles, keeps);
        let _ = kept.set(Arc::clone(&witness));
        body(kernel, witness)
    })?;
    let testimony = place.get().map(|witness| witness.testify()).unwrap_or_default();
    Ok((outcome, testimony))
}

fn finish(outcome: Outcome<()>, testimony: Testimony) -> Run {
    let Outcome { ended, tape, trace, now, .. } = outcome;
    let fallen = ended.fault().map(|words| Violation::own_fault(words, now));
    Run {
        violation: testimony.violation.or(fallen),
        violation_entry: testimony.violation_entry,
        tape,
        trace,
        virtual_ms: now.as_ms(),
        met: testimony.met,
        world: testimony.world,
        transitions: testimony.transitions,
        entries: testimony.entries,
    }
}

/// Of what is planned: how much is done, and for how much the trigger has fired.
#[derive(Clone)]
struct Progress(moored::platform::Watched<(usize, usize)>);

impl Default for Progress {
    fn default() -> Self {
        Self(moored::platform::Watched::new((0, 0)))
    }
}

/// Everything a run is made of.
struct Stage {
    kernel: SharedKernel,
    scenario: Arc<Scenario>,
    world: SharedWorld,
    witness: SharedWitness,
    hosts: Arc<Hosts>,
    sessions: Vec<SessionId>,
    clients: Arc<clients::Clients>,
    hooks: Hooks,
}

impl Stage {
    fn new(
        kernel: SharedKernel,
        scenario: Arc<Scenario>,
        playing: Playing,
        witness: SharedWitness,
    ) -> Self {
        let programs = crate::agent::programs(scenario.script.clone());
        let world = World::new(Arc::clone(&kernel), scenario.options.world.clone(), programs);
        world.attach(Arc::clone(&witness));
        if scenario.options.keep_background {
            witness.leaves_background();
        }
        if scenario.options.world.is_win32() {
            witness.met_in_world(WorldMark::Win32World);
        }
        if scenario.options.kernel == KernelKind::Madsim {
            witness.met_in_world(WorldMark::MadsimScheduled);
        }
        let sessions: Vec<SessionId> =
            (1..=scenario.options.sessions).map(|n| SessionId(format!("s{n}"))).collect();
        let hosts = Hosts::new(&world, &scenario, &playing, MemoryDisk::default());
        let clients = clients::Clients::new(&scenario, &sessions, &hosts);
        let hooks = playing.hooks;
        Self { kernel, scenario, world, witness, hosts, sessions, clients, hooks }
    }

    async fn run(self) {
        let _hooked = self.hosts.hook(self.hooks.on_host.clone(), hooks::Sim::of(&self));
        self.hosts.watch_for_deaths();
        if self.hosts.open().await.is_none() {
            return;
        }
        for session in &self.sessions {
            self.hosts.create(session).await;
        }
        self.clients.start();
        let (people, faults) = (people::People::new(&self), faults::Faults::new(&self));
        let people = Arc::new(people);
        let done = Progress::default();
        let planned =
            self.scenario.actions.len() + self.scenario.faults.len() + self.hooks.drives.len();
        for drive in &self.hooks.drives {
            let sim = hooks::Sim::of(&self);
            let driven = drive(sim.clone());
            self.when(Trigger::at_start(), &done, hooks::judged(sim, driven));
        }
        for action in &self.scenario.actions {
            let (people, act) = (Arc::clone(&people), action.act.clone());
            self.when(action.when, &done, async move { people.act(&act).await });
        }
        for planned in &self.scenario.faults {
            let (faults, fault) = (faults.clone(), planned.fault);
            self.when(planned.when, &done, async move { faults.strike(fault).await });
        }
        self.until_quiet(&done, planned).await;
        settle::settle(&self, &people).await;
    }

    /// Does something once its trigger has fired; a run that is broken already does no more.
    fn when(
        &self,
        trigger: Trigger,
        progress: &Progress,
        act: impl Future<Output = ()> + Send + 'static,
    ) {
        let (kernel, witness, progress) =
            (Arc::clone(&self.kernel), Arc::clone(&self.witness), progress.clone());
        self.kernel.spawn(
            "planned",
            Box::pin(async move {
                if let Some(event) = trigger.event {
                    witness.after(event, trigger.nth).await;
                }
                progress.0.update(|(_, fired)| *fired += 1);
                kernel.sleep_us(trigger.then.as_us()).await;
                if !witness.facts_healed() && !witness.is_broken() {
                    act.await;
                }
                progress.0.update(|(done, _)| *done += 1);
            }),
        );
    }

    /// Until everything planned is done, or nothing happens any more that could set the rest off.
    async fn until_quiet(&self, progress: &Progress, planned: usize) {
        let began = self.kernel.now();
        let mut last = (u64::MAX, self.kernel.now());
        loop {
            self.kernel.sleep_us(1_000_000).await;
            let now = self.kernel.now();
            let seen = self.witness.seen();
            if seen != last.0 {
                last = (seen, now);
            }
            let quiet_ms = now.as_ms() - last.1.as_ms();
            let (done, fired) = progress.0.get();
            let over = done == planned && quiet_ms >= 1_000;
            let late = now.as_ms() - began.as_ms() >= FAULTY_MS_MAX;
            // Somebody may be about to do something, however quiet it is.
            let nothing_comes = done == fired && quiet_ms >= QUIET_MS;
            if over || nothing_comes || late || self.witness.is_broken() {
                return;
            }
        }
    }
}
