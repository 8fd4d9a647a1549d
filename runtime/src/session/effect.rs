//! What the machine asks of its driver: one closed enum.

use crate::failure::RefusedOperation;
use crate::ids::{CallerId, Fence, Generation, MessageId, OperationId, TurnKey};
use crate::journal::{Batch, EndedAnswer, ItemKeyAnswer, SubmissionState};
use crate::platform::{ChildSpec, Order};
use crate::status::Summary;
use crate::store::Unit;

/// Names one append; they become durable in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Names a caller that waits for an answer; given by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// What the driver must do, in the order in which it is polled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Submit a unit to the store and bring back `handle_durable` or `handle_refused` with its ticket.
    Append {
        /// Its name.
        ticket: Ticket,
        /// What to store.
        unit: Box<Unit>,
    },
    /// Answer a caller.
    Answer {
        /// Who waits.
        call: CallId,
        /// With what.
        answer: Answer,
    },
    /// Hand what a commit changed to the session's subscribers.
    Commit(Batch),
    /// Close the child's stdin. Frames written before it still go out.
    CloseStdin {
        /// Which child.
        generation: Generation,
    },
    /// Nothing is left of the child that the driver needs to keep: its tasks may end.
    Forget {
        /// Which child.
        generation: Generation,
    },
    /// Bring back `handle_minted` with a fresh generation and spawn token.
    Mint,
    /// Tell the child's supervisor.
    Order {
        /// Which child.
        generation: Generation,
        /// What.
        order: Order,
    },
    /// Publish the session's summary.
    Publish(Box<Summary>),
    /// Read the child's stdout, or leave it in its pipe (rule 1.5.8).
    Read {
        /// Which child.
        generation: Generation,
        /// Whether to read.
        on: bool,
    },
    /// Start a child and bring back `handle_spawned` or `handle_spawn_failed`.
    Spawn {
        /// Which child it will be.
        generation: Generation,
        /// What to start.
        spec: ChildSpec,
    },
    /// Write a frame to the child's stdin, in order. Bring back `handle_write_failed` if it cannot be.
    Write {
        /// Which child.
        generation: Generation,
        /// The frame with its newline.
        frame: Frame,
    },
}

/// A frame on its way to an agent. `Debug` tells its length only.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame(pub Vec<u8>);

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frame({} bytes)", self.0.len())
    }
}

/// The admitted part of every mutating call (rule 5.10.1): what the ledger remembers of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Who waits for the answer.
    pub call: CallId,
    /// The client's id of the operation.
    pub op: OperationId,
    /// Who called.
    pub caller: CallerId,
    /// Digest of the call.
    pub fingerprint: String,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To a create: the session is durable.
    Created(Result<(), RefusedOperation>),
    /// To a send.
    Sent(Result<Accepted, RefusedOperation>),
    /// To a Stop.
    Stopped(Result<StopAnswer, RefusedOperation>),
    /// To an answer of a permission request.
    Answered(Result<ItemKeyAnswer, RefusedOperation>),
    /// To a close: how the child ended and what is proven.
    Closed(Result<EndedAnswer, RefusedOperation>),
}

/// A message the host has on disk.
#[derive(
    Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct Accepted {
    /// Which.
    pub message_id: MessageId,
    /// Where it stood when this was answered; a replay of an old id answers with its recorded state (rule 5.2.1).
    pub state: SubmissionState,
    /// The session's fence.
    pub fence: Fence,
}

/// The answer to a Stop (rule 3.1.4).
#[derive(
    Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct StopAnswer {
    /// The turn the press named, echoed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnKey>,
    /// Whether it stopped anything.
    pub cancelled: bool,
}
