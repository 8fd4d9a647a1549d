//! Agent definitions: what the host knows of a kind of agent, as data (`docs/agent-definition.md`).
//!
//! A definition is chosen by the caller, by name or by file, never by the program's name. Any command line runs with
//! the generic one.

mod read;
mod session_file;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use read::{DEFINITION_BYTES_MAX, DefinitionError};
pub use session_file::CutOnDisk;

use crate::failure::FailureCode;

/// How a kind of agent is started, ended, reopened and read.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentDefinition {
    /// What it is called in lists.
    pub name: String,
    /// Program and arguments. No shell stands between.
    #[serde(default)]
    pub command: Vec<String>,
    /// What only the embedder knows and a pinned variable needs. [`AgentDefinition::with`] gives it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, PinnedValue>,
    /// Variables pinned at every spawn, `{name}` standing for one of `values`. What they come to is part of the recorded
    /// identity (decision D15).
    #[serde(default)]
    pub pin_env: BTreeMap<String, String>,
    /// Variables the agent never inherits.
    #[serde(default)]
    pub drop_env: Vec<String>,
    /// Releases that are supported; absent, every release is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<SupportedVersions>,
    /// How an earlier session is reopened when both ways are offered (rule 7.2.2).
    #[serde(default)]
    pub reopen: Reopen,
    /// Lengthens the EOF window of the ladder; never shortens it (decision D13).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eof_grace_ms: Option<u64>,
    /// Whether the agent is asked to save a cut turn before its stdin is closed (decision D13).
    #[serde(default, skip_serializing_if = "Barrier::is_default")]
    pub barrier: Barrier,
    /// What permission requests are answered with (rule 1.2.7).
    #[serde(default)]
    pub access: Access,
    /// Where the agent keeps its session, so that the host can name why one cannot be reopened (decision D16).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_file: Option<SessionFile>,
    /// How a turn's verdict is read from that file (decision D19).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictReader>,
    /// How a person's message is found in that file (decisions D20, D28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptReader>,
    /// What would move the agent's store, were it not pinned (decision D15).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
}

/// A value that the embedder gives.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PinnedValue {
    /// What it is, for the person who is asked for it.
    pub about: String,
    /// What it has to be.
    #[serde(default)]
    pub kind: ValueKind,
    /// The value. In a document: what it is when none is given; absent, one has to be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// What a value has to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ValueKind {
    /// An absolute path.
    AbsolutePath,
    /// Any text.
    #[default]
    Text,
}

/// Releases that are supported (rule 1.2.6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SupportedVersions {
    /// The first supported release, `major.minor.patch`.
    #[serde(deserialize_with = "read::release_text")]
    #[schemars(regex(pattern = r"^\d+\.\d+\.\d+$"))]
    pub from: String,
    /// Whether releases with a pre-release suffix are supported.
    #[serde(default)]
    pub pre_releases: bool,
}

/// How an earlier session is reopened (rule 7.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reopen {
    /// `session/load`, else `session/resume`.
    #[default]
    Load,
    /// `session/resume`, else `session/load`.
    Resume,
}

/// Whether `session/close` comes before stdin EOF when a turn was cut (decision D13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Barrier {
    /// Where the agent offers it and answered the cancel.
    #[default]
    WhereOffered,
    /// Never.
    Off,
}

impl Barrier {
    // serde wants a reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What permission requests are answered with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Access {
    /// A person is asked.
    #[default]
    Ask,
    /// An offered `allow_once` option is chosen; where none is offered a person is asked (rule 9.1.3).
    AllowOnce,
}

/// Where the agent keeps a session. `{ENV_NAME}` stands for a pinned variable, `{session}` for the agent's session id.
/// Values are put in as they are: nothing in them is a pattern. Links below the folders that are named are not followed.
/// The header is not read in this version: the checks of decision D16 rest on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionFile {
    /// An absolute path with `{session}` in it, and `*` for any run of characters inside one component.
    #[serde(deserialize_with = "session_file::glob_text")]
    #[schemars(regex(pattern = r"^[/{].*\{session\}"))]
    pub glob: String,
    /// Where the file's header says what it is.
    pub header: SessionFileHeader,
}

