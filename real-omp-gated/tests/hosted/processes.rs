//! What runs of an agent, as the kernel shows it.

use std::fs;
use std::path::{Path, PathBuf};

pub use moored::platform::ProcessIdentity;

/// The same process, and no zombie of it.
pub fn is_running(process: &ProcessIdentity) -> bool {
    living(process.pid).is_some_and(|living| living == *process)
}

/// Processes whose environment names a place below `root`, or that work there: every one an agent has started. Some tools
/// get an environment that was filtered.
pub fn of(root: &Path) -> Vec<ProcessIdentity> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| is_below(*pid, root)).filter_map(living).collect()
}

/// Freezes a process, if it is still the same.
pub fn freeze(process: &ProcessIdentity) {
    assert!(is_running(process), "it is gone");
    let pid = i32::try_from(process.pid).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
}

/// The arguments of a process.
pub fn arguments(pid: u32) -> Vec<String> {
    let line = fs::read(place(pid, "cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn is_below(pid: u32, root: &Path) -> bool {
    let environment = fs::read(place(pid, "environ")).unwrap_or_default();
    let named = String::from_utf8_lossy(&environment).contains(&root.display().to_string());
    named || fs::read_link(place(pid, "cwd")).is_ok_and(|cwd| cwd.starts_with(root))
}

/// A process of this number, unless it is a zombie.
fn living(pid: u32) -> Option<ProcessIdentity> {
    let stat = fs::read_to_string(place(pid, "stat")).ok()?;
    // The name in brackets may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let start = fields.get(19)?.parse().ok()?;
    (fields[0] != "Z").then_some(ProcessIdentity { pid, start })
}

fn place(pid: u32, file: &str) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join(file)
}
