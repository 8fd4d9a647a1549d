//! What the decoder gives: one closed set of events, borrowed from the bytes they were read from.
//!
//! `Debug` of every type here names shapes, ids and lengths. It never prints what a person or an
//! agent wrote.
use std::borrow::Cow;
use std::fmt;

use super::findings::Defect;
use super::ids::RequestId;
use super::permission::PermissionRequest;
use super::update::Update;

/// The exact JSON text of a value, checked when it was read.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json<'a>(Cow<'a, str>);

/// Whose text a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChunkRole {
    /// `agent_message_chunk`.
    Agent,
    /// `agent_thought_chunk`.
    Thought,
    /// `user_message_chunk`.
    User,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoiseKind {
    /// An empty line.
    Blank,
    /// Not JSON: banners, logs, terminal escapes.
    NotJson,
    /// JSON, but no object: numbers, texts, arrays of them.
    NoObject,
    /// An object without the shape of a request, a reply or a notification.
    NoEnvelope,
}

/// One thing the peer said, in the order it was said.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Event<'a> {
    /// A fault of the peer. What could be used of the same frame follows as its own event.
    Defect(Defect),
    /// A request that cannot be served in any way, but whose id is known: it must be answered with
    /// this code (rule 9.1.4; every request from the agent gets exactly one reply).
    InvalidRequest {
        /// The agent's id.
        id: RequestId,
        /// The JSON-RPC code to answer with.
        code: i64,
    },
    /// Bytes that are no frame. Nothing is ever written to the agent because of them.
    Noise {
        /// Why they are none.
        kind: NoiseKind,
        /// The line, without its newline.
        bytes: Cow<'a, [u8]>,
    },
    /// Anything without an id that is no session update.
    Notification {
        /// The method.
        method: Cow<'a, str>,
        /// Its parameters; null reads as absent.
        params: Option<Json<'a>>,
    },
    /// The answer to a request of ours. Whether that request is open is the caller's knowledge
    /// (decision D9).
    Reply {
        /// Our id.
        id: u64,
        /// What the agent answered.
        outcome: ReplyOutcome<'a>,
    },
    /// A request of the agent's: exactly one reply is due.
    Request {
        /// The agent's id.
        id: RequestId,
        /// The method.
        method: Cow<'a, str>,
        /// Its parameters; null reads as absent.
        params: Option<Json<'a>>,
        /// The typed view of `session/request_permission`; none if its parameters are no object.
        typed: Option<Box<PermissionRequest>>,
    },
    /// A piece of streamed text: the hot shape.
    TextChunk {
        /// The session it belongs to.
        session: Cow<'a, str>,
        /// Whose text it is.
        role: ChunkRole,
        /// The text.
        text: Cow<'a, str>,
        /// The message it belongs to, where the agent says so.
        message_id: Option<Cow<'a, str>>,
    },
    /// Any other session update.
    Update {
        /// The session it belongs to; none if the agent did not say.
        session: Option<Cow<'a, str>>,
        /// The update.
        update: Update,
    },
}

/// How a request of ours was answered.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum ReplyOutcome<'a> {
    /// An error.
    Error {
        /// Its code; -32603 if there was none.
        code: i64,
        /// Its message.
        message: Cow<'a, str>,
        /// Its data.
        data: Option<Json<'a>>,
    },
    /// A result.
    Result(Json<'a>),
    /// The frame answers this request, but cannot be read: the request is settled all the same.
    Undecodable,
}

/// Prints a length instead of a text.
pub(super) struct Hidden(pub(super) usize);

/// Prints a word of the protocol that the agent chose, cut to a length no prompt hides in.
pub(super) struct Word<'a>(pub(super) &'a str);

impl ChunkRole {
    pub(super) fn of_kind(kind: &str) -> Option<Self> {
        match kind {
            "agent_message_chunk" => Some(Self::Agent),
            "agent_thought_chunk" => Some(Self::Thought),
            "user_message_chunk" => Some(Self::User),
            _ => None,
        }
    }
}

