//! Session updates, typed where the host uses them and raw where it does not.
//!
//! Reading is tolerant: a member of the wrong type is absent, an unknown word is kept as its text,
//! an unknown kind is kept whole. Order is never changed and nothing is dropped without a finding.
use std::borrow::Cow;
use std::fmt;

use super::event::{ChunkRole, Hidden, Json, Word};
use super::findings::{Defect, Findings, Quirk};
use super::json::{View, take_last};

/// A session update that is no text chunk.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Update {
    /// The commands the agent offers.
    AvailableCommands(Vec<Command>),
    /// The session's options, as the agent sent them.
    ConfigOptions(Json<'static>),
    /// A message chunk that is no text, or that names no session.
    Content {
        /// Whose message it belongs to.
        role: ChunkRole,
        /// The message it belongs to, where the agent says so.
        message_id: Option<String>,
        /// The content block.
        raw: Json<'static>,
    },
    /// The session's mode.
    CurrentMode {
        /// The mode's id; none if the agent did not say.
        mode_id: Option<String>,
    },
    /// The whole plan.
    Plan(Vec<PlanEntry>),
    /// What the agent says about the session itself.
    SessionInfo {
        /// Its title; null reads as none.
        title: Option<String>,
        /// When it last changed, in the agent's own words.
        updated_at: Option<String>,
    },
    /// A new tool call.
    ToolCall(Box<ToolCall>),
    /// A change of a tool call; what is absent did not change.
    ToolCallUpdate(Box<ToolCall>),
    /// A kind this host does not know.
    Unknown {
        /// The kind, empty if there was none.
        kind: String,
        /// The whole update.
        raw: Json<'static>,
    },
    /// How full the agent's context is. Counts it gave in no usable form are none.
    UsageUpdate {
        /// Tokens in use.
        used: Option<u64>,
        /// The window's size.
        size: Option<u64>,
    },
}

/// A command the agent offers.
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// What to type behind it.
    pub hint: Option<String>,
}

/// One entry of a plan.
#[derive(Clone, PartialEq, Eq)]
pub struct PlanEntry {
    /// What is to be done.
    pub content: String,
    /// The agent's own word for how urgent it is.
    pub priority: Option<String>,
    /// The agent's own word for how far it is.
    pub status: Option<String>,
}

/// A tool call, or a change of one.
#[derive(Clone, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// The parameters of `session/update`, before they become an event.
pub(super) struct SessionUpdate<'a> {
    pub(super) session: Option<Cow<'a, str>>,
    pub(super) body: Body<'a>,
}

pub(super) enum Body<'a> {
    /// Nothing that could be shown or stored.
    Absent,
    Text {
        role: ChunkRole,
        text: Cow<'a, str>,
        message_id: Option<Cow<'a, str>>,
    },
    Typed(Update),
}

pub(super) fn read<'a>(params: Option<View<'a>>, findings: &mut Findings) -> SessionUpdate<'a> {
    let mut session = None;
    let mut update = None;
    for (name, value) in params.into_iter().flat_map(View::members) {
        match name.as_ref() {
            "sessionId" => take_last(&mut session, value, findings),
            "update" => take_last(&mut update, value, findings),
            _ => {}
        }
    }
    let session = session.and_then(|value| session_id(value, findings));
    if session.is_none() {
        findings.defect(Defect::MissingSessionId);
    }
    let body = match update {
        Some(update) if update.is_object() => body(update, session.is_some(), findings),
        _ => Body::Absent,
    };
    if let Body::Absent = body {
        findings.defect(Defect::UpdateWithoutContent);
    }
    SessionUpdate { session, body }
}

/// A session id: a text, or a number taken by its digits.
pub(super) fn session_id<'a>(value: View<'a>, findings: &mut Findings) -> Option<Cow<'a, str>> {
    if value.is_number() {
        findings.quirk(Quirk::NumericSessionId);
        return Some(Cow::Borrowed(value.token()));
    }
    value.text()
}

