//! The session core with a small world around it: what may happen next, and what it does.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use moored::agent::AgentDefinition;
use moored::host::{Send, Stop};
use moored::ids::{CallerId, EpochId, Generation, MessageId, OperationId, SessionId, SpawnToken};
use moored::journal::{Row, SendMode};
use moored::platform::{
    ChildIdentity, Exit, Moment, Mono, Order, ProcessIdentity, ProofKind, Report,
};
use moored::session::record::{Lease, SessionRecord};
use moored::session::{Answer, CallId, Effect, Operation, Policy, Session, Ticket};
use moored::store::{Refusal, RetryReason, StoredRows, Unit};
use serde::Serialize;

use super::agent::{self, Agent, Asked, Heard, Stands};
use super::{Bounds, Fact, Step, Transition, oracle};

/// What is seen on the way, for whoever wants it.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) transitions: BTreeSet<Transition>,
    /// Every effect in words, if wanted.
    pub(super) effects: Option<Vec<String>>,
}

/// One state: the machine, and the world around it.
#[derive(Clone)]
pub(super) struct World {
    pub(super) session: Session,
    pub(super) now: Moment,
    pub(super) around: Around,
    /// Rows that are durable. The session's own durable fold stands for them in the digest.
    pub(super) stored: Vec<Arc<Row>>,
    waiting: VecDeque<(Ticket, Box<Unit>)>,
}

/// What of the world is part of the state.
#[derive(Clone, Serialize)]
pub(super) struct Around {
    /// What is left of each bounded step.
    pub(super) left: Bounds,
    pub(super) sent: u8,
    stops: u8,
    starts: u8,
    pub(super) agent: Option<Agent>,
    /// A child of an earlier host may live: its facts reach nobody.
    pub(super) orphan: bool,
    pub(super) crashed: bool,
    /// The stored record; none until the session is created.
    record: Option<SessionRecord>,
    /// Units the store was given and has not answered.
    units: u8,
    /// Callers that wait. Those of an earlier host wait no more.
    pub(super) open_calls: Vec<CallId>,
    /// Messages that were accepted, by number, in bits.
    pub(super) accepted: u8,
    /// Messages whose prompt was written.
    pub(super) prompted: u8,
    /// Messages whose turn ran when a Stop was pressed.
    pub(super) stopped: u8,
    /// A Stop came behind an exit, and may have taken the place of an earlier one.
    pub(super) stopped_behind_exit: bool,
    /// Messages that the agent answered `cancelled`.
    pub(super) answered_cancelled: u8,
}

/// What no world allows, in one sentence.
pub(super) type Verdict = Result<(), String>;

const SEND_CALLS: u64 = 100;
const STOP_CALLS: u64 = 200;

impl World {
    /// A session that was just created and is durable.
    pub(super) fn new(bounds: Bounds) -> Result<Self, String> {
        let record = SessionRecord {
            session: SessionId::from("session"),
            revision: 0,
            epoch: EpochId::from("epoch"),
            created_ms: 1_000_000,
            agent: AgentDefinition::generic(vec!["agent".to_owned()]),
            workspace: "/work".to_owned(),
            lease: Lease::default(),
            handles: Vec::new(),
            closed: false,
            name: None,
        };
        let now = Moment { mono: Mono::from_ms(1_000_000), wall_ms: 1_000_000 };
        let create = operation(CallId(0), "create");
        let around = Around {
            left: bounds,
            sent: 0,
            stops: 0,
            starts: 0,
            agent: None,
            orphan: false,
            crashed: false,
            record: None,
            units: 0,
            open_calls: vec![CallId(0)],
            accepted: 0,
            prompted: 0,
            stopped: 0,
            stopped_behind_exit: false,
            answered_cancelled: 0,
        };
        let session = Session::create(Policy::default(), record, create, now);
        let mut world = Self { session, now, around, stored: Vec::new(), waiting: VecDeque::new() };
        let mut watch = Watch::default();
        world.settle(&mut watch)?;
        world.take(Step::Durable, &mut watch)?;
        Ok(world)
    }

