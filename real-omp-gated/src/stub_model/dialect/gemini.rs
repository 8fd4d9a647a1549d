//! Gemini `generateContent`.

use serde_json::{Value, json};

use super::{Dialect, Event, finish_of};
use crate::stub_model::plan::{Finish, Speech, Step};
use crate::stub_model::scenario::Usage;

/// An answer in `GenerateContentResponse` values.
pub struct Gemini {
    turn: usize,
    calls: usize,
}

impl Gemini {
    pub fn new(turn: usize) -> Self {
        Self { turn, calls: 0 }
    }

    fn part(&mut self, step: &Step) -> Option<Value> {
        Some(match step {
            Step::Pause { .. } => return None,
            Step::Text(text) => json!({"text": text}),
            Step::Thought(text) => json!({"text": text, "thought": true}),
            Step::Tool { arguments, name } => {
                let id = format!("call_{}_{}", self.turn, self.calls);
                self.calls += 1;
                json!({"functionCall": {"id": id, "name": name, "args": arguments}})
            }
        })
    }

    fn response(&self, parts: &[Value], finish: Option<&Finish>, usage: Option<Usage>) -> Value {
        let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(word(finish));
        }
        let mut response = json!({"candidates": [candidate], "modelVersion": "stub",
            "responseId": format!("stub-{}", self.turn)});
        if let Some(Usage { prompt, completion, cached }) = usage {
            response["usageMetadata"] = json!({"promptTokenCount": prompt,
                "candidatesTokenCount": completion,
                "totalTokenCount": prompt + completion, "cachedContentTokenCount": cached});
        }
        response
    }
}

impl Dialect for Gemini {
    fn open(&mut self) -> Vec<Event> {
        Vec::new()
    }

    fn step(&mut self, step: &Step) -> Vec<Event> {
        let part = self.part(step);
        part.iter()
            .map(|part| Event::json(&self.response(std::slice::from_ref(part), None, None)))
            .collect()
    }

    fn finish(&mut self, finish: &Finish, usage: Usage) -> Vec<Event> {
        let parts = [json!({"text": refusal(finish)})];
        vec![Event::json(&self.response(&parts, Some(finish), Some(usage)))]
    }

    fn whole(&mut self, speech: &Speech) -> Value {
        let finish = finish_of(speech);
        let parts: Vec<Value> = speech.steps.iter().filter_map(|step| self.part(step)).collect();
        self.response(&parts, Some(&finish), Some(speech.usage))
    }
}

fn refusal(finish: &Finish) -> &str {
    match finish {
        Finish::Refusal(text) => text,
        _ => "",
    }
}

fn word(finish: &Finish) -> &'static str {
    match finish {
        Finish::ContentFilter => "SAFETY",
        Finish::Length => "MAX_TOKENS",
        Finish::Refusal(_) => "PROHIBITED_CONTENT",
        Finish::Stop | Finish::ToolCall => "STOP",
    }
}