/// An optional text: null is absent, anything else that is no text is absent too and counted.
pub(super) fn optional_text(value: Option<View<'_>>, findings: &mut Findings) -> Option<String> {
    let value = value.filter(|value| !value.is_null())?;
    let text = value.text();
    if text.is_none() {
        findings.quirk(Quirk::WrongTypedMember);
    }
    text.map(Cow::into_owned)
}

fn body<'a>(update: View<'a>, session_known: bool, findings: &mut Findings) -> Body<'a> {
    let mut members = Members::default();
    for (name, value) in update.members() {
        let slot = match name.as_ref() {
            "sessionUpdate" => &mut members.kind,
            "content" => &mut members.content,
            "messageId" => &mut members.message_id,
            _ => continue,
        };
        take_last(slot, value, findings);
    }
    let kind = members.kind.and_then(View::text).unwrap_or_default();
    if let Some(role) = ChunkRole::of_kind(&kind) {
        return chunk(role, &members, session_known, findings);
    }
    Body::Typed(match kind.as_ref() {
        "available_commands_update" => Update::AvailableCommands(commands(update, findings)),
        "config_option_update" => {
            Update::ConfigOptions(own(member(update, "configOptions", findings)))
        }
        "current_mode_update" => Update::CurrentMode {
            mode_id: optional_text(member(update, "currentModeId", findings), findings),
        },
        "plan" => Update::Plan(plan(update, findings)),
        "session_info_update" => Update::SessionInfo {
            title: optional_text(member(update, "title", findings), findings),
            updated_at: optional_text(member(update, "updatedAt", findings), findings),
        },
        "tool_call" => Update::ToolCall(Box::new(identified_tool(update, findings))),
        "tool_call_update" => Update::ToolCallUpdate(Box::new(identified_tool(update, findings))),
        "usage_update" => Update::UsageUpdate {
            used: member(update, "used", findings).and_then(|used| used.count(findings)),
            size: member(update, "size", findings).and_then(|size| size.count(findings)),
        },
        _ => Update::Unknown { kind: kind.into_owned(), raw: own(Some(update)) },
    })
}

#[derive(Default)]
struct Members<'a> {
    kind: Option<View<'a>>,
    content: Option<View<'a>>,
    message_id: Option<View<'a>>,
}

fn chunk<'a>(
    role: ChunkRole,
    members: &Members<'a>,
    session_known: bool,
    findings: &mut Findings,
) -> Body<'a> {
    let Some(content) = members.content.filter(|content| !content.is_null()) else {
        return Body::Absent;
    };
    let message_id = members.message_id.filter(|id| !id.is_null());
    let mut kind = None;
    let mut text = None;
    for (name, value) in content.members() {
        match name.as_ref() {
            "type" => take_last(&mut kind, value, findings),
            "text" => take_last(&mut text, value, findings),
            _ => {}
        }
    }
    let is_text = kind.and_then(View::text).is_some_and(|kind| kind == "text");
    match text.and_then(View::text) {
        Some(text) if is_text && session_known => {
            let id = message_id.and_then(View::text);
            if id.is_none() && message_id.is_some() {
                findings.quirk(Quirk::WrongTypedMember);
            }
            Body::Text { role, text, message_id: id }
        }
        _ => Body::Typed(Update::Content {
            role,
            message_id: optional_text(message_id, findings),
            raw: own(Some(content)),
        }),
    }
}

