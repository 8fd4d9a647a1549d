//! The scenario document (`docs/scenario.md`).

use std::str::FromStr;

use moored::journal::SendMode;
use moored::session::ladder::{EndedHow, Profile};
use moored::status::Status;
use moored_fake_agents::{Script, persona};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Where editors find the schema of this document.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// What it is called: lower-case words joined by hyphens.
    pub name: String,
    /// What it shows, in a line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The tests of the rulebook it plays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<String>,
    /// Whose windows end the child.
    #[serde(default)]
    pub profile: Profile,
    /// The canonical journals of a simulated and a native run are equal. Only causal triggers, only `posix`.
    #[serde(default)]
    pub parity: bool,
    /// The agent.
    pub agent: AgentSource,
    /// Fields of the agent's definition that differ from the generic one.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub definition: serde_json::Map<String, serde_json::Value>,
    /// What the person does, in order.
    pub actions: Vec<Action>,
    /// What must come of it.
    #[serde(default)]
    pub expect: Expectations,
}

/// The agent of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentSource {
    /// A persona by name.
    Persona(String),
    /// A script (`docs/agent-script.md`).
    Script(Box<Script>),
    /// A program that does not exist.
    Missing(String),
}

/// One thing a person does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Action {
    /// When; by default once the action before it was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Trigger>,
    /// The next action does not wait for this one's answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unanswered: bool,
    /// What.
    #[serde(flatten)]
    pub act: Act,
}

/// When an action is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Milliseconds after the action before it. Not causal.
    AfterMs(u64),
    /// Once this has happened.
    Event(Moment),
    /// Once the agent's text contains this.
    Text(String),
    /// Once the host has read this many updates of the agent and their text is in the journal.
    Updates(u64),
}

/// Something that is seen in the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// The child takes prompts.
    ChildReady,
    /// There is no child.
    ChildGone,
    /// Nothing runs and nothing waits.
    Rest,
    /// A person is asked something.
    PermissionPending,
    /// The newest message was accepted by the agent.
    MessageAccepted,
    /// A tool call runs.
    ToolRunning,
    /// A turn runs.
    TurnRunning,
    /// The newest turn has ended.
    TurnEnded,
}

/// What a person does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Act {
    /// Sends a message.
    Send {
        /// Its id.
        id: String,
        /// Its text.
        text: String,
        /// How it goes out when a turn runs.
        #[serde(default)]
        mode: SendMode,
    },
    /// Presses Stop.
    Stop {
        /// The turn it names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<String>,
    },
    /// Answers the oldest pending permission.
    Answer {
        /// The option; none dismisses the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option: Option<String>,
    },
    /// Closes the session.
    Close,
    /// Shuts the host down and opens it again on the same store.
    Reopen,
    /// Does nothing.
    Wait,
}

/// What must come of a scenario. What is absent is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Expectations {
    /// Starts of lines of the canonical journal, in this order; other lines may stand between.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub journal: Vec<String>,
    /// No line of the canonical journal contains any of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub journal_without: Vec<String>,
    /// The session's statuses, in this order; others may stand between.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<Status>,
    /// Every method the host wrote, in this order and nothing else; a reply is written `reply`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<Vec<String>>,
    /// How each child ended, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<Vec<EndedHow>>,
    /// Refusals of actions, by their published names, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Vec<String>>,
    /// How many processes outlived an agent and were ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub survivors: Option<usize>,
}

/// Why a document cannot be played: which field, which line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}: {}{message}", if path.is_empty() { String::new() } else { format!("`{path}`: ") })]
pub struct DocumentError {
    /// Where the document is from.
    pub origin: String,
    /// The line.
    pub line: usize,
    /// The field.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

impl Document {
    /// Reads a document; `origin` is what an error calls it.
    pub fn parse(text: &str, origin: &str) -> Result<Self, DocumentError> {
        let error = |line: usize, path: String, message: String| DocumentError {
            origin: origin.to_owned(),
            line,
            path,
            message,
        };
        let deserializer = &mut serde_json::Deserializer::from_str(text);
        let document: Self = serde_path_to_error::deserialize(deserializer).map_err(|e| {
            let path = e.path().to_string();
            let line = e.inner().line();
            // A flattened field is read from a buffer, which has no lines: the field's own is looked up.
            let line = if line > 0 { line } else { line_of(text, &path) };
            let message = e.into_inner().to_string();
            let message = message.split(" at line ").next().unwrap_or_default().to_owned();
            error(line, path, message)
        })?;
        super::check::check(&document)
            .map_err(|(path, message)| error(line_of(text, &path), path, message))?;
        Ok(document)
    }

    /// The JSON Schema of the language.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }

    /// The agent's script; a missing program has none.
    pub fn script(&self) -> Option<Script> {
        match &self.agent {
            AgentSource::Persona(name) => persona(name),
            AgentSource::Script(script) => Some((**script).clone()),
            AgentSource::Missing(_) => None,
        }
    }
}

impl FromStr for Document {
    type Err = DocumentError;

    fn from_str(text: &str) -> Result<Self, DocumentError> {
        Self::parse(text, "document")
    }
}

/// The line on which the last named field of a path stands: found by walking the text field by field.
fn line_of(text: &str, path: &str) -> usize {
    let mut at = 0;
    for part in path.split(['.', '[', ']']).filter(|p| !p.is_empty() && *p != "?") {
        match part.parse::<usize>() {
            Ok(index) => {
                for _ in 0..index {
                    at += text[at..].find('}').map_or(0, |i| i + 1);
                }
            }
            Err(_) => at += text[at..].find(&format!("\"{part}\"")).unwrap_or(0),
        }
    }
    text[..at].matches('\n').count() + 1
}
