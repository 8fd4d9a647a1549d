//! The facts inside rows and views: failures, ends, processes.

use serde::{Deserialize, Serialize};

/// What went wrong, with the agent's own words where they are meant for a person (rule 5.6.4).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureFact {
    /// The published code.
    pub code: FailureCode,
    /// Words of the agent, or the last of its stderr; never the host's own error text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl std::fmt::Debug for FailureFact {
    // An agent's words may quote the prompt.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}(detail: {})", self.code, self.detail.is_some())
    }
}

/// The published failure codes of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum FailureCode {
    AnswerUnconfirmed,
    CancelUnconfirmed,
    Cancelled,
    ChatClosed,
    EmptyMessage,
    HostFault,
    HostRestarted,
    HostStopped,
    HostUnsupported,
    MessageTooLarge,
    NotRestored,
    NotSignedIn,
    PreviousExitUnverifiable,
    ProviderError,
    ProviderExited,
    ProviderRejected,
    ProviderStartFailed,
    QueueFull,
    StartFailed,
    StopRefused,
    VersionMismatch,
    WriteFailed,
}

/// How a child ended (decision D10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum EndedHow {
    /// Inside its EOF window, never signalled.
    OnEof,
    /// After SIGTERM.
    AfterTerm,
    /// After SIGKILL or a tree kill.
    AfterKill,
    /// The host had not asked for it.
    ByItself,
    /// No process ever existed.
    NeverStarted,
}

/// A process that cannot be confused with a later one of the same number (rule 1.1.6, R11).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The process number.
    pub pid: u32,
    /// When it started, in the operating system's own unit; only equality means anything.
    pub start: u64,
}

/// Who was started, as recorded before the handshake (rule 1.2.1 h).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildIdentity {
    /// The agent itself: *root* in every verdict.
    pub root: ProcessIdentity,
    /// The process of ours between the host and the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<ProcessIdentity>,
    /// Which boot the numbers belong to.
    pub boot: String,
    /// The proof of the tree this start can give.
    pub proof: ProofKind,
}

/// What a proof of the tree rests on (`docs/architecture.md`, "Proof").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProofKind {
    /// Every descendant is reparented to the supervisor, which waits until it has no child left.
    Subreaper,
    /// A control group was killed and reads unpopulated.
    Cgroup,
    /// The group is empty and every descendant ever seen is gone: weaker.
    GroupSnapshot,
    /// A job object with no active process.
    Job,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// A process that outlived the agent (decision D21).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// The process number.
    pub pid: u32,
    /// Its short name, as the operating system gives it; never its arguments.
    pub name: String,
}
