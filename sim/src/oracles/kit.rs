//! Hand-made facts for the tests of the oracles.

use moored::agent::AgentDefinition;
use moored::ids::{EpochId, Fence, Generation, ItemKey, MessageId, SessionId, SpawnToken, TurnKey};
use moored::journal::{
    ChildRow, DispatchRow, DispatchState, ItemBody, ItemRow, Mark, Outcome, RootProof, Row,
    RowKind, SendMode, StopEvent, StopReason, StreamedText, TreeProof, TurnBody, TurnState,
};
use moored::platform::{ChildIdentity, Exit, Mono, ProcessIdentity, ProofKind};
use moored::session::ladder::EndedHow;
use moored::session::record::{Claim, Lease, SessionRecord};
use moored::store::{RecordChange, Unit};

use super::{Oracle, Rest, RestingSession, Verdict};
use crate::scenario::Act;
use crate::witness::{ChildNo, Facts, Line, Seen};
use crate::world::{ProcessRow, Sig};

/// A history that is shown to one oracle, fact by fact.
pub(super) struct Story {
    oracle: Box<dyn Oracle>,
    facts: Facts,
    now: Mono,
    verdict: Verdict,
    rows: Vec<Row>,
    calls: usize,
}

pub(super) fn session() -> SessionId {
    SessionId::from("s1")
}

pub(super) fn message(n: u32) -> MessageId {
    MessageId(format!("m{n}"))
}

pub(super) fn process(pid: u32) -> ProcessIdentity {
    ProcessIdentity { pid, start: u64::from(pid) }
}

/// The root of a child, the way the story numbers them.
pub(super) fn root(child: ChildNo) -> ProcessIdentity {
    process(100 * (1 + u32::try_from(child).unwrap_or_default()))
}

fn generation(child: ChildNo) -> Generation {
    Generation(format!("g{child}"))
}

pub(super) fn started(child: ChildNo) -> RowKind {
    let identity = ChildIdentity {
        root: root(child),
        supervisor: None,
        boot: "boot".to_owned(),
        proof: ProofKind::Subreaper,
    };
    RowKind::Child(ChildRow::Started { generation: generation(child), identity })
}

pub(super) fn exited(child: ChildNo) -> RowKind {
    RowKind::Child(ChildRow::Exited {
        generation: generation(child),
        how: EndedHow::OnEof,
        exit: Some(Exit::Code(0)),
        requested: true,
    })
}

pub(super) fn settled(child: ChildNo, tree: TreeProof) -> RowKind {
    RowKind::Child(ChildRow::Settled {
        generation: generation(child),
        root: RootProof::Exited,
        tree,
        proof: ProofKind::Subreaper,
        survivors: Vec::new(),
        abort_persisted: None,
    })
}

pub(super) fn submission(n: u32) -> RowKind {
    RowKind::Submission {
        message_id: message(n),
        fingerprint: String::new(),
        text: StreamedText(format!("m{n}: hi")),
        mode: SendMode::AfterTurn,
        requested_ms: 0,
    }
}

pub(super) fn steer(n: u32) -> RowKind {
    match submission(n) {
        RowKind::Submission { message_id, fingerprint, text, requested_ms, .. } => {
            let mode = SendMode::Steer;
            RowKind::Submission { message_id, fingerprint, text, mode, requested_ms }
        }
        other => other,
    }
}

pub(super) fn dispatch(n: u32, state: DispatchState) -> RowKind {
    let message_id = message(n);
    RowKind::Dispatch(DispatchRow { message_id, state, scope: None, fact: None, reason: None })
}

pub(super) fn turn_body(n: u32, state: TurnState, outcome: Option<Outcome>) -> TurnBody {
    TurnBody {
        turn: TurnKey(format!("t{n}")),
        state,
        outcome,
        user_item: Some(moored::journal::user_item(&message(n))),
        started_ms: 10,
        requested_ms: None,
        completed_ms: super::rows::is_over(state).then_some(20),
        stop_reason: None,
        under_stop: false,
        delivery_unproven: false,
        usage: None,
    }
}

