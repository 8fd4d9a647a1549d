//! Persist before act: rows are planned at the step, and what rests on them waits for them to be durable.

use std::collections::{BTreeSet, VecDeque};

use super::machine::Session;
use super::timers::Timer;
use super::{Answer, CallId, Effect, Operation, Ticket};
use crate::coverage::CoverageMark;
use crate::failure::{RefusalCode, RefusedOperation};
use crate::ids::{Generation, MessageId};
use crate::journal::{Fold, ItemBody, Mutation, Payload, ROW_VERSION, Row, RowKind, Touched};
use crate::limits::{APPENDS_IN_FLIGHT_MAX, STORE_RETRY_MS};
use crate::planted::PlantedBug;
use crate::platform::{ChildSpec, Moment};
use crate::store::{LedgerEntry, LedgerOutcome, RecordChange, Refusal, Unit};
use crate::wire::RequestId;

/// What waits for a unit to be durable.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) enum Gate {
    /// The answer of a caller.
    Answer(CallId, Box<Answer>),
    /// The spawn, on its reservation (rule 6.13.5).
    Spawn(Generation, Box<ChildSpec>),
    /// `initialize`, on the recorded identity (rule 1.2.1 h).
    Initialize(Generation),
    /// `ready` and the first prompt, on the handle link (rule 1.3.7).
    Ready(Generation),
    /// A prompt, on its dispatch row (rule 5.1.2).
    Prompt(Generation, MessageId),
    /// A person's permission answer, on its compare-and-set (rule 9.3.1).
    Reply(Generation, RequestId, Vec<u8>),
    /// The end of the child is on disk: nothing of it is kept.
    Gone(Generation),
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
struct Waiting {
    ticket: Ticket,
    unit: Box<Unit>,
    gates: Vec<Gate>,
    bytes: usize,
    in_flight: bool,
    /// Its rows tell of nothing but these messages: refused with them, they go as well.
    rests_on: BTreeSet<MessageId>,
}

/// Units on their way to the store, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Appends {
    next: u64,
    waiting: VecDeque<Waiting>,
    bytes: usize,
    refusing: bool,
    /// A unit was submitted since every refusal was read: what follows it does not resume ([`Unit::resumes`]).
    goes_on: bool,
    closed: bool,
}

impl Appends {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The store has refused and not yet taken anything since.
    pub(super) fn is_refusing(&self) -> bool {
        self.refusing
    }

    /// Nothing will ever be stored again.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// So much is waiting that the agent is not read on (rule 1.5.8).
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= APPENDS_IN_FLIGHT_MAX
    }

    /// `durable` with everything on it that waits.
    pub(super) fn over(&self, durable: &Fold) -> Fold {
        let mut fold = durable.clone();
        self.apply_to(&mut fold);
        fold
    }

    fn apply_to(&self, fold: &mut Fold) {
        let mut touched = Touched::unheard();
        for row in self.waiting.iter().flat_map(|w| &w.unit.rows) {
            fold.apply(row, &mut touched);
        }
    }

    /// Bytes of text that wait to be stored.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Rows and what belongs to them, before they have sequence numbers.
#[derive(Default)]
pub(super) struct Draft {
    rows: Vec<RowKind>,
    ledger: Option<LedgerEntry>,
    record: bool,
    recovered: bool,
    gates: Vec<Gate>,
    rests_on: BTreeSet<MessageId>,
}

impl Draft {
    pub(super) fn rows(rows: Vec<RowKind>) -> Self {
        Self { rows, ..Self::default() }
    }

    /// The session's record changes in the same unit.
    pub(super) fn with_record(mut self) -> Self {
        self.record = true;
        self
    }

    /// Settled after the fact rather than by the child's own events.
    pub(super) fn recovered(mut self) -> Self {
        self.recovered = true;
        self
    }

    /// Its rows tell of nothing but these messages, none of which is on disk.
    pub(super) fn resting_on(mut self, messages: BTreeSet<MessageId>) -> Self {
        self.rests_on = messages;
        self
    }

    pub(super) fn gate(mut self, gate: Gate) -> Self {
        self.gates.push(gate);
        self
    }

    /// The operation is remembered with its answer in the same unit, and answered once it is durable.
    pub(super) fn answering(
        self,
        session: &Session,
        now: Moment,
        operation: &Operation,
        answer: Answer,
    ) -> Self {
        let mut draft = self.remembering(session, now, operation, &answer);
        draft.gates.push(Gate::Answer(operation.call, Box::new(answer)));
        draft
    }

