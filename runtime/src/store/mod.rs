//! The store: where rows, records and the operation ledger are durable.
//!
//! The seam is [`Store::submit`]: a [`Unit`] is atomic and belongs to one session. Grouping units into transactions,
//! ordering and answering are pure code (`group`), used by the SQLite writer thread and by the in-memory model alike;
//! each unit stands alone, so one that is refused never fails another session's.

mod check;
mod group;
pub mod memory;
mod readback;
#[cfg(feature = "native")]
pub mod sqlite;

pub use group::{QUEUED_BYTES_MAX, QUEUED_UNITS_MAX, TRANSACTION_BYTES_MAX, TRANSACTION_UNITS_MAX};

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{CallerId, EpochId, Fence, OperationId, SessionId};
use crate::journal::{Row, RowFault};
use crate::platform::BoxFuture;
use crate::session::record::SessionRecord;

/// Said by a store that a newer host has taken over (decision D35).
pub(crate) const OWNERSHIP_LOST: &str = "another host has taken it over";

/// The store, as everything above it holds it.
pub type SharedStore = Arc<dyn Store>;

/// A durable store of one host.
pub trait Store: Send + Sync + 'static {
    /// Takes a unit in the order of the calls. The answer comes once it is durable, or is refused; a session's answers
    /// come in the order of its units. Once a unit of a session is refused with [`Refusal::Retry`], every later unit of
    /// that session is refused too (`Retry { reason: Behind }`) until one comes that [`resumes`](Unit::resumes): by then
    /// its caller has read every refusal, and order holds.
    fn submit(&self, unit: Unit) -> BoxFuture<Result<(), Refusal>>;

    /// Everything a starting host needs: the records of all sessions, in order of their ids, and the ledger.
    fn load(&self) -> BoxFuture<Result<StoreImage, StoreError>>;

    /// The rows of one session's live epoch, in order.
    fn rows(&self, session: SessionId) -> BoxFuture<Result<StoredRows, StoreError>>;
}

/// One atomic change of one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unit {
    /// Whose.
    pub session: SessionId,
    /// Refused as stale when the stored record's fence is higher (rule 6.5.2).
    pub fence: Fence,
    /// Rows to append; contiguous sequence numbers after the last stored one.
    pub rows: Vec<Row>,
    /// A row of the operation ledger, inserted or replaced by its operation id.
    pub ledger: Option<LedgerEntry>,
    /// The session's record, replaced whole; its lease is compared first.
    pub record: Option<RecordChange>,
    /// Its caller has read every refusal of the session's earlier units: what was refused begins again with this one, or
    /// comes no more (decision D8).
    pub resumes: bool,
}

/// A compare-and-set of the session's record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordChange {
    /// The revision the stored record must have; 0 creates it.
    pub expected_revision: u64,
    /// The new record, whose revision is one higher.
    pub record: SessionRecord,
}

/// One remembered operation (rule 5.10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Its id.
    pub op: OperationId,
    /// Who called.
    pub caller: CallerId,
    /// Whose session.
    pub session: SessionId,
    /// Digest of the call (rule 5.10.1).
    pub fingerprint: String,
    /// When it was recorded, wall time.
    pub recorded_ms: u64,
    /// What came of it: the answer's JSON text once it succeeded or failed.
    pub outcome: LedgerOutcome,
}

impl LedgerEntry {
    /// When it may be forgotten (rule 5.10.3): a day and the admitted clock skew after the later of its recording and
    /// the time its id was minted at.
    pub fn expires_ms(&self) -> u64 {
        let minted_ms = self.op.as_str().split('-').next().and_then(|ms| ms.parse().ok());
        self.recorded_ms.max(minted_ms.unwrap_or(0)).saturating_add(LEDGER_KEPT_MS)
    }
}

/// How long an operation is remembered (rule 5.10.3): 24 h and the admitted clock skew of 5 min.
pub const LEDGER_KEPT_MS: u64 = (24 * 60 + 5) * 60 * 1_000;
/// Operations that are kept, expired or not (rule 5.10.3). Past it a new one makes the expired ones go; one that has
/// not expired never does.
pub const LEDGER_ROWS_MAX: usize = 4_096;

