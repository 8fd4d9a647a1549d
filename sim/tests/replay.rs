//! The tape of a run is the run: played again from the choices that strayed, as a kept file holds them, it gives the
//! same trace to the bit, on whichever kernel the generator chose.
//!
//! `MOORED_SEEDS=1000 cargo test -p moored-sim --test replay -- --nocapture` replays as many seeds as it says.

use moored_sim::draws::Source;
use moored_sim::generate::generate;
use moored_sim::play::{Playing, Run, play};
use moored_sim::scenario::Scenario;
use moored_sim::trace::Keep;

const SEEDS: u64 = 200;

#[expect(clippy::disallowed_methods, reason = "whoever runs the test says how many seeds")]
fn seeds() -> u64 {
    let number = std::env::var("MOORED_SEEDS").ok();
    number.map_or(SEEDS, |number| number.parse().expect("MOORED_SEEDS is a number"))
}

fn played(scenario: &Scenario, keep: Keep) -> Run {
    play(scenario, &Playing { keep, ..Playing::default() }).expect("it can be played")
}

/// The same scenario on the strayed choices of its run alone, read back from its text.
fn from_tape(scenario: &Scenario, run: &Run) -> Scenario {
    let source = Source::replay(run.tape.without_benign());
    let text = Scenario { source, ..scenario.clone() }.to_text();
    Scenario::from_text(&text).expect("a scenario reads back")
}

#[test]
fn a_tape_without_its_benign_choices_replays_the_run() {
    let (seeds, mut same, mut strayed) = (seeds(), 0, 0);
    for seed in 0..seeds {
        let scenario = generate(seed);
        let run = played(&scenario, Keep::Hashes);
        let replay = from_tape(&scenario, &run);
        let again = played(&replay, Keep::Hashes);
        if again.trace.hash() != run.trace.hash() {
            let lines = [&scenario, &replay].map(|one| played(one, Keep::Lines).trace);
            panic!("seed {seed} is replayed otherwise: {:?}", lines[0].divergence(&lines[1]));
        }
        assert!(run.tape == again.tape, "seed {seed}: the same events on other choices");
        assert_eq!(run.violation, again.violation, "seed {seed}");
        assert!(run.trace.events() > 20, "seed {seed}: a trace tells what happened");
        same += 1;
        strayed += run.tape.strayed();
    }
    println!("{same} of {seeds} replays are identical, on {strayed} choices that strayed");
    assert!(strayed > 0, "nothing strayed: nothing was replayed");
}

#[test]
fn a_tape_that_lost_half_of_its_choices_is_another_run() {
    let other = (0..20).any(|seed| {
        let scenario = generate(seed);
        let run = played(&scenario, Keep::Hashes);
        let mut replay = from_tape(&scenario, &run);
        if let Source::Replay { tape, .. } = &mut replay.source {
            tape.0.truncate(tape.0.len() / 2);
        }
        played(&replay, Keep::Hashes).trace.hash() != run.trace.hash()
    });
    assert!(other, "half of the choices make the same runs: the tape is not read");
}