/// A tool call's members; also what a permission request is about.
pub(super) fn tool(update: View<'_>, findings: &mut Findings) -> ToolCall {
    let mut slots = [None; 8];
    for (name, value) in update.members() {
        let slot = match name.as_ref() {
            "toolCallId" => 0,
            "title" => 1,
            "kind" => 2,
            "status" => 3,
            "rawInput" => 4,
            "rawOutput" => 5,
            "content" => 6,
            "locations" => 7,
            _ => continue,
        };
        take_last(&mut slots[slot], value, findings);
    }
    let present = slots.map(|slot| slot.filter(|value: &View<'_>| !value.is_null()));
    let [id, title, kind, status, raw_input, raw_output, content, locations] = present;
    let kept = |value: Option<View<'_>>| value.map(|value| own(Some(value)));
    ToolCall {
        id: optional_text(id, findings),
        title: optional_text(title, findings),
        kind: optional_text(kind, findings).map(ToolKind::of_word),
        status: optional_text(status, findings).map(ToolStatus::of_word),
        raw_input: kept(raw_input),
        raw_output: kept(raw_output),
        content: kept(content),
        locations: kept(locations),
    }
}

fn identified_tool(update: View<'_>, findings: &mut Findings) -> ToolCall {
    let tool = tool(update, findings);
    if tool.id.is_none() {
        findings.defect(Defect::ToolWithoutId);
    }
    tool
}

fn commands(update: View<'_>, findings: &mut Findings) -> Vec<Command> {
    let list = member(update, "availableCommands", findings);
    let mut commands = Vec::new();
    for entry in list.into_iter().flat_map(View::elements) {
        match optional_text(member(entry, "name", findings), findings) {
            Some(name) => commands.push(Command {
                name,
                description: optional_text(member(entry, "description", findings), findings),
                hint: member(entry, "input", findings)
                    .and_then(|input| optional_text(member(input, "hint", findings), findings)),
            }),
            None => findings.quirk(Quirk::WrongTypedMember),
        }
    }
    commands
}

fn plan(update: View<'_>, findings: &mut Findings) -> Vec<PlanEntry> {
    let list = member(update, "entries", findings);
    let mut entries = Vec::new();
    for entry in list.into_iter().flat_map(View::elements) {
        match optional_text(member(entry, "content", findings), findings) {
            Some(content) => entries.push(PlanEntry {
                content,
                priority: optional_text(member(entry, "priority", findings), findings),
                status: optional_text(member(entry, "status", findings), findings),
            }),
            None => findings.quirk(Quirk::WrongTypedMember),
        }
    }
    entries
}

/// One member of an object; of duplicates the last.
pub(super) fn member<'a>(
    object: View<'a>,
    wanted: &str,
    findings: &mut Findings,
) -> Option<View<'a>> {
    let mut found = None;
    for (name, value) in object.members() {
        if name == wanted {
            take_last(&mut found, value, findings);
        }
    }
    found
}

/// A value's text, owned; an absent one is null.
pub(super) fn own(value: Option<View<'_>>) -> Json<'static> {
    Json::borrowed(value.map_or("null", View::token)).into_owned()
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

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AvailableCommands(commands) => {
                write!(f, "AvailableCommands({})", commands.len())
            }
            Self::ConfigOptions(raw) => f.debug_tuple("ConfigOptions").field(raw).finish(),
            Self::Content { role, message_id, raw } => f
                .debug_struct("Content")
                .field("role", role)
                .field("message_id", message_id)
                .field("raw", raw)
                .finish(),
            Self::CurrentMode { mode_id } => {
                f.debug_struct("CurrentMode").field("mode_id", mode_id).finish()
            }
            Self::Plan(entries) => write!(f, "Plan({})", entries.len()),
            Self::SessionInfo { title, updated_at } => f
                .debug_struct("SessionInfo")
                .field("title", &title.as_ref().map(|title| Hidden(title.len())))
                .field("updated_at", updated_at)
                .finish(),
            Self::ToolCall(tool) => f.debug_tuple("ToolCall").field(tool).finish(),
            Self::ToolCallUpdate(tool) => f.debug_tuple("ToolCallUpdate").field(tool).finish(),
            Self::Unknown { kind, raw } => {
                f.debug_struct("Unknown").field("kind", &Word(kind)).field("raw", raw).finish()
            }
            Self::UsageUpdate { used, size } => {
                f.debug_struct("UsageUpdate").field("used", used).field("size", size).finish()
            }
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command").field("name", &Hidden(self.name.len())).finish_non_exhaustive()
    }
}

impl fmt::Debug for PlanEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanEntry")
            .field("content", &Hidden(self.content.len()))
            .finish_non_exhaustive()
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
