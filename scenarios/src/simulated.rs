//! Playing a document in the simulated world.

use std::sync::Arc;

use moored::session::ladder::Profile;
use moored::store::memory::{CommitVerdict, MemoryDisk, MemoryStore, StoreFaults};
use moored::store::{SharedStore, Unit};
use moored_fake_agents::Script;
use moored_sim::draws::{Source, Tape};
use moored_sim::kernel::{self, Ended, KernelKind, RunOptions, SharedKernel};
use moored_sim::trace::Keep;
use moored_sim::{SimPlatform, World, WorldOptions};

use crate::document::{AgentSource, Document};
use crate::stage::{PlayError, Played, Stage, play};
use moored_sim::agent::{PROGRAM, programs};

/// How long a commit of the simulated store takes at most, beyond a millisecond.
const COMMIT_US_MAX: u64 = 8_000;

/// How long a supervisor takes at most to leave once it is released.
const SUPERVISOR_LEAVES_US: u64 = 1_000_000;

/// How a document is simulated.
#[derive(Clone, Debug, Default)]
pub struct SimulatedRun {
    /// Which of the possible runs; none is the one in which nothing strays.
    pub seed: Option<u64>,
    /// What it stands on.
    pub kernel: KernelKind,
    /// Choices to replay instead of drawing them.
    pub tape: Option<Tape>,
    /// Keep the lines of the trace.
    pub trace: bool,
}

/// Plays `document` in simulation.
pub fn play_simulated(document: &Document, run: &SimulatedRun) -> Result<Played, PlayError> {
    let mut options = match (&run.tape, run.seed) {
        (Some(tape), _) => RunOptions::replay(tape.clone()),
        (None, Some(seed)) => RunOptions::seed(run.kernel, seed),
        (None, None) => RunOptions { source: Source::Benign, ..RunOptions::seed(run.kernel, 0) },
    };
    if run.trace {
        options = options.keeping(Keep::Lines);
    }
    let document = document.clone();
    let outcome = kernel::run(options, move |kernel| Box::pin(on_stage(document, kernel)))?;
    let words = |e: &Ended<_>| match e {
        Ended::Deadlock { waiting } => format!("nothing can happen any more: {waiting:?} wait"),
        Ended::Panicked { task, words } => format!("the task {task} panicked: {words}"),
        Ended::TooManySteps => "the run takes too many steps".to_owned(),
        Ended::TooMuchTime => "the run takes more than a day".to_owned(),
        Ended::Finished(_) => String::new(),
    };
    let ended = words(&outcome.ended);
    let mut played = match outcome.ended {
        Ended::Finished(played) => played?,
        _ => Played::ended_early(ended),
    };
    played.trace_hash = Some(outcome.trace.hash());
    played.order_hash = Some(outcome.trace.order_hash());
    played.trace = outcome.trace.lines().iter().map(ToString::to_string).collect();
    Ok(played)
}

async fn on_stage(document: Document, kernel: SharedKernel) -> Result<Played, PlayError> {
    let options = match document.profile {
        Profile::Posix => WorldOptions::default(),
        Profile::Win32 => WorldOptions::win32(),
    };
    let script = document.script().unwrap_or_default();
    let world = World::new(kernel, options, scripted(&document, script));
    let host = SimPlatform::start(&world, "host");
    let faults = Arc::new(SlowDisk(Arc::clone(world.kernel())));
    let (store, writer) = MemoryStore::open(&MemoryDisk::default(), "1", faults)?;
    moored::platform::Platform::spawn_task(&host, "store", writer);
    let store: SharedStore = Arc::new(store);
    let command = match &document.agent {
        AgentSource::Missing(program) => vec![program.clone()],
        _ => vec![PROGRAM.to_owned()],
    };
    let stage = Stage {
        document,
        platform: Arc::new(host.clone()),
        store,
        command,
        workspace: "/work".to_owned(),
        home: "/home/agent".to_owned(),
    };
    let mut played = play(stage).await?;
    // A released supervisor needs a moment to be gone.
    world.kernel().sleep_us(SUPERVISOR_LEAVES_US).await;
    // The oracle over the whole world: whatever was proven gone is gone.
    let left: Vec<_> =
        world.processes().into_iter().filter(|p| p.token.is_some() && p.is_alive()).collect();
    let told = played.failures.iter().any(|f| f.contains("proven"));
    if !left.is_empty() && !told {
        let names: Vec<_> = left.iter().map(|p| p.name.as_str()).collect();
        played.failures.push(format!("processes of the agent are left: {}", names.join(", ")));
    }
    Ok(played)
}

fn scripted(document: &Document, script: Script) -> moored_sim::Programs {
    match &document.agent {
        AgentSource::Missing(_) => moored_sim::Programs::default(),
        _ => programs(script),
    }
}

/// A disk that works, and takes its time.
struct SlowDisk(SharedKernel);

impl StoreFaults for SlowDisk {
    fn before_commit(&self, _units: &[&Unit]) -> moored::platform::BoxFuture<CommitVerdict> {
        let kernel = Arc::clone(&self.0);
        Box::pin(async move {
            let us = 1_000 + kernel.choose("store.commit_us", COMMIT_US_MAX);
            kernel.sleep_us(us).await;
            CommitVerdict::Commit
        })
    }
}

impl Played {
    fn ended_early(words: String) -> Self {
        Self {
            canonical: String::new(),
            rows: Vec::new(),
            wire: Vec::new(),
            frames: Vec::new(),
            statuses: Vec::new(),
            phases: Vec::new(),
            stops: Vec::new(),
            refused: Vec::new(),
            feed: Vec::new(),
            starts: 0,
            failures: vec![words],
            took_ms: 0,
            trace_hash: None,
            order_hash: None,
            trace: Vec::new(),
        }
    }
}
