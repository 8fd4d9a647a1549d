//! The marker language: what a prompt asks the stub model to do.
//!
//! ```text
//! [[stub:NAME key=value key="quoted value" key={"json": 1}]]
//! ```
//!
//! The *last* marker of the last user message counts; no marker means `text`. A marker that cannot
//! be read is an error, not a default: a misspelt scenario must fail the test that wrote it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use thiserror::Error;

/// More chunks than this would only be a slower way to say the same thing.
pub const CHUNKS_MAX: u64 = 100_000;
/// The longest pause a marker may ask for: an hour outlives every test.
pub const WAIT_MS_MAX: u64 = 3_600_000;

const OPENING: &str = "[[stub:";

/// What the model does with a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Scenario {
    /// A tool call of the agent's own shell tool; `words` chunks of text come first.
    Bash { after: String, ask: bool, command: String, delay_ms: u64, loops: u64, words: u64 },
    /// The answer is withheld for policy reasons.
    ContentFilter { text: String },
    /// Some words, then the connection is reset.
    Drop { after: u64 },
    /// A well-formed answer without content.
    Empty,
    /// Some words, then the body ends cleanly but without a finish.
    Eof { after: u64 },
    /// Status 200, and a body that is no event stream.
    Garbage,
    /// The request is accepted and nothing is ever sent.
    Hang { ms: u64 },
    /// An HTTP error.
    Http { message: String, retry_after_s: Option<u64>, status: u16 },
    /// The answer stops at the token limit.
    Length { text: String },
    /// Some words, then an event that is broken JSON.
    Malformed { after: u64 },
    /// Says `yes-WORD` if an earlier message of the request contains the word, else `no-WORD`.
    Recall { word: String },
    /// The model refuses.
    Refusal { text: String },
    /// Many small chunks with a pause after each.
    Slow { chunks: u64, delay_ms: u64, word: String },
    /// Some words, then silence with the connection open.
    Stall { after: u64, ms: u64 },
    /// One short answer.
    Text { text: String },
    /// Reasoning first, then text.
    Think { chunks: u64, delay_ms: u64, text: String },
    /// A call of the named tool with these arguments, whatever the agent offers.
    Tool { after: String, arguments: Value, loops: u64, name: String },
}

/// The token counts an answer reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Usage {
    /// Prompt tokens, the cached ones included.
    pub prompt: u64,
    /// Tokens of the answer.
    pub completion: u64,
    /// Prompt tokens that came from a cache.
    pub cached: u64,
}

/// One marker, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Marker {
    /// The scenario.
    pub scenario: Scenario,
    /// What the answer reports as usage.
    pub usage: Usage,
    /// How many requests with this very marker get the scenario; later ones get plain text.
    pub times: Option<u64>,
    /// The marker as written, the identity `times` counts by.
    pub written: String,
}

/// Why a marker could not be read.
#[derive(Clone, Debug, Error, Eq, PartialEq)]
pub enum MarkerError {
    /// The marker has no closing brackets.
    #[error("the marker is not closed by `]]`")]
    Open,
    /// The scenario's name is not one of ours.
    #[error("there is no scenario `{0}`")]
    UnknownName(String),
    /// The scenario does not take this key.
    #[error("the scenario `{name}` does not take `{key}`")]
    UnknownKey {
        /// The scenario.
        name: String,
        /// The key it does not take.
        key: String,
    },
    /// A value is missing, or not of the kind its key wants, or above its limit.
    #[error("`{key}` needs {wants}")]
    Value {
        /// The key.
        key: String,
        /// What it wants, in words.
        wants: &'static str,
    },
}

impl Marker {
    /// The marker a user message carries, or plain `text`.
    ///
    /// # Errors
    /// The last marker is malformed.
    pub fn in_message(message: &str) -> Result<Self, MarkerError> {
        let written = match message.rfind(OPENING) {
            Some(at) => &message[at + OPENING.len()..],
            None => "text]]",
        };
        let mut cursor = Cursor { rest: written };
        let name = cursor.word();
        let mut keys = Keys { name: name.clone(), values: cursor.values()? };
        let usage = keys.usage()?;
        let times = keys.optional_number("times", u64::MAX)?;
        let scenario = keys.scenario()?;
        if let Some(key) = keys.values.into_keys().next() {
            return Err(MarkerError::UnknownKey { name, key });
        }
        let written = written[..written.len() - cursor.rest.len()].to_owned();
        Ok(Self { scenario, usage, times, written })
    }

    /// Plain text instead, with the same usage: what `times` falls back to.
    #[must_use]
    pub fn spent(self) -> Self {
        Self { scenario: Scenario::Text { text: HELLO.to_owned() }, ..self }
    }
}

const HELLO: &str = "hello there";

/// Reads a marker from left to right.
struct Cursor<'a> {
    rest: &'a str,
}

