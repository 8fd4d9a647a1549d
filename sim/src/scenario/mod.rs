//! A run as a value: what machine, what agent, who does what when, what goes wrong, and every choice that is left.
//!
//! A seed makes such a value ([`crate::generate`]); a failure stores it, and is replayed from it whatever becomes of the
//! generator. Everything in it hangs on events and not on times, so that it keeps its meaning while it is made smaller.

mod act;
mod fault;
mod trigger;

use std::collections::BTreeSet;

use moored_fake_agents::Script;
use serde::{Deserialize, Serialize};

use crate::draws::Source;
use crate::kernel::{KernelKind, Pick};
use crate::world::WorldOptions;

pub use act::{Act, Changed, ClientAct, NamedTurn};
pub use fault::Fault;
pub use trigger::{Delay, Edge, EventKind, Trigger};

/// The version of the value this build writes and reads.
pub const SCENARIO_VERSION: u32 = 1;
/// Sessions of one scenario.
pub const SESSIONS_MAX: usize = 4;
/// Clients of one scenario, the person's own one included.
pub const CLIENTS_MAX: usize = 4;
/// Actions and faults of one scenario, each.
pub const PLANNED_MAX: usize = 256;

/// A run as a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// [`SCENARIO_VERSION`].
    pub v: u32,
    /// What it is called.
    pub name: String,
    /// The machine, the host and the kernel.
    #[serde(default)]
    pub options: Options,
    /// The agent, until the world heals; from then on it behaves.
    #[serde(default)]
    pub script: Script,
    /// What persons and clients do.
    #[serde(default)]
    pub actions: Vec<Action>,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<PlannedFault>,
    /// Every choice that is left: drawn from a seed, or replayed from a tape.
    pub source: Source,
}

/// How a scenario's machine and host are set up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// What it stands on.
    pub kernel: KernelKind,
    /// Seeds madsim; on its own scheduler this is the schedule.
    #[serde(skip_serializing_if = "is_zero")]
    pub madsim_seed: u64,
    /// How the tape picks the next task.
    pub pick: Pick,
    /// The machine.
    pub world: WorldOptions,
    /// How long a commit takes at most beyond a millisecond.
    pub commit_us_max: u64,
    /// How many sessions there are.
    pub sessions: usize,
    /// How many clients watch, the person's own one included.
    pub clients: usize,
    /// How late a client takes each frame.
    pub client_us_max: u64,
    /// Frames that wait for one client before it lags.
    pub watch_frames_max: usize,
    /// Fields of the agent's definition that differ from the generic one.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub definition: serde_json::Map<String, serde_json::Value>,
    /// Leave what the agent left running (decision D21).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_background: bool,
    /// What the generator had switched on; told, never read.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub features: BTreeSet<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kernel: KernelKind::Tape,
            madsim_seed: 0,
            pick: Pick::Random,
            world: WorldOptions::default(),
            commit_us_max: 8_000,
            sessions: 1,
            clients: 1,
            client_us_max: 2_000,
            watch_frames_max: 256,
            definition: serde_json::Map::new(),
            keep_background: false,
            features: BTreeSet::new(),
        }
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Something a person or a client does once its trigger fires.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// When.
    pub when: Trigger,
    /// What.
    pub act: Act,
}

/// Something that goes wrong once its trigger fires.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedFault {
    /// When.
    pub when: Trigger,
    /// What.
    pub fault: Fault,
}

/// Why a value is no scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// It is no JSON of this shape.
    #[error("this is no scenario of this build: {0}")]
    Shape(String),
    /// Another build wrote it.
    #[error(
        "the scenario has version {0}, and this build reads {SCENARIO_VERSION}; use the build that wrote it"
    )]
    Version(u32),
    /// Something in it is out of bounds.
    #[error("{field} is {asked}, and must be from {least} to {most}")]
    Bounds {
        /// Which.
        field: &'static str,
        /// What it says.
        asked: usize,
        /// The least.
        least: usize,
        /// The most.
        most: usize,
    },
}