impl<'a> Json<'a> {
    pub(super) fn borrowed(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same text, owned.
    pub fn into_owned(self) -> Json<'static> {
        Json(Cow::Owned(self.0.into_owned()))
    }
}

impl Event<'_> {
    /// The same event, owning what it borrowed: for events that are kept for later (rule 1.2.8).
    pub fn into_owned(self) -> Event<'static> {
        fn own(text: Cow<'_, str>) -> Cow<'static, str> {
            Cow::Owned(text.into_owned())
        }
        match self {
            Event::Defect(defect) => Event::Defect(defect),
            Event::InvalidRequest { id, code } => Event::InvalidRequest { id, code },
            Event::Noise { kind, bytes } => {
                Event::Noise { kind, bytes: Cow::Owned(bytes.into_owned()) }
            }
            Event::Notification { method, params } => {
                Event::Notification { method: own(method), params: params.map(Json::into_owned) }
            }
            Event::Reply { id, outcome } => Event::Reply { id, outcome: outcome.into_owned() },
            Event::Request { id, method, params, typed } => Event::Request {
                id,
                method: own(method),
                params: params.map(Json::into_owned),
                typed,
            },
            Event::TextChunk { session, role, text, message_id } => Event::TextChunk {
                session: own(session),
                role,
                text: own(text),
                message_id: message_id.map(own),
            },
            Event::Update { session, update } => {
                Event::Update { session: session.map(own), update }
            }
        }
    }
}

impl ReplyOutcome<'_> {
    /// The same outcome, owning what it borrowed.
    pub fn into_owned(self) -> ReplyOutcome<'static> {
        match self {
            ReplyOutcome::Error { code, message, data } => ReplyOutcome::Error {
                code,
                message: Cow::Owned(message.into_owned()),
                data: data.map(Json::into_owned),
            },
            ReplyOutcome::Result(result) => ReplyOutcome::Result(result.into_owned()),
            ReplyOutcome::Undecodable => ReplyOutcome::Undecodable,
        }
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0)
    }
}

impl fmt::Debug for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.char_indices().nth(40).map_or(self.0.len(), |(at, _)| at);
        fmt::Debug::fmt(self.0.get(..end).unwrap_or(""), f)
    }
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hidden(self.0.len()).fmt(f)
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defect(defect) => f.debug_tuple("Defect").field(defect).finish(),
            Self::InvalidRequest { id, code } => {
                f.debug_struct("InvalidRequest").field("id", id).field("code", code).finish()
            }
            Self::Noise { kind, bytes } => f
                .debug_struct("Noise")
                .field("kind", kind)
                .field("bytes", &Hidden(bytes.len()))
                .finish(),
            Self::Notification { method, params } => f
                .debug_struct("Notification")
                .field("method", &Word(method))
                .field("params", params)
                .finish(),
            Self::Reply { id, outcome } => {
                f.debug_struct("Reply").field("id", id).field("outcome", outcome).finish()
            }
            Self::Request { id, method, params, typed } => f
                .debug_struct("Request")
                .field("id", id)
                .field("method", &Word(method))
                .field("params", params)
                .field("typed", typed)
                .finish(),
            Self::TextChunk { session, role, text, message_id } => f
                .debug_struct("TextChunk")
                .field("session", session)
                .field("role", role)
                .field("text", &Hidden(text.len()))
                .field("message_id", message_id)
                .finish(),
            Self::Update { session, update } => {
                f.debug_struct("Update").field("session", session).field("update", update).finish()
            }
        }
    }
}

impl fmt::Debug for ReplyOutcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error { code, message, data } => f
                .debug_struct("Error")
                .field("code", code)
                .field("message", &Hidden(message.len()))
                .field("data", data)
                .finish(),
            Self::Result(result) => f.debug_tuple("Result").field(result).finish(),
            Self::Undecodable => f.write_str("Undecodable"),
        }
    }
}
