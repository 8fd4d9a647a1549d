//! Reading the end of a file that is not ours: whoever owns it may have put anything in its place.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::super::{FilePattern, FileTail, PathComponent};
use crate::limits::{FILE_LOOK_ENTRIES_MAX, FILE_LOOKS_MAX};

/// Looks into files, a few at a time, each on a thread of its own: a file system that hangs can be waited for by nobody,
/// not even by a runtime that shuts down.
#[derive(Debug)]
pub(super) struct Looks(Arc<Semaphore>);

impl Looks {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(FILE_LOOKS_MAX)))
    }

    /// Begins a look. Where too many hang already nothing can be said.
    pub(super) fn begin(
        &self,
        pattern: FilePattern,
        bytes_max: u64,
    ) -> impl Future<Output = FileTail> + Send + use<> {
        let permit = Arc::clone(&self.0).try_acquire_owned().ok();
        let begun = permit.and_then(|permit| on_a_thread(permit, pattern, bytes_max));
        async move {
            match begun {
                Some(answer) => answer.await.unwrap_or(FileTail::Unreadable),
                None => FileTail::Unreadable,
            }
        }
    }
}

fn on_a_thread(
    permit: OwnedSemaphorePermit,
    pattern: FilePattern,
    bytes_max: u64,
) -> Option<oneshot::Receiver<FileTail>> {
    let (reply, answer) = oneshot::channel();
    let look = move || {
        // A session that waits no more needs no answer.
        let _ = reply.send(read(&pattern, bytes_max));
        drop(permit);
    };
    thread::Builder::new().name("moored-look".to_owned()).spawn(look).is_ok().then_some(answer)
}

/// Blocks for as long as the file system takes.
fn read(pattern: &FilePattern, bytes_max: u64) -> FileTail {
    let found = match Search::default().find(pattern) {
        Ok(found) => found,
        Err(_) => return FileTail::Unreadable,
    };
    match found.as_slice() {
        [] => FileTail::Missing,
        [path] => tail(path, bytes_max).unwrap_or(FileTail::Unreadable),
        _ => FileTail::Unreadable,
    }
}

/// The files that are as a pattern says.
#[derive(Default)]
struct Search {
    entries: usize,
}

impl Search {
    fn find(&mut self, pattern: &FilePattern) -> io::Result<Vec<PathBuf>> {
        let mut found = vec![PathBuf::from("/")];
        let mut in_named_folders = true;
        for component in pattern.components() {
            let mut next = Vec::new();
            for folder in found {
                match component {
                    PathComponent::Name(name) => next.push(folder.join(name)),
                    PathComponent::Like(_) => next.extend(self.like(&folder, component)?),
                }
            }
            in_named_folders &= matches!(component, PathComponent::Name(_));
            // The folders that the definition names may be links: they are the embedder's. Below them none is followed.
            found = match in_named_folders {
                true => next,
                false => existing(next)?,
            };
        }
        existing(found)
    }

    fn like(&mut self, folder: &Path, component: &PathComponent) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let listed = match std::fs::read_dir(folder) {
            Err(error) if is_absence(&error) => return Ok(found),
            listed => listed?,
        };
        for entry in listed {
            self.entries += 1;
            if self.entries > FILE_LOOK_ENTRIES_MAX {
                return Err(io::Error::other("the folders have too many entries"));
            }
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| component.matches(name)) {
                found.push(entry.path());
            }
        }
        Ok(found)
    }
}

