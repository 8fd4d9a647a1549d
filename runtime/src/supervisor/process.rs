//! The supervisor as a real process: one thread, one loop, every decision in [`core`](super::core).
//!
//! It says nothing of its own anywhere but on the control socket, and ends with code 0 only once the agent's tree is
//! proven gone or was left on purpose (rule 1.7.4).

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the supervisor is a real process: its clock and its exit are the machine's own"
)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, getppid, pidfd_open, set_child_subreaper};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use super::control::Control;
use super::core::{Act, Supervisor};
use super::reaper::Reaper;
use super::wire::{Answer, MARKER_VARIABLE, PROTOCOL, Refusal, Request, SpawnRequest};
use crate::platform::Mono;
use crate::platform::native::procfs;

/// The tree is gone, or was left on purpose, or nothing was asked for.
const PROVEN: u8 = 0;
/// The host was gone before anything was started, or the tree is not proven gone (rules 1.7.2, 1.7.4).
const UNPROVEN: u8 = 1;
/// Started by hand.
const MISUSED: u8 = 2;

/// Call this first in `main`. If this process was started as a supervisor it is one and never returns; otherwise
/// nothing happens.
pub fn run_if_asked() {
    if std::env::var_os(MARKER_VARIABLE).is_some() {
        std::process::exit(serve().into());
    }
}

/// The whole of a program that is nothing but a supervisor.
pub fn run() -> ExitCode {
    serve().into()
}

fn serve() -> u8 {
    // Out of the host's terminal: a Ctrl-C is for the host, and an agent that asks the terminal gets an answer instead
    // of being stopped. Before this line a Ctrl-C ends a supervisor that has started nothing yet.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"moored-superv");
    let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() else { return MISUSED };
    let mut control = Control::new(socket);
    match control.first() {
        Err(Errno::NOTSOCK) => {
            eprintln!("this program is started by a host of moored, not by hand");
            MISUSED
        }
        Ok(Some(Request::Hello)) => {
            control.tell(&Answer::Hello { protocol: PROTOCOL });
            PROVEN
        }
        Ok(Some(Request::Spawn(request))) => match prepare(&mut control, *request) {
            Ok(process) => process.run(),
            Err(Stop::HostGone) => UNPROVEN,
            Err(Stop::Refused(refusal)) => {
                control.tell(&Answer::Refused(refusal));
                PROVEN
            }
        },
        Ok(Some(Request::Order(_)) | None) | Err(_) => UNPROVEN,
    }
}

/// Why nothing was started.
enum Stop {
    HostGone,
    Refused(Refusal),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

fn broken(what: &str, error: impl std::fmt::Display) -> Stop {
    Stop::Refused(Refusal::Supervisor { reason: format!("{what}: {error}") })
}

fn prepare<'a>(control: &'a mut Control, request: SpawnRequest) -> Result<Process<'a>, Stop> {
    let SpawnRequest { protocol, host_pid, spec } = request;
    let host = watch_host(host_pid)?;
    if protocol != PROTOCOL {
        return Err(broken("the host speaks another version", protocol));
    }
    let pipes = control.take_pipes();
    let count = pipes.len();
    let pipes = <[OwnedFd; 3]>::try_from(pipes)
        .map_err(|_| broken("the agent's three pipes did not come along", count))?;
    // Before the spawn, so that a request to end during it still reaps (rule 1.7.5).
    let signals = Signals::install().map_err(|e| broken("signals cannot be watched", e))?;
    set_child_subreaper(Some(getpid())).map_err(|e| broken("it cannot be a subreaper", e))?;
    let _ = control.read();
    if control.is_gone() {
        return Err(Stop::HostGone);
    }
    let reaper = Reaper::start(&spec, pipes)?;
    let root = reaper.root();
    control.tell(&Answer::Spawned { pid: root.pid, start: root.start });
    let machine = Supervisor::new(spec.ladder);
    Ok(Process { control, host, signals, reaper, machine, born: Instant::now(), exit: None })
}

