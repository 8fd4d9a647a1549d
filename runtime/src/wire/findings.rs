//! What a reader noticed about a peer: tolerances it had to use, and faults it had to report.
//!
//! Both are values. A peer's fault never is an `Err`: the connection lives on.
use std::collections::BTreeMap;
use std::fmt;

/// A tolerance: the peer's bytes were not quite the protocol, and were understood all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Quirk {
    /// A line began with a UTF-8 byte order mark.
    ByteOrderMark,
    /// A line ended in carriage return and newline.
    CarriageReturn,
    /// An error's code does not fit 32 bits, or is no whole number.
    CodeOutOfRange,
    /// An object held one key twice; the last one counted.
    DuplicateKey,
    /// An error was a text instead of an object.
    ErrorAsText,
    /// An error had no code; it reads as -32603.
    ErrorWithoutCode,
    /// An error had no message.
    ErrorWithoutMessage,
    /// One of our ids came back as a floating-point number.
    FloatId,
    /// A count of tokens had a fraction or an exponent.
    FractionalCount,
    /// Several objects stood on one line; each was read as a frame of its own.
    JoinedFrames,
    /// The last line before the end of the stream had no newline.
    LastLineUnterminated,
    /// An escape named half a surrogate pair; it reads as the replacement character.
    LoneSurrogate,
    /// A reply also carried a method.
    MethodInReply,
    /// A frame did not say which JSON-RPC it is.
    MissingJsonrpc,
    /// A reply had neither result nor error; it reads as a null result.
    MissingResult,
    /// A reply carried `error: null` beside its result.
    NullErrorBesideResult,
    /// Parameters were null instead of absent.
    NullParams,
    /// A reply carried `result: null` beside its error.
    NullResultBesideError,
    /// A session id was a number; its digits are taken as the id.
    NumericSessionId,
    /// The `jsonrpc` member was something other than "2.0".
    OddJsonrpc,
    /// One of our ids came back as a text.
    TextId,
    /// An optional member had the wrong type and was read as absent.
    WrongTypedMember,
}

/// How often each tolerance was used: the quirk report of one child.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quirks(BTreeMap<Quirk, u64>);

/// A fault of the peer. It never carries text of the peer's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// Rule 4 of the wire: batches are refused. Replies in it still settle their requests as
    /// undecodable.
    #[error("the agent sent a batch of {frames} frames, which the protocol does not have")]
    Batch {
        /// How many elements it had.
        frames: usize,
    },
    /// A line that was meant as a frame is no JSON.
    #[error("the agent sent a frame of {bytes} bytes that is no JSON")]
    BrokenFrame {
        /// The line's length.
        bytes: usize,
    },
    /// A reply whose id is none that this host could have issued.
    #[error("the agent answered an id that this host never issued")]
    ForeignReply,
    /// A line held bytes that are no UTF-8; they read as replacement characters.
    #[error("the agent sent bytes that are not UTF-8")]
    InvalidUtf8,
    /// A session update that names no session: the caller decides whose it is.
    #[error("the agent sent an update without a session id")]
    MissingSessionId,
    /// A frame nested deeper than [`super::NESTING_MAX`].
    #[error("the agent sent a frame nested deeper than {limit} levels")]
    NestingTooDeep {
        /// The bound.
        limit: u32,
    },
    /// A request with a null id: nothing can be answered to it.
    #[error("the agent sent a request whose id is null")]
    NullRequestId,
    /// A line longer than the limit was skipped.
    #[error("the agent sent a line of {bytes} bytes, over the limit of {limit}")]
    OversizeLine {
        /// The line's length.
        bytes: u64,
        /// The limit.
        limit: usize,
    },
    /// An error without an id: the agent's complaint about something it could not read.
    #[error("the agent reported an error without naming a request")]
    ReplyWithoutId {
        /// The code it gave.
        code: Option<i64>,
    },
    /// A reply carried both; the error counts, for a failure must not read as success.
    #[error("the agent answered with a result and an error together")]
    ResultBesideError,
    /// A tool call or tool update that does not say which tool call it is about.
    #[error("the agent sent a tool update without a tool call id")]
    ToolWithoutId,
    /// The stream ended in the middle of a frame.
    #[error("the agent's output ended {bytes} bytes into a frame")]
    TruncatedFrame {
        /// How much of it came.
        bytes: usize,
    },
    /// A request id that is no text and no number, or too long to be kept.
    #[error("the agent sent a request id that cannot be answered")]
    UnusableRequestId,
    /// `session/update` without an update.
    #[error("the agent sent a session update without content")]
    UpdateWithoutContent,
    /// The protocol version was a text.
    #[error("the agent gave its protocol version as a text")]
    VersionAsText,
    /// An answer is not the object the protocol asks for.
    #[error("the agent's answer to {method} has the wrong type")]
    WrongTypedAnswer {
        /// Which request it answers.
        method: &'static str,
    },
    /// A capability of the wrong type: it reads as not offered.
    #[error("the agent advertises {name} with the wrong type")]
    WrongTypedCapability {
        /// Which capability.
        name: &'static str,
    },
}

