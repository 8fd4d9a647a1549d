//! The world: one simulated machine. Processes, pipes, signals, files and clocks, on any kernel.
//!
//! Everything that could go otherwise is a choice of the kernel, with 0 benign: all-benign is the world in which
//! nothing is late, refused or cut. Nothing here knows of sessions or of a protocol; what runs in the world is
//! `moored`'s shipping code on one side and scripted programs on the other.

mod clock;
mod control;
mod first;
mod job;
mod options;
mod pipe;
mod process;
mod signals;
mod supervisor;
mod table;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use moored::platform::{BoxFuture, Exit, ProcessIdentity, Watched};

use crate::kernel::SharedKernel;
use crate::marks::WorldMark;
use crate::witness::{Seen, SharedWitness};

pub use options::WorldOptions;
pub(crate) use pipe::EndCloser;
pub use pipe::{PIPE_BYTES_MAX, ReadEnd, WriteEnd, pipe, pipe_ending_late};
pub use process::{Fork, ForkPlace, ProcessHandle, Stream};
pub use signals::{Sig, SignalError};
pub use table::{INIT_PID, PID_FIRST, PROCESSES_MAX, ProcessRow, ProcessState, Table};

pub use control::REPORTS_MAX;
pub(crate) use control::{AgentEnds, Starter, supervised};
pub use job::TREE_KILL_MS_MAX;
pub(crate) use job::in_a_job;
pub(crate) use process::StartedWith;

/// A world, as everything in it holds it.
pub type SharedWorld = Arc<World>;

/// What a program does: an async body over its process, returning the exit code.
pub type Program = Arc<dyn Fn(ProcessHandle) -> BoxFuture<i32> + Send + Sync>;

/// The programs there are, by the name a command begins with.
#[derive(Clone, Default)]
pub struct Programs(BTreeMap<String, Program>);

impl Programs {
    /// The same programs and one more.
    #[must_use]
    pub fn with<F>(
        mut self,
        name: &str,
        body: impl Fn(ProcessHandle) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = i32> + Send + 'static,
    {
        self.0.insert(name.to_owned(), Arc::new(move |process| Box::pin(body(process))));
        self
    }

    /// The program of that name.
    pub fn find(&self, name: &str) -> Option<Program> {
        self.0.get(name).cloned()
    }
}

/// How often each kind of event has happened.
#[derive(Clone, Debug, Default)]
struct Counts {
    all: u64,
    by_kind: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disposition {
    Handled,
    Ignored,
}

/// What a living process has besides its row.
struct Life {
    scope: SharedKernel,
    /// It runs no code any more, and will be a zombie soon.
    dying: bool,
    /// Tasks that were to run while it may not.
    gate: Vec<Waker>,
    dispositions: BTreeMap<Sig, Disposition>,
    /// Handled signals it has not taken yet; one of a kind at most, as standard signals are.
    pending: VecDeque<Sig>,
    /// Signals that will end it once it is continued.
    held: Vec<Sig>,
    signal_waiters: Vec<Waker>,
    stdin: Option<ReadEnd>,
    stdout: Option<WriteEnd>,
    stderr: Option<WriteEnd>,
    exit: Watched<Option<Exit>>,
    /// Counts dead children.
    children: Watched<u64>,
}

struct State {
    table: Table,
    lives: BTreeMap<u32, Life>,
    next_pid: u32,
    freed_pids: VecDeque<u32>,
    last_start: u64,
    next_job: u32,
    boot: u32,
    files: BTreeMap<String, Vec<u8>>,
    missing_folders: BTreeSet<String>,
    wall_offset_ms: i64,
    entropy_blocks: u64,
}

/// One simulated machine.
pub struct World {
    kernel: SharedKernel,
    options: WorldOptions,
    /// The same machine once its faults are over.
    healed: WorldOptions,
    is_healed: AtomicBool,
    programs: Programs,
    state: Mutex<State>,
    counts: Watched<Counts>,
    witness: OnceLock<SharedWitness>,
}

/// The name every supervisor's process has.
pub(crate) const SUPERVISOR: &str = "supervisor";

/// A process number, short enough to read.
pub(crate) struct Tag(pub u32);

/// A process number, short enough to read.
pub(crate) fn tag(pid: u32) -> String {
    Tag(pid).to_string()
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0.wrapping_sub(PID_FIRST))
    }
}

