//! The OpenAI responses API.
//!
//! Its stream is a list of output items, each opened, filled and closed; the last event repeats
//! them all.

use serde_json::{Value, json};

use super::{Dialect, Event, finish_of};
use crate::stub_model::plan::{Finish, Speech, Step};
use crate::stub_model::scenario::Usage;

/// An answer in `response.*` events.
pub struct Responses {
    turn: usize,
    sequence: u64,
    open: Option<Open>,
    closed: Vec<Value>,
}

/// The output item being filled.
struct Open {
    kind: Kind,
    text: String,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    Message,
    Reasoning,
    Refusal,
}

impl Kind {
    /// The part that holds the text.
    fn part(self, text: &str) -> Value {
        match self {
            Self::Message => json!({"type": "output_text", "text": text, "annotations": []}),
            Self::Reasoning => json!({"type": "summary_text", "text": text}),
            Self::Refusal => json!({"type": "refusal", "refusal": text}),
        }
    }
}

impl Responses {
    pub fn new(turn: usize) -> Self {
        Self { turn, sequence: 0, open: None, closed: Vec::new() }
    }

    fn event(&mut self, name: &'static str, mut body: Value) -> Event {
        body["type"] = json!(name);
        body["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        Event { name: Some(name), body: body.to_string() }
    }

    fn response(&self, status: &str) -> Value {
        json!({"id": format!("resp_stub_{}", self.turn), "object": "response", "created_at": 1,
            "model": "stub", "status": status, "output": self.closed})
    }

    /// The id of the item being filled, or of the next one.
    fn item_id(&self, prefix: &str) -> String {
        format!("{prefix}_{}_{}", self.turn, self.closed.len())
    }

    fn item(&self, kind: Kind, text: &str, status: &str) -> Value {
        let parts = if status == "completed" { vec![kind.part(text)] } else { Vec::new() };
        match kind {
            Kind::Message | Kind::Refusal => json!({"type": "message", "id": self.item_id("msg"),
                "role": "assistant", "status": status, "content": parts}),
            Kind::Reasoning => {
                json!({"type": "reasoning", "id": self.item_id("rs"), "summary": parts})
            }
        }
    }

    /// An event about the only part of the item being filled.
    fn part_event(&mut self, kind: Kind, name: &'static str, key: &str, value: &Value) -> Event {
        let (prefix, part_index) = match kind {
            Kind::Message | Kind::Refusal => ("msg", "content_index"),
            Kind::Reasoning => ("rs", "summary_index"),
        };
        let mut body = json!({"item_id": self.item_id(prefix), "output_index": self.closed.len()});
        body[part_index] = json!(0);
        body[key] = value.clone();
        self.event(name, body)
    }

    fn chunk(&mut self, kind: Kind, text: &str) -> Vec<Event> {
        let mut events = Vec::new();
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            events.extend(self.close());
            let item = self.item(kind, "", "in_progress");
            let body = json!({"output_index": self.closed.len(), "item": item});
            events.push(self.event("response.output_item.added", body));
            let added = match kind {
                Kind::Message | Kind::Refusal => "response.content_part.added",
                Kind::Reasoning => "response.reasoning_summary_part.added",
            };
            events.push(self.part_event(kind, added, "part", &kind.part("")));
            self.open = Some(Open { kind, text: String::new() });
        }
        if let Some(open) = &mut self.open {
            open.text.push_str(text);
        }
        let delta = match kind {
            Kind::Message => "response.output_text.delta",
            Kind::Reasoning => "response.reasoning_summary_text.delta",
            Kind::Refusal => "response.refusal.delta",
        };
        events.push(self.part_event(kind, delta, "delta", &json!(text)));
        events
    }

    fn close(&mut self) -> Option<Event> {
        let open = self.open.take()?;
        let (item, index) = (self.item(open.kind, &open.text, "completed"), self.closed.len());
        let event =
            self.event("response.output_item.done", json!({"output_index": index, "item": item}));
        self.closed.push(item);
        Some(event)
    }

    fn tool(&mut self, name: &str, arguments: &Value) -> Vec<Event> {
        let mut events: Vec<Event> = self.close().into_iter().collect();
        let index = self.closed.len();
        let call = json!({"type": "function_call", "id": self.item_id("fc"),
            "call_id": self.item_id("call"), "name": name,
            "arguments": arguments.to_string(), "status": "completed"});
        let mut opened = call.clone();
        opened["arguments"] = json!("");
        opened["status"] = json!("in_progress");
        events.push(
            self.event(
                "response.output_item.added",
                json!({"output_index": index, "item": opened}),
            ),
        );
        events.push(
            self.event("response.output_item.done", json!({"output_index": index, "item": call})),
        );
        self.closed.push(call);
        events
    }
}

impl Dialect for Responses {
    fn open(&mut self) -> Vec<Event> {
        let response = self.response("in_progress");
        vec![self.event("response.created", json!({"response": response}))]
    }

    fn step(&mut self, step: &Step) -> Vec<Event> {
        match step {
            Step::Pause { .. } => Vec::new(),
            Step::Text(text) => self.chunk(Kind::Message, text),
            Step::Thought(text) => self.chunk(Kind::Reasoning, text),
            Step::Tool { arguments, name } => self.tool(name, arguments),
        }
    }

    fn finish(&mut self, finish: &Finish, usage: Usage) -> Vec<Event> {
        let mut events = Vec::new();
        if let Finish::Refusal(text) = finish {
            events = self.chunk(Kind::Refusal, text);
        }
        events.extend(self.close());
        let incomplete = match finish {
            Finish::ContentFilter => Some("content_filter"),
            Finish::Length => Some("max_output_tokens"),
            Finish::Refusal(_) | Finish::Stop | Finish::ToolCall => None,
        };
        let (name, status) = match incomplete {
            Some(_) => ("response.incomplete", "incomplete"),
            None => ("response.completed", "completed"),
        };
        let mut response = self.response(status);
        response["usage"] = counts(usage);
        if let Some(reason) = incomplete {
            response["incomplete_details"] = json!({"reason": reason});
        }
        events.push(self.event(name, json!({"response": response})));
        events
    }

    fn whole(&mut self, speech: &Speech) -> Value {
        for step in &speech.steps {
            self.step(step);
        }
        let events = self.finish(&finish_of(speech), speech.usage);
        let last = events.last().and_then(|event| serde_json::from_str::<Value>(&event.body).ok());
        last.map_or(Value::Null, |mut event| event["response"].take())
    }
}

fn counts(usage: Usage) -> Value {
    let Usage { prompt, completion, cached } = usage;
    json!({"input_tokens": prompt, "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": completion, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + completion})
}
