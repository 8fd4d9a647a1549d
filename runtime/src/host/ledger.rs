//! The operation ledger: one row for every mutating call, so that a call asked twice is done once (rule 5.10).
//!
//! An operation's id is `<13-digit ms>-<32 hex>`, chosen by the client, and is global across callers (rule 5.10.4). Its
//! row lives until no client may ask it again. A row is never evicted early: a ledger that is full refuses.

use std::collections::{BTreeMap, BTreeSet};

use crate::failure::RefusalCode;
use crate::ids::{CallerId, OperationId, SessionId};
use crate::store::{LedgerEntry, LedgerOutcome};

/// How far a client's clock may run ahead of the host's (rule 5.10.3).
pub const OPERATION_SKEW_MS: u64 = 5 * 60 * 1_000;
/// The oldest operation that is still begun (rule 5.10.3).
pub const OPERATION_AGE_MS_MAX: u64 = 24 * 60 * 60 * 1_000;
/// Rows of one caller (rule 5.10.3).
pub const OPERATIONS_PER_CALLER_MAX: usize = 512;
/// Rows of all callers (rule 5.10.3).
pub const OPERATIONS_MAX: usize = 4_096;

const _: () = assert!(OPERATIONS_PER_CALLER_MAX <= OPERATIONS_MAX, "one caller fits");

/// Who asks for what: the part of an operation that a replay must repeat, and its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Who calls; a replay may come from another one (rule 5.10.4).
    pub caller: CallerId,
    /// Whose session.
    pub session: SessionId,
    /// Digest of the call.
    pub fingerprint: String,
}

/// What the ledger says of an operation that may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is new and now pending: run it.
    Run,
    /// It was asked before, and this is what came of it. `Pending` means that it runs now.
    Known(LedgerOutcome),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    operator: Operator,
    expires_ms: u64,
    outcome: LedgerOutcome,
}

/// The ledger of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    rows: BTreeMap<OperationId, Row>,
    expiries: BTreeSet<(u64, OperationId)>,
    per_caller: BTreeMap<CallerId, usize>,
}

impl Ledger {
    /// The ledger of an earlier host. What was pending then died with it: nothing is known of it (rule 5.10.3).
    pub fn restore(stored: Vec<LedgerEntry>, now_ms: u64) -> Self {
        let mut ledger = Self::default();
        for entry in stored {
            let Some(asked_ms) = asked_ms(&entry.op) else { continue };
            let outcome = match entry.outcome {
                LedgerOutcome::Pending => LedgerOutcome::Unknown,
                settled => settled,
            };
            let (caller, session, fingerprint) = (entry.caller, entry.session, entry.fingerprint);
            let operator = Operator { caller, session, fingerprint };
            let expires_ms = expires_ms(entry.recorded_ms, asked_ms);
            ledger.insert(entry.op, Row { operator, expires_ms, outcome });
        }
        ledger.expire(now_ms);
        ledger
    }

    /// Decides whether an operation runs; a new one is remembered as pending from here on.
    ///
    /// The wall clock is read here because the ids carry one: it bounds how long a row must be kept, nothing else.
    pub fn admit(
        &mut self,
        now_ms: u64,
        op: &OperationId,
        operator: Operator,
    ) -> Result<Admission, RefusalCode> {
        self.expire(now_ms);
        let asked_ms = asked_ms(op).ok_or(RefusalCode::OperationIdInvalid)?;
        if let Some(row) = self.rows.get(op) {
            // Only the caller may differ: ids are global across callers (rule 5.10.4).
            if row.operator.fingerprint != operator.fingerprint
                || row.operator.session != operator.session
            {
                return Err(RefusalCode::OperationConflict);
            }
            return Ok(Admission::Known(row.outcome.clone()));
        }
        let too_new = asked_ms > now_ms.saturating_add(OPERATION_SKEW_MS);
        let too_old = asked_ms.saturating_add(OPERATION_AGE_MS_MAX) < now_ms;
        if too_new || too_old {
            return Err(RefusalCode::OperationExpired);
        }
        let of_caller = self.per_caller.get(&operator.caller).copied().unwrap_or(0);
        if of_caller >= OPERATIONS_PER_CALLER_MAX || self.rows.len() >= OPERATIONS_MAX {
            return Err(RefusalCode::LedgerFull);
        }
        let expires_ms = expires_ms(now_ms, asked_ms);
        self.insert(op.clone(), Row { operator, expires_ms, outcome: LedgerOutcome::Pending });
        Ok(Admission::Run)
    }

    /// Moves a row from one outcome to another, if it still stands where the caller believes (rule 5.10.3).
    #[must_use]
    pub fn claim(&mut self, op: &OperationId, from: &LedgerOutcome, to: LedgerOutcome) -> bool {
        match self.rows.get_mut(op) {
            Some(row) if row.outcome == *from => {
                row.outcome = to;
                true
            }
            _ => false,
        }
    }

    /// Forgets a pending operation that was refused before it did anything.
    pub fn release(&mut self, op: &OperationId) {
        debug_assert!(
            self.outcome(op).is_none_or(|o| *o == LedgerOutcome::Pending),
            "only what has done nothing is forgotten"
        );
        self.remove(op);
    }

    /// What is remembered of an operation.
    pub fn outcome(&self, op: &OperationId) -> Option<&LedgerOutcome> {
        self.rows.get(op).map(|row| &row.outcome)
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What must always hold.
    pub fn invariants(&self) {
        assert_eq!(self.rows.len(), self.expiries.len(), "every row has one expiry");
        let counted: usize = self.per_caller.values().sum();
        assert_eq!(self.rows.len(), counted, "every row is counted for its caller once");
        assert!(self.per_caller.values().all(|n| *n > 0), "a caller without rows is not kept");
    }

    fn insert(&mut self, op: OperationId, row: Row) {
        self.remove(&op);
        *self.per_caller.entry(row.operator.caller.clone()).or_default() += 1;
        self.expiries.insert((row.expires_ms, op.clone()));
        self.rows.insert(op, row);
    }

    fn remove(&mut self, op: &OperationId) {
        let Some(row) = self.rows.remove(op) else { return };
        self.expiries.remove(&(row.expires_ms, op.clone()));
        if let Some(count) = self.per_caller.get_mut(&row.operator.caller) {
            *count -= 1;
            if *count == 0 {
                self.per_caller.remove(&row.operator.caller);
            }
        }
    }

    /// A row that is pending outlives its expiry: its caller still waits.
    fn expire(&mut self, now_ms: u64) {
        let due: Vec<OperationId> = self
            .expiries
            .iter()
            .take_while(|(at, _)| *at < now_ms)
            .filter(|(_, op)| self.outcome(op) != Some(&LedgerOutcome::Pending))
            .map(|(_, op)| op.clone())
            .collect();
        for op in due {
            self.remove(&op);
        }
    }
}

/// No client may ask the operation again after this (rule 5.10.3).
fn expires_ms(recorded_ms: u64, asked_ms: u64) -> u64 {
    recorded_ms.max(asked_ms).saturating_add(OPERATION_AGE_MS_MAX + OPERATION_SKEW_MS)
}

/// The time an operation id carries; `None` when it is not one (rule 5.10.1).
fn asked_ms(op: &OperationId) -> Option<u64> {
    let (ms, random) = op.as_str().split_once('-')?;
    let digits = ms.len() == 13 && ms.bytes().all(|b| b.is_ascii_digit());
    let hex = random.len() == 32 && random.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    (digits && hex).then(|| ms.parse().ok()).flatten()
}

#[cfg(test)]
#[path = "tests/ledger.rs"]
mod tests;
