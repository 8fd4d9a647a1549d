//! The machine, a clock, a store and a wire, stepped by hand.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use crate::agent::AgentDefinition;
use crate::host::{PermissionAnswer, Send, Stop};
use crate::ids::{CallerId, EpochId, Generation, MessageId, OperationId, SessionId, SpawnToken};
use crate::journal::{
    Batch, ItemBody, ItemView, Mark, Row, RowKind, SendMode, StopEvent, Timeline, TurnBody,
};
#[cfg(feature = "planted-bugs")]
use crate::planted::PlantedBug;
use crate::platform::{
    ChildIdentity, ChildSpec, Exit, FilePattern, FileTail, Moment, Mono, Order, ProcessIdentity,
    ProofKind, Report, Signal,
};
use crate::session::record::{Lease, SessionRecord};
use crate::session::{Answer, CallId, Effect, Operation, Policy, Session, Ticket};
use crate::status::Summary;
use crate::store::{Refusal, RetryReason, StoredRows, Unit};

pub(super) const AGENT_SESSION: &str = "agent-session-1";

/// What the machine has asked for and the rig has not answered by itself.
#[derive(Clone)]
pub(super) struct Rig {
    pub(super) session: Session,
    pub(super) now: Moment,
    pub(super) frames: VecDeque<Value>,
    pub(super) orders: Vec<Order>,
    pub(super) answers: BTreeMap<CallId, Answer>,
    pub(super) batches: Vec<Batch>,
    pub(super) summaries: Vec<Summary>,
    pub(super) units: Vec<(Ticket, Unit)>,
    pub(super) stored: Vec<Row>,
    pub(super) spawns: Vec<(Generation, ChildSpec)>,
    pub(super) stdin_closed: bool,
    pub(super) stdin_cut: bool,
    /// Frames leave by themselves.
    pub(super) pipe_drains: bool,
    /// Session files that are to be read.
    pub(super) looks: Vec<FilePattern>,
    pub(super) reading: bool,
    pub(super) timeline: Timeline,
    pub(super) generation: Generation,
    /// Units become durable by themselves.
    pub(super) commits: bool,
    /// Spawns succeed by themselves.
    pub(super) spawns_succeed: bool,
    /// Generations are minted by themselves.
    pub(super) mints: bool,
    pub(super) mint_waits: bool,
    /// Invariants are asserted after each effect.
    pub(super) checks: bool,
    calls: u64,
    starts: u64,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with_agent(AgentDefinition::generic(vec!["agent".to_owned()]))
    }

    pub(super) fn with_agent(agent: AgentDefinition) -> Self {
        let record = SessionRecord {
            session: SessionId::from("s1"),
            revision: 0,
            epoch: EpochId::from("e1"),
            created_ms: 1_000_000,
            agent,
            workspace: "/work".to_owned(),
            lease: Lease::default(),
            handles: Vec::new(),
            closed: false,
            name: None,
        };
        let now = Moment { mono: Mono::from_ms(1_000), wall_ms: 1_000_000 };
        let session = Session::create(policy(), record, operation(0), now);
        let mut rig = Self {
            session,
            now,
            frames: VecDeque::new(),
            orders: Vec::new(),
            answers: BTreeMap::new(),
            batches: Vec::new(),
            summaries: Vec::new(),
            units: Vec::new(),
            stored: Vec::new(),
            spawns: Vec::new(),
            stdin_closed: false,
            stdin_cut: false,
            pipe_drains: true,
            looks: Vec::new(),
            reading: true,
            timeline: Timeline::default(),
            generation: Generation::default(),
            commits: true,
            spawns_succeed: true,
            mints: true,
            mint_waits: false,
            checks: !is_planted(),
            calls: 0,
            starts: 0,
        };
        rig.settle();
        rig
    }

    /// A session with a ready child and nothing running.
    pub(super) fn ready() -> Self {
        let mut rig = Self::working("warm up");
        rig.reply_prompt(json!({"stopReason": "end_turn"}));
        rig
    }

    /// A session whose agent has the prompt `text`.
    pub(super) fn working(text: &str) -> Self {
        let mut rig = Self::new();
        rig.send("m1", text);
        rig.handshake();
        rig
    }

    /// Carries out effects until there is none.
    pub(super) fn settle(&mut self) {
        while let Some(effect) = self.session.poll_effect() {
            self.carry_out(effect);
            self.check();
        }
        self.check();
    }

    fn check(&self) {
        if self.checks {
            self.session.invariants();
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Append { ticket, unit } => {
                if self.commits && self.units.is_empty() {
                    self.stored.extend(unit.rows.iter().cloned());
                    self.session.handle_durable(self.now, ticket);
                } else {
                    self.units.push((ticket, *unit));
                }
            }
            Effect::Answer { call, answer } => {
                assert!(self.answers.insert(call, answer).is_none(), "a caller is answered once");
            }
            Effect::Commit(batch) => {
                self.timeline.apply_batch(batch.clone());
                self.batches.push(batch);
            }
            Effect::CloseStdin { .. } => self.stdin_closed = true,
            Effect::CutStdin { .. } => self.stdin_cut = true,
            Effect::Forget { .. } => {}
            Effect::Mint if self.mints => self.mint(),
            Effect::Mint => self.mint_waits = true,
            Effect::Order { order, .. } => self.orders.push(order),
            Effect::Publish(summary) => self.summaries.push(*summary),
            Effect::Read { on, .. } => self.reading = on,
            Effect::ReadTail { pattern, .. } => self.looks.push(pattern),
            Effect::Spawn { generation, spec } => {
                self.spawns.push((generation.clone(), spec));
                self.stdin_closed = false;
                if self.spawns_succeed {
                    self.session.handle_spawned(self.now, &generation, identity(self.starts));
                }
            }
            Effect::Write { generation, frame } => {
                let value = serde_json::from_slice(&frame.0).expect("our frames are JSON");
                self.frames.push_back(value);
                if self.pipe_drains {
                    self.session.handle_written(self.now, &generation, frame.0.len());
                }
            }
        }
    }

    /// Gives the generation and token that were asked for.
    pub(super) fn mint(&mut self) {
        self.mint_waits = false;
        self.starts += 1;
        self.generation = Generation(format!("g{}", self.starts));
        let token = SpawnToken(format!("t{}", self.starts));
        self.session.handle_minted(self.now, self.generation.clone(), token);
    }

    /// The process that was asked for exists.
    pub(super) fn spawned(&mut self) {
        let generation = self.generation.clone();
        self.session.handle_spawned(self.now, &generation, identity(self.starts));
        self.settle();
    }

    /// Makes the oldest waiting unit durable.
    pub(super) fn commit_one(&mut self) {
        let (ticket, unit) = self.units.remove(0);
        self.stored.extend(unit.rows.iter().cloned());
        self.session.handle_durable(self.now, ticket);
        self.settle();
    }

    pub(super) fn commit_all(&mut self) {
        while !self.units.is_empty() {
            self.commit_one();
        }
    }

    /// Refuses everything that waits.
    pub(super) fn refuse_all(&mut self) {
        let mut reason = RetryReason::Full;
        for (ticket, _) in std::mem::take(&mut self.units) {
            self.session.handle_refused(self.now, ticket, Refusal::Retry { reason });
            reason = RetryReason::Behind;
        }
        self.settle();
    }

    /// Lets time pass, firing every timer on its way.
    pub(super) fn pass_ms(&mut self, ms: u64) {
        let end = self.now.mono.plus_ms(ms);
        while let Some(at) = self.session.poll_deadline().filter(|at| *at <= end) {
            self.advance_to(at.max(self.now.mono));
            self.session.handle_deadline(self.now);
            self.settle();
        }
        self.advance_to(end);
    }

    fn advance_to(&mut self, at: Mono) {
        self.now.wall_ms += at.as_ms() - self.now.mono.as_ms();
        self.now.mono = at;
    }

    pub(super) fn call(&mut self) -> Operation {
        self.calls += 1;
        operation(self.calls)
    }

    pub(super) fn send(&mut self, id: &str, text: &str) -> CallId {
        self.send_as(id, text, SendMode::AfterTurn)
    }

    pub(super) fn send_as(&mut self, id: &str, text: &str, mode: SendMode) -> CallId {
        let operation = self.call();
        let call = operation.call;
        let send = Send { message_id: MessageId::from(id), text: text.to_owned(), mode };
        self.session.send(self.now, operation, send);
        self.settle();
        call
    }

    pub(super) fn stop(&mut self, turn: Option<&str>) -> CallId {
        let operation = self.call();
        let call = operation.call;
        self.session.stop(self.now, operation, Stop { turn: turn.map(Into::into) });
        self.settle();
        call
    }

    pub(super) fn close(&mut self) -> CallId {
        let operation = self.call();
        let call = operation.call;
        self.session.close(self.now, operation);
        self.settle();
        call
    }

    pub(super) fn evict(&mut self) -> CallId {
        let operation = self.call();
        let call = operation.call;
        self.session.evict(self.now, operation);
        self.settle();
        call
    }

    pub(super) fn answer(&mut self, answer: PermissionAnswer) -> CallId {
        let operation = self.call();
        let call = operation.call;
        self.session.answer(self.now, operation, answer);
        self.settle();
        call
    }

    /// The agent writes one line.
    pub(super) fn says(&mut self, frame: &Value) {
        let line = format!("{frame}\n");
        self.says_bytes(line.as_bytes());
    }

    pub(super) fn says_bytes(&mut self, bytes: &[u8]) {
        let generation = self.generation.clone();
        self.session.handle_stdout(self.now, &generation, bytes);
        self.settle();
    }

    pub(super) fn update(&mut self, update: &Value) {
        let params = json!({"sessionId": AGENT_SESSION, "update": update});
        self.says(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    }

    pub(super) fn chunk(&mut self, text: &str) {
        let content = json!({"type": "text", "text": text});
        self.update(&json!({"sessionUpdate": "agent_message_chunk", "content": content}));
    }

    pub(super) fn tool(&mut self, id: &str, status: &str) {
        self.update(
            &json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": id, "status": status}),
        );
    }

    pub(super) fn tool_update(&mut self, id: &str, status: &str) {
        self.update(
            &json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status}),
        );
    }

    pub(super) fn frame(&mut self) -> Value {
        self.frames.pop_front().expect("a frame was written")
    }

    /// The next frame, which must be a call of `method`.
    pub(super) fn expect(&mut self, method: &str) -> Value {
        let frame = self.frame();
        assert_eq!(frame["method"], method, "{frame}");
        frame
    }

    pub(super) fn reply(&mut self, request: &Value, result: Value) {
        self.says(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    pub(super) fn fail(&mut self, request: &Value, error: Value) {
        self.says(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    }

    /// Answers `initialize` and the session request, and expects the prompt. Keeps the prompt as the oldest frame.
    pub(super) fn handshake(&mut self) {
        self.handshake_with(json!({"loadSession": true, "sessionCapabilities": {"resume": {}}}));
    }

    pub(super) fn handshake_with(&mut self, capabilities: Value) {
        let initialize = self.expect("initialize");
        self.reply(&initialize, json!({"protocolVersion": 1, "agentCapabilities": capabilities}));
        let open = self.frame();
        let result = if open["method"] == "session/new" {
            json!({"sessionId": AGENT_SESSION})
        } else {
            json!({})
        };
        self.reply(&open, result);
        assert_eq!(self.frames.front().map(|f| f["method"].clone()), Some(json!("session/prompt")));
    }

    pub(super) fn reply_prompt(&mut self, result: Value) {
        let prompt = self.expect("session/prompt");
        self.reply(&prompt, result);
    }

    /// The root exits, its stdout and its stderr end, and nobody is left.
    pub(super) fn exits(&mut self, exit: Exit) {
        self.ends(exit);
        self.swept(true);
    }

    /// The root exits, its stdout and its stderr end.
    pub(super) fn ends(&mut self, exit: Exit) {
        self.exit_seen(exit);
        self.streams_end();
    }

    pub(super) fn exit_seen(&mut self, exit: Exit) {
        let generation = self.generation.clone();
        self.session.handle_report(self.now, &generation, Report::Exited { exit });
        self.settle();
    }

    pub(super) fn streams_end(&mut self) {
        self.stdout_ends();
        let generation = self.generation.clone();
        self.session.handle_stderr_end(self.now, &generation);
        self.settle();
    }

    pub(super) fn stdout_ends(&mut self) {
        let generation = self.generation.clone();
        self.session.handle_stdout_end(self.now, &generation);
        self.settle();
    }

    pub(super) fn swept(&mut self, empty: bool) {
        let generation = self.generation.clone();
        let report = Report::Swept { empty, survivors: Vec::new() };
        self.session.handle_report(self.now, &generation, report);
        self.settle();
    }

    /// The end of the session file of the last agent that left.
    pub(super) fn file_tail(&mut self, tail: &FileTail) {
        let generation = self.generation.clone();
        self.session.handle_file_tail(self.now, &generation, tail);
        self.settle();
    }

    /// The host dies, and the next one restores what is on disk.
    pub(super) fn restart(&mut self) {
        let epoch = Some(self.session.record().epoch.clone());
        let stored = StoredRows { epoch, rows: self.stored.clone(), fault: None };
        let record = self.session.record().clone();
        self.session = Session::restore(policy(), record, stored, self.now);
        self.settle();
    }

    /// The events of Stops that are on disk, oldest first.
    pub(super) fn stop_events(&self) -> Vec<StopEvent> {
        let stop = |row: &Row| match &row.kind {
            RowKind::Mark { mark: Mark::Stop(stop) } => Some(stop.clone()),
            _ => None,
        };
        self.stored.iter().filter_map(stop).collect()
    }

    pub(super) fn signals(&self) -> Vec<Signal> {
        let signal =
            |o: &Order| if let Order::Signal { signal } = o { Some(*signal) } else { None };
        self.orders.iter().filter_map(signal).collect()
    }

    pub(super) fn items(&self) -> Vec<ItemView> {
        self.timeline.items().into_iter().cloned().collect()
    }

    pub(super) fn turns(&self) -> Vec<TurnBody> {
        let turn = |i: ItemView| if let ItemBody::Turn(turn) = i.body { Some(turn) } else { None };
        self.items().into_iter().filter_map(turn).collect()
    }

    pub(super) fn last_turn(&self) -> TurnBody {
        self.turns().pop().expect("a turn was opened")
    }

    /// Status lines, in order.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |i: ItemView| if let ItemBody::Status(s) = i.body { Some(s.text) } else { None };
        self.items().into_iter().filter_map(line).collect()
    }

    pub(super) fn summary(&self) -> &Summary {
        self.summaries.last().expect("a summary was published")
    }

    pub(super) fn state_of(&self, message: &str) -> crate::journal::SubmissionState {
        self.timeline.submission(&MessageId::from(message)).expect("a submission").state
    }
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<PlantedBug>> = const { std::cell::Cell::new(None) };
}

/// The policy of every session that a story makes, and of those it restores.
pub(super) fn policy() -> Policy {
    #[cfg(feature = "planted-bugs")]
    if let Some(bug) = PLANTED.get() {
        return Policy::default().planting(bug);
    }
    Policy::default()
}

/// With a bug no invariant is asserted: what breaks is what is seen from outside.
fn is_planted() -> bool {
    policy() != Policy::default()
}

/// Whether `story` holds, in sessions with the bug if there is one.
#[cfg(feature = "planted-bugs")]
pub(super) fn holds(bug: Option<PlantedBug>, story: fn()) -> bool {
    PLANTED.set(bug);
    let held = std::panic::catch_unwind(story).is_ok();
    PLANTED.set(None);
    held
}

pub(super) fn operation(n: u64) -> Operation {
    Operation {
        call: CallId(n),
        op: OperationId(format!("{:013}-{n:032x}", 1_000_000 + n)),
        caller: CallerId::from("tester"),
        fingerprint: format!("print-{n}"),
    }
}

fn identity(n: u64) -> ChildIdentity {
    let pid = 1_000 + u32::try_from(n).expect("few starts");
    ChildIdentity {
        root: ProcessIdentity { pid, start: 7 },
        supervisor: None,
        boot: "boot".to_owned(),
        proof: ProofKind::Subreaper,
    }
}