    /// Equal digests are worlds that go on alike.
    pub(super) fn digest(&self) -> u128 {
        self.session.digest_with(self.now, &self.around)
    }

    /// Whether the step may come next.
    pub(super) fn is_enabled(&self, step: Step) -> bool {
        let left = &self.around.left;
        let agent = self.around.agent.as_ref();
        let heard = agent.filter(|a| a.is_heard());
        let asked = heard.and_then(|a| a.asked);
        match step {
            Step::Send => left.sends > 0,
            Step::Stop => left.stops > 0,
            Step::Durable => !self.waiting.is_empty(),
            Step::Refused => left.refusals > 0 && !self.waiting.is_empty(),
            Step::Spawned => agent.is_some_and(|a| a.stands == Stands::Spawning),
            Step::Initialized => matches!(asked, Some(Asked::Initialize { .. })),
            Step::Opened => matches!(asked, Some(Asked::New { .. } | Asked::Reopen { .. })),
            Step::AnsweredEndTurn | Step::AnsweredCancelled => {
                matches!(asked, Some(Asked::Prompt { .. }))
            }
            Step::LateUpdate => left.late_updates > 0 && heard.is_some_and(|a| a.has_answered),
            Step::Exited => agent.is_some_and(|a| a.stands == Stands::Alive),
            Step::PipesEnded => agent.is_some_and(|a| a.stands == Stands::Exited && a.pipes_open),
            Step::TreeEmpty => agent.is_some_and(|a| a.sweeping),
            Step::Timer => self.session.poll_deadline().is_some(),
            Step::Crashed => left.crashes > 0,
            Step::CrashedUnheard => left.crashes > 0 && !self.waiting.is_empty(),
        }
    }

    /// Steps that somebody owes: with none of them left, nothing will happen by itself.
    pub(super) fn is_owed(&self, step: Step) -> bool {
        let owed = matches!(
            step,
            Step::Durable
                | Step::Spawned
                | Step::Initialized
                | Step::Opened
                | Step::PipesEnded
                | Step::TreeEmpty
                | Step::Timer
        );
        owed && self.is_enabled(step)
    }

    /// Takes a step that is enabled, and checks what must hold.
    pub(super) fn take(&mut self, step: Step, watch: &mut Watch) -> Verdict {
        match step {
            Step::Send => self.send(watch)?,
            Step::Stop => self.stop(watch)?,
            Step::Durable => self.commit(watch)?,
            Step::Refused => self.refuse(watch)?,
            Step::Timer => self.fire(watch)?,
            Step::Crashed | Step::CrashedUnheard => {
                self.crash(step == Step::CrashedUnheard, watch)?
            }
            _ => self.agent_step(step, watch)?,
        }
        self.settle(watch)?;
        oracle::after_step(self)
    }

    fn tell(&mut self, fact: Fact, watch: &mut Watch, tell: impl FnOnce(&mut Session, Moment)) {
        let before = self.session.phase();
        tell(&mut self.session, self.now);
        let after = self.session.phase();
        watch.transitions.insert(Transition { before, fact, after });
        self.session.invariants();
    }

    fn send(&mut self, watch: &mut Watch) -> Verdict {
        self.around.left.sends -= 1;
        self.around.sent += 1;
        let number = self.around.sent;
        let call = CallId(SEND_CALLS + u64::from(number));
        self.around.open_calls.push(call);
        let send = Send {
            message_id: message(number),
            text: format!("m{number}"),
            mode: SendMode::AfterTurn,
        };
        let operation = operation(call, &format!("send-{number}"));
        self.tell(Fact::Send, watch, |s, now| s.send(now, operation, send));
        Ok(())
    }

