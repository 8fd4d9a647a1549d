//! Units on their way to the disk: the queue, the groups that become transactions, and the answers. Pure.
//!
//! A group is one transaction. Each unit in it stands alone: refused, it leaves nothing and takes no other session's
//! unit with it. Answers are formed only after the commit. A commit that fails refuses its whole transaction, since
//! each unit was judged on top of the ones before it.

use std::collections::{BTreeSet, VecDeque};

use crate::ids::SessionId;
use crate::limits::{APPENDS_IN_FLIGHT_MAX, BATCH_BYTES_MAX};

use super::{Refusal, RetryReason, Unit};

/// Units of one transaction.
pub const TRANSACTION_UNITS_MAX: usize = 1_024;
/// Bytes of one transaction's texts; a single larger unit is a transaction of its own.
pub const TRANSACTION_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Units that may wait for their transaction.
pub const QUEUED_UNITS_MAX: usize = 4_096;
/// Bytes that may wait for their transaction; a single larger unit may wait alone.
pub const QUEUED_BYTES_MAX: usize = 64 * 1024 * 1024;

// One session's appends in flight fit one transaction, so that one commit can answer them all.
const _: () = assert!(APPENDS_IN_FLIGHT_MAX <= TRANSACTION_UNITS_MAX);
// A lifecycle batch never needs a transaction of its own.
const _: () = assert!(BATCH_BYTES_MAX < TRANSACTION_BYTES_MAX);
// The queue holds more than the transaction under way can take, or grouping would starve.
const _: () = assert!(QUEUED_UNITS_MAX > TRANSACTION_UNITS_MAX);
const _: () = assert!(QUEUED_BYTES_MAX > TRANSACTION_BYTES_MAX);

/// A unit's parts as they will lie on the disk.
pub(crate) struct Texts {
    /// One text per row, in order.
    pub rows: Vec<String>,
    /// The record.
    pub record: Option<String>,
    bytes: usize,
}

impl Texts {
    fn of(unit: &Unit) -> Self {
        let rows: Vec<String> = unit.rows.iter().map(crate::journal::Row::to_text).collect();
        #[expect(clippy::expect_used, reason = "records hold only maps whose keys are text")]
        let record = unit
            .record
            .as_ref()
            .map(|c| serde_json::to_string(&c.record).expect("a record is always JSON"));
        let ledger = unit.ledger.as_ref().map_or(0, |e| {
            e.op.as_str().len() + e.fingerprint.len() + e.outcome.answer().map_or(0, str::len)
        });
        let bytes = rows.iter().map(String::len).sum::<usize>()
            + record.as_ref().map_or(0, String::len)
            + ledger;
        Self { rows, record, bytes }
    }
}

/// A unit that waits, with the way to its caller.
pub(crate) struct Submitted<A> {
    pub unit: Unit,
    pub texts: Texts,
    answer: A,
}

/// What is told to whom.
pub(crate) type Answers<A> = Vec<(A, Result<(), Refusal>)>;

/// The queue in front of the one writer.
pub(crate) struct Queue<A> {
    waiting: VecDeque<Submitted<A>>,
    waiting_bytes: usize,
    /// Sessions with a unit refused for a retry: until their caller resumes, whatever comes was submitted before it read the
    /// refusal, and would be out of order (decision D8).
    behind: BTreeSet<SessionId>,
    closed: Option<String>,
}

impl<A> Queue<A> {
    pub fn new() -> Self {
        Self { waiting: VecDeque::new(), waiting_bytes: 0, behind: BTreeSet::new(), closed: None }
    }

    /// Takes a unit, or says at once why not.
    pub fn push(&mut self, unit: Unit, answer: A) -> Result<(), (A, Refusal)> {
        if let Some(reason) = &self.closed {
            return Err((answer, Refusal::Closed { reason: reason.clone() }));
        }
        if !unit.resumes && self.behind.contains(&unit.session) {
            return Err((answer, Refusal::Retry { reason: RetryReason::Behind }));
        }
        let texts = Texts::of(&unit);
        let is_over = self.waiting.len() >= QUEUED_UNITS_MAX
            || self.waiting_bytes.saturating_add(texts.bytes) > QUEUED_BYTES_MAX;
        if is_over && !self.waiting.is_empty() {
            self.behind.insert(unit.session);
            return Err((answer, Refusal::Retry { reason: RetryReason::Backlog }));
        }
        self.behind.remove(&unit.session);
        self.waiting_bytes += texts.bytes;
        self.waiting.push_back(Submitted { unit, texts, answer });
        Ok(())
    }

