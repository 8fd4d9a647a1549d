//! What a program may do: the system calls of a simulated process.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use moored::platform::{BoxFuture, Exit, Mono, ProcessIdentity};

use super::pipe::wait;
use super::table::PROCESSES_MAX;
use super::{Disposition, Newborn, ProcessState, SharedWorld, Sig, Tag};
use crate::kernel::SharedKernel;

/// One of the three standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// Standard error.
    Stderr,
    /// Standard input.
    Stdin,
    /// Standard output.
    Stdout,
}

/// Where a forked child lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForkPlace {
    /// Outside its parent's job (win32); elsewhere as [`ForkPlace::OwnSession`].
    Breakaway,
    /// In a session and group of its own, as `setsid` makes it.
    OwnSession,
    /// In its parent's group.
    #[default]
    SameGroup,
}

/// A child to fork.
#[derive(Clone, Debug, Default)]
pub struct Fork {
    /// Its short name.
    pub name: String,
    /// Where it lives.
    pub place: ForkPlace,
    /// Which of its parent's streams it keeps open.
    pub keeps: BTreeSet<Stream>,
    /// Signals that leave it alive, besides those its parent ignores.
    pub ignores: BTreeSet<Sig>,
}

/// What a process was started with.
#[derive(Clone, Default)]
pub(crate) struct StartedWith {
    pub argv: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub cwd: String,
}

/// A process, as its own body holds it.
pub struct ProcessHandle {
    pub(crate) world: SharedWorld,
    pub(crate) identity: ProcessIdentity,
    scope: SharedKernel,
    with: Arc<StartedWith>,
    /// Under a lock only so that a body may share its handle between its own futures.
    alarm: Mutex<Option<(Mono, BoxFuture<()>)>>,
    /// Whether the present wait for a signal has suspended.
    signal_suspended: bool,
}

/// A body that runs only while its process may: a frozen or dying process takes no step.
struct Gated {
    world: SharedWorld,
    identity: ProcessIdentity,
    body: BoxFuture<i32>,
}

impl Future for Gated {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        {
            let mut guard = this.world.lock();
            let state = &mut *guard;
            let stopped = state
                .table
                .row(this.identity.pid)
                .is_some_and(|row| row.state == ProcessState::Stopped);
            let Some(life) = state.lives.get_mut(&this.identity.pid) else { return Poll::Pending };
            if stopped || life.dying {
                wait(&mut life.gate, cx);
                return Poll::Pending;
            }
        }
        let Poll::Ready(code) = this.body.as_mut().poll(cx) else { return Poll::Pending };
        let takes_us =
            this.world.kernel.choose("process.exit_us", this.world.options().exit_us_max);
        this.world.begin_death(&this.identity, Exit::Code(code), takes_us);
        Poll::Ready(())
    }
}

/// Puts a process into the world and runs its body.
pub(super) fn start<B>(
    world: &SharedWorld,
    newborn: Newborn,
    with: Arc<StartedWith>,
    body: B,
) -> ProcessIdentity
where
    B: FnOnce(ProcessHandle) -> BoxFuture<i32>,
{
    let (identity, scope) = world.admit(newborn);
    let handle = ProcessHandle {
        world: Arc::clone(world),
        identity: identity.clone(),
        scope: Arc::clone(&scope),
        with,
        alarm: Mutex::new(None),
        signal_suspended: false,
    };
    let gated = Gated { world: Arc::clone(world), identity: identity.clone(), body: body(handle) };
    scope.spawn("process", Box::pin(gated));
    identity
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the stream is closed")
}

impl ProcessHandle {
    /// Its number.
    pub fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// Its number and start.
    pub fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// Program and arguments.
    pub fn argv(&self) -> &[String] {
        &self.with.argv
    }

    /// A variable of its environment.
    pub fn env(&self, name: &str) -> Option<String> {
        self.with.environment.get(name).cloned()
    }

