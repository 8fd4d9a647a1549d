//! What host and supervisor say to each other: one JSON value a line, both ways, over one Unix socket.
//!
//! The host speaks first, with a greeting or with what to start and the agent's three pipe ends beside it. Every order
//! is answered `taken` at once, so that a supervisor that stands still is found out even while an order takes long.

use serde::{Deserialize, Serialize};

use crate::platform::{ChildSpec, Order, Report, SpawnError};

/// Present in the environment of a process that is to be a supervisor; the agent never sees it.
pub const MARKER_VARIABLE: &str = "MOORED_SUPERVISOR";
/// Raised when these messages change; both ends are usually one executable, but need not be.
pub const PROTOCOL: u32 = 1;
/// The agent's stdin, stdout and stderr, in this order.
pub const AGENT_PIPES: usize = 3;
/// Longest line. What the operating system can start at all is shorter.
pub const CONTROL_LINE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Answers that wait for a host that does not read; past it the host is taken for gone. It holds the answers to all
/// orders that may be under way, many times over.
pub const CONTROL_BACKLOG_BYTES_MAX: usize = 1024 * 1024;

/// Host to supervisor.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Are you a supervisor?
    Hello,
    /// Start this agent. Comes first and with the agent's pipes, or not at all.
    Spawn(Box<SpawnRequest>),
    /// Do this to it.
    Order(Order),
}

/// What to start, and for whom.
#[derive(Serialize, Deserialize)]
pub struct SpawnRequest {
    /// The host's [`PROTOCOL`].
    pub protocol: u32,
    /// The host's process number: the only parent a supervisor starts anything for (rule 1.7.2).
    pub host_pid: u32,
    /// The agent.
    pub spec: ChildSpec,
}

/// Supervisor to host.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Yes, one that speaks this [`PROTOCOL`].
    Hello {
        /// The supervisor's.
        protocol: u32,
    },
    /// The agent runs.
    Spawned {
        /// Its process number.
        pid: u32,
        /// Its start time.
        start: u64,
    },
    /// No agent runs.
    Refused(Refusal),
    /// The oldest order not yet answered was read.
    Taken,
    /// Something happened.
    Report(Report),
}

/// [`SpawnError`] on the wire.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// [`SpawnError::NotFound`].
    NotFound {
        /// As it was asked for.
        program: String,
    },
    /// [`SpawnError::NotExecutable`].
    NotExecutable {
        /// As it was asked for.
        program: String,
        /// The operating system's words.
        reason: String,
    },
    /// [`SpawnError::Workspace`].
    Workspace {
        /// The folder.
        cwd: String,
        /// The operating system's words.
        reason: String,
    },
    /// [`SpawnError::Supervisor`].
    Supervisor {
        /// What was seen.
        reason: String,
    },
    /// [`SpawnError::Unidentified`].
    Unidentified,
}

impl From<Refusal> for SpawnError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound { program } => Self::NotFound { program },
            Refusal::NotExecutable { program, reason } => Self::NotExecutable { program, reason },
            Refusal::Workspace { cwd, reason } => Self::Workspace { cwd, reason },
            Refusal::Supervisor { reason } => Self::Supervisor { reason },
            Refusal::Unidentified => Self::Unidentified,
        }
    }
}

/// A message as its line.
pub fn line<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes =
        serde_json::to_vec(message).expect("these messages have string keys and no failing part");
    bytes.push(b'\n');
    bytes
}

/// Takes the first whole line out of `inbox`, without its newline.
pub fn take_line(inbox: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = memchr::memchr(b'\n', inbox)?;
    let rest = inbox.split_off(end + 1);
    let mut line = std::mem::replace(inbox, rest);
    line.pop();
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{Exit, Signal};

    #[test]
    fn every_kind_of_message_survives_its_line() {
        let mut inbox = Vec::new();
        let answers = [
            Answer::Hello { protocol: PROTOCOL },
            Answer::Spawned { pid: 7, start: u64::MAX },
            Answer::Refused(Refusal::Workspace { cwd: "/a\nb".into(), reason: "no".into() }),
            Answer::Taken,
            Answer::Report(Report::Exited { exit: Exit::Signal(9) }),
            Answer::Report(Report::Signalled { signal: Signal::Term, delivered: true }),
            Answer::Report(Report::Swept { empty: true, survivors: vec![] }),
        ];
        for answer in &answers {
            inbox.extend(line(answer));
        }
        for answer in answers {
            let line = take_line(&mut inbox).expect("each message is one line");
            assert_eq!(serde_json::from_slice::<Answer>(&line).expect("ours"), answer);
        }
        assert_eq!(take_line(&mut inbox), None);
    }

    #[test]
    fn half_a_line_waits_for_its_rest() {
        let mut inbox = b"{\"a\":".to_vec();
        assert_eq!(take_line(&mut inbox), None);
        inbox.extend(b"1}\n{");
        assert_eq!(take_line(&mut inbox).as_deref(), Some(&b"{\"a\":1}"[..]));
        assert_eq!(inbox, b"{");
    }
}