    /// Forms the next transaction from the front of the queue; empty when nothing waits.
    pub fn take(&mut self) -> Vec<Submitted<A>> {
        let mut group = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.waiting.front() {
            let next_bytes = next.texts.bytes;
            let is_full = group.len() == TRANSACTION_UNITS_MAX
                || (!group.is_empty() && bytes + next_bytes > TRANSACTION_BYTES_MAX);
            if is_full {
                break;
            }
            bytes += next_bytes;
            self.waiting_bytes -= next_bytes;
            group.extend(self.waiting.pop_front());
        }
        group
    }

    /// Turns what became of a group into answers, in order. Units that wait behind a refused one are answered too.
    pub fn settle(&mut self, group: Vec<Submitted<A>>, outcomes: Vec<Outcome>) -> Answers<A> {
        assert_eq!(group.len(), outcomes.len(), "each unit of a group has one outcome");
        let mut answers = Vec::with_capacity(group.len());
        let mut refused = BTreeSet::new();
        let mut closed = None;
        for (submitted, outcome) in group.into_iter().zip(outcomes) {
            let session = &submitted.unit.session;
            let answer = match outcome {
                Outcome::Stored => Ok(()),
                // What is behind a refused unit never gets here.
                Outcome::Ahead => Err(Refusal::Conflict),
                Outcome::Refused(Refusal::Retry { .. }) if refused.contains(session) => {
                    Err(Refusal::Retry { reason: RetryReason::Behind })
                }
                Outcome::Refused(refusal) => Err(refusal),
            };
            match &answer {
                Err(Refusal::Retry { .. }) if refused.insert(session.clone()) => {
                    self.behind.insert(session.clone());
                }
                Err(Refusal::Closed { reason }) => closed = Some(reason.clone()),
                _ => {}
            }
            answers.push((submitted.answer, answer));
        }
        if let Some(reason) = closed {
            answers.extend(self.close(&reason));
        } else if !refused.is_empty() {
            self.refuse_waiting(&refused, &mut answers);
        }
        answers
    }

    /// Refuses everything that waits and everything that will come. The first reason stays.
    pub fn close(&mut self, reason: &str) -> Answers<A> {
        let reason = self.closed.get_or_insert_with(|| reason.to_owned()).clone();
        self.waiting_bytes = 0;
        self.waiting
            .drain(..)
            .map(|s| (s.answer, Err(Refusal::Closed { reason: reason.clone() })))
            .collect()
    }

    fn refuse_waiting(&mut self, sessions: &BTreeSet<SessionId>, answers: &mut Answers<A>) {
        for submitted in std::mem::take(&mut self.waiting) {
            if sessions.contains(&submitted.unit.session) {
                self.waiting_bytes -= submitted.texts.bytes;
                let behind = Refusal::Retry { reason: RetryReason::Behind };
                answers.push((submitted.answer, Err(behind)));
            } else {
                self.waiting.push_back(submitted);
            }
        }
    }
}

/// What became of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is durable.
    Stored,
    /// It builds on something that is not stored.
    Ahead,
    /// Nothing of it is stored.
    Refused(Refusal),
}

/// Why a database did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It may work another time.
    Retry(RetryReason),
    /// It never will.
    Closed(String),
}

impl Fault {
    pub fn outcome(&self) -> Outcome {
        Outcome::Refused(match self {
            Self::Retry(reason) => Refusal::Retry { reason: *reason },
            Self::Closed(reason) => Refusal::Closed { reason: reason.clone() },
        })
    }
}

/// Why a unit could not be judged or stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnitFault {
    /// Nothing of the unit is left; the transaction goes on.
    Unit(Fault),
    /// The transaction is lost, or holds a part of the unit and must not be committed.
    #[cfg_attr(not(feature = "native"), allow(dead_code, reason = "the model loses none"))]
    Transaction(Fault),
}