    /// The operation is remembered with its answer in the same unit.
    pub(super) fn remembering(
        mut self,
        session: &Session,
        now: Moment,
        operation: &Operation,
        answer: &Answer,
    ) -> Self {
        self.ledger = Some(LedgerEntry {
            op: operation.op.clone(),
            caller: operation.caller.clone(),
            session: session.record.session.clone(),
            fingerprint: operation.fingerprint.clone(),
            recorded_ms: now.wall_ms,
            outcome: LedgerOutcome::Succeeded(answer.to_text()),
        });
        self
    }
}

impl Session {
    /// Plans a unit: assigns sequence numbers, applies the rows to the machine's own fold, and submits it.
    pub(super) fn plan(&mut self, now: Moment, draft: Draft) {
        self.flush_text(now);
        self.plan_without_flush(now, draft);
    }

    pub(super) fn plan_without_flush(&mut self, now: Moment, draft: Draft) {
        if self.appends.closed {
            self.drop_gates(draft.gates);
            return;
        }
        let last = self.plan.cursor().seq;
        let bytes = draft.rows.iter().map(weight).sum();
        let row = |(seq, kind)| Row {
            v: ROW_VERSION,
            epoch: self.record.epoch.clone(),
            seq,
            fence: self.record.lease.fence,
            at_ms: now.wall_ms,
            recovered: draft.recovered,
            kind,
        };
        let rows: Vec<Row> = (last + 1..).zip(draft.rows).map(row).collect();
        let mut touched = Touched::default();
        for row in &rows {
            self.plan.apply(row, &mut touched);
        }
        let record = draft.record.then(|| {
            let expected_revision = self.record.revision;
            self.record.revision += 1;
            RecordChange { expected_revision, record: self.record.clone() }
        });
        let in_flight = !self.appends.refusing;
        let resumes = in_flight && !std::mem::replace(&mut self.appends.goes_on, in_flight);
        let unit = Box::new(Unit {
            session: self.record.session.clone(),
            fence: self.record.lease.fence,
            rows,
            ledger: draft.ledger,
            record,
            resumes,
        });
        self.appends.next += 1;
        let ticket = Ticket(self.appends.next);
        if in_flight {
            self.effects.push_back(Effect::Append { ticket, unit: unit.clone() });
        } else {
            self.sometimes(CoverageMark::PlannedWhileRefused);
        }
        let mut gates = draft.gates;
        if self.plants(PlantedBug::AnswerBeforeDurable) {
            self.answer_sends_early(&mut gates);
        }
        self.appends.bytes += bytes;
        let rests_on = draft.rests_on;
        self.appends.waiting.push_back(Waiting { ticket, unit, gates, bytes, in_flight, rests_on });
        self.regulate_reading();
    }

    /// Only under [`PlantedBug::AnswerBeforeDurable`].
    fn answer_sends_early(&mut self, gates: &mut Vec<Gate>) {
        let is_send = |gate: &Gate| matches!(gate, Gate::Answer(_, answer) if matches!(**answer, Answer::Sent(_)));
        for gate in gates.extract_if(.., |gate| is_send(gate)) {
            if let Gate::Answer(call, answer) = gate {
                self.effects.push_back(Effect::Answer { call, answer: *answer });
            }
        }
    }

    /// Something waits for everything planned so far to be durable.
    pub(super) fn gate_on_last(&mut self, now: Moment, gate: Gate) {
        match self.appends.waiting.back_mut() {
            Some(waiting) => waiting.gates.push(gate),
            None => self.open_gate(now, gate),
        }
    }

