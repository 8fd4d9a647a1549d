//! The digest of a session: two with the same digest behave the same (`encoding.rs` says what is written relatively).

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::Session;
use super::encoding::Encoder;
pub(super) use super::encoding::by_hash;
use crate::digest::RunningDigest;
use crate::ids::{Generation, MessageId};
use crate::platform::Moment;
use crate::status::Status;

impl Session {
    /// A hash of everything the session's behaviour rests on, as of `now`: times relative to it, ids by the ordinal of
    /// their first appearance. Effects must have been polled.
    pub fn digest(&self, now: Moment) -> u128 {
        self.digest_with(now, &())
    }

    /// The digest of the session and of what a caller keeps beside it; ids and times mean the same in both. Wall times
    /// beside it must be in fields of the names the journal uses, and ids in the library's own types.
    pub fn digest_with(&self, now: Moment, beside: &impl Serialize) -> u128 {
        assert!(self.effects.is_empty(), "a digest is of a session whose effects have been polled");
        let mut encoder = Encoder::new(now);
        encoder.put(&State(self));
        encoder.put(beside);
        encoder.finish()
    }
}

/// A session as it is digested; it is no format, and nothing reads it back.
struct State<'a>(&'a Session);

#[derive(serde::Serialize)]
struct StatusSince {
    status: Option<Status>,
    at_ms: Option<u64>,
}

impl Serialize for State<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // In full: whoever adds a field decides here.
        let Session {
            policy,
            record,
            plan,
            durable,
            appends,
            effects: _,
            timers,
            child,
            minting,
            text,
            texts_made,
            discarded,
            withheld,
            steers,
            settle,
            closers,
            life,
            published,
            published_of,
            status_since: (status, at_ms),
            // What was met is no part of the state.
            met: _,
        } = self.0;
        let waits = |(_, message): &&(Generation, MessageId)| plan.queued().any(|m| m == message);
        let steers: Vec<_> = steers.iter().filter(waits).collect();
        let mut state = to.serialize_struct("Session", 19)?;
        state.serialize_field("policy", policy)?;
        state.serialize_field("record", record)?;
        state.serialize_field("plan", plan)?;
        state.serialize_field("durable", durable)?;
        state.serialize_field("appends", appends)?;
        state.serialize_field("timers", timers)?;
        state.serialize_field("child", child)?;
        state.serialize_field("minting", minting)?;
        state.serialize_field("text", text)?;
        state.serialize_field("texts_made", texts_made)?;
        state.serialize_field("discarded", discarded)?;
        state.serialize_field("withheld", withheld)?;
        state.serialize_field("steers", &steers)?;
        state.serialize_field("settle", settle)?;
        state.serialize_field("closers", closers)?;
        state.serialize_field("life", life)?;
        state.serialize_field("published", published)?;
        state.serialize_field("published_of", published_of)?;
        let since = StatusSince { status: *status, at_ms: *at_ms };
        state.serialize_field("status_since", &since)?;
        state.end()
    }
}

/// The hash of a text that grows.
pub(super) fn by_text<S: Serializer>(digest: &RunningDigest, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&digest.hex())
}