    /// Its environment.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.with.environment
    }

    /// Its working directory.
    pub fn cwd(&self) -> &str {
        &self.with.cwd
    }

    /// The machine's monotonic clock.
    pub fn now(&self) -> Mono {
        self.scope.now()
    }

    /// A number below `n`, 0 benign; programs draw under `agent.`.
    pub fn choose(&self, label: &'static str, n: u64) -> u64 {
        self.scope.choose(label, n)
    }

    /// Notes an event.
    pub fn note(&self, what: &'static str, detail: std::fmt::Arguments<'_>) {
        self.world.note(what, format_args!("{} {detail}", Tag(self.pid())));
    }

    /// Reads standard input; 0 is its end. Cancel-safe.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = self.world.lock();
        let Some(life) = state.lives.get_mut(&self.identity.pid) else { return Poll::Pending };
        match &mut life.stdin {
            Some(end) => end.poll_bytes(cx, buf),
            None => Poll::Ready(Err(closed())),
        }
    }

    /// Writes at least one byte of a slice that is not empty. Cancel-safe.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        stream: Stream,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.world.lock();
        let Some(life) = state.lives.get_mut(&self.identity.pid) else { return Poll::Pending };
        let end = match stream {
            Stream::Stdin => &mut None,
            Stream::Stdout => &mut life.stdout,
            Stream::Stderr => &mut life.stderr,
        };
        match end {
            Some(end) => end.poll_bytes(cx, bytes),
            None => Poll::Ready(Err(closed())),
        }
    }

    /// The next signal it handles. Cancel-safe.
    pub fn poll_signal(&mut self, cx: &mut Context<'_>) -> Poll<Sig> {
        let mut state = self.world.lock();
        let Some(life) = state.lives.get_mut(&self.identity.pid) else { return Poll::Pending };
        if life.pending.is_empty() || !self.signal_suspended {
            if life.pending.is_empty() {
                wait(&mut life.signal_waiters, cx);
            } else {
                cx.waker().wake_by_ref();
            }
            self.signal_suspended = true;
            return Poll::Pending;
        }
        self.signal_suspended = false;
        life.pending.pop_front().map_or(Poll::Pending, Poll::Ready)
    }

    /// Ready at or after `at`. There is one alarm: another time replaces it.
    pub fn poll_alarm(&mut self, cx: &mut Context<'_>, at: Mono) -> Poll<()> {
        let place = self.alarm.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (_, alarm) = match place {
            Some(alarm) if alarm.0 == at => alarm,
            _ => place.insert((at, self.world.timer(at))),
        };
        let polled = alarm.as_mut().poll(cx);
        if polled.is_ready() {
            *place = None;
        }
        polled
    }

    /// Reads standard input; 0 is its end.
    pub async fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, buf)).await
    }

    /// Writes everything.
    pub async fn write_all(&mut self, stream: Stream, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = poll_fn(|cx| self.poll_write(cx, stream, bytes)).await?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// The next signal it handles.
    pub async fn next_signal(&mut self) -> Sig {
        poll_fn(|cx| self.poll_signal(cx)).await
    }

    /// Sleeps until `at`.
    pub async fn sleep_until(&mut self, at: Mono) {
        poll_fn(|cx| self.poll_alarm(cx, at)).await;
    }

    /// Sleeps for `ms` milliseconds.
    pub async fn sleep_ms(&mut self, ms: u64) {
        let at = self.now().plus_ms(ms);
        self.sleep_until(at).await;
    }

    /// Closes a stream; twice is once.
    pub fn close(&mut self, stream: Stream) {
        let mut state = self.world.lock();
        let Some(life) = state.lives.get_mut(&self.identity.pid) else { return };
        match stream {
            Stream::Stdin => drop(life.stdin.take()),
            Stream::Stdout => drop(life.stdout.take()),
            Stream::Stderr => drop(life.stderr.take()),
        }
    }

    /// From now on the signal is given by [`ProcessHandle::next_signal`] instead of ending the process.
    pub fn handle_signal(&mut self, sig: Sig) {
        self.dispose(sig, Disposition::Handled);
    }

    /// From now on the signal does nothing.
    pub fn ignore_signal(&mut self, sig: Sig) {
        self.dispose(sig, Disposition::Ignored);
    }

    fn dispose(&mut self, sig: Sig, disposition: Disposition) {
        if let Some(life) = self.world.lock().lives.get_mut(&self.identity.pid) {
            life.dispositions.insert(sig, disposition);
        }
    }

    /// Starts a child that runs `body`, and gives its number.
    pub async fn fork<B, F>(&mut self, fork: Fork, body: B) -> io::Result<u32>
    where
        B: FnOnce(Self) -> F + Send + 'static,
        F: Future<Output = i32> + Send + 'static,
    {
        let options = self.world.options();
        self.pause("process.fork_us", options.spawn_us_max).await;
        if self.scope.one_in("process.fork_refused", self.world.options().fork_refused_one_in) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let newborn = self.newborn(&fork)?;
        let with = Arc::clone(&self.with);
        let identity = start(&self.world, newborn, with, |process| Box::pin(body(process)));
        Ok(identity.pid)
    }

    fn newborn(&self, fork: &Fork) -> io::Result<Newborn> {
        let state = self.world.lock();
        let gone = || io::Error::new(io::ErrorKind::NotFound, "the process is gone");
        if state.table.rows().count() >= PROCESSES_MAX {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let row = state.table.row(self.identity.pid).ok_or_else(gone)?;
        let life = state.lives.get(&self.identity.pid).ok_or_else(gone)?;
        let ignored = life.dispositions.iter().filter(|(_, how)| **how == Disposition::Ignored);
        let ignored = ignored.map(|(sig, _)| *sig).chain(fork.ignores.iter().copied());
        let same = fork.place == ForkPlace::SameGroup;
        Ok(Newborn {
            group: same.then_some(row.group),
            session: same.then_some(row.session),
            job: row.job.filter(|_| fork.place != ForkPlace::Breakaway),
            token: row.token.clone(),
            dispositions: ignored.map(|sig| (sig, Disposition::Ignored)).collect(),
            stdin: life.stdin.clone().filter(|_| fork.keeps.contains(&Stream::Stdin)),
            stdout: life.stdout.clone().filter(|_| fork.keeps.contains(&Stream::Stdout)),
            stderr: life.stderr.clone().filter(|_| fork.keeps.contains(&Stream::Stderr)),
            ..Newborn::new(self.identity.pid, &fork.name)
        })
    }

    /// Freezes itself, as SIGSTOP does; returns once somebody continued it.
    pub async fn stop_self(&mut self) {
        let mut stopped = false;
        poll_fn(|cx| {
            if stopped {
                return Poll::Ready(());
            }
            stopped = true;
            let mut guard = self.world.lock();
            let state = &mut *guard;
            if let Some(row) = state.table.row_mut(self.identity.pid) {
                row.state = ProcessState::Stopped;
            }
            if let Some(life) = state.lives.get_mut(&self.identity.pid) {
                wait(&mut life.gate, cx);
            }
            Poll::Pending
        })
        .await;
    }

    /// Dies by a signal, in its default disposition. Never returns.
    pub async fn die(&mut self, sig: Sig) {
        let takes_us = self.choose("process.death_us", self.world.options().death_us_max);
        self.world.begin_death(&self.identity, Exit::Signal(sig.number()), takes_us);
        std::future::pending().await
    }

    /// Exits from wherever its body is. Never returns.
    pub async fn exit(&mut self, code: i32) {
        let takes_us = self.choose("process.exit_us", self.world.options().exit_us_max);
        self.world.begin_death(&self.identity, Exit::Code(code), takes_us);
        std::future::pending().await
    }

    /// Appends to a file in one write, creating it.
    pub async fn append_file(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.pause("process.file_us", self.world.options().file_us_max).await;
        self.world.lock().files.entry(path.to_owned()).or_default().extend_from_slice(bytes);
        self.world.note("file.appended", format_args!("{path} {}", bytes.len()));
        Ok(())
    }

    /// The whole file, or `None` if there is none.
    pub async fn read_file(&mut self, path: &str) -> io::Result<Option<Vec<u8>>> {
        self.pause("process.file_us", self.world.options().file_us_max).await;
        Ok(self.world.file(path))
    }

    /// Takes a chosen time, and suspends once.
    pub(super) fn pause(&self, label: &'static str, us_max: u64) -> BoxFuture<()> {
        let us = self.scope.choose(label, us_max);
        self.scope.sleep_us(us)
    }
}
