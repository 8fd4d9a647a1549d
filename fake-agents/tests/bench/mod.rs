//! A machine in memory, with one agent on it: time stands still unless the test moves it, and nothing happens
//! unless the test does it.
#![allow(dead_code, reason = "each test file uses its part of the bench")]
#![allow(clippy::unwrap_used, reason = "a bench that fails is a test that fails")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use moored_fake_agents::{Body, End, Fork, Out, Script, Signal, Stream, run};
use serde_json::{Value, json};

/// What outlives a process.
pub type Files = Arc<Mutex<BTreeMap<String, String>>>;

#[derive(Default)]
pub struct Machine {
    pub now_ms: u64,
    pub stdin: VecDeque<u8>,
    pub stdin_ended: bool,
    pub stdout: Vec<u8>,
    /// The lengths of the writes to stdout.
    pub writes: Vec<usize>,
    pub stderr: Vec<u8>,
    /// So many bytes of stdout are written before the pipe is full.
    pub room: Option<usize>,
    pub stdout_broken: bool,
    pub signals: VecDeque<Signal>,
    pub handled: BTreeSet<Signal>,
    pub closed: Vec<Stream>,
    pub forks: Vec<Fork>,
    pub stopped: bool,
    pub reads: usize,
    alarm_ms: Option<u64>,
    variables: BTreeMap<String, String>,
    pid: u32,
}

struct MemoryBody {
    machine: Arc<Mutex<Machine>>,
    files: Files,
}

impl MemoryBody {
    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap()
    }
}

impl Body for MemoryBody {
    fn poll_read(&mut self, _cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut machine = self.machine();
        if machine.stdin.is_empty() {
            return if machine.stdin_ended { Poll::Ready(Ok(0)) } else { Poll::Pending };
        }
        machine.reads += 1;
        let count = buf.len().min(machine.stdin.len());
        for (slot, byte) in buf.iter_mut().zip(machine.stdin.drain(..count)) {
            *slot = byte;
        }
        Poll::Ready(Ok(count))
    }

    fn poll_write(
        &mut self,
        _cx: &mut Context<'_>,
        out: Out,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        assert!(!bytes.is_empty(), "an empty write says nothing");
        let mut machine = self.machine();
        if out == Out::Stderr {
            machine.stderr.extend(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        if machine.stdout_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = bytes.len().min(machine.room.unwrap_or(usize::MAX));
        if count == 0 {
            return Poll::Pending;
        }
        if let Some(room) = &mut machine.room {
            *room -= count;
        }
        machine.stdout.extend(&bytes[..count]);
        machine.writes.push(count);
        Poll::Ready(Ok(count))
    }

    fn poll_signal(&mut self, _cx: &mut Context<'_>) -> Poll<Signal> {
        match self.machine().signals.pop_front() {
            Some(signal) => Poll::Ready(signal),
            None => Poll::Pending,
        }
    }

    fn poll_alarm(&mut self, _cx: &mut Context<'_>, at_ms: u64) -> Poll<()> {
        let mut machine = self.machine();
        if machine.now_ms >= at_ms {
            return Poll::Ready(());
        }
        machine.alarm_ms = Some(at_ms);
        Poll::Pending
    }

    fn now_ms(&self) -> u64 {
        self.machine().now_ms
    }

    fn handle_signal(&mut self, signal: Signal) {
        self.machine().handled.insert(signal);
    }

    fn close(&mut self, stream: Stream) {
        self.machine().closed.push(stream);
    }

    async fn fork(&mut self, fork: Fork) -> io::Result<u32> {
        let mut machine = self.machine();
        machine.forks.push(fork);
        Ok(500 + machine.forks.len() as u32)
    }

    async fn stop_self(&mut self) {
        self.machine().stopped = true;
        std::future::poll_fn(
            |_| {
                if self.machine().stopped { Poll::Pending } else { Poll::Ready(()) }
            },
        )
        .await;
    }

    async fn append_file(&mut self, path: &str, line: &str) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        let file = files.entry(path.into()).or_default();
        file.push_str(line);
        file.push('\n');
        Ok(())
    }

    async fn read_file(&mut self, path: &str) -> io::Result<Option<String>> {
        Ok(self.files.lock().unwrap().get(path).cloned())
    }

    fn env(&self, name: &str) -> Option<String> {
        self.machine().variables.get(name).cloned()
    }

    fn pid(&self) -> u32 {
        self.machine().pid
    }
}

/// A host at the other end of an agent's pipes.
pub struct Bench {
    machine: Arc<Mutex<Machine>>,
    files: Files,
    future: Pin<Box<dyn Future<Output = End> + Send>>,
    end: Option<End>,
    read: usize,
}

impl Bench {
    pub fn new(script: &str) -> Bench {
        Bench::process(script.parse().unwrap(), &Files::default(), 100)
    }

    /// One more process of the same home.
    pub fn process(script: Script, files: &Files, pid: u32) -> Bench {
        Bench::with_environment(script, files, pid, &[("FAKE_AGENT_HOME", "/home/fake")])
    }

