//! The summary every list shows (rule 4.3). One producer makes it: the host that runs the agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{Fence, Generation, MessageId, SessionId};
use crate::journal::{Cursor, Outcome};

/// What is published of a session. An optional field is absent when it does not apply.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Which session.
    pub session_id: SessionId,
    /// Where it works: the workspace folder.
    pub workspace_id: String,
    /// What kind of agent.
    pub agent: String,
    /// `None` until there was a request (rule 4.2.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// A child exists on this host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_execution_owned: bool,
    /// Where that child stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_execution_phase: Option<ChildPhase>,
    /// Which child it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_execution_child: Option<ChildRef>,
    /// The newest prompt, bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_prompt: Option<String>,
    /// The tool the running turn is inside, else the last one it used; only while working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// One line of the agent's newest message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_assistant_message: Option<String>,
    /// The verdict of the latest request, only while idle (rule 4.2.4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_outcome: Option<Outcome>,
    /// A Stop of a person's is ending the running turn (rule 4.1); only while working.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopping: bool,
    /// Messages that this host holds back because a Stop is ending the turn (rule 5.4.1, decision D27), oldest first: at
    /// most `HELD_LISTED_MAX`, and only while `stopping`. They travel here because a Stop's settle closes without a row,
    /// so that no history tells of it (rule 4.4.3).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<MessageId>,
    /// Why nothing more is saved, while it is so (decision D8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageState>,
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_name: Option<String>,
    /// The journal's last activity, wall time.
    pub updated_at: u64,
    /// When the status began, dated by the session's own lifecycle edges and never by row activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_started_at: Option<u64>,
    /// As of where in the journal.
    pub cursor: Cursor,
}

/// What a session is doing (rule 4.2.1).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// A turn runs, or a message waits for its answer.
    Working,
    /// A person is asked something.
    Attention,
    /// Neither.
    Idle,
}

/// Where a child stands (rule 1.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChildPhase {
    /// It exists, and has not proven its handshake.
    Starting,
    /// It takes prompts.
    Ready,
}

/// Which child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChildRef {
    /// The start's own id.
    pub generation: Generation,
    /// Its fence.
    pub fence: Fence,
}

/// What the store does for this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum StorageState {
    /// It refuses, and is asked again (decision D8).
    NotSaved,
}

impl Summary {
    /// Nobody can say any more what only the host that runs the agent knows: the child, and what its Stop holds up
    /// (rules 4.4.7, 4.5.2). Whether there was anything.
    pub(crate) fn let_go(&mut self) -> bool {
        let knew = self.host_execution_owned || self.stopping || !self.held.is_empty();
        if knew {
            self.host_execution_owned = false;
            self.host_execution_phase = None;
            self.host_execution_child = None;
            self.stopping = false;
            self.held.clear();
        }
        knew
    }
}

impl std::fmt::Debug for Summary {
    // Previews are the words of persons and agents.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Summary")
            .field("session_id", &self.session_id)
            .field("status", &self.status)
            .field("phase", &self.host_execution_phase)
            .field("outcome", &self.turn_outcome)
            .field("stopping", &self.stopping)
            .field("held", &self.held)
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}

/// One frame of the status stream (rule 4.4.4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StatusFrame {
    /// Everything retained; sent once, first.
    Snapshot {
        /// By session id.
        summaries: Vec<Summary>,
    },
    /// One session changed.
    Status {
        /// Its summary now.
        summary: Box<Summary>,
    },
    /// Nothing more comes.
    End,
}
