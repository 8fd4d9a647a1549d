//! Each agent once through the simplest life, over its bare pipes: start, one turn, end of input.
//!
//! What is asserted here about an agent is what the simulator's personas and the suites rest on. An
//! agent that is not installed is skipped with one line on stderr.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test program, which looks at the files of real agents"
)]

mod raw_client;

use std::fs;
use std::io::{self, Write};
use std::time::Duration;

use moored_real_omp_gated::{Kind, RealAgent, StubModel};
use raw_client::RawClient;
use serde_json::Value;

#[test]
fn omp_keeps_a_turn_and_its_exit_in_its_session_file() {
    let Some(agent) = RealAgent::or_skip(Kind::Omp) else { return };
    let (model, root) = (StubModel::start().unwrap(), tempfile::tempdir().unwrap());
    let sandbox = agent.sandbox(&model, root.path()).unwrap();
    let mut omp = RawClient::start(&sandbox);

    let session = omp.open(&sandbox);
    assert_eq!(omp.prompt(&session, "[[stub:text text=moored]] please"), "end_turn");
    assert_eq!(omp.said(), "moored");
    omp.close_stdin();
    assert_eq!(omp.exit().code(), Some(0));

    let files = sandbox.session_files().unwrap();
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(files[0].to_string_lossy().ends_with(&format!("_{session}.jsonl")));
    let entries = entries(&fs::read_to_string(&files[0]).unwrap());
    assert!(
        entries.ends_with(&["user".to_owned(), "assistant".to_owned(), "session_exit".to_owned()]),
        "{entries:?}"
    );
    assert!(model.requests().iter().any(|request| request.saw("please")));
}

#[test]
fn omp_runs_the_tool_its_model_asks_for() {
    let Some(agent) = RealAgent::or_skip(Kind::Omp) else { return };
    runs_a_tool(&agent);
}

#[test]
fn omp_ends_a_turn_as_its_model_does() {
    let Some(agent) = RealAgent::or_skip(Kind::Omp) else { return };
    let (model, root) = (StubModel::start().unwrap(), tempfile::tempdir().unwrap());
    let sandbox = agent.sandbox(&model, root.path()).unwrap();
    let mut omp = RawClient::start(&sandbox);
    let session = omp.open(&sandbox);
    // A failed model call is an ordinary end of the turn with the error as its text: on the wire
    // nothing tells it from success.
    let endings = [
        ("length", "max_tokens", "cut off"),
        ("refusal", "refusal", "content_filter"),
        ("content_filter", "refusal", "content_filter"),
        ("http status=401", "end_turn", "stub says 401"),
        ("drop after=2", "end_turn", "word0 word1 ECONNRESET"),
        ("eof after=2", "end_turn", "before a finish_reason"),
        ("malformed after=2", "end_turn", "JSON Parse error"),
    ];
    for (scenario, reason, text) in endings {
        omp.seen.clear();
        assert_eq!(omp.prompt(&session, &format!("[[stub:{scenario}]]")), reason, "{scenario}");
        assert!(omp.said().contains(text), "{scenario}: {}", omp.said());
    }
}

#[test]
fn every_agent_passes_on_what_its_model_thinks_says_and_remembers() {
    for agent in Kind::ALL.into_iter().filter_map(RealAgent::or_skip) {
        let (model, root) = (StubModel::start().unwrap(), tempfile::tempdir().unwrap());
        let sandbox = agent.sandbox(&model, root.path()).unwrap();
        let mut client = RawClient::start(&sandbox);
        let session = client.open(&sandbox);
        let turns = [
            ("apple [[stub:think chunks=2 text=thought]]", "thought"),
            ("[[stub:slow chunks=3 delay_ms=1 word=w]]", "w0 w1 w2 "),
            // Refused once: each agent asks its model again.
            ("[[stub:http status=503 times=1]]", "hello there"),
            ("[[stub:recall word=apple]]", "yes-apple"),
        ];
        for (prompt, text) in turns {
            assert_eq!(client.prompt(&session, prompt), "end_turn", "{prompt}");
            assert!(client.said().ends_with(text), "{}: {}", agent.kind(), client.said());
        }
        // Each agent dresses thoughts up in its own way: a blank line before, bold around.
        let thoughts = client.updates("agent_thought_chunk");
        let (first, second) = (thoughts.find("step0"), thoughts.find("step1"));
        assert!(first.is_some() && first < second, "{}: {thoughts}", agent.kind());
    }
}

