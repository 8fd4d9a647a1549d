//! How each model API words an answer, as server-sent events or as one JSON value.

mod chat;
mod gemini;
mod responses;

use serde_json::Value;

use super::conversation::Api;
use super::plan::{Ending, Finish, Speech, Step};
use super::scenario::Usage;

/// A server-sent event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// The `event:` line, where the API has one.
    pub name: Option<&'static str>,
    /// The `data:` line.
    pub body: String,
}

impl Event {
    fn json(value: &Value) -> Self {
        Self { name: None, body: value.to_string() }
    }

    /// The event as it goes on the wire.
    #[must_use]
    pub fn wire(&self) -> String {
        let name = self.name.map(|name| format!("event: {name}\n")).unwrap_or_default();
        format!("{name}data: {}\n\n", self.body)
    }
}

/// One answer being worded. The calls come in this order: `open`, `step` for each, `finish`.
pub trait Dialect {
    /// What comes before the first step.
    fn open(&mut self) -> Vec<Event>;
    /// One step; a pause words as nothing.
    fn step(&mut self, step: &Step) -> Vec<Event>;
    /// The regular end.
    fn finish(&mut self, finish: &Finish, usage: Usage) -> Vec<Event>;
    /// The whole answer as one value, for a request that wants no stream.
    fn whole(&mut self, speech: &Speech) -> Value;
}

/// The dialect of an API, for the answer with this turn number.
#[must_use]
pub fn of(api: Api, turn: usize) -> Box<dyn Dialect> {
    match api {
        Api::Chat => Box::new(chat::Chat::new(turn)),
        Api::Gemini => Box::new(gemini::Gemini::new(turn)),
        Api::Responses => Box::new(responses::Responses::new(turn)),
    }
}

/// An event no JSON reader accepts, whatever the API.
#[must_use]
pub fn broken_event() -> Event {
    Event {
        name: None,
        body: r#"{"id":"broken","choices":[{"index":0,"delta":{"content":"bro"#.to_owned(),
    }
}

/// The finish a speech without a stream reports: an ending that needs a stream counts as a plain
/// stop.
fn finish_of(speech: &Speech) -> Finish {
    match &speech.ending {
        Ending::Finish(finish) => finish.clone(),
        _ => Finish::Stop,
    }
}

/// All text of a speech.
fn text_of(speech: &Speech) -> String {
    let text = |step: &Step| match step {
        Step::Text(text) => Some(text.clone()),
        _ => None,
    };
    speech.steps.iter().filter_map(text).collect()
}
