//! The scripted agents' body in the simulated world: the same interpreter, other system calls.

use std::collections::BTreeSet;
use std::io;
use std::task::{Context, Poll};

use moored::platform::Mono;
use moored_fake_agents::{Body, End, Fork, Group, Out, Script, Signal, Stream};
use moored_sim::world::{self, ForkPlace, Sig};
use moored_sim::{ProcessHandle, Programs};

/// The name the scripted agent has in a simulated world.
pub(crate) const PROGRAM: &str = "scenario-agent";

/// A world's programs: the scripted agent.
pub(crate) fn programs(script: Script) -> Programs {
    Programs::default().with(PROGRAM, move |process| {
        let script = script.clone();
        async move {
            let mut body = SimBody(process);
            match moored_fake_agents::run(&script, &mut body).await {
                End::Exited(code) => code,
                End::Signalled(signal) => {
                    body.0.die(sig(signal)).await;
                    0
                }
            }
        }
    })
}

struct SimBody(ProcessHandle);

impl Body for SimBody {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll_read(cx, buf)
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
        self.0.poll_write(cx, stream, bytes)
    }

    fn poll_signal(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        self.0.poll_signal(cx).map(|sig| match sig {
            Sig::Abrt => Signal::Abrt,
            Sig::Hup => Signal::Hup,
            Sig::Int => Signal::Int,
            Sig::Segv => Signal::Segv,
            Sig::Term | Sig::Kill | Sig::Stop | Sig::Cont => Signal::Term,
        })
    }

    fn poll_alarm(&mut self, cx: &mut Context<'_>, at_ms: u64) -> Poll<()> {
        self.0.poll_alarm(cx, Mono::from_ms(at_ms))
    }

    fn now_ms(&self) -> u64 {
        self.0.now().as_ms()
    }

    fn handle_signal(&mut self, signal: Signal) {
        self.0.handle_signal(sig(signal));
    }

    fn close(&mut self, stream: Stream) {
        self.0.close(match stream {
            Stream::Stderr => world::Stream::Stderr,
            Stream::Stdin => world::Stream::Stdin,
            Stream::Stdout => world::Stream::Stdout,
        });
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
        self.0
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
        self.0.stop_self().await;
    }

    async fn append_file(&mut self, path: &str, line: &str) -> io::Result<()> {
        self.0.append_file(path, format!("{line}\n").as_bytes()).await
    }

    async fn read_file(&mut self, path: &str) -> io::Result<Option<String>> {
        let bytes = self.0.read_file(path).await?;
        Ok(bytes.map(|b| String::from_utf8_lossy(&b).into_owned()))
    }

    fn env(&self, name: &str) -> Option<String> {
        self.0.env(name)
    }

    fn pid(&self) -> u32 {
        self.0.pid()
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
