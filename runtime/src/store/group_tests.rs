//! The queue and the transactions, against a database that fails as it is told.

use super::*;
use crate::ids::{EpochId, Fence};
use crate::journal::{EpochReason, Row, RowKind};

fn unit(session: &str, seq: u64) -> Unit {
    let row = Row {
        v: 1,
        epoch: EpochId::from("e"),
        seq,
        fence: Fence(1),
        at_ms: 0,
        recovered: false,
        kind: RowKind::Epoch { session: session.into(), reason: EpochReason::Created },
    };
    Unit {
        session: session.into(),
        fence: Fence(1),
        rows: vec![row],
        ledger: None,
        record: None,
        resumes: false,
    }
}

/// Its caller has read what was refused.
fn resuming(unit: Unit) -> Unit {
    Unit { resumes: true, ..unit }
}

fn queue_of(units: &[(&str, u64)]) -> Queue<usize> {
    let mut queue = Queue::new();
    for (i, (session, seq)) in units.iter().enumerate() {
        assert!(queue.push(unit(session, *seq), i).is_ok());
    }
    queue
}

fn retry(reason: RetryReason) -> Result<(), Refusal> {
    Err(Refusal::Retry { reason })
}

/// Stores units as (session, seq), and fails where it is told.
#[derive(Default)]
struct Fake {
    durable: Vec<(String, u64)>,
    pending: Option<Vec<(String, u64)>>,
    transactions: usize,
    unit_fault: Option<(&'static str, u64, UnitFault)>,
    commit_faults: Vec<Fault>,
    rollback_faults: Vec<Fault>,
}

impl Database for Fake {
    fn begin(&mut self) -> Result<(), Fault> {
        assert!(self.pending.is_none(), "a transaction begins only where none is open");
        self.transactions += 1;
        self.pending = Some(Vec::new());
        Ok(())
    }

    fn store(&mut self, unit: &Unit, _: &Texts) -> Result<Outcome, UnitFault> {
        let key = (unit.session.0.clone(), unit.rows[0].seq);
        if let Some((session, seq, fault)) = &self.unit_fault
            && (*session, *seq) == (key.0.as_str(), key.1)
        {
            return Err(fault.clone());
        }
        self.pending.as_mut().expect("a transaction is open").push(key);
        Ok(Outcome::Stored)
    }

    fn commit(&mut self) -> Result<(), Fault> {
        if let Some(fault) = self.commit_faults.pop() {
            return Err(fault);
        }
        self.durable.extend(self.pending.take().expect("a transaction is open"));
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), Fault> {
        if let Some(fault) = self.rollback_faults.pop() {
            return Err(fault);
        }
        self.pending = None;
        Ok(())
    }