#[test]
fn codex_acp_ends_a_turn_and_outlives_the_end_of_its_input() {
    let Some(agent) = RealAgent::or_skip(Kind::CodexAcp) else { return };
    let (model, root) = (StubModel::start().unwrap(), tempfile::tempdir().unwrap());
    let sandbox = agent.sandbox(&model, root.path()).unwrap();
    let mut codex = RawClient::start(&sandbox);

    let session = codex.open(&sandbox);
    assert_eq!(codex.prompt(&session, "[[stub:text text=moored]] please"), "end_turn");
    // A warning about the unknown model comes first, in the agent's own voice.
    assert!(codex.said().ends_with("moored"), "{}", codex.said());
    assert!(model.requests().iter().any(|request| request.saw("please")));
    assert!(!sandbox.session_files().unwrap().is_empty());

    // An observation, not a rule: a version that does exit is a better one.
    codex.close_stdin();
    match codex.exit_within(Duration::from_secs(2)) {
        Some(status) => say(&format!("codex-acp: exited on end of input with {status}")),
        None => {
            say("codex-acp: still runs 2 s after the end of its input; killed");
            assert_eq!(codex.kill().code(), None, "killed, so no exit code");
        }
    }
}

#[test]
fn codex_acp_runs_the_tool_its_model_asks_for() {
    let Some(agent) = RealAgent::or_skip(Kind::CodexAcp) else { return };
    runs_a_tool(&agent);
}

#[test]
fn gemini_ends_a_turn_and_exits_at_the_end_of_its_input() {
    let Some(agent) = RealAgent::or_skip(Kind::Gemini) else { return };
    let (model, root) = (StubModel::start().unwrap(), tempfile::tempdir().unwrap());
    let sandbox = agent.sandbox(&model, root.path()).unwrap();
    let mut gemini = RawClient::start(&sandbox);

    let session = gemini.open(&sandbox);
    assert_eq!(gemini.prompt(&session, "[[stub:text text=moored]] please"), "end_turn");
    assert_eq!(gemini.said(), "moored");
    gemini.close_stdin();
    assert_eq!(gemini.exit().code(), Some(0));
}

#[test]
fn gemini_runs_the_tool_its_model_asks_for() {
    let Some(agent) = RealAgent::or_skip(Kind::Gemini) else { return };
    runs_a_tool(&agent);
}

/// One tool turn: the command really ran, in the workspace, and the model was told.
fn runs_a_tool(agent: &RealAgent) {
    let (model, root) = (StubModel::start().unwrap(), tempfile::tempdir().unwrap());
    let sandbox = agent.sandbox(&model, root.path()).unwrap();
    let mut client = RawClient::start(&sandbox);
    let session = client.open(&sandbox);
    let prompt = r#"[[stub:bash command="echo from-the-tool | tee proof.txt" after=fin]]"#;
    assert_eq!(client.prompt(&session, prompt), "end_turn");
    assert!(client.said().ends_with("fin"), "{}", client.said());
    assert_eq!(fs::read_to_string(sandbox.workspace.join("proof.txt")).unwrap(), "from-the-tool\n");
    let requests = model.requests();
    let told = requests.last().unwrap().entries.iter().rev();
    let told = told.take_while(|entry| !entry.text.contains("[[stub:"));
    assert!(told.into_iter().any(|entry| entry.text.contains("from-the-tool")), "{requests:?}");
}

/// The kinds of the entries of a session file: a message's role, else its own type.
fn entries(file: &str) -> Vec<String> {
    let kind = |line: &str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        let names = [&entry["message"]["role"], &entry["customType"], &entry["type"]];
        names.into_iter().find_map(Value::as_str).unwrap_or("?").to_owned()
    };
    file.lines().map(kind).collect()
}

/// Past the capture of the test harness.
fn say(line: &str) {
    io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}
