//! Reading the end of a file that is not ours: whoever owns it may have put anything in its place.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;

use super::super::{FilePattern, FileTail};

/// Blocks for as long as the file system takes.
pub(super) fn read(pattern: &FilePattern, bytes_max: u64) -> FileTail {
    let Ok(mut found) = glob::glob_with(pattern.as_str(), glob::MatchOptions::default()) else {
        return FileTail::Unreadable;
    };
    let path = match (found.next(), found.next()) {
        (None, _) => return FileTail::Missing,
        (Some(Ok(path)), None) => path,
        _ => return FileTail::Unreadable,
    };
    tail(&path, bytes_max).unwrap_or(FileTail::Unreadable)
}

fn tail(path: &std::path::Path, bytes_max: u64) -> std::io::Result<FileTail> {
    // A pipe in its place must hold nobody up.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
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
    use super::*;

    fn pattern(folder: &std::path::Path, file: &str) -> FilePattern {
        FilePattern::new(format!("{}/*/{file}", folder.display()))
    }

    #[test]
    fn the_end_of_the_one_file_is_read_and_no_more_than_was_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("ws");
        std::fs::create_dir(&inner).expect("a folder");
        std::fs::write(inner.join("a.jsonl"), "0123456789").expect("a file");
        let asked = pattern(folder.path(), "a.jsonl");
        assert_eq!(read(&asked, 4), FileTail::Read { bytes: b"6789".to_vec(), whole: false });
        assert_eq!(read(&asked, 10), FileTail::Read { bytes: b"0123456789".to_vec(), whole: true });
    }

    #[test]
    fn nothing_is_said_of_two_files_a_folder_or_a_pipe() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["one", "two"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
            std::fs::write(folder.path().join(name).join("a"), "").expect("a file");
        }
        assert_eq!(read(&pattern(folder.path(), "none"), 9), FileTail::Missing);
        assert_eq!(read(&pattern(folder.path(), "a"), 9), FileTail::Unreadable);
        std::fs::create_dir(folder.path().join("one/b")).expect("a folder");
        assert_eq!(read(&pattern(folder.path(), "b"), 9), FileTail::Unreadable);
        let pipe = folder.path().join("one/c");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
        assert_eq!(read(&pattern(folder.path(), "c"), 9), FileTail::Unreadable);
    }
}