    /// The unit of `ticket` is durable.
    pub fn handle_durable(&mut self, now: Moment, ticket: Ticket) {
        if self.appends.closed {
            return;
        }
        let Some(waiting) = self.appends.waiting.pop_front() else {
            debug_assert!(false, "only what was submitted becomes durable");
            return;
        };
        assert_eq!(waiting.ticket, ticket, "units become durable in the order of their tickets");
        self.appends.bytes -= waiting.bytes;
        if std::mem::take(&mut self.appends.refusing) {
            // What was planned while it refused goes behind what was submitted again, before anything newer.
            self.sometimes(CoverageMark::StoreHealed);
            self.submit_waiting();
        }
        let mut touched = Touched::default();
        for row in &waiting.unit.rows {
            self.durable.apply(row, &mut touched);
        }
        if !touched.is_empty() {
            let mut batch = self.durable.batch(touched);
            if self.plants(PlantedBug::BatchWithoutRevision) {
                batch.items.iter_mut().for_each(|item| item.revision = 1);
            }
            self.misread_batch(&mut batch.items);
            self.effects.push_back(Effect::Commit(batch));
        }
        for gate in waiting.gates {
            self.open_gate(now, gate);
        }
        self.steer(now);
        self.disclose_discarded(now);
        self.regulate_reading();
        self.advance(now);
    }

    /// The store did not take the unit of `ticket`.
    pub fn handle_refused(&mut self, now: Moment, ticket: Ticket, refusal: Refusal) {
        if self.appends.closed {
            return;
        }
        match refusal {
            Refusal::Retry { .. } => {
                // The store refuses every later unit of this session as well, so order holds (decision D8).
                self.sometimes(CoverageMark::StoreRefused);
                if self.plants(PlantedBug::LoseRowsOnRefusal) {
                    return self.lose_refused(now, ticket);
                }
                let Some(waiting) = self.appends.waiting.iter_mut().find(|w| w.ticket == ticket)
                else {
                    // It was given up when the unit before it was refused.
                    return;
                };
                waiting.in_flight = false;
                self.appends.refusing = true;
                self.give_up_unsaved_sends();
                if !self.timers.is_armed(Timer::StoreRetry) {
                    self.timers.arm(Timer::StoreRetry, now.mono.plus_ms(STORE_RETRY_MS));
                }
                self.regulate_reading();
                self.advance(now);
            }
            Refusal::Stale { .. } | Refusal::Conflict | Refusal::Closed { .. } => {
                self.lose_store(now)
            }
        }
    }

    /// Only under [`PlantedBug::LoseRowsOnRefusal`].
    fn lose_refused(&mut self, now: Moment, ticket: Ticket) {
        let lost = self.appends.waiting.iter().position(|w| w.ticket == ticket);
        if let Some(lost) = lost.and_then(|at| self.appends.waiting.remove(at)) {
            self.appends.bytes -= lost.bytes;
            lost.gates.into_iter().for_each(|gate| self.open_gate(now, gate));
        }
        self.advance(now);
    }

    pub(super) fn retry_appends(&mut self, now: Moment) {
        if self.appends.waiting.iter().any(|w| w.in_flight) {
            // Answers to what was submitted behind the refused unit are still on their way.
            self.sometimes(CoverageMark::RetryDelayed);
            self.timers.arm(Timer::StoreRetry, now.mono.plus_ms(STORE_RETRY_MS));
            return;
        }
        self.appends.goes_on = false;
        if self.appends.is_empty() {
            // Nothing is left that could tell: the next thing to save does.
            self.appends.refusing = false;
            self.regulate_reading();
        }
        self.submit_waiting();
    }

    fn submit_waiting(&mut self) {
        for waiting in self.appends.waiting.iter_mut().filter(|w| !w.in_flight) {
            waiting.in_flight = true;
            waiting.unit.resumes = !std::mem::replace(&mut self.appends.goes_on, true);
            let effect = Effect::Append { ticket: waiting.ticket, unit: waiting.unit.clone() };
            self.effects.push_back(effect);
        }
    }

    /// Nothing will be stored again: what is not durable is dropped, callers are told, the child is ended as not
    /// requested (rule 1.5.7).
    fn lose_store(&mut self, now: Moment) {
        self.sometimes(CoverageMark::StoreLost);
        self.appends.closed = true;
        self.timers.clear(Timer::StoreRetry);
        let waiting = std::mem::take(&mut self.appends.waiting);
        self.appends.bytes = 0;
        for waiting in waiting {
            self.drop_gates(waiting.gates);
        }
        self.end_for_lost_store(now);
        self.advance(now);
    }

    fn drop_gates(&mut self, gates: Vec<Gate>) {
        for gate in gates {
            match gate {
                Gate::Answer(call, answer) => {
                    let refused = RefusedOperation::new(RefusalCode::StoreClosed);
                    self.effects
                        .push_back(Effect::Answer { call, answer: answer.refused(refused) });
                }
                // A child's end needs no row to be over.
                Gate::Gone(generation) => self.forget_child(&generation),
                Gate::Spawn(..) => self.drop_reserved_child(),
                // The person's answer is lost; the agent is still owed one.
                Gate::Reply(_, id, _) => self.unclaim_ask(&id),
                Gate::Initialize(_) | Gate::Ready(_) | Gate::Prompt(..) => {}
            }
        }
    }