/// A handle on the host, if the host still is our parent (rule 1.7.2). The socket alone does not tell its death: a
/// process that the host forked may hold a copy of its end.
fn watch_host(host_pid: u32) -> Result<OwnedFd, Stop> {
    let host = procfs::raw(host_pid).ok_or(Stop::HostGone)?;
    let held = pidfd_open(host, PidfdFlags::empty());
    // A parent that is still ours after the handle was opened is the one the handle is on.
    if getppid() != Some::<Pid>(host) {
        return Err(Stop::HostGone);
    }
    held.map_err(|e| broken("the host cannot be watched", e))
}

/// What the signal handlers write to.
struct Signals {
    child: UnixStream,
    end: UnixStream,
}

impl Signals {
    fn install() -> io::Result<Self> {
        let (child, child_end) = UnixStream::pair()?;
        let (end, end_end) = UnixStream::pair()?;
        child.set_nonblocking(true)?;
        end.set_nonblocking(true)?;
        pipe::register(SIGCHLD, child_end)?;
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            pipe::register(signal, end_end.try_clone()?)?;
        }
        Ok(Self { child, end })
    }

    /// Empties a side; whether there was anything.
    fn came(mut side: &UnixStream) -> bool {
        let mut bytes = [0; 64];
        let mut came = false;
        while io::Read::read(&mut side, &mut bytes).is_ok_and(|read| read > 0) {
            came = true;
        }
        came
    }
}

struct Process<'a> {
    control: &'a mut Control,
    host: OwnedFd,
    signals: Signals,
    reaper: Reaper,
    machine: Supervisor,
    born: Instant,
    exit: Option<u8>,
}

impl Process<'_> {
    fn run(mut self) -> u8 {
        loop {
            self.act();
            if let Some(code) = self.exit {
                self.control.flush();
                return code;
            }
            let host_ended = self.sleep();
            self.notice(host_ended);
        }
    }

    fn now(&self) -> Mono {
        Mono(u64::try_from(self.born.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Until something happens; whether the host has ended.
    fn sleep(&self) -> bool {
        let timeout = self.machine.poll_deadline().map(|at| {
            // Rounded up, or the last microseconds of every window would be spent spinning.
            let wait = at.since(self.now()) + std::time::Duration::from_micros(1);
            Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            }
        });
        let host = if self.control.is_gone() { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![
            PollFd::new(&self.signals.child, PollFlags::IN),
            PollFd::new(&self.signals.end, PollFlags::IN),
        ];
        if !host.is_empty() {
            // An ended socket would wake us for ever, asked for or not.
            fds.push(PollFd::new(&self.host, host));
            fds.push(PollFd::new(&*self.control, self.control.interest()));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => fds.get(2).is_some_and(|fd| !fd.revents().is_empty()),
            Err(_) => false,
        }
    }

    /// Everything that may have happened, in the order in which it means most: an exit is seen before the order that
    /// would signal it, and orders before the end of the host that gave them.
    fn notice(&mut self, host_ended: bool) {
        Signals::came(&self.signals.child);
        if let Some(exit) = self.reaper.reap() {
            self.machine.handle_root_exit(self.now(), exit);
        }
        let _ = self.control.read();
        while let Some(request) = self.control.next() {
            let Request::Order(order) = request else {
                self.control.set_gone();
                break;
            };
            self.control.tell(&Answer::Taken);
            self.machine.handle_order(self.now(), order);
            self.act();
        }
        if host_ended {
            self.control.set_gone();
        }
        if self.control.is_gone() {
            self.machine.handle_host_gone(self.now());
        }
        if Signals::came(&self.signals.end) {
            self.machine.handle_termination(self.now());
        }
        if self.machine.poll_deadline().is_some_and(|at| self.now() >= at) {
            self.machine.handle_deadline(self.now());
        }
        self.control.flush();
    }

    fn act(&mut self) {
        while let Some(act) = self.machine.poll_act() {
            match act {
                Act::SignalGroup(signal) => {
                    let delivered = self.reaper.signal_group(signal);
                    self.machine.handle_signalled(signal, delivered);
                }
                Act::SignalTree(signal) => self.reaper.signal_tree(signal),
                Act::Scan => {
                    let living = self.reaper.scan();
                    self.machine.handle_tree(self.now(), living);
                }
                Act::Report(report) => self.control.tell(&Answer::Report(report)),
                Act::Quit { proven } => self.exit = Some(if proven { PROVEN } else { UNPROVEN }),
            }
        }
    }
}
