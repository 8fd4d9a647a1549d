//! Tool calls: what an agent is doing, and what it asks to be allowed to do.
use std::fmt;

use super::event::{Hidden, Json};
use super::findings::Findings;
use super::json::{View, take_last};
use super::update::{optional_text, own};

/// A tool call, or a change of one.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ToolCall {
    /// Its id; none if the agent did not say.
    pub id: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// What kind of tool.
    pub kind: Option<ToolKind>,
    /// How far it is.
    pub status: Option<ToolStatus>,
    /// What the tool was given.
    pub raw_input: Option<Json<'static>>,
    /// What the tool gave back.
    pub raw_output: Option<Json<'static>>,
    /// What it shows.
    pub content: Option<Json<'static>>,
    /// The files it touches.
    pub locations: Option<Json<'static>>,
}

/// The protocol's kinds of tool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the protocol's own words")]
pub enum ToolKind {
    Delete,
    Edit,
    Execute,
    Fetch,
    Move,
    Other,
    Read,
    Search,
    SwitchMode,
    Think,
    /// A word the protocol does not have.
    Unknown(String),
}

/// How far a tool call is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the protocol's own words")]
pub enum ToolStatus {
    Completed,
    Failed,
    InProgress,
    Pending,
    /// A word the protocol does not have.
    Unknown(String),
}

/// The members of a tool call, found but not read yet.
#[derive(Default)]
pub(super) struct ToolMembers<'a> {
    id: Option<View<'a>>,
    pub(super) title: Option<View<'a>>,
    kind: Option<View<'a>>,
    status: Option<View<'a>>,
    raw_input: Option<View<'a>>,
    raw_output: Option<View<'a>>,
    pub(super) content: Option<View<'a>>,
    locations: Option<View<'a>>,
}

impl<'a> ToolMembers<'a> {
    pub(super) fn of(tool: View<'a>, findings: &mut Findings) -> Self {
        let mut members = Self::default();
        for (name, value) in tool.members() {
            if let Some(slot) = members.slot(&name) {
                take_last(slot, value, findings);
            }
        }
        members
    }

    pub(super) fn slot(&mut self, name: &str) -> Option<&mut Option<View<'a>>> {
        Some(match name {
            "toolCallId" => &mut self.id,
            "title" => &mut self.title,
            "kind" => &mut self.kind,
            "status" => &mut self.status,
            "rawInput" => &mut self.raw_input,
            "rawOutput" => &mut self.raw_output,
            "content" => &mut self.content,
            "locations" => &mut self.locations,
            _ => return None,
        })
    }
}

impl ToolCall {
    pub(super) fn read(members: &ToolMembers<'_>, findings: &mut Findings) -> Self {
        let kept = |value: Option<View<'_>>| {
            value.filter(|value| !value.is_null()).map(|value| own(Some(value)))
        };
        Self {
            id: optional_text(members.id, findings),
            title: optional_text(members.title, findings),
            kind: optional_text(members.kind, findings).map(ToolKind::of_word),
            status: optional_text(members.status, findings).map(ToolStatus::of_word),
            raw_input: kept(members.raw_input),
            raw_output: kept(members.raw_output),
            content: kept(members.content),
            locations: kept(members.locations),
        }
    }
}

impl ToolKind {
    fn of_word(word: String) -> Self {
        match word.as_str() {
            "delete" => Self::Delete,
            "edit" => Self::Edit,
            "execute" => Self::Execute,
            "fetch" => Self::Fetch,
            "move" => Self::Move,
            "other" => Self::Other,
            "read" => Self::Read,
            "search" => Self::Search,
            "switch_mode" => Self::SwitchMode,
            "think" => Self::Think,
            _ => Self::Unknown(word),
        }
    }

    /// The word for it.
    pub fn word(&self) -> String {
        match self {
            Self::Delete => "delete",
            Self::Edit => "edit",
            Self::Execute => "execute",
            Self::Fetch => "fetch",
            Self::Move => "move",
            Self::Other => "other",
            Self::Read => "read",
            Self::Search => "search",
            Self::SwitchMode => "switch_mode",
            Self::Think => "think",
            Self::Unknown(word) => word,
        }
        .to_owned()
    }
}

impl ToolStatus {
    fn of_word(word: String) -> Self {
        match word.as_str() {
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "in_progress" => Self::InProgress,
            "pending" => Self::Pending,
            _ => Self::Unknown(word),
        }
    }
}

impl fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCall")
            .field("id", &self.id)
            .field("title", &self.title.as_ref().map(|title| Hidden(title.len())))
            .field("kind", &self.kind)
            .field("status", &self.status)
            .field("raw_input", &self.raw_input)
            .field("raw_output", &self.raw_output)
            .field("content", &self.content)
            .field("locations", &self.locations)
            .finish()
    }
}