impl Cursor<'_> {
    /// Up to a blank, `=` or the closing brackets.
    fn word(&mut self) -> String {
        self.rest = self.rest.trim_start();
        let stop = |at: &(usize, char)| {
            at.1.is_whitespace() || at.1 == '=' || self.rest[at.0..].starts_with("]]")
        };
        let end = self.rest.char_indices().find(stop).map_or(self.rest.len(), |at| at.0);
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    /// All `key=value` pairs, and the closing brackets.
    fn values(&mut self) -> Result<BTreeMap<String, Value>, MarkerError> {
        let mut values = BTreeMap::new();
        loop {
            self.rest = self.rest.trim_start();
            if let Some(rest) = self.rest.strip_prefix("]]") {
                self.rest = rest;
                return Ok(values);
            }
            if self.rest.is_empty() {
                return Err(MarkerError::Open);
            }
            let key = self.word();
            let Some(rest) = self.rest.strip_prefix('=') else {
                return Err(MarkerError::Value { key, wants: "`=` and a value" });
            };
            self.rest = rest;
            let value = self.value(&key)?;
            values.insert(key, value);
        }
    }

    /// JSON where it looks like JSON (so that a command may contain `]]`), else a bare word.
    fn value(&mut self, key: &str) -> Result<Value, MarkerError> {
        if self.rest.starts_with(['"', '{', '[']) {
            let mut stream = serde_json::Deserializer::from_str(self.rest).into_iter::<Value>();
            let value = stream.next().and_then(Result::ok);
            let end = stream.byte_offset();
            let wants = "a JSON value that is closed";
            let value = value.ok_or(MarkerError::Value { key: key.to_owned(), wants })?;
            self.rest = &self.rest[end..];
            return Ok(value);
        }
        let word = self.word();
        Ok(serde_json::from_str(&word).unwrap_or(Value::String(word)))
    }
}

/// The keys not yet taken by a scenario.
struct Keys {
    name: String,
    values: BTreeMap<String, Value>,
}

impl Keys {
    fn scenario(&mut self) -> Result<Scenario, MarkerError> {
        Ok(match self.name.as_str() {
            "bash" => self.bash()?,
            "content_filter" => Scenario::ContentFilter { text: self.text("text", "")? },
            "drop" => Scenario::Drop { after: self.words()? },
            "empty" => Scenario::Empty,
            "eof" => Scenario::Eof { after: self.words()? },
            "garbage" => Scenario::Garbage,
            "hang" => Scenario::Hang { ms: self.seconds()? },
            "http" => self.http()?,
            "length" => Scenario::Length { text: self.text("text", "cut off")? },
            "malformed" => Scenario::Malformed { after: self.words()? },
            "recall" => Scenario::Recall { word: self.required("word")? },
            "refusal" => Scenario::Refusal { text: self.text("text", "I cannot help with that.")? },
            "slow" => Scenario::Slow {
                chunks: self.number("chunks", 200, CHUNKS_MAX)?,
                delay_ms: self.number("delay_ms", 100, WAIT_MS_MAX)?,
                word: self.text("word", "word")?,
            },
            "stall" => Scenario::Stall { after: self.words()?, ms: self.seconds()? },
            "text" => Scenario::Text { text: self.text("text", HELLO)? },
            "think" => Scenario::Think {
                chunks: self.number("chunks", 5, CHUNKS_MAX)?,
                delay_ms: self.number("delay_ms", 20, WAIT_MS_MAX)?,
                text: self.text("text", "thought about it")?,
            },
            "tool" => Scenario::Tool {
                after: self.text("after", AFTER_TOOL)?,
                arguments: self.values.remove("args").unwrap_or_else(|| json!({})),
                loops: self.number("loops", 1, CHUNKS_MAX)?,
                name: self.required("name")?,
            },
            _ => return Err(MarkerError::UnknownName(self.name.clone())),
        })
    }

    fn bash(&mut self) -> Result<Scenario, MarkerError> {
        Ok(Scenario::Bash {
            after: self.text("after", AFTER_TOOL)?,
            ask: self.text("ask", "no")? == "yes",
            command: self.text("command", "echo hi")?,
            delay_ms: self.number("delay_ms", 100, WAIT_MS_MAX)?,
            loops: self.number("loops", 1, CHUNKS_MAX)?,
            words: self.number("words", 0, CHUNKS_MAX)?,
        })
    }

    fn http(&mut self) -> Result<Scenario, MarkerError> {
        let wants = "an error status from 400 to 599";
        let status = self.number("status", 500, 599)?;
        let status = u16::try_from(status).ok().filter(|status| *status >= 400);
        let status = status.ok_or(MarkerError::Value { key: "status".to_owned(), wants })?;
        Ok(Scenario::Http {
            message: self.text("message", &format!("stub says {status}"))?,
            retry_after_s: self.optional_number("retry_after", u64::MAX)?,
            status,
        })
    }

    fn usage(&mut self) -> Result<Usage, MarkerError> {
        Ok(Usage {
            prompt: self.number("prompt", 10, u64::from(u32::MAX))?,
            completion: self.number("completion", 5, u64::from(u32::MAX))?,
            cached: self.number("cached", 0, u64::from(u32::MAX))?,
        })
    }

