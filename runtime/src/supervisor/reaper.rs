//! One agent and everything it ever starts: started here, signalled here, reaped here.
//!
//! This process is their subreaper, so whoever loses its parent becomes our child. A process that is our unreaped
//! child keeps its number; that is what makes the group signal and the proof sound.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the agent is a real process: it is started and found here, and nowhere else"
)]

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus, kill_process_group, wait};

use super::wire::{MARKER_VARIABLE, Refusal};
use crate::platform::native::procfs::{self, ProcessRow};
use crate::platform::{ChildSpec, Exit, ProcessIdentity, SPAWN_TOKEN_VARIABLE, Signal, Survivor};

/// Scans in a row that may find nobody alive although a child is left; a process that ends between the two looks is
/// reaped by the next.
const SCANS_MAX: usize = 3;

/// The agent and its tree.
pub struct Reaper {
    root: ProcessIdentity,
    root_exit: Option<Exit>,
    /// `waitpid` said that no child is left: nobody descends from the agent any more.
    empty: bool,
}

impl Reaper {
    /// Starts the agent on these pipes (stdin, stdout, stderr) in a process group of its own.
    pub fn start(spec: &ChildSpec, pipes: [OwnedFd; 3]) -> Result<Self, Refusal> {
        enter(&spec.cwd)?;
        let started = start_here(spec, pipes);
        // A folder is busy for as long as a process stands in it.
        let _ = std::env::set_current_dir("/");
        let pid = started?;
        match procfs::identify(pid) {
            Some(root) => Ok(Self { root, root_exit: None, empty: false }),
            None => {
                end_unidentified(pid);
                Err(Refusal::Unidentified)
            }
        }
    }

    /// Who the agent is.
    pub fn root(&self) -> &ProcessIdentity {
        &self.root
    }

    /// Reaps whoever has ended; the root's exit once, when it is among them.
    pub fn reap(&mut self) -> Option<Exit> {
        let mut news = None;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    // Only the root can have the root's number before the root is reaped.
                    if self.root_exit.is_none() && procfs::raw(self.root.pid) == Some(pid) {
                        self.root_exit = exit(status);
                        news = self.root_exit;
                    }
                }
                Ok(None) => {
                    self.empty = false;
                    return news;
                }
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.empty = error == Errno::CHILD;
                    return news;
                }
            }
        }
    }

    /// Signals the agent's group; whether somebody got it.
    pub fn signal_group(&self, signal: Signal) -> bool {
        if self.root_exit.is_some() {
            return false;
        }
        let Some(pid) = procfs::raw(self.root.pid) else { return false };
        let group = kill_process_group(pid, procfs::number(signal)).is_ok();
        // An agent that joined another group is still the agent.
        let strayed = procfs::row(self.root.pid).is_ok_and(|row| row.group != self.root.pid);
        let root = strayed && procfs::signal(&self.root, signal).is_ok();
        group || root
    }

    /// Signals every living descendant.
    pub fn signal_tree(&self, signal: Signal) {
        for row in descendants() {
            // One that ended since the look needs no signal.
            let _ = procfs::signal(&row.identity, signal);
        }
    }

    /// Who lives besides the root. Nobody, only if the kernel says that no child is left.
    pub fn scan(&mut self) -> Vec<Survivor> {
        let mut left = Vec::new();
        for _ in 0..SCANS_MAX {
            let root = self.reap();
            debug_assert!(root.is_none(), "a tree is scanned once its root was reaped");
            if self.empty {
                return Vec::new();
            }
            left = descendants();
            if left.iter().any(|row| row.living) {
                left.retain(|row| row.living);
                break;
            }
        }
        left.into_iter().map(|row| Survivor { pid: row.identity.pid, name: row.name }).collect()
    }
}

fn descendants() -> Vec<ProcessRow> {
    procfs::descendants(std::process::id()).unwrap_or_default()
}

fn exit(status: WaitStatus) -> Option<Exit> {
    let code = status.exit_status().map(Exit::Code);
    code.or_else(|| status.terminating_signal().map(Exit::Signal))
}

/// Entered by this process itself, so that a folder that is missing is never taken for a program that is.
fn enter(cwd: &str) -> Result<(), Refusal> {
    let refused = |reason: String| Refusal::Workspace { cwd: cwd.to_owned(), reason };
    if !cwd.starts_with('/') {
        return Err(refused("it is not an absolute path".to_owned()));
    }
    std::env::set_current_dir(cwd).map_err(|error| refused(error.to_string()))
}

fn start_here(spec: &ChildSpec, pipes: [OwnedFd; 3]) -> Result<u32, Refusal> {
    let Some((program, arguments)) = spec.argv.split_first() else {
        return Err(Refusal::NotFound { program: String::new() });
    };
    let [stdin, stdout, stderr] = pipes;
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
    for name in &spec.drop_env {
        command.env_remove(name);
    }
    for (name, value) in &spec.set_env {
        command.env(name, value);
    }
    command.env(SPAWN_TOKEN_VARIABLE, spec.token.as_str()).env_remove(MARKER_VARIABLE);
    // The command goes here, and with it the last of our ends of the agent's pipes.
    match command.spawn() {
        Ok(child) => Ok(child.id()),
        // A script whose interpreter is missing reads the same; its own file is there.
        Err(error) if error.kind() == ErrorKind::NotFound && !is_there(program) => {
            Err(Refusal::NotFound { program: program.clone() })
        }
        Err(error) => {
            Err(Refusal::NotExecutable { program: program.clone(), reason: error.to_string() })
        }
    }
}

fn is_there(program: &str) -> bool {
    // A bare name was looked for along PATH, not here.
    program.contains('/') && std::path::Path::new(program).exists()
}

/// Our own unreaped child, so its number is surely its own (rule 1.1.6).
fn end_unidentified(pid: u32) {
    let Some(pid) = procfs::raw(pid) else { return };
    let _ = kill_process_group(pid, rustix::process::Signal::KILL);
    let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
}
