//! What goes wrong.

use super::Shape;
use super::dice::{Dice, Stream};
use super::feature::{Feature, Features};
use super::when;
use crate::scenario::{Act, Action, Fault, PlannedFault};

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
    Feature::LongStalls,
];

/// Those that end a host.
const CRASHES: &[Feature] =
    &[Feature::HostCrashes, Feature::HostRestarts, Feature::CommitCrashes, Feature::PowerLosses];

/// A day, beyond the age at which an operation may no longer begin.
const DAY_MS: u64 = 25 * 60 * 60 * 1_000;

const LADDER_MS: u64 = moored::session::ladder::POSIX_STOP_MS_MAX;

pub(super) fn faults(
    seed: u64,
    on: Features,
    shape: &Shape,
    actions: &mut [Action],
) -> Vec<PlannedFault> {
    let mut dice = Dice::new(seed, Stream::Faults);
    let mut kinds: Vec<Feature> = URN.iter().copied().filter(|kind| on.has(*kind)).collect();
    let most = if on.has(Feature::ManyFaults) { 6 } else { 2 };
    let count_max = shape.faults_max as usize;
    let count = dice.between(0, most).min(shape.faults_max as u64);
    let mut faults: Vec<PlannedFault> = Vec::new();
    let mut crashes = 0;
    for _ in 0..count {
        if kinds.is_empty() {
            break;
        }
        let kind = dice.pick(&kinds);
        let moments = match CRASHES.contains(&kind) && dice.in_16(8) {
            true => when::WITH_MESSAGES,
            false => when::ANY,
        };
        let mut when = when::at(&mut dice, moments);
        if on.has(Feature::Together) && dice.in_16(5) {
            let others = actions.iter().map(|a| a.when).chain(faults.iter().map(|f| f.when));
            let others: Vec<_> = others.collect();
            let other = if others.is_empty() { when } else { dice.pick(&others) };
            when = when::together(&mut dice, other);
        } else if let (Some((_, further)), true) =
            (actions.split_first_mut(), on.has(Feature::Together) && dice.in_16(6))
            && !further.is_empty()
        {
            // Or somebody does something right behind it.
            let index = usize::try_from(dice.below(further.len() as u64)).unwrap_or(0);
            if kind == Feature::StoreRefuses && dice.in_16(12) {
                let answered = when::answered(&mut dice, &mut when);
                further[index].when = answered;
                if on.has(Feature::StoreLate) && faults.len() + 1 < count_max {
                    // What was submitted before the refusal was read is answered late.
                    let fault = Fault::StoreAnswersLate { ms: dice.between(250, 1_000) };
                    faults.push(PlannedFault { when: answered, fault });
                }
            } else {
                further[index].when = when::together(&mut dice, when);
            }
        } else if kind == Feature::StoreRefuses
            && dice.in_16(6)
            && let Some(stop) = actions.iter_mut().find(|a| matches!(a.act, Act::Stop { .. }))
        {
            // Somebody presses while it refuses.
            stop.when = when::behind(&mut dice, when, 400_000);
        }
        faults.push(PlannedFault { when, fault: fault(&mut dice, kind) });
        crashes += u32::from(CRASHES.contains(&kind));
        if crashes >= shape.crashes_max {
            kinds.retain(|kind| !CRASHES.contains(kind));
        }
    }
    faults
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
        Feature::LongStalls => Fault::StoreStalls { ms: dice.between(LADDER_MS, 3 * LADDER_MS) },
        Feature::StoreStalls => Fault::StoreStalls { ms: dice.magnitude(10, 6_000) },
        Feature::StoreLate => Fault::StoreAnswersLate { ms: dice.magnitude(10, 6_000) },
        Feature::SupervisorKilled => Fault::SupervisorKilled,
        Feature::Suspends => Fault::Suspend {
            ms: u32::try_from(dice.magnitude(100, 2 * DAY_MS)).unwrap_or(u32::MAX),
        },
        _ => Fault::AgentKilled,
    }
}