    fn in_transaction(&self) -> bool {
        self.pending.is_some()
    }
}

/// Writes one group and answers it.
fn turn(queue: &mut Queue<usize>, db: &mut Fake) -> Answers<usize> {
    let group = queue.take();
    let outcomes = write(db, &group);
    queue.settle(group, outcomes)
}

#[test]
fn a_refused_unit_takes_its_sessions_later_ones_with_it_and_nobody_elses() {
    let mut queue = queue_of(&[("a", 1), ("b", 1), ("a", 2), ("b", 2)]);
    let fault = UnitFault::Unit(Fault::Retry(RetryReason::Full));
    let mut db = Fake { unit_fault: Some(("a", 1, fault)), ..Fake::default() };
    let answers = turn(&mut queue, &mut db);
    let expected = vec![
        (0, retry(RetryReason::Full)),
        (1, Ok(())),
        (2, retry(RetryReason::Behind)),
        (3, Ok(())),
    ];
    assert_eq!(answers, expected);
    assert_eq!(db.durable, [("b".to_owned(), 1), ("b".to_owned(), 2)]);
    assert_eq!(db.transactions, 1);
}

#[test]
fn a_lost_transaction_is_written_again_without_the_unit_that_lost_it() {
    let mut queue = queue_of(&[("a", 1), ("b", 1), ("c", 1), ("b", 2)]);
    let fault = UnitFault::Transaction(Fault::Retry(RetryReason::Full));
    let mut db = Fake { unit_fault: Some(("b", 1, fault)), ..Fake::default() };
    let answers = turn(&mut queue, &mut db);
    let expected = vec![
        (0, Ok(())),
        (1, retry(RetryReason::Full)),
        (2, Ok(())),
        (3, retry(RetryReason::Behind)),
    ];
    assert_eq!(answers, expected);
    assert_eq!(db.durable, [("a".to_owned(), 1), ("c".to_owned(), 1)]);
}

#[test]
fn a_refused_commit_refuses_its_whole_transaction_and_what_waits_behind_it() {
    let mut queue = queue_of(&[("a", 1), ("b", 1), ("a", 2)]);
    let mut db = Fake { commit_faults: vec![Fault::Retry(RetryReason::Io)], ..Fake::default() };
    let group = queue.take();
    let outcomes = write(&mut db, &group);
    assert!(queue.push(unit("a", 3), 3).is_ok(), "submitted while the commit was under way");
    assert!(queue.push(unit("c", 1), 4).is_ok());
    let answers = queue.settle(group, outcomes);
    let expected = vec![
        (0, retry(RetryReason::Io)),
        (1, retry(RetryReason::Io)),
        (2, retry(RetryReason::Behind)),
        (3, retry(RetryReason::Behind)),
    ];
    assert_eq!(answers, expected);
    assert!(db.durable.is_empty());
    assert_eq!(turn(&mut queue, &mut db), [(4, Ok(()))], "the other session is stored next");
}

#[test]
fn a_stranded_connection_refuses_everybody_until_the_rollback_succeeds() {
    let mut queue = queue_of(&[("a", 1)]);
    let io = || Fault::Retry(RetryReason::Io);
    let mut db =
        Fake { commit_faults: vec![io()], rollback_faults: vec![io(), io()], ..Fake::default() };
    assert_eq!(turn(&mut queue, &mut db), [(0, retry(RetryReason::Io))]);
    assert!(db.in_transaction(), "the rollback failed");

    assert!(queue.push(unit("b", 1), 1).is_ok());
    assert_eq!(turn(&mut queue, &mut db), [(1, retry(RetryReason::Io))], "another session too");
    assert_eq!(db.transactions, 1, "nothing was begun");

    assert!(queue.push(resuming(unit("b", 1)), 2).is_ok());
    assert_eq!(turn(&mut queue, &mut db), [(2, Ok(()))]);
    assert_eq!(db.durable, [("b".to_owned(), 1)], "nothing of the stranded transaction is left");
}

#[test]
fn a_unit_that_loses_the_transaction_alone_and_strands_it_ends_in_answers_for_all() {
    let mut queue = queue_of(&[("a", 1), ("b", 1)]);
    let io = || Fault::Retry(RetryReason::Io);
    let mut db = Fake {
        unit_fault: Some(("a", 1, UnitFault::Transaction(io()))),
        rollback_faults: vec![io(), io()],
        ..Fake::default()
    };
    let expected = vec![(0, retry(RetryReason::Io)), (1, retry(RetryReason::Io))];
    assert_eq!(turn(&mut queue, &mut db), expected);
    assert!(db.durable.is_empty());
}

#[test]
fn a_transaction_takes_no_more_units_than_its_limit() {
    let units: Vec<_> = (1..=TRANSACTION_UNITS_MAX as u64 + 1).map(|seq| ("a", seq)).collect();
    let mut queue = queue_of(&units);
    assert_eq!(queue.take().len(), TRANSACTION_UNITS_MAX);
    assert_eq!(queue.take().len(), 1);
    assert!(queue.take().is_empty());
}

#[test]
fn a_transaction_takes_no_more_bytes_than_its_limit_unless_one_unit_is_larger() {
    let mut queue = Queue::new();
    let large = |bytes: usize| {
        let mut unit = unit("a", 1);
        let text = crate::journal::StreamedText("x".repeat(bytes));
        unit.rows[0].kind = RowKind::Text { item: "i".into(), revision: 1, at: 0, text, cut: None };
        unit
    };
    assert!(queue.push(large(TRANSACTION_BYTES_MAX / 2), 0).is_ok());
    assert!(queue.push(large(TRANSACTION_BYTES_MAX / 2), 1).is_ok());
    assert!(queue.push(large(TRANSACTION_BYTES_MAX + 1), 2).is_ok());
    let groups: Vec<Vec<usize>> = std::iter::repeat_with(|| queue.take())
        .take_while(|group| !group.is_empty())
        .map(|group| group.into_iter().map(|s| s.answer).collect())
        .collect();
    assert_eq!(groups, [[0], [1], [2]], "the two halves and their envelopes are too much");
}

#[test]
fn the_queue_takes_no_more_units_than_its_limit_and_heals() {
    let units: Vec<_> = (1..=QUEUED_UNITS_MAX as u64).map(|seq| ("a", seq)).collect();
    let mut queue = queue_of(&units);
    let over = queue.push(unit("a", QUEUED_UNITS_MAX as u64 + 1), 0).expect_err("it is full");
    assert_eq!(over.1, Refusal::Retry { reason: RetryReason::Backlog });
    // Space comes, and a unit submitted before its caller has read the refusal is behind, never a conflict.
    let group = queue.take();
    let stored = vec![Outcome::Stored; group.len()];
    assert!(queue.settle(group, stored).iter().all(|(_, answer)| answer.is_ok()));
    let behind = queue.push(unit("a", QUEUED_UNITS_MAX as u64 + 2), 1).expect_err("it is behind");
    assert_eq!(behind.1, Refusal::Retry { reason: RetryReason::Behind });
    assert!(queue.push(resuming(unit("a", QUEUED_UNITS_MAX as u64 + 1)), 2).is_ok());
    assert!(queue.push(unit("a", QUEUED_UNITS_MAX as u64 + 2), 3).is_ok());
}

#[test]
fn the_queue_takes_no_more_bytes_than_its_limit() {
    let mut queue = Queue::new();
    let mut large = unit("a", 1);
    let text = crate::journal::StreamedText("x".repeat(QUEUED_BYTES_MAX / 4));
    large.rows[0].kind = RowKind::Text { item: "i".into(), revision: 1, at: 0, text, cut: None };
    let taken = (0..8).take_while(|i| queue.push(large.clone(), *i).is_ok()).count();
    assert_eq!(taken, 3, "three quarters and their envelopes");
}

#[test]
fn a_gap_is_a_conflict() {
    let mut queue = queue_of(&[("a", 7)]);
    let group = queue.take();
    assert_eq!(queue.settle(group, vec![Outcome::Ahead]), [(0, Err(Refusal::Conflict))]);
}

#[test]
fn nothing_of_a_session_is_stored_before_its_caller_has_read_the_refusal() {
    let mut queue = queue_of(&[("a", 5)]);
    let group = queue.take();
    let full = Outcome::Refused(Refusal::Retry { reason: RetryReason::Full });
    assert_eq!(queue.settle(group, vec![full]), [(0, retry(RetryReason::Full))]);

    // Submitted before its caller has read the refusal; one without rows builds on nothing, and waits all the same.
    for ahead in [unit("a", 6), Unit { rows: vec![], ..unit("a", 6) }] {
        let refused = queue.push(ahead, 1).expect_err("it is behind");
        assert_eq!(refused.1, Refusal::Retry { reason: RetryReason::Behind });
    }
    assert!(queue.push(unit("b", 1), 2).is_ok(), "another session does not wait");
    // It comes again, or its caller has given it up: that is the caller's.
    assert!(queue.push(resuming(unit("a", 5)), 3).is_ok());
    assert!(queue.push(unit("a", 6), 4).is_ok());
    let group = queue.take();
    assert_eq!(
        queue.settle(group, vec![Outcome::Stored; 3]),
        [(2, Ok(())), (3, Ok(())), (4, Ok(()))]
    );
}

#[test]
fn a_closed_queue_stays_closed_with_its_first_reason() {
    let mut queue = queue_of(&[("a", 1), ("b", 1)]);
    let mut group = queue.take();
    let waiting = group.pop().expect("two were queued");
    assert!(queue.push(unit("c", 1), 2).is_ok());
    let closed = Fault::Closed("damaged".to_owned()).outcome();
    let answers = queue.settle(group, vec![closed]);
    let damaged = || Err(Refusal::Closed { reason: "damaged".to_owned() });
    assert_eq!(answers, [(0, damaged()), (2, damaged())]);
    assert!(queue.close("another reason").is_empty());
    let refused = queue.push(waiting.unit, 3).expect_err("it is closed");
    assert_eq!(Err(refused.1), damaged());
}
