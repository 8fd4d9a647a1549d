//! A script as a real process.
//!
//! One thread and no runtime: the interpreter's future is polled, and when it has nothing to do the thread sleeps in
//! `poll(2)` on whatever the future asked for. Nothing is made non-blocking, since a host's pipe (or a person's
//! terminal) may be shared: a descriptor is read or written only when `poll(2)` has said that it will not block, and
//! written in pieces for which that is a promise.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the real machine: its clock, its files, its processes"
)]

mod child;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::future::Future;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::pin::pin;
use std::process::{Child, ExitCode};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{getpid, kill_process};

use crate::body::{Body, End, Fork, Out, Signal, Stream};
use crate::script::Script;
use crate::{PERSONAS, persona, run};

/// POSIX promises that a pipe which polls writable takes this much without blocking.
const WRITE_BYTES: usize = 4096;

const USAGE: &str = "\
fake-agent plays a scripted ACP agent on its standard streams.

  fake-agent --persona NAME   a ready-made script
  fake-agent --script FILE    a script of your own (docs/agent-script.md)
  fake-agent --list           the personas
  fake-agent --schema         the JSON Schema of scripts

FAKE_AGENT_HOME names the folder for its session files; without it nothing is kept.
";

/// The whole program: plays the script that `args` (without the program's name) name. A thin binary in another crate
/// is a `main` that returns this.
pub fn main_with_args(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<String> =
        args.into_iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--list"] => say(&list()),
        ["--persona", name] => match persona(name) {
            Some(script) => play(&script),
            None => fail(&format!("there is no persona {name}; --list names them all")),
        },
        ["--schema"] => say(&format!("{:#}\n", Script::json_schema())),
        ["--script", file] => match fs::read_to_string(file) {
            Err(error) => fail(&format!("cannot read {file}: {error}")),
            Ok(text) => match text.parse() {
                Ok(script) => play(&script),
                Err(error) => fail(&format!("{file}: {error}")),
            },
        },
        [child::MODE, rest @ ..] => child::live(rest),
        ["--help" | "-h"] => say(USAGE),
        _ => {
            fail("say which script to play with --persona NAME or --script FILE; --help says more")
        }
    }
}

fn list() -> String {
    let about = |name| persona(name).map(|script| script.about).unwrap_or_default();
    PERSONAS.iter().map(|known| format!("{:<16}{}\n", known.name, about(known.name))).collect()
}

fn say(text: &str) -> ExitCode {
    // Whoever asked may have gone; that is no failure of ours.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn fail(sentence: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "fake-agent: {sentence}");
    ExitCode::from(2)
}

fn play(script: &Script) -> ExitCode {
    let mut body = match NativeBody::take_over() {
        Ok(body) => body,
        Err(error) => return fail(&format!("cannot take over the standard streams: {error}")),
    };
    let end = body.block_on_script(script);
    match end {
        Ok(End::Exited(code)) => ExitCode::from((code & 0xff) as u8),
        Ok(End::Signalled(signal)) => die_by(signal),
        Err(error) => fail(&format!("cannot wait for the standard streams: {error}")),
    }
}

/// Ends the process by this signal, whatever handler it had.
fn die_by(signal: Signal) -> ExitCode {
    let number = system_signal(signal).as_raw();
    let _ = signal_hook::low_level::emulate_default_handler(number);
    ExitCode::from(((128 + number) & 0xff) as u8)
}

fn system_signal(signal: Signal) -> rustix::process::Signal {
    match signal {
        Signal::Abrt => rustix::process::Signal::ABORT,
        Signal::Hup => rustix::process::Signal::HUP,
        Signal::Int => rustix::process::Signal::INT,
        Signal::Kill => rustix::process::Signal::KILL,
        Signal::Segv => rustix::process::Signal::SEGV,
        Signal::Term => rustix::process::Signal::TERM,
    }
}

/// What the future waits for, gathered while it is polled.
#[derive(Default)]
struct Wishes {
    stdin: bool,
    out: Option<Out>,
    alarm_ms: Option<u64>,
}

struct NativeBody {
    started: Instant,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    /// A pipe for each handled signal, written by its handler.
    signals: Vec<(Signal, UnixStream)>,
    child_ended: UnixStream,
    children: Vec<Child>,
    wishes: Wishes,
}

impl NativeBody {
    /// Moves the standard streams to descriptors of our own, so that closing one closes the pipe.
    fn take_over() -> io::Result<NativeBody> {
        let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
        let own = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3);
        let (stdin, stdout, stderr) =
            (own(io::stdin().as_fd())?, own(io::stdout().as_fd())?, own(io::stderr().as_fd())?);
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        rustix::stdio::dup2_stderr(&null)?;
        let (child_ended, by_handler) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(
            rustix::process::Signal::CHILD.as_raw(),
            by_handler,
        )?;
        child_ended.set_nonblocking(true)?;
        Ok(NativeBody {
            started: Instant::now(),
            stdin: Some(stdin),
            stdout: Some(stdout),
            stderr: Some(stderr),
            signals: Vec::new(),
            child_ended,
            children: Vec::new(),
            wishes: Wishes::default(),
        })
    }

    fn block_on_script(&mut self, script: &Script) -> io::Result<End> {
        // The future borrows the body, and the wait between two polls needs it too: each poll lends it anew.
        let body = std::sync::Mutex::new(self);
        let mut lent = Lent { body: &body };
        let mut future = pin!(run(script, &mut lent));
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(end) = future.as_mut().poll(&mut context) {
                return Ok(end);
            }
            lock(&body).wait()?;
        }
    }

    /// Sleeps until one of the wishes may come true.
    fn wait(&mut self) -> io::Result<()> {
        let wishes = std::mem::take(&mut self.wishes);
        let mut fds = vec![PollFd::new(&self.child_ended, PollFlags::IN)];
        fds.extend(self.signals.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)));
        if let (true, Some(stdin)) = (wishes.stdin, &self.stdin) {
            fds.push(PollFd::new(stdin, PollFlags::IN));
        }
        let out = match wishes.out {
            None => None,
            Some(Out::Stderr) => self.stderr.as_ref(),
            Some(Out::Stdout) => self.stdout.as_ref(),
        };
        fds.extend(out.map(|out| PollFd::new(out, PollFlags::OUT)));
        let left_ms = wishes.alarm_ms.map(|at_ms| at_ms.saturating_sub(self.now_ms()));
        let timeout =
            left_ms.map(|ms| Timespec::try_from(Duration::from_millis(ms)).unwrap_or_default());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if drain(&self.child_ended) {
            self.children.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        }
        Ok(())
    }
}

