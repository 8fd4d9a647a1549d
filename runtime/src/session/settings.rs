//! What a host fixes for all its sessions.

use serde::{Deserialize, Serialize};

use super::ladder::{LadderPolicy, Profile};
use crate::planted::PlantedBug;

/// How sessions of a host behave; checked when it opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The windows of a child's end.
    pub ladder: LadderPolicy,
    /// The rule that is broken on purpose, if one is.
    #[cfg(feature = "planted-bugs")]
    #[serde(skip)]
    pub planted: Option<PlantedBug>,
}

impl Policy {
    /// The stock policy of a profile.
    pub fn stock(profile: Profile) -> Self {
        Self {
            ladder: LadderPolicy::stock(profile),
            #[cfg(feature = "planted-bugs")]
            planted: None,
        }
    }

    /// The same with a rule that is broken on purpose.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn planting(self, bug: PlantedBug) -> Self {
        Self { planted: Some(bug), ..self }
    }

    /// Whether `bug` is planted.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn plants(&self, bug: PlantedBug) -> bool {
        self.planted == Some(bug)
    }

    /// No bug is ever planted: what stands behind the question is not compiled in.
    #[cfg(not(feature = "planted-bugs"))]
    #[inline(always)]
    pub(crate) const fn plants(&self, _bug: PlantedBug) -> bool {
        false
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::stock(Profile::Posix)
    }
}