/// One database, as a group is written to it. Everything between `begin` and `commit` is synchronous (rule 6.1.7).
pub(crate) trait Database {
    /// Takes the write lock and proves that the store is still ours (decision D35).
    fn begin(&mut self) -> Result<(), Fault>;
    /// Judges one unit and stores it under a savepoint of its own.
    fn store(&mut self, unit: &Unit, texts: &Texts) -> Result<Outcome, UnitFault>;
    /// Makes the transaction durable.
    fn commit(&mut self) -> Result<(), Fault>;
    /// Undoes the transaction.
    fn rollback(&mut self) -> Result<(), Fault>;
    /// Whether a transaction is open.
    fn in_transaction(&self) -> bool;
}

/// Writes a group. A full disk makes SQLite drop the whole transaction for one unit that does not fit; then the units
/// before it are committed by themselves, and it is tried again as the first, so that it fails alone.
pub(crate) fn write<A>(db: &mut impl Database, group: &[Submitted<A>]) -> Vec<Outcome> {
    let mut outcomes = Vec::with_capacity(group.len());
    let mut refused = BTreeSet::new();
    let mut end = group.len();
    while outcomes.len() < group.len() {
        let start = outcomes.len();
        match attempt(db, &group[start..end], &mut refused) {
            Attempt::Finished(finished) => {
                outcomes.extend(finished);
                end = group.len();
            }
            Attempt::Lost { at: 0, fault } => {
                note(&mut refused, &group[start].unit.session, &fault.outcome());
                outcomes.push(fault.outcome());
                end = group.len();
            }
            Attempt::Lost { at, .. } => end = start + at,
        }
    }
    outcomes
}

enum Attempt {
    /// Each unit has its outcome.
    Finished(Vec<Outcome>),
    /// Nothing is stored, because of the unit at this place.
    Lost { at: usize, fault: Fault },
}

fn attempt<A>(
    db: &mut impl Database,
    units: &[Submitted<A>],
    refused: &mut BTreeSet<SessionId>,
) -> Attempt {
    // Rule 6.1.7: a rollback that failed strands the connection; nothing is written before it succeeds.
    if db.in_transaction() && db.rollback().is_err() {
        return refuse_all(units, &Fault::Retry(RetryReason::Io), refused);
    }
    if let Err(fault) = db.begin() {
        return refuse_all(units, &fault, refused);
    }
    // Kept apart until the commit: what is undone with the transaction refuses nobody.
    let mut refused_here = refused.clone();
    let mut outcomes = Vec::with_capacity(units.len());
    for (at, submitted) in units.iter().enumerate() {
        let session = &submitted.unit.session;
        let outcome = if refused_here.contains(session) {
            Outcome::Refused(Refusal::Retry { reason: RetryReason::Behind })
        } else {
            match db.store(&submitted.unit, &submitted.texts) {
                Ok(outcome) => outcome,
                Err(UnitFault::Unit(fault)) => fault.outcome(),
                Err(UnitFault::Transaction(fault)) => {
                    undo(db);
                    return Attempt::Lost { at, fault };
                }
            }
        };
        note(&mut refused_here, session, &outcome);
        outcomes.push(outcome);
    }
    if let Err(fault) = db.commit() {
        undo(db);
        return refuse_all(units, &fault, refused);
    }
    *refused = refused_here;
    Attempt::Finished(outcomes)
}

fn undo(db: &mut impl Database) {
    if db.in_transaction() {
        // If it fails the connection is stranded, and the next attempt begins with it.
        let _ = db.rollback();
    }
}

fn note(refused: &mut BTreeSet<SessionId>, session: &SessionId, outcome: &Outcome) {
    if matches!(outcome, Outcome::Refused(Refusal::Retry { .. })) {
        refused.insert(session.clone());
    }
}

fn refuse_all<A>(
    units: &[Submitted<A>],
    fault: &Fault,
    refused: &mut BTreeSet<SessionId>,
) -> Attempt {
    let outcome = fault.outcome();
    for submitted in units {
        note(refused, &submitted.unit.session, &outcome);
    }
    Attempt::Finished(vec![outcome; units.len()])
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
