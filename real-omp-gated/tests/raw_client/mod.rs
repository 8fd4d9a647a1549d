//! The smallest client that can hold a conversation with a real agent: JSON lines over its stdin
//! and stdout. It knows nothing of the library, so that a test of the agent cannot pass by a
//! mistake of ours.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "a real process, its real pipes, and a thread that reads them"
)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use moored_real_omp_gated::Sandbox;
use serde_json::{Value, json};

/// A watchdog and no assertion: a loaded machine has taken 9 s to start an agent.
const SILENCE_MAX: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A running agent. Dropping it kills the process and waits for it.
pub struct RawClient {
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Receiver<Value>,
    reader: Option<JoinHandle<()>>,
    last_id: u64,
    /// Notifications and requests of the agent, as they came.
    pub seen: Vec<Value>,
}

impl RawClient {
    pub fn start(sandbox: &Sandbox) -> Self {
        let mut child = Command::new(&sandbox.argv[0])
            .args(&sandbox.argv[1..])
            .env_clear()
            .envs(sandbox.env.iter().cloned())
            .current_dir(&sandbox.workspace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, frames) = mpsc::channel();
        let reader = thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let frame =
                    serde_json::from_str(&line).unwrap_or_else(|_| json!({"not_json": line}));
                if sender.send(frame).is_err() {
                    return;
                }
            }
        });
        Self { child, stdin, frames, reader: Some(reader), last_id: 0, seen: Vec::new() }
    }

    /// A request and its result; what comes in between is kept in `seen`.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.stdin.as_mut().unwrap(), "{frame}").unwrap();
        loop {
            let frame = self.frames.recv_timeout(SILENCE_MAX).unwrap_or_else(|_| {
                panic!("no answer to {method}; the agent {:?}", self.child.try_wait())
            });
            assert!(frame.get("not_json").is_none(), "not a frame: {frame}");
            if frame["id"] == id && frame.get("method").is_none() {
                assert!(frame.get("result").is_some(), "{method} failed: {frame}");
                return frame["result"].clone();
            }
            self.seen.push(frame);
        }
    }

    /// `initialize` and `session/new`; returns the session's id.
    pub fn open(&mut self, sandbox: &Sandbox) -> String {
        let capabilities =
            json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
        let initialized = self
            .call("initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities}));
        assert_eq!(initialized["protocolVersion"], 1);
        let session = self.call("session/new", json!({"cwd": sandbox.workspace, "mcpServers": []}));
        session["sessionId"].as_str().unwrap().to_owned()
    }

    /// A prompt and its stop reason.
    pub fn prompt(&mut self, session: &str, text: &str) -> String {
        let prompt = json!([{"type": "text", "text": text}]);
        let answer = self.call("session/prompt", json!({"sessionId": session, "prompt": prompt}));
        answer["stopReason"].as_str().unwrap().to_owned()
    }

    /// The text the agent has said so far.
    pub fn said(&self) -> String {
        self.updates("agent_message_chunk")
    }

    /// The text of all updates of one kind.
    pub fn updates(&self, kind: &str) -> String {
        let updates = self.seen.iter().map(|frame| &frame["params"]["update"]);
        let of_kind = updates.filter(|update| update["sessionUpdate"] == kind);
        of_kind.filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits for the exit as long as that; `None` when the process still runs.
    pub fn exit_within(&mut self, wait: Duration) -> Option<ExitStatus> {
        let mut waited = Duration::ZERO;
        loop {
            let exited = self.child.try_wait().unwrap();
            if exited.is_some() || waited >= wait {
                return exited;
            }
            thread::sleep(LOOK_AGAIN);
            waited += LOOK_AGAIN;
        }
    }

    /// Kills the process and returns how it ended.
    pub fn kill(&mut self) -> ExitStatus {
        self.child.kill().unwrap();
        self.child.wait().unwrap()
    }

    /// The exit after `close_stdin`.
    pub fn exit(&mut self) -> ExitStatus {
        self.exit_within(SILENCE_MAX).expect("the agent does not exit")
    }
}

impl Drop for RawClient {
    fn drop(&mut self) {
        // Both fail only when it has been waited for already. The reader is not joined: a
        // background process of the agent may hold its end of the pipe.
        self.child.kill().ok();
        self.child.wait().ok();
        drop(self.reader.take());
    }
}
