//! A real browser, without a window: it opens a page and says what the page became.
//!
//! Everything it writes is in one temporary folder, and it runs in a process group of its own, which is ended whole:
//! nothing of it is left, whatever became of it.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Where `MOORED_BROWSER` names none.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// A browser that has said nothing by then is ended, and the test with it. It takes a second or two.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long what is ended may take to be gone.
const LEAVING: Duration = Duration::from_secs(20);

/// The browser to test with, or none, said in one line past the capture of the test harness.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("MOORED_BROWSER").filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = NAMES
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)))
        .find(|program| program.is_file());
    if found.is_none() {
        let _ = writeln!(std::io::stderr(), "the page in a browser: skipped: no browser on PATH");
    }
    found
}

/// Opens `page` at `place` (`#...`, or nothing) and returns the document that its script made of it.
pub fn document(browser: &Path, page: &str, place: &str) -> String {
    let folder = tempfile::tempdir().expect("there is room for a page");
    let file = folder.path().join("timeline.html");
    std::fs::write(&file, page).expect("there is room for a page");
    let address = format!("file://{}{place}", file.display());
    let said = folder.path().join("said");
    let complained = folder.path().join("complained");
    let mut child = command(browser, folder.path(), &address)
        .stdin(Stdio::null())
        .stdout(File::create(&said).expect("there is room for a page"))
        .stderr(File::create(&complained).expect("there is room for a page"))
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("{} cannot be started: {error}", browser.display()));
    let group = Pid::from_child(&child);
    let status = wait(&mut child);
    // What it forked and left, or all of it when it took too long. No such group is as good.
    let _ = kill_process_group(group, Signal::KILL);
    let status = status.or_else(|| child.wait().ok().filter(ExitStatus::success));
    until_nothing_runs_in(folder.path());
    let document = std::fs::read_to_string(&said).unwrap_or_default();
    let complaints = std::fs::read_to_string(&complained).unwrap_or_default();
    folder.close().expect("nothing writes into the folder any more");
    assert!(
        status.is_some_and(|status| status.success()) && document.contains("<html"),
        "{} opens the page: {status:?}\n{document}\n{complaints}",
        browser.display()
    );
    document
}

fn command(browser: &Path, folder: &Path, address: &str) -> Command {
    let mut profile = OsString::from("--user-data-dir=");
    profile.push(folder.join("profile"));
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-extensions", "--disable-background-networking"])
        .args(["--disable-breakpad", "--disable-crash-reporter", "--virtual-time-budget=60000"])
        .arg(profile)
        .args(["--window-size=1280,900", "--dump-dom", address]);
    // Caches, settings, sockets: all of it where it is swept away.
    for name in ["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] {
        command.env(name, folder);
    }
    command
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("our own child can be asked") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// Waits until no process names the folder among its arguments. Only Linux shows that in files.
fn until_nothing_runs_in(folder: &Path) {
    let started = Instant::now();
    loop {
        let left = running_in(folder);
        if left.is_empty() {
            return;
        }
        assert!(started.elapsed() < LEAVING, "the browser left processes: {left:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn running_in(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().expect("temporary folders have plain names");
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    processes
        .filter_map(|process| std::fs::read(process.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(folder))
        .collect()
}
