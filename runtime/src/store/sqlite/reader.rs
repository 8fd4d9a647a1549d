//! The reader thread: what a starting host and a reader of the store ask, from a connection that cannot write.

use std::collections::VecDeque;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row};
use tokio::sync::oneshot;

use super::directory::Place;
use super::mailbox::{Mailbox, Worker};
use super::schema;
use crate::ids::{CallerId, EpochId, Fence, OperationId, SessionId};
use crate::store::check::Head;
use crate::store::readback::{self, Prefix};
use crate::store::{
    LedgerEntry, LedgerOutcome, StoreError, StoreImage, StoredRows, UnreadableRecord,
};

/// Reads that may wait for the reader; a host asks one per session it opens.
pub(super) const READS_WAITING_MAX: usize = 1_024;

/// What is asked, with the way back.
pub(super) enum Question {
    Load(oneshot::Sender<Result<StoreImage, StoreError>>),
    Rows(SessionId, oneshot::Sender<Result<StoredRows, StoreError>>),
}

/// The owner's side.
pub(super) struct ReaderThread {
    worker: Worker<VecDeque<Question>>,
    place: Arc<Place>,
}

impl ReaderThread {
    pub fn start(place: &Place) -> Result<Self, StoreError> {
        let connection = schema::open_read_only(place).map_err(|e| place.unusable(e))?;
        let place = Arc::new(place.clone());
        let library = Library { connection, place: Arc::clone(&place) };
        let worker = Worker::start("moored-store-read", VecDeque::new(), move |mailbox| {
            run(mailbox, &library);
        })
        .map_err(|e| place.unusable(e))?;
        Ok(Self { worker, place })
    }

    /// Asks; past the limit the question is dropped, which its asker sees as an answer.
    pub fn ask(&self, question: Question) {
        self.worker.put(|waiting| {
            if waiting.len() < READS_WAITING_MAX {
                waiting.push_back(question);
            }
        });
    }

    pub fn place(&self) -> Arc<Place> {
        Arc::clone(&self.place)
    }
}

fn run(mailbox: &Mailbox<VecDeque<Question>>, library: &Library) {
    while let Some(question) = mailbox.next(VecDeque::pop_front) {
        // A caller that is gone needs no answer.
        match question {
            Question::Load(reply) => drop(reply.send(library.load())),
            Question::Rows(session, reply) => drop(reply.send(library.rows(&session))),
        }
    }
}

struct Library {
    connection: Connection,
    place: Arc<Place>,
}

impl Library {
    fn load(&self) -> Result<StoreImage, StoreError> {
        self.in_one_view(|connection| {
            let mut image = StoreImage::default();
            let mut statement = connection.prepare_cached(
                "SELECT session, epoch, fence, revision, record FROM sessions ORDER BY session",
            )?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let session = SessionId(row.get(0)?);
                match readback::record(&head(row, 1)?, row.get_ref(4)?.as_bytes()?) {
                    Ok(record) => image.records.push(record),
                    Err(what) => image.unreadable.push(UnreadableRecord { session, what }),
                }
            }
            let mut statement = connection.prepare_cached(
                "SELECT op, caller, session, fingerprint, recorded_ms, outcome, answer
                 FROM ledger ORDER BY op",
            )?;
            let entries = statement.query_map([], entry)?;
            image.ledger = entries.collect::<Result<_, _>>()?;
            Ok(image)
        })
    }

    fn rows(&self, session: &SessionId) -> Result<StoredRows, StoreError> {
        self.in_one_view(|connection| {
            let epoch = connection
                .prepare_cached("SELECT epoch FROM sessions WHERE session = ?1")?
                .query_row([session.as_str()], |row| row.get(0).map(EpochId))
                .optional()?;
            let Some(epoch) = epoch else {
                return Ok(StoredRows { epoch: None, rows: Vec::new(), fault: None });
            };
            let mut statement = connection.prepare_cached(
                "SELECT seq, row FROM rows WHERE session = ?1 AND epoch = ?2 ORDER BY seq",
            )?;
            let mut rows = statement.query([session.as_str(), epoch.as_str()])?;
            let mut prefix = Prefix::new(epoch.clone());
            while let Some(row) = rows.next()? {
                // As bytes: text that is not UTF-8 is damage of one session, not an error of the store.
                if !prefix.take(natural(row.get(0)?), row.get_ref(1)?.as_bytes()?) {
                    break;
                }
            }
            Ok(prefix.finish())
        })
    }

    /// All reads of `read` see the same commit.
    fn in_one_view<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let transaction =
            self.connection.unchecked_transaction().map_err(|e| self.place.unusable(e))?;
        read(&transaction).map_err(|e| self.place.unusable(e))
    }
}

fn head(row: &Row<'_>, first: usize) -> rusqlite::Result<Head> {
    Ok(Head {
        epoch: EpochId(row.get(first)?),
        fence: Fence(natural(row.get(first + 1)?)),
        revision: natural(row.get(first + 2)?),
    })
}

fn entry(row: &Row<'_>) -> rusqlite::Result<LedgerEntry> {
    Ok(LedgerEntry {
        op: OperationId(row.get(0)?),
        caller: CallerId(row.get(1)?),
        session: SessionId(row.get(2)?),
        fingerprint: row.get(3)?,
        recorded_ms: natural(row.get(4)?),
        outcome: LedgerOutcome::from_parts(&row.get::<_, String>(5)?, row.get(6)?),
    })
}

/// A stored number. A negative one is damage, and 0 is the number that fits no row and no record.
fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_past_the_limit_is_answered_at_once() {
        // A thread that answers nothing: its questions pile up.
        let worker = Worker::start("idle", VecDeque::new(), |_| {}).expect("a thread starts");
        let place = Arc::new(Place::at(std::path::Path::new("/nowhere")));
        let reader = ReaderThread { worker, place };
        let mut answers: Vec<_> = std::iter::repeat_with(|| {
            let (reply, answer) = oneshot::channel();
            reader.ask(Question::Load(reply));
            answer
        })
        .take(READS_WAITING_MAX + 1)
        .collect();
        let is_dropped = |answer: &mut oneshot::Receiver<_>| {
            matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Closed))
        };
        let dropped = answers.iter_mut().map(is_dropped).filter(|dropped| *dropped).count();
        assert_eq!(dropped, 1);
        assert!(answers.last_mut().is_some_and(is_dropped));
    }
}
