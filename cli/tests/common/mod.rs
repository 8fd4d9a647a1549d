//! The real `moored`, run in folders of its own.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a harness of real processes"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// How long the machine may take before a test that waits gives up; nothing is asserted about it.
const PATIENCE_MS: u64 = 30_000;
const LOOK_AGAIN_MS: u64 = 10;

/// The program under test.
pub const MOORED: &str = env!("CARGO_BIN_EXE_moored");

/// A store and a workspace. Dropped, it proves that nobody is left of what was started with it.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().expect("a folder") };
        std::fs::create_dir(place.workspace()).expect("a workspace");
        place
    }

    pub fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A name in this place, for a file or folder that is not there yet.
    pub fn file_name(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A file with this text.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    }

    /// `moored` with its store here, and so are its descendants' environments: they can be found by it.
    pub fn moored(&self, args: &[&str]) -> Command {
        let mut command = Command::new(MOORED);
        command.args(args).current_dir(self.workspace()).env("MOORED_STORE", self.store());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::new(self.moored(args).output().expect("it runs"))
    }

    /// Runs with these bytes on stdin, then its end.
    pub fn run_with(&self, args: &[&str], typed: &str) -> Ran {
        let mut child = self.moored(args).stdin(Stdio::piped()).spawn().expect("it runs");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(typed.as_bytes()).expect("typed");
        drop(stdin);
        Ran::new(child.wait_with_output().expect("it ends"))
    }

    /// The answer of a command with `--json`.
    pub fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(args);
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("no JSON ({e}): {ran:?}"))
    }

    /// The sessions as `moored ps --json` lists them.
    pub fn sessions(&self) -> Vec<Value> {
        let listing = self.json(&["ps", "--json"]);
        listing["sessions"].as_array().expect("a list").clone()
    }

    /// The id of the only session.
    pub fn only_session(&self) -> String {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        sessions[0]["sessionId"].as_str().expect("an id").to_owned()
    }

    /// The processes whose environment or command line names this place.
    pub fn processes(&self) -> Vec<String> {
        let folder = self.folder.path().display().to_string();
        let names = |path: &Path| {
            let text = |name| std::fs::read(path.join(name)).unwrap_or_default();
            let text = [text("environ"), text("cmdline")].concat();
            String::from_utf8_lossy(&text).contains(&folder)
        };
        let entries = std::fs::read_dir("/proc").expect("processes").flatten();
        let is_process = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().bytes().all(|b| b.is_ascii_digit()))
        };
        let paths = entries.map(|entry| entry.path()).filter(is_process);
        paths.filter(|path| names(path)).map(|path| path.display().to_string()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            until("nobody is left of it", || self.processes().is_empty());
        }
    }
}

/// A run that is over.
#[derive(Debug)]
pub struct Ran {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn new(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Self { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// It could not run, and said so in one line with all of these words.
    #[track_caller]
    pub fn cannot_run(&self, words: &[&str]) {
        assert_eq!(self.status, Some(2), "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "one line: {self:?}");
        assert!(self.err.starts_with("moored: "), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "{word} is missing: {self:?}");
        }
    }
}

pub fn interrupt(child: &Child) {
    signal(child, "INT");
}

pub fn signal(child: &Child, name: &str) {
    let (name, pid) = (format!("-{name}"), child.id().to_string());
    let killed = Command::new("/bin/kill").args([name, pid]).status().expect("it runs");
    assert!(killed.success());
}

/// Waits until the machine has come so far.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..PATIENCE_MS / LOOK_AGAIN_MS {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(LOOK_AGAIN_MS));
    }
    panic!("it never happened: {what}");
}

/// An agent that plays `script`: the program and its arguments, for after `--`.
pub fn scripted(file: &str) -> [&str; 4] {
    [MOORED, "fake-agent", "--script", file]
}
