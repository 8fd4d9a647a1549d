//! Processes as `/proc` shows them: who lives, whose child it is, and when it started.
//!
//! A number alone names nobody: it is reused. Whoever is to be signalled is looked at again under an open pidfd, which
//! no later process of that number can take over (rule 1.6.6, "Never signal a stored pid without matching its birth
//! identity first").

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal, test_kill_process};

use crate::platform::{ProcessIdentity, Signal};

/// Reads of a start time before it counts as unreadable (rule 1.1.6).
pub const START_TIME_READS: usize = 3;
/// Looks at the process table for one list of descendants: a parent that ends while the table is read hides its
/// children from that look.
const TABLE_READS_MAX: usize = 3;

/// Whether a recorded process still is (rule 1.1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It lives.
    Alive,
    /// It is gone, or only its unreaped remains are there, or its number is another's now.
    Gone,
    /// The operating system does not show it to us.
    Unknown,
}

/// One line of the process table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRow {
    /// Who.
    pub identity: ProcessIdentity,
    /// Whose child, now.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Not a zombie. A leader that ended before its threads looks like one but still runs.
    pub living: bool,
    /// Its short name.
    pub name: String,
}

/// Which boot this is; process numbers and start times of another boot mean nothing.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Whether a process recorded in this boot lives.
pub fn is_alive(identity: &ProcessIdentity) -> Liveness {
    match row(identity.pid) {
        Ok(row) if row.identity == *identity && row.living => Liveness::Alive,
        Ok(_) => Liveness::Gone,
        // A mount of /proc may hide others' processes: only the kernel's own "no such process" is proof.
        Err(_) => match raw(identity.pid).map(test_kill_process) {
            Some(Err(rustix::io::Errno::SRCH)) | None => Liveness::Gone,
            Some(_) => Liveness::Unknown,
        },
    }
}

/// The process of this number, if it can be read.
pub fn row(pid: u32) -> io::Result<ProcessRow> {
    let stat = std::fs::read(format!("/proc/{pid}/stat"))?;
    parse(pid, &stat).ok_or_else(|| io::Error::other("the process table has an unknown form"))
}

/// The identity of a process that cannot vanish meanwhile, because its parent, who asks, has not reaped it.
pub fn identify(pid: u32) -> Option<ProcessIdentity> {
    (0..START_TIME_READS).find_map(|_| row(pid).ok()).map(|row| row.identity)
}

/// Every descendant of `ancestor`, living or not, nearest first.
pub fn descendants(ancestor: u32) -> io::Result<Vec<ProcessRow>> {
    let mut found = Vec::new();
    for _ in 0..TABLE_READS_MAX {
        let (rows, whole) = table()?;
        found = below(ancestor, rows);
        if whole {
            break;
        }
    }
    Ok(found)
}

/// Signals the process if it still is who it was; otherwise says that it is gone.
pub fn signal(identity: &ProcessIdentity, signal: Signal) -> io::Result<()> {
    let pidfd = hold(identity)?;
    Ok(pidfd_send_signal(pidfd, number(signal))?)
}

/// A handle on exactly this process.
pub fn hold(identity: &ProcessIdentity) -> io::Result<OwnedFd> {
    let gone = || io::Error::from(rustix::io::Errno::SRCH);
    let pidfd = pidfd_open(raw(identity.pid).ok_or_else(gone)?, PidfdFlags::empty())?;
    // Looked at after the handle is open: if it is the same now, the handle is on it.
    if row(identity.pid).is_ok_and(|row| row.identity == *identity) {
        Ok(pidfd)
    } else {
        Err(gone())
    }
}

/// The process number as the system calls take it.
pub fn raw(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// The signal as the system calls take it.
pub fn number(signal: Signal) -> rustix::process::Signal {
    match signal {
        Signal::Term => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
    }
}

/// All rows, and whether every row's parent is among them.
fn table() -> io::Result<(Vec<ProcessRow>, bool)> {
    let mut rows = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // One that ended since the listing is no row.
        rows.extend(row(pid).ok());
    }
    rows.sort_by_key(|row| row.identity.pid);
    let known = |pid: u32| rows.binary_search_by_key(&pid, |row| row.identity.pid).is_ok();
    let whole = rows.iter().all(|row| row.parent == 0 || known(row.parent));
    Ok((rows, whole))
}

fn below(ancestor: u32, rows: Vec<ProcessRow>) -> Vec<ProcessRow> {
    let mut children: BTreeMap<u32, Vec<ProcessRow>> = BTreeMap::new();
    for row in rows {
        children.entry(row.parent).or_default().push(row);
    }
    let mut found = children.remove(&ancestor).unwrap_or_default();
    let mut next = 0;
    while let Some(row) = found.get(next) {
        let grandchildren = children.remove(&row.identity.pid).unwrap_or_default();
        found.extend(grandchildren);
        next += 1;
    }
    found
}

/// `proc_pid_stat(5)`. The name stands in parentheses and may itself hold any byte, parentheses included.
fn parse(pid: u32, stat: &[u8]) -> Option<ProcessRow> {
    let open = memchr::memchr(b'(', stat)?;
    let close = memchr::memrchr(b')', stat)?;
    let name = String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    // The manual counts from 1 and the state is its field 3.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |manual: usize| fields.get(manual - 3).copied();
    let ended = matches!(field(3)?, "Z" | "X" | "x");
    let threads: u64 = field(20)?.parse().ok()?;
    Some(ProcessRow {
        identity: ProcessIdentity { pid, start: field(22)?.parse().ok()? },
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        living: !ended || threads > 1,
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, state: &str, threads: u32) -> String {
        format!("7 ({name}) {state} 3 5 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 991 0 0")
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let row = parse(7, stat("a) R 1 (b", "S", 1).as_bytes()).expect("a row");
        assert_eq!(row.name, "a) R 1 (b");
        assert_eq!((row.parent, row.group, row.living), (3, 5, true));
        assert_eq!(row.identity, ProcessIdentity { pid: 7, start: 991 });
    }

    #[test]
    fn a_zombie_is_not_alive_unless_its_threads_run_on() {
        assert!(!parse(7, stat("x", "Z", 1).as_bytes()).expect("a row").living);
        assert!(parse(7, stat("x", "Z", 2).as_bytes()).expect("a row").living);
    }

    #[test]
    fn a_cut_row_is_no_row() {
        assert_eq!(parse(7, b"7 (x) S 3 5"), None);
        assert_eq!(parse(7, b""), None);
    }

    #[test]
    fn descendants_are_followed_through_every_generation_and_nobody_else_is() {
        let row = |pid, parent| ProcessRow {
            identity: ProcessIdentity { pid, start: 1 },
            parent,
            group: pid,
            living: true,
            name: String::new(),
        };
        let found = below(10, vec![row(1, 0), row(10, 1), row(11, 10), row(12, 1), row(5, 11)]);
        assert_eq!(found, [row(11, 10), row(5, 11)]);
    }

    #[test]
    fn another_start_time_is_another_process() {
        let me = identify(std::process::id()).expect("this process is in its table");
        assert_eq!(is_alive(&me), Liveness::Alive);
        let namesake = ProcessIdentity { start: me.start + 1, ..me };
        assert_eq!(is_alive(&namesake), Liveness::Gone);
        assert!(signal(&namesake, Signal::Kill).is_err(), "and is never signalled");
    }
}
