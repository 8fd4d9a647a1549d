//! The disk of the model: what survives a crash. A value that can be copied, looked at and damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::faults::StoreFaults;
use crate::ids::{EpochId, OperationId, SessionId};
use crate::store::check::{Admission, Head, Remembered, Stored, admit};
use crate::store::group::{Database, Fault, Outcome, Submitted, Texts, UnitFault, write};
use crate::store::readback::{self, Prefix};
use crate::store::{
    LEDGER_ROWS_MAX, LedgerEntry, StoreError, StoreImage, StoredRows, Unit, UnreadableRecord,
};

/// The shared disk. Clones are the same disk; [`MemoryDisk::fork`] is another one.
#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<Disk>>);

/// One stored row, as it lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredText {
    /// Its key beside the text.
    pub seq: u64,
    /// The text; bytes, because damage need not be UTF-8.
    pub text: Vec<u8>,
}

#[derive(Clone, Default)]
struct Disk {
    sessions: BTreeMap<SessionId, SessionOnDisk>,
    ledger: BTreeMap<OperationId, LedgerEntry>,
    /// Bumped by each open (decision D35).
    instance: u64,
    /// Who holds the instance lock, and with which instance.
    holder: Option<(u64, String)>,
}

#[derive(Clone)]
struct SessionOnDisk {
    head: Head,
    record: String,
    epochs: BTreeMap<EpochId, Vec<StoredText>>,
    sealed: BTreeSet<EpochId>,
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another disk with the same content, which nobody holds: what a crash at this moment would leave.
    pub fn fork(&self) -> Self {
        let mut disk = self.lock().clone();
        disk.holder = None;
        Self(Arc::new(Mutex::new(disk)))
    }

    /// The instance lock is lost although its holder lives: the next open succeeds, and the older handle's next unit is
    /// refused (decision D35).
    pub fn lose_lock(&self) {
        self.lock().holder = None;
    }

    /// What a starting host would read.
    pub fn image(&self) -> StoreImage {
        let disk = self.lock();
        let mut image = StoreImage::default();
        for (session, on_disk) in &disk.sessions {
            match readback::record(&on_disk.head, on_disk.record.as_bytes()) {
                Ok(record) => image.records.push(record),
                Err(what) => {
                    image.unreadable.push(UnreadableRecord { session: session.clone(), what })
                }
            }
        }
        image.ledger = disk.ledger.values().cloned().collect();
        image
    }

    /// What a host would read of a session's live epoch.
    pub fn rows(&self, session: &SessionId) -> StoredRows {
        let disk = self.lock();
        let Some(on_disk) = disk.sessions.get(session) else {
            return StoredRows { epoch: None, rows: Vec::new(), fault: None };
        };
        let mut prefix = Prefix::new(on_disk.head.epoch.clone());
        for line in on_disk.epochs.get(&on_disk.head.epoch).into_iter().flatten() {
            if !prefix.take(line.seq, &line.text) {
                break;
            }
        }
        prefix.finish()
    }

    /// The texts of one epoch, sealed or live, in order.
    pub fn texts(&self, session: &SessionId, epoch: &EpochId) -> Vec<StoredText> {
        let disk = self.lock();
        let lines = disk.sessions.get(session).and_then(|s| s.epochs.get(epoch));
        lines.cloned().unwrap_or_default()
    }

    /// Puts other bytes in the place of a stored row, as damage or a newer build would. `None` takes the row away.
    /// Tells whether there was such a row.
    pub fn overwrite(
        &self,
        session: &SessionId,
        epoch: &EpochId,
        seq: u64,
        text: Option<&[u8]>,
    ) -> bool {
        let mut disk = self.lock();
        let lines = disk.sessions.get_mut(session).and_then(|s| s.epochs.get_mut(epoch));
        let Some(lines) = lines else { return false };
        let Some(at) = lines.iter().position(|line| line.seq == seq) else { return false };
        match text {
            Some(text) => lines[at].text = text.to_vec(),
            None => drop(lines.remove(at)),
        }
        true
    }

    /// Puts another text in the place of a stored record. Tells whether there was one.
    pub fn overwrite_record(&self, session: &SessionId, text: &str) -> bool {
        let mut disk = self.lock();
        let Some(on_disk) = disk.sessions.get_mut(session) else { return false };
        on_disk.record = text.to_owned();
        true
    }

    pub(super) fn claim(&self, holder: &str) -> Result<u64, StoreError> {
        let mut disk = self.lock();
        if let Some((_, pid)) = &disk.holder {
            return Err(StoreError::InUse { path: "(memory)".to_owned(), pid: pid.clone() });
        }
        disk.instance += 1;
        disk.holder = Some((disk.instance, holder.to_owned()));
        Ok(disk.instance)
    }

