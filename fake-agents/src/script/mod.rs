//! The script language: what an agent is, what it stores, and what it does at each event.

pub mod path;
pub mod step;

use std::collections::BTreeMap;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thiserror::Error;

pub use step::Step;

/// A scripted agent. `{}` is a well-behaved agent that echoes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// Where editors find the schema of this document.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// What the agent is for, in a line.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Part of every session id, so that two agents of one home differ.
    pub seed: u64,
    /// What the agent says of itself.
    pub agent: AgentFacts,
    /// What the agent keeps.
    pub store: StoreFacts,
    /// What the agent does when something happens.
    pub on: Handlers,
    /// What the agent does with a prompt: the first entry whose `when` holds. If none does, it echoes.
    pub turns: Vec<Turn>,
}

impl Script {
    /// The JSON Schema of the language.
    pub fn json_schema() -> Value {
        schemars::schema_for!(Script).to_value()
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Script, ScriptError> {
        let value: Value = serde_json::from_str(text).map_err(|error| ScriptError {
            line: error.line(),
            column: error.column(),
            path: String::new(),
            message: error.to_string(),
        })?;
        path::located(value).map_err(|(path, message)| {
            let (line, column) = path::line_and_column(text, &path);
            ScriptError { line, column, path, message }
        })
    }
}

/// A document that is no script: where, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the script is wrong at line {line}, column {column}{}: {message}", at(path))]
pub struct ScriptError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
    /// The way to the place: `turns[0].steps[2].ms`. Empty for text that is no JSON, and for the document itself.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" ({path})") }
}

/// What the agent says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentFacts {
    /// `agentInfo.name`.
    pub name: String,
    /// `agentInfo.title`.
    pub title: String,
    /// `agentInfo.version`.
    pub version: String,
    /// `protocolVersion`, of any JSON type.
    pub protocol_version: Value,
    /// `agentCapabilities`.
    pub capabilities: Value,
    /// `authMethods`.
    pub auth_methods: Vec<Value>,
    /// When session requests are refused with -32000.
    pub sign_in: SignIn,
    /// How long after its start the agent begins to read.
    pub start_delay_ms: u64,
    /// Further members of every `session/new`, `session/load` and `session/resume` result, such as `modes`.
    pub session_result: Map<String, Value>,
}

impl Default for AgentFacts {
    fn default() -> AgentFacts {
        AgentFacts {
            name: "fake-agent".into(),
            title: "Fake Agent".into(),
            version: "1.0.0".into(),
            protocol_version: json!(1),
            capabilities: json!({
                "loadSession": true,
                "promptCapabilities": { "embeddedContext": true, "image": true },
                "sessionCapabilities": { "resume": {}, "close": {} }
            }),
            auth_methods: vec![json!({ "id": "agent", "name": "Use existing local credentials" })],
            sign_in: SignIn::NotNeeded,
            start_delay_ms: 0,
            session_result: Map::new(),
        }
    }
}

/// When the agent counts as signed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignIn {
    /// Never: `authenticate` succeeds and changes nothing.
    Never,
    /// From the start.
    #[default]
    NotNeeded,
    /// From `authenticate` on; kept in the agent's home for later processes.
    UntilAuthenticate,
    /// From the next process on after an `authenticate`: this one never reads its credentials again.
    UntilRespawn,
}

/// What the agent keeps, and what it says of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StoreFacts {
    /// The agent's home; absent: the variable `FAKE_AGENT_HOME`. Without either nothing is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// The profile, a store of its own below the home; absent: the variable `FAKE_AGENT_PROFILE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Whether a session asked for exists; absent: whether its file does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    /// The folder the session belongs to; absent: the one in its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Whether load and resume refuse another folder.
    pub check_cwd: bool,
    /// When a new session is written, as seen from its answer.
    pub persist_new: Moment,
    /// Whether a prompt is written when its turn begins.
    pub persist_user: bool,
    /// When a turn's end is written, as seen from its answer.
    pub persist_answer: Moment,
    /// What `session/load` replays.
    pub replay: Replay,
}

impl Default for StoreFacts {
    fn default() -> StoreFacts {
        StoreFacts {
            home: None,
            profile: None,
            exists: None,
            cwd: None,
            check_cwd: true,
            persist_new: Moment::Before,
            persist_user: true,
            persist_answer: Moment::Before,
            replay: Replay::default(),
        }
    }
}

