//! What may go wrong with the model, decided by whoever runs it.

use std::future::ready;

use crate::platform::BoxFuture;
use crate::store::{RetryReason, StoreError, Unit};

/// Decides what becomes of each transaction and read. The futures may take as long as they like: that is a slow disk.
pub trait StoreFaults: Send + Sync + 'static {
    /// Asked once for each transaction, before anything of it is stored.
    fn before_commit(&self, units: &[&Unit]) -> BoxFuture<CommitVerdict>;

    /// Awaited after a commit, before anybody is answered.
    fn before_answer(&self) -> BoxFuture<()> {
        Box::pin(ready(()))
    }

    /// Awaited before each read.
    fn before_read(&self) -> BoxFuture<Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

    /// A unit has just been stored; called under the disk's lock, so nothing of the disk may be asked.
    fn stored(&self, _unit: &Unit) {}

    /// Refuses one unit inside a transaction that goes on.
    fn refuse_unit(&self, _unit: &Unit) -> Option<RetryReason> {
        None
    }
}

/// What becomes of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitVerdict {
    /// It is stored.
    Commit,
    /// The host dies with nothing of it stored.
    CrashBefore,
    /// The host dies with all of it stored and nobody told.
    CrashAfter,
    /// Nothing is stored, now or ever again.
    Close(String),
    /// Nothing of it is stored.
    Refuse(RetryReason),
}

/// A disk that always works.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFaults;

impl StoreFaults for NoFaults {
    fn before_commit(&self, _units: &[&Unit]) -> BoxFuture<CommitVerdict> {
        Box::pin(ready(CommitVerdict::Commit))
    }
}
