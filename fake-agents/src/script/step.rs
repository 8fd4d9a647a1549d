//! The steps: what an agent can do, one at a time.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Moment;
use super::path::nested;
use crate::body::{Group, Signal, Stream};

/// The most bytes one step writes.
pub const STEP_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Declares the steps once: the enum, its name in a script, and the reader that knows where an error is. (The
/// derived reader of a tagged enum buffers its content and forgets the path.)
macro_rules! steps {
    ($($(#[doc = $doc:literal])* $name:literal => $Step:ident),* $(,)?) => {
        /// One thing an agent does. In a script: `{"do": NAME, ...}`.
        #[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
        #[serde(tag = "do")]
        pub enum Step {
            $($(#[doc = $doc])* #[serde(rename = $name)] $Step($Step),)*
        }

        /// The names of all steps.
        pub const STEP_NAMES: &[&str] = &[$($name),*];

        impl<'de> Deserialize<'de> for Step {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Step, D::Error> {
                let mut fields = Map::deserialize(deserializer)?;
                let name = match fields.remove("do") {
                    Some(Value::String(name)) => name,
                    Some(_) => return Err(de::Error::custom("the field `do` must be the name of a step")),
                    None => return Err(de::Error::missing_field("do")),
                };
                let rest = Value::Object(fields);
                match name.as_str() {
                    $($name => nested(rest).map(Step::$Step).map_err(de::Error::custom),)*
                    _ => Err(de::Error::unknown_variant(&name, STEP_NAMES)),
                }
            }
        }
    };
}

steps! {
    /// Closes one of the agent's own streams.
    "close" => Close,
    /// Waits.
    "delay" => Delay,
    /// Dies by a signal.
    "die" => Die,
    /// Forgets the request: it is never answered, and the agent goes on as if it had been.
    "drop_reply" => DropReply,
    /// Sends the user's own message back as `user_message_chunk`.
    "echo_user" => EchoUser,
    /// Exits.
    "exit" => Exit,
    /// Starts a child process that does nothing but live.
    "fork" => Fork,
    /// Writes a valid message chunk frame of exactly this many bytes, with or without its newline.
    "frame_of" => FrameOf,
    /// Stops itself (SIGSTOP): ignores EOF, keeps SIGTERM pending, until someone continues it.
    "freeze" => Freeze,
    /// Performs steps later, beside whatever else the agent does by then.
    "later" => Later,
    /// Writes bytes that are no frame to standard output.
    "noise" => Noise,
    /// Sends a notification.
    "notify" => Notify,
    /// Asks for permission.
    "permission" => Permission,
    /// Writes an entry to the agent's own session file.
    "persist" => Persist,
    /// The next prompt is played with these steps instead of its own.
    "poison" => Poison,
    /// Writes any JSON value as a frame.
    "raw" => Raw,
    /// Reads standard input again after `stop_reading`.
    "read_again" => ReadAgain,
    /// Performs steps several times.
    "repeat" => Repeat,
    /// Answers the request at hand. Without fields: as a well-behaved agent would.
    "reply" => Reply,
    /// Sends a request to the host.
    "request" => Request,
    /// Sends a piece of the answer (`agent_message_chunk`).
    "say" => Say,
    /// Cancels the open turn in the way this agent cancels, and waits until that is done.
    "settle" => Settle,
    /// Cuts the next frame after these many bytes, and writes it in pieces.
    "split" => Split,
    /// Writes to standard error.
    "stderr" => Stderr,
    /// Stops reading standard input without closing it.
    "stop_reading" => StopReading,
    /// Sends a piece of reasoning (`agent_thought_chunk`).
    "think" => Think,
    /// Starts a tool call.
    "tool_call" => ToolCall,
    /// Reports on a tool call, its end included.
    "tool_update" => ToolUpdate,
    /// Sends a `session/update` of any kind.
    "update" => Update,
    /// Waits until something has happened since these steps began.
    "wait_for" => WaitFor,
    /// Withdraws the agent's own newest request (`$/cancel_request`).
    "withdraw" => Withdraw,
}

/// Every step is a struct that refuses fields it does not know.
macro_rules! fields {
    ($($(#[$meta:meta])* struct $Step:ident { $($(#[$field_meta:meta])* $field:ident: $Type:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
            #[serde(deny_unknown_fields)]
            pub struct $Step { $($(#[$field_meta])* pub $field: $Type,)* }
        )*
    };
}

fields! {
    /// Closes a stream.
    struct Close {
        /// Which one. A host that writes to a closed stdin gets a broken pipe.
        stream: Stream,
    }

    /// Waits.
    struct Delay {
        /// How long.
        ms: u64,
    }

    /// Dies by a signal.
    struct Die {
        /// Which one.
        signal: Signal,
    }

    /// Never answers.
    struct DropReply {}

    /// Echoes the user's message.
    struct EchoUser {}

    /// Exits, once everything before it is written.
    struct Exit {
        /// The exit code.
        #[serde(default)]
        code: i32,
    }

    /// Starts a child. Its process id is `${child}` from then on.
    struct Fork {
        /// Its process group.
        #[serde(default)]
        group: Group,
        /// How long it lives; absent: for ever.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lives_ms: Option<u64>,
        /// Whether it keeps the agent's standard output open.
        #[serde(default)]
        holds_stdout: bool,
        /// Whether it survives SIGTERM.
        #[serde(default)]
        ignores_term: bool,
    }

    /// A frame of a given size.
    struct FrameOf {
        /// Its length without the newline. Below the length of an empty chunk it is filler that is no JSON.
        #[serde(deserialize_with = "bounded")]
        bytes: u64,
        /// Whether the newline follows.
        #[serde(default = "yes")]
        newline: bool,
    }

    /// Stops itself.
    struct Freeze {}

    /// Steps beside the others.
    struct Later {
        /// When they begin, from now.
        after_ms: u64,
        /// What is done then.
        steps: Vec<Step>,
    }

    /// Bytes that are no frame.
    struct Noise {
        /// As text. Exactly one of `text` and `hex`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// As hexadecimal digits, for bytes that are no UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hex: Option<Hex>,
        /// Whether a newline follows.
        #[serde(default = "yes")]
        newline: bool,
    }

    /// A notification.
    struct Notify {
        /// Its method.
        method: String,
        /// Its parameters.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        params: Value,
    }

    /// A permission request (`session/request_permission`).
    struct Permission {
        /// The tool call it is about: `toolCallId`.
        tool: String,
        /// The tool call's title.
        #[serde(default = "permission_title")]
        title: String,
        /// The options; absent: allow and reject, once and always.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<Vec<Value>>,
        /// The JSON-RPC id; absent: counted from 0.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        id: Option<Value>,
        /// Whether the steps wait for the answer.
        #[serde(default = "yes")]
        wait: bool,
        /// What each answer leads to: by option id, `cancelled`, `error`, or `*` for any other.
        #[serde(default)]
        on_answer: BTreeMap<String, Vec<Step>>,
    }

    /// An entry of the session file.
    struct Persist {
        /// Which one.
        entry: Entry,
        /// The entry itself, for `raw`.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        value: Value,
        /// The `reason` of `session_exit`; absent: `manual`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The `kind` of `session_exit`; absent: `normal`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
    }

    /// The next turn goes wrong.
    struct Poison {
        /// What the next prompt is answered with.
        steps: Vec<Step>,
    }

    /// A frame of any shape.
    struct Raw {
        /// The frame.
        frame: Value,
    }

    /// Reads again.
    struct ReadAgain {}

    /// Steps several times. `${n}` counts the rounds from 1.
    struct Repeat {
        /// How often.
        times: u64,
        /// The pause between two rounds.
        #[serde(default)]
        every_ms: u64,
        /// What is done each time.
        steps: Vec<Step>,
    }

    /// An answer.
    struct Reply {
        /// The result; `null` is a result too. Absent: what the agent's facts and store say.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        /// The error. With a value it stands alone unless `result` is given; `null` stands beside a result.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        error: Option<Value>,
        /// For prompts: the stop reason, of any JSON type. Absent: `end_turn`.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        stop_reason: Option<Value>,
        /// For prompts: the usage block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Value>,
        /// How often the same answer is sent.
        #[serde(default = "once")]
        times: u32,
        /// Which form the request's id comes back in.
        #[serde(default)]
        id: IdForm,
        /// Which request is answered.
        #[serde(default)]
        to: To,
        /// When the turn's entry is written to the session file; absent: as the store's facts say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        persist: Option<Moment>,
        /// Further members of the frame, `jsonrpc` included.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        extra: Map<String, Value>,
    }

    /// A request to the host.
    struct Request {
        /// Its method.
        method: String,
        /// Its parameters.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        params: Value,
        /// The JSON-RPC id; absent: counted from 0.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        id: Option<Value>,
        /// Whether the steps wait for the answer.
        #[serde(default = "yes")]
        wait: bool,
        /// How long they wait at most; absent: for ever.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
        /// What a result leads to.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        on_result: Vec<Step>,
        /// What an error leads to.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        on_error: Vec<Step>,
    }

    /// A piece of the answer.
    struct Say {
        /// The text. It also goes into the turn's entry in the session file.
        text: String,
    }

    /// Cancels the turn as this agent does.
    struct Settle {}

    /// The next frame comes in pieces.
    struct Split {
        /// The cuts: offsets into the frame.
        at: Vec<usize>,
        /// The pause at each cut.
        #[serde(default)]
        gap_ms: u64,
    }

    /// Standard error.
    struct Stderr {
        /// As text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// As so many bytes of numbered lines, after the text.
        #[serde(default, deserialize_with = "bounded")]
        bytes: u64,
    }

    /// Leaves stdin unread.
    struct StopReading {}

    /// A piece of reasoning.
    struct Think {
        /// The text.
        text: String,
    }

    /// The start of a tool call.
    struct ToolCall {
        /// `toolCallId`.
        id: String,
        /// Its title.
        #[serde(default = "tool_title")]
        title: String,
        /// Its kind.
        #[serde(default = "tool_kind")]
        kind: String,
        /// Its status.
        #[serde(default = "tool_status")]
        status: String,
        /// Further members of the update.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        extra: Map<String, Value>,
    }

    /// News of a tool call.
    struct ToolUpdate {
        /// `toolCallId`.
        id: String,
        /// Its status; `completed` and `failed` end it.
        status: String,
        /// Its output so far, as text content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Further members of the update.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        extra: Map<String, Value>,
    }

    /// A `session/update`.
    struct Update {
        /// Its `update` member, of any shape: an unknown kind, `null`, a string.
        update: Value,
        /// Its `sessionId`, of any type; absent: the session at hand.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        session: Option<Value>,
    }

    /// Waits for an event.
    struct WaitFor {
        /// Which one.
        event: Event,
        /// How long at most; absent: for ever.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    }

    /// Withdraws a request.
    struct Withdraw {}
}

/// What can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A `session/cancel`, obeyed or not.
    Cancel,
    /// The end of standard input.
    Eof,
    /// A prompt, queued or running.
    Prompt,
    /// A signal, obeyed or not.
    Signal,
    /// No turn's steps are left: neither its own nor those of its cancel.
    Settled,
    /// The turn is answered, and its steps are at their end.
    TurnOver,
}

/// An entry of the agent's session file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// What was said in the turn, with stop reason `aborted`.
    Aborted,
    /// What was said in the turn, with stop reason `stop`.
    Assistant,
    /// The `session` line that makes the session findable.
    Header,
    /// The member `value` as it is.
    Raw,
    /// How the process ended; only in a session that has an assistant entry.
    SessionExit,
    /// An aborted tool call.
    ToolResult,
    /// The prompt.
    User,
}

/// The form in which a request's id comes back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdForm {
    /// Without an `id` member.
    Absent,
    /// As a fraction: `1.0`.
    Float,
    /// As `null`.
    Null,
    /// Another value altogether.
    Other(Value),
    /// As it came.
    #[default]
    Same,
    /// As a string.
    String,
}

/// Which request an answer is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum To {
    /// The prompt of the turn before this one.
    PreviousTurn,
    /// The request at hand.
    #[default]
    This,
}

/// Bytes as hexadecimal digits; spaces are allowed between them.
#[derive(Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Hex(String);

impl Hex {
    /// The bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let digit = |b: u8| (b as char).to_digit(16).unwrap_or_default() as u8;
        let digits: Vec<u8> = self.0.bytes().filter(|b| *b != b' ').map(digit).collect();
        digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
    }
}

impl fmt::Debug for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hex, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits: Vec<u8> = text.bytes().filter(|b| *b != b' ').collect();
        if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(de::Error::custom("expected pairs of hexadecimal digits"));
        }
        Ok(Hex(text))
    }
}

impl Default for Reply {
    fn default() -> Reply {
        Reply {
            result: None,
            error: None,
            stop_reason: None,
            usage: None,
            times: 1,
            id: IdForm::Same,
            to: To::This,
            persist: None,
            extra: Map::new(),
        }
    }
}

/// Tells `"result": null` from no result: both are `None` to a plain `Option`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn bounded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let bytes = u64::deserialize(deserializer)?;
    if bytes > STEP_BYTES_MAX {
        return Err(de::Error::custom(format!(
            "{bytes} is more than a step's {STEP_BYTES_MAX} bytes"
        )));
    }
    Ok(bytes)
}

fn yes() -> bool {
    true
}

fn once() -> u32 {
    1
}

fn permission_title() -> String {
    "touch approved.txt".into()
}

fn tool_title() -> String {
    "$ sleep 30".into()
}

fn tool_kind() -> String {
    "execute".into()
}

fn tool_status() -> String {
    "pending".into()
}
