//! Choices: everything the world or the scheduler could do otherwise, drawn, recorded and given again.
//!
//! A choice is `choose(label, n)`: a number below `n`, where 0 is the benign one. It is recorded under its label and
//! its place among the choices of that label, so that leaving one out does not shift the others; a replay that does
//! not know a choice answers 0. Every concern has a random stream of its own, so that a new draw in one does not
//! reshuffle the rest.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// What a choice is about: the part of its label before the first dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Concern {
    /// What an agent's script leaves open: `agent.`.
    Agent,
    /// What a reading client does: `client.`.
    Client,
    /// Late timers, steps of the wall clock, suspend: `clock.`.
    Clock,
    /// Random bytes the library asks for: `entropy.`.
    Entropy,
    /// Processes, pipes, signals, files: `process.`.
    Process,
    /// Who runs next: `schedule.`.
    Schedule,
    /// The store's faults and delays: `store.`.
    Store,
    /// What the user does and when: `workload.`.
    Workload,
}

impl Concern {
    /// Every concern, in the order of their streams.
    pub const ALL: [Self; 8] = [
        Self::Agent,
        Self::Client,
        Self::Clock,
        Self::Entropy,
        Self::Process,
        Self::Schedule,
        Self::Store,
        Self::Workload,
    ];

    /// The concern a label belongs to.
    ///
    /// # Panics
    ///
    /// On a label of no concern: a fault of the code that draws.
    pub fn of(label: &str) -> Self {
        let prefix = label.split('.').next().unwrap_or_default();
        match prefix {
            "agent" => Self::Agent,
            "client" => Self::Client,
            "clock" => Self::Clock,
            "entropy" => Self::Entropy,
            "process" => Self::Process,
            "schedule" => Self::Schedule,
            "store" => Self::Store,
            "workload" => Self::Workload,
            _ => {
                panic!("the label {label} names no concern; begin it with one, such as `process.`")
            }
        }
    }
}

/// One recorded choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// What was chosen.
    pub label: Cow<'static, str>,
    /// Its place among the choices of that label, from 0.
    pub k: u32,
    /// How many values there were.
    pub n: u64,
    /// The one taken; 0 is benign.
    pub value: u64,
}

/// The choices of one run, in the order they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tape(pub Vec<Choice>);

impl Tape {
    /// The same tape without its benign choices: it replays the same run, for a missing choice is benign.
    #[must_use]
    pub fn without_benign(&self) -> Self {
        Self(self.0.iter().filter(|choice| choice.value != 0).cloned().collect())
    }

    /// How many choices are not benign.
    pub fn strayed(&self) -> usize {
        self.0.iter().filter(|choice| choice.value != 0).count()
    }
}

/// Where choices come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "from")]
pub enum Source {
    /// Every choice is 0.
    Benign,
    /// From a tape; what it does not hold is 0.
    Replay {
        /// The tape.
        tape: Tape,
        /// Concerns that are drawn from `seed` all the same.
        #[serde(default)]
        live: Vec<Concern>,
        /// Seeds the live concerns.
        #[serde(default)]
        seed: u64,
    },
    /// From the random streams of a seed.
    Seed {
        /// The seed.
        seed: u64,
    },
}

impl Source {
    /// All streams of a seed.
    pub const fn seed(seed: u64) -> Self {
        Self::Seed { seed }
    }

    /// A tape, and nothing else.
    pub const fn replay(tape: Tape) -> Self {
        Self::Replay { tape, live: Vec::new(), seed: 0 }
    }
}

struct Label {
    name: &'static str,
    concern: Concern,
    drawn: u32,
    /// Indexed by the place of the choice; absent means 0.
    given: BTreeMap<u32, u64>,
}

/// The drawer of one run.
pub struct Draws {
    streams: Vec<ChaCha8Rng>,
    /// Concerns that are drawn at random, by their place in [`Concern::ALL`].
    random: [bool; Concern::ALL.len()],
    given: BTreeMap<String, BTreeMap<u32, u64>>,
    /// In the order of their first choice: a run has some dozens, and a few of them make nearly all choices.
    labels: Vec<Label>,
    tape: Vec<Choice>,
}

