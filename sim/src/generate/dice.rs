//! Draws of the generator: one stream for each concern, so that a new draw in one does not reshuffle the others.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::feature::{Feature, Features};

/// What a stream of the generator is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stream {
    /// Which features are on.
    Features,
    /// What the machine and the host are like.
    Machine,
    /// What the agent is like in everything but its turns.
    Agent,
    /// What the agent does in its turns.
    Turns,
    /// What persons do.
    People,
    /// What the other clients do.
    Clients,
    /// What goes wrong.
    Faults,
}

/// The generator's streams begin here; the run's own are below.
const FIRST_STREAM: u64 = 1 << 32;

/// One stream.
pub(super) struct Dice(ChaCha8Rng);

/// One line of an urn: it is in only while its feature is on.
pub(super) type Lot<T> = (Option<Feature>, u32, T);

impl Dice {
    pub(super) fn new(seed: u64, stream: Stream) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(FIRST_STREAM + stream as u64);
        Self(rng)
    }

    /// A number below `n`, which is at least 1.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        let word = u128::from(self.0.next_u64());
        u64::try_from((word * u128::from(n)) >> 64).unwrap_or(0)
    }

    /// A number from `least` to `most`.
    pub(super) fn from_to(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// A number from `least` to `most`, each order of magnitude as likely as the next.
    pub(super) fn magnitude(&mut self, least: u64, most: u64) -> u64 {
        let doublings = (most / least.max(1)).max(1).ilog2();
        let upper = (least.max(1) << self.below(u64::from(doublings) + 1)) * 2;
        self.from_to(least, upper.min(most))
    }

    /// True `n` times in 16.
    pub(super) fn in_16(&mut self, n: u64) -> bool {
        self.below(16) < n
    }

    /// One of them.
    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap_or(0)]
    }

    /// One of what is on, by weight. The first line has no feature and is always in.
    pub(super) fn draw<T: Copy>(&mut self, on: Features, urn: &[Lot<T>]) -> T {
        let is_in = |lot: &&Lot<T>| lot.0.is_none_or(|feature| on.has(feature));
        let total: u32 = urn.iter().filter(is_in).map(|lot| lot.1).sum();
        let mut left = self.below(u64::from(total.max(1)));
        for (_, weight, value) in urn.iter().filter(is_in) {
            if left < u64::from(*weight) {
                return *value;
            }
            left -= u64::from(*weight);
        }
        urn[0].2
    }
}