    fn stop(&mut self, watch: &mut Watch) -> Verdict {
        self.around.left.stops -= 1;
        self.around.stops += 1;
        let number = self.around.stops;
        let call = CallId(STOP_CALLS + u64::from(number));
        self.around.open_calls.push(call);
        if let Some(agent) = &self.around.agent
            && let Some(Asked::Prompt { message, .. }) = agent.asked
            && agent.stands == Stands::Alive
        {
            self.around.stopped |= 1 << message;
        }
        if self.around.agent.as_ref().is_some_and(|a| a.stands == Stands::Exited) {
            // The machine tells by the clock which of the two came first (rule 3.4.8).
            self.around.stopped_behind_exit = true;
            self.pass_ms(1);
        }
        let operation = operation(call, &format!("stop-{number}"));
        self.tell(Fact::Stop, watch, |s, now| s.stop(now, operation, Stop { turn: None }));
        Ok(())
    }

    fn commit(&mut self, watch: &mut Watch) -> Verdict {
        if let Some(ticket) = self.store_oldest() {
            self.tell(Fact::Durable, watch, |s, now| s.handle_durable(now, ticket));
        }
        Ok(())
    }

    /// The store takes the oldest unit.
    fn store_oldest(&mut self) -> Option<Ticket> {
        let (ticket, unit) = self.waiting.pop_front()?;
        self.around.units -= 1;
        self.stored.extend(unit.rows.into_iter().map(Arc::new));
        if let Some(change) = unit.record {
            self.around.record = Some(change.record);
        }
        Some(ticket)
    }

    fn refuse(&mut self, watch: &mut Watch) -> Verdict {
        self.around.left.refusals -= 1;
        self.around.units = 0;
        let mut reason = RetryReason::Full;
        for (ticket, _) in std::mem::take(&mut self.waiting) {
            let refusal = Refusal::Retry { reason };
            self.tell(Fact::Refused, watch, |s, now| s.handle_refused(now, ticket, refusal));
            reason = RetryReason::Behind;
        }
        Ok(())
    }

    fn fire(&mut self, watch: &mut Watch) -> Verdict {
        let Some(at) = self.session.poll_deadline() else {
            return Ok(());
        };
        self.pass_ms(at.max(self.now.mono).as_ms() - self.now.mono.as_ms());
        self.tell(Fact::Deadline, watch, Session::handle_deadline);
        Ok(())
    }

    fn pass_ms(&mut self, ms: u64) {
        self.now.mono = self.now.mono.plus_ms(ms);
        self.now.wall_ms += ms;
    }

    /// The host is gone with all it had in memory, and starts again on what is stored.
    fn crash(&mut self, unheard: bool, watch: &mut Watch) -> Verdict {
        self.around.left.crashes -= 1;
        self.around.crashed = true;
        if unheard {
            self.store_oldest();
        }
        self.waiting.clear();
        self.around.units = 0;
        self.around.open_calls.clear();
        let agent = self.around.agent.take();
        self.around.orphan |= agent.is_some_and(|a| a.stands != Stands::Exited);
        let Some(record) = self.around.record.clone() else {
            return Err("the session was not created".to_owned());
        };
        let rows = self.stored.iter().map(|row| Row::clone(row)).collect();
        let stored = StoredRows { epoch: Some(record.epoch.clone()), rows, fault: None };
        let before = self.session.phase();
        self.session = Session::restore(Policy::default(), record, stored, self.now);
        let after = self.session.phase();
        watch.transitions.insert(Transition { before, fact: Fact::Restored, after });
        self.session.invariants();
        oracle::after_restart(self)
    }

