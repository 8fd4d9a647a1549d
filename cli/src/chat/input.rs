//! What a person does: lines or keys typed on stdin, and signals.

#![expect(
    clippy::disallowed_methods,
    reason = "a binary: stdin is read on a thread of its own, since nothing else can wait for it"
)]

use std::future::poll_fn;
use std::io::{BufRead, ErrorKind, Read};
use std::task::Poll;

use anyhow::Context;
use rustix::process::Signal as Number;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::keys::{Key, Keys};

/// Lines or keys that may wait for the conversation; past it they wait in stdin.
const LINES_MAX: usize = 16;
/// How much is read of a terminal at once.
const READ_BYTES_MAX: usize = 4_096;
/// Longest line that is taken.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// One thing that was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// A line, without its end.
    Line(String),
    /// A line longer than [`LINE_BYTES_MAX`]; it is skipped whole.
    TooLong,
    /// A key, where keys are asked for.
    Key(Key),
    /// Ctrl-D, or the end of a pipe. Nothing more comes.
    End,
}

/// Stdin, read from the first time something of it is asked for.
#[derive(Default)]
pub struct Keyboard {
    has_keys: bool,
    typed: Option<mpsc::Receiver<Typed>>,
}

impl Keyboard {
    /// Keys of a terminal in raw mode in place of lines, from the first on.
    pub fn read_keys(&mut self) {
        debug_assert!(self.typed.is_none(), "what was typed before would be lost");
        self.has_keys = true;
    }

    /// The next line or key; `End` for ever after the last. Cancel-safe.
    pub async fn next(&mut self) -> Typed {
        let has_keys = self.has_keys;
        let typed = self.typed.get_or_insert_with(|| {
            let (sender, typed) = mpsc::channel(LINES_MAX);
            // It lives until stdin ends or nobody listens; the end of the program does not wait for it.
            std::thread::spawn(move || {
                let tell = |typed| sender.blocking_send(typed).is_ok();
                match has_keys {
                    true => read_keys(&mut std::io::stdin().lock(), tell),
                    false => {
                        let mut input = std::io::stdin().lock();
                        while read_line(&mut input).is_some_and(&tell) {}
                    }
                }
            });
            typed
        });
        typed.recv().await.unwrap_or(Typed::End)
    }
}

/// Reads until the terminal is gone or nobody listens.
fn read_keys(input: &mut impl Read, tell: impl Fn(Typed) -> bool) {
    let mut keys = Keys::default();
    let mut bytes = [0; READ_BYTES_MAX];
    loop {
        let read = match input.read(&mut bytes) {
            Ok(0) => return,
            Ok(read) => &bytes[..read],
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if !keys.feed(read).into_iter().all(|key| tell(Typed::Key(key))) {
            return;
        }
    }
}

fn read_line(input: &mut impl BufRead) -> Option<Typed> {
    let mut bytes = Vec::new();
    let limit = LINE_BYTES_MAX as u64 + 1;
    let read = input.by_ref().take(limit).read_until(b'\n', &mut bytes).ok()?;
    let ended = bytes.pop_if(|last| *last == b'\n').is_some();
    match (read, ended) {
        (0, _) => None,
        (_, false) if bytes.len() > LINE_BYTES_MAX => {
            input.skip_until(b'\n').ok()?;
            Some(Typed::TooLong)
        }
        _ => {
            bytes.pop_if(|last| *last == b'\r');
            Some(Typed::Line(String::from_utf8_lossy(&bytes).into_owned()))
        }
    }
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Ctrl-C: Stop, or a close at rest.
    Interrupt,
    /// SIGTERM, or the terminal is gone: close.
    Leave,
    /// The terminal has another size, or the program goes on after it was stopped.
    Redraw,
}

/// Signals of the terminal and of whoever ends this program.
pub struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    resized: tokio::signal::unix::Signal,
    continued: tokio::signal::unix::Signal,
}

impl Signals {
    /// From here on no signal ends the program by itself.
    pub fn listen() -> anyhow::Result<Self> {
        let on = |kind| signal(kind).context("signals cannot be watched");
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up: on(SignalKind::hangup())?,
            resized: on(SignalKind::window_change())?,
            continued: on(SignalKind::from_raw(Number::CONT.as_raw()))?,
        })
    }

    /// The next. Cancel-safe.
    pub async fn next(&mut self) -> Asked {
        poll_fn(|cx| {
            let ends = [&mut self.terminate, &mut self.hang_up];
            if ends.into_iter().any(|signal| signal.poll_recv(cx).is_ready()) {
                return Poll::Ready(Asked::Leave);
            }
            if self.interrupt.poll_recv(cx).is_ready() {
                return Poll::Ready(Asked::Interrupt);
            }
            let changes = [&mut self.resized, &mut self.continued];
            match changes.into_iter().any(|signal| signal.poll_recv(cx).is_ready()) {
                true => Poll::Ready(Asked::Redraw),
                false => Poll::Pending,
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_past_the_limit_is_skipped_whole() {
        let fits = "x".repeat(LINE_BYTES_MAX);
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let text = format!("{fits}\n{long}\nafter\r\nlast");
        let mut input = text.as_bytes();
        assert_eq!(read_line(&mut input), Some(Typed::Line(fits)));
        assert_eq!(read_line(&mut input), Some(Typed::TooLong));
        assert_eq!(read_line(&mut input), Some(Typed::Line("after".to_owned())));
        assert_eq!(read_line(&mut input), Some(Typed::Line("last".to_owned())));
        assert_eq!(read_line(&mut input), None);
    }
}
