//! The seam between an agent's script and the machine it runs on.

use std::future::Future;
use std::io;
use std::task::{Context, Poll};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a process can do to the machine it lives on.
///
/// Waiting is by polling, so that the interpreter can watch signals, input, output and the clock at once without a
/// runtime: each `poll_*` method either has a result now, or keeps the context's waker and returns `Pending`.
/// Polling is cancel-safe: a `Pending` call has had no effect, and nothing is owed to it.
pub trait Body: Send {
    /// Reads standard input. `Ok(0)` is the end of the input; it is not polled again after that.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes at least one byte of `bytes`, which is never empty. An error is final for that output.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        out: Out,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>>;

    /// The next signal of a kind that [`Body::handle_signal`] named. KILL and STOP are never seen.
    fn poll_signal(&mut self, cx: &mut Context<'_>) -> Poll<Signal>;

    /// Ready once [`Body::now_ms`] has reached `at_ms`. There is one such alarm: a call with another time replaces
    /// the one before it.
    fn poll_alarm(&mut self, cx: &mut Context<'_>, at_ms: u64) -> Poll<()>;

    /// Milliseconds on a clock that only goes forward.
    fn now_ms(&self) -> u64;

    /// From now on this signal is delivered through [`Body::poll_signal`]. Before that it ends the process.
    fn handle_signal(&mut self, signal: Signal);

    /// Closes one of the three standard streams. Closing twice does nothing.
    fn close(&mut self, stream: Stream);

    /// Starts a child that does nothing but live, and returns its process id once it is in its group and, if asked,
    /// ignores SIGTERM.
    fn fork(&mut self, fork: Fork) -> impl Future<Output = io::Result<u32>> + Send;

    /// Stops the process as SIGSTOP does; returns when someone continued it.
    fn stop_self(&mut self) -> impl Future<Output = ()> + Send;

    /// Appends `line` and a line feed in one write, creating the file and its folders.
    fn append_file(
        &mut self,
        path: &str,
        line: &str,
    ) -> impl Future<Output = io::Result<()>> + Send;

    /// The whole file, or `None` if there is none.
    fn read_file(&mut self, path: &str) -> impl Future<Output = io::Result<Option<String>>> + Send;

    /// A variable of the environment the process was started with.
    fn env(&self, name: &str) -> Option<String>;

    /// The process id.
    fn pid(&self) -> u32;
}

/// One of the two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// Standard error: diagnostics.
    Stderr,
    /// Standard output: the protocol.
    Stdout,
}

/// One of the three standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard error.
    Stderr,
    /// Standard input.
    Stdin,
    /// Standard output.
    Stdout,
}

/// A signal an agent handles, or dies by.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// SIGABRT.
    Abrt,
    /// SIGHUP.
    Hup,
    /// SIGINT.
    Int,
    /// SIGKILL.
    Kill,
    /// SIGSEGV.
    Segv,
    /// SIGTERM.
    Term,
}

/// A child to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Where it lives.
    pub group: Group,
    /// How long it lives; `None` is for ever.
    pub lives_ms: Option<u64>,
    /// Whether it keeps the agent's standard output open. It never holds the other two.
    pub holds_stdout: bool,
    /// Whether SIGTERM leaves it alive.
    pub ignores_term: bool,
}

/// Which process group a child lives in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// A session and group of its own, as `setsid` makes it.
    OwnSession,
    /// The agent's group.
    #[default]
    Same,
}

/// How a run of a script ended. The caller makes it come true: a body cannot end itself in the middle of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process exits with this code.
    Exited(i32),
    /// The process dies by this signal, in its default disposition.
    Signalled(Signal),
}
