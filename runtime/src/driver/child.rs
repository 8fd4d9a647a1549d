//! One child's tasks: stdout reader, stderr drainer, stdin writer. They end with the value that holds them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::platform::{
    AbortHandle, BoxFuture, Order, Platform, Reader, Report, SpawnError, SpawnedChild, Watched,
    Writer, spawn,
};
use crate::session::Frame;

/// Bytes of one read of a pipe.
const READ_BYTES: usize = 64 * 1024;
/// Bytes of a child's stdout that were read and not yet taken by its session (rule 1.5.8).
const STDOUT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Chunks of a child's stdout that were read and not yet taken by its session.
const STDOUT_CHUNKS_MAX: usize = 256;
/// Bytes of stderr kept for a session that is slow to take them; older ones go first (rule 1.5.9).
const STDERR_BYTES_MAX: usize = 32 * 1024;

const _: () = assert!(READ_BYTES <= STDOUT_BYTES_MAX, "one read fits");
const _: () = assert!(
    STDERR_BYTES_MAX >= crate::limits::STDERR_TAIL_CHARS_MAX * 4,
    "the tail a person reads fits, whatever its characters"
);

/// Bytes of stdout with the room they take.
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

/// What became of a frame.
pub(super) type Wrote = Result<usize, WriteFailed>;

/// A frame did not go out, and no later one will.
pub(super) struct WriteFailed;

/// The newest of a child's stderr that its session has not taken, bounded.
#[derive(Clone, Default)]
struct StderrTail(Arc<Mutex<VecDeque<u8>>>);