/// Those that are there and are no links: where a link leads is somebody else's.
fn existing(paths: Vec<PathBuf>) -> io::Result<Vec<PathBuf>> {
    let mut there = Vec::new();
    for path in paths {
        match std::fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_symlink() => {}
            Ok(_) => there.push(path),
            Err(error) if is_absence(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(there)
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn tail(path: &Path, bytes_max: u64) -> io::Result<FileTail> {
    // A pipe in its place must hold nobody up, and a link that came meanwhile is not followed.
    let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits();
    let mut file: File =
        OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Ok(FileTail::Unreadable);
    }
    let from = meta.len().saturating_sub(bytes_max);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(FileTail::Read { bytes, whole: from == 0 })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::super::super::PatternPart::{Star, Text};
    use super::*;

    fn at(folder: &Path, file: &str) -> FilePattern {
        let folder = format!("{}/", folder.display());
        FilePattern::of([Text(&folder), Star, Text("/"), Text(file)]).expect("an absolute path")
    }

    fn folder_with(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for name in names {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("it is in the folder")).expect("a folder");
            std::fs::write(path, "0123456789").expect("a file");
        }
        folder
    }

    #[test]
    fn the_end_of_the_one_file_is_read_and_no_more_than_was_asked_for() {
        let folder = folder_with(&["ws/a.jsonl"]);
        let asked = at(folder.path(), "a.jsonl");
        assert_eq!(read(&asked, 4), FileTail::Read { bytes: b"6789".to_vec(), whole: false });
        assert_eq!(read(&asked, 10), FileTail::Read { bytes: b"0123456789".to_vec(), whole: true });
    }

    #[test]
    fn nothing_is_said_of_two_files_a_folder_or_a_pipe() {
        let folder = folder_with(&["one/a", "two/a", "one/b/inner"]);
        assert_eq!(read(&at(folder.path(), "none"), 9), FileTail::Missing);
        assert_eq!(read(&at(folder.path(), "a"), 9), FileTail::Unreadable);
        assert_eq!(read(&at(folder.path(), "b"), 9), FileTail::Unreadable);
        let pipe = folder.path().join("one/c");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
        assert_eq!(read(&at(folder.path(), "c"), 9), FileTail::Unreadable);
    }

    #[test]
    fn no_link_below_the_named_folders_is_followed() {
        let elsewhere = folder_with(&["ws/a"]);
        let folder = folder_with(&["one/b"]);
        symlink(elsewhere.path().join("ws"), folder.path().join("two")).expect("a link");
        symlink(elsewhere.path().join("ws/a"), folder.path().join("one/c")).expect("a link");
        assert_eq!(read(&at(folder.path(), "a"), 9), FileTail::Missing);
        assert_eq!(read(&at(folder.path(), "c"), 9), FileTail::Missing);
        assert!(matches!(read(&at(folder.path(), "b"), 9), FileTail::Read { .. }));
        // The folders that are named are the embedder's own.
        let outer = folder_with(&[]);
        let named = outer.path().join("named");
        symlink(folder.path(), &named).expect("a link");
        assert!(matches!(read(&at(&named, "b"), 9), FileTail::Read { .. }));
    }

    #[test]
    fn a_folder_that_may_not_be_entered_is_no_proof_that_nothing_is_in_it() {
        let folder = folder_with(&["one/a"]);
        let shut = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(folder.path().join("one"), permissions).expect("it is ours");
        };
        shut(0o000);
        let seen = read(&at(folder.path(), "b"), 9);
        shut(0o700);
        // Whoever may do everything looks into it all the same.
        let wanted = match rustix::process::geteuid().is_root() {
            true => FileTail::Missing,
            false => FileTail::Unreadable,
        };
        assert_eq!(seen, wanted);
    }

    #[test]
    fn a_folder_with_too_many_entries_is_not_read_to_its_end() {
        let folder = folder_with(&["one/a", "two/b"]);
        let asked = at(folder.path(), "a");
        let mut search = Search { entries: FILE_LOOK_ENTRIES_MAX - 2 };
        assert_eq!(search.find(&asked).expect("there is room").len(), 1);
        let mut search = Search { entries: FILE_LOOK_ENTRIES_MAX - 1 };
        assert!(search.find(&asked).is_err());
    }

    #[tokio::test]
    async fn looks_that_hang_are_bounded_and_hold_up_nobody() {
        let folder = folder_with(&["one/a"]);
        let looks = Looks::new();
        let hanging = Arc::clone(&looks.0).try_acquire_many_owned(FILE_LOOKS_MAX as u32);
        let asked = at(folder.path(), "a");
        assert_eq!(looks.begin(asked.clone(), 9).await, FileTail::Unreadable);
        drop(hanging);
        assert!(matches!(looks.begin(asked, 9).await, FileTail::Read { .. }));
    }
}
