//! Items: what a timeline is made of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::failure::FailureFact;
use crate::ids::{ItemKey, MessageId, TurnKey};
use crate::limits::PAYLOAD_HEAD_BYTES_MAX;

/// The body of one item at one revision.
#[derive(Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ItemBody {
    /// One unit of the agent's work (rule 6.2.4).
    Turn(TurnBody),
    /// A message of the person's. Its state is the submission's.
    User(UserBody),
    /// Streamed text: the row that creates it carries the first of it, `text` rows the rest (decision D31).
    Message(MessageBody),
    /// A tool call (rule 6.2.6).
    Tool(ToolBody),
    /// The agent's plan, as it was sent.
    Plan(RawBody),
    /// A permission request (rule 6.2.5).
    Approval(ApprovalBody),
    /// A line of the host's: an error, a note, a disclosure (rule 6.2.7).
    Status(StatusBody),
    /// An update of a kind this build does not know, as it was sent.
    Raw(RawBody),
}

/// A turn (rule 6.2.4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnBody {
    /// Its public key.
    pub turn: TurnKey,
    /// Where it stands.
    pub state: TurnState,
    /// Its verdict; absent means unknown, never success (rule 2.2.2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The user item that opened it; absent when the agent opened it (rule 2.1.6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_item: Option<ItemKey>,
    /// When it began.
    pub started_ms: u64,
    /// When the person's send was accepted; never re-anchored (rule 2.1.4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_ms: Option<u64>,
    /// When it ended; absent while running and when unverifiable (rule 2.4.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_ms: Option<u64>,
    /// The agent's own word for the end, as it was sent (decision D1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// A person's Stop naming or bound to it was in force when it ended (decision D1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub under_stop: bool,
    /// The message that opened it is not in the agent's own session file (decision D20).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delivery_unproven: bool,
    /// Tokens of the turn, where the agent told and they are no lie (decision D1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
}

/// Where a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnState {
    /// Working.
    Running,
    /// The agent ended it.
    Completed,
    /// It was cut.
    Interrupted,
    /// Contact was lost and nothing is proven.
    Unverifiable,
}

/// The verdict of a finished turn (rule 2.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The agent finished.
    Success,
    /// The agent failed.
    Failure,
    /// A person's Stop or close cut it, or the agent says so.
    Cancellation,
    /// A newer turn took its place.
    Superseded,
    /// Derived on read: interrupted without an outcome. Never stored.
    Interruption,
    /// Derived on read: unverifiable. Never stored.
    Unconfirmed,
}

/// Token counts of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenUsage {
    /// Read, without what was cached.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// All of it.
    pub total: u64,
}

/// A person's message.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserBody {
    /// Its id.
    pub message_id: MessageId,
    /// Its text.
    pub text: String,
}

/// Whose text it is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// The agent's answer.
    Agent,
    /// The agent's reasoning.
    Thought,
    /// A user message the agent journaled by itself.
    User,
}

/// Streamed text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageBody {
    /// Whose.
    pub role: Role,
    /// The text so far; at most `TEXT_ITEM_BYTES_MAX`.
    pub text: String,
    /// How long the whole text was and its digest, when it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// It came after its turn's end (decision D3).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

/// What is known of a payload that was cut (rule 6.5.5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cut {
    /// Length of the whole, in bytes.
    pub bytes: u64,
    /// SHA-256 of the whole, where all of it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// A payload kept up to [`PAYLOAD_HEAD_BYTES_MAX`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Payload {
    /// The whole, or its head.
    pub head: String,
    /// Present when it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

impl Payload {
    /// Keeps `text`, or its head with length and digest.
    pub fn bounded(text: &str) -> Self {
        if text.len() <= PAYLOAD_HEAD_BYTES_MAX {
            return Self { head: text.to_owned(), cut: None };
        }
        let mut end = PAYLOAD_HEAD_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let cut = Cut {
            bytes: text.len() as u64,
            sha256: Some(crate::digest::sha256_hex(text.as_bytes())),
        };
        Self { head: text[..end].to_owned(), cut: Some(cut) }
    }
}

/// A tool call.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolBody {
    /// The agent's id of the call.
    pub tool_call_id: String,
    /// What a person reads.
    pub title: String,
    /// The agent's word for its kind, as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_kind: Option<String>,
    /// Where it stands.
    pub status: ToolStatus,
    /// Refines `failed`: how its turn ended (rule 2.3.2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_as: Option<EndedAs>,
    /// What it was given, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// What it gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    /// It was revised after its turn's end (decision D3 a).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

/// Where a tool call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolStatus {
    /// Announced or at work.
    Running,
    /// Done.
    Completed,
    /// Failed, or cut with its turn.
    Failed,
}

/// How the turn around a failed call ended (rule 2.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndedAs {
    /// With a proven or announced cut.
    Interrupted,
    /// With nothing proven.
    Unverifiable,
}

/// A permission request.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalBody {
    /// What a person reads.
    pub title: String,
    /// The tool call it is about, where the agent told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// What may be chosen.
    pub options: Vec<ApprovalOption>,
    /// Where it stands.
    pub resolution: Resolution,
    /// The chosen option's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
    /// Who chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_ms: Option<u64>,
}

/// One option of a permission request.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalOption {
    /// The agent's id of it.
    pub id: String,
    /// What a person reads.
    pub label: String,
    /// The agent's word for its kind, as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

impl std::fmt::Debug for ApprovalOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApprovalOption")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Where a permission request stands (rule 6.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Resolution {
    /// Waiting for a person.
    Pending,
    /// Answered.
    Resolved,
    /// Withdrawn, or settled with its turn.
    Cancelled,
}

/// A line of the host's.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusBody {
    /// How it is drawn.
    pub tone: Tone,
    /// What a person reads.
    pub text: String,
    /// The typed fact behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fact: Option<FailureFact>,
}

/// How a status line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Tone {
    /// Plain.
    Info,
    /// Something to know.
    Warning,
    /// Something failed.
    Error,
}

/// Something kept as it was sent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RawBody {
    /// The agent's word for what it is.
    pub kind: String,
    /// JSON text, bounded.
    pub payload: Payload,
}

impl RawBody {
    /// Keeps raw JSON under the agent's own word for it.
    pub fn new(kind: &str, raw: &RawValue) -> Self {
        Self { kind: kind.to_owned(), payload: Payload::bounded(raw.get()) }
    }
}

// Bodies hold the words of persons and agents: nothing of them is printed by `Debug`.
impl std::fmt::Debug for ItemBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Turn(turn) => turn.fmt(f),
            Self::User(user) => write!(f, "User({}, {} bytes)", user.message_id, user.text.len()),
            Self::Message(m) => write!(f, "Message({:?}, {} bytes)", m.role, m.text.len()),
            Self::Tool(t) => {
                write!(f, "Tool({}, {:?}, {:?})", t.tool_call_id, t.status, t.ended_as)
            }
            Self::Plan(raw) => write!(f, "Plan({} bytes)", raw.payload.head.len()),
            Self::Approval(a) => write!(f, "Approval({:?})", a.resolution),
            Self::Status(s) => write!(f, "Status({:?}, {:?})", s.tone, s.fact),
            Self::Raw(raw) => write!(f, "Raw({} bytes)", raw.payload.head.len()),
        }
    }
}
