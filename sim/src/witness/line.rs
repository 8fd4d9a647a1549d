//! One line of the wire, looked into as far as the oracles need.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A frame, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The whole line without its newline.
    pub bytes: &'a [u8],
    /// Its id, as it was written.
    pub id: Option<&'a str>,
    /// What it is.
    pub shape: Shape<'a>,
}

/// Whether an agent that answers `answered` means the host's request `asked`: a number that comes back as a string or a
/// fraction is taken for the number.
pub fn same_id(asked: &str, answered: &str) -> bool {
    let plain = |id: &str| id.trim_matches('"').trim_end_matches(".0").to_owned();
    asked == answered || plain(asked) == plain(answered)
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape<'a> {
    /// A request or a notification.
    Call(&'a str),
    /// An answer.
    Answer,
    /// No frame at all.
    Noise,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    /// Raw, because text behind an `Option` is never borrowed.
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    /// `null` is a result too.
    #[serde(default, deserialize_with = "there")]
    result: bool,
    #[serde(default, deserialize_with = "there")]
    error: bool,
}

fn there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

impl<'a> Line<'a> {
    /// Looks into a line.
    pub fn read(bytes: &'a [u8]) -> Self {
        let noise = Self { bytes, id: None, shape: Shape::Noise };
        // A list would be read as the members in their order.
        if bytes.first() != Some(&b'{') {
            return noise;
        }
        let Ok(frame) = serde_json::from_slice::<Frame<'a>>(bytes) else { return noise };
        let id = frame.id.map(RawValue::get);
        match frame.method.map(RawValue::get) {
            // A method that needs unescaping is none of the protocol's, and is shown as it is.
            Some(method) => Self { bytes, id, shape: Shape::Call(method.trim_matches('"')) },
            None if frame.result || frame.error => Self { bytes, id, shape: Shape::Answer },
            None => noise,
        }
    }

    /// Looks into what an agent wrote: the last of several objects joined on one line is a frame too, for the host reads
    /// it.
    pub fn read_agents(bytes: &'a [u8]) -> Self {
        let line = Self::read(bytes);
        if line.shape != Shape::Noise {
            return line;
        }
        let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<&'a RawValue>();
        let mut last = None;
        for value in values.by_ref() {
            match value.map(RawValue::get) {
                Ok(object) if object.starts_with('{') => last = Some(object),
                _ => return line,
            }
        }
        last.map_or(line, |last| Self::read(last.as_bytes()))
    }

    /// Its method, if it has one.
    pub fn method(&self) -> Option<&'a str> {
        match self.shape {
            Shape::Call(method) => Some(method),
            Shape::Answer | Shape::Noise => None,
        }
    }

    /// Whether it is a request: a call that wants an answer.
    pub fn is_request(&self) -> bool {
        self.id.is_some() && matches!(self.shape, Shape::Call(_))
    }

    /// The session that a request of the host's is about.
    pub fn session(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Call {
            params: Params,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            session_id: String,
        }
        serde_json::from_slice::<Call>(self.bytes).ok().map(|call| call.params.session_id)
    }

    /// The tool call that a question of the agent's is about.
    pub fn tool_call(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Question {
            params: Params,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            tool_call: Tool,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Tool {
            tool_call_id: String,
        }
        let question = serde_json::from_slice::<Question>(self.bytes).ok()?;
        Some(question.params.tool_call.tool_call_id)
    }

    /// The text of the first block of a prompt.
    pub fn prompt_text(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Prompt {
            params: Params,
        }
        #[derive(Deserialize)]
        struct Params {
            prompt: Vec<Block>,
        }
        #[derive(Deserialize)]
        struct Block {
            text: Option<String>,
        }
        let prompt = serde_json::from_slice::<Prompt>(self.bytes).ok()?;
        prompt.params.prompt.into_iter().find_map(|block| block.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_by_its_members() {
        let prompt = br#"{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"prompt":[{"type":"text","text":"m1: hi"}]}}"#;
        let line = Line::read(prompt);
        assert_eq!(
            (line.method(), line.id, line.is_request()),
            (Some("session/prompt"), Some("3"), true)
        );
        assert_eq!(line.prompt_text().as_deref(), Some("m1: hi"));
        let about =
            Line::read(br#"{"id":3,"params":{"sessionId":"one","toolCall":{"toolCallId":"t1"}}}"#);
        assert_eq!(about.session().as_deref(), Some("one"));
        assert_eq!(about.tool_call().as_deref(), Some("t1"));
        assert_eq!((line.session(), line.tool_call()), (None, None));
        assert_eq!(Line::read(br#"{"id":"a","result":{}}"#).shape, Shape::Answer);
        assert_eq!(Line::read(br#"{"id":"a","error":{"code":1}}"#).shape, Shape::Answer);
        assert_eq!(Line::read(br#"{"id":"a","result":null}"#).shape, Shape::Answer);
        assert_eq!(Line::read(b"warning: {").shape, Shape::Noise);
        let glued = Line::read_agents(br#"{}{"jsonrpc":"2.0","id":0,"method":"ask"}"#);
        assert_eq!((glued.method(), glued.id), (Some("ask"), Some("0")));
        let list = Line::read_agents(br#"[]{"jsonrpc":"2.0","id":0,"method":"ask"}"#);
        assert_eq!(list.shape, Shape::Noise);
        let torn = Line::read_agents(br#"{"jsonrpc":"2{"jsonrpc":"2.0","id":0,"method":"ask"}"#);
        assert_eq!(torn.shape, Shape::Noise);
        assert_eq!(Line::read(b"[1, 2, 3]").shape, Shape::Noise);
        assert!(!Line::read(br#"{"method":"session/cancel"}"#).is_request());
    }
}
