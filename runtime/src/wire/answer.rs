//! Typed views of the answers to our requests, decoded on demand from the raw result.
//!
//! Decoding never fails: an answer of the wrong shape is an answer that says nothing, plus a
//! defect. What to do about it is the caller's decision.
use std::fmt;

use super::event::{Hidden, Json};
use super::findings::{Defect, Findings, Quirk};
use super::json::View;
use super::update::{member, optional_text, own, session_id};

/// The protocol version this host speaks.
pub const PROTOCOL_VERSION: u64 = 1;
/// How much of an agent's words is quoted to a person, in characters (rule 2.2.7).
pub const QUOTED_CHARS_MAX: usize = 512;

/// The answer to `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialize {
    /// The negotiated version; checked before any session call.
    pub protocol_version: VersionAnswer,
    /// What the agent calls itself.
    pub agent_name: Option<String>,
    /// Its version.
    pub agent_version: Option<String>,
    /// How one can sign in, in its order.
    pub auth_methods: Vec<AuthMethod>,
    /// What it can do.
    pub capabilities: Capabilities,
}

/// The version an agent answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionAnswer {
    /// Ours.
    Accepted,
    /// None, or null.
    Missing,
    /// Another one: a named refusal.
    Other(u64),
    /// No version at all by its type: a named refusal.
    Unreadable,
}

/// One way to sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthMethod {
    /// What to pass to `authenticate`.
    pub id: String,
    /// What a person reads.
    pub name: Option<String>,
    /// It needs a terminal, so this host cannot use it (rule 1.3.3).
    pub terminal: bool,
}

/// What an agent advertises (rule 7.2.3). A capability of the wrong type reads as not offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Capabilities {
    /// `session/load`: exactly `loadSession: true`.
    pub load_session: bool,
    /// `session/resume`.
    pub resume: bool,
    /// `session/close`: the persist barrier of decision D13.
    pub close: bool,
    /// `session/list`.
    pub list: bool,
    /// `session/fork`.
    pub fork: bool,
    /// Images in prompts.
    pub prompt_image: bool,
    /// Audio in prompts.
    pub prompt_audio: bool,
    /// Embedded resources in prompts.
    pub prompt_embedded_context: bool,
}

/// The answer to `session/new`, `session/load` or `session/resume`. For the last two null is
/// success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOpened {
    /// The session's id; only `session/new` must name it.
    pub session_id: Option<String>,
    /// The session's options, as the agent sent them.
    pub config_options: Option<Json<'static>>,
    /// Its modes, as the agent sent them.
    pub modes: Option<Json<'static>>,
}

/// The answer to `session/prompt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptAnswer {
    /// Why the turn ended.
    pub stop_reason: StopReason,
    /// What it cost.
    pub usage: Option<Usage>,
}

/// Why a turn ended (rule 2.2.1). Only the exact words are known; any other keeps its text, and its
/// outcome is absent.
#[derive(Clone, PartialEq, Eq)]
pub enum StopReason {
    /// `cancelled`.
    Cancelled,
    /// `end_turn`.
    EndTurn,
    /// `error`, a dialect.
    Error,
    /// `max_tokens`.
    MaxTokens,
    /// `max_turn_requests`.
    MaxTurnRequests,
    /// None, null, or no text.
    Missing,
    /// Any other word.
    Other(String),
    /// `rate_limit`, a dialect.
    RateLimit,
    /// `refusal`.
    Refusal,
}

/// Token counts of a turn; each is none where the agent gave no usable number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read, without cached ones.
    pub input: Option<u64>,
    /// Tokens written.
    pub output: Option<u64>,
    /// Both.
    pub total: Option<u64>,
    /// Tokens read from a cache.
    pub cached_read: Option<u64>,
    /// Tokens written to a cache.
    pub cached_write: Option<u64>,
    /// Tokens of thought.
    pub thought: Option<u64>,
}

