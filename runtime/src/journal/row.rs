//! Rows: the journal as it lies in the store, one JSON text each (`docs/journal.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::item::{Cut, ItemBody};
use crate::failure::FailureFact;
use crate::ids::{EpochId, Fence, Generation, ItemKey, MessageId, OperationId, SessionId, TurnKey};
use crate::platform::{ChildIdentity, Exit, ProofKind, Survivor};
use crate::session::ladder::EndedHow;

/// Version of the rows this build writes; a higher one is read-only (rule 6.10.1).
pub const ROW_VERSION: u32 = 1;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// [`ROW_VERSION`].
    pub v: u32,
    /// The run of sequence numbers it belongs to.
    pub epoch: EpochId,
    /// Contiguous from 1 in its epoch (rule 6.4.1).
    pub seq: u64,
    /// The fence it was written under (rule 6.5.2).
    pub fence: Fence,
    /// Wall time, milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Written by a settlement after the fact rather than by the child's own events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
    /// What it says.
    #[serde(flatten)]
    pub kind: RowKind,
}

/// What a row says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RowKind {
    /// The first row of an epoch; always sequence 1.
    Epoch {
        /// Whose journal it is.
        session: SessionId,
        /// Why the epoch began.
        reason: EpochReason,
    },
    /// An item at a revision.
    Item(ItemRow),
    /// More text of a message item (decision D31).
    Text {
        /// The item.
        item: ItemKey,
        /// Its revision after this row.
        revision: u64,
        /// Byte offset of `text` in the item's text.
        at: u64,
        /// The text.
        text: StreamedText,
        /// The text was cut here: how long the whole was, and its digest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cut: Option<Cut>,
    },
    /// An item is removed (rule 6.4.2).
    Tombstone {
        /// The item.
        item: ItemKey,
        /// The revision that removed it.
        revision: u64,
    },
    /// A fact that is no item; an unknown mark folds as nothing.
    Mark {
        /// The fact.
        mark: Mark,
    },
    /// A message was accepted (rule 5.1.1).
    Submission {
        /// Its id.
        message_id: MessageId,
        /// Digest of its payload (rule 5.2.4).
        fingerprint: String,
        /// Its text.
        text: StreamedText,
        /// How it goes out.
        #[serde(default)]
        mode: SendMode,
        /// When it was accepted.
        requested_ms: u64,
    },
    /// A submission moved (rule 5.1.2).
    Dispatch(DispatchRow),
    /// Mutations that belong together, applied at once and once (rule 6.5.4).
    Batch {
        /// Its identity.
        settlement: String,
        /// What it does, in order.
        mutations: Vec<Mutation>,
    },
    /// A fact about a child (decision D10). No item: no page, no activity, no notification.
    Child(ChildRow),
}

/// Why an epoch began (rule 6.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EpochReason {
    /// The session was created.
    Created,
    /// The earlier epoch was damaged and is sealed.
    Damaged,
}

/// An item at a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ItemRow {
    /// The item.
    pub item: ItemKey,
    /// Highest wins (rule 6.4.2).
    pub revision: u64,
    /// The turn it belongs to; pinned by the creating write (rule 6.4.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<TurnKey>,
    /// Its body.
    pub body: ItemBody,
}

/// One change of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mutation {
    /// An item at a revision.
    Item(ItemRow),
    /// An item is removed.
    Tombstone {
        /// The item.
        item: ItemKey,
        /// The revision that removed it.
        revision: u64,
    },
    /// A submission moved.
    Dispatch(DispatchRow),
}

/// A submission's new state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DispatchRow {
    /// Which message.
    pub message_id: MessageId,
    /// Its state now.
    pub state: DispatchState,
    /// The turn it opened or joined, on the handover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<TurnKey>,
    /// Why, for `rejected` and `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fact: Option<FailureFact>,
    /// Words for `unknown` (rule 5.2.2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<UnknownReason>,
}

/// What a dispatch row moves a submission to (rule 5.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DispatchState {
    /// Handed over, not yet acknowledged.
    HandedOver,
    /// The agent has it.
    Accepted,
    /// Proven not delivered.
    Rejected,
    /// Delivery is unconfirmed; never resolved by sending again.
    Unknown,
}

/// Why a delivery is unconfirmed (rule 5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnknownReason {
    /// The host restarted before an acknowledgement.
    HostRestarted,
    /// The agent exited before an acknowledgement.
    ProviderExited,
    /// The agent was closed before an acknowledgement.
    ProviderClosed,
    /// Writing to the agent failed.
    WriteUnconfirmed,
}

/// How a message that meets a running turn goes out (decision D11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SendMode {
    /// It waits, then opens its own turn.
    #[default]
    AfterTurn,
    /// It cuts the prompt that runs when it is sent, and goes next (rule 2.5); with none it waits as any other.
    Steer,
}

/// A fact that is no item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mark", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mark {
    /// Where a Stop took effect (rule 3.3.1).
    Stop(StopEvent),
    /// The context ring's newest reading (rule 7.5.2).
    Context {
        /// Tokens in the window.
        used: u64,
        /// The window.
        size: u64,
    },
    /// A mark of a newer build; folds as nothing.
    #[serde(other)]
    Unknown,
}

