//! A seed makes a scenario.
//!
//! Swarm: a run switches most of what could happen off, and draws from what is left; so each run is about few things at
//! a time, and no rare thing hides behind all the others. Whatever is drawn becomes part of the value, so that a stored
//! scenario outlives every change made here.

mod agent;
mod dice;
mod faults;
mod feature;
mod machine;
mod people;
mod steps;
mod turns;
mod when;

use crate::draws::Source;
use crate::scenario::{SCENARIO_VERSION, Scenario};

pub use feature::{Feature, Features};

/// What a generated scenario may be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// On in every run.
    pub always: Features,
    /// Off in every run, unless they are always on.
    pub never: Features,
    /// The most messages.
    pub sends_max: u32,
    /// The most Stops.
    pub stops_max: u32,
    /// The most faults.
    pub faults_max: u32,
    /// The most of them that end a host.
    pub crashes_max: u32,
    /// The most sessions.
    pub sessions_max: usize,
}

impl Shape {
    /// Everything may happen.
    pub const ANY: Self = Self {
        always: Features::NONE,
        never: Features::NONE,
        sends_max: 8,
        stops_max: 3,
        faults_max: 6,
        crashes_max: 6,
        sessions_max: 3,
    };

    /// The same with these always on.
    #[must_use]
    pub const fn always(mut self, features: &[Feature]) -> Self {
        self.always = self.always.with(Features::of(features));
        self
    }

    /// The same with these never on.
    #[must_use]
    pub const fn never(mut self, features: &[Feature]) -> Self {
        self.never = self.never.with(Features::of(features));
        self
    }

    /// The same with nothing on but what is always on and these.
    #[must_use]
    pub const fn only(mut self, features: &[Feature]) -> Self {
        self.never = Features::ALL.without(Features::of(features));
        self
    }
}

impl Default for Shape {
    fn default() -> Self {
        Self::ANY
    }
}

/// The small alphabet of the exhaustive exploration ([`crate::explore`]): two messages, two Stops, a crash of the host,
/// an agent without `session/close` that answers `cancelled` or `end_turn`, leaves in any order of its streams' ends or
/// resists, and says something late, and a store that refuses.
pub const EXPLORE: Shape = Shape {
    sends_max: 2,
    stops_max: 2,
    faults_max: 2,
    crashes_max: 1,
    sessions_max: 1,
    ..Shape::ANY
        .only(&[
            Feature::FallsInTurns,
            Feature::FallsIdle,
            Feature::LateText,
            Feature::LateTools,
            Feature::Tools,
            Feature::EndsAfterCancel,
            Feature::IgnoresEof,
            Feature::IgnoresTerm,
            Feature::DiesBySignal,
            Feature::Forks,
            Feature::ForksHoldStdout,
            Feature::Stderr,
            Feature::SlowPipes,
            Feature::SlowProcesses,
            Feature::HostCrashes,
            Feature::StoreRefuses,
            Feature::AgentKilled,
            Feature::FallsInInitialize,
            Feature::FallsInSession,
            Feature::FallsWhenReady,
            Feature::LateEnds,
            Feature::LongStalls,
            Feature::LongTurns,
            Feature::NeverAnswers,
            Feature::Resists,
            Feature::SignalsRefused,
            Feature::SilentTurns,
            Feature::SlowAtEof,
            Feature::SlowCancels,
            Feature::SlowDisks,
            Feature::StopsAtHandover,
            Feature::Together,
        ])
        .always(&[Feature::MoreMessages, Feature::Stops, Feature::MoreStops, Feature::NoClose])
};

/// The scenario of a seed.
pub fn generate(seed: u64) -> Scenario {
    generate_with(seed, &Shape::ANY)
}

/// The scenario of a seed within a shape.
pub fn generate_with(seed: u64, shape: &Shape) -> Scenario {
    let on = Features::drawn(seed).without(shape.never).with(shape.always);
    let options = machine::options(seed, on, shape);
    let mut plan = people::plan(seed, on, &options, shape);
    let faults = faults::faults(seed, on, shape, &mut plan.actions);
    Scenario {
        v: SCENARIO_VERSION,
        name: format!("seed-{seed}"),
        script: agent::script(seed, on, plan.messages),
        options,
        faults,
        actions: plan.actions,
        source: Source::seed(seed),
    }
}