pub(super) fn turn(n: u32, state: TurnState, outcome: Option<Outcome>) -> RowKind {
    item(&format!("turn:t{n}"), ItemBody::Turn(turn_body(n, state, outcome)))
}

pub(super) fn item(key: &str, body: ItemBody) -> RowKind {
    RowKind::Item(ItemRow { item: ItemKey::from(key), revision: 1, scope: None, body })
}

pub(super) fn stop(reason: StopReason, turn: Option<&str>) -> RowKind {
    let event = StopEvent {
        op: "op".into(),
        reason,
        turn: turn.map(TurnKey::from),
        named: false,
        at_ms: 15,
    };
    RowKind::Mark { mark: Mark::Stop(event) }
}

pub(super) fn record(token: Option<&str>, closed: bool) -> SessionRecord {
    let token = token.map(|t| SpawnToken(t.to_owned()));
    let claim = if token.is_some() { Claim::Reserved } else { Claim::Released };
    SessionRecord {
        session: session(),
        revision: 1,
        epoch: EpochId::from("e"),
        created_ms: 0,
        agent: AgentDefinition::generic(vec!["agent".to_owned()]),
        workspace: "/sessions/s1".to_owned(),
        lease: Lease { fence: Fence(1), claim, token, ..Lease::default() },
        handles: Vec::new(),
        closed,
        name: None,
    }
}

pub(super) fn send_act(n: u32) -> Act {
    Act::Send { session: 0, message: n, text: "hi".to_owned(), mode: SendMode::AfterTurn }
}

impl Story {
    pub(super) fn of(oracle: impl Oracle + 'static) -> Self {
        Self {
            oracle: Box::new(oracle),
            facts: Facts::default(),
            now: Mono::ZERO,
            verdict: Ok(()),
            rows: Vec::new(),
            calls: 0,
        }
    }

    pub(super) fn see(mut self, seen: &Seen<'_>) -> Self {
        self.facts.learn(seen);
        if self.verdict.is_ok() {
            self.verdict = self.oracle.see(self.now, seen, &self.facts);
        }
        self
    }

    pub(super) fn at_ms(mut self, ms: u64) -> Self {
        self.now = Mono::from_ms(ms);
        self
    }

    /// A host asks for the next child.
    pub(super) fn asked_for(self, child: ChildNo) -> Self {
        let token = format!("token{child}");
        self.see(&Seen::Spawning { child, host: 0, session: &session(), token: &token })
    }

    /// A process of a child starts.
    pub(super) fn starts(self, child: ChildNo, identity: &ProcessIdentity) -> Self {
        let token = format!("token{child}");
        let is_root = *identity == root(child);
        let token = Some(token.as_str());
        self.see(&Seen::ProcessStarted { identity, name: "agent", token, root: is_root })
    }

    /// The next child is asked for, and its root starts.
    pub(super) fn spawned(self, child: ChildNo) -> Self {
        self.asked_for(child).starts(child, &root(child))
    }

    pub(super) fn dies(self, identity: &ProcessIdentity) -> Self {
        self.see(&Seen::ProcessEnded { identity, exit: &Exit::Code(0) })
    }

    pub(super) fn signal(self, child: ChildNo, sig: Sig) -> Self {
        self.see(&Seen::SignalSent { target: &root(child), sig, fault: false })
    }

    /// Rows of a fence are stored.
    pub(super) fn stored(self, fence: u64, kinds: impl IntoIterator<Item = RowKind>) -> Self {
        self.stored_by(0, fence, kinds, None)
    }

    pub(super) fn recorded(self, record: SessionRecord) -> Self {
        self.stored_by(0, 1, [], Some(record))
    }

    pub(super) fn stored_by(
        mut self,
        host: usize,
        fence: u64,
        kinds: impl IntoIterator<Item = RowKind>,
        record: Option<SessionRecord>,
    ) -> Self {
        let before = self.rows.len();
        for kind in kinds {
            let seq = self.rows.len() as u64 + 1;
            let row = Row {
                v: moored::journal::ROW_VERSION,
                epoch: EpochId::from("e"),
                seq,
                fence: Fence(fence),
                at_ms: seq,
                recovered: false,
                kind,
            };
            self.rows.push(row);
        }
        let rows = self.rows[before..].to_vec();
        let record = record.map(|record| RecordChange { expected_revision: 0, record });
        let unit = Unit {
            session: session(),
            fence: Fence(fence),
            rows,
            ledger: None,
            record,
            resumes: false,
        };
        self.see(&Seen::Stored { host, unit: &unit })
    }

