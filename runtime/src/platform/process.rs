//! Processes as the driver sees them: one agent, its three pipes, and a supervisor that obeys and reports.

use std::pin::Pin;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::ids::SpawnToken;
use crate::session::ladder::LadderPolicy;

/// The end of a pipe that is read.
pub type Reader = Pin<Box<dyn AsyncRead + Send>>;
/// The end of a pipe that is written; dropping it closes it.
pub type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// What is to be started.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildSpec {
    /// Program and arguments; no shell stands between us and an agent.
    pub argv: Vec<String>,
    /// Absolute working directory.
    pub cwd: String,
    /// Variables set on top of the host's own environment, in order.
    pub set_env: Vec<(String, String)>,
    /// Variables the agent must not inherit (rule 8.1.2), names only.
    pub drop_env: Vec<String>,
    /// Carried in the agent's environment as `MOORED_SPAWN_TOKEN`; an orphan is found by it (rule 6.13.7).
    pub token: SpawnToken,
    /// What the supervisor does by itself once the host is gone (rule 1.7.7, G8).
    pub ladder: LadderPolicy,
}

impl std::fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.set_env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ChildSpec")
            .field("program", &self.argv.first())
            .field("arguments", &self.argv.len().saturating_sub(1))
            .field("cwd", &self.cwd)
            .field("set_env", &names)
            .field("drop_env", &self.drop_env)
            .field("ladder", &self.ladder)
            .finish_non_exhaustive()
    }
}

/// Names the token's variable in the agent's environment.
pub const SPAWN_TOKEN_VARIABLE: &str = "MOORED_SPAWN_TOKEN";

/// A process that cannot be confused with a later one of the same number (rule 1.1.6, R11).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ProcessIdentity {
    /// The process number.
    pub pid: u32,
    /// When it started, in the operating system's own unit; only equality means anything.
    pub start: u64,
}

/// Who was started, as recorded before the handshake (rule 1.2.1 h).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// What a ladder may send.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// The polite one.
    Term,
    /// The one that cannot be refused.
    Kill,
}

/// Host to supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "order")]
pub enum Order {
    /// Signal the agent's whole group.
    Signal {
        /// Which.
        signal: Signal,
    },
    /// End what the agent left behind: SIGTERM, the term window, SIGKILL, proof (decision D21). Answered by
    /// [`Report::Swept`]. With `leave`, nothing is ended and what lives on is reported.
    Sweep {
        /// Report the survivors instead of ending them (`keep_background`).
        leave: bool,
    },
    /// The host has its proof; the supervisor may exit.
    Release,
}

/// Supervisor to host, after the spawn itself was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "report")]
pub enum Report {
    /// The root was reaped.
    Exited {
        /// How.
        exit: Exit,
    },
    /// An order to signal was carried out, or could not be.
    Signalled {
        /// Which.
        signal: Signal,
        /// Whether the operating system took it.
        delivered: bool,
    },
    /// The answer to a sweep.
    Swept {
        /// No descendant is left alive: a complete proof under [`ProofKind::Subreaper`].
        empty: bool,
        /// What was ended, or with `leave` what lives on.
        survivors: Vec<Survivor>,
    },
    /// The supervisor itself is gone without having proven anything.
    SupervisorLost,
}

/// A process that outlived the agent (decision D21).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Survivor {
    /// The process number.
    pub pid: u32,
    /// Its short name, as the operating system gives it; never its arguments.
    pub name: String,
}

/// A started child: pipes, identity, orders and reports.
pub struct SpawnedChild {
    /// Who it is.
    pub identity: ChildIdentity,
    /// Its stdin; dropping it is the EOF the ladder begins with.
    pub stdin: Writer,
    /// Its stdout.
    pub stdout: Reader,
    /// Its stderr.
    pub stderr: Reader,
    /// Orders to the supervisor; a child takes at most [`ORDERS_MAX`] that are not yet carried out.
    pub orders: mpsc::Sender<Order>,
    /// Reports of the supervisor, in order. Ends after [`Report::SupervisorLost`] or once released.
    pub reports: mpsc::Receiver<Report>,
}

/// Orders that may wait for a supervisor; the ladder has fewer steps than this.
pub const ORDERS_MAX: usize = 16;

/// Why no child is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// There is no such program.
    #[error("there is no program {program} to start; name one that exists, or give its full path")]
    NotFound {
        /// As it was asked for.
        program: String,
    },
    /// The program cannot be run.
    #[error("{program} cannot be started ({reason}); check that it may be executed")]
    NotExecutable {
        /// As it was asked for.
        program: String,
        /// The operating system's words.
        reason: String,
    },
    /// The working directory cannot be entered.
    #[error(
        "the folder {cwd} cannot be entered ({reason}); create it, or choose another workspace"
    )]
    Workspace {
        /// The folder.
        cwd: String,
        /// The operating system's words.
        reason: String,
    },
    /// The supervisor could not be started or spoke nonsense.
    #[error("the supervisor process did not start ({reason})")]
    Supervisor {
        /// What was seen.
        reason: String,
    },
    /// The start time could not be read three times; the child was ended (rule 1.1.6).
    #[error(
        "the agent's start time cannot be read, so it could not be recognised again; it was ended"
    )]
    Unidentified,
}