impl StderrTail {
    fn push(&self, bytes: &[u8]) {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(bytes);
        let over = tail.len().saturating_sub(STDERR_BYTES_MAX);
        tail.drain(..over);
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

/// A child as its session holds it. Dropping it ends its tasks and closes its pipes.
pub(super) struct Child {
    /// The spawn under way.
    pub(super) starting: Option<BoxFuture<Result<SpawnedChild, SpawnError>>>,
    /// Frames to its stdin; `None` once closed. Unbounded here: the session's machine counts what it has written and is
    /// told of each frame that left.
    stdin: Option<mpsc::UnboundedSender<Frame>>,
    /// Taken by the writer when the child is there.
    frames: Option<mpsc::UnboundedReceiver<Frame>>,
    /// One outcome for each frame, so no longer than the frames the machine counts.
    pub(super) wrote: Option<mpsc::UnboundedReceiver<Wrote>>,
    pub(super) stdout: Option<mpsc::Receiver<Chunk>>,
    stderr: Option<mpsc::Receiver<()>>,
    stderr_tail: StderrTail,
    pub(super) reports: Option<mpsc::Receiver<Report>>,
    orders: Option<mpsc::Sender<Order>>,
    /// The host has its proof: the end of the reports is no loss.
    pub(super) released: bool,
    /// Whether its stdout is read.
    pub(super) reading: bool,
    reading_shared: Watched<bool>,
    /// The task that holds its stdin.
    writer: Option<AbortHandle>,
    tasks: Vec<AbortHandle>,
}

impl Child {
    /// A child whose spawn is under way.
    pub(super) fn starting(spawn: BoxFuture<Result<SpawnedChild, SpawnError>>) -> Self {
        let (stdin, frames) = mpsc::unbounded_channel();
        Self {
            starting: Some(spawn),
            stdin: Some(stdin),
            frames: Some(frames),
            wrote: None,
            stdout: None,
            stderr: None,
            stderr_tail: StderrTail::default(),
            reports: None,
            orders: None,
            released: false,
            reading: true,
            reading_shared: Watched::new(true),
            writer: None,
            tasks: Vec::new(),
        }
    }

    /// The child is there: its tasks begin.
    pub(super) fn attach(&mut self, platform: &dyn Platform, spawned: SpawnedChild) {
        let (stdout, stdout_taken) = mpsc::channel(STDOUT_CHUNKS_MAX);
        let (stderr, stderr_taken) = mpsc::channel(1);
        let (wrote, wrote_taken) = mpsc::unbounded_channel();
        let read = read_stdout(spawned.stdout, self.reading_shared.clone(), stdout);
        self.tasks.push(spawn(platform, "child stdout", read).abort_handle());
        let drain = drain_stderr(spawned.stderr, self.stderr_tail.clone(), stderr);
        self.tasks.push(spawn(platform, "child stderr", drain).abort_handle());
        if let Some(frames) = self.frames.take() {
            let write = write_stdin(spawned.stdin, frames, wrote);
            self.writer = Some(spawn(platform, "child stdin", write).abort_handle());
        }
        self.stdout = Some(stdout_taken);
        self.stderr = Some(stderr_taken);
        self.wrote = Some(wrote_taken);
        self.orders = Some(spawned.orders);
        self.reports = Some(spawned.reports);
    }

    /// New bytes of its stderr, `None` at its end; pending for ever after that.
    pub(super) fn poll_stderr(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let Some(grown) = &mut self.stderr else { return Poll::Pending };
        let told = std::task::ready!(grown.poll_recv(cx));
        if told.is_none() {
            self.stderr = None;
        }
        Poll::Ready(told.map(|()| self.stderr_tail.take()))
    }

    /// Queues a frame behind the earlier ones. After a failed write nothing more goes out; the failure was told.
    pub(super) fn write(&self, frame: Frame) {
        if let Some(stdin) = &self.stdin {
            let _ = stdin.send(frame);
        }
    }

    /// Closes stdin behind the frames that are queued.
    pub(super) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Closes stdin, whatever is queued for it.
    pub(super) fn cut_stdin(&mut self) {
        self.stdin = None;
        // What it had not written is told no more.
        self.wrote = None;
        if let Some(writer) = self.writer.take() {
            writer.abort();
        }
    }

    /// Reads on, or leaves the agent's words in their pipe.
    pub(super) fn read(&mut self, on: bool) {
        self.reading = on;
        self.reading_shared.update(|reading| *reading = on);
    }

    /// Tells the supervisor. It cannot be full: the ladder has fewer steps than it holds, and a supervisor that is gone
    /// has said so or says so next.
    pub(super) fn order(&mut self, order: Order) {
        self.released |= order == Order::Release;
        let told = self.orders.as_ref().map(|orders| orders.try_send(order));
        if !matches!(told, Some(Ok(()))) {
            tracing::debug!(?order, "an order found no supervisor");
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        for task in self.tasks.iter().chain(&self.writer) {
            task.abort();
        }
    }
}

/// Reads while there is room and the session wants it, so that an agent that floods is slowed down by its own pipe.
async fn read_stdout(mut pipe: Reader, reading: Watched<bool>, chunks: mpsc::Sender<Chunk>) {
    let room = Arc::new(Semaphore::new(STDOUT_BYTES_MAX));
    let mut buffer = Vec::with_capacity(READ_BYTES);
    loop {
        reading.wait_for(|on| *on).await;
        // Room first, then the read: nothing is read that could not be kept.
        let Ok(mut kept) = Arc::clone(&room).acquire_many_owned(READ_BYTES as u32).await else {
            return;
        };
        buffer.clear();
        let Ok(read @ 1..) = pipe.read_buf(&mut buffer).await else { return };
        let Some(used) = kept.split(read) else { return };
        drop(kept);
        let chunk = Chunk { bytes: buffer.as_slice().to_vec(), _room: used };
        if chunks.send(chunk).await.is_err() {
            return;
        }
    }
}

/// Reads whatever the session does: an agent must never block on its own complaints (rule 1.5.9).
async fn drain_stderr(mut pipe: Reader, tail: StderrTail, grown: mpsc::Sender<()>) {
    let mut buffer = Vec::with_capacity(READ_BYTES);
    while let Ok(1..) = pipe.read_buf(&mut buffer).await {
        tail.push(&buffer);
        buffer.clear();
        // Full means that the session has been told and has not come yet; it takes all of it when it does.
        if matches!(grown.try_send(()), Err(mpsc::error::TrySendError::Closed(()))) {
            return;
        }
    }
}

/// Writes frames in order. After a failure the pipe is closed and the rest is dropped; reading goes on (rule 1.5.2).
async fn write_stdin(
    mut pipe: Writer,
    mut frames: mpsc::UnboundedReceiver<Frame>,
    wrote: mpsc::UnboundedSender<Wrote>,
) {
    while let Some(Frame(frame)) = frames.recv().await {
        let written = match pipe.write_all(&frame).await {
            Ok(()) => pipe.flush().await,
            failed => failed,
        };
        let outcome = written.map(|()| frame.len()).map_err(|_| WriteFailed);
        let failed = outcome.is_err();
        if wrote.send(outcome).is_err() || failed {
            return;
        }
    }
    let _ = pipe.shutdown().await;
}

#[cfg(test)]
#[path = "tests/child.rs"]
mod tests;
