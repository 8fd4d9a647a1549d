//! Session updates, typed where the host uses them and raw where it does not.
//!
//! Reading is tolerant: a member of the wrong type is absent, an unknown word is kept as its text,
//! an unknown kind is kept whole. Order is never changed and nothing is dropped without a finding.
use std::borrow::Cow;
use std::fmt;

use super::event::{ChunkRole, Hidden, Json, Word};
use super::findings::{Defect, Findings, Quirk};
use super::json::{View, take_last};
use super::tool::{ToolCall, ToolMembers};

/// A session update that is no text chunk.
#[derive(Clone, PartialEq, Eq, Hash)]
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
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Command {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// What to type behind it.
    pub hint: Option<String>,
}

/// One entry of a plan.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PlanEntry {
    /// What is to be done.
    pub content: String,
    /// The agent's own word for how urgent it is.
    pub priority: Option<String>,
    /// The agent's own word for how far it is.
    pub status: Option<String>,
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
    let members = Members::of(update, findings);
    let kind = members.kind.and_then(View::text).unwrap_or_default();
    if let Some(role) = ChunkRole::of_kind(&kind) {
        return chunk(role, &members, session_known, findings);
    }
    Body::Typed(match kind.as_ref() {
        "available_commands_update" => {
            Update::AvailableCommands(commands(members.commands, findings))
        }
        "config_option_update" => Update::ConfigOptions(own(members.config_options)),
        "current_mode_update" => {
            Update::CurrentMode { mode_id: optional_text(members.mode_id, findings) }
        }
        "plan" => Update::Plan(plan(members.entries, findings)),
        "session_info_update" => Update::SessionInfo {
            title: optional_text(members.tool.title, findings),
            updated_at: optional_text(members.updated_at, findings),
        },
        "tool_call" => Update::ToolCall(identified_tool(&members.tool, findings)),
        "tool_call_update" => Update::ToolCallUpdate(identified_tool(&members.tool, findings)),
        "usage_update" => Update::UsageUpdate {
            used: members.used.and_then(|used| used.count(findings)),
            size: members.size.and_then(|size| size.count(findings)),
        },
        _ => Update::Unknown { kind: kind.into_owned(), raw: own(Some(update)) },
    })
}

fn identified_tool(members: &ToolMembers<'_>, findings: &mut Findings) -> Box<ToolCall> {
    let tool = ToolCall::read(members, findings);
    if tool.id.is_none() {
        findings.defect(Defect::ToolWithoutId);
    }
    Box::new(tool)
}

/// The members of every kind of update, found in one walk.
#[derive(Default)]
struct Members<'a> {
    kind: Option<View<'a>>,
    message_id: Option<View<'a>>,
    commands: Option<View<'a>>,
    config_options: Option<View<'a>>,
    mode_id: Option<View<'a>>,
    entries: Option<View<'a>>,
    updated_at: Option<View<'a>>,
    used: Option<View<'a>>,
    size: Option<View<'a>>,
    tool: ToolMembers<'a>,
}

impl<'a> Members<'a> {
    fn of(update: View<'a>, findings: &mut Findings) -> Self {
        let mut members = Self::default();
        for (name, value) in update.members() {
            let slot = match name.as_ref() {
                "sessionUpdate" => &mut members.kind,
                "messageId" => &mut members.message_id,
                "availableCommands" => &mut members.commands,
                "configOptions" => &mut members.config_options,
                "currentModeId" => &mut members.mode_id,
                "entries" => &mut members.entries,
                "updatedAt" => &mut members.updated_at,
                "used" => &mut members.used,
                "size" => &mut members.size,
                other => match members.tool.slot(other) {
                    Some(slot) => slot,
                    None => continue,
                },
            };
            take_last(slot, value, findings);
        }
        members
    }
}

fn chunk<'a>(
    role: ChunkRole,
    members: &Members<'a>,
    session_known: bool,
    findings: &mut Findings,
) -> Body<'a> {
    let Some(content) = members.tool.content.filter(|content| !content.is_null()) else {
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

fn commands(list: Option<View<'_>>, findings: &mut Findings) -> Vec<Command> {
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

fn plan(list: Option<View<'_>>, findings: &mut Findings) -> Vec<PlanEntry> {
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
