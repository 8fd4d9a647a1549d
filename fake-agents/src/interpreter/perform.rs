//! The steps, performed.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::outputs::Cut;
use super::strand::{Answers, Cue, Hold, Kind, Strand};
use super::{ASKED_MAX, Agent, Asked};
use crate::body::{Body, End, Fork, Out, Stream};
use crate::script::Stale;
use crate::script::step::{self, Entry, Event, Step};

impl Step {
    /// Whether the step puts something on its way to an output.
    pub(super) fn writes_output(&self) -> bool {
        !matches!(
            self,
            Step::Close(_)
                | Step::Delay(_)
                | Step::Die(_)
                | Step::Exit(_)
                | Step::Fork(_)
                | Step::Freeze(_)
                | Step::Later(_)
                | Step::Persist(_)
                | Step::Poison(_)
                | Step::ReadAgain(_)
                | Step::Repeat(_)
                | Step::Settle(_)
                | Step::StopReading(_)
                | Step::WaitFor(_)
        )
    }
}

impl<'s, B: Body> Agent<'s, '_, B> {
    pub(super) async fn perform(&mut self, strand: &mut Strand<'s>, step: &'s Step) {
        let now_ms = self.body.now_ms();
        match step {
            Step::Close(close) => self.close(close.stream),
            Step::Delay(delay) => strand.due_ms = Some(now_ms + delay.ms),
            Step::Die(die) => self.end_with(strand, End::Signalled(die.signal)),
            Step::DropReply(_) => self.forget(&strand.cue),
            Step::EchoUser(_) => {
                let text = strand.cue.prompt.clone();
                self.chunk(strand, "user_message_chunk", &text);
            }
            Step::Exit(exit) => self.end_with(strand, End::Exited(exit.code)),
            Step::Fork(fork) => self.fork(fork).await,
            Step::FrameOf(frame) => self.frame_of(strand, frame),
            Step::Freeze(_) => self.body.stop_self().await,
            Step::Later(later) => {
                let cue = strand.cue.clone();
                self.begin(Strand::new(Kind::Background, cue, &later.steps), later.after_ms);
            }
            Step::Noise(noise) => self.noise(noise),
            Step::Notify(notify) => {
                let params = self.expand(strand, &notify.params);
                self.call(None, &notify.method, &params);
            }
            Step::Permission(permission) => self.ask_permission(strand, permission),
            Step::Persist(persist) => self.persist(strand, persist).await,
            Step::Poison(poison) => self.poison = Some(&poison.steps),
            Step::Raw(raw) => {
                let frame = self.expand(strand, &raw.frame);
                self.frame(&frame);
            }
            Step::ReadAgain(_) => self.reading = true,
            Step::Repeat(repeat) => strand.repeat(&repeat.steps, repeat.times, repeat.every_ms),
            Step::Reply(reply) => self.reply(strand, reply).await,
            Step::Request(request) => self.ask(strand, request),
            Step::Say(say) => self.say(strand, &say.text),
            Step::Settle(_) => self.settle(strand),
            Step::Split(split) => {
                self.outputs.cut_next(Cut { at: split.at.clone(), gap_ms: split.gap_ms });
            }
            Step::Stderr(stderr) => self.stderr(strand, stderr),
            Step::StopReading(_) => self.reading = false,
            Step::Think(think) => {
                let text = self.expand_text(strand, &think.text);
                self.chunk(strand, "agent_thought_chunk", &text);
            }
            Step::ToolCall(call) => self.tool_call(strand, call),
            Step::ToolUpdate(update) => self.tool_update(strand, update),
            Step::Update(update) => {
                let session = update.session.as_ref().map(|session| self.expand(strand, session));
                let update = self.expand(strand, &update.update);
                self.update(&strand.cue, session, &update);
            }
            Step::WaitFor(wait) => {
                strand.hold = Some(Hold::Event(wait.event));
                strand.due_ms = wait.timeout_ms.map(|ms| now_ms + ms);
            }
            Step::Withdraw(_) => {
                if let Some(asked) = self.asked.back() {
                    let params = json!({ "requestId": asked.id });
                    self.call(None, "$/cancel_request", &params);
                }
            }
        }
    }

    fn close(&mut self, stream: Stream) {
        self.body.close(stream);
        match stream {
            Stream::Stderr => self.outputs.give_up(Out::Stderr),
            Stream::Stdin => self.reading = false,
            Stream::Stdout => self.outputs.give_up(Out::Stdout),
        }
    }

    fn end_with(&mut self, strand: &Strand<'s>, end: End) {
        if !strand.spares_the_process() {
            self.end = Some(end);
        }
    }

    fn forget(&mut self, cue: &Cue) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.cue.turn == cue.turn) {
            turn.over = true;
        }
    }

    fn settle(&mut self, strand: &mut Strand<'s>) {
        if strand.kind.belongs_to_turn() {
            return; // it would break off itself
        }
        self.settle_turn();
        strand.hold = Some(Hold::Event(Event::Settled));
    }

    async fn fork(&mut self, fork: &step::Fork) {
        let fork = Fork {
            group: fork.group,
            lives_ms: fork.lives_ms,
            holds_stdout: fork.holds_stdout,
            ignores_term: fork.ignores_term,
        };
        match self.body.fork(fork).await {
            Ok(pid) => self.child = Some(pid),
            Err(error) => {
                self.child = None;
                self.outputs.stderr(format!("fake-agent: cannot fork: {error}\n").into_bytes());
            }
        }
    }

    fn say(&mut self, strand: &Strand<'s>, text: &str) {
        let text = self.expand_text(strand, text);
        self.said.push_str(&text);
        self.chunk(strand, "agent_message_chunk", &text);
    }

    fn chunk(&mut self, strand: &Strand<'s>, kind: &str, text: &str) {
        let update = Chunk { session_update: kind, content: Text { kind: "text", text } };
        self.update(&strand.cue, None, &update);
    }

    pub(super) fn update(
        &mut self,
        cue: &Cue,
        session: Option<Value>,
        update: &(impl Serialize + ?Sized),
    ) {
        let session_id = session.unwrap_or_else(|| self.session_of(cue).into());
        self.call(None, "session/update", &Update { session_id, update });
    }

    fn call(&mut self, id: Option<&Value>, method: &str, params: &impl Serialize) {
        self.frame(&Call { jsonrpc: "2.0", id, method, params });
    }

    pub(super) fn frame(&mut self, frame: &impl Serialize) {
        // Text keys and JSON values: there is nothing in a frame that cannot be written.
        let mut line = serde_json::to_vec(frame).unwrap_or_default();
        line.push(b'\n');
        self.outputs.stdout(line);
    }

    fn tool_call(&mut self, strand: &Strand<'s>, call: &step::ToolCall) {
        let mut update = json!({
            "sessionUpdate": "tool_call",
            "toolCallId": call.id,
            "title": call.title,
            "kind": call.kind,
            "status": call.status,
        });
        merge(&mut update, &call.extra);
        self.fill(strand, &mut update);
        self.update(&strand.cue, None, &update);
    }

    fn tool_update(&mut self, strand: &Strand<'s>, news: &step::ToolUpdate) {
        let mut update = json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": news.id,
            "status": news.status,
        });
        if let Some(text) = &news.text {
            let text = json!({ "type": "content", "content": { "type": "text", "text": text } });
            update["content"] = json!([text]);
        }
        merge(&mut update, &news.extra);
        self.fill(strand, &mut update);
        self.update(&strand.cue, None, &update);
    }

    fn frame_of(&mut self, strand: &Strand<'s>, frame: &step::FrameOf) {
        let wanted = frame.bytes as usize;
        let chunk = |text: &str| {
            let content = json!({ "type": "text", "text": text });
            let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
            let params = json!({ "sessionId": self.session_of(&strand.cue), "update": update });
            json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string()
        };
        let mut text = match wanted.checked_sub(chunk("").len()) {
            Some(filler) => chunk(&"x".repeat(filler)),
            None => "x".repeat(wanted),
        };
        if frame.newline {
            text.push('\n');
        }
        self.outputs.stdout(text.into_bytes());
    }

    fn noise(&mut self, noise: &step::Noise) {
        let mut bytes = noise.text.clone().unwrap_or_default().into_bytes();
        bytes.extend(noise.hex.iter().flat_map(step::Hex::bytes));
        if noise.newline {
            bytes.push(b'\n');
        }
        self.outputs.stdout(bytes);
    }

    fn stderr(&mut self, strand: &Strand<'s>, stderr: &step::Stderr) {
        let mut bytes = Vec::new();
        if let Some(text) = &stderr.text {
            bytes.extend(self.expand_text(strand, text).into_bytes());
            bytes.push(b'\n');
        }
        let wanted = bytes.len() + stderr.bytes as usize;
        for number in 1u64.. {
            if bytes.len() >= wanted {
                break;
            }
            bytes.extend(format!("stderr line {number}\n").into_bytes());
        }
        bytes.truncate(wanted);
        self.outputs.stderr(bytes);
    }

    fn ask_permission(&mut self, strand: &mut Strand<'s>, permission: &'s step::Permission) {
        if self.script.on.cancel.stale == Stale::CancelsNextPermission
            && std::mem::take(&mut self.stale_cancel)
        {
            let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
            strand.enter(Answers::Permission(&permission.on_answer).to(Some(&cancelled)));
            return;
        }
        let options = match &permission.options {
            Some(options) => json!(options),
            None => json!([
                { "optionId": "allow_once", "name": "Allow once", "kind": "allow_once" },
                { "optionId": "allow_always", "name": "Always allow", "kind": "allow_always" },
                { "optionId": "reject_once", "name": "Reject", "kind": "reject_once" },
                { "optionId": "reject_always", "name": "Always reject", "kind": "reject_always" },
            ]),
        };
        let tool = json!({
            "toolCallId": permission.tool,
            "title": permission.title,
            "kind": "execute",
            "status": "pending",
        });
        let session = self.session_of(&strand.cue);
        let params = json!({ "sessionId": session, "toolCall": tool, "options": options });
        let id = permission.id.clone();
        let id = self.send_request(strand, id, "session/request_permission", &params);
        let answers = Answers::Permission(&permission.on_answer);
        self.await_answer(strand, id, permission.wait, answers);
    }

    fn ask(&mut self, strand: &mut Strand<'s>, request: &'s step::Request) {
        let id = self.send_request(strand, request.id.clone(), &request.method, &request.params);
        let answers =
            Answers::Request { on_result: &request.on_result, on_error: &request.on_error };
        self.await_answer(strand, id, request.wait, answers);
        if request.wait {
            strand.due_ms = request.timeout_ms.map(|ms| self.body.now_ms() + ms);
        }
    }

    fn send_request(
        &mut self,
        strand: &Strand<'s>,
        id: Option<Value>,
        method: &str,
        params: &Value,
    ) -> Value {
        let id = id.unwrap_or_else(|| {
            self.requests_sent += 1;
            json!(self.requests_sent - 1)
        });
        let params = self.expand(strand, params);
        self.call(Some(&id), method, &params);
        id
    }

    fn await_answer(
        &mut self,
        strand: &mut Strand<'s>,
        id: Value,
        waited_for: bool,
        answers: Answers<'s>,
    ) {
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_front();
        }
        let cue = strand.cue.clone();
        self.asked.push_back(Asked { id: id.clone(), cue, waited_for, answers });
        if waited_for {
            strand.hold = Some(Hold::Answer(id));
        }
    }

    async fn persist(&mut self, strand: &Strand<'s>, persist: &'s step::Persist) {
        let cue = &strand.cue;
        match persist.entry {
            Entry::Aborted => self.persist_answer(cue, "aborted").await,
            Entry::Assistant => self.persist_answer(cue, "stop").await,
            Entry::Header => self.persist_header(cue).await,
            Entry::Raw => {
                let entry = self.expand(strand, &persist.value);
                self.append(cue, entry).await;
            }
            Entry::SessionExit => {
                let reason = persist.reason.as_deref().unwrap_or("manual");
                let kind = persist.kind.as_deref().unwrap_or("normal");
                self.persist_exit(cue, reason, kind).await;
            }
            Entry::ToolResult => self.persist_tool_result(cue).await,
            Entry::User => self.persist_user(cue).await,
        }
    }

    /// Fills in what a script can refer to: `${session}`, `${prompt}`, `${cwd}`, `${turn}`, `${n}`, `${child}`; and
    /// `${request}`, which alone in a string is the request's id with its type.
    pub(super) fn expand(&self, strand: &Strand<'s>, value: &Value) -> Value {
        let mut value = value.clone();
        self.fill(strand, &mut value);
        value
    }

    /// The same in place.
    pub(super) fn fill(&self, strand: &Strand<'s>, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill(strand, item)),
            Value::Object(members) => members.values_mut().for_each(|v| self.fill(strand, v)),
            Value::String(text) if text == "${request}" => {
                *value = strand.cue.id.clone().unwrap_or_default();
            }
            Value::String(text) if text.contains("${") => *text = self.expand_text(strand, text),
            _ => {}
        }
    }

    /// One pass from left to right, so that a prompt with `${...}` in it stays as it is.
    fn expand_text(&self, strand: &Strand<'s>, text: &str) -> String {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("${") {
            expanded.push_str(before);
            let Some((name, after)) = behind.split_once('}') else {
                expanded.push_str("${");
                rest = behind;
                continue;
            };
            match self.look_up(strand, name) {
                Some(value) => expanded.push_str(&value),
                None => expanded.push_str(&format!("${{{name}}}")),
            }
            rest = after;
        }
        expanded.push_str(rest);
        expanded
    }

    fn look_up(&self, strand: &Strand<'s>, name: &str) -> Option<String> {
        Some(match name {
            "child" => self.child.map(|pid| pid.to_string()).unwrap_or_default(),
            "cwd" => self.cwd_of(&strand.cue),
            "n" => strand.round().to_string(),
            "prompt" => strand.cue.prompt.clone(),
            "request" => strand.cue.id.as_ref().map(Value::to_string).unwrap_or_default(),
            "session" => self.session_of(&strand.cue).unwrap_or_default(),
            "turn" => strand.cue.turn.to_string(),
            _ => return None,
        })
    }
}

/// A request or a notification. The common frames are written member by member, for a tree of values costs more than
/// everything else an agent does.
#[derive(Serialize)]
struct Call<'a, P> {
    jsonrpc: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    method: &'a str,
    params: &'a P,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Update<'a, U: ?Sized> {
    session_id: Value,
    update: &'a U,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    session_update: &'a str,
    content: Text<'a>,
}

#[derive(Serialize)]
struct Text<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    text: &'a str,
}

pub(super) fn merge(target: &mut Value, extra: &Map<String, Value>) {
    if let Value::Object(members) = target {
        members.extend(extra.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}
