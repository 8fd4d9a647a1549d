//! A tap on the wire: what the host wrote to its agents and read from them, whatever platform is under it.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use moored::coverage::{CoverageMark, CoverageMarks};
use moored::platform::{
    BoxFuture, ChildSpec, FilePattern, FileTail, Mono, ORDERS_MAX, Order, Platform, Report,
    SharedPlatform, SpawnError, SpawnedChild,
};
use moored::session::SessionPhase;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, mpsc};

use crate::faults::Faults;

/// Reports that wait between a supervisor and its host while somebody meddles.
const REPORTS_MAX: usize = 64;

/// What went over the wire.
#[derive(Default)]
pub(crate) struct Wire {
    /// Whether updates are looked into: it costs a parse of each.
    reads_updates: bool,
    seen: Mutex<Seen>,
    changed: Notify,
}

#[derive(Default)]
struct Seen {
    /// Whole lines the host wrote.
    written: Vec<String>,
    /// Updates the host read, and the bytes of text in each.
    updates: Vec<usize>,
    starts: u64,
    met: CoverageMarks,
}

impl Wire {
    /// A wire whose updates are counted only if somebody asks for them.
    pub(crate) fn new(reads_updates: bool) -> Self {
        Self { reads_updates, ..Self::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The methods the host wrote, in order; replies are `reply`.
    pub(crate) fn methods(&self) -> Vec<String> {
        #[derive(serde::Deserialize)]
        struct Call<'a> {
            #[serde(borrow)]
            method: Option<std::borrow::Cow<'a, str>>,
        }
        let method = |line: &String| {
            let call = serde_json::from_str::<Call<'_>>(line).ok().and_then(|c| c.method);
            call.map_or_else(|| "reply".to_owned(), std::borrow::Cow::into_owned)
        };
        self.seen().written.iter().map(method).collect()
    }

    /// The lines the host wrote.
    pub(crate) fn written(&self) -> Vec<String> {
        self.seen().written.clone()
    }

    /// Bytes of text in the first `n` updates, once there are so many.
    pub(crate) fn text_bytes_of(&self, n: u64) -> Option<usize> {
        let n = usize::try_from(n).ok()?;
        let seen = self.seen();
        (seen.updates.len() >= n).then(|| seen.updates[..n].iter().sum())
    }

    /// Resolves at the next thing that is seen.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Children that were asked for.
    pub(crate) fn starts(&self) -> u64 {
        self.seen().starts
    }

    /// The library's rare branches that were met.
    pub(crate) fn met(&self) -> CoverageMarks {
        self.seen().met
    }

    fn read(&self, line: &[u8]) {
        if !self.reads_updates {
            return;
        }
        let Ok(frame) = serde_json::from_slice::<serde_json::Value>(line) else {
            return;
        };
        if frame["method"] == "session/update" {
            let update = &frame["params"]["update"];
            let text = update["content"]["text"].as_str().unwrap_or_default();
            let is_chunk = update["sessionUpdate"].as_str().is_some_and(|k| k.ends_with("_chunk"));
            self.seen().updates.push(if is_chunk { text.len() } else { 0 });
            self.changed.notify_waiters();
        }
    }
}

/// A platform with a tap on its children's pipes.
pub(crate) struct TappedPlatform {
    inner: SharedPlatform,
    wire: Arc<Wire>,
    /// Whose faults stand between the host and its supervisors, if anything does.
    meddled: Option<Arc<Faults>>,
}

impl TappedPlatform {
    pub(crate) fn new(
        inner: SharedPlatform,
        wire: Arc<Wire>,
        meddled: Option<Arc<Faults>>,
    ) -> Self {
        Self { inner, wire, meddled }
    }
}

/// Orders to signal are answered as refused while the faults say so; everything else passes.
fn meddle(platform: &dyn Platform, faults: Arc<Faults>, child: &mut SpawnedChild) {
    let (orders, mut from_host) = mpsc::channel(ORDERS_MAX);
    let (to_host, reports) = mpsc::channel(REPORTS_MAX);
    let to_supervisor = std::mem::replace(&mut child.orders, orders);
    let mut from_supervisor = std::mem::replace(&mut child.reports, reports);
    let refusals = to_host.clone();
    let down = async move {
        while let Some(order) = from_host.recv().await {
            let sent = match order {
                Order::Signal { signal } if faults.signals_refused() => {
                    let refused = Report::Signalled { signal, delivered: false };
                    refusals.send(refused).await.is_ok()
                }
                order => to_supervisor.send(order).await.is_ok(),
            };
            if !sent {
                return;
            }
        }
    };
    let up = async move {
        while let Some(report) = from_supervisor.recv().await {
            if to_host.send(report).await.is_err() {
                return;
            }
        }
    };
    platform.spawn_task("orders", Box::pin(down));
    platform.spawn_task("reports", Box::pin(up));
}

impl Platform for TappedPlatform {
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
        self.wire.seen().starts += 1;
        let spawned = self.inner.spawn_child(spec);
        let wire = Arc::clone(&self.wire);
        let (platform, meddled) = (Arc::clone(&self.inner), self.meddled.clone());
        Box::pin(async move {
            let mut child = spawned.await?;
            if let Some(faults) = meddled {
                meddle(platform.as_ref(), faults, &mut child);
            }
            let stdin = Tapped { inner: child.stdin, line: Vec::new(), wire: Arc::clone(&wire) };
            child.stdin = Box::pin(stdin);
            child.stdout = Box::pin(Tapped { inner: child.stdout, line: Vec::new(), wire });
            Ok(child)
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
    }

    fn observes_steps(&self) -> bool {
        self.inner.observes_steps()
    }

    fn stepped(&self, before: SessionPhase, fact: &'static str, after: SessionPhase) {
        self.inner.stepped(before, fact, after);
    }

    fn met(&self, mark: CoverageMark) {
        self.wire.seen().met.insert(mark);
        self.inner.met(mark);
    }
}

struct Tapped<T> {
    inner: T,
    line: Vec<u8>,
    wire: Arc<Wire>,
}

impl<T> Tapped<T> {
    fn lines(&mut self, bytes: &[u8], mut take: impl FnMut(&Wire, &[u8])) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                take(&self.wire, line.trim_ascii_end());
            }
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Tapped<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, buf);
        if let Poll::Ready(Ok(n)) = &polled {
            let n = *n;
            self.lines(&buf[..n], |wire, line| {
                wire.seen().written.push(String::from_utf8_lossy(line).into_owned());
            });
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Tapped<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if polled.is_ready() {
            let bytes = buf.filled()[before..].to_vec();
            self.lines(&bytes, Wire::read);
        }
        polled
    }
}
