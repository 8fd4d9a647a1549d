//! What the machine asks of its driver: one closed enum.

use crate::failure::RefusedOperation;
use crate::ids::{CallerId, Fence, Generation, MessageId, OperationId, TurnKey};
use crate::journal::{Batch, EndedAnswer, ItemKeyAnswer, SubmissionState};
use crate::platform::{ChildSpec, FilePattern, Order};
use crate::status::Summary;
use crate::store::Unit;

/// Names one append; they become durable in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Ticket(pub u64);

/// Names a caller that waits for an answer; given by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
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
    /// Close the child's stdin at once: nothing that is still queued goes out.
    CutStdin {
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
    /// Read the end of the agent's session file and bring back `handle_file_tail` (decision D28).
    ReadTail {
        /// Whose.
        generation: Generation,
        /// Which file.
        pattern: FilePattern,
        /// Its last bytes, at most so many.
        bytes_max: u64,
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

/// What a trace says of an effect: short, without anybody's words, and different wherever two runs differ in what was
/// decided.
impl std::fmt::Display for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Append { ticket, unit } => {
                let last = unit.rows.last().map_or(0, |r| r.seq);
                let record = unit.record.as_ref().map_or(0, |r| r.record.revision);
                write!(
                    f,
                    "append {} rows {} to {last} fence {}",
                    ticket.0,
                    unit.rows.len(),
                    unit.fence
                )?;
                write!(f, " record {record} ledger {}", u8::from(unit.ledger.is_some()))
            }
            Self::Answer { call, answer } => write!(f, "answer {} {}", call.0, answer.is_ok()),
            Self::Commit(batch) => write!(
                f,
                "commit {} items {} texts {} sends {}",
                batch.cursor.seq,
                batch.items.len(),
                batch.texts.len(),
                batch.submissions.len()
            ),
            Self::CloseStdin { .. } => f.write_str("close stdin"),
            Self::CutStdin { .. } => f.write_str("cut stdin"),
            Self::Forget { .. } => f.write_str("forget"),
            Self::Mint => f.write_str("mint"),
            Self::Order { order, .. } => write!(f, "order {order:?}"),
            Self::Publish(s) => write!(
                f,
                "publish {:?} {:?} {:?} stopping {}",
                s.status, s.host_execution_phase, s.turn_outcome, s.stopping
            ),
            Self::Read { on, .. } => write!(f, "read {on}"),
            Self::ReadTail { bytes_max, .. } => write!(f, "read tail {bytes_max}"),
            Self::Spawn { .. } => f.write_str("spawn"),
            Self::Write { frame, .. } => write!(f, "write {} bytes", frame.0.len()),
        }
    }
}

impl Answer {
    /// Whether the call was carried out.
    pub fn is_ok(&self) -> bool {
        match self {
            Self::Created(r) => r.is_ok(),
            Self::Sent(r) => r.is_ok(),
            Self::Stopped(r) => r.is_ok(),
            Self::Answered(r) => r.is_ok(),
            Self::Closed(r) => r.is_ok(),
        }
    }
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
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Answer {
    /// To a create: the session is durable.
    Created(Result<(), RefusedOperation>),
    /// To a send.
    Sent(Result<Accepted, RefusedOperation>),
    /// To a Stop, and to an eviction.
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
