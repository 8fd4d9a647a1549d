//! The writer thread: it alone writes, one transaction after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use tokio::sync::oneshot;

use super::directory::Place;
use super::mailbox::{Mailbox, Worker};
use crate::ids::{EpochId, Fence, OperationId, SessionId};
use crate::store::check::{Admission, Head, Remembered, Stored, admit};
use crate::store::group::{Answers, Database, Fault, Outcome, Queue, Texts, UnitFault, write};
use crate::store::{
    LEDGER_ROWS_MAX, LedgerEntry, OWNERSHIP_LOST, Refusal, RetryReason, StoreError, Unit,
};

/// Said when the writer thread is gone.
pub(super) const WRITER_ENDED: &str = "its writer ended";

type Reply = oneshot::Sender<Result<(), Refusal>>;

/// The owner's side.
pub(super) struct WriterThread {
    worker: Worker<Queue<Reply>>,
    pages_max: Arc<AtomicU32>,
}

impl WriterThread {
    pub fn start(place: &Place, connection: Connection, instance: i64) -> Result<Self, StoreError> {
        let pages_max = Arc::new(AtomicU32::new(u32::MAX));
        let limit = Arc::clone(&pages_max);
        let journal = Journal { connection, instance };
        let worker = Worker::start("moored-store", Queue::new(), move |mailbox| {
            run(mailbox, journal, &limit);
        })
        .map_err(|e| place.unusable(e))?;
        Ok(Self { worker, pages_max })
    }

    pub fn submit(&self, unit: Unit) -> oneshot::Receiver<Result<(), Refusal>> {
        let (reply, answer) = oneshot::channel();
        let pushed = self.worker.put(|queue| queue.push(unit, reply));
        if let Err((reply, refusal)) = pushed {
            tell(vec![(reply, Err(refusal))]);
        }
        answer
    }

    pub fn limit_pages(&self, pages_max: Option<u32>) {
        self.pages_max.store(pages_max.unwrap_or(u32::MAX), Ordering::Release);
    }
}

fn run(mailbox: &Mailbox<Queue<Reply>>, mut journal: Journal, pages_max: &AtomicU32) {
    let _end = CloseAtEnd(mailbox);
    let mut pages_applied = u32::MAX;
    loop {
        let group = mailbox.next(|queue| {
            let group = queue.take();
            (!group.is_empty()).then_some(group)
        });
        let Some(group) = group else { return };
        let pages = pages_max.load(Ordering::Acquire);
        if pages != pages_applied {
            journal.limit_pages(pages);
            pages_applied = pages;
        }
        let outcomes = write(&mut journal, &group);
        let answers = mailbox.lock().settle(group, outcomes);
        tell(answers);
    }
}

/// However the thread ends, nobody waits for it in vain.
struct CloseAtEnd<'a>(&'a Mailbox<Queue<Reply>>);

impl Drop for CloseAtEnd<'_> {
    fn drop(&mut self) {
        let answers = self.0.lock().close(WRITER_ENDED);
        tell(answers);
    }
}

fn tell(answers: Answers<Reply>) {
    for (reply, answer) in answers {
        // A caller that is gone needs no answer.
        drop(reply.send(answer));
    }
}

/// The database, as the writer sees it.
struct Journal {
    connection: Connection,
    instance: i64,
}

impl Database for Journal {
    fn begin(&mut self) -> Result<(), Fault> {
        self.run_cached("BEGIN IMMEDIATE")?;
        let instance: rusqlite::Result<i64> = self
            .connection
            .prepare_cached("SELECT value FROM meta WHERE name = 'instance'")
            .and_then(|mut s| s.query_row([], |row| row.get(0)));
        let fault = match instance {
            Ok(instance) if instance == self.instance => return Ok(()),
            // Decision D35: the lock was lost, and a newer host has been here.
            Ok(_) => Fault::Closed(OWNERSHIP_LOST.to_owned()),
            Err(e) => fault(&e),
        };
        if self.in_transaction() {
            // If it fails the connection is stranded, and the next attempt begins with it.
            let _ = self.rollback();
        }
        Err(fault)
    }