impl Initialize {
    /// Decodes a result.
    pub fn decode(result: &str, findings: &mut Findings) -> Self {
        let answer = object(result, "initialize", findings);
        // Version 2 agents name themselves in `info`; their name is worth having in the refusal.
        let agent = field(answer, "agentInfo", findings).or(field(answer, "info", findings));
        Self {
            protocol_version: version(field(answer, "protocolVersion", findings), findings),
            agent_name: optional_text(field(agent, "name", findings), findings),
            agent_version: optional_text(field(agent, "version", findings), findings),
            auth_methods: auth_methods(field(answer, "authMethods", findings), findings),
            capabilities: capabilities(field(answer, "agentCapabilities", findings), findings),
        }
    }
}

impl SessionOpened {
    /// Decodes a result; `method` is the request it answers, for the defect's words.
    pub fn decode(result: &str, method: &'static str, findings: &mut Findings) -> Self {
        if result == "null" {
            return Self::default();
        }
        let answer = object(result, method, findings);
        let id = field(answer, "sessionId", findings).filter(|id| !id.is_null());
        let session_id = id.and_then(|id| session_id(id, findings)).map(Into::into);
        if session_id.is_none() && id.is_some() {
            findings.quirk(Quirk::WrongTypedMember);
        }
        let mut kept = |name| {
            field(answer, name, findings)
                .filter(|value| !value.is_null())
                .map(|value| own(Some(value)))
        };
        Self { session_id, config_options: kept("configOptions"), modes: kept("modes") }
    }
}

impl PromptAnswer {
    /// Decodes a result.
    pub fn decode(result: &str, findings: &mut Findings) -> Self {
        let answer = object(result, "session/prompt", findings);
        let reason = optional_text(field(answer, "stopReason", findings), findings);
        let usage = field(answer, "usage", findings).filter(|usage| usage.is_object());
        Self {
            stop_reason: reason.map_or(StopReason::Missing, StopReason::of_word),
            usage: usage.map(|usage| Usage::read(usage, findings)),
        }
    }
}

impl StopReason {
    /// The agent's word, where it gave one.
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Cancelled => Some("cancelled"),
            Self::EndTurn => Some("end_turn"),
            Self::Error => Some("error"),
            Self::MaxTokens => Some("max_tokens"),
            Self::MaxTurnRequests => Some("max_turn_requests"),
            Self::Missing => None,
            Self::Other(word) => Some(word),
            Self::RateLimit => Some("rate_limit"),
            Self::Refusal => Some("refusal"),
        }
    }

    fn of_word(word: String) -> Self {
        match word.as_str() {
            "cancelled" => Self::Cancelled,
            "end_turn" => Self::EndTurn,
            "error" => Self::Error,
            "max_tokens" => Self::MaxTokens,
            "max_turn_requests" => Self::MaxTurnRequests,
            "rate_limit" => Self::RateLimit,
            "refusal" => Self::Refusal,
            _ => Self::Other(word),
        }
    }
}

impl Usage {
    /// True when every count that was given is zero. Of a stopped turn that means unknown (decision
    /// D1).
    pub fn is_all_zero(&self) -> bool {
        let counts = [
            self.input,
            self.output,
            self.total,
            self.cached_read,
            self.cached_write,
            self.thought,
        ];
        counts.iter().flatten().all(|count| *count == 0)
    }

    fn read(usage: View<'_>, findings: &mut Findings) -> Self {
        let mut count = |name| {
            let value = member(usage, name, findings).filter(|value| !value.is_null())?;
            value.count(findings)
        };
        Self {
            input: count("inputTokens"),
            output: count("outputTokens"),
            total: count("totalTokens"),
            cached_read: count("cachedReadTokens"),
            cached_write: count("cachedWriteTokens"),
            thought: count("thoughtTokens"),
        }
    }
}

/// An error in words for a person (rule 2.2.7): its data if that is a text, else the text `details`
/// in it, else its message; cut to [`QUOTED_CHARS_MAX`]. Other data is never shown.
pub fn words(message: &str, data: Option<&str>) -> String {
    let data = data.and_then(|data| View::parse(data).ok());
    let mut unused = Findings::default();
    let said = data
        .and_then(|data| {
            data.text().or_else(|| member(data, "details", &mut unused).and_then(View::text))
        })
        .filter(|said| !said.is_empty());
    quoted(said.as_deref().unwrap_or(message)).to_owned()
}

/// The start of an agent's words that is quoted to a person.
pub fn quoted(words: &str) -> &str {
    let end = words.char_indices().nth(QUOTED_CHARS_MAX).map_or(words.len(), |(at, _)| at);
    words.get(..end).unwrap_or(words)
}

