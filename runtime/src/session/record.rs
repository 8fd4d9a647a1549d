//! The durable record of a session: what a launch reads back, the lease, and the chain of handles (rules 1.2.5, 6.13, 7.1).

use serde::{Deserialize, Serialize};

use crate::agent::AgentDefinition;
use crate::ids::{AgentSessionId, EpochId, Fence, SessionId, SpawnToken};
use crate::limits::HANDLE_LINKS_MAX;
use crate::platform::ChildIdentity;

/// What is known of a session beside its journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Which.
    pub session: SessionId,
    /// One higher at each change.
    pub revision: u64,
    /// The live epoch of its journal.
    pub epoch: EpochId,
    /// When it was created, wall time.
    pub created_ms: u64,
    /// The agent, pinned at creation.
    pub agent: AgentDefinition,
    /// Absolute working directory, the exact string of creation (decision D16).
    pub workspace: String,
    /// Who may write.
    pub lease: Lease,
    /// The agent's own sessions, newest last (rule 7.1.1).
    #[serde(default)]
    pub handles: Vec<HandleLink>,
    /// A person closed it; it is listed no more and takes nothing more.
    #[serde(default)]
    pub closed: bool,
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Who may write to a session (rule 6.13.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The runtime fence: monotonic, never reset.
    pub fence: Fence,
    /// Where the claim stands.
    #[serde(default)]
    pub claim: Claim,
    /// Reserved before the spawn (rule 6.13.5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<SpawnToken>,
    /// The owning process, once it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ChildIdentity>,
    /// A single-use proof that the reservation never had a process (rule 6.13.5).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub processless: bool,
    /// The settlement of the last child could not be written and is owed (rule 6.12.2).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settlement_owed: bool,
}

/// Where a claim stands (rule 6.13.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Claim {
    /// Nobody owns the session.
    #[default]
    Released,
    /// A spawn may be under way.
    Reserved,
    /// A child owns it.
    Live,
    /// Two owners were seen.
    Conflicted,
}

/// One link of the chain to the agent's own session (rule 7.1.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandleLink {
    /// The agent's name for its session.
    pub agent_session: AgentSessionId,
    /// How it came about.
    pub origin: HandleOrigin,
    /// The fence that minted it.
    pub fence: Fence,
    /// Wall time.
    pub observed_ms: u64,
    /// The session it stands in for, when that one could not be reopened (rule 7.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<AgentSessionId>,
}

/// How a handle came about (rule 7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HandleOrigin {
    /// By `session/new`.
    Created,
    /// By `session/resume` or `session/load`.
    Resumed,
}

impl SessionRecord {
    /// The link to reopen.
    pub fn head(&self) -> Option<&HandleLink> {
        self.handles.last()
    }

    /// Adds a link; the same handle at the same fence is a retry and adds none (rule 7.1.2). `false` when the chain is
    /// full: it is refused, never truncated.
    #[must_use]
    pub fn link(&mut self, link: HandleLink) -> bool {
        if self
            .head()
            .is_some_and(|h| h.agent_session == link.agent_session && h.fence == link.fence)
        {
            return true;
        }
        if self.handles.len() >= HANDLE_LINKS_MAX {
            return false;
        }
        debug_assert!(
            self.head().is_none_or(|h| h.fence <= link.fence),
            "fences along the chain never decrease"
        );
        self.handles.push(link);
        true
    }
}
