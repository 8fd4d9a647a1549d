//! The hot shape end to end: text chunks of 215 bytes out of an in-memory pipe, to our events and to the notification
//! handler of the official client connection, in one run. Prints CPU seconds of the process, writer included, and the
//! ratio. `cargo bench --bench chunks [-- CHUNKS]`

#![expect(clippy::disallowed_methods, reason = "a writer beside the reader, on a real runtime")]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_client_protocol::v1::schema::{ContentBlock, SessionNotification, SessionUpdate};
use agent_client_protocol::{ByteStreams, Client};
use moored::wire::{Decoder, Event, Limits};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Notify;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

const CHUNKS: usize = 200_000;
const CHUNK_BYTES: usize = 215;
const ROUNDS: usize = 3;
/// What a pipe of the operating system holds.
const PIPE_BYTES: usize = 64 * 1024;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    // Cargo says `--bench` to every bench.
    let chunks = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let chunks = chunks.map_or(Ok(CHUNKS), |number| number.parse())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    println!("{chunks} chunks of {CHUNK_BYTES} bytes, CPU seconds with the writer:");
    let (mut least_ours, mut least_official) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        let ours = cpu_seconds(|| runtime.block_on(read_by_decoder(chunks)))?;
        let official = cpu_seconds(|| runtime.block_on(read_by_connection(chunks)))?;
        println!("  moored {ours:.3}  official {official:.3}  ratio {:.1}", official / ours);
        least_ours = least_ours.min(ours);
        least_official = least_official.min(official);
    }
    println!("least of {ROUNDS}: ratio {:.1}", least_official / least_ours);
    Ok(())
}

async fn read_by_decoder(chunks: usize) -> Result<(), Failure> {
    let mut pipe = written(chunks);
    let mut decoder = Decoder::new(Limits::default());
    let mut read = vec![0; PIPE_BYTES];
    let (mut heard, mut bytes) = (0, 0);
    loop {
        let length = pipe.read(&mut read).await?;
        if length == 0 {
            break;
        }
        decoder.push(&read[..length], &mut |event| {
            if let Event::TextChunk { text, .. } = black_box(event) {
                heard += 1;
                bytes += text.len();
            }
        });
    }
    complete(chunks, heard, bytes)
}

async fn read_by_connection(chunks: usize) -> Result<(), Failure> {
    let transport = ByteStreams::new(tokio::io::sink().compat_write(), written(chunks).compat());
    let heard = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0), Notify::new()));
    let hearing = heard.clone();
    Client
        .v1()
        .on_receive_notification(
            async move |update: SessionNotification, _connection| {
                if let SessionUpdate::AgentMessageChunk(chunk) = black_box(update).update
                    && let ContentBlock::Text(text) = chunk.content
                {
                    hearing.1.fetch_add(text.text.len(), Ordering::Relaxed);
                    if hearing.0.fetch_add(1, Ordering::Relaxed) + 1 == chunks {
                        hearing.2.notify_one();
                    }
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_with(transport, async |_connection| {
            heard.2.notified().await;
            Ok(())
        })
        .await?;
    complete(chunks, heard.0.load(Ordering::Relaxed), heard.1.load(Ordering::Relaxed))
}

/// A pipe somebody writes the chunks into, a pipe's fill at a time.
fn written(chunks: usize) -> DuplexStream {
    let (mut near, far) = tokio::io::duplex(PIPE_BYTES);
    let line = line();
    let fill = (PIPE_BYTES / line.len()).max(1);
    let block = line.repeat(fill);
    tokio::spawn(async move {
        let mut left = chunks;
        while left > 0 {
            let now = left.min(fill);
            // A reader that has left has said why.
            if near.write_all(&block.as_bytes()[..now * line.len()]).await.is_err() {
                break;
            }
            left -= now;
        }
    });
    far
}

fn line() -> String {
    let text = "a".repeat(CHUNK_BYTES - frame("").len());
    frame(&text) + "\n"
}

fn frame(text: &str) -> String {
    format!(
        concat!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"#,
            r#""0198f3a2-7c1e-7d4b-9a55-3f2e1d0c9b8a","update":{{"sessionUpdate":"#,
            r#""agent_message_chunk","content":{{"type":"text","text":"{}"}}}}}}}}"#
        ),
        text
    )
}

/// A side that has lost a chunk has not been measured.
fn complete(chunks: usize, heard: usize, bytes: usize) -> Result<(), Failure> {
    let expected = (chunks, chunks * (CHUNK_BYTES - frame("").len()));
    match (heard, bytes) == expected {
        true => Ok(()),
        false => Err(format!("heard {heard} chunks, {bytes} bytes; expected {expected:?}").into()),
    }
}

fn cpu_seconds(work: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
    let before = clock_gettime(ClockId::ProcessCPUTime);
    work()?;
    let after = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = (after.tv_sec - before.tv_sec) as f64;
    Ok(seconds + (after.tv_nsec - before.tv_nsec) as f64 / 1e9)
}