    fn agent_step(&mut self, step: Step, watch: &mut Watch) -> Verdict {
        let Some(agent) = self.around.agent.as_mut() else {
            return Ok(());
        };
        let generation = agent.generation.clone();
        match step {
            Step::Spawned => {
                agent.stands = Stands::Alive;
                let identity = identity(self.around.starts);
                self.tell(Fact::Spawned, watch, |s, now| {
                    s.handle_spawned(now, &generation, identity);
                });
            }
            Step::Exited => {
                agent.stands = Stands::Exited;
                let report = Report::Exited { exit: Exit::Code(0) };
                self.tell(Fact::Exited, watch, |s, now| s.handle_report(now, &generation, report));
            }
            Step::PipesEnded => {
                agent.pipes_open = false;
                agent.asked = None;
                self.tell(Fact::StdoutEnd, watch, |s, now| s.handle_stdout_end(now, &generation));
                self.tell(Fact::StderrEnd, watch, |s, now| s.handle_stderr_end(now, &generation));
            }
            Step::TreeEmpty => {
                (agent.sweeping, agent.swept) = (false, Some(self.now.mono));
                let report = Report::Swept { empty: true, survivors: Vec::new() };
                self.tell(Fact::Swept, watch, |s, now| s.handle_report(now, &generation, report));
            }
            _ => {
                let said = self.words(step);
                self.tell(Fact::Stdout, watch, |s, now| {
                    s.handle_stdout(now, &generation, said.as_bytes());
                });
            }
        }
        Ok(())
    }

