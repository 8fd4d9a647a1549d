//! The real processes of a run: who strikes them, and who is left of them.

use std::time::Duration;

use moored::journal::{ChildRow, Row, RowKind};
use moored::platform::native::{Liveness, is_alive};
use moored::platform::{ChildIdentity, ProcessIdentity};
use rustix::process::{Pid, Signal, kill_process};

use crate::document::Fault;

/// How long a released supervisor, and whoever was killed, may take to be gone.
const GONE_MS_MAX: u64 = 5_000;
/// Between two looks.
const LOOK_MS: u64 = 20;

/// Somebody outside signals a process of a child's.
pub(crate) fn strike(child: &ChildIdentity, fault: Fault) -> Result<(), String> {
    let (target, signal) = match fault {
        Fault::AgentFrozen => (Some(&child.root), Signal::STOP),
        Fault::AgentKilled => (Some(&child.root), Signal::KILL),
        Fault::SupervisorFrozen => (child.supervisor.as_ref(), Signal::STOP),
        _ => (None, Signal::STOP),
    };
    let target = target.ok_or("there is nobody to strike")?;
    if is_alive(target) != Liveness::Alive {
        return Err("it is gone".to_owned());
    }
    kill_process(pid(target.pid).ok_or("it has no number")?, signal).map_err(|e| e.to_string())
}

/// The names of the processes that are left of a run: those with the agent's home in their environment, and its
/// supervisors. More than `allowed` get a moment to be gone. Whoever is left is ended, so that a run leaves nobody.
pub(crate) async fn end_left(home: &str, rows: &[Row], allowed: usize) -> Vec<String> {
    let supervisors: Vec<_> = rows.iter().filter_map(supervisor).collect();
    let look = || {
        let mut left = living_with(home);
        let alive = supervisors.iter().filter(|s| is_alive(s) == Liveness::Alive);
        left.extend(alive.map(|s| (s.pid, "supervisor".to_owned())));
        left
    };
    let mut left = look();
    for _ in 0..GONE_MS_MAX / LOOK_MS {
        if left.len() <= allowed {
            break;
        }
        tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
        left = look();
    }
    for (number, _) in &left {
        // One that has gone meanwhile is not there to be signalled.
        let _ = pid(*number).map(|pid| kill_process(pid, Signal::KILL));
    }
    left.into_iter().map(|(_, name)| name).collect()
}

fn supervisor(row: &Row) -> Option<ProcessIdentity> {
    match &row.kind {
        RowKind::Child(ChildRow::Started { identity, .. }) => identity.supervisor.clone(),
        _ => None,
    }
}

/// Everybody alive whose environment names this folder. A zombie's environment is empty.
fn living_with(home: &str) -> Vec<(u32, String)> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten();
    let numbers = numbers.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let lives = |number: &u32| {
        let environment = std::fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
        environment.split(|b| *b == 0).any(|variable| variable.ends_with(home.as_bytes()))
    };
    let name = |number: u32| {
        let name = std::fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
        (number, name.trim_end().to_owned())
    };
    numbers.filter(lives).map(name).collect()
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}