/// What came of an operation (rule 5.10.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", content = "answer", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LedgerOutcome {
    /// Claimed, not finished.
    Pending,
    /// The answer that a replay gives again.
    Succeeded(String),
    /// The refusal that a replay gives again.
    Failed(String),
    /// The host died in between.
    Unknown,
}

impl LedgerOutcome {
    /// Its name in the store.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Succeeded(_) => "succeeded",
            Self::Failed(_) => "failed",
            Self::Unknown => "unknown",
        }
    }

    /// The answer a replay gives again.
    pub fn answer(&self) -> Option<&str> {
        match self {
            Self::Succeeded(answer) | Self::Failed(answer) => Some(answer),
            Self::Pending | Self::Unknown => None,
        }
    }

    /// From its name in the store. What this build cannot read it does not run again: unknown.
    pub fn from_parts(name: &str, answer: Option<String>) -> Self {
        match (name, answer) {
            ("pending", _) => Self::Pending,
            ("succeeded", Some(answer)) => Self::Succeeded(answer),
            ("failed", Some(answer)) => Self::Failed(answer),
            _ => Self::Unknown,
        }
    }
}

/// What a starting host reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreImage {
    /// All sessions' records.
    pub records: Vec<SessionRecord>,
    /// Sessions whose record this build cannot read: they can be neither driven nor created again.
    pub unreadable: Vec<UnreadableRecord>,
    /// The ledger, in order of operation ids.
    pub ledger: Vec<LedgerEntry>,
}

/// A session whose record is damaged, or a newer build's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRecord {
    /// Whose.
    pub session: SessionId,
    /// What is wrong with it.
    pub what: String,
}

/// What lies stored of one session's live epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRows {
    /// The live epoch.
    pub epoch: Option<EpochId>,
    /// The readable prefix, in order, contiguous from 1.
    pub rows: Vec<Row>,
    /// Why the prefix is not the whole.
    pub fault: Option<RowFault>,
}

/// Why a unit did not become durable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nothing of the unit is stored; submitting it again may succeed (decision D8).
    #[error("the store does not take writes now ({reason})")]
    Retry {
        /// Why.
        reason: RetryReason,
    },
    /// A newer owner has written: this one may not write again (rule 6.5.2).
    #[error("another owner holds the session at fence {current}")]
    Stale {
        /// The stored fence.
        current: Fence,
    },
    /// The record or the sequence is not what the unit expected: nothing of it is stored.
    #[error("the stored session is not what was expected")]
    Conflict,
    /// Nothing will ever be stored again through this store.
    #[error("the store is closed for good ({reason})")]
    Closed {
        /// Why.
        reason: String,
    },
}

/// Why a unit may be submitted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryReason {
    /// No space is left.
    Full,
    /// The database is locked by another connection.
    Busy,
    /// The operating system refused a write.
    Io,
    /// An earlier unit of the session was refused.
    Behind,
    /// As many units wait as may.
    Backlog,
}

impl std::fmt::Display for RetryReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Full => "no space is left",
            Self::Busy => "it is locked",
            Self::Io => "the operating system refused a write",
            Self::Behind => "an earlier write is waiting",
            Self::Backlog => "too many writes are waiting",
        })
    }
}

/// Why a store cannot be opened or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another host has it open.
    #[error(
        "the store {path} is in use by process {pid}; close that host, or choose another with --store"
    )]
    InUse {
        /// The state directory.
        path: String,
        /// Who holds the lock, as it wrote itself down.
        pid: String,
    },
    /// A newer build made it.
    #[error("the store {path} was made by a newer version (schema {schema}); update this program")]
    Newer {
        /// The state directory.
        path: String,
        /// Its schema.
        schema: i64,
    },
    /// It is not one of ours.
    #[error("{path} is not a store of this program; choose another with --store")]
    Foreign {
        /// The file.
        path: String,
    },
    /// The operating system or the database refused.
    #[error("the store {path} cannot be used ({reason})")]
    Unusable {
        /// The state directory.
        path: String,
        /// What was said.
        reason: String,
    },
}
