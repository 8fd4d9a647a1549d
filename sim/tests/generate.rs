//! The generator: a seed is a value, the same in every build; what is off does not happen; a shape narrows.

use std::fmt::Write;
use std::path::Path;

use moored_sim::draws::Source;
use moored_sim::generate::{EXPLORE, Feature, Features, Shape, generate, generate_with};
use moored_sim::kernel::KernelKind;
use moored_sim::play::{Playing, play};
use moored_sim::scenario::{Act, Fault, Scenario};
use sha2::{Digest, Sha256};

const SEEDS: [u64; 6] = [0, 1, 7, 42, 20_000, u64::MAX];

/// A value's hash, on the kernel that every build has.
fn hash(mut scenario: Scenario) -> String {
    scenario.options.kernel = KernelKind::Tape;
    let digest = Sha256::digest(scenario.to_text().as_bytes());
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the recorded hashes are a file, refreshed when a variable asks for it"
)]
fn a_seed_is_the_same_value_in_every_build() {
    let mut table = String::new();
    for (name, shape) in [("any", Shape::ANY), ("explore", EXPLORE)] {
        for seed in SEEDS {
            let _ = writeln!(table, "{name}\t{seed}\t{}", hash(generate_with(seed, &shape)));
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/generated-hashes.tsv");
    if std::env::var_os("MOORED_UPDATE_HASHES").is_some() {
        std::fs::write(&path, &table).expect("the table is written");
    }
    let held = std::fs::read_to_string(&path).expect("the table is there");
    assert_eq!(table, held, "if that is meant, set MOORED_UPDATE_HASHES and run again");
}

#[test]
fn every_seed_is_within_the_bounds_of_a_scenario_and_reads_back() {
    for seed in 0..500 {
        let scenario = generate(seed);
        assert_eq!(scenario.source, Source::seed(seed));
        assert_eq!(Scenario::from_text(&scenario.to_text()), Ok(scenario), "seed {seed}");
    }
}

#[test]
fn every_feature_is_on_in_about_as_many_runs_as_it_should_be() {
    const RUNS: u64 = 4_000;
    let mut on = vec![0; Feature::ALL.len()];
    for seed in 0..RUNS {
        let features = generate(seed).options.features;
        for (count, feature) in on.iter_mut().zip(Feature::ALL) {
            *count += u64::from(features.contains(feature.name()));
        }
    }
    for (count, feature) in on.into_iter().zip(Feature::ALL) {
        let expected = RUNS * feature.odds() / 16;
        assert!(count.abs_diff(expected) < RUNS / 20, "{}: {count} of {expected}", feature.name());
    }
}

#[test]
fn what_is_off_does_not_happen_and_what_is_on_always_may() {
    let off = [Feature::Stops, Feature::Closes, Feature::StoreRefuses, Feature::MoreSessions];
    let shape = Shape::ANY.never(&off).always(&[Feature::StoreStalls]);
    let mut stalled = 0;
    for seed in 0..500 {
        let scenario = generate_with(seed, &shape);
        let ends = |act: &Act| matches!(act, Act::Stop { .. } | Act::Close { .. });
        assert!(!scenario.actions.iter().any(|action| ends(&action.act)), "seed {seed}");
        assert_eq!(scenario.options.sessions, 1);
        let refuses = |fault: &Fault| matches!(fault, Fault::StoreRefuses { .. });
        assert!(!scenario.faults.iter().any(|planned| refuses(&planned.fault)), "seed {seed}");
        let stalls = |fault: &Fault| matches!(fault, Fault::StoreStalls { .. });
        stalled += scenario.faults.iter().filter(|planned| stalls(&planned.fault)).count();
    }
    assert!(stalled > 50, "{stalled}");
}

#[test]
fn a_feature_that_is_switched_off_leaves_what_other_concerns_drew() {
    for seed in 0..100 {
        let plain = generate(seed);
        let fewer = generate_with(seed, &Shape::ANY.never(&[Feature::Forks, Feature::Tools]));
        assert_eq!(plain.faults, fewer.faults, "seed {seed}");
        assert_eq!(plain.actions, fewer.actions, "seed {seed}");
    }
}

#[test]
fn the_small_alphabet_is_small() {
    for seed in 0..500 {
        let Scenario { options, actions, faults, .. } = generate_with(seed, &EXPLORE);
        let count = |is: fn(&Act) -> bool| actions.iter().filter(|a| is(&a.act)).count();
        assert_eq!(options.sessions, 1);
        assert!(count(|act| matches!(act, Act::Send { .. })) <= 2, "seed {seed}");
        assert!(count(|act| matches!(act, Act::Stop { .. })) <= 2, "seed {seed}");
        let crashes = |fault: &Fault| matches!(fault, Fault::HostCrash { .. });
        // The exploration has them as an exit at any time, and as a store that is slow as long as it likes.
        let refuses = |fault: &Fault| {
            matches!(
                fault,
                Fault::AgentKilled | Fault::StoreRefuses { .. } | Fault::StoreStalls { .. }
            )
        };
        assert!(faults.iter().all(|f| crashes(&f.fault) || refuses(&f.fault)), "seed {seed}");
        assert!(faults.iter().filter(|f| crashes(&f.fault)).count() <= 1, "seed {seed}");
    }
}

#[test]
fn the_first_seeds_hold() {
    for seed in 0..60 {
        let run = play(&generate(seed), &Playing::default()).expect("it can be played");
        assert_eq!(run.violation, None, "seed {seed}");
    }
}

#[test]
fn a_set_of_features_says_what_it_holds() {
    let some = Features::of(&[Feature::Stops, Feature::Fifo]);
    assert!(some.has(Feature::Stops) && some.has(Feature::Fifo) && !some.has(Feature::Steers));
    assert!(some.names().iter().eq(["fifo", "stops"]));
    assert_eq!(Features::ALL.iter().count(), Feature::ALL.len());
    assert_eq!(some.without(Features::of(&[Feature::Fifo])), Features::of(&[Feature::Stops]));
}
