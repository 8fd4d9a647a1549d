//! A child that does nothing but live: this very program, run again in a mode of its own.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use crate::body::{Fork, Group, Signal};

/// The first argument of a child.
pub(super) const MODE: &str = "--child";

const FOR_EVER: &str = "forever";
const OWN_SESSION: &str = "--own-session";
const IGNORES_TERM: &str = "--ignores-term";

/// Starts a child and waits until it is what was asked for.
pub(super) fn start(fork: Fork, stdout: Option<&OwnedFd>) -> io::Result<Child> {
    let mut args: Vec<OsString> = vec![MODE.into()];
    args.push(fork.lives_ms.map_or(FOR_EVER.into(), |ms| ms.to_string()).into());
    if fork.group == Group::OwnSession {
        args.push(OWN_SESSION.into());
    }
    if fork.ignores_term {
        args.push(IGNORES_TERM.into());
    }
    let stdout = match stdout {
        Some(stdout) if fork.holds_stdout => Stdio::from(stdout.try_clone()?),
        _ => Stdio::null(),
    };
    let mut child = Command::new(std::env::current_exe()?)
        .args(args)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()?;
    let mut ready = [0; 1];
    let answer = child.stderr.take().map(|mut stderr| stderr.read(&mut ready));
    match answer {
        Some(Ok(1)) => Ok(child),
        _ => Err(io::Error::other("the child ended before it was ready")),
    }
}

/// The child's whole life.
pub(super) fn live(args: &[&str]) -> ExitCode {
    let [life, flags @ ..] = args else { return ExitCode::from(2) };
    if flags.contains(&OWN_SESSION) && rustix::process::setsid().is_err() {
        return ExitCode::from(2);
    }
    if flags.contains(&IGNORES_TERM) {
        let term = super::system_signal(Signal::Term).as_raw();
        let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        if signal_hook::flag::register(term, flag).is_err() {
            return ExitCode::from(2);
        }
    }
    if io::stderr().write_all(b".").is_err() {
        return ExitCode::from(2);
    }
    // Standard error is the parent's way to know; held any longer it would look like an inherited stream.
    if let Ok(null) = std::fs::File::open("/dev/null") {
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    match life.parse() {
        Ok(ms) => thread::sleep(Duration::from_millis(ms)),
        Err(_) => loop {
            thread::sleep(Duration::from_secs(3600));
        },
    }
    ExitCode::SUCCESS
}
