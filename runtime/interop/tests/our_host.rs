//! Our host over an agent built on the official connection crate: real processes, a whole life.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "real processes, and a watchdog over them"
)]

use std::future::Future;
use std::time::Duration;

use moored::agent::AgentDefinition;
use moored::driver::{Host, HostConfig, NativeHost, Watch};
use moored::host::{CallContext, NewSession, PermissionAnswer, Send, Stop};
use moored::ids::{MessageId, SessionId};
use moored::journal::{
    ApprovalBody, ChildRow, ItemBody, ItemView, Outcome, Resolution, Role, RootProof, RowKind,
    SendMode, Snapshot, TreeProof, TurnBody, TurnState,
};
use moored::platform::Exit;
use moored::platform::native::SupervisorProgram;
use moored::session::ladder::EndedHow;
use moored::store::Store;
use moored::store::sqlite::SqliteStore;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A watchdog and no assertion.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// What an agent may take to leave at the end of its input, on a loaded machine.
const PATIENT_EOF_GRACE_MS: u64 = 30_000;

#[test]
fn a_prompt_is_said_back_and_the_turn_succeeds() {
    let mut hosted = Hosted::open();
    hosted.send("three small words");
    let (snapshot, turn) = hosted.settled(1);
    assert_eq!(verdict(&turn), (TurnState::Completed, Some(Outcome::Success)));
    assert_eq!(turn.stop_reason.as_deref(), Some("end_turn"));
    assert_eq!(said(&snapshot), "three small words");
    hosted.leave_on_eof(1);
}

#[test]
fn a_permission_is_answered_and_the_agent_reads_the_choice() {
    let mut hosted = Hosted::open();
    hosted.send("ask");
    let asked = hosted.when(|seen| approval(seen).is_some());
    let (item, body) = approval(&asked).unwrap();
    assert_eq!((body.title.as_str(), body.resolution), ("touch a file", Resolution::Pending));
    let options: Vec<&str> = body.options.iter().map(|option| option.id.as_str()).collect();
    assert_eq!(options, ["yes", "no"]);
    hosted.answer(item, "no");
    let (snapshot, turn) = hosted.settled(1);
    assert_eq!(verdict(&turn), (TurnState::Completed, Some(Outcome::Success)));
    assert_eq!(said(&snapshot), "chosen: no");
    let (_, body) = approval(&snapshot).unwrap();
    assert_eq!(body.selected.as_deref(), Some("no"));
    hosted.leave_on_eof(1);
}

#[test]
fn a_stop_in_mid_turn_is_a_cancellation_and_the_next_message_starts_the_agent_anew() {
    let mut hosted = Hosted::open();
    hosted.send("wait");
    hosted.when(|seen| said(seen) == "waiting");
    hosted.stop();
    let (_, turn) = hosted.settled(1);
    assert_eq!(verdict(&turn), (TurnState::Interrupted, Some(Outcome::Cancellation)));
    assert_eq!((turn.stop_reason.as_deref(), turn.under_stop), (Some("cancelled"), true));
    hosted.send("again");
    let (snapshot, turn) = hosted.settled(2);
    assert_eq!(verdict(&turn), (TurnState::Completed, Some(Outcome::Success)));
    assert_eq!(said(&snapshot), "waitingagain");
    hosted.leave_on_eof(2);
}

#[test]
fn a_stop_answers_the_open_permission_request_too() {
    let mut hosted = Hosted::open();
    hosted.send("ask");
    hosted.when(|seen| approval(seen).is_some());
    hosted.stop();
    let (snapshot, turn) = hosted.settled(1);
    assert_eq!(verdict(&turn), (TurnState::Interrupted, Some(Outcome::Cancellation)));
    let (_, body) = approval(&snapshot).unwrap();
    assert_ne!(body.resolution, Resolution::Pending);
    assert_eq!(body.selected, None);
    hosted.leave_on_eof(1);
}

/// A host with one session of the agent.
struct Hosted {
    runtime: Runtime,
    host: Host,
    session: SessionId,
    watch: Watch,
    root: TempDir,
}

impl Hosted {
    fn open() -> Self {
        let root = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let native = NativeHost {
            state_dir: root.path().join("state"),
            supervisor: SupervisorProgram::Program(env!("CARGO_BIN_EXE_interop-supervisor").into()),
            config: HostConfig::default(),
        };
        let host = watched(&runtime, Host::open(native)).unwrap();
        let session = SessionId(host.mint_id("session"));
        let command = vec![env!("CARGO_BIN_EXE_official-agent").to_owned()];
        let agent = AgentDefinition {
            eof_grace_ms: Some(PATIENT_EOF_GRACE_MS),
            ..AgentDefinition::generic(command)
        };
        let workspace = root.path().display().to_string();
        let new = NewSession { id: session.clone(), agent, workspace };
        watched(&runtime, host.create(new, host.call_context("interop".into()))).unwrap();
        let watch = host.watch(&session);
        Self { runtime, host, session, watch, root }
    }