impl Scenario {
    /// A scenario in which nothing is done and nothing goes wrong, on a seed.
    pub fn quiet(name: &str, seed: u64) -> Self {
        Self {
            v: SCENARIO_VERSION,
            name: name.to_owned(),
            options: Options::default(),
            script: Script::default(),
            actions: Vec::new(),
            faults: Vec::new(),
            source: Source::seed(seed),
        }
    }

    /// Reads a scenario and checks its bounds.
    pub fn from_value(value: serde_json::Value) -> Result<Self, ScenarioError> {
        let version = value.get("v").and_then(serde_json::Value::as_u64);
        if let Some(version) = version.filter(|v| *v != u64::from(SCENARIO_VERSION)) {
            return Err(ScenarioError::Version(u32::try_from(version).unwrap_or(u32::MAX)));
        }
        let scenario: Self =
            serde_json::from_value(value).map_err(|e| ScenarioError::Shape(e.to_string()))?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Reads a scenario and checks its bounds.
    pub fn from_text(text: &str) -> Result<Self, ScenarioError> {
        let value = serde_json::from_str(text).map_err(|e| ScenarioError::Shape(e.to_string()))?;
        Self::from_value(value)
    }

    /// As indented JSON.
    pub fn to_text(&self) -> String {
        #[expect(clippy::expect_used, reason = "no map in it has keys that are not text")]
        serde_json::to_string_pretty(self).expect("a scenario is always JSON")
    }

    /// Whether everything in it is within its bounds.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let bounds = [
            ("options.sessions", self.options.sessions, 1, SESSIONS_MAX),
            ("options.clients", self.options.clients, 1, CLIENTS_MAX),
            ("options.watch_frames_max", self.options.watch_frames_max, 1, 65_536),
            ("the number of actions", self.actions.len(), 0, PLANNED_MAX),
            ("the number of faults", self.faults.len(), 0, PLANNED_MAX),
        ];
        let out =
            |(_, asked, least, most): &(_, usize, usize, usize)| asked < least || asked > most;
        match bounds.into_iter().find(out) {
            Some((field, asked, least, most)) => {
                Err(ScenarioError::Bounds { field, asked, least, most })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_reads_back_as_it_was_written() {
        let mut scenario = Scenario::quiet("one", 7);
        scenario.actions.push(Action {
            when: Trigger::after(EventKind::PromptRead, 2)
                .then(Delay::Edge { edge: Edge::StopGrace, us: -5_000 }),
            act: Act::Stop { session: 0, turn: NamedTurn::Running },
        });
        scenario.faults.push(PlannedFault {
            when: Trigger::at_start(),
            fault: Fault::StoreRefuses { commits: 3 },
        });
        assert_eq!(Scenario::from_text(&scenario.to_text()), Ok(scenario));
    }

    #[test]
    fn another_version_is_refused_by_name_and_so_is_what_is_out_of_bounds() {
        let mut scenario = Scenario::quiet("one", 7);
        scenario.v = 2;
        assert_eq!(Scenario::from_text(&scenario.to_text()), Err(ScenarioError::Version(2)));
        scenario.v = 1;
        scenario.options.sessions = SESSIONS_MAX + 1;
        assert!(matches!(
            Scenario::from_text(&scenario.to_text()),
            Err(ScenarioError::Bounds { field: "options.sessions", .. })
        ));
        scenario.options.sessions = 1;
        let wait = Action { when: Trigger::at_start(), act: Act::Close { session: 0 } };
        scenario.actions = vec![wait; PLANNED_MAX + 1];
        assert!(matches!(scenario.check(), Err(ScenarioError::Bounds { .. })));
        assert!(matches!(Scenario::from_text("{\"v\":1}"), Err(ScenarioError::Shape(_))));
    }
}
