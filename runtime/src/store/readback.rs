//! Reading back: what lies stored becomes records and rows again, or says why not. Pure.

use crate::ids::EpochId;
use crate::journal::{Row, RowFault};
use crate::session::record::SessionRecord;

use super::StoredRows;
use super::check::Head;

/// The readable prefix of an epoch, built row by row. Nothing behind the first fault is read: it is evidence, never
/// replayed (rule 6.10.4).
pub(crate) struct Prefix {
    epoch: EpochId,
    rows: Vec<Row>,
    fault: Option<RowFault>,
}

impl Prefix {
    pub fn new(epoch: EpochId) -> Self {
        Self { epoch, rows: Vec::new(), fault: None }
    }

    /// Takes the next stored row; `false` once the prefix has ended.
    pub fn take(&mut self, seq: u64, text: &[u8]) -> bool {
        match self.read(seq, text) {
            Ok(row) => {
                self.rows.push(row);
                true
            }
            Err(fault) => {
                self.fault = Some(fault);
                false
            }
        }
    }

    pub fn finish(self) -> StoredRows {
        StoredRows { epoch: Some(self.epoch), rows: self.rows, fault: self.fault }
    }

    fn read(&self, seq: u64, text: &[u8]) -> Result<Row, RowFault> {
        let expected = self.rows.len() as u64 + 1;
        if seq != expected {
            // Rule 6.4.1: a hole is corruption.
            return Err(RowFault::Damaged { what: format!("row {expected} is missing") });
        }
        let text = std::str::from_utf8(text)
            .map_err(|_| RowFault::Damaged { what: format!("row {seq} is not text") })?;
        let row = Row::parse(text)?;
        if row.seq != seq || row.epoch != self.epoch {
            return Err(RowFault::Damaged { what: format!("row {seq} says it is another one") });
        }
        Ok(row)
    }
}

/// Reads a stored record; what is said of it beside its text must agree with it.
pub(crate) fn record(head: &Head, text: &[u8]) -> Result<SessionRecord, String> {
    let record: SessionRecord = serde_json::from_slice(text)
        .map_err(|e| format!("its record cannot be read, column {}", e.column()))?;
    let agrees = record.epoch == head.epoch
        && record.lease.fence == head.fence
        && record.revision == head.revision;
    if agrees { Ok(record) } else { Err("its record and its columns disagree".to_owned()) }
}