    fn store(&mut self, unit: &Unit, texts: &Texts) -> Result<Outcome, UnitFault> {
        let seals = match admit(unit, self).map_err(|e| self.failed(&e))? {
            Admission::Admitted { seals } => seals,
            Admission::Ahead => return Ok(Outcome::Ahead),
            Admission::Refused(refusal) => return Ok(Outcome::Refused(refusal)),
        };
        if is_one_statement(unit) {
            return self.store_one(unit, texts);
        }
        self.run_cached("SAVEPOINT unit").map_err(UnitFault::Transaction)?;
        if let Err(e) = self.insert(unit, texts, seals.as_ref()) {
            let undone = self.in_transaction()
                && self.run_cached("ROLLBACK TO unit").is_ok()
                && self.run_cached("RELEASE unit").is_ok();
            if !undone {
                return Err(UnitFault::Transaction(fault(&e)));
            }
            return refused(&e);
        }
        self.run_cached("RELEASE unit").map_err(UnitFault::Transaction)?;
        Ok(Outcome::Stored)
    }

    fn commit(&mut self) -> Result<(), Fault> {
        self.run_cached("COMMIT")
    }

    fn rollback(&mut self) -> Result<(), Fault> {
        self.run_cached("ROLLBACK")
    }

    fn in_transaction(&self) -> bool {
        !self.connection.is_autocommit()
    }
}

impl Journal {
    /// A statement is atomic by itself: the commonest unit, a piece of streamed text, needs no savepoint.
    fn store_one(&self, unit: &Unit, texts: &Texts) -> Result<Outcome, UnitFault> {
        match self.insert(unit, texts, None) {
            Ok(()) => Ok(Outcome::Stored),
            Err(e) if self.in_transaction() => refused(&e),
            Err(e) => Err(UnitFault::Transaction(fault(&e))),
        }
    }

    fn insert(&self, unit: &Unit, texts: &Texts, seals: Option<&EpochId>) -> rusqlite::Result<()> {
        if let (Some(change), Some(text)) = (&unit.record, &texts.record) {
            let record = &change.record;
            let mut statement = self.connection.prepare_cached(
                "INSERT INTO sessions (session, epoch, fence, revision, record)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (session) DO UPDATE SET epoch = excluded.epoch,
                     fence = excluded.fence, revision = excluded.revision,
                     record = excluded.record",
            )?;
            statement.execute(params![
                record.session.as_str(),
                record.epoch.as_str(),
                integer(record.lease.fence.0),
                integer(record.revision),
                text,
            ])?;
            if let Some(sealed) = seals {
                self.seal(&unit.session, sealed, &record.epoch)?;
            }
        }
        if !unit.rows.is_empty() {
            let mut statement = self.connection.prepare_cached(
                "INSERT INTO rows (session, epoch, seq, at_ms, row) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            for (row, text) in unit.rows.iter().zip(&texts.rows) {
                statement.execute(params![
                    unit.session.as_str(),
                    row.epoch.as_str(),
                    integer(row.seq),
                    integer(row.at_ms),
                    text,
                ])?;
            }
        }
        unit.ledger.as_ref().map_or(Ok(()), |entry| self.remember(entry))
    }

