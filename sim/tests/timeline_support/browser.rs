//! A real browser, without a window: it opens a page and says what the page became.
//!
//! Everything it writes is in one temporary folder, and it runs in a process group of its own, which is ended whole:
//! nothing of it is left, whatever became of it. Chromium prints the document by itself; Firefox is asked for it over
//! Marionette, its own remote control.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

/// Where `MOORED_BROWSER` names none.
const NAMES: &[&str] =
    &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "firefox"];
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
        static SAID: Once = Once::new();
        let words = "the timeline's page in a browser: skipped: no browser on PATH";
        SAID.call_once(|| drop(writeln!(std::io::stderr(), "{words}")));
    }
    found
}

/// Opens `page` at `place` (`#...`, or nothing) and returns the document that its script made of it.
pub fn document(browser: &Path, page: &str, place: &str) -> String {
    let folder = tempfile::tempdir().expect("there is room for a page");
    let file = folder.path().join("timeline.html");
    std::fs::write(&file, page).expect("there is room for a page");
    let address = format!("file://{}{place}", file.display());
    let is_firefox = browser.to_string_lossy().contains("firefox");
    let command = match is_firefox {
        true => firefox(browser, folder.path()),
        false => chromium(browser, folder.path(), &address),
    };
    let mut running = Running::start(command, folder.path());
    let asked = match is_firefox {
        true => ask_firefox(&folder.path().join("profile"), &address),
        false => Ok(None),
    };
    let status = running.end(asked.is_ok());
    until_nothing_runs_in(folder.path());
    let [said, complaints] = ["said", "complaints"]
        .map(|name| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default());
    folder.close().expect("nothing writes into the folder any more");
    let document = asked.map(|document| document.unwrap_or(said));
    match document {
        Ok(document) if document.contains("<html") => document,
        other => panic!("{} opens the page: {status:?} {other:?}\n{complaints}", browser.display()),
    }
}

fn chromium(browser: &Path, folder: &Path, address: &str) -> Command {
    let mut profile = OsString::from("--user-data-dir=");
    profile.push(folder.join("profile"));
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-extensions", "--disable-background-networking"])
        .args(["--disable-breakpad", "--disable-crash-reporter", "--virtual-time-budget=60000"])
        .arg(profile)
        .args(["--window-size=1280,900", "--dump-dom", address]);
    command
}

fn firefox(browser: &Path, folder: &Path) -> Command {
    let profile = folder.join("profile");
    std::fs::create_dir_all(&profile).expect("there is room for a profile");
    // Port 0: any that is free, written into the profile.
    let preferences = "user_pref(\"marionette.port\", 0);\n\
        user_pref(\"datareporting.policy.dataSubmissionEnabled\", false);\n\
        user_pref(\"app.update.enabled\", false);\n";
    std::fs::write(profile.join("user.js"), preferences).expect("there is room for a profile");
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-remote", "--marionette", "--profile"]).arg(profile);
    command
}

/// A browser and what it forked.
struct Running {
    child: Child,
    group: Pid,
}

impl Running {
    fn start(mut command: Command, folder: &Path) -> Self {
        let out = |name| File::create(folder.join(name)).expect("there is room for a page");
        // Caches, settings, sockets: all of it where it is swept away.
        for name in ["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] {
            command.env(name, folder);
        }
        command.stdin(Stdio::null()).stdout(out("said")).stderr(out("complaints")).process_group(0);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let group = Pid::from_child(&child);
        Self { child, group }
    }

    /// Waits for it if it is on its way out, and ends whatever is still there.
    fn end(&mut self, is_leaving: bool) -> Option<ExitStatus> {
        let patience = if is_leaving { PATIENCE } else { Duration::ZERO };
        let status =
            within(patience, || self.child.try_wait().expect("our own child can be asked"));
        // That there is no such group any more is as good.
        let _ = kill_process_group(self.group, Signal::KILL);
        status.or_else(|| self.child.wait().ok())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that failed meanwhile leaves nothing either.
        if let Ok(None) = self.child.try_wait() {
            self.end(false);
        }
    }
}

fn within<T>(patience: Duration, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        let answer = poll();
        if answer.is_some() || started.elapsed() >= patience {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Has Firefox open the page, say what became of it, and leave.
fn ask_firefox(profile: &Path, address: &str) -> Result<Option<String>, String> {
    let port = within(PATIENCE, || {
        let port = std::fs::read_to_string(profile.join("MarionetteActivePort")).ok()?;
        port.trim().parse::<u16>().ok()
    });
    let port = port.ok_or("it opens no port")?;
    let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
    let mut reader = BufReader::new(stream);
    packet(&mut reader)?;
    ask(&mut reader, "WebDriver:NewSession", &json!({}))?;
    ask(&mut reader, "WebDriver:Navigate", &json!({ "url": address }))?;
    let script = "return document.documentElement.outerHTML";
    let answer =
        ask(&mut reader, "WebDriver:ExecuteScript", &json!({ "script": script, "args": [] }))?;
    ask(&mut reader, "Marionette:Quit", &json!({ "flags": ["eForceQuit"] }))?;
    let document = answer["value"].as_str().ok_or("its answer is no text")?;
    Ok(Some(document.to_owned()))
}

fn ask(reader: &mut BufReader<TcpStream>, command: &str, given: &Value) -> Result<Value, String> {
    let message = json!([0, 1, command, given]).to_string();
    write!(reader.get_mut(), "{}:{message}", message.len()).map_err(|error| error.to_string())?;
    let mut answer = packet(reader)?;
    match answer[2].take() {
        Value::Null => Ok(answer[3].take()),
        error => Err(format!("{command}: {error}")),
    }
}

/// One packet: its length in digits, a colon, JSON.
fn packet(reader: &mut BufReader<TcpStream>) -> Result<Value, String> {
    let mut length = 0;
    loop {
        let mut byte = [0];
        reader.read_exact(&mut byte).map_err(|error| error.to_string())?;
        match byte[0] {
            b':' => break,
            digit => length = length * 10 + usize::from(digit.wrapping_sub(b'0')),
        }
    }
    let mut words = vec![0; length];
    reader.read_exact(&mut words).map_err(|error| error.to_string())?;
    serde_json::from_slice(&words).map_err(|error| error.to_string())
}

/// Waits until no process names the folder among its arguments. Only Linux shows that in files.
fn until_nothing_runs_in(folder: &Path) {
    let gone = within(LEAVING, || running_in(folder).is_empty().then_some(()));
    assert!(gone.is_some(), "the browser left processes: {:?}", running_in(folder));
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
