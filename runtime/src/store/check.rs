//! Admission of one unit against what is stored. Pure: both stores judge by this code, each through its own reads.

use crate::ids::{EpochId, Fence, OperationId, SessionId};

use super::{LedgerEntry, RecordChange, Refusal, Unit};

/// What the judgement reads of a session beside its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The live epoch.
    pub epoch: EpochId,
    /// The fence of the stored lease.
    pub fence: Fence,
    /// The revision of the stored record.
    pub revision: u64,
}

/// What the ledger remembers of an operation, as far as the judgement needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remembered {
    /// Whose session.
    pub session: SessionId,
    /// Digest of the call.
    pub fingerprint: String,
}

/// The reads the judgement makes, inside the transaction that will store the unit.
pub(crate) trait Stored {
    /// Why a read failed.
    type Fault;

    /// The session's head; `None` when it has no record.
    fn head(&self, session: &SessionId) -> Result<Option<Head>, Self::Fault>;

    /// The last sequence number stored in an epoch, readable or not; 0 when there is none.
    fn last_seq(&self, session: &SessionId, epoch: &EpochId) -> Result<u64, Self::Fault>;

    /// Whether the epoch was live once and is not any more (rule 6.10.2).
    fn is_sealed(&self, session: &SessionId, epoch: &EpochId) -> Result<bool, Self::Fault>;

    /// What the ledger remembers under an operation id.
    fn operation(&self, op: &OperationId) -> Result<Option<Remembered>, Self::Fault>;
}

/// The judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may be stored.
    Admitted {
        /// The epoch that stops being live with it.
        seals: Option<EpochId>,
    },
    /// It builds on something that is not stored: a conflict, for nothing behind a refused unit gets this far.
    Ahead,
    /// It may not be stored.
    Refused(Refusal),
}

/// Numbers a store must hold and SQLite's integers can.
const INTEGER_MAX: u64 = i64::MAX as u64;

/// Judges a unit.
pub(crate) fn admit<S: Stored>(unit: &Unit, stored: &S) -> Result<Admission, S::Fault> {
    if !is_well_formed(unit) {
        return Ok(Admission::Refused(Refusal::Conflict));
    }
    let head = stored.head(&unit.session)?;
    if let Some(head) = &head
        && head.fence > unit.fence
    {
        // Rule 6.5.2: this is what keeps a replaced child from changing anything.
        return Ok(Admission::Refused(Refusal::Stale { current: head.fence }));
    }
    let mut seals = None;
    if let Some(change) = &unit.record {
        match compare(change, head.as_ref()) {
            Compared::Fits => {}
            Compared::Ahead => return Ok(Admission::Ahead),
            Compared::Conflict => return Ok(Admission::Refused(Refusal::Conflict)),
        }
        let epoch = &change.record.epoch;
        if stored.is_sealed(&unit.session, epoch)? {
            return Ok(Admission::Refused(Refusal::Conflict));
        }
        seals = head.as_ref().map(|h| &h.epoch).filter(|live| *live != epoch).cloned();
    }
    if let Some(entry) = &unit.ledger
        && !continues(entry, stored.operation(&entry.op)?)
    {
        return Ok(Admission::Refused(Refusal::Conflict));
    }
    let live = unit.record.as_ref().map(|c| &c.record.epoch).or(head.as_ref().map(|h| &h.epoch));
    match place_rows(unit, live, stored)? {
        Compared::Fits => Ok(Admission::Admitted { seals }),
        Compared::Ahead => Ok(Admission::Ahead),
        Compared::Conflict => Ok(Admission::Refused(Refusal::Conflict)),
    }
}

enum Compared {
    Fits,
    Ahead,
    Conflict,
}

/// What can be said of a unit without any stored state.
fn is_well_formed(unit: &Unit) -> bool {
    let contiguous = unit.rows.windows(2).all(|pair| {
        pair[0].seq.checked_add(1) == Some(pair[1].seq) && pair[0].epoch == pair[1].epoch
    });
    let rows_fit = unit.rows.iter().all(|row| {
        (1..=INTEGER_MAX).contains(&row.seq)
            && row.at_ms <= INTEGER_MAX
            && !row.epoch.as_str().is_empty()
    });
    let record_fits = unit.record.as_ref().is_none_or(|change| {
        change.record.session == unit.session
            && change.expected_revision.checked_add(1) == Some(change.record.revision)
            && change.record.revision <= INTEGER_MAX
            && change.record.lease.fence.0 <= INTEGER_MAX
            && !change.record.epoch.as_str().is_empty()
    });
    let ledger_fits = unit
        .ledger
        .as_ref()
        .is_none_or(|entry| entry.session == unit.session && entry.expires_ms() <= INTEGER_MAX);
    contiguous && rows_fit && record_fits && ledger_fits
}

/// The compare of the compare-and-set (rule 6.13.1): the revision is the expected one, the fence never goes down.
fn compare(change: &RecordChange, head: Option<&Head>) -> Compared {
    let (revision, fence) = head.map_or((0, Fence::default()), |h| (h.revision, h.fence));
    match change.expected_revision.cmp(&revision) {
        std::cmp::Ordering::Greater => Compared::Ahead,
        std::cmp::Ordering::Less => Compared::Conflict,
        std::cmp::Ordering::Equal if change.record.lease.fence < fence => Compared::Conflict,
        std::cmp::Ordering::Equal => Compared::Fits,
    }
}

/// An operation id names one call for ever (rule 5.10.2): only the same call may replace its entry.
fn continues(entry: &LedgerEntry, remembered: Option<Remembered>) -> bool {
    remembered.is_none_or(|r| r.session == entry.session && r.fingerprint == entry.fingerprint)
}

/// Rows go to the end of the live epoch and nowhere else (rule 6.4.1).
fn place_rows<S: Stored>(
    unit: &Unit,
    live: Option<&EpochId>,
    stored: &S,
) -> Result<Compared, S::Fault> {
    let Some(first) = unit.rows.first() else { return Ok(Compared::Fits) };
    let Some(live) = live else { return Ok(Compared::Ahead) };
    if first.epoch != *live {
        let sealed = stored.is_sealed(&unit.session, &first.epoch)?;
        return Ok(if sealed { Compared::Conflict } else { Compared::Ahead });
    }
    let last = stored.last_seq(&unit.session, live)?;
    Ok(match first.seq.cmp(&(last + 1)) {
        std::cmp::Ordering::Less => Compared::Conflict,
        std::cmp::Ordering::Equal => Compared::Fits,
        std::cmp::Ordering::Greater => Compared::Ahead,
    })
}
