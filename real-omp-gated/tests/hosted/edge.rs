//! A tap at the host's edge: when it wrote what to an agent, when it read the answer, and what it heard of the end.
//!
//! The host's share of a Stop's time and the agent's are told apart here and nowhere else.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use moored::platform::{
    BoxFuture, ChildSpec, FilePattern, FileTail, Mono, ORDERS_MAX, Platform, Report,
    SharedPlatform, SpawnError, SpawnedChild,
};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

/// Something that crossed the edge.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Crossed {
    /// The host wrote a request or a notification.
    Wrote(String),
    /// The host read the answer to a request of this method.
    Answered(String),
    /// The host closed the agent's stdin.
    Eof,
    /// The host heard of the root's end.
    Exited,
    /// The host heard that nothing of the tree is left.
    Swept,
}

/// What crossed, when, between the host and which child: the first is 1.
#[derive(Clone, Debug)]
pub struct Sight {
    pub child: usize,
    pub what: Crossed,
    pub at: Mono,
}

/// All that crossed.
#[derive(Default)]
pub struct Edge {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    children: usize,
    sights: Vec<Sight>,
    /// Methods of the requests of each child that are not answered.
    asked: BTreeMap<(usize, u64), String>,
}

impl Edge {
    /// When this first crossed between the host and the child.
    pub fn when(&self, child: usize, what: &Crossed) -> Option<Mono> {
        let seen = self.seen();
        seen.sights.iter().find(|s| s.child == child && s.what == *what).map(|s| s.at)
    }

    /// When this last crossed between the host and the child.
    pub fn last(&self, child: usize, what: &Crossed) -> Option<Mono> {
        let seen = self.seen();
        seen.sights.iter().rev().find(|s| s.child == child && s.what == *what).map(|s| s.at)
    }

    /// How often the host wrote this method.
    pub fn wrote(&self, method: &str) -> usize {
        let is = |sight: &&Sight| sight.what == Crossed::Wrote(method.to_owned());
        self.seen().sights.iter().filter(is).count()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn see(&self, child: usize, what: Crossed, at: Mono) {
        self.seen().sights.push(Sight { child, what, at });
    }

    fn wrote_line(&self, child: usize, line: &[u8], at: Mono) {
        let Ok(frame) = serde_json::from_slice::<Value>(line) else { return };
        let Some(method) = frame["method"].as_str() else { return };
        if let Some(id) = frame["id"].as_u64() {
            self.seen().asked.insert((child, id), method.to_owned());
        }
        self.see(child, Crossed::Wrote(method.to_owned()), at);
    }

    fn read_line(&self, child: usize, line: &[u8], at: Mono) {
        let Ok(frame) = serde_json::from_slice::<Value>(line) else { return };
        let Some(id) = frame["id"].as_u64().filter(|_| frame.get("method").is_none()) else {
            return;
        };
        let method = self.seen().asked.remove(&(child, id));
        if let Some(method) = method {
            self.see(child, Crossed::Answered(method), at);
        }
    }
}

/// A platform with a tap.
pub struct Tapped {
    pub inner: SharedPlatform,
    pub edge: Arc<Edge>,
}

impl Platform for Tapped {
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
        let number = {
            let mut seen = self.edge.seen();
            seen.children += 1;
            seen.children
        };
        let (spawned, platform) = (self.inner.spawn_child(spec), Arc::clone(&self.inner));
        let tap = Tap { child: number, edge: Arc::clone(&self.edge), platform };
        Box::pin(async move { Ok(tap.onto(spawned.await?)) })
    }

    fn read_tail(&self, pattern: FilePattern, bytes_max: u64) -> BoxFuture<FileTail> {
        self.inner.read_tail(pattern, bytes_max)
    }

    fn entropy(&self) -> [u8; 16] {
        self.inner.entropy()
    }
}

/// The tap on one child.
#[derive(Clone)]
struct Tap {
    child: usize,
    edge: Arc<Edge>,
    platform: SharedPlatform,
}

impl Tap {
    fn onto(self, mut child: SpawnedChild) -> SpawnedChild {
        child.stdin = Box::pin(Stdin { inner: child.stdin, line: Vec::new(), tap: self.clone() });
        child.stdout =
            Box::pin(Stdout { inner: child.stdout, line: Vec::new(), tap: self.clone() });
        let (told, reports) = mpsc::channel(ORDERS_MAX);
        let heard = std::mem::replace(&mut child.reports, reports);
        let platform = Arc::clone(&self.platform);
        platform.spawn_task("tap", Box::pin(self.pass_on(heard, told)));
        child
    }

    async fn pass_on(self, mut heard: mpsc::Receiver<Report>, told: mpsc::Sender<Report>) {
        while let Some(report) = heard.recv().await {
            match &report {
                Report::Exited { .. } => self.see(Crossed::Exited),
                Report::Swept { empty: true, .. } => self.see(Crossed::Swept),
                _ => {}
            }
            if told.send(report).await.is_err() {
                return;
            }
        }
    }

    fn see(&self, what: Crossed) {
        self.edge.see(self.child, what, self.platform.now());
    }

    /// Hands the lines that are complete with these bytes to `take`.
    fn lines(&self, line: &mut Vec<u8>, bytes: &[u8], take: fn(&Edge, usize, &[u8], Mono)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                take(&self.edge, self.child, &std::mem::take(line), self.platform.now());
            }
        }
    }
}

struct Stdin {
    inner: moored::platform::Writer,
    line: Vec<u8>,
    tap: Tap,
}

impl AsyncWrite for Stdin {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.inner.as_mut().poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = &written {
            let this = &mut *self;
            this.tap.lines(&mut this.line, &bytes[..*count], Edge::wrote_line);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.as_mut().poll_shutdown(cx)
    }
}

impl Drop for Stdin {
    /// The end of a child's input is its writer's end.
    fn drop(&mut self) {
        self.tap.see(Crossed::Eof);
    }
}

struct Stdout {
    inner: moored::platform::Reader,
    line: Vec<u8>,
    tap: Tap,
}

impl AsyncRead for Stdout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.inner.as_mut().poll_read(cx, buffer);
        if read.is_ready() {
            let this = &mut *self;
            this.tap.lines(&mut this.line, &buffer.filled()[before..], Edge::read_line);
        }
        read
    }
}
