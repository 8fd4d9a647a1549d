//! The scripted agents' body in the simulated world: the same interpreter, other system calls.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use moored::platform::Mono;
use moored_fake_agents::{Body, End, Fork, Group, Out, Script, Signal, Stream};

use crate::witness::{ChildNo, Seen, SharedWitness};
use crate::world::{self, ForkPlace, ProcessHandle, Programs, Sig};

/// The name the scripted agent has in a simulated world.
pub const PROGRAM: &str = "scenario-agent";

/// A world's programs: the scripted agent. Once the world is healed, agents that start behave: they echo.
pub fn programs(script: Script) -> Programs {
    let (script, behaves) = (Arc::new(script), Arc::new(Script::default()));
    Programs::default().with(PROGRAM, move |process| {
        let healed = process.world.is_healed();
        let script = Arc::clone(if healed { &behaves } else { &script });
        async move {
            let mut body = SimBody { tap: Tap::of(&process), process };
            match moored_fake_agents::run(&script, &mut body).await {
                End::Exited(code) => code,
                End::Signalled(signal) => {
                    body.process.die(sig(signal)).await;
                    0
                }
            }
        }
    })
}

struct SimBody {
    process: ProcessHandle,
    tap: Option<Tap>,
}

/// What the witness sees of an agent's own side of the wire.
struct Tap {
    witness: SharedWitness,
    child: ChildNo,
    read: Vec<u8>,
    written: Vec<u8>,
}

/// A longer line is told in pieces.
const TAPPED_LINE_BYTES_MAX: usize = 1024 * 1024;

impl Tap {
    fn of(process: &ProcessHandle) -> Option<Self> {
        let witness = process.world.witness()?.clone();
        let token = process.env(moored::platform::SPAWN_TOKEN_VARIABLE)?;
        let child = witness.child_of_token(&token)?;
        Some(Self { witness, child, read: Vec::new(), written: Vec::new() })
    }

    fn read(&mut self, bytes: &[u8]) {
        let (witness, child) = (&self.witness, self.child);
        lines(&mut self.read, bytes, |line| witness.agent_read(child, line));
    }

    fn written(&mut self, bytes: &[u8]) {
        let (witness, child) = (&self.witness, self.child);
        lines(&mut self.written, bytes, |line| witness.agent_wrote(child, line));
    }
}

/// Cuts a stream into its lines.
pub(crate) fn lines(kept: &mut Vec<u8>, bytes: &[u8], mut take: impl FnMut(&[u8])) {
    for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
        if kept.is_empty() && piece.ends_with(b"\n") {
            take(piece.trim_ascii_end());
            continue;
        }
        kept.extend_from_slice(piece);
        if piece.ends_with(b"\n") || kept.len() >= TAPPED_LINE_BYTES_MAX {
            take(kept.trim_ascii_end());
            kept.clear();
        }
    }
}

impl Body for SimBody {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let polled = self.process.poll_read(cx, buf);
        if let (Poll::Ready(Ok(count)), Some(tap)) = (&polled, &mut self.tap) {
            tap.read(&buf[..*count]);
        }
        polled
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        out: Out,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = match out {
            Out::Stderr => world::Stream::Stderr,
            Out::Stdout => world::Stream::Stdout,
        };
        let polled = self.process.poll_write(cx, stream, bytes);
        if let (Poll::Ready(Ok(count)), Some(tap), Out::Stdout) = (&polled, &mut self.tap, out) {
            tap.written(&bytes[..*count]);
        }
        polled
    }

    fn poll_signal(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        self.process.poll_signal(cx).map(|sig| match sig {
            Sig::Abrt => Signal::Abrt,
            Sig::Hup => Signal::Hup,
            Sig::Int => Signal::Int,
            Sig::Segv => Signal::Segv,
            Sig::Term | Sig::Kill | Sig::Stop | Sig::Cont => Signal::Term,
        })
    }

    fn poll_alarm(&mut self, cx: &mut Context<'_>, at_ms: u64) -> Poll<()> {
        self.process.poll_alarm(cx, Mono::from_ms(at_ms))
    }

    fn now_ms(&self) -> u64 {
        self.process.now().as_ms()
    }

    fn handle_signal(&mut self, signal: Signal) {
        self.process.handle_signal(sig(signal));
    }

    fn close(&mut self, stream: Stream) {
        let stream = match stream {
            Stream::Stderr => world::Stream::Stderr,
            Stream::Stdin => world::Stream::Stdin,
            Stream::Stdout => world::Stream::Stdout,
        };
        self.process.close(stream);
        if let Some(Tap { witness, child, .. }) = &self.tap {
            witness.see(&Seen::AgentClosed { child: *child, stream });
        }
    }

    async fn fork(&mut self, fork: Fork) -> io::Result<u32> {
        let place = match fork.group {
            Group::OwnSession => ForkPlace::OwnSession,
            Group::Same => ForkPlace::SameGroup,
        };
        let keeps: BTreeSet<_> =
            fork.holds_stdout.then_some(world::Stream::Stdout).into_iter().collect();
        let ignores: BTreeSet<_> = fork.ignores_term.then_some(Sig::Term).into_iter().collect();
        let child = world::Fork { name: PROGRAM.to_owned(), place, keeps, ignores };
        self.process
            .fork(child, move |mut process| async move {
                match fork.lives_ms {
                    Some(ms) => process.sleep_ms(ms).await,
                    None => std::future::pending().await,
                }
                0
            })
            .await
    }

    async fn stop_self(&mut self) {
        self.process.stop_self().await;
    }

    async fn append_file(&mut self, path: &str, line: &str) -> io::Result<()> {
        self.process.append_file(path, format!("{line}\n").as_bytes()).await
    }

    async fn read_file(&mut self, path: &str) -> io::Result<Option<String>> {
        let bytes = self.process.read_file(path).await?;
        Ok(bytes.map(|b| String::from_utf8_lossy(&b).into_owned()))
    }

    fn env(&self, name: &str) -> Option<String> {
        self.process.env(name)
    }

    fn pid(&self) -> u32 {
        self.process.pid()
    }
}

fn sig(signal: Signal) -> Sig {
    match signal {
        Signal::Abrt => Sig::Abrt,
        Signal::Hup => Sig::Hup,
        Signal::Int => Sig::Int,
        Signal::Kill => Sig::Kill,
        Signal::Segv => Sig::Segv,
        Signal::Term => Sig::Term,
    }
}
