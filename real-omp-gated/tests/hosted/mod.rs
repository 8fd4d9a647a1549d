//! A real agent under a host of the library: one session, told as a story that blocks.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "real processes, their files, and a watchdog over them"
)]

use std::env;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use moored::agent::{AgentDefinition, Reopen};
use moored::driver::{Host, HostConfig, NativeHost, Watch};
use moored::host::{CallContext, NewSession, Send, Stop};
use moored::ids::{MessageId, SessionId};
use moored::journal::{
    ChildRow, EndedAnswer, ItemBody, Role, Row, RowKind, SendMode, Snapshot, TurnBody, TurnState,
};
use moored::platform::ProcessIdentity;
use moored::platform::native::SupervisorProgram;
use moored::session::StopAnswer;
use moored::session::record::SessionRecord;
use moored::store::Store;
use moored::store::sqlite::SqliteStore;
use moored_real_omp_gated::{Kind, RealAgent, Sandbox, StubModel};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A watchdog and no assertion: a loaded machine has taken 9 s to start an agent.
const SILENCE_MAX: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long an agent that leaves at the end of its input may take on a loaded machine.
const PATIENT_EOF_GRACE_MS: u64 = 30_000;

/// A host with one session of a real agent.
pub struct Hosted {
    pub model: StubModel,
    pub sandbox: Sandbox,
    runtime: Runtime,
    host: Host,
    session: SessionId,
    watch: Watch,
    root: TempDir,
}

/// What a host has left on disk.
pub struct Left {
    pub rows: Vec<Row>,
    pub record: SessionRecord,
}

impl Hosted {
    /// Opens a host and makes the session; the agent starts with the first send.
    pub fn open(agent: &RealAgent) -> Self {
        let (model, root) = (StubModel::start().unwrap(), tempfile::tempdir().unwrap());
        let sandbox = agent.sandbox(&model, root.path()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let native = NativeHost {
            state_dir: root.path().join("state"),
            supervisor: SupervisorProgram::Program(env!("CARGO_BIN_EXE_gated-supervisor").into()),
            config: HostConfig::default(),
        };
        let host = watched(&runtime, Host::open(native)).unwrap();
        let session = SessionId(host.mint_id("session"));
        let new = NewSession {
            id: session.clone(),
            agent: definition(agent.kind(), &sandbox),
            workspace: sandbox.workspace.display().to_string(),
        };
        watched(&runtime, host.create(new, host.call_context("smoke".into()))).unwrap();
        let watch = host.watch(&session);
        Self { model, sandbox, runtime, host, session, watch, root }
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

    /// What runs of the agent.
    pub fn processes(&self) -> Vec<String> {
        processes_of(self.root.path())
    }

    /// Shuts the host down and reads what it has left: on disk, and, as an assertion, among the
    /// processes.
    pub fn shut_down(&self) -> Left {
        watched(&self.runtime, self.host.shutdown()).unwrap();
        let store = SqliteStore::open_read_only(&self.root.path().join("state")).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let mut image = watched(&self.runtime, store.load()).unwrap();
        assert_eq!(image.records.len(), 1);
        let stored = watched(&self.runtime, store.rows(self.session.clone())).unwrap();
        assert_eq!(stored.fault, None);
        let left = Left { rows: stored.rows, record: image.records.remove(0) };
        left.assert_no_process(self.root.path());
        left
    }

    /// The kinds of the entries of the agent's only session file: a message's role, with the word
    /// it ended with if that is not the ordinary one; else its own type.
    pub fn entries(&self) -> Vec<String> {
        let files = self.sandbox.session_files().unwrap();
        assert_eq!(files.len(), 1, "{files:?}");
        fs::read_to_string(&files[0]).unwrap().lines().map(entry).collect()
    }

    fn context(&self) -> CallContext {
        self.host.call_context("smoke".into())
    }
}

impl Left {
    /// What the journal says of the children, in order.
    pub fn children(&self) -> Vec<&ChildRow> {
        let child = |row: &'_ Row| matches!(row.kind, RowKind::Child(_));
        let rows = self.rows.iter().filter(|row| child(row));
        rows.filter_map(
            |row| if let RowKind::Child(child) = &row.kind { Some(child) } else { None },
        )
        .collect()
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
            let started = processes_of(root);
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
fn definition(kind: Kind, sandbox: &Sandbox) -> AgentDefinition {
    let inherited = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    AgentDefinition {
        name: kind.name().to_owned(),
        pin_env: sandbox.env.iter().cloned().collect(),
        drop_env: inherited.collect(),
        reopen: if kind == Kind::Omp { Reopen::Resume } else { Reopen::Load },
        // Only for those that do leave: what is to be seen must not hang on the machine's load.
        eof_grace_ms: (kind != Kind::CodexAcp).then_some(PATIENT_EOF_GRACE_MS),
        ..AgentDefinition::generic(sandbox.argv.clone())
    }
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

fn entry(line: &str) -> String {
    let entry: Value = serde_json::from_str(line).unwrap();
    let names = [&entry["message"]["role"], &entry["customType"], &entry["type"]];
    let name = names.into_iter().find_map(Value::as_str).unwrap_or("?");
    match entry["message"]["stopReason"].as_str() {
        None | Some("stop") => name.to_owned(),
        Some(word) => format!("{name}[{word}]"),
    }
}

fn watched<T>(runtime: &Runtime, story: impl Future<Output = T>) -> T {
    let story = async { tokio::time::timeout(SILENCE_MAX, story).await };
    runtime.block_on(story).expect("nothing has happened for too long")
}

/// The same process, and no zombie of it.
fn is_running(process: &ProcessIdentity) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
    // The name in brackets may hold anything.
    let fields: Vec<&str> =
        stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    fields.get(19).is_some_and(|start| *start == process.start.to_string()) && fields[0] != "Z"
}

/// Processes whose environment names a place below `root`: every one an agent has started.
fn processes_of(root: &Path) -> Vec<String> {
    let root = root.display().to_string();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let processes = processes.filter_map(|entry| Some(entry.ok()?.path()));
    let ours = |path: &Path| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&root)
    };
    processes.filter(|path| ours(path)).map(|path| path.display().to_string()).collect()
}