    pub(super) fn release(&self, instance: u64) {
        let mut disk = self.lock();
        if disk.holder.as_ref().is_some_and(|(holder, _)| *holder == instance) {
            disk.holder = None;
        }
    }

    /// Judges and stores a group in one step.
    pub(super) fn write<A>(
        &self,
        instance: u64,
        faults: &dyn StoreFaults,
        group: &[Submitted<A>],
    ) -> Vec<Outcome> {
        write(&mut Held { disk: &mut self.lock(), instance, faults }, group)
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        // Every change under this lock is made after its unit was judged as a whole: a panic tears nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The disk as a database. A unit is judged whole and then stored at once; nothing can fail after the judgement, so
/// there is nothing to roll back.
struct Held<'a> {
    disk: &'a mut Disk,
    instance: u64,
    faults: &'a dyn StoreFaults,
}

impl Database for Held<'_> {
    fn begin(&mut self) -> Result<(), Fault> {
        if self.disk.instance == self.instance {
            Ok(())
        } else {
            Err(Fault::Closed(crate::store::OWNERSHIP_LOST.to_owned()))
        }
    }

    fn store(&mut self, unit: &Unit, texts: &Texts) -> Result<Outcome, UnitFault> {
        if let Some(reason) = self.faults.refuse_unit(unit) {
            return Err(UnitFault::Unit(Fault::Retry(reason)));
        }
        let Ok(admission) = admit(unit, &*self.disk);
        Ok(match admission {
            Admission::Admitted { seals } => {
                self.disk.apply(unit, texts, seals);
                self.faults.stored(unit);
                Outcome::Stored
            }
            Admission::Ahead => Outcome::Ahead,
            Admission::Refused(refusal) => Outcome::Refused(refusal),
        })
    }

    fn commit(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn in_transaction(&self) -> bool {
        false
    }
}

impl Disk {
    fn apply(&mut self, unit: &Unit, texts: &Texts, seals: Option<EpochId>) {
        if let (Some(change), Some(text)) = (&unit.record, &texts.record) {
            let head = Head {
                epoch: change.record.epoch.clone(),
                fence: change.record.lease.fence,
                revision: change.record.revision,
            };
            match self.sessions.get_mut(&unit.session) {
                Some(on_disk) => {
                    on_disk.head = head;
                    on_disk.record.clone_from(text);
                    on_disk.sealed.extend(seals);
                }
                None => {
                    let on_disk = SessionOnDisk {
                        head,
                        record: text.clone(),
                        epochs: BTreeMap::new(),
                        sealed: BTreeSet::new(),
                    };
                    self.sessions.insert(unit.session.clone(), on_disk);
                }
            }
        }
        if let Some(first) = unit.rows.first()
            && let Some(on_disk) = self.sessions.get_mut(&unit.session)
        {
            let lines = on_disk.epochs.entry(first.epoch.clone()).or_default();
            lines.extend(
                unit.rows.iter().zip(&texts.rows).map(|(row, text)| StoredText {
                    seq: row.seq,
                    text: text.clone().into_bytes(),
                }),
            );
        }
        if let Some(entry) = &unit.ledger {
            self.remember(entry);
        }
    }

    fn remember(&mut self, entry: &LedgerEntry) {
        self.ledger.insert(entry.op.clone(), entry.clone());
        if self.ledger.len() > LEDGER_ROWS_MAX {
            self.ledger.retain(|_, kept| kept.expires_ms() >= entry.recorded_ms);
        }
    }
}

impl Stored for Disk {
    type Fault = Infallible;

    fn head(&self, session: &SessionId) -> Result<Option<Head>, Infallible> {
        Ok(self.sessions.get(session).map(|s| s.head.clone()))
    }

    fn last_seq(&self, session: &SessionId, epoch: &EpochId) -> Result<u64, Infallible> {
        let lines = self.sessions.get(session).and_then(|s| s.epochs.get(epoch));
        Ok(lines.and_then(|lines| lines.last()).map_or(0, |line| line.seq))
    }

    fn is_sealed(&self, session: &SessionId, epoch: &EpochId) -> Result<bool, Infallible> {
        Ok(self.sessions.get(session).is_some_and(|s| s.sealed.contains(epoch)))
    }

    fn operation(&self, op: &OperationId) -> Result<Option<Remembered>, Infallible> {
        Ok(self.ledger.get(op).map(|entry| Remembered {
            session: entry.session.clone(),
            fingerprint: entry.fingerprint.clone(),
        }))
    }
}
