//! Playing a document in the simulated world.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use moored::coverage::CoverageMarks;
use moored::session::ladder::Profile;
use moored::store::memory::{CommitVerdict, MemoryDisk, MemoryStore, StoreFaults};
use moored::store::{RetryReason, SharedStore, Unit};
use moored_fake_agents::Script;
use moored_sim::draws::{Source, Tape};
use moored_sim::kernel::{Ended, KernelKind, RunOptions, SharedKernel};
use moored_sim::oracles::{self, OWN_FAULTS, Violation};
use moored_sim::play::{Run, SeenPlatform, SeenStore, seen};
use moored_sim::scenario::NamedTurn;
use moored_sim::trace::Keep;
use moored_sim::witness::{Seen, SharedWitness};
use moored_sim::world::Sig;
use moored_sim::{SimPlatform, World, WorldOptions};

use crate::document::{Act, AgentSource, Document, Fault};
use crate::expect;
use crate::faults::Faults;
use moored_sim::agent::{PROGRAM, programs};

use crate::stage::{PlayError, Played, SESSION, SavedFiles, Stage, Strike, Tell, play};

/// The oracle of what a document says must come of it.
pub const EXPECTATIONS: &str = "expectations";

/// The agent's home.
const HOME: &str = "/home/agent";

/// How long a commit of the simulated store takes at most, beyond a millisecond.
const COMMIT_US_MAX: u64 = 8_000;

/// How long a supervisor takes at most to leave once it is released.
const SUPERVISOR_LEAVES_US: u64 = 1_000_000;

/// How a document is simulated.
#[derive(Clone, Debug, Default)]
pub struct SimulatedRun {
    /// Which of the possible runs; none is the one in which nothing strays. Beside a tape it seeds madsim alone.
    pub seed: Option<u64>,
    /// What it stands on.
    pub kernel: KernelKind,
    /// Choices to replay instead of drawing them.
    pub tape: Option<Tape>,
    /// Keep the lines of the trace.
    pub trace: bool,
    /// Make the run on the calling thread ([`RunOptions::in_place`]).
    pub in_place: bool,
}

/// Plays `document` in simulation.
pub fn play_simulated(document: &Document, run: &SimulatedRun) -> Result<Played, PlayError> {
    Ok(simulate(document, run)?.0)
}

/// Plays `document` in simulation, and gives beside what the player saw the run as the simulator tells of its own: what
/// does not hold is a violation, and the choices are on a tape.
pub fn simulate(document: &Document, run: &SimulatedRun) -> Result<(Played, Run), PlayError> {
    let seed = run.seed.unwrap_or(0);
    let source = match (&run.tape, run.seed) {
        (Some(tape), _) => Source::replay(tape.clone()),
        (None, Some(seed)) => Source::seed(seed),
        (None, None) => Source::Benign,
    };
    let keep = if run.trace { Keep::Lines } else { Keep::Hashes };
    let in_place = run.in_place;
    let options = RunOptions { source, keep, in_place, ..RunOptions::seed(run.kernel, seed) };
    let (about, keeps) = (document.clone(), run.trace);
    let (outcome, seen) = seen(options, oracles::all(), keeps, move |kernel, witness| {
        Box::pin(on_stage(about, kernel, witness))
    })?;
    let fallen = outcome.ended.fault();
    let oracle = if fallen.is_some() { OWN_FAULTS } else { EXPECTATIONS };
    let mut played = match outcome.ended {
        Ended::Finished(played) => played?,
        _ => Played::ended_early(fallen.unwrap_or_default()),
    };
    played.trace_hash = Some(outcome.trace.hash());
    played.order_hash = Some(outcome.trace.order_hash());
    played.trace = outcome.trace.lines().iter().map(ToString::to_string).collect();
    let rule = if document.tests.is_empty() { "-".to_owned() } else { document.tests.join(", ") };
    let unmet = (!played.failures.is_empty()).then(|| Violation {
        oracle: oracle.into(),
        rule: rule.into(),
        words: played.failures.join("; "),
        at: outcome.now,
    });
    if let Some(violation) = &seen.violation {
        let Violation { oracle, rule, words, at } = violation;
        played.failures.push(format!("{oracle} (rule {rule}) at {} ms: {words}", at.as_ms()));
    }
    let run = Run {
        // What a rule says comes before what the document says.
        violation: seen.violation.or(unmet),
        violation_entry: seen.violation_entry,
        tape: outcome.tape,
        entries: seen.entries,
        trace: outcome.trace,
        virtual_ms: outcome.now.as_ms(),
        met: played.met,
        world: seen.world,
        transitions: seen.transitions,
    };
    Ok((played, run))
}

