//! A supervisor that no longer does its work: the host ends the agent itself, by identity, and claims no proof.
//!
//! Rule 1.6.6: the supervisor is paused, so that it can reap nobody under our hands; the agent's group is killed if the
//! agent is exactly who was started; only then is the supervisor killed. If anything does not match, the supervisor is
//! resumed and nobody is killed: its own ladder still runs. The supervisor is never killed without the group.

use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Signal, kill_process_group};
use tokio::time::{sleep, timeout};

use super::child::SupervisorProcess;
use super::procfs::{self, Liveness, ProcessRow};
use crate::platform::{ProcessIdentity, Signal as Ask};
use crate::session::ladder::{LadderPolicy, POSIX_TERM_GRACE_MS, SUPERVISOR_ANSWER_MS};
use crate::supervisor::core::TREE_POLL_MS;

/// Whether a supervisor whose socket ended has ended too.
pub(super) async fn is_gone(supervisor: &mut SupervisorProcess) -> bool {
    timeout(Duration::from_millis(SUPERVISOR_ANSWER_MS), supervisor.ended()).await.is_ok()
}

/// A start that failed. The supervisor's socket is closed: one that works ends by itself, one that does not is ended
/// with whatever it has started.
pub(super) async fn end_unstarted(mut supervisor: SupervisorProcess) {
    if is_gone(&mut supervisor).await {
        return;
    }
    supervisor.signal(Signal::STOP);
    for row in procfs::descendants(supervisor.pid()).unwrap_or_default() {
        let _ = procfs::signal(&row.identity, Ask::Kill);
    }
    supervisor.signal(Signal::KILL);
    supervisor.ended().await;
}

/// The supervisor is gone, and its children are strangers' now: the agent's group, and who descends from the agent at
/// this moment.
pub(super) fn end_orphan(root: Option<&ProcessIdentity>, policy: &LadderPolicy) {
    let Some(root) = root else { return };
    let Ok(row) = procfs::row(root.pid) else { return };
    if row.identity != *root {
        return;
    }
    let below = procfs::descendants(root.pid).unwrap_or_default();
    kill_group(&row);
    if !policy.keep_background {
        kill_all(&below);
    }
}

/// The supervisor is there and does not answer; whether it was ended.
pub(super) async fn end_frozen(
    supervisor: &SupervisorProcess,
    root: Option<&ProcessIdentity>,
    policy: &LadderPolicy,
) -> bool {
    supervisor.signal(Signal::STOP);
    // A root that is gone for certain leaves a group only of our supervisor's descendants, who follow below.
    let root = root.filter(|root| procfs::is_alive(root) != Liveness::Gone);
    if let Some(root) = root {
        // Its direct child, with the start time that was recorded.
        let exact = procfs::row(root.pid)
            .ok()
            .filter(|row| row.identity == *root && row.parent == supervisor.pid());
        if !exact.is_some_and(|row| kill_group(&row)) {
            supervisor.signal(Signal::CONT);
            return false;
        }
    }
    if !policy.keep_background {
        end_descendants(supervisor.pid(), policy.kill_wait_ms).await;
    }
    supervisor.signal(Signal::KILL)
}

/// Reaps a supervisor that closes its child by itself, and ends one that does not: no child of ours is forgotten.
pub(super) async fn see_off(
    mut supervisor: SupervisorProcess,
    root: Option<&ProcessIdentity>,
    policy: &LadderPolicy,
) {
    // The whole ladder, then the whole sweep.
    let windows_ms = [
        policy.eof_grace_ms,
        policy.term_grace_ms,
        policy.kill_wait_ms,
        policy.term_grace_ms.max(POSIX_TERM_GRACE_MS),
        policy.kill_wait_ms,
        SUPERVISOR_ANSWER_MS,
    ];
    let bound = Duration::from_millis(windows_ms.into_iter().fold(0, u64::saturating_add));
    while timeout(bound, supervisor.ended()).await.is_err() {
        end_frozen(&supervisor, root, policy).await;
    }
}

/// Killed parents hand over children that no signal has reached yet: until nobody lives, or the window has passed.
async fn end_descendants(supervisor: u32, window_ms: u64) {
    for _ in 0..window_ms.div_ceil(TREE_POLL_MS) {
        let mut living = procfs::descendants(supervisor).unwrap_or_default();
        living.retain(|row| row.living);
        if living.is_empty() {
            return;
        }
        kill_all(&living);
        sleep(Duration::from_millis(TREE_POLL_MS)).await;
    }
}

fn kill_all(rows: &[ProcessRow]) {
    for row in rows {
        let _ = procfs::signal(&row.identity, Ask::Kill);
    }
}

/// Whether the group has had its signal, or holds nobody who could still take one.
fn kill_group(root: &ProcessRow) -> bool {
    let Some(pid) = procfs::raw(root.identity.pid) else { return false };
    if root.group != root.identity.pid {
        return procfs::signal(&root.identity, Ask::Kill).is_ok();
    }
    match kill_process_group(pid, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => true,
        Err(Errno::PERM) => !root.living,
        Err(_) => false,
    }
}