/// A process to be put into the table.
struct Newborn {
    parent: u32,
    /// `None` leads a group of its own.
    group: Option<u32>,
    /// `None` leads a session of its own.
    session: Option<u32>,
    name: String,
    subreaper: bool,
    reaps_by_itself: bool,
    job: Option<u32>,
    token: Option<String>,
    /// It is the agent itself: what every verdict calls the root.
    root: bool,
    dispositions: BTreeMap<Sig, Disposition>,
    stdin: Option<ReadEnd>,
    stdout: Option<WriteEnd>,
    stderr: Option<WriteEnd>,
}

impl Newborn {
    fn new(parent: u32, name: &str) -> Self {
        Self {
            parent,
            group: None,
            session: None,
            name: name.to_owned(),
            subreaper: false,
            reaps_by_itself: false,
            job: None,
            token: None,
            root: false,
            dispositions: BTreeMap::new(),
            stdin: None,
            stdout: None,
            stderr: None,
        }
    }
}

impl World {
    /// A machine that has just booted.
    pub fn new(kernel: SharedKernel, options: WorldOptions, programs: Programs) -> SharedWorld {
        let world = Arc::new(Self {
            kernel,
            healed: options.healed(),
            is_healed: AtomicBool::new(false),
            options,
            programs,
            witness: OnceLock::new(),
            state: Mutex::new(State {
                table: Table::default(),
                lives: BTreeMap::new(),
                next_pid: PID_FIRST,
                freed_pids: VecDeque::new(),
                last_start: 0,
                next_job: 0,
                boot: 1,
                files: BTreeMap::new(),
                missing_folders: BTreeSet::new(),
                wall_offset_ms: 0,
                entropy_blocks: 0,
            }),
            counts: Watched::new(Counts::default()),
        });
        world.start_init();
        world
    }

    fn start_init(self: &Arc<Self>) {
        let init =
            Newborn { subreaper: true, reaps_by_itself: true, ..Newborn::new(INIT_PID, "init") };
        let (identity, _) = self.admit(init);
        assert_eq!(identity.pid, INIT_PID, "init is the first process of a boot");
    }

    /// The kernel it stands on: choices, time and tasks of whoever belongs to no process.
    pub fn kernel(&self) -> &SharedKernel {
        &self.kernel
    }

    /// How far this world may stray now.
    pub fn options(&self) -> &WorldOptions {
        if self.is_healed.load(Ordering::Relaxed) { &self.healed } else { &self.options }
    }

    /// From now on nothing is refused any more and whoever was frozen runs on. Delays stay.
    pub fn heal(self: &Arc<Self>) {
        self.is_healed.store(true, Ordering::Relaxed);
        let frozen: Vec<_> = {
            let state = self.lock();
            let stopped = state.table.rows().filter(|row| row.state == ProcessState::Stopped);
            stopped.map(|row| row.identity.clone()).collect()
        };
        frozen.iter().for_each(|process| self.strike(process, Sig::Cont));
    }

    /// Whether the faults are over.
    pub fn is_healed(&self) -> bool {
        self.is_healed.load(Ordering::Relaxed)
    }

    /// From now on a witness is told what happens here; the first one stays.
    pub fn attach(&self, witness: SharedWitness) {
        let _ = self.witness.set(witness);
    }

    /// The witness, if there is one.
    pub fn witness(&self) -> Option<&SharedWitness> {
        self.witness.get()
    }

    pub(crate) fn see(&self, seen: &Seen<'_>) {
        if let Some(witness) = self.witness.get() {
            witness.see(seen);
        }
    }

    /// The programs there are.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Which boot process numbers belong to.
    pub fn boot(&self) -> String {
        format!("boot-{}", self.lock().boot)
    }

    /// Notes an event: in the trace, and for whoever waits for it.
    pub fn note(&self, what: &'static str, detail: fmt::Arguments<'_>) {
        self.kernel.trace(what, detail);
        self.counts.update(|counts| {
            counts.all += 1;
            *counts.by_kind.entry(what).or_default() += 1;
        });
    }

    /// Resolves once `n` events of a kind have happened. Faults and user actions hang on events and not on times, so
    /// that they keep their meaning while a failing run is made smaller.
    pub async fn after(&self, what: &'static str, n: u64) {
        self.counts.until(|counts| counts.by_kind.get(what).copied().unwrap_or(0) >= n).await;
    }

