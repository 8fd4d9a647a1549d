//! One agent's start, seen from the host: three pipes, a control socket, a supervisor, and its word that the agent runs.
//!
//! Every host end is close-on-exec and the agent's ends leave this process with the first message, so neither another
//! agent nor this one can hold an end that is not its own.

use std::io::{self, IoSlice, PipeReader, PipeWriter};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::client::{Client, REPORTS_MAX};
use super::{lost, procfs, program};
use crate::platform::{
    ChildIdentity, ChildSpec, ORDERS_MAX, ProcessIdentity, ProofKind, SpawnError, SpawnedChild,
};
use crate::supervisor::wire::{
    AGENT_PIPES, Answer, CONTROL_LINE_BYTES_MAX, PROTOCOL, Request, SpawnRequest, line, take_line,
};

/// How long a supervisor may take to start an agent: a cold executable on a slow disk, and no more.
const START_MS: u64 = 20_000;
/// Longest answer of a supervisor's: the names of the survivors of one sweep fit many times.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
const READ_BYTES: usize = 4 * 1024;

/// Starts the agent; on failure nothing of the attempt is left.
pub(super) async fn start(
    program: program::Checked,
    boot: String,
    spec: ChildSpec,
) -> Result<SpawnedChild, SpawnError> {
    let pipes = Pipes::open().map_err(|e| broken("no pipes", e))?;
    let (ours, theirs) = StdUnixStream::pair().map_err(|e| broken("no control socket", e))?;
    let supervisor = SupervisorProcess::spawn(&program, theirs).map_err(|e| broken("", e))?;
    let policy = spec.ladder.clone();
    let request = Request::Spawn(Box::new(SpawnRequest {
        protocol: PROTOCOL,
        host_pid: std::process::id(),
        spec,
    }));
    let asked = async {
        let mut control = Control::new(ours).map_err(|e| broken("no control socket", e))?;
        let root = ask(&mut control, &request, &pipes.agent).await?;
        Ok((control, root))
    };
    let asked = timeout(Duration::from_millis(START_MS), asked);
    let answer = asked.await.unwrap_or_else(|_| {
        Err(SpawnError::Supervisor { reason: format!("no answer within {START_MS} ms") })
    });
    let (control, root) = match answer {
        Ok(started) => started,
        Err(error) => {
            lost::end_unstarted(supervisor).await;
            return Err(error);
        }
    };
    drop(pipes.agent);
    let identity = ChildIdentity {
        root: root.clone(),
        supervisor: supervisor.identity.clone(),
        boot,
        proof: ProofKind::Subreaper,
    };
    let (orders, orders_taken) = mpsc::channel(ORDERS_MAX);
    let (reports_given, reports) = mpsc::channel(REPORTS_MAX);
    let client = Client::new(control, supervisor, root, policy, orders_taken, reports_given);
    let piped = pipes.host.into_async().map_err(|e| broken("no pipes", e));
    // From here on the client owns the child: if the pipes fail, the orders are dropped and the ladder runs.
    drop(tokio::spawn(client.run()));
    let (stdin, stdout, stderr) = piped?;
    Ok(SpawnedChild {
        identity,
        stdin: Box::pin(stdin),
        stdout: Box::pin(stdout),
        stderr: Box::pin(stderr),
        orders,
        reports,
    })
}

/// Sends what to start and the agent's ends, and waits for the word.
async fn ask(
    control: &mut Control,
    request: &Request,
    agent: &[OwnedFd; AGENT_PIPES],
) -> Result<ProcessIdentity, SpawnError> {
    let message = line(request);
    if message.len() > CONTROL_LINE_BYTES_MAX {
        let reason = format!("what is to be started is longer than {CONTROL_LINE_BYTES_MAX} bytes");
        return Err(SpawnError::Supervisor { reason });
    }
    let ends = [agent[0].as_fd(), agent[1].as_fd(), agent[2].as_fd()];
    // A supervisor that ends early is told by its answer, or by the lack of one.
    let _ = control.write_with(&message, &ends).await;
    match control.read().await {
        Ok(Answer::Spawned { pid, start }) => Ok(ProcessIdentity { pid, start }),
        Ok(Answer::Refused(refusal)) => Err(refusal.into()),
        Ok(_) => Err(SpawnError::Supervisor { reason: "it answered something else".to_owned() }),
        Err(error) => Err(broken("it gave no answer", error)),
    }
}

fn broken(what: &str, error: io::Error) -> SpawnError {
    let reason = if what.is_empty() { error.to_string() } else { format!("{what}: {error}") };
    SpawnError::Supervisor { reason }
}

/// The agent's stdio: our ends and its own.
struct Pipes {
    host: HostPipes,
    agent: [OwnedFd; AGENT_PIPES],
}

struct HostPipes {
    stdin: PipeWriter,
    stdout: PipeReader,
    stderr: PipeReader,
}

