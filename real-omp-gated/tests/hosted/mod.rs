//! A real agent under a host of the library: one session, told as a story that blocks.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "real processes, their files, and a watchdog over them"
)]
#![allow(dead_code, reason = "each suite uses its part of it")]

pub mod edge;
pub mod processes;
pub mod session_file;

use std::env;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use moored::agent::{AgentDefinition, Barrier, Reopen};
use moored::driver::{Host, HostConfig, Watch};
use moored::host::{CallContext, NewSession, Send, Stop};
use moored::ids::{MessageId, SessionId};
use moored::journal::{
    ChildRow, EndedAnswer, ItemBody, Role, Row, RowKind, SendMode, Snapshot, TurnBody, TurnState,
};
use moored::platform::native::{Native, SupervisorProgram};
use moored::platform::{Mono, SharedPlatform};
use moored::session::Policy;
use moored::session::StopAnswer;
use moored::session::ladder::Profile;
use moored::session::record::SessionRecord;
use moored::store::sqlite::SqliteStore;
use moored::store::{SharedStore, Store};
use moored_real_omp_gated::{Kind, RealAgent, Sandbox, StubModel};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use self::edge::{Edge, Tapped};
use self::processes::{ProcessIdentity, is_running};
use self::session_file::{Entry, entries_of};

/// A watchdog and no assertion: a loaded machine has taken 9 s to start an agent.
const SILENCE_MAX: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const LOOK_OFTEN: Duration = Duration::from_micros(500);
/// How long an agent that leaves at the end of its input may take on a loaded machine.
const PATIENT_EOF_GRACE_MS: u64 = 30_000;

/// A host with one session of a real agent.
pub struct Hosted {
    pub model: StubModel,
    pub sandbox: Sandbox,
    /// What crossed between the host and its agents.
    pub edge: Arc<Edge>,
    runtime: Runtime,
    platform: SharedPlatform,
    store: SharedStore,
    host: Host,
    session: SessionId,
    watch: Watch,
    root: TempDir,
}

/// How the host and its agent are set up.
pub struct Setup {
    /// Makes the agent's definition.
    pub definition: fn(Kind, &Sandbox) -> AgentDefinition,
    /// Whether the agent is asked to save before its stdin is closed, whatever the definition says.
    pub barrier: Barrier,
    /// Whose windows end the agent.
    pub profile: Profile,
}

impl Default for Setup {
    fn default() -> Self {
        Self { definition, barrier: Barrier::WhereOffered, profile: Profile::Posix }
    }
}

/// What a host has left on disk.
pub struct Left {
    pub rows: Vec<Row>,
    pub record: SessionRecord,
}

impl Hosted {
    /// Opens a host and makes the session; the agent starts with the first send.
    pub fn open(agent: &RealAgent) -> Self {
        Self::open_as(agent, &Setup::default())
    }

