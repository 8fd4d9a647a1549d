//! The store on SQLite: one file per host state directory, one writing connection, one instance (rule 6.1.1).
//!
//! Two threads of our own: the writer turns queued units into transactions, the reader answers `load` and `rows` from a
//! connection of its own, so that opening a long session delays nobody's commit. Both end when the store is dropped;
//! what was submitted before lands first.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the real disk: files, permissions, our own process id"
)]

mod directory;
mod mailbox;
mod reader;
mod schema;
mod writer;

use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;

use self::directory::{InstanceLock, Place};
use self::reader::ReaderThread;
use self::writer::WriterThread;
use super::{Refusal, Store, StoreError, StoreImage, StoredRows, Unit};
use crate::ids::SessionId;
use crate::platform::BoxFuture;

pub use schema::SCHEMA_VERSION;

/// A store in a state directory.
pub struct SqliteStore {
    // In the order of their end: first what is under way lands, then the reads, then the lock is free.
    writer: Option<WriterThread>,
    reader: ReaderThread,
    _lock: Option<InstanceLock>,
}

impl SqliteStore {
    /// Opens the store in `directory` for one host, and makes it if there is none. Nobody else can until it is dropped.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let place = Place::prepare(directory)?;
        let lock = InstanceLock::take(&place)?;
        if !place.has_database()? {
            schema::create(&place)?;
        }
        schema::inspect(&place)?;
        place.harden()?;
        let (connection, instance) = schema::open_writable(&place)?;
        place.harden()?;
        let reader = ReaderThread::start(&place)?;
        let writer = WriterThread::start(&place, connection, instance)?;
        Ok(Self { writer: Some(writer), reader, _lock: Some(lock) })
    }

    /// Opens the store in `directory` for reading only, whoever has it open (decision D29). Each submit is refused.
    pub fn open_read_only(directory: &Path) -> Result<Self, StoreError> {
        let place = Place::at(directory);
        if !place.has_database()? {
            return Err(place.unusable("there is no store in it"));
        }
        schema::inspect(&place)?;
        Ok(Self { writer: None, reader: ReaderThread::start(&place)?, _lock: None })
    }

    /// The file may not grow past this many pages from the next transaction on; `None` lifts the limit. A disk that is
    /// full, for tests.
    #[doc(hidden)]
    pub fn limit_pages(&self, pages_max: Option<u32>) {
        if let Some(writer) = &self.writer {
            writer.limit_pages(pages_max);
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        drop(self.writer.take());
    }
}

impl Store for SqliteStore {
    fn submit(&self, unit: Unit) -> BoxFuture<Result<(), Refusal>> {
        let Some(writer) = &self.writer else {
            let reason = "it was opened for reading only".to_owned();
            return Box::pin(std::future::ready(Err(Refusal::Closed { reason })));
        };
        let answer = writer.submit(unit);
        Box::pin(async move {
            answer.await.unwrap_or_else(|_| {
                Err(Refusal::Closed { reason: writer::WRITER_ENDED.to_owned() })
            })
        })
    }

    fn load(&self) -> BoxFuture<Result<StoreImage, StoreError>> {
        let (reply, answer) = oneshot::channel();
        self.reader.ask(reader::Question::Load(reply));
        self.read_answer(answer)
    }

    fn rows(&self, session: SessionId) -> BoxFuture<Result<StoredRows, StoreError>> {
        let (reply, answer) = oneshot::channel();
        self.reader.ask(reader::Question::Rows(session, reply));
        self.read_answer(answer)
    }
}

impl SqliteStore {
    fn read_answer<T: Send + 'static>(
        &self,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> BoxFuture<Result<T, StoreError>> {
        let place: Arc<Place> = self.reader.place();
        Box::pin(async move {
            answer
                .await
                .unwrap_or_else(|_| Err(place.unusable("too many reads wait, or its reader ended")))
        })
    }
}
