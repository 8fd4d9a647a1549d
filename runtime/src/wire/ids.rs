//! The two id spaces: ours, a counter, and the agent's, echoed exactly as they came.
//!
//! They never meet. Agents number their requests from 0 and so collide with ours as a rule, not by
//! accident.
use std::fmt;

use super::findings::Quirk;
use super::json::{Fault, View};

/// The longest id of the agent's that is kept, as it is held until the answer and written back.
pub const REQUEST_ID_BYTES_MAX: usize = 1024;

/// The id of a request that the agent made.
///
/// `Display` gives the JSON token to echo. Two spellings of one number are two ids: an agent that
/// sends `7.0` gets `7.0` back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub enum RequestId {
    /// A whole number in its plain form.
    Number(i64),
    /// A text without escapes.
    Text(String),
    /// Any other number or text, as its token.
    Raw(RawId),
}

/// The token of an id that has no plainer form; only made from a token that was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct RawId(Box<str>);

/// Why a token is no id that could be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// JSON-RPC's way of saying that there is none.
    #[error("the id is null")]
    Null,
    /// Longer than [`REQUEST_ID_BYTES_MAX`].
    #[error("the id is longer than {REQUEST_ID_BYTES_MAX} bytes")]
    TooLong,
    /// Neither a number nor a text.
    #[error("the id is neither a number nor a text")]
    WrongType,
}

impl RequestId {
    /// Reads an id from its JSON token.
    pub fn parse(token: &str) -> Result<Self, IdError> {
        let view = View::parse(token).map_err(|_: Fault| IdError::WrongType)?;
        Self::read(view)
    }

    pub(super) fn read(view: View<'_>) -> Result<Self, IdError> {
        let token = view.token();
        if view.is_null() {
            return Err(IdError::Null);
        }
        if token.len() > REQUEST_ID_BYTES_MAX {
            return Err(IdError::TooLong);
        }
        if let Some(quoted) = view.quoted() {
            return Ok(if quoted.escaped {
                Self::Raw(RawId(token.into()))
            } else {
                Self::Text(quoted.inner.to_owned())
            });
        }
        if !view.is_number() {
            return Err(IdError::WrongType);
        }
        match token.parse::<i64>() {
            // `-0` reads as 0 and would be echoed as another token.
            Ok(number) if token != "-0" => Ok(Self::Number(number)),
            _ => Ok(Self::Raw(RawId(token.into()))),
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Raw(RawId(token)) => f.write_str(token),
            Self::Text(text) => {
                // A text read from a token needs no escape; one an embedder built may.
                f.write_str(&serde_json::Value::from(text.as_str()).to_string())
            }
        }
    }
}

/// An id in a reply, as one of ours: whole numbers in any of the forms agents give back.
pub(super) fn own_id(view: View<'_>) -> Option<(u64, Option<Quirk>)> {
    let token = view.token();
    if let Ok(id) = token.parse::<u64>() {
        return Some((id, None));
    }
    if let Some(quoted) = view.quoted() {
        let digits = quoted.inner;
        // Only the spelling that a conversion of our number gives: no sign, no leading zero.
        let plain = digits == "0" || !digits.starts_with(['0', '+']);
        return digits.parse::<u64>().ok().filter(|_| plain).map(|id| (id, Some(Quirk::TextId)));
    }
    let number = view.number()?;
    let whole = (0.0..=9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0;
    whole.then_some((number as u64, Some(Quirk::FloatId)))
}