/// What one reading noticed, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Findings {
    /// Tolerances used.
    pub quirks: Quirks,
    /// Faults to report.
    pub defects: Vec<Defect>,
}

impl Quirks {
    /// How often a tolerance was used.
    pub fn count(&self, quirk: Quirk) -> u64 {
        self.0.get(&quirk).copied().unwrap_or(0)
    }

    /// Every tolerance that was used at least once, in the order of its name.
    pub fn iter(&self) -> impl Iterator<Item = (Quirk, u64)> + '_ {
        self.0.iter().map(|(quirk, count)| (*quirk, *count))
    }

    /// True while the peer kept to the protocol.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds another reading's counts.
    pub fn absorb(&mut self, other: &Self) {
        for (quirk, count) in other.iter() {
            let total = self.0.entry(quirk).or_default();
            *total = total.saturating_add(count);
        }
    }

    pub(super) fn record(&mut self, quirk: Quirk) {
        let total = self.0.entry(quirk).or_default();
        *total = total.saturating_add(1);
    }
}

impl Findings {
    pub(super) fn quirk(&mut self, quirk: Quirk) {
        self.quirks.record(quirk);
    }

    pub(super) fn defect(&mut self, defect: Defect) {
        self.defects.push(defect);
    }
}

impl fmt::Display for Quirk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByteOrderMark => "a line begins with a byte order mark",
            Self::CarriageReturn => "a line ends in carriage return and newline",
            Self::CodeOutOfRange => "an error code is no 32-bit number",
            Self::DuplicateKey => "an object holds a key twice",
            Self::ErrorAsText => "an error is a text",
            Self::ErrorWithoutCode => "an error has no code",
            Self::ErrorWithoutMessage => "an error has no message",
            Self::FloatId => "a reply's id is a floating-point number",
            Self::FractionalCount => "a token count is no whole number",
            Self::JoinedFrames => "several frames stand on one line",
            Self::LastLineUnterminated => "the last line has no newline",
            Self::LoneSurrogate => "an escape names half a surrogate pair",
            Self::MethodInReply => "a reply carries a method",
            Self::MissingJsonrpc => "a frame does not say which JSON-RPC it is",
            Self::MissingResult => "a reply has neither result nor error",
            Self::NullErrorBesideResult => "a null error stands beside a result",
            Self::NullParams => "parameters are null",
            Self::NullResultBesideError => "a null result stands beside an error",
            Self::NumericSessionId => "a session id is a number",
            Self::OddJsonrpc => "a frame names another JSON-RPC",
            Self::TextId => "a reply's id is a text",
            Self::WrongTypedMember => "an optional member has the wrong type",
        })
    }
}