impl Pipes {
    fn open() -> io::Result<Self> {
        let (agent_stdin, stdin) = io::pipe()?;
        let (stdout, agent_stdout) = io::pipe()?;
        let (stderr, agent_stderr) = io::pipe()?;
        let agent = [agent_stdin.into(), agent_stdout.into(), agent_stderr.into()];
        Ok(Self { host: HostPipes { stdin, stdout, stderr }, agent })
    }
}

impl HostPipes {
    fn into_async(self) -> io::Result<(Sender, Receiver, Receiver)> {
        Ok((
            Sender::from_owned_fd(self.stdin.into())?,
            Receiver::from_owned_fd(self.stdout.into())?,
            Receiver::from_owned_fd(self.stderr.into())?,
        ))
    }
}

/// The host's end of the control socket.
pub(super) struct Control {
    socket: UnixStream,
    inbox: Vec<u8>,
}

impl Control {
    fn new(socket: StdUnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket: UnixStream::from_std(socket)?, inbox: Vec::new() })
    }

    /// The next answer; an end or nonsense is an error. Cancel-safe.
    pub(super) async fn read(&mut self) -> io::Result<Answer> {
        loop {
            if let Some(line) = take_line(&mut self.inbox) {
                return Ok(serde_json::from_slice(&line)?);
            }
            if self.inbox.len() > ANSWER_BYTES_MAX {
                return Err(io::Error::other("an answer is too long"));
            }
            let mut bytes = [0; READ_BYTES];
            let read = self.socket.read(&mut bytes).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.inbox.extend_from_slice(&bytes[..read]);
        }
    }

    /// Reads what the kernel holds at this moment, whatever the runtime knows of it yet: whether there was anything.
    pub(super) fn look(&mut self) -> io::Result<bool> {
        let mut bytes = [0; READ_BYTES];
        match recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((_, read)) => {
                self.inbox.extend_from_slice(&bytes[..read]);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a whole message.
    pub(super) async fn write(&mut self, message: &[u8]) -> io::Result<()> {
        self.socket.write_all(message).await
    }

    /// Writes a message with open files beside its first bytes.
    async fn write_with(&mut self, message: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let socket = &self.socket;
        let sent = socket
            .async_io(Interest::WRITABLE, || {
                let mut space =
                    [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AGENT_PIPES))];
                let mut beside = SendAncillaryBuffer::new(&mut space);
                let fits = beside.push(SendAncillaryMessage::ScmRights(files));
                assert!(fits, "the buffer is made for this many files");
                Ok(sendmsg(socket, &[IoSlice::new(message)], &mut beside, SendFlags::NOSIGNAL)?)
            })
            .await?;
        self.write(&message[sent..]).await
    }
}

#[expect(
    deprecated,
    reason = "unsound only for types that change or close their file; an OwnedFd does neither"
)]
fn watched(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(pidfd, Interest::READABLE)
}

/// The supervisor as the host's child: held by a pidfd, reaped by us.
pub(super) struct SupervisorProcess {
    child: std::process::Child,
    pidfd: AsyncFd<OwnedFd>,
    /// Absent only if the process table could not be read.
    pub(super) identity: Option<ProcessIdentity>,
}

impl SupervisorProcess {
    fn spawn(program: &program::Checked, control: StdUnixStream) -> io::Result<Self> {
        // The command goes at the end of this statement, and with it our copy of the supervisor's end.
        let mut child = program.command(control).spawn()?;
        let id = child.id();
        let held = i32::try_from(id)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| io::Error::other("its process number is out of range"))
            .and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?))
            .and_then(watched);
        match held {
            Ok(pidfd) => Ok(Self { child, pidfd, identity: procfs::identify(id) }),
            Err(error) => {
                // It has been told nothing yet, so there is nothing but itself to end.
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Its process number: its own until it is reaped here.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end and reaps it. Cancel-safe.
    pub(super) async fn ended(&mut self) {
        // A pidfd reads as ready from the end of its process on, for ever.
        let _ = self.pidfd.readable().await;
        let _ = self.child.wait();
    }

    /// Signals exactly this process.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        pidfd_send_signal(self.pidfd.get_ref(), signal).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn an_answer_past_the_limit_is_an_error_and_half_an_answer_is_an_end() {
        for (said, kind) in [
            (vec![b'x'; ANSWER_BYTES_MAX + 1], io::ErrorKind::Other),
            (b"{\"hello\"".to_vec(), io::ErrorKind::UnexpectedEof),
        ] {
            let (ours, mut theirs) = StdUnixStream::pair().expect("a socket pair");
            theirs.write_all(&said).expect("it fits the socket");
            drop(theirs);
            let mut control = Control::new(ours).expect("a control socket");
            assert_eq!(control.read().await.map_err(|e| e.kind()), Err(kind));
        }
    }
}
