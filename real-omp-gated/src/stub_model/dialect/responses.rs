//! The OpenAI responses API.
//!
//! Its stream is a list of output items, each opened, filled and closed; the last event repeats them all.

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
        let parts = |part: Value| if status == "completed" { json!([part]) } else { json!([]) };
        match kind {
            Kind::Message => {
                json!({"type": "message", "id": self.item_id("msg"), "role": "assistant", "status": status,
                "content": parts(json!({"type": "output_text", "text": text, "annotations": []}))})
            }
            Kind::Reasoning => json!({"type": "reasoning", "id": self.item_id("rs"),
                "summary": parts(json!({"type": "summary_text", "text": text}))}),
            Kind::Refusal => {
                json!({"type": "message", "id": self.item_id("msg"), "role": "assistant", "status": status,
                "content": parts(json!({"type": "refusal", "refusal": text}))})
            }
        }
    }

    fn chunk(&mut self, kind: Kind, text: &str) -> Vec<Event> {
        let mut events = Vec::new();
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            events.extend(self.close());
            let (item, index) = (self.item(kind, "", "in_progress"), self.closed.len());
            self.open = Some(Open { kind, text: String::new() });
            events.push(
                self.event(
                    "response.output_item.added",
                    json!({"output_index": index, "item": item}),
                ),
            );
            events.extend(self.open_part(kind, index));
        }
        if let Some(open) = &mut self.open {
            open.text.push_str(text);
        }
        let index = self.closed.len();
        events.push(match kind {
            Kind::Message => {
                let body = json!({"item_id": self.item_id("msg"), "output_index": index, "content_index": 0, "delta": text});
                self.event("response.output_text.delta", body)
            }
            Kind::Reasoning => {
                let body = json!({"item_id": self.item_id("rs"), "output_index": index, "summary_index": 0, "delta": text});
                self.event("response.reasoning_summary_text.delta", body)
            }
            Kind::Refusal => {
                let body = json!({"item_id": self.item_id("msg"), "output_index": index, "content_index": 0, "delta": text});
                self.event("response.refusal.delta", body)
            }
        });
        events
    }

    fn open_part(&mut self, kind: Kind, index: usize) -> Vec<Event> {
        let part = match kind {
            Kind::Message => json!({"type": "output_text", "text": "", "annotations": []}),
            Kind::Refusal => json!({"type": "refusal", "refusal": ""}),
            Kind::Reasoning => {
                let body = json!({"item_id": self.item_id("rs"), "output_index": index, "summary_index": 0,
                    "part": {"type": "summary_text", "text": ""}});
                return vec![self.event("response.reasoning_summary_part.added", body)];
            }
        };
        let body = json!({"item_id": self.item_id("msg"), "output_index": index, "content_index": 0, "part": part});
        vec![self.event("response.content_part.added", body)]
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
        let call = json!({"type": "function_call", "id": self.item_id("fc"), "call_id": self.item_id("call"),
            "name": name, "arguments": arguments.to_string(), "status": "completed"});
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
