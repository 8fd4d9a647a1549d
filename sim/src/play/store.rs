//! A host's store: the library's model on the scenario's disk, with the faults that were armed, seen by the witness.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use moored::ids::SessionId;
use moored::platform::BoxFuture;
use moored::store::memory::{CommitVerdict, MemoryStore, StoreFaults};
use moored::store::{Refusal, RetryReason, Store, StoreError, StoreImage, StoredRows, Unit};
use tokio::sync::mpsc;

use crate::kernel::SharedKernel;
use crate::marks::WorldMark;
use crate::witness::{HostNo, Seen, SharedWitness};

/// A commit takes at least this long.
const COMMIT_US_MIN: u64 = 1_000;

/// How long a refusal takes at most from the store's thread to the host's.
const REFUSAL_US_MAX: u64 = 500;

/// What the disk will do next; armed by faults, empty once the world is healed.
#[derive(Default)]
pub(super) struct Armed {
    pub(super) refuses: u32,
    pub(super) closes: bool,
    pub(super) stalls_ms: Option<u64>,
    pub(super) answers_late_ms: Option<u64>,
    /// The host dies at the next commit: with it stored or not.
    pub(super) crash: Option<(bool, u64)>,
}

/// The disk's faults, shared by every host of a run.
#[derive(Clone, Default)]
pub(super) struct DiskFaults(Arc<Mutex<Armed>>);

impl DiskFaults {
    pub(super) fn arm(&self) -> MutexGuard<'_, Armed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing goes wrong any more; tells whether the disk was closed for good.
    pub(super) fn heal(&self) -> bool {
        std::mem::take(&mut *self.arm()).closes
    }
}

/// A host that dies at its commit: which, and when it comes back.
pub(super) struct Dies {
    pub(super) host: HostNo,
    pub(super) restart_ms: u64,
}

/// What becomes of one host's transactions.
pub(super) struct HostDisk {
    pub(super) host: HostNo,
    pub(super) kernel: SharedKernel,
    pub(super) witness: SharedWitness,
    pub(super) faults: DiskFaults,
    pub(super) commit_us_max: u64,
    pub(super) dies: mpsc::UnboundedSender<Dies>,
}

impl HostDisk {
    fn decide(&self) -> CommitVerdict {
        let mut armed = self.faults.arm();
        if armed.closes {
            return CommitVerdict::Close("the disk is gone".to_owned());
        }
        if armed.refuses > 0 {
            armed.refuses -= 1;
            return CommitVerdict::Refuse(RetryReason::Full);
        }
        let Some((stored, restart_ms)) = armed.crash.take() else { return CommitVerdict::Commit };
        // A run that is over takes no more.
        let _ = self.dies.send(Dies { host: self.host, restart_ms });
        if stored {
            self.witness.met_in_world(WorldMark::CrashedAfterCommit);
            CommitVerdict::CrashAfter
        } else {
            self.witness.met_in_world(WorldMark::CrashedBeforeCommit);
            CommitVerdict::CrashBefore
        }
    }
}

impl StoreFaults for HostDisk {
    fn before_commit(&self, _units: &[&Unit]) -> BoxFuture<CommitVerdict> {
        let stalls_ms = self.faults.arm().stalls_ms.take();
        if stalls_ms.is_some() {
            self.witness.met_in_world(WorldMark::StoreStalled);
        }
        let drawn_us = self.kernel.choose("store.commit_us", self.commit_us_max);
        let us = COMMIT_US_MIN + drawn_us + stalls_ms.unwrap_or(0) * 1_000;
        let verdict = self.decide();
        let slept = self.kernel.sleep_us(us);
        Box::pin(async move {
            slept.await;
            verdict
        })
    }

    fn before_answer(&self) -> BoxFuture<()> {
        let late_ms = self.faults.arm().answers_late_ms.take();
        if late_ms.is_some() {
            self.witness.met_in_world(WorldMark::StoreAnsweredLate);
        }
        self.kernel.sleep_us(late_ms.unwrap_or(0) * 1_000)
    }

    fn stored(&self, unit: &Unit) {
        self.witness.see(&Seen::Stored { host: self.host, unit });
    }
}

/// One host's store, seen.
pub struct SeenStore {
    pub(super) inner: Arc<MemoryStore>,
    pub(super) host: HostNo,
    pub(super) kernel: SharedKernel,
    pub(super) faults: DiskFaults,
    pub(super) witness: SharedWitness,
}

impl SeenStore {
    /// The store of a run's first host.
    pub fn of_one(inner: MemoryStore, kernel: SharedKernel, witness: SharedWitness) -> Self {
        let faults = DiskFaults::default();
        Self { inner: Arc::new(inner), host: 0, kernel, faults, witness }
    }
}

impl Store for SeenStore {
    fn submit(&self, unit: Unit) -> BoxFuture<Result<(), Refusal>> {
        self.witness.see(&Seen::Submitted { host: self.host, unit: &unit });
        let (session, host) = (unit.session.clone(), self.host);
        let last_seq = unit.rows.last().map_or(0, |row| row.seq);
        let (submitted, witness) = (self.inner.submit(unit), Arc::clone(&self.witness));
        let (kernel, faults) = (Arc::clone(&self.kernel), self.faults.clone());
        Box::pin(async move {
            let answer = submitted.await;
            let refusal = answer.as_ref().err();
            witness.see(&Seen::UnitAnswered { host, session: &session, last_seq, refusal });
            if matches!(refusal, Some(Refusal::Retry { .. })) {
                // The host may submit the next unit before it reads this.
                let late_ms = faults.arm().answers_late_ms.take();
                if late_ms.is_some() {
                    witness.met_in_world(WorldMark::StoreAnsweredLate);
                }
                let us = kernel.choose("store.refusal_us", REFUSAL_US_MAX);
                kernel.sleep_us(us + late_ms.unwrap_or(0) * 1_000).await;
            }
            answer
        })
    }

    fn load(&self) -> BoxFuture<Result<StoreImage, StoreError>> {
        self.inner.load()
    }

    fn rows(&self, session: SessionId) -> BoxFuture<Result<StoredRows, StoreError>> {
        self.inner.rows(session)
    }
}
