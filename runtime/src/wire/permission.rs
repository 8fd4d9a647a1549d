//! The typed view of `session/request_permission`.
use std::fmt;

use super::event::Hidden;
use super::findings::{Findings, Quirk};
use super::json::View;
use super::tool::{ToolCall, ToolMembers};
use super::update::{self, member, optional_text};

/// What the agent asks to be allowed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PermissionRequest {
    /// The session it belongs to; none if the agent did not say.
    pub session: Option<String>,
    /// The tool call it is about. It may come before the call's own update.
    pub tool: ToolCall,
    /// The answers it offers, in its order; empty if there were none.
    pub options: Vec<PermissionOption>,
}

/// One answer the agent offers.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PermissionOption {
    /// What to answer with.
    pub id: String,
    /// What a person reads; the id if there was no name.
    pub name: String,
    /// What it means.
    pub kind: PermissionKind,
}

/// What an answer means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PermissionKind {
    /// Allow, and do not ask again.
    AllowAlways,
    /// Allow this once.
    AllowOnce,
    /// Refuse, and do not ask again.
    RejectAlways,
    /// Refuse this once.
    RejectOnce,
    /// A word the protocol does not have, or none. Never chosen by the host by itself.
    Unknown(String),
}

pub(super) fn read(params: View<'_>, findings: &mut Findings) -> PermissionRequest {
    let session = member(params, "sessionId", findings)
        .and_then(|id| update::session_id(id, findings))
        .map(Into::into);
    let tool = member(params, "toolCall", findings)
        .map(|tool| ToolCall::read(&ToolMembers::of(tool, findings), findings))
        .unwrap_or_default();
    let mut options = Vec::new();
    let list = member(params, "options", findings);
    for entry in list.into_iter().flat_map(View::elements) {
        // An option that cannot be named in the answer cannot be offered.
        let Some(id) = optional_text(member(entry, "optionId", findings), findings) else {
            findings.quirk(Quirk::WrongTypedMember);
            continue;
        };
        let name = optional_text(member(entry, "name", findings), findings);
        let kind = optional_text(member(entry, "kind", findings), findings);
        options.push(PermissionOption {
            name: name.unwrap_or_else(|| id.clone()),
            kind: PermissionKind::of_word(kind.unwrap_or_default()),
            id,
        });
    }
    PermissionRequest { session, tool, options }
}

impl PermissionKind {
    fn of_word(word: String) -> Self {
        match word.as_str() {
            "allow_always" => Self::AllowAlways,
            "allow_once" => Self::AllowOnce,
            "reject_always" => Self::RejectAlways,
            "reject_once" => Self::RejectOnce,
            _ => Self::Unknown(word),
        }
    }

    /// The word for it.
    pub fn word(&self) -> String {
        match self {
            Self::AllowAlways => "allow_always",
            Self::AllowOnce => "allow_once",
            Self::RejectAlways => "reject_always",
            Self::RejectOnce => "reject_once",
            Self::Unknown(word) => word,
        }
        .to_owned()
    }
}

impl fmt::Debug for PermissionOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermissionOption")
            .field("id", &self.id)
            .field("name", &Hidden(self.name.len()))
            .field("kind", &self.kind)
            .finish()
    }
}
