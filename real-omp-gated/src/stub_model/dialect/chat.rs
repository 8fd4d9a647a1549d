//! OpenAI chat completions.

use serde_json::{Value, json};

use super::{Dialect, Event, finish_of, text_of};
use crate::stub_model::plan::{Finish, Speech, Step};
use crate::stub_model::scenario::Usage;

/// An answer in chunks of `chat.completion.chunk`.
pub struct Chat {
    turn: usize,
    /// Tool calls so far: each has an index of its own.
    calls: usize,
}

impl Chat {
    pub fn new(turn: usize) -> Self {
        Self { turn, calls: 0 }
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>, usage: Option<Usage>) -> Event {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let mut chunk = json!({"id": format!("chatcmpl-stub-{}", self.turn),
            "object": "chat.completion.chunk", "created": 1, "model": "stub", "choices": [choice]});
        if let Some(usage) = usage {
            chunk["usage"] = counts(usage);
        }
        Event::json(&chunk)
    }

    fn call_id(&self) -> String {
        format!("call_{}_{}", self.turn, self.calls)
    }
}

impl Dialect for Chat {
    fn open(&mut self) -> Vec<Event> {
        vec![self.chunk(&json!({"role": "assistant", "content": ""}), None, None)]
    }

    fn step(&mut self, step: &Step) -> Vec<Event> {
        match step {
            Step::Pause { .. } => Vec::new(),
            Step::Text(text) => vec![self.chunk(&json!({"content": text}), None, None)],
            Step::Thought(text) => {
                vec![self.chunk(&json!({"reasoning_content": text}), None, None)]
            }
            Step::Tool { arguments, name } => {
                let index = self.calls;
                // In two chunks, as real servers do it: the name first, then the arguments.
                let call = json!({"tool_calls": [{"index": index, "id": self.call_id(),
                    "type": "function", "function": {"name": name, "arguments": ""}}]});
                let filled = json!({"tool_calls": [{"index": index,
                    "function": {"arguments": arguments.to_string()}}]});
                self.calls += 1;
                vec![self.chunk(&call, None, None), self.chunk(&filled, None, None)]
            }
        }
    }

    fn finish(&mut self, finish: &Finish, usage: Usage) -> Vec<Event> {
        let mut events = Vec::new();
        if let Finish::Refusal(text) = finish {
            events.push(self.chunk(&json!({"refusal": text}), None, None));
        }
        events.push(self.chunk(&json!({}), Some(word(finish)), Some(usage)));
        events.push(Event { name: None, body: "[DONE]".to_owned() });
        events
    }

    fn whole(&mut self, speech: &Speech) -> Value {
        let finish = finish_of(speech);
        let mut message = json!({"role": "assistant", "content": text_of(speech)});
        if let Finish::Refusal(text) = &finish {
            message["refusal"] = json!(text);
        }
        for step in &speech.steps {
            let Step::Tool { arguments, name } = step else { continue };
            let call = json!({"id": self.call_id(), "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()}});
            message["tool_calls"] = json!([call]);
        }
        json!({"id": format!("chatcmpl-stub-{}", self.turn), "object": "chat.completion",
            "created": 1, "model": "stub", "usage": counts(speech.usage),
            "choices": [{"index": 0, "message": message, "finish_reason": word(&finish)}]})
    }
}

fn word(finish: &Finish) -> &'static str {
    match finish {
        Finish::ContentFilter | Finish::Refusal(_) => "content_filter",
        Finish::Length => "length",
        Finish::Stop => "stop",
        Finish::ToolCall => "tool_calls",
    }
}

fn counts(usage: Usage) -> Value {
    let Usage { prompt, completion, cached } = usage;
    json!({"prompt_tokens": prompt, "completion_tokens": completion,
        "total_tokens": prompt + completion, "prompt_tokens_details": {"cached_tokens": cached}})
}
