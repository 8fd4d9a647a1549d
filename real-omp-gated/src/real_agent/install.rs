//! Installing an agent's packages with npm, into a folder of their own.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use thiserror::Error;

use super::recipe::Kind;

/// 750 MB over a slow line; beyond this npm hangs.
const INSTALL_S_MAX: u32 = 1200;
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// One install at a time in this process: the tests of one agent all miss it at once.
static INSTALLING: Mutex<()> = Mutex::new(());

/// Why an agent could not be installed.
#[derive(Debug, Error)]
pub enum InstallError {
    /// The folder cannot be made or moved into place.
    #[error("the folder for it cannot be made: {0}")]
    Folder(io::Error),
    /// npm ended with an error.
    #[error("npm ended with {0}")]
    Npm(ExitStatus),
    /// npm could not be started.
    #[error("npm cannot be started: {0}")]
    Start(io::Error),
    /// npm did not end.
    #[error("npm did not end within {INSTALL_S_MAX} s")]
    Timeout,
}

/// Installs beside the folder and moves the result into place, so that two test programs at once,
/// or one that is killed, never leave half an agent there.
pub fn install(kind: Kind, folder: &Path) -> Result<(), InstallError> {
    // It guards no data, so a panic of another holder says nothing about ours.
    let _one_at_a_time = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if folder.join(kind.program()).is_file() {
        return Ok(());
    }
    let cache = folder.parent().unwrap_or(folder);
    fs::create_dir_all(cache).map_err(InstallError::Folder)?;
    let building = tempfile::Builder::new().prefix(".installing-").tempdir_in(cache);
    let building = building.map_err(InstallError::Folder)?;
    // Without a package file of its own npm would install into a parent folder that has one.
    let package = building.path().join("package.json");
    fs::write(package, "{\"private\": true}\n").map_err(InstallError::Folder)?;
    let npm = Command::new("npm")
        // With the packages' install scripts: without its own, bun is not executable.
        .args(["install", "--no-audit", "--no-fund", "--loglevel=error"])
        .args(kind.packages())
        .current_dir(building.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let status = wait(&mut npm.map_err(InstallError::Start)?)?;
    if !status.success() {
        return Err(InstallError::Npm(status));
    }
    match fs::rename(building.path(), folder) {
        // Another program was faster; its folder is as good as ours.
        Err(_) if folder.join(kind.program()).is_file() => Ok(()),
        moved => moved.map_err(InstallError::Folder),
    }
}

fn wait(npm: &mut Child) -> Result<ExitStatus, InstallError> {
    let looks = INSTALL_S_MAX * 1000 / 250;
    for _ in 0..looks {
        if let Some(status) = npm.try_wait().map_err(InstallError::Start)? {
            return Ok(status);
        }
        thread::sleep(LOOK_AGAIN);
    }
    // It may have ended in the meantime; either way it is reaped.
    npm.kill().and_then(|()| npm.wait()).ok();
    Err(InstallError::Timeout)
}
