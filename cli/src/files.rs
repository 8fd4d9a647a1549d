//! Files that commands read and write.

#![expect(clippy::disallowed_methods, reason = "a binary reads and writes the files it is given")]

use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, bail};
use moored_sim::failure::FailureFile;

/// Longest file that is read: a failure with a long tape is some megabytes.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The text of a file; none if there is no such file. Only regular files are opened: a pipe would be waited for, and a
/// device has no end.
pub fn read(path: &Path) -> anyhow::Result<Option<String>> {
    let named = path.display();
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => bail!("the file {named} cannot be read ({error}); name another file"),
    };
    if !metadata.is_file() {
        bail!("{named} is no regular file; name a file");
    }
    if metadata.len() > FILE_BYTES_MAX {
        bail!(
            "{named} has {} bytes, and {FILE_BYTES_MAX} is the most that is read",
            metadata.len()
        );
    }
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) => bail!("the file {named} cannot be read ({error}); name another file"),
    }
}

/// The text of a file that must be there.
pub fn read_existing(path: &Path) -> anyhow::Result<String> {
    read(path)?
        .with_context(|| format!("there is no file {}; name one that exists", path.display()))
}

/// Writes a file that its owner alone may read: a run may hold prompts.
pub fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| {
        // One that was there before may be open to others.
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        file.write_all(text.as_bytes())
    });
    written.with_context(|| unwritable(path))
}

/// Writes a file as any other.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| unwritable(path))
}

/// Makes a folder that its owner alone may enter; one that is there is left as it is.
pub fn make_private_folder(path: &Path) -> anyhow::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).with_context(|| unwritable(path))
}

/// Makes a folder as any other.
pub fn make_folder(path: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(path).with_context(|| unwritable(path))
}

/// The files of a folder with this ending, in the order of their names.
pub fn listed(folder: &Path, ending: &str) -> anyhow::Result<Vec<std::path::PathBuf>> {
    let unreadable =
        || format!("the folder {} cannot be read; name one that exists", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if path.extension().is_some_and(|found| found == ending) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn unwritable(path: &Path) -> String {
    format!("{} cannot be written; name another place", path.display())
}

/// A failure that a sweep wrote.
pub fn read_failure(path: &Path) -> anyhow::Result<FailureFile> {
    let named = path.display();
    let text = read_existing(path)?;
    let unreadable = || format!("the failure {named} cannot be read");
    let value: serde_json::Value = serde_json::from_str(&text).with_context(unreadable)?;
    if !FailureFile::is_one(&value) {
        bail!("{named} is no failure; name a file that `moored sweep` wrote to --out");
    }
    FailureFile::from_value(value).with_context(unreadable)
}