async fn on_stage(
    document: Document,
    kernel: SharedKernel,
    witness: SharedWitness,
) -> Result<Played, PlayError> {
    let options = match document.profile {
        Profile::Posix => WorldOptions::default(),
        Profile::Win32 => WorldOptions::win32(),
    };
    let script = document.script().unwrap_or_default();
    let world = World::new(kernel, options, scripted(&document, script));
    world.attach(Arc::clone(&witness));
    let host = SimPlatform::start(&world, "host");
    let faults = Arc::new(Faults::default());
    let disk = SlowDisk {
        kernel: Arc::clone(world.kernel()),
        witness: Arc::clone(&witness),
        faults: Arc::clone(&faults),
    };
    let (store, writer) = MemoryStore::open(&MemoryDisk::default(), "1", Arc::new(disk))?;
    moored::platform::Platform::spawn_task(&host, "store", writer);
    let store = SeenStore::of_one(store, Arc::clone(world.kernel()), Arc::clone(&witness));
    let store: SharedStore = Arc::new(store);
    witness.see(&Seen::HostOpened { host: 0 });
    let command = match &document.agent {
        AgentSource::Missing(program) => vec![program.clone()],
        _ => vec![PROGRAM.to_owned()],
    };
    let stage = Stage {
        document,
        platform: Arc::new(SeenPlatform::of_one(host, Arc::clone(&witness), SESSION.into())),
        store,
        command,
        workspace: "/work".to_owned(),
        home: HOME.to_owned(),
        saved: saved_in(&world),
        faults,
        strike: striking(&world),
        tell: telling(witness),
    };
    let expect = stage.document.expect.clone();
    let mut played = play(stage).await?;
    // A released supervisor needs a moment to be gone.
    world.kernel().sleep_us(SUPERVISOR_LEAVES_US).await;
    // The oracle over the whole world: whatever was proven gone is gone.
    let left: Vec<_> =
        world.processes().into_iter().filter(|p| p.token.is_some() && p.is_alive()).collect();
    let told = played.unproven > 0;
    let names: Vec<_> = left.into_iter().map(|process| process.name).collect();
    played.failures.extend(expect::left(&expect, &names).filter(|_| !told));
    Ok(played)
}

/// Reads the agent's session files.
fn saved_in(world: &Arc<World>) -> SavedFiles {
    let world = Arc::clone(world);
    Box::new(move || {
        let folder = format!("{HOME}/sessions/");
        let files = world.files().into_iter().filter(|path| path.starts_with(&folder));
        files
            .filter_map(|path| Some(String::from_utf8_lossy(&world.file(&path)?).into_owned()))
            .collect()
    })
}

/// Somebody outside strikes a child's processes.
fn striking(world: &Arc<World>) -> Strike {
    let world = Arc::clone(world);
    Box::new(move |child, fault| {
        let (target, sig) = match fault {
            Fault::AgentFrozen => (Some(&child.root), Sig::Stop),
            Fault::AgentKilled => (Some(&child.root), Sig::Kill),
            Fault::SupervisorFrozen => (child.supervisor.as_ref(), Sig::Stop),
            _ => (None, Sig::Stop),
        };
        let target = target.ok_or("there is nobody to strike")?;
        world.strike(target, sig);
        Ok(())
    })
}

/// The witness hears of presses and closes: rules of Stop count them.
fn telling(witness: SharedWitness) -> Tell {
    let session = moored::ids::SessionId::from(SESSION);
    let calls = AtomicUsize::new(0);
    Box::new(move |act| {
        let act = match act {
            Act::Stop { .. } => {
                moored_sim::scenario::Act::Stop { session: 0, turn: NamedTurn::None }
            }
            Act::Close => moored_sim::scenario::Act::Close { session: 0 },
            Act::Evict => moored_sim::scenario::Act::Evict { session: 0 },
            _ => return,
        };
        let call = calls.fetch_add(1, Ordering::SeqCst);
        let (act, session) = (&act, &session);
        witness.see(&Seen::Called { call, host: 0, act, session, again: false, expects: None });
    })
}

fn scripted(document: &Document, script: Script) -> moored_sim::Programs {
    match &document.agent {
        AgentSource::Missing(_) => moored_sim::Programs::default(),
        _ => programs(script),
    }
}

/// A disk that takes its time, and works but for what the document says.
struct SlowDisk {
    kernel: SharedKernel,
    witness: SharedWitness,
    faults: Arc<Faults>,
}

impl StoreFaults for SlowDisk {
    fn before_commit(&self, _units: &[&Unit]) -> moored::platform::BoxFuture<CommitVerdict> {
        let (kernel, faults) = (Arc::clone(&self.kernel), Arc::clone(&self.faults));
        Box::pin(async move {
            let us = 1_000 + kernel.choose("store.commit_us", COMMIT_US_MAX);
            kernel.sleep_us(us).await;
            if faults.store_refuses() {
                return CommitVerdict::Refuse(RetryReason::Full);
            }
            CommitVerdict::Commit
        })
    }

    fn stored(&self, unit: &Unit) {
        self.witness.see(&Seen::Stored { host: 0, unit });
    }
}

impl Played {
    fn ended_early(words: String) -> Self {
        Self {
            canonical: String::new(),
            rows: Vec::new(),
            wire: Vec::new(),
            frames: Vec::new(),
            saved: Vec::new(),
            statuses: Vec::new(),
            phases: Vec::new(),
            edges: Vec::new(),
            notes: Vec::new(),
            unproven: 0,
            stops: Vec::new(),
            refused: Vec::new(),
            feed: Vec::new(),
            starts: 0,
            failures: vec![words],
            took_ms: 0,
            met: CoverageMarks::EMPTY,
            trace_hash: None,
            order_hash: None,
            trace: Vec::new(),
        }
    }
}
