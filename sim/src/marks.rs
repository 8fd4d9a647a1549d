//! Coverage marks of the world: what a sweep must have met besides the library's own rare branches.

use serde::{Deserialize, Serialize};

macro_rules! marks {
    ($($(#[$doc:meta])* $name:ident: $text:literal;)*) => {
        /// Something rare that the world does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum WorldMark {
            $($(#[$doc])* $name,)*
        }

        impl WorldMark {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

marks! {
    /// The agent was frozen.
    AgentFrozen: "agent-frozen";
    /// The agent was killed by somebody.
    AgentKilled: "agent-killed";
    /// A call was refused.
    CallRefused: "call-refused";
    /// A call was made again under its operation id.
    CallRepeated: "call-repeated";
    /// A client came back with what it had.
    ClientCameBack: "client-came-back";
    /// A client lagged and got the whole again.
    ClientLagged: "client-lagged";
    /// The host died right after a commit, with nobody told.
    CrashedAfterCommit: "crashed-after-commit";
    /// The host died right before a commit.
    CrashedBeforeCommit: "crashed-before-commit";
    /// A host crashed with no agent alive.
    HostCrashedAtRest: "host-crashed-at-rest";
    /// A host crashed over a live agent.
    HostCrashedOverLiveAgent: "host-crashed-over-live-agent";
    /// A host ended without the proof of an agent's end.
    HostEndedUnproven: "host-ended-unproven";
    /// A host was ended and opened again.
    HostRestarted: "host-restarted";
    /// A history that was loaded earlier was applied over a newer one (decision D26).
    LateHistoryApplied: "late-history-applied";
    /// madsim's own scheduler ran it.
    MadsimScheduled: "madsim-scheduled";
    /// Process numbers were given again.
    PidReused: "pid-reused";
    /// The machine lost its power.
    PowerLost: "power-lost";
    /// After the heal a new message was answered.
    ProbeCompleted: "probe-completed";
    /// After the heal a new message was refused by name.
    ProbeRefused: "probe-refused";
    /// A second host took the store from the first, whose lock was lost.
    SecondHostOpened: "second-host-opened";
    /// A second host was refused.
    SecondHostRefused: "second-host-refused";
    /// A signal could not be delivered.
    SignalNotDelivered: "signal-not-delivered";
    /// A child could not be started.
    SpawnFailed: "spawn-failed";
    /// An agent's stdin was closed by its host's death.
    StdinClosedByCrash: "stdin-closed-by-crash";
    /// After the heal the session needed a Stop to come to rest.
    StopNeededToRest: "stop-needed-to-rest";
    /// The store answered late.
    StoreAnsweredLate: "store-answered-late";
    /// The store was closed for good.
    StoreClosed: "store-closed";
    /// The store refused.
    StoreRefused: "store-refused";
    /// A commit stalled.
    StoreStalled: "store-stalled";
    /// A supervisor was killed by somebody.
    SupervisorKilled: "supervisor-killed";
    /// A supervisor was lost.
    SupervisorLost: "supervisor-lost";
    /// Something outlived its agent.
    SurvivorsFound: "survivors-found";
    /// The machine was suspended.
    Suspended: "suspended";
    /// The wall clock was set back.
    WallClockStepBack: "wall-clock-step-back";
    /// The machine is of the win32 kind.
    Win32World: "win32-world";
}

const _: () = assert!(WorldMark::ALL.len() <= 64, "a set of marks is one word");

/// A set of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<WorldMark>", into = "Vec<WorldMark>")]
pub struct WorldMarks(u64);

impl WorldMarks {
    /// Puts one in.
    pub fn insert(&mut self, mark: WorldMark) {
        self.0 |= 1 << mark as u64;
    }

    /// Whether it holds one.
    pub const fn contains(self, mark: WorldMark) -> bool {
        self.0 & (1 << mark as u64) != 0
    }

    /// Everything that either holds.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those it holds, in order.
    pub fn iter(self) -> impl Iterator<Item = WorldMark> {
        WorldMark::ALL.iter().copied().filter(move |mark| self.contains(*mark))
    }
}

impl From<Vec<WorldMark>> for WorldMarks {
    fn from(marks: Vec<WorldMark>) -> Self {
        let mut set = Self::default();
        marks.into_iter().for_each(|mark| set.insert(mark));
        set
    }
}

impl From<WorldMarks> for Vec<WorldMark> {
    fn from(set: WorldMarks) -> Self {
        set.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_and_reads_back() {
        let mut set = WorldMarks::default();
        for mark in [WorldMark::AgentFrozen, WorldMark::Win32World] {
            set.insert(mark);
        }
        let json = serde_json::to_string(&set).expect("a set is plain JSON");
        assert_eq!(json, r#"["agent-frozen","win32-world"]"#);
        assert_eq!(serde_json::from_str::<WorldMarks>(&json).expect("and reads back"), set);
        assert!(!set.contains(WorldMark::PowerLost));
    }

    #[test]
    fn every_name_is_its_serialised_form() {
        for mark in WorldMark::ALL {
            let json = serde_json::to_string(mark).expect("a mark is plain JSON");
            assert_eq!(json, format!("{:?}", mark.name()));
        }
    }
}
