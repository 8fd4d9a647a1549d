//! What the store's tests share: rows, records and units by few words.
#![allow(dead_code, reason = "each test binary uses its own part of it")]

use moored::agent::AgentDefinition;
use moored::ids::{EpochId, Fence, SessionId};
use moored::journal::{EpochReason, Mark, Row, RowKind, StreamedText};
use moored::session::record::{Claim, Lease, SessionRecord};
use moored::store::{LedgerEntry, LedgerOutcome, RecordChange, Unit};

pub const EPOCH: &str = "epoch-1";

/// The row at `seq` of the first epoch: the epoch's own row, then readings.
pub fn row(session: &str, seq: u64) -> Row {
    row_of(session, EPOCH, seq)
}

pub fn row_of(session: &str, epoch: &str, seq: u64) -> Row {
    let kind = if seq == 1 {
        RowKind::Epoch { session: session.into(), reason: EpochReason::Created }
    } else {
        RowKind::Mark { mark: Mark::Context { used: seq, size: 1_000 } }
    };
    let at_ms = 1_700_000_000_000 + seq;
    Row { v: 1, epoch: epoch.into(), seq, fence: Fence(0), at_ms, recovered: false, kind }
}

/// A row that carries `bytes` of text.
pub fn text_row(seq: u64, bytes: usize) -> Row {
    let text = StreamedText("x".repeat(bytes));
    Row {
        kind: RowKind::Text { item: "item".into(), revision: seq, at: 0, text, cut: None },
        ..row("", seq)
    }
}

pub fn record(session: &str, revision: u64, fence: u64) -> SessionRecord {
    SessionRecord {
        session: session.into(),
        revision,
        epoch: EPOCH.into(),
        created_ms: 1_700_000_000_000,
        agent: AgentDefinition::generic(vec!["agent".to_owned()]),
        workspace: "/workspace".to_owned(),
        lease: Lease { fence: Fence(fence), claim: Claim::Released, ..Lease::default() },
        handles: Vec::new(),
        closed: false,
        name: None,
    }
}

/// An empty unit of a session, under fence 0.
pub fn unit(session: &str) -> Unit {
    Unit {
        session: session.into(),
        fence: Fence(0),
        rows: Vec::new(),
        ledger: None,
        record: None,
        resumes: false,
    }
}

/// Its caller has read every refusal.
pub fn resuming(unit: Unit) -> Unit {
    Unit { resumes: true, ..unit }
}

/// Makes a session: its record and the first row.
pub fn creation(session: &str) -> Unit {
    with_record(rows(session, 1..=1), record(session, 1, 0))
}

/// Appends the rows of a range of sequence numbers.
pub fn rows(session: &str, range: std::ops::RangeInclusive<u64>) -> Unit {
    Unit { rows: range.map(|seq| row(session, seq)).collect(), ..unit(session) }
}

pub fn with_record(unit: Unit, record: SessionRecord) -> Unit {
    let change = RecordChange { expected_revision: record.revision - 1, record };
    Unit { record: Some(change), ..unit }
}

pub fn entry(session: &str, op: &str, outcome: LedgerOutcome) -> LedgerEntry {
    LedgerEntry {
        op: op.into(),
        caller: "caller".into(),
        session: session.into(),
        fingerprint: format!("digest of {op}"),
        recorded_ms: 1_700_000_000_000,
        outcome,
    }
}

pub fn with_entry(unit: Unit, entry: LedgerEntry) -> Unit {
    Unit { ledger: Some(entry), ..unit }
}

pub fn sid(session: &str) -> SessionId {
    session.into()
}

pub fn epoch() -> EpochId {
    EPOCH.into()
}

/// Drives a future on this thread.
pub fn drive<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(future)
}