/// Takes all that a signal's handler wrote; false if it wrote nothing.
fn drain(mut pipe: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    matches!(pipe.read(&mut bytes), Ok(count) if count > 0)
}

fn is_ready(fd: impl AsFd, flags: PollFlags) -> bool {
    let now = Timespec::default();
    matches!(poll(&mut [PollFd::new(&fd, flags)], Some(&now)), Ok(count) if count > 0)
}

fn lock<'a, 'b>(
    body: &'a std::sync::Mutex<&'b mut NativeBody>,
) -> std::sync::MutexGuard<'a, &'b mut NativeBody> {
    body.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The body as the interpreter has it; uncontended, since there is one thread.
struct Lent<'a, 'b> {
    body: &'a std::sync::Mutex<&'b mut NativeBody>,
}

impl Body for Lent<'_, '_> {
    fn poll_read(&mut self, _cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut body = lock(self.body);
        let Some(stdin) = &body.stdin else { return Poll::Pending };
        if !is_ready(stdin, PollFlags::IN) {
            body.wishes.stdin = true;
            return Poll::Pending;
        }
        Poll::Ready(
            rustix::io::retry_on_intr(|| rustix::io::read(stdin, &mut *buf))
                .map_err(io::Error::from),
        )
    }

    fn poll_write(
        &mut self,
        _cx: &mut Context<'_>,
        out: Out,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut body = lock(self.body);
        let fd = match out {
            Out::Stderr => &body.stderr,
            Out::Stdout => &body.stdout,
        };
        let Some(fd) = fd else { return Poll::Ready(Ok(bytes.len())) };
        if !is_ready(fd, PollFlags::OUT) {
            body.wishes.out = Some(out);
            return Poll::Pending;
        }
        let piece = &bytes[..bytes.len().min(WRITE_BYTES)];
        Poll::Ready(
            rustix::io::retry_on_intr(|| rustix::io::write(fd, piece)).map_err(io::Error::from),
        )
    }

    fn poll_signal(&mut self, _cx: &mut Context<'_>) -> Poll<Signal> {
        let body = lock(self.body);
        match body.signals.iter().find(|(_, pipe)| drain(pipe)) {
            Some((signal, _)) => Poll::Ready(*signal),
            None => Poll::Pending,
        }
    }

    fn poll_alarm(&mut self, _cx: &mut Context<'_>, at_ms: u64) -> Poll<()> {
        let mut body = lock(self.body);
        if body.now_ms() >= at_ms {
            return Poll::Ready(());
        }
        body.wishes.alarm_ms = Some(at_ms);
        Poll::Pending
    }

    fn now_ms(&self) -> u64 {
        lock(self.body).now_ms()
    }

    fn handle_signal(&mut self, signal: Signal) {
        let registered = UnixStream::pair().and_then(|(pipe, by_handler)| {
            pipe.set_nonblocking(true)?;
            let number = system_signal(signal).as_raw();
            signal_hook::low_level::pipe::register(number, by_handler)?;
            Ok(pipe)
        });
        // Without a handler the signal still ends the process: the script's reaction is lost, not the host's signal.
        if let Ok(pipe) = registered {
            lock(self.body).signals.push((signal, pipe));
        }
    }

    fn close(&mut self, stream: Stream) {
        let mut body = lock(self.body);
        match stream {
            Stream::Stderr => body.stderr = None,
            Stream::Stdin => body.stdin = None,
            Stream::Stdout => body.stdout = None,
        }
    }

    async fn fork(&mut self, fork: Fork) -> io::Result<u32> {
        let mut body = lock(self.body);
        let child = child::start(fork, body.stdout.as_ref())?;
        let pid = child.id();
        body.children.push(child);
        Ok(pid)
    }

    async fn stop_self(&mut self) {
        // Returns once somebody continued the process.
        let _ = kill_process(getpid(), rustix::process::Signal::STOP);
    }

    async fn append_file(&mut self, path: &str, line: &str) -> io::Result<()> {
        if let Some(folder) = Path::new(path).parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path)?;
        file.write_all(format!("{line}\n").as_bytes())
    }

    async fn read_file(&mut self, path: &str) -> io::Result<Option<String>> {
        match fs::read(path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn env(&self, name: &str) -> Option<String> {
        env::var(name).ok()
    }

    fn pid(&self) -> u32 {
        std::process::id()
    }
}

impl NativeBody {
    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }
}
