//! The names things go by. All of them come in with a command or a fact; the core mints none.

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
        #[serde(transparent)]
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
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
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
