//! The process table: who is there, whose child, in which group, and how it ended. Pure.

use std::collections::BTreeMap;

use moored::platform::{Exit, ProcessIdentity};

/// The first process number. None this high exists on a real system, so one that leaks there fails loudly.
pub const PID_FIRST: u32 = 1 << 30;
/// The process that inherits orphans nobody else does, and reaps them.
pub const INIT_PID: u32 = PID_FIRST;

/// Processes of one machine, zombies too; past it a fork is refused.
pub const PROCESSES_MAX: usize = 1_024;

/// What a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs, or waits for something.
    Running,
    /// SIGSTOP froze it.
    Stopped,
    /// It has ended and was not reaped. It is not alive.
    Zombie(Exit),
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRow {
    /// Its number and start.
    pub identity: ProcessIdentity,
    /// Its parent's number.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// Its short name.
    pub name: String,
    /// What it is doing.
    pub state: ProcessState,
    /// Orphans among its descendants become its children.
    pub subreaper: bool,
    /// Its dead children are reaped without its asking.
    pub reaps_by_itself: bool,
    /// The job it belongs to, on win32.
    pub job: Option<u32>,
    /// The spawn token in its environment.
    pub token: Option<String>,
}

impl ProcessRow {
    /// Whether it is neither gone nor a zombie.
    pub const fn is_alive(&self) -> bool {
        !matches!(self.state, ProcessState::Zombie(_))
    }
}

/// Rows in order of their numbers.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: BTreeMap<u32, ProcessRow>,
}

impl Table {
    /// One row.
    pub fn row(&self, pid: u32) -> Option<&ProcessRow> {
        self.rows.get(&pid)
    }

    pub(crate) fn row_mut(&mut self, pid: u32) -> Option<&mut ProcessRow> {
        self.rows.get_mut(&pid)
    }

    /// Every row.
    pub fn rows(&self) -> impl Iterator<Item = &ProcessRow> {
        self.rows.values()
    }

    pub(crate) fn insert(&mut self, row: ProcessRow) {
        let before = self.rows.insert(row.identity.pid, row);
        assert!(before.is_none(), "a number is given again only after its process was reaped");
    }

    /// A process has ended: it becomes a zombie, its children go to the nearest living subreaper above it, or to
    /// init. Gives everyone who has a new dead child.
    pub(crate) fn end(&mut self, pid: u32, exit: Exit) -> Vec<u32> {
        let Some(row) = self.rows.get_mut(&pid) else { return Vec::new() };
        row.state = ProcessState::Zombie(exit);
        let parent = row.parent;
        let heir = self.heir(parent);
        let mut told = vec![parent];
        for orphan in self.rows.values_mut().filter(|row| row.parent == pid) {
            orphan.parent = heir;
            if !orphan.is_alive() && !told.contains(&heir) {
                told.push(heir);
            }
        }
        told
    }

    /// Takes a row out without leaving a zombie or moving its children (win32).
    pub(crate) fn vanish(&mut self, pid: u32) {
        self.rows.remove(&pid);
    }

    /// The nearest living subreaper from `pid` upwards, else init.
    fn heir(&self, mut pid: u32) -> u32 {
        // The table is a tree under init: the walk ends.
        while let Some(row) = self.rows.get(&pid) {
            if row.subreaper && row.is_alive() {
                return pid;
            }
            if row.parent == pid {
                break;
            }
            pid = row.parent;
        }
        INIT_PID
    }

    /// Reaps the dead children of a process, in order of their numbers.
    pub(crate) fn reap(&mut self, parent: u32) -> Vec<(ProcessIdentity, Exit)> {
        let dead = self.rows.values().filter(|row| row.parent == parent && !row.is_alive());
        let dead: Vec<_> = dead
            .filter_map(|row| match row.state {
                ProcessState::Zombie(exit) => Some((row.identity.clone(), exit)),
                _ => None,
            })
            .collect();
        for (identity, _) in &dead {
            self.rows.remove(&identity.pid);
        }
        dead
    }

    /// The living below `pid`, in order of their numbers. A zombie is not alive, but its children are still below.
    pub fn living_below(&self, pid: u32) -> Vec<&ProcessRow> {
        let below = |row: &&ProcessRow| {
            let mut at = row.parent;
            loop {
                if at == pid {
                    return true;
                }
                match self.rows.get(&at) {
                    Some(parent) if parent.parent != at => at = parent.parent,
                    _ => return false,
                }
            }
        };
        self.rows.values().filter(|row| row.is_alive()).filter(below).collect()
    }

    /// The members of a group, zombies too, in order of their numbers.
    pub fn group(&self, group: u32) -> impl Iterator<Item = &ProcessRow> {
        self.rows.values().filter(move |row| row.group == group)
    }
}