    /// The same, set up in another way.
    pub fn open_as(agent: &RealAgent, setup: &Setup) -> Self {
        let (model, root) = (StubModel::start().unwrap(), tempfile::tempdir().unwrap());
        let sandbox = agent.sandbox(&model, root.path()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let store: SharedStore = Arc::new(SqliteStore::open(&state_of(root.path())).unwrap());
        let supervisor = SupervisorProgram::Program(env!("CARGO_BIN_EXE_gated-supervisor").into());
        let (inner, edge) = (Arc::new(Native::new(supervisor).unwrap()), Arc::default());
        let platform: SharedPlatform = Arc::new(Tapped { inner, edge: Arc::clone(&edge) });
        let on = (Arc::clone(&platform), Arc::clone(&store));
        let config = HostConfig { policy: Policy::stock(setup.profile), ..HostConfig::default() };
        let host = watched(&runtime, Host::open_on_thread(config, move || Ok(on))).unwrap();
        let session = SessionId(host.mint_id("session"));
        let definition = (setup.definition)(agent.kind(), &sandbox);
        let new = NewSession {
            id: session.clone(),
            agent: AgentDefinition { barrier: setup.barrier, ..definition },
            workspace: sandbox.workspace.display().to_string(),
        };
        watched(&runtime, host.create(new, host.call_context("smoke".into()))).unwrap();
        let watch = host.watch(&session);
        Self { model, sandbox, edge, runtime, platform, store, host, session, watch, root }
    }

    /// Sends a message; it is on the host's disk then.
    pub fn send(&self, text: &str) -> MessageId {
        let message_id = MessageId(self.host.mint_id("message"));
        let send = Send {
            message_id: message_id.clone(),
            text: text.to_owned(),
            mode: SendMode::AfterTurn,
        };
        let sent = self.host.send(&self.session, send, self.context());
        watched(&self.runtime, sent).unwrap();
        message_id
    }

    /// Sends a message and waits until its turn, the `nth` of the session, is over.
    pub fn turn(&mut self, nth: usize, text: &str) -> TurnBody {
        self.send(text);
        self.settled(nth)
    }

    /// Waits until the `nth` turn is over.
    pub fn settled(&mut self, nth: usize) -> TurnBody {
        let over = |turn: &TurnBody| turn.state != TurnState::Running;
        let snapshot = self.when(|seen| turns(seen).get(nth - 1).is_some_and(over));
        turns(&snapshot).swap_remove(nth - 1)
    }

    /// The timeline as soon as it fulfils this.
    pub fn when(&mut self, fulfilled: impl Fn(&Snapshot) -> bool) -> Snapshot {
        loop {
            let snapshot = self.snapshot();
            let refused = snapshot.submissions.iter().find_map(|sent| sent.fact.as_ref());
            assert!(refused.is_none(), "a message was refused: {refused:?}");
            if fulfilled(&snapshot) {
                return snapshot;
            }
            assert!(watched(&self.runtime, self.watch.next()).is_some(), "the watch has ended");
        }
    }

    /// The timeline, as it is durable now.
    pub fn snapshot(&self) -> Snapshot {
        watched(&self.runtime, self.host.snapshot(&self.session)).unwrap()
    }

    /// Presses Stop on what runs.
    pub fn stop(&self) -> StopAnswer {
        let stopped = self.host.stop(&self.session, Stop { turn: None }, self.context());
        watched(&self.runtime, stopped).unwrap()
    }

    pub fn close(&self) -> EndedAnswer {
        watched(&self.runtime, self.host.close(&self.session, self.context())).unwrap()
    }

    /// What runs of the agent, its supervisor included.
    pub fn processes(&self) -> Vec<ProcessIdentity> {
        processes::of(self.root.path())
    }

    /// What the journal says of the children, as it is durable now.
    pub fn children(&self) -> Vec<ChildRow> {
        let stored = watched(&self.runtime, self.store.rows(self.session.clone())).unwrap();
        assert_eq!(stored.fault, None);
        stored.rows.into_iter().filter_map(child_row).collect()
    }

    /// The present moment, on the clock of [`Edge`].
    pub fn now(&self) -> Mono {
        self.platform.now()
    }

    /// The minute of the wall clock.
    pub fn minute(&self) -> u64 {
        self.platform.wall_ms() / 60_000
    }

    /// Looks until it is so.
    pub fn until(&self, what: &str, is_so: impl FnMut(&Self) -> bool) {
        self.look(LOOK_AGAIN, what, is_so);
    }

    /// Looks often until it is so, for what must be met at once.
    pub fn until_at_once(&self, what: &str, is_so: impl FnMut(&Self) -> bool) {
        self.look(LOOK_OFTEN, what, is_so);
    }

    fn look(&self, rest: Duration, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let mut waited = Duration::ZERO;
        while !is_so(self) {
            assert!(waited < SILENCE_MAX, "in vain waited for: {what}");
            thread::sleep(rest);
            waited += rest;
        }
    }

    /// Shuts the host down and reads what it has left: on disk, and, as an assertion, among the
    /// processes.
    pub fn shut_down(&self) -> Left {
        watched(&self.runtime, self.host.shutdown()).unwrap();
        let store = SqliteStore::open_read_only(&state_of(self.root.path())).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let mut image = watched(&self.runtime, store.load()).unwrap();
        assert_eq!(image.records.len(), 1);
        let stored = watched(&self.runtime, store.rows(self.session.clone())).unwrap();
        assert_eq!(stored.fault, None);
        let left = Left { rows: stored.rows, record: image.records.remove(0) };
        left.assert_no_process(self.root.path());
        left
    }

    /// The entries of the agent's only session file.
    pub fn entries(&self) -> Vec<Entry> {
        let files = self.sandbox.session_files().unwrap();
        assert_eq!(files.len(), 1, "{files:?}");
        entries_of(&files[0])
    }

    fn context(&self) -> CallContext {
        self.host.call_context("smoke".into())
    }
}

impl Drop for Hosted {
    /// Also when the test fails: what it started is ended before its folder goes.
    fn drop(&mut self) {
        let ended = async { tokio::time::timeout(SILENCE_MAX, self.host.shutdown()).await };
        // A host that was shut down gives the same answer again; a failing test has said what is wrong.
        let _ = self.runtime.block_on(ended);
    }
}

impl Left {
    /// What the journal says of the children, in order.
    pub fn children(&self) -> Vec<ChildRow> {
        self.rows.iter().cloned().filter_map(child_row).collect()
    }