    fn words(&mut self) -> Result<u64, MarkerError> {
        self.number("after", 3, CHUNKS_MAX)
    }

    fn seconds(&mut self) -> Result<u64, MarkerError> {
        Ok(1000 * self.number("seconds", WAIT_MS_MAX / 1000, WAIT_MS_MAX / 1000)?)
    }

    fn number(&mut self, key: &str, default: u64, max: u64) -> Result<u64, MarkerError> {
        Ok(self.optional_number(key, max)?.unwrap_or(default))
    }

    fn optional_number(&mut self, key: &str, max: u64) -> Result<Option<u64>, MarkerError> {
        let Some(value) = self.values.remove(key) else { return Ok(None) };
        let wants = "a whole number within its limit";
        let number = value.as_u64().filter(|number| *number <= max);
        number.map(Some).ok_or(MarkerError::Value { key: key.to_owned(), wants })
    }

    fn text(&mut self, key: &str, default: &str) -> Result<String, MarkerError> {
        match self.values.remove(key) {
            None => Ok(default.to_owned()),
            Some(Value::String(text)) => Ok(text),
            // A bare 123 reads as a number, and is meant as text here.
            Some(scalar @ (Value::Number(_) | Value::Bool(_))) => Ok(scalar.to_string()),
            Some(_) => Err(MarkerError::Value { key: key.to_owned(), wants: "a text" }),
        }
    }

    fn required(&mut self, key: &str) -> Result<String, MarkerError> {
        if !self.values.contains_key(key) {
            return Err(MarkerError::Value { key: key.to_owned(), wants: "a value" });
        }
        self.text(key, "")
    }
}

const AFTER_TOOL: &str = "tool finished";

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(message: &str) -> Scenario {
        Marker::in_message(message).unwrap().scenario
    }

    #[test]
    fn no_marker_means_plain_text() {
        assert_eq!(scenario("hello"), Scenario::Text { text: "hello there".to_owned() });
    }

    #[test]
    fn the_last_marker_counts() {
        assert_eq!(scenario("[[stub:hang]] then [[stub:empty]] please"), Scenario::Empty);
    }

    #[test]
    fn a_command_may_hold_quotes_and_closing_brackets() {
        let read = scenario(r#"[[stub:bash command="[[ -e \"a b\" ]] && echo x" loops=2]] go"#);
        let Scenario::Bash { command, loops, .. } = read else { panic!("not bash: {read:?}") };
        assert_eq!((command.as_str(), loops), (r#"[[ -e "a b" ]] && echo x"#, 2));
    }

    #[test]
    fn a_tool_takes_its_arguments_as_json() {
        let read = scenario(r#"[[stub:tool name=read args={"paths":[["a"]]} after=done]]"#);
        let Scenario::Tool { name, arguments, after, .. } = read else { panic!("{read:?}") };
        assert_eq!((name.as_str(), after.as_str()), ("read", "done"));
        assert_eq!(arguments, json!({"paths": [["a"]]}));
    }

    #[test]
    fn usage_and_times_go_with_every_scenario() {
        let marker =
            Marker::in_message("[[stub:http status=503 times=2 prompt=7 cached=3]]").unwrap();
        assert_eq!(marker.times, Some(2));
        assert_eq!(marker.usage, Usage { prompt: 7, completion: 5, cached: 3 });
        assert_eq!(marker.written, "http status=503 times=2 prompt=7 cached=3]]");
        assert!(matches!(marker.spent().scenario, Scenario::Text { .. }));
    }

    #[test]
    fn a_misspelt_marker_is_an_error_and_never_a_default() {
        let error = |message: &str| Marker::in_message(message).unwrap_err().to_string();
        assert_eq!(error("[[stub:txet]]"), "there is no scenario `txet`");
        assert_eq!(error("[[stub:text txet=1]]"), "the scenario `text` does not take `txet`");
        assert_eq!(error("[[stub:text text=1"), "the marker is not closed by `]]`");
        assert_eq!(error("[[stub:text text]]"), "`text` needs `=` and a value");
        assert_eq!(error("[[stub:text text=\"a]]"), "`text` needs a JSON value that is closed");
        assert_eq!(
            error("[[stub:http status=200]]"),
            "`status` needs an error status from 400 to 599"
        );
        assert_eq!(error("[[stub:recall]]"), "`word` needs a value");
    }

    #[test]
    fn chunks_and_waits_have_limits() {
        let at = |chunks: u64| Marker::in_message(&format!("[[stub:slow chunks={chunks}]]"));
        assert!(at(CHUNKS_MAX).is_ok());
        assert!(at(CHUNKS_MAX + 1).is_err());
        let wait = |ms: u64| Marker::in_message(&format!("[[stub:slow delay_ms={ms}]]"));
        assert!(wait(WAIT_MS_MAX).is_ok());
        assert!(wait(WAIT_MS_MAX + 1).is_err());
    }
}