    /// Resolves once `n` events of any kind have happened.
    pub async fn after_any(&self, n: u64) {
        self.counts.until(|counts| counts.all >= n).await;
    }

    /// How many events of a kind have happened.
    pub fn count(&self, what: &'static str) -> u64 {
        self.counts.look(|counts| counts.by_kind.get(what).copied().unwrap_or(0))
    }

    /// Every process, in order of their numbers; init is one of them.
    pub fn processes(&self) -> Vec<ProcessRow> {
        self.lock().table.rows().cloned().collect()
    }

    /// The process of that identity, if it is still in the table.
    pub fn process(&self, identity: &ProcessIdentity) -> Option<ProcessRow> {
        self.lock().table.row(identity.pid).filter(|row| row.identity == *identity).cloned()
    }

    /// Whether the process of that identity lives. A zombie does not.
    pub fn is_alive(&self, identity: &ProcessIdentity) -> bool {
        self.process(identity).is_some_and(|row| row.is_alive())
    }

    /// The living processes that carry a spawn token, in order of their numbers.
    pub fn living_with_token(&self, token: &str) -> Vec<ProcessRow> {
        let carries = |row: &&ProcessRow| row.is_alive() && row.token.as_deref() == Some(token);
        self.lock().table.rows().filter(carries).cloned().collect()
    }