    fn send(&self, text: &str) {
        let message_id = MessageId(self.host.mint_id("message"));
        let send = Send { message_id, text: text.to_owned(), mode: SendMode::AfterTurn };
        watched(&self.runtime, self.host.send(&self.session, send, self.context())).unwrap();
    }

    fn answer(&self, asked: &ItemView, option: &str) {
        let answer = PermissionAnswer {
            item: asked.item.clone(),
            expected_revision: asked.revision,
            option: Some(option.to_owned()),
        };
        watched(&self.runtime, self.host.answer(&self.session, answer, self.context())).unwrap();
    }

    fn stop(&self) {
        let stopped = self.host.stop(&self.session, Stop { turn: None }, self.context());
        assert!(watched(&self.runtime, stopped).unwrap().cancelled);
    }

    /// The timeline as soon as the `nth` turn is over, and that turn.
    fn settled(&mut self, nth: usize) -> (Snapshot, TurnBody) {
        let over = |turn: &TurnBody| turn.state != TurnState::Running;
        let snapshot = self.when(|seen| turns(seen).get(nth - 1).is_some_and(over));
        let turn = turns(&snapshot).swap_remove(nth - 1);
        (snapshot, turn)
    }

    /// The timeline as soon as it fulfils this.
    fn when(&mut self, fulfilled: impl Fn(&Snapshot) -> bool) -> Snapshot {
        loop {
            let snapshot = watched(&self.runtime, self.host.snapshot(&self.session)).unwrap();
            let refused = snapshot.submissions.iter().find_map(|sent| sent.fact.as_ref());
            assert!(refused.is_none(), "a message was refused: {refused:?}");
            if fulfilled(&snapshot) {
                return snapshot;
            }
            assert!(watched(&self.runtime, self.watch.next()).is_some(), "the watch has ended");
        }
    }

    /// Closes the session. Each agent it has had was asked to leave, left at the end of its input, unsignalled, and
    /// nothing of it is left. The journal says so, for a Stop has ended its agent before the close (rule 3.1.1).
    fn leave_on_eof(self, agents: usize) {
        let ended = watched(&self.runtime, self.host.close(&self.session, self.context())).unwrap();
        assert_eq!((ended.root, ended.tree), (RootProof::Exited, TreeProof::Gone));
        watched(&self.runtime, self.host.shutdown()).unwrap();
        let store = SqliteStore::open_read_only(&self.root.path().join("state")).unwrap();
        let stored = watched(&self.runtime, store.rows(self.session.clone())).unwrap();
        assert_eq!(stored.fault, None);
        let (mut started, mut exited, mut settled) = (0, 0, 0);
        for row in stored.rows {
            match row.kind {
                RowKind::Child(ChildRow::Started { .. }) => started += 1,
                RowKind::Child(ChildRow::Exited { how, exit, requested, .. }) => {
                    let clean = (EndedHow::OnEof, Some(Exit::Code(0)), true);
                    assert_eq!((how, exit, requested), clean);
                    exited += 1;
                }
                RowKind::Child(ChildRow::Settled { root, tree, .. }) => {
                    assert_eq!((root, tree), (RootProof::Exited, TreeProof::Gone));
                    settled += 1;
                }
                _ => {}
            }
        }
        assert_eq!((started, exited, settled), (agents, agents, agents));
    }

    fn context(&self) -> CallContext {
        self.host.call_context("interop".into())
    }
}

fn verdict(turn: &TurnBody) -> (TurnState, Option<Outcome>) {
    (turn.state, turn.outcome)
}

fn turns(snapshot: &Snapshot) -> Vec<TurnBody> {
    let turn =
        |body: &ItemBody| if let ItemBody::Turn(turn) = body { Some(turn.clone()) } else { None };
    snapshot.items.iter().filter_map(|item| turn(&item.body)).collect()
}

fn approval(snapshot: &Snapshot) -> Option<(&ItemView, &ApprovalBody)> {
    snapshot.items.iter().find_map(|item| match &item.body {
        ItemBody::Approval(body) => Some((item, body)),
        _ => None,
    })
}

/// Everything the agent has said.
fn said(snapshot: &Snapshot) -> String {
    let texts = snapshot.items.iter().filter_map(|item| match &item.body {
        ItemBody::Message(message) if message.role == Role::Agent => Some(message.text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn watched<T>(runtime: &Runtime, story: impl Future<Output = T>) -> T {
    let story = async { tokio::time::timeout(SILENCE_MAX, story).await };
    runtime.block_on(story).expect("nothing has happened for too long")
}