/// Fields of the session file's header record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionFileHeader {
    /// The record that is the header: the first one whose fields match.
    #[serde(default)]
    pub matching: BTreeMap<String, String>,
    /// Dotted path of the session id.
    pub id: String,
    /// Dotted path of the working directory.
    pub cwd: String,
}

/// Reads a turn's verdict from the agent's own session file: JSON Lines and dotted field paths only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerdictReader {
    /// The last record whose fields match is the one that counts.
    pub last_matching: BTreeMap<String, String>,
    /// Dotted path of the word.
    pub field: String,
    /// What each word means; a word that is not listed means nothing.
    pub words: BTreeMap<String, VerdictWord>,
    /// Dotted path of the agent's own explanation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Finds a person's messages in the agent's own session file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptReader {
    /// A record whose fields match is a message.
    pub matching: BTreeMap<String, String>,
    /// Dotted path of its text; a number is a place in an array.
    pub text: String,
}

/// What a word in a session file says of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum VerdictWord {
    /// It finished.
    Success,
    /// It failed.
    Failure,
    /// It was stopped.
    Cancellation,
}

/// What the agent itself would resolve its store from, were nothing pinned (decision D15). `{workspace}` stands for the
/// session's working directory, `{HOME}` for the home folder. Nothing reads it in this version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drift {
    /// Variables that move the store, in order of precedence.
    pub environment: Vec<String>,
    /// Files of variables the agent reads by itself, in order of precedence.
    #[serde(default)]
    pub dotenv_files: Vec<String>,
    /// Where the store is when nothing moves it.
    pub default: String,
}

impl AgentDefinition {
    /// The JSON Schema of a definition.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(AgentDefinition).to_value()
    }

    /// The definition of any ACP agent nobody described.
    pub fn generic(command: Vec<String>) -> Self {
        Self {
            name: "agent".to_owned(),
            command,
            values: BTreeMap::new(),
            pin_env: BTreeMap::new(),
            drop_env: Vec::new(),
            versions: None,
            reopen: Reopen::Load,
            eof_grace_ms: None,
            barrier: Barrier::WhereOffered,
            access: Access::Ask,
            session_file: None,
            verdict: None,
            prompt: None,
            drift: None,
        }
    }
}

impl std::fmt::Debug for PinnedValue {
    // It may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}(given: {})", self.kind, self.value.is_some())
    }
}

impl std::fmt::Debug for AgentDefinition {
    // Arguments and pinned values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentDefinition")
            .field("name", &self.name)
            .field("program", &self.command.first())
            .field("pin_env", &self.pin_env.keys())
            .field("reopen", &self.reopen)
            .finish_non_exhaustive()
    }
}

/// Why an agent's release is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this program supports {name} from {from} on, and found {found}; install a supported release"
)]
pub struct UnsupportedRelease {
    /// The agent.
    pub name: String,
    /// The first supported release.
    pub from: String,
    /// What it says it is.
    pub found: String,
}

impl UnsupportedRelease {
    /// The published fact.
    pub const CODE: FailureCode = FailureCode::HostUnsupported;
}

impl SupportedVersions {
    /// Whether a release is supported: `major.minor.patch`, compared by number (rule 1.2.6).
    pub fn supports(&self, found: &str) -> bool {
        let (Some((found, is_pre_release)), Some((from, _))) =
            (release(found), release(&self.from))
        else {
            return false;
        };
        match is_pre_release {
            // A pre-release comes before its release.
            true => self.pre_releases && found > from,
            false => found >= from,
        }
    }
}

/// The numbers of a release, and whether it has a pre-release suffix.
fn release(text: &str) -> Option<([u64; 3], bool)> {
    let text = text.trim().trim_start_matches('v');
    let text = text.split('+').next().unwrap_or_default();
    let (numbers, suffix) = text.split_once('-').map_or((text, None), |(n, s)| (n, Some(s)));
    let mut parts = numbers.split('.').map(str::parse::<u64>);
    let release = [parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?];
    parts.next().is_none().then_some((release, suffix.is_some()))
}

#[cfg(test)]
mod tests;