    /// Nothing of the agents, and no supervisor, is left. Waits, for a supervisor leaves after its
    /// host has its proof.
    fn assert_no_process(&self, root: &Path) {
        let mut recorded = Vec::new();
        for child in self.children() {
            if let ChildRow::Started { identity, .. } = child {
                recorded.push(identity.root.clone());
                recorded.push(identity.supervisor.clone().unwrap());
            }
        }
        assert!(!recorded.is_empty(), "no child is on record");
        let mut waited = Duration::ZERO;
        loop {
            let running: Vec<_> = recorded.iter().filter(|process| is_running(process)).collect();
            let started = processes::of(root);
            if running.is_empty() && started.is_empty() {
                return;
            }
            assert!(waited < SILENCE_MAX, "still there: {running:?}, {started:?}");
            thread::sleep(LOOK_AGAIN);
            waited += LOOK_AGAIN;
        }
    }
}

/// The agent's definition by hand: the sandbox's command and environment, and nothing of ours.
pub fn definition(kind: Kind, sandbox: &Sandbox) -> AgentDefinition {
    AgentDefinition {
        name: kind.name().to_owned(),
        reopen: if kind == Kind::Omp { Reopen::Resume } else { Reopen::Load },
        // Only for those that do leave: what is to be seen must not hang on the machine's load.
        eof_grace_ms: (kind != Kind::CodexAcp).then_some(PATIENT_EOF_GRACE_MS),
        ..sandboxed(AgentDefinition::generic(Vec::new()), sandbox)
    }
}

/// The definition that is shipped, in the sandbox.
pub fn shipped(kind: Kind, sandbox: &Sandbox) -> AgentDefinition {
    let shipped = AgentDefinition::builtin(kind.name()).unwrap();
    let pinned = sandbox.env.iter().find(|(name, _)| name == "PI_CODING_AGENT_DIR").unwrap();
    sandboxed(shipped.with("agent_dir", pinned.1.clone()).unwrap(), sandbox)
}

/// The same with the stock windows: no patience of the definition's own.
pub fn shipped_with_stock_windows(kind: Kind, sandbox: &Sandbox) -> AgentDefinition {
    AgentDefinition { eof_grace_ms: None, ..shipped(kind, sandbox) }
}

fn sandboxed(mut definition: AgentDefinition, sandbox: &Sandbox) -> AgentDefinition {
    definition.command.clone_from(&sandbox.argv);
    for (name, value) in &sandbox.env {
        definition.pin_env.entry(name.clone()).or_insert_with(|| value.clone());
    }
    let inherited = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    definition.drop_env.extend(inherited.filter(|name| !definition.pin_env.contains_key(name)));
    definition
}

/// The turns of a timeline, in order.
pub fn turns(snapshot: &Snapshot) -> Vec<TurnBody> {
    let turn =
        |body: &ItemBody| if let ItemBody::Turn(turn) = body { Some(turn.clone()) } else { None };
    snapshot.items.iter().filter_map(|item| turn(&item.body)).collect()
}

/// What the agent has said in a turn.
pub fn said(snapshot: &Snapshot, turn: &TurnBody) -> String {
    let of_turn = snapshot.items.iter().filter(|item| item.scope.as_ref() == Some(&turn.turn));
    let texts = of_turn.filter_map(|item| match &item.body {
        ItemBody::Message(message) if message.role == Role::Agent => Some(message.text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn child_row(row: Row) -> Option<ChildRow> {
    if let RowKind::Child(child) = row.kind { Some(child) } else { None }
}

fn state_of(root: &Path) -> PathBuf {
    root.join("state")
}

fn watched<T>(runtime: &Runtime, story: impl Future<Output = T>) -> T {
    let story = async { tokio::time::timeout(SILENCE_MAX, story).await };
    runtime.block_on(story).expect("nothing has happened for too long")
}
