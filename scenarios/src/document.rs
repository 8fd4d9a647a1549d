//! The scenario document (`docs/scenario.md`).

use std::str::FromStr;

use moored::journal::SendMode;
use moored::session::ladder::{EndedHow, Profile};
use moored::status::{ChildPhase, Status};
use moored_fake_agents::script::path;
use moored_fake_agents::{Script, persona};
use schemars::JsonSchema;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
    /// The tests of the rulebook it plays, `T27`, and the reports it is the answer to, `FR-05`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<String>,
    /// Whose windows end the child.
    #[serde(default)]
    pub profile: Profile,
    /// The canonical journals of a simulated and a native run are equal. Only causal triggers, only `posix`.
    #[serde(default)]
    pub parity: bool,
    /// It takes longer than anybody waits for real processes, so it is played in simulation alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulation_only: bool,
    /// The windows of `win32` may be played with the real processes of this system.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub win32_natively: bool,
    /// What outlives the agent is left running, and reported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_background: bool,
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
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(extend("unevaluatedProperties" = false))]
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

// By hand: a derived reader of flattened fields neither refuses unknown ones nor knows where an error is.
impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Timing {
            when: Option<Trigger>,
            #[serde(default)]
            unanswered: bool,
        }
        let mut fields = Map::deserialize(deserializer)?;
        let mut timing = Map::new();
        for name in ["when", "unanswered"] {
            timing.extend(fields.remove_entry(name));
        }
        let timing: Timing = path::nested(timing.into()).map_err(de::Error::custom)?;
        let kind = match fields.remove("do") {
            Some(Value::String(kind)) => kind,
            Some(_) => return Err(de::Error::custom("`do` must be the name of an action")),
            None => return Err(de::Error::missing_field("do")),
        };
        let act = Act::read(&kind, fields.into()).map_err(de::Error::custom)?;
        Ok(Self { when: timing.when, unanswered: timing.unanswered, act })
    }
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
    /// The child exists and has not proven its handshake.
    ChildStarting,
    /// The child takes prompts.
    ChildReady,
    /// There is no child.
    ChildGone,
    /// Nothing runs and nothing waits.
    Rest,
    /// A person is asked something.
    PermissionPending,
    /// The newest Stop note says that the Stop was not confirmed.
    StopUnconfirmed,
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
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
        /// A name for the press. A later one of the same name is the same operation, asked again by a client that never
        /// saw the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Answers the oldest pending permission.
    Answer {
        /// The option; none dismisses the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option: Option<String>,
    },
    /// Closes the session.
    Close,
    /// The host lets the agent go, and keeps the session.
    Evict,
    /// Shuts the host down and opens it again on the same store.
    Reopen,
    /// Something goes wrong, or is right again.
    Fault {
        /// What.
        fault: Fault,
    },
    /// Does nothing.
    Wait,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Somebody stops the agent (SIGSTOP).
    AgentFrozen,
    /// Somebody kills the agent.
    AgentKilled,
    /// No signal of the host's reaches the agent: each is answered as refused.
    SignalsRefused,
    /// Signals reach the agent again.
    SignalsTaken,
    /// The store takes writes again.
    StoreHeals,
    /// The store refuses writes: no space is left.
    StoreRefuses,
    /// Somebody stops the agent's supervisor (SIGSTOP).
    SupervisorFrozen,
}

impl Act {
    fn read(kind: &str, fields: Value) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Sent {
            id: String,
            text: String,
            #[serde(default)]
            mode: SendMode,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Stopped {
            turn: Option<String>,
            op: Option<String>,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Struck {
            fault: Fault,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Answered {
            option: Option<String>,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Bare {}
        Ok(match kind {
            "send" => {
                let Sent { id, text, mode } = path::nested(fields)?;
                Self::Send { id, text, mode }
            }
            "stop" => {
                let Stopped { turn, op } = path::nested(fields)?;
                Self::Stop { turn, op }
            }
            "fault" => Self::Fault { fault: path::nested::<Struck>(fields)?.fault },
            "answer" => Self::Answer { option: path::nested::<Answered>(fields)?.option },
            "close" => path::nested::<Bare>(fields).map(|_| Self::Close)?,
            "evict" => path::nested::<Bare>(fields).map(|_| Self::Evict)?,
            "reopen" => path::nested::<Bare>(fields).map(|_| Self::Reopen)?,
            "wait" => path::nested::<Bare>(fields).map(|_| Self::Wait)?,
            _ => return Err(format!("unknown action `{kind}`, expected one of {ACTS}")),
        })
    }
}

/// The names of the actions.
const ACTS: &str = "`send`, `stop`, `answer`, `close`, `evict`, `reopen`, `fault`, `wait`";

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
    /// Every status that a client was shown, in this order and nothing else; `working+stopping` is one that reads
    /// Stopping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edges: Option<Vec<String>>,
    /// Every wording of Stop notes that a client was shown, in this order and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<Vec<String>>,
    /// Every Stop event of the journal, in this order and nothing else: its reason, and the turn it stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_events: Option<Vec<String>>,
    /// Every reading of the context ring in the journal, in this order and nothing else: `USED of SIZE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<String>>,
    /// Tokens that each turn is known to have used, in the order of the turns; `null` where that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Vec<Option<u64>>>,
    /// Where the child stood, in this order; others may stand between.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<ChildPhase>,
    /// Whether each Stop stopped something, in the order of the answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stops: Option<Vec<bool>>,
    /// The run takes at least this long on its own clock: no window was cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lasts_at_least_ms: Option<u64>,
    /// Every method the host wrote, in this order and nothing else; a reply is written `reply`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<Vec<String>>,
    /// Starts of entries of the agent's session files, in this order; others may stand between. An entry reads
    /// `session`, `user`, `assistant` with its stop reason, `toolResult`, or `custom` with its kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub saved: Vec<String>,
    /// No entry of the agent's session files contains any of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub saved_without: Vec<String>,
    /// How each child ended, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<Vec<EndedHow>>,
    /// Refusals of actions, by their published names, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Vec<String>>,
    /// How many processes outlived an agent, and were ended or left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub survivors: Option<usize>,
    /// How many ends of a host could not prove the agent's; absent: none may be so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unproven: Option<usize>,
    /// How many processes of the agent live on when the run is over; absent: none may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<usize>,
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
        let value: Value = serde_json::from_str(text).map_err(|e| {
            let message = e.to_string();
            let words = message.split(" at line ").next().unwrap_or_default().to_owned();
            error(e.line(), String::new(), words)
        })?;
        let placed = |(path, message): (String, String)| {
            let (line, _) = path::line_and_column(text, &path);
            error(line, path, message)
        };
        let document: Self = path::located(value).map_err(placed)?;
        super::check::check(&document).map_err(placed)?;
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