/// When an entry is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// After the answer.
    After,
    /// Before the answer.
    Before,
    /// Not at all.
    Never,
}

/// What `session/load` replays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Replay {
    /// The messages in the session file. What a stopped turn said is not replayed.
    pub own: bool,
    /// So many made-up messages after them.
    pub extra: u32,
    /// Replay after the answer, against the protocol.
    pub after_answer: bool,
}

impl Default for Replay {
    fn default() -> Replay {
        Replay { own: true, extra: 0, after_answer: false }
    }
}

/// What the agent does when something happens. An absent list is what a well-behaved agent does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Handlers {
    /// At the start, before anything is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Vec<Step>>,
    /// What a request leads to, by method: `initialize`, `session/new`, `session/load`, `session/resume`,
    /// `session/close`, `authenticate`, or any other. Absent methods are answered as a well-behaved agent would.
    pub requests: BTreeMap<String, Vec<Step>>,
    /// Right behind the steps of `session/new`, `session/load` and `session/resume`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Vec<Step>>,
    /// What the agent begins by itself when nobody asks it anything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<Idle>,
    /// What a prompt meets while a turn runs.
    pub busy: Busy,
    /// `session/cancel`.
    pub cancel: CancelReaction,
    /// The end of standard input.
    pub eof: Reaction,
    /// SIGTERM.
    pub sigterm: Reaction,
    /// SIGINT.
    pub sigint: Reaction,
    /// SIGHUP.
    pub sighup: Reaction,
    /// `$/cancel_request` for a request the agent still works on; `reply` answers that request. Absent: ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_request: Option<Vec<Step>>,
    /// A line that is no JSON-RPC message. Absent: ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_line: Option<Vec<Step>>,
    /// Standard output is broken: nobody reads it any more. Absent: exits with code 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken_stdout: Option<Vec<Step>>,
}

/// What happens at idle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Idle {
    /// How long nothing must have happened: since the session was ready, or since the end of the last turn.
    pub after_ms: u64,
    /// How often in the life of a process.
    #[serde(default = "one_time")]
    pub times: u32,
    /// What the agent does then.
    pub steps: Vec<Step>,
}

fn one_time() -> u32 {
    1
}

/// What a prompt meets while a turn runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Busy {
    /// It cancels the running turn, then runs.
    CancelFirst,
    /// It is never answered.
    NeverAnswer,
    /// It waits for its turn.
    #[default]
    Queue,
    /// It waits for its turn; a cancel answers it `cancelled` too.
    QueueCancelled,
    /// It is refused with -32603.
    Refuse,
}

/// Whether the agent does what it is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Obey {
    /// Signals only: it has no handler, so the signal ends it.
    ByDying,
    /// Not at all.
    Never,
    /// Once.
    #[default]
    Once,
    /// Its steps are done twice; what ends the process does so only the second time.
    Twice,
}

/// How the agent reacts to EOF or a signal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reaction {
    /// Whether it obeys.
    pub obey: Obey,
    /// How long after the event.
    pub after_ms: u64,
    /// What obeying is. Absent: settle the turn, note the end in the session file, exit (0 at EOF, else 128 + signal).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Step>>,
}

/// How the agent reacts to `session/cancel`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CancelReaction {
    /// Whether it obeys.
    pub obey: Obey,
    /// How long after the cancel the turn is broken off; until then it goes on.
    pub after_ms: u64,
    /// A cancel that follows its prompt within this time is lost.
    pub lost_within_ms: u64,
    /// What a cancel does that finds no turn, or one that was cancelled before.
    pub stale: Stale,
    /// What replaces the rest of the turn. Absent: the answer `cancelled`, then the aborted entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Step>>,
}

/// What a cancel does that has nothing to cancel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stale {
    /// It hits the next permission request: the agent reads it as cancelled without waiting.
    CancelsNextPermission,
    /// It hits the next prompt.
    CancelsNextTurn,
    /// Nothing.
    #[default]
    Ignored,
}

/// What the agent does with certain prompts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Which prompts. Absent: all that no earlier entry took.
    #[serde(default)]
    pub when: When,
    /// What is done. Without a `reply` the prompt is not answered until it is cancelled.
    pub steps: Vec<Step>,
}

/// Which prompts a turn is for: all its members must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// The n-th prompt of the process, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// A prompt that has this text in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// In the n-th process of the agent's home, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub life: Option<u64>,
}