    /// What the agent writes.
    fn words(&mut self, step: Step) -> String {
        let Some(agent) = self.around.agent.as_mut() else {
            return String::new();
        };
        if step == Step::LateUpdate {
            self.around.left.late_updates -= 1;
            return agent::chunk("late");
        }
        match agent.asked.take() {
            Some(Asked::Initialize { id }) => agent::result(id, agent::INITIALIZED),
            Some(Asked::New { id }) => {
                agent::result(id, &format!("{{\"sessionId\":\"{}\"}}", agent::AGENT_SESSION))
            }
            Some(Asked::Reopen { id }) => agent::result(id, "{}"),
            Some(Asked::Prompt { id, message }) => {
                (agent.has_answered, agent.cancelled) = (true, false);
                if step == Step::AnsweredCancelled {
                    self.around.answered_cancelled |= 1 << message;
                    agent::result(id, r#"{"stopReason":"cancelled"}"#)
                } else {
                    agent::result(id, r#"{"stopReason":"end_turn"}"#)
                }
            }
            None => String::new(),
        }
    }

    /// Carries out effects until there is none.
    fn settle(&mut self, watch: &mut Watch) -> Verdict {
        while let Some(effect) = self.session.poll_effect() {
            if let Some(effects) = &mut watch.effects {
                effects.push(effect.to_string());
            }
            self.carry_out(effect, watch)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, effect: Effect, watch: &mut Watch) -> Verdict {
        match effect {
            Effect::Append { ticket, unit } => {
                if let Some(agent) = &self.around.agent
                    && oracle::settles(&unit)
                {
                    oracle::may_settle(agent, self.now.mono)?;
                }
                self.around.units += 1;
                self.waiting.push_back((ticket, unit));
            }
            Effect::Answer { call, answer } => self.answer(call, &answer)?,
            Effect::Commit(_) => {}
            Effect::Publish(summary) => oracle::published(&summary)?,
            Effect::Mint => self.mint(watch),
            Effect::Spawn { generation, .. } => {
                oracle::may_spawn(self)?;
                self.around.agent = Some(Agent::spawning(generation));
            }
            Effect::Forget { generation } => {
                oracle::may_forget(self, &generation)?;
                self.around.agent.take_if(|a| a.generation == generation);
            }
            Effect::Write { generation, frame } => {
                self.hear(&generation, &frame.0)?;
                let bytes = frame.0.len();
                self.tell(Fact::Written, watch, |s, now| s.handle_written(now, &generation, bytes));
            }
            Effect::Read { generation, on } => {
                if let Some(agent) = self.agent_of(&generation) {
                    agent.reading = on;
                }
            }
            // No agent here has a session file that its definition knows of.
            Effect::ReadTail { .. } => return Err("a file is read that nobody knows of".to_owned()),
            Effect::CloseStdin { generation } | Effect::CutStdin { generation } => {
                let now = self.now.mono;
                if let Some(agent) = self.agent_of(&generation) {
                    // A ladder that runs again is counted again.
                    (agent.eof, agent.term) = (Some(now), None);
                }
            }
            Effect::Order { generation, order } => self.order(&generation, order)?,
        }
        Ok(())
    }

    fn answer(&mut self, call: CallId, answer: &Answer) -> Verdict {
        let at = self.around.open_calls.iter().position(|open| *open == call);
        let Some(at) = at else {
            return Err(format!("call {} is answered, and nobody waits for it", call.0));
        };
        self.around.open_calls.remove(at);
        if let Answer::Sent(Ok(accepted)) = answer {
            oracle::may_accept(self, &accepted.message_id)?;
            self.around.accepted |= 1 << (call.0 - SEND_CALLS);
        }
        Ok(())
    }

    fn mint(&mut self, watch: &mut Watch) {
        self.around.starts += 1;
        let generation = Generation(format!("generation-{}", self.around.starts));
        let token = SpawnToken(format!("token-{}", self.around.starts));
        self.tell(Fact::Minted, watch, |s, now| s.handle_minted(now, generation, token));
    }

    fn order(&mut self, generation: &Generation, order: Order) -> Verdict {
        let now = self.now.mono;
        let Some(agent) = self.agent_of(generation) else {
            return Ok(());
        };
        match order {
            Order::Signal { signal } => {
                oracle::may_signal(agent, signal, now)?;
                agent.term.get_or_insert(now);
            }
            Order::Sweep { .. } => agent.sweeping = true,
            Order::Release => {}
        }
        Ok(())
    }

    /// The agent gets a frame.
    fn hear(&mut self, generation: &Generation, frame: &[u8]) -> Verdict {
        let heard = Heard::read(frame).ok_or_else(|| "a frame is no JSON".to_owned())?;
        let (id, method) = (heard.id.unwrap_or(0), heard.method.unwrap_or_default());
        let asked = match method {
            "initialize" => Asked::Initialize { id },
            "session/new" => Asked::New { id },
            "session/load" | "session/resume" => Asked::Reopen { id },
            "session/prompt" => {
                let number = heard.prompt().and_then(|text| text.strip_prefix('m')?.parse().ok());
                let number = number.ok_or_else(|| "a prompt is nobody's message".to_owned())?;
                oracle::may_prompt(self, number)?;
                self.around.prompted |= 1 << number;
                Asked::Prompt { id, message: number }
            }
            "session/cancel" => return oracle::cancelled(self.agent_of(generation)),
            other => return Err(format!("the agent is sent {other:?}")),
        };
        if let Some(agent) = self.agent_of(generation) {
            if agent.asked.is_some() && agent.stands == Stands::Alive {
                return Err(format!("the agent is asked {method} before it has answered"));
            }
            (agent.asked, agent.cancelled) = (Some(asked), false);
        }
        Ok(())
    }

    fn agent_of(&mut self, generation: &Generation) -> Option<&mut Agent> {
        self.around.agent.as_mut().filter(|a| a.generation == *generation)
    }
}

/// The id of a message by its number.
pub(super) fn message(number: u8) -> MessageId {
    MessageId(format!("m{number}"))
}

fn operation(call: CallId, name: &str) -> Operation {
    Operation {
        call,
        op: OperationId::from(name),
        caller: CallerId::from("person"),
        fingerprint: name.to_owned(),
    }
}

fn identity(starts: u8) -> ChildIdentity {
    ChildIdentity {
        root: ProcessIdentity { pid: 1_000 + u32::from(starts), start: 7 },
        supervisor: None,
        boot: "boot".to_owned(),
        proof: ProofKind::Subreaper,
    }
}