    fn open_gate(&mut self, now: Moment, gate: Gate) {
        match gate {
            Gate::Answer(call, answer) => {
                self.effects.push_back(Effect::Answer { call, answer: *answer });
            }
            Gate::Spawn(generation, spec) => self.spawn_reserved(now, generation, *spec),
            Gate::Initialize(generation) => self.initialize(now, &generation),
            Gate::Ready(generation) => self.become_ready(now, &generation),
            Gate::Prompt(generation, message) => self.write_prompt(now, &generation, &message),
            Gate::Reply(generation, id, frame) => self.write_reply(now, &generation, &id, frame),
            Gate::Gone(generation) => self.forget_child(&generation),
        }
    }

    /// Reading pauses while the store refuses or lags, never during the ladder (decision D8).
    pub(super) fn regulate_reading(&mut self) {
        let hold = self.appends.refusing || self.appends.is_full();
        let Some(child) = self.child.as_mut() else {
            return;
        };
        let stays_paused = self.policy.plants(PlantedBug::ReadingNeverResumed) && !child.reading;
        let on = !(hold || stays_paused) || child.is_in_ladder();
        if hold && on && child.root.is_none() && child.has_process() {
            self.met.sometimes(CoverageMark::ReadThroughEnd);
        }
        if child.reading != on && child.has_process() {
            self.met.sometimes(match on {
                true => CoverageMark::ReadingResumed,
                false => CoverageMark::ReadingPaused,
            });
            child.reading = on;
            let generation = child.generation.clone();
            self.effects.push_back(Effect::Read { generation, on });
        }
    }
}

/// A send may not run without its row (rule 5.10.5): refused with it, it leaves nothing (decision D8).
impl Session {
    /// Refuses by name every send whose row is not on disk, and takes back what was planned for it. The store has taken
    /// nothing from the refused unit on, so what stays is numbered anew.
    fn give_up_unsaved_sends(&mut self) {
        let unsaved = self.appends.unsaved_sends();
        if unsaved.is_empty() {
            return;
        }
        for waiting in &mut self.appends.waiting {
            if waiting.unit.rows.iter().any(|row| is_submission(&row.kind)) {
                waiting.unit.ledger = None;
            }
            if !waiting.rests_on.is_empty() && waiting.rests_on.is_subset(&unsaved) {
                waiting.unit.rows.clear();
            }
            waiting.unit.rows.retain_mut(|row| keeps_anything(&mut row.kind, &unsaved));
            let is_of_it = |gate: &Gate| match gate {
                Gate::Prompt(_, message) => unsaved.contains(message),
                Gate::Answer(_, answer) => {
                    matches!(&**answer, Answer::Sent(Ok(sent)) if unsaved.contains(&sent.message_id))
                }
                _ => false,
            };
            for gate in waiting.gates.extract_if(.., |gate| is_of_it(gate)) {
                let Gate::Answer(call, answer) = gate else { continue };
                self.met.sometimes(CoverageMark::SendNotSaved);
                let refused = RefusedOperation::new(RefusalCode::NotSaved);
                self.effects.push_back(Effect::Answer { call, answer: answer.refused(refused) });
            }
        }
        self.appends.close_ranks(self.durable.cursor().seq);
        self.plan = self.durable.planning_copy();
        self.appends.apply_to(&mut self.plan);
        if let Some(child) = self.child.as_mut() {
            child.dispatching = child.dispatching.take().filter(|m| !unsaved.contains(m));
            child.start_for = child.start_for.take().filter(|m| !unsaved.contains(m));
        }
    }
}

impl Appends {
    /// Numbers what waits from behind the last durable row on; units of which nothing is left go.
    fn close_ranks(&mut self, mut last: u64) {
        self.waiting.retain(|w| {
            let Unit { rows, ledger, record, .. } = &*w.unit;
            let holds = !rows.is_empty() || ledger.is_some() || record.is_some();
            holds || !w.gates.is_empty()
        });
        self.bytes = 0;
        for waiting in &mut self.waiting {
            for row in &mut waiting.unit.rows {
                last += 1;
                row.seq = last;
            }
            waiting.bytes = waiting.unit.rows.iter().map(|row| weight(&row.kind)).sum();
            self.bytes += waiting.bytes;
        }
    }

