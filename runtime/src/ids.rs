//! The names things go by. All of them come in with a command or a fact; the core mints none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[schemars(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// A durable conversation hosted here (rule vocabulary: session).
    SessionId
}
text_id! {
    /// A message's client-chosen id; one id is delivered at most once (rule 5.2.1).
    MessageId
}
text_id! {
    /// A mutating call's client-chosen id, `<13-digit ms>-<32 hex>` (rule 5.10.1).
    OperationId
}
text_id! {
    /// Who calls; the operation ledger is bounded per caller (rule 5.10.3).
    CallerId
}
text_id! {
    /// A turn's public key; a client names it in a Stop (rule 6.3.3).
    TurnKey
}
text_id! {
    /// An item's identity inside its session (rule 6.3.1).
    ItemKey
}
text_id! {
    /// Fresh random id of one start of a child (rule 1.1.1).
    Generation
}
text_id! {
    /// Minted before a spawn, stored in the lease reservation, carried by the process (rule 1.1.6).
    SpawnToken
}
text_id! {
    /// Identity of a run of sequence numbers in one session's journal (rule 6.6).
    EpochId
}
text_id! {
    /// The agent's own name for its session: the handle that a reattach reopens (rule 7.1.5).
    AgentSessionId
}

/// Which child: a monotonic integer of the session's lease, never reset (rule 6.13.1).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[schemars(transparent)]
pub struct Fence(pub u64);

impl Fence {
    /// The fence of the next reservation.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl std::fmt::Display for Fence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Joins parts into a key; each part is percent-encoded, so a colon inside one cannot forge another key (rule 6.3.1).
pub fn key(parts: &[&str]) -> String {
    let mut out = String::new();
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            out.push(':');
        }
        push_part(&mut out, part);
    }
    out
}

fn push_part(out: &mut String, part: &str) {
    use std::fmt::Write;
    if part.len() > KEY_PART_BYTES_MAX {
        let _ = write!(out, "sha256-{}", crate::digest::sha256_hex(part.as_bytes()));
        return;
    }
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'#' => {
                out.push(char::from(byte))
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

/// Longest part of an item key before it is replaced by its digest (rule 6.3.2).
pub const KEY_PART_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_inside_a_part_cannot_forge_another_key() {
        assert_ne!(key(&["tool", "a:b"]), key(&["tool", "a", "b"]));
        assert_eq!(key(&["tool", "a:b"]), "tool:a%3Ab");
    }

    #[test]
    fn a_part_past_the_limit_becomes_its_digest_and_stays_the_same() {
        let fits = "x".repeat(KEY_PART_BYTES_MAX);
        let long = "x".repeat(KEY_PART_BYTES_MAX + 1);
        assert_eq!(key(&["t", &fits]), format!("t:{fits}"));
        assert!(key(&["t", &long]).starts_with("t:sha256-"));
        assert_eq!(key(&["t", &long]), key(&["t", &long]));
    }
}
