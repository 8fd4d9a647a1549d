//! The program itself: real processes, real pipes, real signals. No test here knows how long anything takes.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "these tests are about real processes"
)]

mod bench;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A real agent and its home, ended with the test whatever happens.
struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    home: TempDir,
}

impl Agent {
    fn start(args: &[&str]) -> Agent {
        let home = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_fake-agent"))
            .args(args)
            .env("FAKE_AGENT_HOME", home.path())
            .env_remove("FAKE_AGENT_PROFILE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().map(BufReader::new);
        Agent { child, stdin, stdout, home }
    }

    fn persona(name: &str) -> Agent {
        let mut agent = Agent::start(&["--persona", name]);
        agent.open();
        agent
    }

    fn script(turn: Value, on: Value) -> Agent {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script.json");
        let script = json!({ "on": on, "turns": [{ "steps": turn }] });
        fs::write(&path, script.to_string()).unwrap();
        let mut agent = Agent::start(&["--script", path.to_str().unwrap()]);
        agent.open();
        agent
    }

    fn open(&mut self) {
        self.send(json!({ "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } }));
        self.send(json!({ "id": 2, "method": "session/new", "params": { "cwd": "/ws" } }));
        while self.frame().is_none_or(|frame| frame["id"] != 2) {}
    }

    fn send(&mut self, frame: Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{frame}").unwrap();
    }

    fn prompt(&mut self, id: u64, text: &str) {
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": "fake-0-1", "prompt": prompt });
        self.send(json!({ "id": id, "method": "session/prompt", "params": params }));
    }

    fn cancel(&mut self) {
        self.send(json!({ "method": "session/cancel", "params": { "sessionId": "fake-0-1" } }));
    }

    /// The next line, if it is JSON; `None` for noise. Panics at the end of the output.
    fn frame(&mut self) -> Option<Value> {
        let mut line = Vec::new();
        let count = self.stdout.as_mut().unwrap().read_until(b'\n', &mut line).unwrap();
        assert!(count > 0, "the output ended");
        serde_json::from_slice(&line).ok()
    }

    /// Reads as many bytes of the output as are expected. Standard error is read beside it, or a flood would block
    /// the agent.
    fn says(&mut self, expected: &[u8], story: &str) {
        if let Some(mut stderr) = self.child.stderr.take() {
            std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        }
        let mut bytes = vec![0; expected.len()];
        self.stdout.as_mut().unwrap().read_exact(&mut bytes).unwrap();
        let [bytes, expected] = [&bytes, expected].map(String::from_utf8_lossy);
        assert!(bytes == expected, "{story}: {bytes:.2000} instead of {expected:.2000}");
    }

    fn text(&mut self) -> String {
        let frame = self.frame().unwrap();
        frame["params"]["update"]["content"]["text"].as_str().unwrap_or_default().to_string()
    }

    fn stop_reason(&mut self) -> String {
        let frame = self.frame().unwrap();
        frame["result"]["stopReason"].as_str().unwrap_or_default().to_string()
    }

    fn end_input(&mut self) {
        self.stdin = None;
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    fn file(&self) -> String {
        fs::read_to_string(self.home.path().join("sessions/fake-0-1.jsonl")).unwrap()
    }
}

impl Agent {
    /// Ends what the agent forked: whoever carries this agent's home in its environment.
    #[cfg(target_os = "linux")]
    fn end_what_is_left(&self) {
        let home = format!("FAKE_AGENT_HOME={}", self.home.path().display());
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let carries = environment.split(|b| *b == 0).any(|v| v == home.as_bytes());
            if let Some(pid) = Pid::from_raw(pid).filter(|_| carries) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn end_what_is_left(&self) {}
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.end_what_is_left();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Field `index` (from 0) of `/proc/PID/stat` behind the name: 0 state, 1 parent, 2 group, 3 session.
fn process_stat(pid: u32, index: usize) -> Option<String> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(index).map(str::to_string)
}

/// Whether SIGTERM leaves the process alive, as the kernel sees it.
fn catches_term(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() >> (Signal::TERM.as_raw() - 1) & 1 == 1
}

#[test]
fn a_conversation_over_real_pipes_ends_with_the_input() {
    let mut agent = Agent::persona("echo");
    agent.prompt(3, "hello");
    assert_eq!((agent.text(), agent.stop_reason()), ("hello".into(), "end_turn".into()));
    agent.end_input();
    assert_eq!(agent.wait().code(), Some(0));
    assert_eq!(agent.file().lines().count(), 4);
}

/// One conversation: each prompt is sent when the one before it is answered, or cancelled once the agent has said
/// what it says. What is written must be the same in memory and in a real process, to the byte.
#[test]
fn a_persona_writes_the_same_bytes_in_memory_and_in_a_real_process() {
    let stories: [(&str, &[(&str, bool)]); 9] = [
        ("crasher", &[("finish", false), ("crash", false)]),
        ("echo", &[("one", false), ("two", false)]),
        ("flooder", &[("go", false)]),
        ("ignores-eof", &[("one", false)]),
        ("late-persister", &[("go", true), ("finish", false), ("go", true)]),
        ("noisy-stdout", &[("one", false)]),
        ("orphan-maker", &[("one", false)]),
        ("refuser", &[("one", false)]),
        ("slow-starter", &[("one", false)]),
    ];
    for (name, prompts) in stories {
        let script = moored_fake_agents::persona(name).unwrap();
        let mut memory = bench::Bench::process(script, &Default::default(), 100);
        let mut native = Agent::start(&["--persona", name]);
        let open = [
            json!({ "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } }),
            json!({ "id": 2, "method": "session/new", "params": { "cwd": "/ws" } }),
        ];
        for frame in open {
            memory.send(frame.clone());
            memory.pass(2_000);
            native.send(frame);
            native.says(&memory.output(), name);
        }
        for (id, (text, stopped)) in (3..).zip(prompts) {
            memory.prompt(id, text);
            native.prompt(id, text);
            native.says(&memory.output(), name);
            if *stopped {
                memory.cancel();
                native.cancel();
                native.says(&memory.output(), name);
            }
            memory.pass(1_000);
        }
        memory.end_input();
        native.end_input();
        if name == "ignores-eof" {
            memory.signal(moored_fake_agents::Signal::Term);
            native.signal(Signal::TERM);
        }
        let code = native.wait().code().unwrap();
        assert_eq!(memory.end(), Some(moored_fake_agents::End::Exited(code)), "{name}");
        let kept = memory.text_of("/home/fake/sessions/fake-0-1.jsonl");
        assert_eq!(native.file(), kept, "{name}");
    }
}

#[test]
fn the_late_persister_writes_its_entry_although_the_input_ended_at_its_answer() {
    let mut agent = Agent::persona("late-persister");
    agent.prompt(3, "go");
    assert_eq!(agent.text(), "working");
    agent.cancel();
    assert_eq!(agent.stop_reason(), "cancelled");
    agent.signal(Signal::TERM);
    agent.end_input();
    assert_eq!(agent.wait().code(), Some(0));
    assert!(agent.file().contains("\"aborted\"") && agent.file().contains("session_exit"));
}

#[test]
fn a_kill_at_the_answer_loses_the_entry() {
    let slow = json!({ "cancel": { "steps": [{ "do": "reply", "stop_reason": "cancelled", "persist": "never" },
        { "do": "wait_for", "event": "eof" }, { "do": "persist", "entry": "aborted" }] } });
    let mut agent = Agent::script(json!([{ "do": "say", "text": "a" }]), slow);
    agent.prompt(3, "go");
    agent.text();
    agent.cancel();
    assert_eq!(agent.stop_reason(), "cancelled");
    agent.signal(Signal::KILL);
    assert_eq!(agent.wait().signal(), Some(Signal::KILL.as_raw()));
    assert!(!agent.file().contains("aborted"));
}

#[test]
fn signals_end_an_agent_as_the_script_says() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut agent = Agent::persona("ignores-eof");
        agent.end_input();
        agent.signal(signal);
        assert_eq!(agent.wait().code(), Some(code));
    }
    let mut agent = Agent::script(json!([]), json!({ "sigterm": { "obey": "by_dying" } }));
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().signal(), Some(Signal::TERM.as_raw()));
    let die = json!({ "steps": [{ "do": "die", "signal": "TERM" }] });
    let mut agent = Agent::script(json!([]), json!({ "sigterm": die }));
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().signal(), Some(Signal::TERM.as_raw()), "handled, then died of it");
}

#[test]
fn the_crasher_leaves_a_code_or_a_signal() {
    let mut agent = Agent::persona("crasher");
    agent.prompt(3, "hi");
    assert_eq!(agent.wait().code(), Some(1));
    let mut stderr = String::new();
    agent.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(stderr, "fatal: out of cheese\n");
    let mut agent = Agent::persona("crasher");
    agent.prompt(3, "signal");
    assert_eq!(agent.wait().signal(), Some(Signal::KILL.as_raw()));
}

#[test]
fn a_frozen_agent_keeps_a_signal_pending_until_it_is_continued() {
    let mut agent = Agent::persona("frozen");
    agent.prompt(3, "hi");
    assert_eq!(agent.text(), "one ");
    while process_stat(agent.child.id(), 0).as_deref() != Some("T") {
        std::thread::yield_now();
    }
    agent.end_input();
    agent.signal(Signal::TERM);
    assert!(agent.child.try_wait().unwrap().is_none());
    agent.signal(Signal::CONT);
    assert_eq!(agent.wait().code(), Some(143));
}

#[test]
fn children_live_in_the_group_or_in_a_session_of_their_own_and_outlive_the_agent() {
    let fork = |group: &str, ignores: bool| json!({ "do": "fork", "group": group, "lives_ms": 20_000, "ignores_term": ignores });
    let say = json!({ "do": "say", "text": "${child}" });
    let turn = json!([fork("same", false), say, fork("own_session", true), say, { "do": "reply" }]);
    let mut agent = Agent::script(turn, json!({}));
    agent.prompt(3, "hi");
    let same: u32 = agent.text().parse().unwrap();
    let own: u32 = agent.text().parse().unwrap();
    assert_eq!(agent.stop_reason(), "end_turn");
    let group = process_stat(agent.child.id(), 2);
    assert_eq!(process_stat(same, 2), group);
    assert_eq!(
        (process_stat(own, 2), process_stat(own, 3)),
        (Some(own.to_string()), Some(own.to_string()))
    );
    agent.end_input();
    assert_eq!(agent.wait().code(), Some(0));
    let mut rest = Vec::new();
    agent.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "neither child holds the output, or this would still wait");
    let pid = |pid: u32| Pid::from_raw(pid as i32).unwrap();
    assert!(catches_term(own) && !catches_term(same));
    for child in [same, own] {
        kill_process(pid(child), Signal::KILL).unwrap();
    }
}

#[test]
fn a_child_can_hold_the_output_of_a_dead_agent() {
    let fork = json!({ "do": "fork", "lives_ms": 20_000, "holds_stdout": true });
    let turn = json!([fork, { "do": "say", "text": "${child}" }, { "do": "exit" }]);
    let mut agent = Agent::script(turn, json!({}));
    agent.prompt(3, "hi");
    let child: u32 = agent.text().parse().unwrap();
    assert_eq!(agent.wait().code(), Some(0));
    let mut stdout = agent.stdout.take().unwrap();
    let mut fds = [rustix::event::PollFd::new(stdout.get_ref(), rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec::default();
    assert_eq!(rustix::event::poll(&mut fds, Some(&now)).unwrap(), 0, "no end of the output yet");
    kill_process(Pid::from_raw(child as i32).unwrap(), Signal::KILL).unwrap();
    assert_eq!(stdout.read(&mut [0]).unwrap(), 0, "the last writer is gone");
}

#[test]
fn closed_streams_are_closed_for_the_host() {
    let turn = json!([{ "do": "close", "stream": "stdin" }, { "do": "say", "text": "deaf" },
        { "do": "close", "stream": "stdout" }]);
    let mut agent = Agent::script(turn, json!({}));
    agent.prompt(3, "hi");
    assert_eq!(agent.text(), "deaf");
    let error = agent.stdin.as_mut().unwrap().write_all(b"{}\n").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    assert_eq!(agent.stdout.as_mut().unwrap().read(&mut [0]).unwrap(), 0);
    assert!(agent.child.try_wait().unwrap().is_none(), "it lives on");
}

#[test]
fn the_flooder_waits_for_its_reader_and_loses_nothing() {
    let mut agent = Agent::persona("flooder");
    let mut stderr = agent.child.stderr.take().unwrap();
    agent.prompt(3, "hi");
    let mut bytes = vec![0; 1 << 20];
    stderr.read_exact(&mut bytes).unwrap();
    for number in 1..=2000 {
        assert_eq!(agent.text(), format!("word{number} "));
    }
    assert_eq!(agent.frame().unwrap().to_string().len(), 1 << 20);
    assert_eq!(agent.stop_reason(), "end_turn");
}

#[test]
fn a_reader_that_goes_away_ends_the_agent() {
    let turn =
        json!([{ "do": "repeat", "times": 1_000_000, "steps": [{ "do": "say", "text": "a" }] }]);
    let mut agent = Agent::script(turn, json!({}));
    agent.prompt(3, "hi");
    agent.text();
    agent.stdout = None;
    assert_eq!(agent.wait().code(), Some(1));
}

#[test]
fn a_signal_reaches_an_agent_whose_pipe_is_full() {
    let exit = json!({ "steps": [{ "do": "exit", "code": 9 }] });
    let turn = json!([{ "do": "say", "text": "a" }, { "do": "frame_of", "bytes": 1_000_000 }]);
    let mut agent = Agent::script(turn, json!({ "sigterm": exit }));
    agent.prompt(3, "hi");
    agent.text();
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code(), Some(9));
}

#[test]
fn the_program_explains_itself_and_refuses_what_it_does_not_know() {
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_fake-agent")).args(args).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, list) = run(&["--list"]);
    assert_eq!((code, list.lines().count()), (Some(0), moored_fake_agents::PERSONAS.len()));
    assert_eq!(run(&["--help"]).0, Some(0));
    assert!(run(&["--schema"]).1.contains("$schema"));
    for args in [&[][..], &["--persona", "nobody"], &["--script", "/nowhere"], &["--child"]] {
        assert_eq!(run(args).0, Some(2), "{args:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script.json");
    fs::write(&path, "{\n  \"sead\": 1 }").unwrap();
    let (code, text) = run(&["--script", path.to_str().unwrap()]);
    assert_eq!((code, text.contains("line 2, column 11 (sead)")), (Some(2), true), "{text}");
}
