//! What goes wrong.

use super::Shape;
use super::dice::{Dice, Stream};
use super::feature::{Feature, Features};
use super::when;
use crate::scenario::{Fault, PlannedFault};

const URN: &[Feature] = &[
    Feature::AgentKilled,
    Feature::AgentFrozen,
    Feature::ClockSteps,
    Feature::HostCrashes,
    Feature::HostRestarts,
    Feature::CommitCrashes,
    Feature::PowerLosses,
    Feature::SecondHosts,
    Feature::StoreRefuses,
    Feature::StoreCloses,
    Feature::StoreStalls,
    Feature::StoreLate,
    Feature::SupervisorKilled,
    Feature::Suspends,
];

/// A day, beyond the age at which an operation may no longer begin.
const DAY_MS: u64 = 25 * 60 * 60 * 1_000;

pub(super) fn faults(seed: u64, on: Features, shape: &Shape) -> Vec<PlannedFault> {
    let mut dice = Dice::new(seed, Stream::Faults);
    let kinds: Vec<Feature> = URN.iter().copied().filter(|kind| on.has(*kind)).collect();
    let most = if on.has(Feature::ManyFaults) { 6 } else { 2 };
    let count = dice.from_to(0, most).min(shape.faults_max as u64);
    if kinds.is_empty() {
        return Vec::new();
    }
    (0..count)
        .map(|_| {
            let kind = dice.pick(&kinds);
            let when = when::at(&mut dice, when::ANY);
            PlannedFault { when, fault: fault(&mut dice, kind) }
        })
        .collect()
}

fn fault(dice: &mut Dice, kind: Feature) -> Fault {
    let restart_ms = dice.magnitude(1, 4_000);
    match kind {
        Feature::AgentFrozen => {
            Fault::AgentFrozen { ms: dice.in_16(10).then(|| dice.magnitude(10, 8_000)) }
        }
        Feature::ClockSteps => {
            let ms = i64::try_from(dice.magnitude(1, 2 * DAY_MS)).unwrap_or(0);
            Fault::ClockStep { ms: if dice.in_16(8) { ms } else { -ms } }
        }
        Feature::HostCrashes => Fault::HostCrash { restart_ms },
        Feature::HostRestarts => Fault::HostRestart { restart_ms },
        Feature::CommitCrashes => Fault::CrashAtCommit { stored: dice.in_16(8), restart_ms },
        Feature::PowerLosses => Fault::PowerLoss { restart_ms },
        Feature::SecondHosts => Fault::SecondHost { lock_lost: dice.in_16(8) },
        Feature::StoreRefuses => {
            Fault::StoreRefuses { commits: u32::try_from(dice.magnitude(1, 40)).unwrap_or(1) }
        }
        Feature::StoreCloses => Fault::StoreCloses,
        Feature::StoreStalls => Fault::StoreStalls { ms: dice.magnitude(10, 6_000) },
        Feature::StoreLate => Fault::StoreAnswersLate { ms: dice.magnitude(10, 6_000) },
        Feature::SupervisorKilled => Fault::SupervisorKilled,
        Feature::Suspends => Fault::Suspend {
            ms: u32::try_from(dice.magnitude(100, 2 * DAY_MS)).unwrap_or(u32::MAX),
        },
        _ => Fault::AgentKilled,
    }
}