fn object<'a>(result: &'a str, method: &'static str, findings: &mut Findings) -> Option<View<'a>> {
    let object = View::parse(result).ok().filter(|result| result.is_object());
    if object.is_none() {
        findings.defect(Defect::WrongTypedAnswer { method });
    }
    object
}

fn field<'a>(object: Option<View<'a>>, name: &str, findings: &mut Findings) -> Option<View<'a>> {
    member(object?, name, findings)
}

fn version(answer: Option<View<'_>>, findings: &mut Findings) -> VersionAnswer {
    let Some(answer) = answer.filter(|answer| !answer.is_null()) else {
        return VersionAnswer::Missing;
    };
    let number = match answer.text() {
        Some(text) => {
            findings.defect(Defect::VersionAsText);
            text.parse::<u64>().ok()
        }
        None => answer.token().parse::<u64>().ok(),
    };
    match number {
        Some(PROTOCOL_VERSION) => VersionAnswer::Accepted,
        Some(other) => VersionAnswer::Other(other),
        None => VersionAnswer::Unreadable,
    }
}

fn auth_methods(list: Option<View<'_>>, findings: &mut Findings) -> Vec<AuthMethod> {
    let mut methods = Vec::new();
    for entry in list.into_iter().flat_map(View::elements) {
        let Some(id) = optional_text(member(entry, "id", findings), findings) else {
            findings.quirk(Quirk::WrongTypedMember);
            continue;
        };
        let name = optional_text(member(entry, "name", findings), findings);
        let kind = optional_text(member(entry, "type", findings), findings);
        methods.push(AuthMethod { id, name, terminal: kind.as_deref() == Some("terminal") });
    }
    methods
}

fn capabilities(advertised: Option<View<'_>>, findings: &mut Findings) -> Capabilities {
    let Some(agent) = group(advertised, "agentCapabilities", findings) else {
        return Capabilities::default();
    };
    let session = field(Some(agent), "sessionCapabilities", findings);
    let session = group(session, "sessionCapabilities", findings);
    let prompt = field(Some(agent), "promptCapabilities", findings);
    let prompt = group(prompt, "promptCapabilities", findings);
    Capabilities {
        load_session: flag(Some(agent), "loadSession", findings),
        resume: entry(session, "resume", findings),
        close: entry(session, "close", findings),
        list: entry(session, "list", findings),
        fork: entry(session, "fork", findings),
        prompt_image: flag(prompt, "image", findings),
        prompt_audio: flag(prompt, "audio", findings),
        prompt_embedded_context: flag(prompt, "embeddedContext", findings),
    }
}

/// A group of capabilities: an object, or nothing.
fn group<'a>(
    value: Option<View<'a>>,
    name: &'static str,
    findings: &mut Findings,
) -> Option<View<'a>> {
    let value = value.filter(|value| !value.is_null())?;
    if !value.is_object() {
        findings.defect(Defect::WrongTypedCapability { name });
        return None;
    }
    Some(value)
}

/// A capability that is offered by being `true`.
fn flag(group: Option<View<'_>>, name: &'static str, findings: &mut Findings) -> bool {
    match field(group, name, findings).map(View::token) {
        Some("true") => true,
        None | Some("false" | "null") => false,
        Some(_) => {
            findings.defect(Defect::WrongTypedCapability { name });
            false
        }
    }
}

/// A capability that is offered by being there, as an object.
fn entry(session: Option<View<'_>>, name: &'static str, findings: &mut Findings) -> bool {
    group(field(session, name, findings), name, findings).is_some()
}

impl fmt::Debug for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("Cancelled"),
            Self::EndTurn => f.write_str("EndTurn"),
            Self::Error => f.write_str("Error"),
            Self::MaxTokens => f.write_str("MaxTokens"),
            Self::MaxTurnRequests => f.write_str("MaxTurnRequests"),
            Self::Missing => f.write_str("Missing"),
            // An agent may put its whole complaint here.
            Self::Other(word) => f.debug_tuple("Other").field(&Hidden(word.len())).finish(),
            Self::RateLimit => f.write_str("RateLimit"),
            Self::Refusal => f.write_str("Refusal"),
        }
    }
}