impl Draws {
    /// A drawer at its beginning.
    pub fn new(source: Source) -> Self {
        let mut given: BTreeMap<String, BTreeMap<u32, u64>> = BTreeMap::new();
        let (seed, random) = match source {
            Source::Benign => (0, [false; Concern::ALL.len()]),
            Source::Seed { seed } => (seed, [true; Concern::ALL.len()]),
            Source::Replay { tape, live, seed } => {
                for choice in tape.0 {
                    let label = given.entry(choice.label.into_owned()).or_default();
                    label.insert(choice.k, choice.value);
                }
                (seed, Concern::ALL.map(|concern| live.contains(&concern)))
            }
        };
        let stream = |number| {
            let mut stream = ChaCha8Rng::seed_from_u64(seed);
            stream.set_stream(number);
            stream
        };
        let streams = (0..Concern::ALL.len() as u64).map(stream).collect();
        Self { streams, random, given, labels: Vec::new(), tape: Vec::new() }
    }

    /// A number below `n`; 0 is the benign one. Without a choice, nothing is drawn.
    pub fn choose(&mut self, label: &'static str, n: u64) -> u64 {
        if n <= 1 {
            return 0;
        }
        let place = self.place_of(label);
        let entry = &mut self.labels[place];
        let k = entry.drawn;
        entry.drawn += 1;
        let stream = entry.concern as usize;
        let value = if self.random[stream] {
            // A widening multiplication: exactly one word a choice, so that streams keep step.
            let word = u128::from(self.streams[stream].next_u64());
            u64::try_from((word * u128::from(n)) >> 64).unwrap_or(0)
        } else {
            entry.given.get(&k).copied().unwrap_or(0).min(n - 1)
        };
        self.tape.push(Choice { label: Cow::Borrowed(label), k, n, value });
        value
    }

    fn place_of(&mut self, label: &'static str) -> usize {
        // The same literal is nearly always the same text in memory, which is found without reading it.
        let known = self.labels.iter().position(|known| std::ptr::eq(known.name, label));
        if let Some(place) = known.or_else(|| self.labels.iter().position(|l| l.name == label)) {
            return place;
        }
        self.labels.push(Label {
            name: label,
            concern: Concern::of(label),
            drawn: 0,
            given: self.given.remove(label).unwrap_or_default(),
        });
        self.labels.len() - 1
    }

    /// What was chosen.
    pub fn into_tape(self) -> Tape {
        Tape(self.tape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(draws: &mut Draws, label: &'static str) -> Vec<u64> {
        (0..8).map(|_| draws.choose(label, 1_000)).collect()
    }

    #[test]
    fn a_draw_of_one_concern_does_not_reshuffle_another() {
        let mut plain = Draws::new(Source::seed(7));
        let mut busier = Draws::new(Source::seed(7));
        busier.choose("store.delay_us", 100);
        assert_eq!(first(&mut plain, "process.cut"), first(&mut busier, "process.cut"));
        assert_ne!(first(&mut plain, "agent.gap"), first(&mut plain, "client.gap"));
    }

    #[test]
    fn a_replay_gives_the_same_values_even_when_choices_were_left_out() {
        let mut draws = Draws::new(Source::seed(3));
        let drawn = (first(&mut draws, "agent.gap"), first(&mut draws, "store.gap"));
        let mut tape = draws.into_tape();
        tape.0.retain(|choice| !(choice.label == "agent.gap" && choice.k == 2));
        let json = serde_json::to_string(&tape).expect("a tape is plain JSON");
        let tape: Tape = serde_json::from_str(&json).expect("and is read again");
        let mut again = Draws::new(Source::replay(tape));
        let mut expected = drawn.0.clone();
        expected[2] = 0;
        assert_eq!(first(&mut again, "agent.gap"), expected, "what is missing is benign");
        assert_eq!(first(&mut again, "store.gap"), drawn.1, "and shifts nobody");
    }

    #[test]
    fn a_replayed_value_stays_below_n_when_the_program_has_fewer_ways_now() {
        let choice = Choice { label: "agent.gap".into(), k: 0, n: 100, value: 99 };
        let mut draws = Draws::new(Source::replay(Tape(vec![choice])));
        assert_eq!(draws.choose("agent.gap", 5), 4);
    }

    #[test]
    fn live_concerns_are_drawn_while_the_rest_is_replayed() {
        let live = vec![Concern::Schedule];
        let mut draws = Draws::new(Source::Replay { tape: Tape::default(), live, seed: 9 });
        assert_ne!(first(&mut draws, "schedule.next"), [0; 8]);
        assert_eq!(first(&mut draws, "process.cut"), [0; 8]);
    }

    #[test]
    #[should_panic(expected = "names no concern")]
    fn a_label_of_no_concern_is_a_fault_of_ours() {
        Draws::new(Source::Benign).choose("weather.rain", 2);
    }
}
