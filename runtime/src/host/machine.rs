//! The host above its sessions: which there are, what every mutating call becomes, and how the host ends. Pure.
//!
//! A call is admitted in the order of rule 5.10.2: its digest is compared, then the ledger is asked, then the session is
//! looked up, and the session itself compares the fence. The ledger comes before the fence, so a retry across a change
//! of owner replays instead of being told that it is stale.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Admission, CallContext, Command, Ledger, NewSession, Operator, outcome_of};
use crate::coverage::{CoverageMark, CoverageMarks, Met};
use crate::failure::{RefusalCode, RefusedOperation};
use crate::ids::{EpochId, Fence, OperationId, SessionId};
use crate::planted::PlantedBug;
use crate::platform::Moment;
use crate::session::record::{Claim, Lease, SessionRecord};
use crate::session::{Answer, CallId, Operation};
use crate::store::{LedgerOutcome, StoreImage};

/// Longest session id.
const SESSION_ID_BYTES_MAX: usize = 128;

/// A mutating call as it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Who waits.
    pub call: CallId,
    /// Whose session.
    pub session: SessionId,
    /// What every call carries.
    pub context: CallContext,
    /// What is asked.
    pub command: Command,
}

/// Where a session stands on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its creation is not answered yet.
    Creating,
    /// It takes calls.
    Open,
    /// It was closed; its id is not used again.
    Closed,
    /// Its machine was lost to a fault of our own. It is as good as closed until the host is opened again.
    Failed,
    /// Its record is damaged or a newer build's: it is neither driven nor made anew.
    Unreadable,
}

/// Why a session's task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// Its creation was refused: it never was.
    NotCreated,
    /// A person closed it and nothing is left of it.
    Closed,
    /// The host quits and the session is at rest.
    AtRest,
    /// The host quits and could not wait any longer for the proof of the child's end.
    Unproven,
    /// A fault of our own.
    Failed,
}

/// What the driver must do, in the order in which it is polled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEffect {
    /// Start a new session's machine.
    Create {
        /// What it is made of. Its revision is 0: nothing of it is stored.
        record: Box<SessionRecord>,
        /// The admitted call.
        operation: Operation,
    },
    /// Hand a command to a session, which compares the fence first and answers `checkpoint_stale` itself.
    Deliver {
        /// Whose.
        session: SessionId,
        /// The fence the caller has seen.
        expected_fence: Option<Fence>,
        /// What.
        command: Command,
        /// The admitted call.
        operation: Operation,
    },
    /// End every session's child: the host quits.
    EndChildren,
    /// Answer a caller.
    Reply {
        /// Who.
        call: CallId,
        /// With what.
        answer: Answer,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    session: SessionId,
    op: OperationId,
    command: Command,
    /// Whether the ledger holds its row; a Stop may run without one (rule 5.10.5).
    remembered: bool,
    /// Later calls of the same operation, answered with it.
    joined: Vec<CallId>,
}

/// The host's machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostMachine {
    sessions: BTreeMap<SessionId, Standing>,
    sessions_max: usize,
    ledger: Ledger,
    calls: BTreeMap<CallId, Call>,
    running: BTreeMap<OperationId, CallId>,
    quitting: bool,
    effects: VecDeque<HostEffect>,
    met: Met,
    #[cfg(feature = "planted-bugs")]
    planted: Option<PlantedBug>,
}

impl HostMachine {
    /// The machine of a starting host, and the records of the sessions that are to be restored.
    pub fn restore(
        image: StoreImage,
        sessions_max: usize,
        now: Moment,
    ) -> (Self, Vec<SessionRecord>) {
        let ledger = Ledger::restore(image.ledger, now.wall_ms);
        // One whose close the last host did not live to finish takes no calls, and is still to be settled (rules 6.11.1,
        // 7.9.1).
        let is_over =
            |record: &SessionRecord| record.closed && record.lease.claim == Claim::Released;
        let standing = |record: &SessionRecord| match record.closed {
            true => Standing::Closed,
            false => Standing::Open,
        };
        let mut sessions: BTreeMap<_, _> =
            image.records.iter().map(|r| (r.session.clone(), standing(r))).collect();
        sessions.extend(image.unreadable.into_iter().map(|u| (u.session, Standing::Unreadable)));
        let unsettled = image.records.into_iter().filter(|record| !is_over(record)).collect();
        (Self { sessions, sessions_max, ledger, ..Self::default() }, unsettled)
    }

