//! What clients read of a journal: snapshots, batches, cursors. Every optional field is tolerant both ways (rule 4.8).

use serde::{Deserialize, Serialize};

use super::facts::FailureFact;
use super::ids::{EpochId, Fence, ItemKey, MessageId, TurnKey};
use super::item::{Cut, ItemBody};
use super::row::{DispatchState, SendMode, StreamedText, UnknownReason};

/// A place in a session's journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cursor {
    /// The epoch.
    pub epoch: EpochId,
    /// The last row that is known.
    pub seq: u64,
}

/// Where an item stands in the timeline: the row that created it, and its index in that row (rule 6.4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The row.
    pub seq: u64,
    /// The index inside it.
    pub index: u32,
}

/// An item as it is published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemView {
    /// Its identity.
    pub item: ItemKey,
    /// Highest wins (rule 6.4.2).
    pub revision: u64,
    /// Where it stands.
    pub position: Position,
    /// The turn it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<TurnKey>,
    /// When it was first seen, wall time.
    pub observed_ms: u64,
    /// Its body.
    pub body: ItemBody,
}

/// A submission as it is published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmissionView {
    /// The message.
    pub message_id: MessageId,
    /// Where it stands.
    pub state: SubmissionState,
    /// How it goes out.
    #[serde(default)]
    pub mode: SendMode,
    /// When it was accepted by the host.
    pub requested_ms: u64,
    /// When it was handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed_over_ms: Option<u64>,
    /// The row that moved it last; a higher one wins.
    pub seq: u64,
    /// Why, for `rejected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fact: Option<FailureFact>,
    /// Why, for `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<UnknownReason>,
    /// Settled by a recovery rather than by the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
}

/// Where a submission stands (rule 5.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SubmissionState {
    /// Accepted by the host, not handed over.
    Queued,
    /// Handed over, not acknowledged.
    HandedOver,
    /// The agent has it.
    Accepted,
    /// Proven not delivered.
    Rejected,
    /// Delivery is unconfirmed.
    Unknown,
}

impl From<DispatchState> for SubmissionState {
    fn from(state: DispatchState) -> Self {
        match state {
            DispatchState::HandedOver => Self::HandedOver,
            DispatchState::Accepted => Self::Accepted,
            DispatchState::Rejected => Self::Rejected,
            DispatchState::Unknown => Self::Unknown,
        }
    }
}

/// The whole of a session's timeline (rule 6.7.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// As of where.
    pub cursor: Cursor,
    /// The session's fence.
    pub fence: Fence,
    /// By position.
    pub items: Vec<ItemView>,
    /// By the time they were accepted.
    pub submissions: Vec<SubmissionView>,
    /// The context ring's newest reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextView>,
}

/// The context ring's newest reading (rule 7.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextView {
    /// Tokens in the window.
    pub used: u64,
    /// The window.
    pub size: u64,
}

/// What one commit changed: the reduced state of each touched item, never a raw delta, so that applying one twice or over
/// a catch-up converges (rule 6.7.2). A growing text travels from its offset on (decision D31).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// As of where.
    pub cursor: Cursor,
    /// The session's fence.
    pub fence: Fence,
    /// Touched items, by position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<ItemView>,
    /// Growing texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<TextGrowth>,
    /// Items that were removed, with the revision that removed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<Removed>,
    /// Touched submissions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub submissions: Vec<SubmissionView>,
    /// The context ring's newest reading, when it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextView>,
}

/// More text of a message item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextGrowth {
    /// The item.
    pub item: ItemKey,
    /// Its revision after this text.
    pub revision: u64,
    /// Byte offset of `text` in the item's text; absolute, so applying it twice changes nothing.
    pub at: u64,
    /// The text.
    pub text: StreamedText,
    /// The text was cut here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// An item that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// The item.
    pub item: ItemKey,
    /// The revision that removed it.
    pub revision: u64,
}
