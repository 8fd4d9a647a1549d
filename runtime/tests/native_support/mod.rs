//! What the stories of real processes share: one agent with a token of its own, and the check that nobody carries that
//! token any more.

#![allow(dead_code, reason = "each story file uses its part")]

use std::path::PathBuf;
use std::time::Duration;

use moored::platform::native::{Native, SupervisorProgram};
use moored::platform::{
    ChildSpec, Exit, Order, Platform, Reader, Report, Signal, SpawnError, SpawnedChild,
};
use moored::session::ladder::{LadderPolicy, Profile};
use rustix::process::{Pid, Signal as Number, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Far past every window of a ladder; a story that reaches it hangs.
pub const HANG: Duration = Duration::from_secs(40);
const LOOK_MS: u64 = 10;

pub fn supervisor_program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_moored-supervisor"))
}

pub fn native() -> Native {
    let program = SupervisorProgram::Program(supervisor_program());
    Native::new(program).expect("the shipped supervisor is one")
}

/// Awaits what must happen.
pub async fn soon<F: Future>(what: F) -> F::Output {
    timeout(HANG, what).await.expect("it happens long before this")
}

/// Looks again and again until it holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let looks = u64::try_from(HANG.as_millis()).expect("fits") / LOOK_MS;
    for _ in 0..looks {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
    }
    panic!("never came true: {what}");
}

/// One agent's story. At its end nobody who carries its token may live, and nobody does after it even if it fails.
pub struct Story {
    pub native: Native,
    pub token: String,
    pub keep_background: bool,
}

impl Story {
    pub fn new() -> Self {
        let native = native();
        let token: String = native.entropy().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { native, token, keep_background: false }
    }

    pub fn keeping_background() -> Self {
        let mut story = Self::new();
        story.keep_background = true;
        story
    }

    pub fn spec(&self, argv: &[&str]) -> ChildSpec {
        let mut ladder = LadderPolicy::stock(Profile::Posix);
        ladder.keep_background = self.keep_background;
        ChildSpec {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            cwd: "/".to_owned(),
            set_env: vec![],
            drop_env: vec![],
            token: self.token.as_str().into(),
            ladder,
        }
    }

    pub async fn refusal(&self, spec: ChildSpec) -> SpawnError {
        match soon(self.native.spawn_child(spec)).await {
            Ok(_) => panic!("it was started"),
            Err(error) => error,
        }
    }

    pub async fn start(&self, spec: ChildSpec) -> Agent {
        Agent(soon(self.native.spawn_child(spec)).await.expect("it starts"))
    }

    pub async fn sh(&self, script: &str) -> Agent {
        self.start(self.spec(&["/bin/sh", "-c", script])).await
    }

    /// Who carries the token and is more than a zombie.
    pub fn carriers(&self) -> Vec<u32> {
        carriers(&self.token)
    }

    pub async fn nobody_is_left(&self) {
        until("nobody carries the token", || self.carriers().is_empty()).await;
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        for pid in self.carriers() {
            signal(pid, Number::KILL);
        }
    }
}

pub fn carriers(token: &str) -> Vec<u32> {
    let mark = format!("MOORED_SPAWN_TOKEN={token}");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("a process table").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A zombie's environment reads as empty.
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

pub fn signal(pid: u32, number: Number) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process number");
    let _ = kill_process(pid, number);
}

/// A field of `/proc/PID/stat` as its manual counts them, from the state (3) on; `None` once the process is reaped.
pub fn stat(pid: u32, field: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = stat.rsplit_once(')')?.1;
    rest.split_ascii_whitespace().nth(field - 3).map(str::to_owned)
}

pub fn children_of(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("a process table").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid, 4) == Some(parent.to_string())).collect()
}

/// A started agent.
pub struct Agent(pub SpawnedChild);

impl Agent {
    pub fn pid(&self) -> u32 {
        self.0.identity.root.pid
    }

    pub fn supervisor(&self) -> u32 {
        self.0.identity.supervisor.as_ref().expect("it has one").pid
    }

    pub async fn write(&mut self, text: &str) {
        soon(self.0.stdin.write_all(text.as_bytes())).await.expect("the agent reads");
    }

    pub async fn line(&mut self) -> String {
        let mut line = Vec::new();
        loop {
            let byte = soon(self.0.stdout.read_u8()).await.expect("the agent writes");
            if byte == b'\n' {
                return String::from_utf8(line).expect("text");
            }
            line.push(byte);
        }
    }

    pub fn close_stdin(&mut self) {
        self.0.stdin = Box::pin(tokio::io::sink());
    }

    pub async fn rest(&mut self) -> String {
        rest(&mut self.0.stdout).await
    }

    pub async fn order(&self, order: Order) {
        self.0.orders.send(order).await.expect("the client takes orders");
    }

    pub async fn report(&mut self) -> Report {
        soon(self.0.reports.recv()).await.expect("a report comes")
    }

    pub async fn exited(&mut self, how: Exit) {
        assert_eq!(self.report().await, Report::Exited { exit: how });
    }

    pub async fn signals(&mut self, signal: Signal) {
        self.order(Order::Signal { signal }).await;
        assert_eq!(self.report().await, Report::Signalled { signal, delivered: true });
    }

    /// Sweeps; who had to be ended, by name.
    pub async fn sweeps(&mut self) -> Vec<String> {
        self.order(Order::Sweep { leave: false }).await;
        let Report::Swept { empty: true, survivors } = self.report().await else {
            panic!("a sweep ends empty");
        };
        survivors.into_iter().map(|survivor| survivor.name).collect()
    }

    /// Releases the supervisor and sees it leave, zombie and all.
    pub async fn released(mut self) {
        self.order(Order::Release).await;
        assert_eq!(soon(self.0.reports.recv()).await, None, "nothing is reported after a release");
        let supervisor = self.supervisor();
        until("the supervisor is gone and reaped", || stat(supervisor, 3).is_none()).await;
    }
}

pub async fn rest(from: &mut Reader) -> String {
    let mut text = String::new();
    soon(from.read_to_string(&mut text)).await.expect("text to the end");
    text
}