    /// The messages whose acceptance waits to be stored.
    fn unsaved_sends(&self) -> BTreeSet<MessageId> {
        let rows = self.waiting.iter().flat_map(|w| &w.unit.rows);
        rows.filter_map(|row| match &row.kind {
            RowKind::Submission { message_id, .. } => Some(message_id.clone()),
            _ => None,
        })
        .collect()
    }
}

fn is_submission(kind: &RowKind) -> bool {
    matches!(kind, RowKind::Submission { .. })
}

/// Takes what is about these messages out of a row; whether anything is left.
fn keeps_anything(kind: &mut RowKind, unsaved: &BTreeSet<MessageId>) -> bool {
    match kind {
        RowKind::Submission { message_id, .. } => !unsaved.contains(message_id),
        RowKind::Dispatch(row) => !unsaved.contains(&row.message_id),
        RowKind::Batch { mutations, .. } => {
            mutations
                .retain(|m| !matches!(m, Mutation::Dispatch(d) if unsaved.contains(&d.message_id)));
            !mutations.is_empty()
        }
        _ => true,
    }
}

/// What a row weighs beside its text and payloads.
const ROW_BYTES: usize = 256;

/// Bytes that a row holds while it waits.
fn weight(kind: &RowKind) -> usize {
    match kind {
        RowKind::Text { text, .. } | RowKind::Submission { text, .. } => ROW_BYTES + text.0.len(),
        RowKind::Item(row) => body_weight(&row.body),
        RowKind::Batch { mutations, .. } => mutations
            .iter()
            .map(|m| if let Mutation::Item(row) = m { body_weight(&row.body) } else { ROW_BYTES })
            .sum(),
        _ => ROW_BYTES,
    }
}

fn body_weight(body: &ItemBody) -> usize {
    let payload = |p: &Option<Payload>| p.as_ref().map_or(0, |p| p.head.len());
    ROW_BYTES
        + match body {
            ItemBody::User(user) => user.text.len(),
            ItemBody::Message(message) => message.text.len(),
            ItemBody::Tool(t) => t.title.len() + payload(&t.input) + payload(&t.output),
            ItemBody::Plan(raw) | ItemBody::Raw(raw) => raw.payload.head.len(),
            ItemBody::Status(status) => status.text.len(),
            ItemBody::Approval(a) => a.options.iter().map(|o| o.id.len() + o.label.len()).sum(),
            ItemBody::Turn(_) => 0,
        }
}

impl Answer {
    /// The answer as the ledger keeps it.
    pub(super) fn to_text(&self) -> String {
        let text = match self {
            Self::Created(_) => Ok("null".to_owned()),
            Self::Sent(Ok(sent)) => serde_json::to_string(sent),
            Self::Stopped(Ok(stopped)) => serde_json::to_string(stopped),
            Self::Answered(Ok(answered)) => serde_json::to_string(answered),
            Self::Closed(Ok(closed)) => serde_json::to_string(closed),
            Self::Sent(Err(r))
            | Self::Stopped(Err(r))
            | Self::Answered(Err(r))
            | Self::Closed(Err(r)) => serde_json::to_string(r),
        };
        #[expect(clippy::expect_used, reason = "answers hold no map with keys that are not text")]
        text.expect("an answer is always JSON")
    }

    /// The same call refused.
    pub(super) fn refused(self, refusal: RefusedOperation) -> Self {
        match self {
            Self::Created(_) => Self::Created(Err(refusal)),
            Self::Sent(_) => Self::Sent(Err(refusal)),
            Self::Stopped(_) => Self::Stopped(Err(refusal)),
            Self::Answered(_) => Self::Answered(Err(refusal)),
            Self::Closed(_) => Self::Closed(Err(refusal)),
        }
    }
}

impl Draft {
    /// The same with `rows` before its own.
    pub(super) fn preceded_by(mut self, mut rows: Vec<RowKind>) -> Self {
        rows.append(&mut self.rows);
        self.rows = rows;
        self
    }

    /// Nothing would be stored, and nobody waits for it.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.ledger.is_none() && !self.record && self.gates.is_empty()
    }
}