    /// Rule 6.10.2: what was live stays as it is, and it is written down what it was.
    fn seal(
        &self,
        session: &SessionId,
        epoch: &EpochId,
        replacement: &EpochId,
    ) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO sealed (session, epoch, replacement, last_seq, row_count, byte_count)
                 SELECT ?1, ?2, ?3, coalesce(max(seq), 0), count(*),
                     coalesce(sum(octet_length(row)), 0)
                 FROM rows WHERE session = ?1 AND epoch = ?2",
            )?
            .execute(params![session.as_str(), epoch.as_str(), replacement.as_str()])?;
        Ok(())
    }

    fn remember(&self, entry: &LedgerEntry) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO ledger
                     (op, caller, session, fingerprint, recorded_ms, expires_ms, outcome, answer)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT (op) DO UPDATE SET caller = excluded.caller,
                     recorded_ms = excluded.recorded_ms, expires_ms = excluded.expires_ms,
                     outcome = excluded.outcome, answer = excluded.answer",
            )?
            .execute(params![
                entry.op.as_str(),
                entry.caller.as_str(),
                entry.session.as_str(),
                entry.fingerprint,
                integer(entry.recorded_ms),
                integer(entry.expires_ms()),
                entry.outcome.name(),
                entry.outcome.answer(),
            ])?;
        self.connection
            .prepare_cached(
                "DELETE FROM ledger WHERE expires_ms < ?1
                 AND (SELECT count(*) FROM ledger) > ?2",
            )?
            .execute(params![integer(entry.recorded_ms), integer(LEDGER_ROWS_MAX as u64)])?;
        Ok(())
    }

    fn run_cached(&self, sql: &str) -> Result<(), Fault> {
        let run = || self.connection.prepare_cached(sql)?.execute([]);
        run().map(drop).map_err(|e| fault(&e))
    }

    /// A read that failed changed nothing, but it may have cost the transaction.
    fn failed(&self, error: &rusqlite::Error) -> UnitFault {
        if self.in_transaction() {
            UnitFault::Unit(fault(error))
        } else {
            UnitFault::Transaction(fault(error))
        }
    }

    fn limit_pages(&self, pages_max: u32) {
        // SQLite answers with the limit in force, never below the file's size; nothing to do with it here.
        let _ = self.connection.pragma_update_and_check(
            None,
            "max_page_count",
            i64::from(pages_max),
            |_| Ok(()),
        );
    }
}

impl Stored for Journal {
    type Fault = rusqlite::Error;

    fn head(&self, session: &SessionId) -> rusqlite::Result<Option<Head>> {
        self.connection
            .prepare_cached("SELECT epoch, fence, revision FROM sessions WHERE session = ?1")?
            .query_row([session.as_str()], |row| {
                Ok(Head {
                    epoch: EpochId(row.get(0)?),
                    fence: Fence(natural(row.get(1)?)),
                    revision: natural(row.get(2)?),
                })
            })
            .optional()
    }

    fn last_seq(&self, session: &SessionId, epoch: &EpochId) -> rusqlite::Result<u64> {
        self.connection
            .prepare_cached("SELECT max(seq) FROM rows WHERE session = ?1 AND epoch = ?2")?
            .query_row([session.as_str(), epoch.as_str()], |row| row.get(0))
            .map(|last: Option<i64>| last.map_or(0, natural))
    }

    fn is_sealed(&self, session: &SessionId, epoch: &EpochId) -> rusqlite::Result<bool> {
        self.connection
            .prepare_cached("SELECT 1 FROM sealed WHERE session = ?1 AND epoch = ?2")?
            .exists([session.as_str(), epoch.as_str()])
    }

    fn operation(&self, op: &OperationId) -> rusqlite::Result<Option<Remembered>> {
        self.connection
            .prepare_cached("SELECT session, fingerprint FROM ledger WHERE op = ?1")?
            .query_row([op.as_str()], |row| {
                Ok(Remembered { session: SessionId(row.get(0)?), fingerprint: row.get(1)? })
            })
            .optional()
    }
}

fn is_one_statement(unit: &Unit) -> bool {
    unit.rows.len() <= 1 && unit.record.is_none() && unit.ledger.is_none()
}

/// What is said of a unit of which nothing is left.
fn refused(error: &rusqlite::Error) -> Result<Outcome, UnitFault> {
    if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) {
        return Ok(Outcome::Refused(Refusal::Conflict));
    }
    Err(UnitFault::Unit(fault(error)))
}

/// Decision D8: only a store that is damaged or lost is closed for good; everything else may heal.
fn fault(error: &rusqlite::Error) -> Fault {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Fault::Retry(RetryReason::Full),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Fault::Retry(RetryReason::Busy)
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Fault::Closed(format!("it is damaged: {error}"))
        }
        _ => Fault::Retry(RetryReason::Io),
    }
}

/// A number the judgement has bounded, as SQLite holds it.
fn integer(number: u64) -> i64 {
    debug_assert!(i64::try_from(number).is_ok(), "the judgement bounds every stored number");
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A stored number. A negative one is damage; as 0 it fits nothing that is compared with it.
fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