    /// The same with the rule broken that `policy` breaks on purpose.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn planting(self, policy: &crate::session::Policy) -> Self {
        Self { planted: policy.planted, ..self }
    }

    #[cfg(feature = "planted-bugs")]
    fn plants(&self, bug: PlantedBug) -> bool {
        self.planted == Some(bug)
    }

    #[cfg(not(feature = "planted-bugs"))]
    #[inline(always)]
    const fn plants(&self, _bug: PlantedBug) -> bool {
        false
    }

    /// The coverage marks it has met since it was restored. No part of its state.
    pub fn met(&self) -> CoverageMarks {
        self.met.marks()
    }

    /// Where a session stands; `None` when there is none.
    pub fn standing(&self, session: &SessionId) -> Option<Standing> {
        self.sessions.get(session).copied()
    }

    /// The sessions that take calls.
    pub fn open(&self) -> BTreeSet<SessionId> {
        let open = |s: &Standing| *s == Standing::Open;
        self.sessions.iter().filter(|(_, s)| open(s)).map(|(id, _)| id.clone()).collect()
    }

    /// Whether the host takes no new work any more.
    pub fn is_quitting(&self) -> bool {
        self.quitting
    }

    /// Why a session cannot be reached, if it cannot.
    pub fn unreachable(&self, session: &SessionId) -> Option<RefusalCode> {
        match self.standing(session) {
            Some(Standing::Creating | Standing::Open) => None,
            Some(Standing::Closed | Standing::Failed) => Some(RefusalCode::SessionClosed),
            Some(Standing::Unreadable) => Some(RefusalCode::ReadOnly),
            None => Some(RefusalCode::SessionUnknown),
        }
    }

    /// The next effect.
    pub fn poll_effect(&mut self) -> Option<HostEffect> {
        self.effects.pop_front()
    }

    /// A mutating call.
    pub fn call(&mut self, now: Moment, incoming: Incoming) {
        debug_assert!(!self.calls.contains_key(&incoming.call), "a call id is used once");
        let Incoming { call, session, context, command } = incoming;
        let fingerprint = command.fingerprint(&session);
        if context.fingerprint.is_some_and(|told| told != fingerprint) {
            // Before the ledger: a caller that digests otherwise must not claim an id (rule 5.10.2).
            self.met.sometimes(CoverageMark::DigestMismatched);
            let refusal = RefusedOperation::new(RefusalCode::OperationConflict);
            return self.reply(call, command.refused(refusal));
        }
        let operation = Operation { call, op: context.op, caller: context.caller, fingerprint };
        let Some(remembered) = self.admit(now, &session, &operation, &command) else { return };
        let admitted = Call {
            session: session.clone(),
            op: operation.op.clone(),
            command,
            remembered,
            joined: vec![],
        };
        self.run(now, admitted, operation, context.expected_fence);
    }

    /// A session answered. A Create's refusal is followed by its task's end.
    pub fn handle_answer(&mut self, call: CallId, answer: Answer) {
        let Some(done) = self.calls.remove(&call) else { return };
        if matches!(answer, Answer::Created(Ok(()))) {
            self.sessions.insert(done.session.clone(), Standing::Open);
        }
        self.running.remove(&done.op);
        if done.remembered {
            match outcome_of(&answer) {
                Some(outcome) => {
                    let claimed = self.ledger.claim(&done.op, &LedgerOutcome::Pending, outcome);
                    debug_assert!(claimed, "an operation that runs is pending");
                }
                None => self.ledger.release(&done.op),
            }
        }
        for joined in done.joined {
            self.reply(joined, done.command.joined(&answer));
        }
        self.reply(call, answer);
    }

    /// A session's task ended. Whoever still waits for an answer of it gets one that says so.
    pub fn handle_ended(&mut self, session: &SessionId, end: SessionEnd) {
        match end {
            SessionEnd::NotCreated => {
                self.sessions.remove(session);
            }
            SessionEnd::Closed => {
                self.sessions.insert(session.clone(), Standing::Closed);
            }
            SessionEnd::Failed => {
                self.sessions.insert(session.clone(), Standing::Failed);
            }
            // The host is on its way out, and its next life restores the session.
            SessionEnd::AtRest | SessionEnd::Unproven => {
                debug_assert!(self.quitting, "a session rests for good only when the host quits");
            }
        }
        if end == SessionEnd::Unproven {
            self.met.sometimes(CoverageMark::QuitUnproven);
        }
        let code = match end {
            SessionEnd::NotCreated => RefusalCode::SessionUnknown,
            SessionEnd::Closed | SessionEnd::Failed => RefusalCode::SessionClosed,
            SessionEnd::AtRest | SessionEnd::Unproven => RefusalCode::Quitting,
        };
        let waiting: Vec<CallId> =
            self.calls.iter().filter(|(_, c)| c.session == *session).map(|(id, _)| *id).collect();
        for call in waiting {
            let refused = self.calls[&call].command.refused(RefusedOperation::new(code));
            self.handle_answer(call, refused);
        }
    }

    /// The host ends: nothing new is begun, and every child is ended at the same time (rule 1.8.5).
    pub fn quit(&mut self) {
        if !self.quitting {
            self.quitting = true;
            self.effects.push_back(HostEffect::EndChildren);
        }
    }

    /// What must always hold.
    pub fn invariants(&self) {
        self.ledger.invariants();
        assert_eq!(self.calls.len(), self.running.len(), "every running call has its operation");
        for (op, call) in &self.running {
            let running = self.calls.get(call).expect("an operation that runs has its call");
            assert_eq!(running.op, *op, "a call runs its own operation");
            assert!(
                !running.remembered || self.ledger.outcome(op) == Some(&LedgerOutcome::Pending),
                "a remembered operation that runs is pending"
            );
            assert!(
                self.unreachable(&running.session).is_none(),
                "nobody waits for a session that has no machine"
            );
        }
    }

    /// Asks the ledger. Whether a row remembers the call, or nothing when the call is answered or has joined another.
    fn admit(
        &mut self,
        now: Moment,
        session: &SessionId,
        operation: &Operation,
        command: &Command,
    ) -> Option<bool> {
        let operator = Operator {
            caller: operation.caller.clone(),
            session: session.clone(),
            fingerprint: operation.fingerprint.clone(),
        };
        // A Stop that found no room for a row still must not run beside itself.
        if let Some(running) = self.running.get(&operation.op)
            && self.ledger.outcome(&operation.op).is_none()
        {
            let first = self.calls.get_mut(running).expect("an operation that runs has its call");
            if first.command == *command && first.session == *session {
                self.met.sometimes(CoverageMark::OperationJoined);
                first.joined.push(operation.call);
            } else {
                self.met.sometimes(CoverageMark::OperationConflicted);
                let refusal = RefusedOperation::new(RefusalCode::OperationConflict);
                self.reply(operation.call, command.refused(refusal));
            }
            return None;
        }
        match self.ledger.admit(now.wall_ms, &operation.op, operator) {
            Ok(Admission::Run) => Some(true),
            Ok(Admission::Known(outcome)) => self.replay(operation, command, outcome),
            Err(RefusalCode::LedgerFull) if matches!(command, Command::Stop(_)) => Some(false),
            Err(code) => {
                match code {
                    RefusalCode::OperationConflict => {
                        self.met.sometimes(CoverageMark::OperationConflicted);
                    }
                    RefusalCode::OperationExpired => {
                        self.met.sometimes(CoverageMark::OperationExpired);
                    }
                    _ => {}
                }
                self.reply(operation.call, command.refused(RefusedOperation::new(code)));
                None
            }
        }
    }

    fn replay(
        &mut self,
        operation: &Operation,
        command: &Command,
        outcome: LedgerOutcome,
    ) -> Option<bool> {
        if let Some(first) = self.running.get(&operation.op) {
            let first = self.calls.get_mut(first).expect("an operation that runs has its call");
            self.met.sometimes(CoverageMark::OperationJoined);
            first.joined.push(operation.call);
            return None;
        }
        let made = match command {
            // What made the session is stored with it, so a session of this id is this operation's own.
            Command::Create { new, .. } if self.sessions.contains_key(&new.id) => {
                Some(Answer::Created(Ok(())))
            }
            Command::Stop(_) if self.plants(PlantedBug::RunAStopAgain) => None,
            _ => command.replay(&outcome),
        };
        if let Some(answer) = made {
            self.met.sometimes(CoverageMark::OperationReplayed);
            self.reply(operation.call, answer);
            return None;
        }
        // The host died in between, or a newer one wrote an answer that this one cannot read.
        let claimed = self.ledger.claim(&operation.op, &outcome, LedgerOutcome::Pending);
        debug_assert!(claimed, "nothing moves a row between two lines");
        Some(true)
    }

    fn run(
        &mut self,
        now: Moment,
        call: Call,
        operation: Operation,
        expected_fence: Option<Fence>,
    ) {
        let (id, session, command) = (operation.call, call.session.clone(), call.command.clone());
        self.running.insert(call.op.clone(), id);
        self.calls.insert(id, call);
        let refusal = match &command {
            _ if self.quitting && !command.ends_something() => {
                Some(RefusedOperation::new(RefusalCode::Quitting))
            }
            Command::Create { new, .. } => self.refusal_of(new, &session),
            _ => self.unreachable(&session).map(RefusedOperation::new),
        };
        if let Some(refusal) = refusal {
            match (refusal.code, &command) {
                (RefusalCode::Quitting, _) => self.met.sometimes(CoverageMark::CallWhileQuitting),
                (_, Command::Create { .. }) => {}
                _ => self.met.sometimes(CoverageMark::CallToNobody),
            }
            return self.handle_answer(id, command.refused(refusal));
        }
        let Command::Create { new, epoch } = command else {
            let effect = HostEffect::Deliver { session, expected_fence, command, operation };
            return self.effects.push_back(effect);
        };
        self.sessions.insert(session, Standing::Creating);
        let record = Box::new(record_of(*new, epoch, now));
        self.effects.push_back(HostEffect::Create { record, operation });
    }

    /// Why a session cannot be made, if it cannot.
    fn refusal_of(&self, new: &NewSession, session: &SessionId) -> Option<RefusedOperation> {
        let invalid =
            |why: &str| Some(RefusedOperation::with_sentence(RefusalCode::SessionInvalid, why));
        let id = session.as_str();
        if *session != new.id || id.is_empty() || id.len() > SESSION_ID_BYTES_MAX {
            return invalid("a session's id has 1 to 128 bytes; choose another");
        }
        if new.agent.command.first().is_none_or(String::is_empty) {
            return invalid("the agent has no command to start; name its program");
        }
        if let Some(name) = new.agent.missing_value() {
            let agent = &new.agent.name;
            return invalid(&format!(
                "the definition of {agent} needs a value for {name}; give it one"
            ));
        }
        if !new.workspace.starts_with('/') && !has_drive(&new.workspace) {
            return invalid("the workspace is not an absolute path; give its full path");
        }
        if self.sessions.contains_key(session) {
            return Some(RefusedOperation::new(RefusalCode::SessionExists));
        }
        let live = |s: &&Standing| matches!(s, Standing::Creating | Standing::Open);
        let live = self.sessions.values().filter(live).count();
        (live >= self.sessions_max).then(|| {
            let why = format!("the host holds {live} open sessions already; close one and retry");
            RefusedOperation::with_sentence(RefusalCode::QueueFull, why)
        })
    }

    fn reply(&mut self, call: CallId, answer: Answer) {
        self.effects.push_back(HostEffect::Reply { call, answer });
    }
}

/// `C:\` or `C:/`; a path of one platform must read the same on another, so the host's own notion is not asked.
fn has_drive(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.len() > 2
        && bytes[0].is_ascii_alphabetic()
        && bytes[1] == b':'
        && matches!(bytes[2], b'\\' | b'/')
}

fn record_of(new: NewSession, epoch: EpochId, now: Moment) -> SessionRecord {
    SessionRecord {
        session: new.id,
        revision: 0,
        epoch,
        created_ms: now.wall_ms,
        agent: new.agent,
        workspace: new.workspace,
        lease: Lease::default(),
        handles: Vec::new(),
        closed: false,
        name: None,
    }
}

#[cfg(test)]
#[path = "tests/machine.rs"]
mod tests;
