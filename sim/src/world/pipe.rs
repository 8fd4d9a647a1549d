//! Pipes: a capacity, chunks that arrive late and cut anywhere, EOF once the last writing end is closed, a broken pipe
//! once the last reading end is.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use moored::platform::{BoxFuture, Mono};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::kernel::SharedKernel;

/// What a pipe holds before its writer waits: Linux's default.
pub const PIPE_BYTES_MAX: usize = 64 * 1024;
/// A write arrives in at most this many pieces.
const PIECES_MAX: u64 = 3;

struct State {
    chunks: VecDeque<(Mono, Vec<u8>)>,
    /// Bytes of the first chunk that were read.
    read_of_first: usize,
    bytes: usize,
    /// When its reader reads its end; none until it has looked for it.
    ends: Option<Mono>,
    readers: usize,
    writers: usize,
    waiting_readers: Vec<Waker>,
    waiting_writers: Vec<Waker>,
}

struct Pipe {
    kernel: SharedKernel,
    latency_us_max: u64,
    end_us_max: u64,
    state: Mutex<State>,
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Read,
    Write,
}

/// One open end, closed once.
struct End {
    pipe: Arc<Pipe>,
    side: Side,
    closed: AtomicBool,
}

impl End {
    fn open(pipe: &Arc<Pipe>, side: Side) -> Arc<Self> {
        let mut state = pipe.lock();
        match side {
            Side::Read => state.readers += 1,
            Side::Write => state.writers += 1,
        }
        drop(state);
        Arc::new(Self { pipe: Arc::clone(pipe), side, closed: AtomicBool::new(false) })
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn close(&self) {
        if self.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut state = self.pipe.lock();
        let waiting = match self.side {
            Side::Read => {
                state.readers -= 1;
                std::mem::take(&mut state.waiting_writers)
            }
            Side::Write => {
                state.writers -= 1;
                std::mem::take(&mut state.waiting_readers)
            }
        };
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.close();
    }
}

/// Closes an end from outside, as the operating system does when its process dies.
pub(crate) struct EndCloser(Weak<End>);

impl EndCloser {
    pub(crate) fn close(&self) {
        if let Some(end) = self.0.upgrade() {
            end.close();
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// The end that is read. A clone is another open end of the same pipe, as a fork makes one.
pub struct ReadEnd {
    end: Arc<End>,
    arrival: Option<BoxFuture<()>>,
    suspended: bool,
}

/// The end that is written. A clone is another open end of the same pipe.
pub struct WriteEnd {
    end: Arc<End>,
    suspended: bool,
}

/// A new pipe. `latency_us_max` bounds how late a chunk arrives.
pub fn pipe(kernel: SharedKernel, latency_us_max: u64) -> (WriteEnd, ReadEnd) {
    pipe_ending_late(kernel, latency_us_max, 0)
}

/// A new pipe whose end is read up to `end_us_max` after its reader has looked for it.
pub fn pipe_ending_late(
    kernel: SharedKernel,
    latency_us_max: u64,
    end_us_max: u64,
) -> (WriteEnd, ReadEnd) {
    let state = Mutex::new(State {
        chunks: VecDeque::new(),
        read_of_first: 0,
        bytes: 0,
        ends: None,
        readers: 0,
        writers: 0,
        waiting_readers: Vec::new(),
        waiting_writers: Vec::new(),
    });
    let pipe = Arc::new(Pipe { kernel, latency_us_max, end_us_max, state });
    let write = WriteEnd { end: End::open(&pipe, Side::Write), suspended: false };
    let read = ReadEnd { end: End::open(&pipe, Side::Read), arrival: None, suspended: false };
    (write, read)
}

/// Notes who waits, once however often it is polled.
pub(super) fn wait(waiting: &mut Vec<Waker>, cx: &Context<'_>) {
    if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
        waiting.push(cx.waker().clone());
    }
}

/// An operation that completes without suspending is no scheduling point: the first poll of each gives way.
fn gives_way(suspended: &mut bool, cx: &Context<'_>) -> bool {
    if *suspended {
        return false;
    }
    *suspended = true;
    cx.waker().wake_by_ref();
    true
}

impl Clone for ReadEnd {
    fn clone(&self) -> Self {
        let end = End::open(&self.end.pipe, Side::Read);
        Self { end, arrival: None, suspended: false }
    }
}

impl ReadEnd {
    pub(crate) fn closer(&self) -> EndCloser {
        EndCloser(Arc::downgrade(&self.end))
    }

    /// Reads what has arrived; 0 is the end of the stream.
    pub fn poll_bytes(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_arrived(cx, buf.len(), |bytes| buf[..bytes.len()].copy_from_slice(bytes))
    }

    /// Hands over at most `most` bytes of what has arrived, and tells how many; 0 is the end of the stream.
    fn poll_arrived(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        take: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<usize>> {
        if self.end.is_closed() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if gives_way(&mut self.suspended, cx) {
            return Poll::Pending;
        }
        loop {
            let pipe = Arc::clone(&self.end.pipe);
            let mut state = pipe.lock();
            let arrives = match state.chunks.front() {
                Some((arrives, _)) => *arrives,
                None if state.writers == 0 => state.end(&pipe),
                None => {
                    wait(&mut state.waiting_readers, cx);
                    return Poll::Pending;
                }
            };
            if arrives <= pipe.kernel.now() {
                let read = state.read_of_first;
                let Some((_, chunk)) = state.chunks.front() else {
                    (self.arrival, self.suspended) = (None, false);
                    return Poll::Ready(Ok(0));
                };
                let count = (chunk.len() - read).min(most);
                take(&chunk[read..read + count]);
                let whole = read + count == chunk.len();
                state.bytes -= count;
                state.read_of_first = if whole { 0 } else { read + count };
                if whole {
                    state.chunks.pop_front();
                }
                let waiting = std::mem::take(&mut state.waiting_writers);
                drop(state);
                waiting.into_iter().for_each(Waker::wake);
                (self.arrival, self.suspended) = (None, false);
                return Poll::Ready(Ok(count));
            }
            drop(state);
            let arrival = self.arrival.get_or_insert_with(|| pipe.kernel.sleep_until(arrives));
            if arrival.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.arrival = None;
        }
    }
}

impl AsyncRead for ReadEnd {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let this = self.get_mut();
        this.poll_arrived(cx, buf.remaining(), |bytes| buf.put_slice(bytes)).map_ok(|_| ())
    }
}

impl Clone for WriteEnd {
    fn clone(&self) -> Self {
        Self { end: End::open(&self.end.pipe, Side::Write), suspended: false }
    }
}

impl WriteEnd {
    pub(crate) fn closer(&self) -> EndCloser {
        EndCloser(Arc::downgrade(&self.end))
    }

    /// Writes what fits, at least one byte.
    pub fn poll_bytes(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.end.is_closed() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if gives_way(&mut self.suspended, cx) {
            return Poll::Pending;
        }
        let pipe = Arc::clone(&self.end.pipe);
        let mut state = pipe.lock();
        if state.readers == 0 {
            self.suspended = false;
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if state.bytes >= PIPE_BYTES_MAX {
            wait(&mut state.waiting_writers, cx);
            return Poll::Pending;
        }
        let count = bytes.len().min(PIPE_BYTES_MAX - state.bytes);
        state.send(&pipe, &bytes[..count]);
        let waiting = std::mem::take(&mut state.waiting_readers);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
        self.suspended = false;
        Poll::Ready(Ok(count))
    }
}

impl State {
    /// When its reader reads its end. A pipe that never ends late takes no choice for it.
    fn end(&mut self, pipe: &Pipe) -> Mono {
        let now = pipe.kernel.now();
        let late = || match pipe.end_us_max {
            0 => now,
            most => Mono(now.0 + pipe.kernel.choose("process.pipe_end_us", most)),
        };
        *self.ends.get_or_insert_with(late)
    }

    /// Puts bytes on their way, in pieces of their own delays.
    fn send(&mut self, pipe: &Pipe, mut rest: &[u8]) {
        self.bytes += rest.len();
        let cuts = pipe.kernel.choose("process.pipe_cuts", PIECES_MAX);
        for cut in 0..=cuts {
            if rest.is_empty() {
                return;
            }
            let left_out = match cut == cuts {
                true => 0,
                false => pipe.kernel.choose("process.pipe_cut", rest.len() as u64),
            };
            let (piece, later) = rest.split_at(rest.len() - usize::try_from(left_out).unwrap_or(0));
            let delay_us = pipe.kernel.choose("process.pipe_us", pipe.latency_us_max);
            // One that would arrive before its elder is read right after it.
            self.chunks.push_back((Mono(pipe.kernel.now().0 + delay_us), piece.to_vec()));
            rest = later;
        }
    }
}

impl AsyncWrite for WriteEnd {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.get_mut().poll_bytes(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What was written is in the pipe: there is nothing between.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end.close();
        Poll::Ready(Ok(()))
    }
}
