//! Signals: late, sometimes refused, pending on a frozen process, and never a proof of anything.

use std::sync::Arc;
use std::task::Waker;

use moored::platform::{Exit, ProcessIdentity, Signal};
use serde::{Deserialize, Serialize};

use super::{Disposition, ProcessState, Tag, World};
use crate::witness::Seen;

/// A signal of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Sig {
    /// SIGABRT.
    Abrt,
    /// SIGCONT: a frozen process runs on.
    Cont,
    /// SIGHUP.
    Hup,
    /// SIGINT.
    Int,
    /// SIGKILL: cannot be handled.
    Kill,
    /// SIGSEGV.
    Segv,
    /// SIGSTOP: freezes; cannot be handled.
    Stop,
    /// SIGTERM.
    Term,
}

impl Sig {
    /// Its number on Linux.
    pub const fn number(self) -> i32 {
        match self {
            Self::Abrt => 6,
            Self::Cont => 18,
            Self::Hup => 1,
            Self::Int => 2,
            Self::Kill => 9,
            Self::Segv => 11,
            Self::Stop => 19,
            Self::Term => 15,
        }
    }
}

impl From<Signal> for Sig {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Term => Self::Term,
            Signal::Kill => Self::Kill,
        }
    }
}

/// Why a signal was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// There is no such process or group; a zombie still counts as one.
    #[error("there is no such process")]
    NoSuchProcess,
    /// The operating system refused.
    #[error("the operating system refused the signal")]
    Refused,
    /// This kind of machine has no signals.
    #[error("this machine has no signals")]
    Unsupported,
}

impl World {
    /// Signals one process.
    pub fn signal(self: &Arc<Self>, pid: u32, sig: Sig) -> Result<(), SignalError> {
        let identity = self.lock().table.row(pid).map(|row| row.identity.clone());
        let identity = identity.ok_or(SignalError::NoSuchProcess)?;
        self.send(vec![identity], sig, format_args!("{sig:?} to {}", Tag(pid)))
    }

    /// Signals every member of a group.
    pub fn signal_group(self: &Arc<Self>, group: u32, sig: Sig) -> Result<(), SignalError> {
        let members: Vec<_> =
            self.lock().table.group(group).map(|row| row.identity.clone()).collect();
        if members.is_empty() {
            return Err(SignalError::NoSuchProcess);
        }
        self.send(members, sig, format_args!("{sig:?} to group {}", Tag(group)))
    }

    /// Somebody outside the library signals a process: never refused, never late, and not the library's doing.
    pub fn strike(self: &Arc<Self>, target: &ProcessIdentity, sig: Sig) {
        self.see(&Seen::SignalSent { target, sig, fault: true });
        self.deliver(target, sig);
    }

    fn send(
        self: &Arc<Self>,
        targets: Vec<ProcessIdentity>,
        sig: Sig,
        told: std::fmt::Arguments<'_>,
    ) -> Result<(), SignalError> {
        if self.options().is_win32() && sig != Sig::Kill {
            return Err(SignalError::Unsupported);
        }
        if self.kernel.one_in("process.signal_refused", self.options().signal_refused_one_in) {
            self.note("signal.refused", told);
            return Err(SignalError::Refused);
        }
        self.note("signal.sent", told);
        for target in &targets {
            self.see(&Seen::SignalSent { target, sig, fault: false });
        }
        let late_us = self.kernel.choose("process.signal_us", self.options().signal_us_max);
        let (world, late) = (Arc::clone(self), self.kernel.sleep_us(late_us));
        self.kernel.spawn(
            "signal",
            Box::pin(async move {
                late.await;
                targets.iter().for_each(|target| world.deliver(target, sig));
            }),
        );
        Ok(())
    }

    /// A signal arrives, if the process it was meant for is still there.
    pub(super) fn deliver(self: &Arc<Self>, target: &ProcessIdentity, sig: Sig) {
        let mut woken: Vec<Waker> = Vec::new();
        let mut ends = None;
        {
            let mut guard = self.lock();
            let state = &mut *guard;
            let Some(row) = state.table.row_mut(target.pid).filter(|row| row.identity == *target)
            else {
                return;
            };
            let Some(life) = state.lives.get_mut(&target.pid).filter(|life| !life.dying) else {
                return;
            };
            match (sig, life.dispositions.get(&sig)) {
                (Sig::Kill, _) => ends = Some(sig),
                (Sig::Stop, _) => row.state = ProcessState::Stopped,
                (Sig::Cont, _) => {
                    row.state = ProcessState::Running;
                    woken.append(&mut life.gate);
                    ends = life.held.pop();
                }
                (_, Some(Disposition::Ignored)) => {}
                (_, Some(Disposition::Handled)) => {
                    if !life.pending.contains(&sig) {
                        life.pending.push_back(sig);
                    }
                    woken.append(&mut life.signal_waiters);
                }
                (_, None) if row.state == ProcessState::Stopped => life.held.push(sig),
                (_, None) => ends = Some(sig),
            }
        }
        self.note("signal.arrived", format_args!("{sig:?} at {}", Tag(target.pid)));
        woken.into_iter().for_each(Waker::wake);
        if let Some(sig) = ends {
            let takes_us = self.kernel.choose("process.death_us", self.options().death_us_max);
            self.begin_death(target, Exit::Signal(sig.number()), takes_us);
        }
    }
}