    /// A file's bytes.
    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.lock().files.get(path).cloned()
    }

    /// Puts a file there whole.
    pub fn put_file(&self, path: &str, bytes: Vec<u8>) {
        self.lock().files.insert(path.to_owned(), bytes);
    }

    /// Every file's path, in order.
    pub fn files(&self) -> Vec<String> {
        self.lock().files.keys().cloned().collect()
    }

    /// From now on this folder cannot be entered.
    pub fn remove_folder(&self, path: &str) {
        self.lock().missing_folders.insert(path.to_owned());
    }

    pub(crate) fn is_folder_missing(&self, path: &str) -> bool {
        self.lock().missing_folders.contains(path)
    }

    /// The whole machine loses its power: every process is gone at once, and numbers of this boot mean nothing more.
    /// Files stay.
    pub fn lose_power(self: &Arc<Self>) {
        let (lives, dead) = {
            let mut state = self.lock();
            state.boot += 1;
            let alive = state.table.rows().filter(|row| row.is_alive());
            let dead = alive.map(|row| row.identity.clone()).collect();
            state.table = Table::default();
            state.freed_pids.clear();
            state.next_pid = PID_FIRST;
            (std::mem::take(&mut state.lives), dead)
        };
        let rows: Vec<ProcessIdentity> = dead;
        for life in lives.into_values() {
            life.scope.kill_scope();
        }
        self.note("machine.power_loss", format_args!(""));
        for identity in &rows {
            self.see(&Seen::ProcessEnded { identity, exit: &Exit::Signal(Sig::Kill.number()) });
        }
        self.start_init();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of a body is caught by the kernel and ends the run; the state is then only read for the report.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a newborn its number and its scope.
    fn admit(&self, newborn: Newborn) -> (ProcessIdentity, SharedKernel) {
        let scope = self.kernel.child_scope(&newborn.name);
        let newborn_is_root = newborn.root;
        let reused = {
            let has_freed = !self.lock().freed_pids.is_empty();
            has_freed && self.kernel.one_in("process.pid_reused", self.options().pid_reused_one_in)
        };
        let now = self.kernel.now();
        let mut state = self.lock();
        let pid = match reused.then(|| state.freed_pids.pop_front()).flatten() {
            Some(pid) => pid,
            None => {
                state.next_pid += 1;
                state.next_pid - 1
            }
        };
        // Two holders of one number never share a start.
        state.last_start = now.0.max(state.last_start + 1);
        let identity = ProcessIdentity { pid, start: state.last_start };
        state.table.insert(ProcessRow {
            identity: identity.clone(),
            parent: if pid == INIT_PID { INIT_PID } else { newborn.parent },
            group: newborn.group.unwrap_or(pid),
            session: newborn.session.unwrap_or(pid),
            name: newborn.name,
            state: ProcessState::Running,
            subreaper: newborn.subreaper,
            reaps_by_itself: newborn.reaps_by_itself,
            job: newborn.job,
            token: newborn.token,
        });
        state.lives.insert(
            pid,
            Life {
                scope: Arc::clone(&scope),
                dying: false,
                gate: Vec::new(),
                dispositions: newborn.dispositions,
                pending: VecDeque::new(),
                held: Vec::new(),
                signal_waiters: Vec::new(),
                stdin: newborn.stdin,
                stdout: newborn.stdout,
                stderr: newborn.stderr,
                exit: Watched::new(None),
                children: Watched::new(0),
            },
        );
        let row = state.table.row(pid).cloned();
        drop(state);
        if let Some(row) = row {
            let (parent, group) = (Tag(row.parent), Tag(row.group));
            self.note(
                "process.start",
                format_args!("{} {} of {parent} in {group}", Tag(pid), row.name),
            );
            self.see(&Seen::ProcessStarted {
                identity: &row.identity,
                name: &row.name,
                token: row.token.as_deref(),
                root: newborn_is_root,
            });
        }
        if reused && let Some(witness) = self.witness.get() {
            witness.met_in_world(WorldMark::PidReused);
        }
        (identity, scope)
    }

    /// A host's own process: it has no body, only tasks; what it starts it reaps through the platform layer.
    pub(crate) fn admit_host(&self, name: &str) -> (ProcessIdentity, SharedKernel) {
        self.admit(Newborn { reaps_by_itself: true, ..Newborn::new(INIT_PID, name) })
    }

    /// From now on the process runs nothing; it is gone a little later, for death takes time.
    fn begin_death(self: &Arc<Self>, identity: &ProcessIdentity, exit: Exit, takes_us: u64) {
        {
            let mut state = self.lock();
            let is_it = state.table.row(identity.pid).is_some_and(|row| row.identity == *identity);
            match state.lives.get_mut(&identity.pid) {
                Some(life) if is_it && !life.dying => life.dying = true,
                _ => return,
            }
        }
        let (world, identity) = (Arc::clone(self), identity.clone());
        let wait = self.kernel.sleep_us(takes_us);
        self.kernel.spawn(
            "death",
            Box::pin(async move {
                wait.await;
                world.end_process(&identity, exit);
            }),
        );
    }

    /// The process is gone: its pipe ends are closed first, then its children have a new parent and its parent a dead
    /// child, in the operating system's order.
    pub(crate) fn end_process(&self, identity: &ProcessIdentity, exit: Exit) {
        let life = {
            let mut state = self.lock();
            if state.table.row(identity.pid).is_none_or(|row| row.identity != *identity) {
                return;
            }
            state.lives.remove(&identity.pid)
        };
        let Some(Life { scope, stdin, stdout, stderr, exit: told, .. }) = life else { return };
        scope.kill_scope();
        drop((stdin, stdout, stderr));
        self.note("process.end", format_args!("{} {exit:?}", Tag(identity.pid)));
        self.see(&Seen::ProcessEnded { identity, exit: &exit });
        let mut parents = Vec::new();
        {
            let mut state = self.lock();
            if self.options().is_win32() {
                state.table.vanish(identity.pid);
                state.freed_pids.push_back(identity.pid);
            } else {
                for parent in state.table.end(identity.pid, exit) {
                    if state.table.row(parent).is_some_and(|row| row.reaps_by_itself) {
                        let reaped = state.table.reap(parent);
                        state.freed_pids.extend(reaped.iter().map(|(dead, _)| dead.pid));
                    } else if let Some(life) = state.lives.get(&parent) {
                        parents.push(life.children.clone());
                    }
                }
            }
        }
        told.update(|place| *place = Some(exit));
        for children in parents {
            children.update(|dead| *dead += 1);
        }
    }

    /// Reaps what is dead below a process.
    fn reap(&self, parent: u32) -> Vec<(ProcessIdentity, Exit)> {
        let mut state = self.lock();
        let reaped = state.table.reap(parent);
        state.freed_pids.extend(reaped.iter().map(|(identity, _)| identity.pid));
        reaped
    }

    /// Tells how a process ends.
    fn exit_of(&self, identity: &ProcessIdentity) -> Option<Watched<Option<Exit>>> {
        self.lock().lives.get(&identity.pid).map(|life| life.exit.clone())
    }
}