    pub fn with_environment(
        script: Script,
        files: &Files,
        pid: u32,
        variables: &[(&str, &str)],
    ) -> Bench {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let machine =
            Machine { now_ms: 1_000, pid, variables: variables.collect(), ..Machine::default() };
        let machine = Arc::new(Mutex::new(machine));
        let mut body = MemoryBody { machine: machine.clone(), files: files.clone() };
        let future = Box::pin(async move { run(&script, &mut body).await });
        let mut bench = Bench { machine, files: files.clone(), future, end: None, read: 0 };
        bench.drive();
        bench
    }

    /// A bench whose agent has a session open; what it said until then is read away.
    pub fn ready(script: &str) -> Bench {
        let mut bench = Bench::new(script);
        bench.open();
        bench
    }

    pub fn open(&mut self) {
        self.request(1, "initialize", json!({ "protocolVersion": 1 }));
        self.request(2, "session/new", json!({ "cwd": "/ws", "mcpServers": [] }));
        self.frames();
    }

    pub fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap()
    }

    fn drive(&mut self) {
        if self.end.is_some() {
            return;
        }
        self.machine().alarm_ms = None;
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(end) = self.future.as_mut().poll(&mut context) {
            self.end = Some(end);
        }
    }

    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Lets time pass, alarm by alarm.
    pub fn pass(&mut self, ms: u64) {
        let until_ms = self.machine().now_ms + ms;
        loop {
            let alarm_ms = self.machine().alarm_ms;
            match alarm_ms.filter(|at_ms| *at_ms <= until_ms && self.end.is_none()) {
                Some(at_ms) => self.machine().now_ms = at_ms,
                None => break,
            }
            self.drive();
        }
        self.machine().now_ms = until_ms;
        self.drive();
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.machine().stdin.extend(bytes);
        self.drive();
    }

    pub fn send(&mut self, frame: Value) {
        self.bytes(format!("{frame}\n").as_bytes());
    }

    pub fn request(&mut self, id: u64, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    pub fn prompt(&mut self, id: u64, text: &str) {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.request(id, "session/prompt", json!({ "sessionId": "fake-0-1", "prompt": prompt }));
    }

    pub fn cancel(&mut self) {
        let params = json!({ "sessionId": "fake-0-1" });
        self.send(json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }));
    }

    pub fn answer(&mut self, id: Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    pub fn end_input(&mut self) {
        self.machine().stdin_ended = true;
        self.drive();
    }

    pub fn signal(&mut self, signal: Signal) {
        self.machine().signals.push_back(signal);
        self.drive();
    }

    pub fn make_room(&mut self, bytes: Option<usize>) {
        self.machine().room = bytes;
        self.drive();
    }

    pub fn go_on(&mut self) {
        self.machine().stopped = false;
        self.drive();
    }

    /// What was written to stdout since the last call.
    pub fn output(&mut self) -> Vec<u8> {
        let output = self.machine().stdout[self.read..].to_vec();
        self.read += output.len();
        output
    }

    /// The frames since the last call, in short: `say one`, `3 end_turn`, `3 error -32603`, or the frame itself.
    pub fn frames(&mut self) -> Vec<String> {
        let output = self.output();
        String::from_utf8_lossy(&output).lines().map(in_short).collect()
    }

    /// The session file in short: `session`, `user hi`, `assistant stop hi`, `session_exit manual`.
    pub fn file(&self) -> Vec<String> {
        self.file_of("/home/fake/sessions/fake-0-1.jsonl")
    }

    pub fn file_of(&self, path: &str) -> Vec<String> {
        self.text_of(path).lines().map(entry_in_short).collect()
    }

    pub fn text_of(&self, path: &str) -> String {
        self.files.lock().unwrap().get(path).cloned().unwrap_or_default()
    }
}

pub fn in_short(line: &str) -> String {
    let Ok(frame) = serde_json::from_str::<Value>(line) else { return line.to_string() };
    let update = &frame["params"]["update"];
    let text = update["content"]["text"].as_str().unwrap_or_default();
    match update["sessionUpdate"].as_str() {
        Some("agent_message_chunk") => return format!("say {text}"),
        Some("agent_thought_chunk") => return format!("think {text}"),
        Some("user_message_chunk") => return format!("user {text}"),
        Some(kind @ ("tool_call" | "tool_call_update")) => {
            let id = update["toolCallId"].as_str().unwrap_or_default();
            return format!("{kind} {id} {}", update["status"].as_str().unwrap_or_default());
        }
        _ => {}
    }
    let id = &frame["id"];
    if let (Some(code), true) = (frame["error"]["code"].as_i64(), frame.get("result").is_none()) {
        return format!("{id} error {code}");
    }
    match (frame["result"]["stopReason"].as_str(), frame.as_object().map_or(0, |frame| frame.len()))
    {
        (Some(reason), 3) => format!("{id} {reason}"),
        _ => line.to_string(),
    }
}

fn entry_in_short(line: &str) -> String {
    let entry: Value = serde_json::from_str(line).unwrap();
    let message = &entry["message"];
    let mut words = vec![message["role"].as_str().or(entry["type"].as_str()).unwrap_or_default()];
    words.extend(message["stopReason"].as_str());
    words.extend(message["content"][0]["text"].as_str());
    words.extend(entry["customType"].as_str());
    words.extend(entry["data"]["reason"].as_str());
    words.join(" ")
}
