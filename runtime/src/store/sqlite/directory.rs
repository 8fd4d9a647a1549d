//! The state directory: its files, their permissions, and the lock that keeps a second host out.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::store::StoreError;

const DATABASE: &str = "journal.sqlite";
const LOCK: &str = "lock";
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Longest text read from a lock file; a process number is shorter.
const LOCK_TEXT_BYTES_MAX: u64 = 64;
const PID_DIGITS_MAX: usize = 20;
const _: () = assert!((PID_DIGITS_MAX as u64) < LOCK_TEXT_BYTES_MAX);

/// Where a store lies.
#[derive(Clone, Debug)]
pub(super) struct Place {
    directory: PathBuf,
}

impl Place {
    /// Names a directory and touches nothing.
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Makes the directory, or proves that it may be one of ours, and closes it to everybody else.
    pub fn prepare(directory: &Path) -> Result<Self, StoreError> {
        let place = Self::at(directory);
        if !directory.exists() {
            DirBuilder::new()
                .recursive(true)
                .mode(DIRECTORY_MODE)
                .create(directory)
                .map_err(|e| place.unusable(e))?;
        }
        let metadata = std::fs::metadata(directory).map_err(|e| place.unusable(e))?;
        if !metadata.is_dir() {
            return Err(place.foreign(directory));
        }
        if metadata.permissions().mode() & 0o077 != 0 {
            // Somebody's home or project must not lose its permissions to a slip of the keyboard.
            if !place.is_ours_or_empty()? {
                return Err(place.unusable(
                    "the folder holds other files and is open to other users; choose an empty one",
                ));
            }
            restrict(directory, DIRECTORY_MODE).map_err(|e| place.unusable(e))?;
        }
        Ok(place)
    }

    /// The database file.
    pub fn database(&self) -> PathBuf {
        self.directory.join(DATABASE)
    }

    /// A database under construction; it gets its name when it is whole.
    pub fn draft(&self) -> PathBuf {
        self.directory.join("journal.sqlite.new")
    }

    /// Whether there is a database file, of ours or not.
    pub fn has_database(&self) -> Result<bool, StoreError> {
        self.database().try_exists().map_err(|e| self.unusable(e))
    }

    /// Starts a draft: an empty file that only its owner can open.
    pub fn begin_draft(&self) -> Result<(), StoreError> {
        for leftover in [self.draft(), self.directory.join("journal.sqlite.new-journal")] {
            match std::fs::remove_file(&leftover) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(self.unusable(e)),
                _ => {}
            }
        }
        owned_file().create_new(true).open(self.draft()).map_err(|e| self.unusable(e))?;
        Ok(())
    }

    /// Names the draft; from here on it is the store, whatever happens.
    pub fn finish_draft(&self) -> Result<(), StoreError> {
        let rename = || {
            File::open(self.draft())?.sync_all()?;
            std::fs::rename(self.draft(), self.database())?;
            File::open(&self.directory)?.sync_all()
        };
        rename().map_err(|e| self.unusable(e))
    }

    /// Rule 6.1.6: the database, its log and its index belong to their owner alone, or the store is not opened.
    pub fn harden(&self) -> Result<(), StoreError> {
        for name in [DATABASE, "journal.sqlite-wal", "journal.sqlite-shm", LOCK] {
            let path = self.directory.join(name);
            match std::fs::metadata(&path) {
                Ok(file) if file.permissions().mode() & 0o777 == FILE_MODE => {}
                Ok(_) => restrict(&path, FILE_MODE).map_err(|e| self.unusable(e))?,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(self.unusable(e)),
            }
        }
        Ok(())
    }

    /// The store cannot be used, in the words of whoever refused.
    pub fn unusable(&self, reason: impl std::fmt::Display) -> StoreError {
        StoreError::Unusable { path: self.shown(), reason: reason.to_string() }
    }

    /// The file is none of ours.
    pub fn foreign(&self, file: &Path) -> StoreError {
        StoreError::Foreign { path: file.display().to_string() }
    }

    /// The directory, for a person.
    pub fn shown(&self) -> String {
        self.directory.display().to_string()
    }

    fn is_ours_or_empty(&self) -> Result<bool, StoreError> {
        if self.has_database()? || self.directory.join(LOCK).exists() {
            return Ok(true);
        }
        let mut entries = std::fs::read_dir(&self.directory).map_err(|e| self.unusable(e))?;
        Ok(entries.next().is_none())
    }
}

/// Keeps a second host out of the directory (rule 6.1.1). The operating system releases it when the process ends, however
/// it ends, and keeps it while the process is stopped (decision D35).
pub(super) struct InstanceLock {
    _file: File,
}

impl InstanceLock {
    pub fn take(place: &Place) -> Result<Self, StoreError> {
        let path = place.directory.join(LOCK);
        let mut file = owned_file().create(true).open(path).map_err(|e| place.unusable(e))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(StoreError::InUse { path: place.shown(), pid: holder(file) });
            }
            Err(e) => return Err(place.unusable(e)),
        }
        let write = |file: &mut File| {
            file.set_len(0)?;
            writeln!(file, "{}", std::process::id())
        };
        write(&mut file).map_err(|e| place.unusable(e))?;
        Ok(Self { _file: file })
    }
}

/// Who holds the lock, as it wrote itself down; it may be about to.
fn holder(mut file: File) -> String {
    let mut text = String::new();
    let read =
        file.rewind().and_then(|()| file.take(LOCK_TEXT_BYTES_MAX).read_to_string(&mut text));
    let pid = text.trim();
    let is_pid = read.is_ok()
        && (1..=PID_DIGITS_MAX).contains(&pid.len())
        && pid.bytes().all(|b| b.is_ascii_digit());
    if is_pid { pid.to_owned() } else { "(unknown)".to_owned() }
}

fn owned_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(FILE_MODE);
    options
}

fn restrict(path: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}
