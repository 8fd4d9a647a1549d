use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, ReadBuf};

use super::*;

/// Polls once: a task goes on until it must wait.
fn run_on<F: Future>(task: Pin<&mut F>) -> Poll<F::Output> {
    task.poll(&mut Context::from_waker(Waker::noop()))
}

/// An agent that never stops, a few bytes at a time.
struct Endless {
    at_a_time: usize,
}

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let bytes = vec![b'x'; self.at_a_time.min(buffer.remaining())];
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

/// What lies read and not taken when the reader has to wait: chunks and bytes.
fn taken_when_it_waits(at_a_time: usize) -> (usize, usize) {
    let (chunks, mut taken) = mpsc::channel(STDOUT_CHUNKS_MAX);
    let pipe: Reader = Box::pin(Endless { at_a_time });
    let mut reader = pin!(read_stdout(pipe, Watched::new(true), chunks));
    assert!(run_on(reader.as_mut()).is_pending(), "an endless pipe never ends");
    let (mut count, mut bytes, mut kept) = (0, 0, Vec::new());
    while let Ok(chunk) = taken.try_recv() {
        count += 1;
        bytes += chunk.bytes.len();
        kept.push(chunk);
    }
    (count, bytes)
}

#[test]
fn a_flood_waits_in_its_pipe_once_four_mebibytes_or_256_chunks_are_not_taken() {
    let (_, bytes) = taken_when_it_waits(READ_BYTES);
    assert_eq!(bytes, STDOUT_BYTES_MAX);
    let (chunks, _) = taken_when_it_waits(1);
    assert_eq!(chunks, STDOUT_CHUNKS_MAX);
}

#[test]
fn taking_a_chunk_makes_room_and_a_pause_leaves_the_rest_where_it_is() {
    let (chunks, mut taken) = mpsc::channel(STDOUT_CHUNKS_MAX);
    let reading = Watched::new(true);
    let pipe: Reader = Box::pin(Endless { at_a_time: READ_BYTES });
    let mut reader = pin!(read_stdout(pipe, reading.clone(), chunks));
    let mut take_all = || std::iter::from_fn(|| taken.try_recv().ok()).count();
    let whole = STDOUT_BYTES_MAX / READ_BYTES;
    for _ in 0..2 {
        assert!(run_on(reader.as_mut()).is_pending());
        assert_eq!(take_all(), whole, "dropped chunks gave their room back");
    }
    reading.update(|on| *on = false);
    // The read that was already begun ends; no other begins.
    assert!(run_on(reader.as_mut()).is_pending());
    assert!(take_all() <= 1);
    assert!(run_on(reader.as_mut()).is_pending());
    assert_eq!(take_all(), 0);
    reading.update(|on| *on = true);
    assert!(run_on(reader.as_mut()).is_pending());
    assert_eq!(take_all(), whole);
}

#[test]
fn stderr_is_drained_though_nobody_takes_it_and_the_newest_of_it_is_kept() {
    let mut complaints = vec![b'a'; 3 * STDERR_BYTES_MAX];
    complaints.extend(b"the last words");
    let (grown, mut told) = mpsc::channel(1);
    let tail = StderrTail::default();
    let pipe: Reader = Box::pin(std::io::Cursor::new(complaints));
    let mut drainer = pin!(drain_stderr(pipe, tail.clone(), grown));
    assert!(run_on(drainer.as_mut()).is_ready(), "it reads to the end by itself");
    assert_eq!(told.try_recv(), Ok(()), "the session is told once");
    let kept = tail.take();
    assert_eq!(kept.len(), STDERR_BYTES_MAX);
    assert!(kept.ends_with(b"the last words"));
}

#[test]
fn frames_go_out_in_order_and_stdin_closes_behind_them() {
    let (host_end, mut agent_end) = tokio::io::duplex(1024);
    let (stdin, frames) = mpsc::unbounded_channel();
    let (wrote, mut told) = mpsc::unbounded_channel();
    stdin.send(Frame(b"one\n".to_vec())).ok();
    stdin.send(Frame(b"three\n".to_vec())).ok();
    drop(stdin);
    let mut writer = pin!(write_stdin(Box::pin(host_end), frames, wrote));
    assert!(run_on(writer.as_mut()).is_ready());
    let mut read = Vec::new();
    assert!(run_on(pin!(agent_end.read_to_end(&mut read))).is_ready(), "the agent reads an end");
    assert_eq!(read, b"one\nthree\n");
    assert!(matches!(told.try_recv(), Ok(Ok(4))) && matches!(told.try_recv(), Ok(Ok(6))));
}

#[test]
fn a_failed_write_is_told_once_and_nothing_goes_out_after_it() {
    let (host_end, agent_end) = tokio::io::duplex(1024);
    drop(agent_end);
    let (stdin, frames) = mpsc::unbounded_channel();
    let (wrote, mut told) = mpsc::unbounded_channel();
    for _ in 0..3 {
        stdin.send(Frame(b"frame\n".to_vec())).ok();
    }
    let mut writer = pin!(write_stdin(Box::pin(host_end), frames, wrote));
    assert!(run_on(writer.as_mut()).is_ready());
    assert!(matches!(told.try_recv(), Ok(Err(WriteFailed))));
    assert!(told.try_recv().is_err(), "it is told once");
    assert!(stdin.send(Frame(Vec::new())).is_err(), "nobody writes any more");
}