/// A Stop event (rule 3.3.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StopEvent {
    /// The operation that pressed it.
    pub op: OperationId,
    /// Whose Stop.
    pub reason: StopReason,
    /// The turn it named, else the one running when it took effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnKey>,
    /// Whether the press itself named the turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named: bool,
    /// Journal time.
    pub at_ms: u64,
}

/// Whose Stop it is (rule 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StopReason {
    /// A person pressed Stop.
    UserStop,
    /// A person closed the session.
    UserClose,
    /// The host stops its children.
    HostStop,
    /// The idle sweep.
    Evict,
}

impl StopReason {
    /// Only a person's Stop or close makes a cut turn a cancellation (invariant 6).
    pub fn is_a_persons(self) -> bool {
        matches!(self, Self::UserStop | Self::UserClose)
    }
}

/// A fact about a child (decision D10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "child", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChildRow {
    /// It was spawned, and is recorded before the handshake.
    Started {
        /// Which.
        generation: Generation,
        /// Who.
        identity: ChildIdentity,
    },
    /// Its root's end.
    Exited {
        /// Which.
        generation: Generation,
        /// How the end came about.
        how: EndedHow,
        /// What the operating system saw, where it was observed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<Exit>,
        /// Whether the host had asked for it.
        requested: bool,
    },
    /// What is proven of it.
    Settled {
        /// Which.
        generation: Generation,
        /// Of the agent's own process.
        root: RootProof,
        /// Of everything it started.
        tree: TreeProof,
        /// What the proof rests on.
        proof: ProofKind,
        /// What outlived the agent.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        survivors: Vec<Survivor>,
        /// Whether the turn that a Stop or close cut is in the agent's own session file as stopped; absent where nothing was
        /// cut or its definition cannot tell (decision D28).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        abort_persisted: Option<AbortPersisted>,
    },
}

/// Whether an agent's aborted work reached its disk (decision D28).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AbortPersisted {
    /// Its session file says that the turn was stopped.
    Yes,
    /// It says nothing of the kind.
    No,
    /// The file could not be read, or two messages read alike.
    Unknown,
}

/// Of the agent's own process (decision D10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RootProof {
    /// Its exit was observed.
    Exited,
    /// It was not.
    Unproven,
}

/// Of everything the agent started (decisions D10, D21).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TreeProof {
    /// Nothing is left.
    Gone,
    /// Left alive on purpose.
    Left,
    /// Not proven.
    Unproven,
}

/// Text whose `Debug` tells only its length.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct StreamedText(pub String);

impl std::fmt::Debug for StreamedText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({} bytes)", self.0.len())
    }
}

/// Why a stored row cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowFault {
    /// A newer build wrote it: the session is read-only, its bytes are left alone (rule 6.10.1).
    #[error("row {seq} was written by a newer version ({what})")]
    Newer {
        /// Its sequence number.
        seq: u64,
        /// What is newer.
        what: String,
    },
    /// It is damaged (rule 6.2.9).
    #[error("row is damaged: {what}")]
    Damaged {
        /// What is wrong.
        what: String,
    },
}

impl Row {
    /// Reads one stored row.
    pub fn parse(text: &str) -> Result<Self, RowFault> {
        match super::read::in_one_pass(text) {
            Some(row) if row.v <= ROW_VERSION && row.seq > 0 && !row.epoch.as_str().is_empty() => {
                Ok(row)
            }
            _ => Self::parse_slowly(text),
        }
    }

    /// In any order of its fields, and with words for what is wrong.
    fn parse_slowly(text: &str) -> Result<Self, RowFault> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            v: u32,
            seq: u64,
            epoch: EpochId,
            #[serde(borrow)]
            kind: std::borrow::Cow<'a, str>,
        }
        const KINDS: [&str; 9] = [
            "epoch",
            "item",
            "text",
            "tombstone",
            "mark",
            "submission",
            "dispatch",
            "batch",
            "child",
        ];
        let envelope: Envelope<'_> = serde_json::from_str(text)
            .map_err(|e| RowFault::Damaged { what: format!("envelope, column {}", e.column()) })?;
        if envelope.v > ROW_VERSION {
            return Err(RowFault::Newer {
                seq: envelope.seq,
                what: format!("version {}", envelope.v),
            });
        }
        if !KINDS.contains(&envelope.kind.as_ref()) {
            return Err(RowFault::Newer {
                seq: envelope.seq,
                what: format!("kind {}", envelope.kind),
            });
        }
        if envelope.seq == 0 || envelope.epoch.as_str().is_empty() {
            return Err(RowFault::Damaged { what: "sequence 0 or no epoch".to_owned() });
        }
        serde_json::from_str(text).map_err(|e| RowFault::Damaged {
            what: format!("row {}, column {}", envelope.seq, e.column()),
        })
    }

    /// The row as it is stored.
    pub fn to_text(&self) -> String {
        #[expect(clippy::expect_used, reason = "rows hold no map with keys that are not text")]
        serde_json::to_string(self).expect("a row is always JSON")
    }
}
