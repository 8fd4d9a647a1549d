//! The agent's own session files: `<home>[/profiles/<profile>]/sessions/<id>.jsonl`, one JSON object a line, the
//! `session` line first. There are no times in them, so that two runs write the same bytes.

use serde_json::{Map, Value, json};

use super::Agent;
use super::strand::{Cue, Strand};
use crate::body::Body;
use crate::script::SignIn;

/// The variable that names the agent's home, unless the script does.
pub const HOME_VARIABLE: &str = "FAKE_AGENT_HOME";

/// The variable that names the profile, unless the script does.
pub const PROFILE_VARIABLE: &str = "FAKE_AGENT_PROFILE";

/// What the agent remembers of a session it has open.
#[derive(Default)]
pub(super) struct Session {
    cwd: String,
    /// Lines in its file.
    entries: u64,
    /// It has an assistant entry, without which no end of the process is noted.
    has_answer: bool,
}

impl<'s, B: Body> Agent<'s, '_, B> {
    pub(super) async fn open_home(&mut self) {
        let store = &self.script.store;
        let home = store.home.clone().or_else(|| self.body.env(HOME_VARIABLE));
        let profile = store.profile.clone().or_else(|| self.body.env(PROFILE_VARIABLE));
        self.home = match (home, profile) {
            (Some(home), Some(profile)) => Some(format!("{home}/profiles/{profile}")),
            (home, _) => home,
        };
        self.life = match &self.home {
            Some(home) => self.claim(&format!("{home}/lives"), "").await,
            None => 1,
        };
        let sign_in = self.script.agent.sign_in;
        if matches!(sign_in, SignIn::UntilAuthenticate | SignIn::UntilRespawn)
            && let Some(home) = &self.home
        {
            let credentials = self.body.read_file(&format!("{home}/credentials")).await;
            self.signed_in = matches!(credentials, Ok(Some(_)));
        }
    }

    pub(super) async fn keep_credentials(&mut self) {
        if let Some(home) = &self.home {
            let kept = self.body.append_file(&format!("{home}/credentials"), "signed in").await;
            self.complain(kept);
        }
    }

    /// The id of a new session: counted, never random. Two processes of one home count the same file.
    pub(super) async fn new_session(&mut self, params: &Value) -> String {
        self.sessions_made += 1;
        let number = match self.home.clone() {
            Some(home) => {
                let suffix = format!(" {}", self.sessions_made);
                self.claim(&format!("{home}/claims"), &suffix).await
            }
            None => self.sessions_made,
        };
        let id = format!("fake-{}-{number}", self.script.seed);
        let cwd = params.get("cwd").and_then(Value::as_str).unwrap_or_default();
        self.sessions.insert(id.clone(), Session { cwd: cwd.into(), ..Session::default() });
        id
    }

    /// Takes the next number of a file of claims: appends first and looks after, so that no two processes get one
    /// number whatever their timing.
    async fn claim(&mut self, path: &str, suffix: &str) -> u64 {
        let mine = format!("{}{suffix}", self.body.pid());
        let appended = self.body.append_file(path, &mine).await;
        self.complain(appended);
        let claims = self.body.read_file(path).await.ok().flatten().unwrap_or_default();
        let position = claims.lines().rev().position(|line| line == mine).unwrap_or(0);
        (claims.lines().count() - position).max(1) as u64
    }

    /// Finds a session for load and resume, or says in the agent's words why not.
    pub(super) async fn restore(&mut self, cue: &Cue) -> Result<(), Value> {
        let store = &self.script.store;
        let id = cue.session.clone().unwrap_or_default();
        let lines = self.history(&id).await;
        let found = lines.iter().any(|line| line["type"] == "session" && line["id"] == id.as_str());
        if !store.exists.unwrap_or(found || self.sessions.contains_key(&id)) {
            return Err(internal(format!("ACP session not found: {id}")));
        }
        let asked = cue.params.get("cwd").and_then(Value::as_str).unwrap_or_default();
        let header = lines.iter().find(|line| line["type"] == "session");
        let recorded = header.and_then(|line| line["cwd"].as_str()).unwrap_or(asked);
        let recorded = store.cwd.as_deref().unwrap_or(recorded);
        if store.check_cwd && recorded != asked {
            return Err(internal(format!("ACP session load was cancelled: {id}")));
        }
        let has_answer = lines.iter().any(|line| line["message"]["role"] == "assistant");
        let entries = lines.len() as u64;
        let cwd = recorded.to_string();
        self.sessions.insert(id, Session { cwd, entries, has_answer });
        Ok(())
    }

    /// What `session/load` sends before (or, against the protocol, after) its answer.
    pub(super) async fn replay(&mut self, strand: &Strand<'s>, cue: &Cue) {
        if !matches!(strand.natural, Some(Ok(_))) || strand.opened {
            return;
        }
        let replay = &self.script.store.replay;
        let id = cue.session.clone().unwrap_or_default();
        let lines = if replay.own { self.history(&id).await } else { Vec::new() };
        for line in &lines {
            let message = &line["message"];
            let kind = match message["role"].as_str() {
                Some("user") => "user_message_chunk",
                // What a stopped turn said comes back in no real agent's replay that was measured.
                Some("assistant") if message["stopReason"] != "aborted" => "agent_message_chunk",
                _ => continue,
            };
            for content in message["content"].as_array().into_iter().flatten() {
                self.update(cue, None, &json!({ "sessionUpdate": kind, "content": content }));
            }
        }
        for number in 1..=replay.extra {
            let content = json!({ "type": "text", "text": format!("replayed {number}") });
            let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
            self.update(cue, None, &update);
        }
    }

    pub(super) fn session_of(&self, cue: &Cue) -> Option<String> {
        cue.session.clone().or_else(|| self.session.clone())
    }

    pub(super) fn cwd_of(&self, cue: &Cue) -> String {
        let session = self.session_of(cue).and_then(|id| self.sessions.get(&id));
        session.map(|session| session.cwd.clone()).unwrap_or_default()
    }

    pub(super) async fn persist_header(&mut self, cue: &Cue) {
        let id = self.session_of(cue).unwrap_or_default();
        let cwd = self.cwd_of(cue);
        let header = json!({ "type": "session", "version": 3, "id": id, "cwd": cwd });
        self.append_line(cue, header).await;
    }

    pub(super) async fn persist_user(&mut self, cue: &Cue) {
        let said = json!({ "role": "user", "content": [{ "type": "text", "text": cue.prompt }] });
        self.append(cue, message(said)).await;
    }

    pub(super) async fn persist_answer(&mut self, cue: &Cue, stop_reason: &str) {
        let content = match self.said.as_str() {
            "" => json!([]),
            said => json!([{ "type": "text", "text": said }]),
        };
        let mut answer =
            json!({ "role": "assistant", "content": content, "stopReason": stop_reason });
        if stop_reason == "aborted" {
            answer["errorMessage"] = json!("Interrupted by user");
        }
        self.append(cue, message(answer)).await;
        let id = self.session_of(cue).unwrap_or_default();
        if let Some(session) = self.sessions.get_mut(&id) {
            session.has_answer = true;
        }
    }

    pub(super) async fn persist_tool_result(&mut self, cue: &Cue) {
        let content = json!([{ "type": "text", "text": "Command aborted" }]);
        let result = json!({ "role": "toolResult", "isError": true, "content": content });
        self.append(cue, message(result)).await;
    }

    pub(super) async fn persist_exit(&mut self, cue: &Cue, reason: &str, kind: &str) {
        let id = self.session_of(cue).unwrap_or_default();
        if self.sessions.get(&id).is_some_and(|session| session.has_answer) {
            let exit = json!({ "reason": reason, "kind": kind });
            let entry = json!({ "type": "custom", "customType": "session_exit", "data": exit });
            self.append(cue, entry).await;
        }
    }

    /// Appends an entry with its id and its parent's, which count the lines of the file.
    pub(super) async fn append(&mut self, cue: &Cue, mut entry: Value) {
        let id = self.session_of(cue).unwrap_or_default();
        let entries = self.sessions.get(&id).map_or(0, |session| session.entries);
        if let Value::Object(members) = &mut entry {
            let parent = if entries > 1 { json!(format!("e{entries}")) } else { Value::Null };
            members.entry("id").or_insert(json!(format!("e{}", entries + 1)));
            members.entry("parentId").or_insert(parent);
        }
        self.append_line(cue, entry).await;
    }

    async fn append_line(&mut self, cue: &Cue, line: Value) {
        let id = self.session_of(cue).unwrap_or_default();
        let Some(path) = self.session_path(&id) else { return };
        // The formatter behind `to_string` takes a value in pieces.
        let line = serde_json::to_string(&line).unwrap_or_default();
        let appended = self.body.append_file(&path, &line).await;
        self.complain(appended);
        self.sessions.entry(id).or_default().entries += 1;
    }

    async fn history(&mut self, id: &str) -> Vec<Value> {
        let Some(path) = self.session_path(id) else { return Vec::new() };
        let text = self.body.read_file(&path).await.ok().flatten().unwrap_or_default();
        // As in a real agent, a line that is broken is passed over in silence.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// None without a home, and for an id that would lead out of it.
    fn session_path(&self, id: &str) -> Option<String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if id.is_empty() || !id.chars().all(plain) {
            return None;
        }
        self.home.as_ref().map(|home| format!("{home}/sessions/{id}.jsonl"))
    }

    fn complain(&mut self, result: std::io::Result<()>) {
        if let Err(error) = result {
            self.outputs
                .stderr(format!("fake-agent: cannot write to its home: {error}\n").into_bytes());
        }
    }
}

fn message(message: Value) -> Value {
    let members = [("type".to_owned(), "message".into()), ("message".to_owned(), message)];
    Value::Object(Map::from_iter(members))
}

fn internal(details: String) -> Value {
    json!({ "code": -32603, "message": "Internal error", "data": { "details": details } })
}

/// The word a session file has for the protocol's stop reason.
pub(super) fn entry_stop_reason(stop_reason: &str) -> &str {
    match stop_reason {
        "cancelled" => "aborted",
        "end_turn" => "stop",
        "max_tokens" => "length",
        other => other,
    }
}
