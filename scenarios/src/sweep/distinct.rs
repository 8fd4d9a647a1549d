//! Counting how many different values there were, over any number of them, in bounded memory and in parts.
//!
//! Up to a limit the values are kept and the count is exact. Beyond it only the smallest are kept, and how densely they
//! lie says how many there are. The smallest of two parts are the smallest of the whole, so parts can be joined.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The different values of a stream of hashes, as far as they fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distinct {
    kept_max: usize,
    /// Some values did not fit.
    overflowed: bool,
    smallest: BTreeSet<u64>,
}

impl Distinct {
    /// None yet; at most `kept_max` are kept.
    pub fn new(kept_max: usize) -> Self {
        Self { kept_max, overflowed: false, smallest: BTreeSet::new() }
    }

    /// Adds a value. True if it had not been there; beyond the limit only a smaller one than all kept counts as new.
    pub fn insert(&mut self, value: u64) -> bool {
        if self.smallest.len() < self.kept_max {
            return self.smallest.insert(value);
        }
        if self.smallest.last().is_none_or(|last| value > *last) {
            self.overflowed = true;
            return false;
        }
        let is_new = self.smallest.insert(value);
        if is_new {
            self.smallest.pop_last();
            self.overflowed = true;
        }
        is_new
    }

    /// Adds what another part saw.
    pub fn join(&mut self, other: &Self) {
        other.smallest.iter().for_each(|value| {
            self.insert(*value);
        });
        self.overflowed |= other.overflowed;
    }

    /// Whether [`Distinct::count`] is exact.
    pub fn is_exact(&self) -> bool {
        !self.overflowed
    }

    /// How many different values there were; beyond the limit, about so many.
    pub fn count(&self) -> u64 {
        let kept = self.smallest.len() as u64;
        match self.smallest.last() {
            Some(last) if self.overflowed && *last > 0 => {
                let estimate = u128::from(kept - 1) << 64;
                u64::try_from(estimate / u128::from(*last)).unwrap_or(u64::MAX)
            }
            _ => kept,
        }
    }

    /// The values that are kept, in order: all of them while the count is exact.
    pub fn kept(&self) -> impl Iterator<Item = u64> + '_ {
        self.smallest.iter().copied()
    }
}

/// Spreads a hash evenly, as an estimate needs it.
pub(super) fn mixed(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl Iterator<Item = u64>, kept_max: usize) -> Distinct {
        let mut distinct = Distinct::new(kept_max);
        for value in values {
            distinct.insert(mixed(value));
        }
        distinct
    }

    #[test]
    fn it_counts_exactly_up_to_its_limit_and_about_beyond_it() {
        let few = of((0..100).chain(0..100), 100);
        assert_eq!((few.count(), few.is_exact()), (100, true));
        let many = of(0..100_000, 1_024);
        assert!(!many.is_exact() && many.kept().count() == 1_024);
        assert!((90_000..110_000).contains(&many.count()), "{}", many.count());
    }

    #[test]
    fn parts_join_to_the_whole_in_any_order() {
        for kept_max in [64, 100_000] {
            let whole = of(0..10_000, kept_max);
            let parts: Vec<_> =
                (0..3).map(|part| of((0..10_000).filter(|n| n % 3 == part), kept_max)).collect();
            for order in [[0, 1, 2], [2, 0, 1]] {
                let mut joined = Distinct::new(kept_max);
                order.iter().for_each(|part| joined.join(&parts[*part]));
                assert_eq!(joined, whole);
            }
        }
    }

    #[test]
    fn what_is_new_is_said() {
        let mut distinct = Distinct::new(2);
        assert!(distinct.insert(5) && distinct.insert(9) && !distinct.insert(5));
        assert!(!distinct.insert(10), "it does not fit");
        assert!(distinct.insert(1) && distinct.kept().eq([1, 5]));
    }
}
