//! The words of the host's public calls.

use serde::{Deserialize, Serialize};

use crate::agent::AgentDefinition;
use crate::ids::{CallerId, Fence, ItemKey, MessageId, OperationId, SessionId, TurnKey};
use crate::journal::SendMode;

/// What every mutating call carries (rule 5.10.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallContext {
    /// `<13-digit ms>-<32 hex>`. The same id asked again replays its answer.
    pub op: OperationId,
    /// Who calls; the ledger is bounded per caller.
    pub caller: CallerId,
    /// The fence the caller has seen; `None` means the current one.
    pub expected_fence: Option<Fence>,
    /// The caller's own digest of the call; compared with the host's before anything else (rule 5.10.2).
    pub fingerprint: Option<String>,
}

/// A session to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// What kind of agent; pinned for the session's life.
    pub agent: AgentDefinition,
    /// Absolute working directory; kept as this exact string (decision D16).
    pub workspace: String,
}

/// A message to be sent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Send {
    /// Its id: delivered at most once (rule 5.2.1).
    pub message_id: MessageId,
    /// Its text.
    pub text: String,
    /// How it goes out when a turn runs.
    pub mode: SendMode,
}

impl std::fmt::Debug for Send {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Send({}, {} bytes, {:?})", self.message_id, self.text.len(), self.mode)
    }
}

/// A Stop to be pressed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// The turn it means; `None` means what is running.
    pub turn: Option<TurnKey>,
}

/// A person's answer to a permission request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionAnswer {
    /// The request's item.
    pub item: ItemKey,
    /// The revision the person saw.
    pub expected_revision: u64,
    /// The chosen option's id; `None` dismisses the request.
    pub option: Option<String>,
}
