//! Which program is run as the supervisor, and the proof that it is one.
//!
//! An embedding program that forgot `run_if_asked` would, run again as its own supervisor, start hosts and supervisors
//! of its own without end. So a program is greeted once before anything is started with it, and a process that was
//! itself started as a supervisor never starts one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::supervisor::wire::{Answer, MARKER_VARIABLE, PROTOCOL, Request, line, take_line};

/// How long a program may take to greet back as a supervisor.
const HELLO_MS: u64 = 5_000;
/// A greeting is shorter than this.
const HELLO_BYTES_MAX: usize = 1_024;
/// The running executable, also after its file was replaced or removed.
const SELF_PROGRAM: &str = "/proc/self/exe";
/// What a supervisor calls itself in a process list.
const SUPERVISOR_NAME: &str = "moored-supervisor";

/// Which program stands between the host and its agents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SupervisorProgram {
    /// The running executable, which calls [`run_if_asked`](crate::supervisor::run_if_asked) first in its `main`.
    ThisExecutable,
    /// Another program that does so, or the shipped `moored-supervisor`.
    Program(PathBuf),
}

/// Why there is no native platform.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// The program cannot be run at all.
    #[error("the supervisor program {program} cannot be started ({reason})")]
    Program {
        /// Which.
        program: PathBuf,
        /// The operating system's words.
        reason: String,
    },
    /// The program runs and is no supervisor.
    #[error(
        "{program} did not act as a supervisor when asked to ({seen}); call moored::supervisor::run_if_asked() first \
         in its main, or name another supervisor program"
    )]
    NotASupervisor {
        /// Which.
        program: PathBuf,
        /// What it did instead.
        seen: String,
    },
    /// This process should have become a supervisor and did not.
    #[error(
        "this process was started as a supervisor and went on as a host; call moored::supervisor::run_if_asked() \
         first in main"
    )]
    InsideSupervisor,
    /// The boot cannot be told apart from others.
    #[error(
        "the boot id of this machine cannot be read ({reason}), so no process could be recognised again"
    )]
    Boot {
        /// The operating system's words.
        reason: String,
    },
}

/// A program that has greeted back.
#[derive(Clone, Debug)]
pub(super) struct Checked(PathBuf);

impl Checked {
    /// The process to be, with `control` as its stdin.
    pub(super) fn command(&self, control: UnixStream) -> Command {
        command(&self.0, control)
    }
}

static CHECKED: Mutex<BTreeMap<SupervisorProgram, PathBuf>> = Mutex::new(BTreeMap::new());

/// Greets the program, unless this process has before.
pub(super) fn check(program: SupervisorProgram) -> Result<Checked, NativeError> {
    if std::env::var_os(MARKER_VARIABLE).is_some() {
        return Err(NativeError::InsideSupervisor);
    }
    // Not held over the greeting: one program's silence is not another's, and a second greeting does no harm.
    let checked = || CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = checked().get(&program).cloned() {
        return Ok(Checked(path));
    }
    let path = match &program {
        SupervisorProgram::ThisExecutable => PathBuf::from(SELF_PROGRAM),
        // A later change of the host's folder must not change which program this is.
        SupervisorProgram::Program(path) => std::fs::canonicalize(path)
            .map_err(|e| NativeError::Program { program: path.clone(), reason: e.to_string() })?,
    };
    greet(&path)?;
    checked().insert(program, path.clone());
    Ok(Checked(path))
}

fn command(path: &Path, control: UnixStream) -> Command {
    let mut command = Command::new(path);
    command.arg0(OsStr::new(SUPERVISOR_NAME)).env(MARKER_VARIABLE, PROTOCOL.to_string());
    // Its output would be the host's terminal, or keep the host's own pipes open after the host.
    command.stdin(OwnedFd::from(control)).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn greet(path: &Path) -> Result<(), NativeError> {
    let failed = |reason: String| NativeError::Program { program: named(path), reason };
    let (ours, theirs) = UnixStream::pair().map_err(|e| failed(e.to_string()))?;
    // A group of its own: whatever a program that is no supervisor starts instead is ended with it.
    let child = command(path, theirs).process_group(0).spawn();
    let mut child = child.map_err(|e| failed(e.to_string()))?;
    let answer = hear(ours);
    end(&mut child);
    match answer {
        Ok(Answer::Hello { protocol: PROTOCOL }) => Ok(()),
        Ok(Answer::Hello { protocol }) => {
            Err(not_one(path, format!("it speaks version {protocol}, not {PROTOCOL}")))
        }
        Ok(_) => Err(not_one(path, "it answered something else".to_owned())),
        Err(seen) => Err(not_one(path, seen)),
    }
}

/// The answer to a greeting. Our writing side is closed behind it, so that a program which reads its stdin instead of
/// answering ends at once.
fn hear(mut control: UnixStream) -> Result<Answer, String> {
    // One that has ended without reading is told by its silence below.
    let _ = control.write_all(&line(&Request::Hello));
    let _ = control.shutdown(Shutdown::Write);
    let until = Instant::now() + Duration::from_millis(HELLO_MS);
    let mut inbox = Vec::new();
    loop {
        if let Some(line) = take_line(&mut inbox) {
            return serde_json::from_slice(&line).map_err(|_| "its answer makes no sense".into());
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("it did not answer within {HELLO_MS} ms"));
        }
        let mut bytes = [0; 256];
        let read = control.set_read_timeout(Some(left)).and_then(|()| control.read(&mut bytes));
        match read {
            Ok(0) => return Err("it ended, or closed its stdin, without an answer".to_owned()),
            Ok(read) => inbox.extend_from_slice(&bytes[..read]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Err("it ended without an answer".to_owned()),
        }
        if inbox.len() > HELLO_BYTES_MAX {
            return Err("its answer is too long".to_owned());
        }
    }
}

fn end(child: &mut Child) {
    // Unreaped, so the number still is its own.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

fn not_one(path: &Path, seen: String) -> NativeError {
    NativeError::NotASupervisor { program: named(path), seen }
}

/// The path that a person knows the program by.
fn named(path: &Path) -> PathBuf {
    if path == Path::new(SELF_PROGRAM) {
        std::env::current_exe().unwrap_or_else(|_| path.to_owned())
    } else {
        path.to_owned()
    }
}
