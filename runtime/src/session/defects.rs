//! Faults of the agent, counted: values, never errors.

use std::collections::BTreeMap;

/// A fault that is seen above the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[non_exhaustive]
pub enum Fault {
    /// A second answer to a settled request (decision D9).
    DuplicateReply,
    /// A frame past the bound before the session was known (rule 1.2.8).
    EarlyFrameDropped,
    /// A frame of a session that is not this one.
    ForeignSession,
    /// An update of a tool of a turn that was cut (decision D3 b).
    LateUpdate,
    /// A request past the bound (rule 9.1.4).
    TooManyRequests,
    /// A frame that the wire could not take.
    Wire,
    /// A frame of ours that did not fit the write queue: the agent does not read (decision D2).
    WriteQueueFull,
}

/// Counts by fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Defects(BTreeMap<Fault, u64>);

impl Defects {
    pub(super) fn count(&mut self, fault: Fault) {
        *self.0.entry(fault).or_default() += 1;
    }

    /// How often it was seen.
    pub fn of(&self, fault: Fault) -> u64 {
        self.0.get(&fault).copied().unwrap_or(0)
    }
}
