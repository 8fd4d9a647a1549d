//! A host's platform with the witness at its seams: the children it asks for, and what it writes to them.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use moored::coverage::CoverageMark;
use moored::driver::SESSION_FAILED;
use moored::ids::SessionId;
use moored::platform::{
    BoxFuture, ChildSpec, FilePattern, FileTail, Mono, Platform, SpawnError, SpawnedChild, Writer,
};
use moored::session::SessionPhase;
use tokio::io::AsyncWrite;

use crate::SimPlatform;
use crate::agent::lines;
use crate::explore::key_of;
use crate::oracles::Violation;
use crate::witness::{ChildNo, HostNo, Line, Seen, SharedWitness};

/// One host process, seen.
pub struct SeenPlatform {
    pub(super) inner: SimPlatform,
    pub(super) witness: SharedWitness,
    pub(super) host: HostNo,
    /// Whose every child is; none where each session has a folder of its own, named like it.
    pub(super) session: Option<SessionId>,
    /// Set right before the host crashes, so that what falls with it is told from what it did.
    pub(super) crashing: Arc<AtomicBool>,
}

impl SeenPlatform {
    /// The first host of a run, all of whose children are of one session.
    pub fn of_one(inner: SimPlatform, witness: SharedWitness, session: SessionId) -> Self {
        Self { inner, witness, host: 0, session: Some(session), crashing: Arc::default() }
    }
}

impl Platform for SeenPlatform {
    fn now(&self) -> Mono {
        self.inner.now()
    }

    fn wall_ms(&self) -> u64 {
        self.inner.wall_ms()
    }

    fn sleep_until(&self, at: Mono) -> BoxFuture<()> {
        self.inner.sleep_until(at)
    }

    fn spawn_task(&self, name: &'static str, task: BoxFuture<()>) {
        self.inner.spawn_task(name, task);
    }

    fn spawn_child(&self, spec: ChildSpec) -> BoxFuture<Result<SpawnedChild, SpawnError>> {
        let folder = || SessionId::from(spec.cwd.rsplit('/').next().unwrap_or_default());
        let session = self.session.clone().unwrap_or_else(folder);
        let child = self.witness.spawning(self.host, &session, spec.token.as_str());
        let spawned = self.inner.spawn_child(spec);
        let (witness, crashing) = (Arc::clone(&self.witness), Arc::clone(&self.crashing));
        Box::pin(async move {
            let mut started = match spawned.await {
                Ok(started) => started,
                Err(error) => {
                    witness.see(&Seen::SpawnFailed { child, reason: &error.to_string() });
                    return Err(error);
                }
            };
            let stdin = SeenStdin {
                inner: started.stdin,
                child,
                line: Vec::new(),
                broken: false,
                witness,
                crashing,
            };
            started.stdin = Box::pin(stdin);
            Ok(started)
        })
    }

    fn read_tail(&self, pattern: FilePattern, bytes_max: u64) -> BoxFuture<FileTail> {
        self.inner.read_tail(pattern, bytes_max)
    }

    fn entropy(&self) -> [u8; 16] {
        self.inner.entropy()
    }

    fn event(&self, what: &'static str, detail: fmt::Arguments<'_>) {
        self.inner.event(what, detail);
        if what == SESSION_FAILED {
            let violation = Violation::own_fault(detail.to_string(), self.inner.now());
            self.witness.accuse(violation);
        } else if self.witness.keeps() {
            self.witness.see(&Seen::Did { host: self.host, what: &detail.to_string() });
        }
    }

    fn observes_steps(&self) -> bool {
        true
    }

    fn stepped(&self, before: SessionPhase, fact: &'static str, after: SessionPhase) {
        if let Some(key) = key_of(before, fact, after) {
            self.witness.transition(key);
        }
    }

    fn met(&self, mark: CoverageMark) {
        self.witness.met(mark);
    }
}

struct SeenStdin {
    inner: Writer,
    child: ChildNo,
    line: Vec<u8>,
    /// A write has failed.
    broken: bool,
    witness: SharedWitness,
    crashing: Arc<AtomicBool>,
}

impl AsyncWrite for SeenStdin {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = self.inner.as_mut().poll_write(cx, buf);
        self.broken |= matches!(polled, Poll::Ready(Err(_)));
        if let Poll::Ready(Ok(count)) = &polled {
            let this = &mut *self;
            let (witness, child) = (&this.witness, this.child);
            lines(&mut this.line, &buf[..*count], |line| {
                witness.see(&Seen::HostWrote { child, line: &Line::read(line) });
            });
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.as_mut().poll_shutdown(cx)
    }
}

impl Drop for SeenStdin {
    fn drop(&mut self) {
        let by_crash = self.crashing.load(Ordering::Relaxed);
        let (child, broken) = (self.child, self.broken);
        self.witness.see(&Seen::StdinClosed { child, by_crash, broken });
    }
}