    pub(super) fn host_wrote(self, child: ChildNo, line: &str) -> Self {
        self.see(&Seen::HostWrote { child, line: &Line::read(line.as_bytes()) })
    }

    pub(super) fn agent_wrote(self, child: ChildNo, line: &str) -> Self {
        let line = Line::read(line.as_bytes());
        let answers_prompt = self.facts.answers_prompt(child, line.id);
        self.see(&Seen::AgentWrote { child, line: &line, answers_prompt })
    }

    pub(super) fn agent_read(self, child: ChildNo, line: &str) -> Self {
        self.see(&Seen::AgentRead { child, line: &Line::read(line.as_bytes()) })
    }

    /// The host writes the prompt of a message.
    pub(super) fn prompts(self, child: ChildNo, n: u32) -> Self {
        self.host_wrote(child, &prompt(n))
    }

    pub(super) fn cancels(self, child: ChildNo) -> Self {
        self.host_wrote(child, r#"{"method":"session/cancel","params":{}}"#)
    }

    pub(super) fn stdin_closed(self, child: ChildNo) -> Self {
        self.see(&Seen::StdinClosed { child, by_crash: false, broken: false })
    }

    /// A person calls; the call's number is the number of calls before it.
    pub(super) fn called(mut self, act: &Act) -> Self {
        let call = self.calls;
        self.calls += 1;
        let session = session();
        let (again, expects) = (false, None);
        self.see(&Seen::Called { call, host: 0, act, session: &session, again, expects })
    }

    pub(super) fn answered(self, call: usize, message: Option<&MessageId>) -> Self {
        self.see(&Seen::Answered { call, refused: None, message, session: &session() })
    }

    /// The run rests: what was stored is there, and this is left of the processes.
    pub(super) fn rests(self, left: &[ProcessRow]) -> Self {
        let resting = RestingSession {
            id: session(),
            rows: self.rows.clone(),
            fault: None,
            snapshot: None,
            clients: Vec::new(),
            summary: None,
        };
        self.rests_as(resting, left)
    }

    pub(super) fn rests_as(mut self, resting: RestingSession, left: &[ProcessRow]) -> Self {
        if self.verdict.is_ok() {
            let sessions = [resting];
            self.verdict =
                self.oracle.at_rest(&Rest { sessions: &sessions, left, facts: &self.facts });
        }
        self
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    #[track_caller]
    pub(super) fn holds(self) {
        assert_eq!(self.verdict, Ok(()), "{}", self.oracle.name());
    }

    /// It is broken, in words that have these in them.
    #[track_caller]
    pub(super) fn breaks(self, words: &str) {
        match self.verdict {
            Ok(()) => panic!("{} holds", self.oracle.name()),
            Err(said) => assert!(said.contains(words), "{said}"),
        }
    }
}

pub(super) fn prompt(n: u32) -> String {
    format!(
        r#"{{"id":{n},"method":"session/prompt","params":{{"prompt":[{{"type":"text","text":"m{n}: hi"}}]}}}}"#
    )
}

/// What a host says of the session.
pub(super) fn summary() -> moored::status::Summary {
    let fold = moored::journal::Fold::new();
    let record = record(None, false);
    moored::status::summary(&moored::status::SummaryInput {
        record: &record,
        fold: &fold,
        child: None,
        storage: None,
        status_started_at: None,
        stopping: false,
        held: &[],
    })
}

/// A process of child 0 that lives at rest.
pub(super) fn left(pid: u32, name: &str) -> ProcessRow {
    ProcessRow {
        identity: process(pid),
        parent: crate::world::INIT_PID,
        group: pid,
        session: pid,
        name: name.to_owned(),
        state: crate::world::ProcessState::Running,
        subreaper: false,
        reaps_by_itself: false,
        job: None,
        token: Some("token0".to_owned()),
    }
}
