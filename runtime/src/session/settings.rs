//! What a host fixes for all its sessions.

use serde::{Deserialize, Serialize};

use super::ladder::{LadderPolicy, Profile};

/// How sessions of a host behave; checked when it opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The windows of a child's end.
    pub ladder: LadderPolicy,
}

impl Policy {
    /// The stock policy of a profile.
    pub fn stock(profile: Profile) -> Self {
        Self { ladder: LadderPolicy::stock(profile) }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::stock(Profile::Posix)
    }
}
