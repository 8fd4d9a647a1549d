//! A part of a sweep, run by one of many machines.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Most parts of one sweep.
pub const SHARDS_MAX: u64 = 100_000;
/// Names how many shards there are, for engines that only number them.
pub const SHARDS_VARIABLE: &str = "MOORED_SHARDS";

/// Which part of how many. Together the parts run exactly the whole, and none runs what another runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    index: u64,
    of: u64,
}

/// Why something names no shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardError {
    /// Two engines number it.
    #[error("both {0} and {1} number this job; say which part it is with --shard I/N")]
    Ambiguous(&'static str, &'static str),
    /// A variable is no number.
    #[error("{variable} is {found:?}, which is no number; give --shard I/N")]
    NoNumber {
        /// Which.
        variable: &'static str,
        /// What it says.
        found: String,
    },
    /// No engine numbers it.
    #[error(
        "no batch system or CI service numbers this job (looked for {0}); give --shard I/N as in 2/8"
    )]
    NoEngine(String),
    /// The number is out of bounds.
    #[error(
        "there is no part {index} of {of}; give --shard I/N with I from 1 to N, and N at most {SHARDS_MAX}"
    )]
    OutOfBounds {
        /// The part, from 1.
        index: u64,
        /// Of how many.
        of: u64,
    },
    /// An engine numbers its jobs and does not say how many there are.
    #[error("{engine} numbers this job by {index} and does not say of how many; set {count}")]
    Uncounted {
        /// Which.
        engine: &'static str,
        /// Its variable.
        index: &'static str,
        /// The missing one.
        count: &'static str,
    },
    /// It is not of the form I/N.
    #[error("give a part as I/N, as in 2/8, or `auto`")]
    Unreadable,
}

/// An engine that runs a job in parts and tells each part by its environment which one it is.
struct Engine {
    name: &'static str,
    index: &'static str,
    /// What the first part is numbered.
    first: First,
    count: &'static str,
}

enum First {
    Number(u64),
    /// The variable says.
    Variable(&'static str),
}

const ENGINES: &[Engine] = &[
    Engine {
        name: "Buildkite",
        index: "BUILDKITE_PARALLEL_JOB",
        first: First::Number(0),
        count: "BUILDKITE_PARALLEL_JOB_COUNT",
    },
    Engine {
        name: "CircleCI",
        index: "CIRCLE_NODE_INDEX",
        first: First::Number(0),
        count: "CIRCLE_NODE_TOTAL",
    },
    Engine {
        name: "GitLab",
        index: "CI_NODE_INDEX",
        first: First::Number(1),
        count: "CI_NODE_TOTAL",
    },
    Engine {
        name: "GNU parallel",
        index: "PARALLEL_SEQ",
        first: First::Number(1),
        count: SHARDS_VARIABLE,
    },
    Engine {
        name: "Kubernetes",
        index: "JOB_COMPLETION_INDEX",
        first: First::Number(0),
        count: SHARDS_VARIABLE,
    },
    Engine {
        name: "Slurm",
        index: "SLURM_ARRAY_TASK_ID",
        first: First::Variable("SLURM_ARRAY_TASK_MIN"),
        count: "SLURM_ARRAY_TASK_COUNT",
    },
];

impl Shard {
    /// The whole.
    pub const WHOLE: Self = Self { index: 1, of: 1 };

    /// The part `index`, from 1, of so many.
    pub fn new(index: u64, of: u64) -> Result<Self, ShardError> {
        match (1..=of).contains(&index) && of <= SHARDS_MAX {
            true => Ok(Self { index, of }),
            false => Err(ShardError::OutOfBounds { index, of }),
        }
    }

    /// The part that the engine which started this process says it is.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ShardError> {
        let mut found = ENGINES.iter().filter(|engine| variable(engine.index).is_some());
        let engine = found.next().ok_or_else(|| {
            let names: Vec<&str> = ENGINES.iter().map(|engine| engine.index).collect();
            ShardError::NoEngine(names.join(", "))
        })?;
        if let Some(other) = found.next() {
            return Err(ShardError::Ambiguous(engine.name, other.name));
        }
        let number = |name: &'static str| -> Result<Option<u64>, ShardError> {
            let Some(found) = variable(name) else { return Ok(None) };
            match found.trim().parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(ShardError::NoNumber { variable: name, found }),
            }
        };
        let first = match engine.first {
            First::Number(first) => first,
            First::Variable(name) => number(name)?.unwrap_or(0),
        };
        let index = number(engine.index)?.unwrap_or_default();
        let of = number(engine.count)?.ok_or(ShardError::Uncounted {
            engine: engine.name,
            index: engine.index,
            count: engine.count,
        })?;
        let index = index.checked_sub(first).and_then(|index| index.checked_add(1));
        Self::new(index.unwrap_or_default(), of)
    }

    /// Which, from 1.
    pub const fn index(self) -> u64 {
        self.index
    }

    /// Of how many.
    pub const fn of(self) -> u64 {
        self.of
    }

    /// The number in the whole of the part's k-th job, from 0.
    pub(super) const fn number(self, k: u64) -> u64 {
        k.saturating_mul(self.of).saturating_add(self.index - 1)
    }

    /// How many of `all` jobs are the part's.
    pub(super) const fn jobs(self, all: u64) -> u64 {
        all.saturating_sub(self.index - 1).div_ceil(self.of)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(typed: &str) -> Result<Self, ShardError> {
        let (index, of) = typed.split_once('/').ok_or(ShardError::Unreadable)?;
        let number = |text: &str| text.trim().parse().map_err(|_| ShardError::Unreadable);
        Self::new(number(index)?, number(of)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(set: &[(&str, &str)]) -> Result<String, ShardError> {
        let variable = |name: &str| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Shard::from_environment(variable).map(|shard| shard.to_string())
    }

    #[test]
    fn each_engine_is_understood() {
        let slurm = |id| {
            [
                ("SLURM_ARRAY_TASK_ID", id),
                ("SLURM_ARRAY_TASK_MIN", "4"),
                ("SLURM_ARRAY_TASK_COUNT", "8"),
            ]
        };
        assert_eq!(told(&slurm("4")).as_deref(), Ok("1/8"));
        assert_eq!(told(&slurm("11")).as_deref(), Ok("8/8"));
        assert_eq!(told(&slurm("12")), Err(ShardError::OutOfBounds { index: 9, of: 8 }));
        assert_eq!(told(&slurm("3")), Err(ShardError::OutOfBounds { index: 0, of: 8 }));
        let kubernetes = [("JOB_COMPLETION_INDEX", "0"), (SHARDS_VARIABLE, "3")];
        assert_eq!(told(&kubernetes).as_deref(), Ok("1/3"));
        let gitlab = [("CI_NODE_INDEX", "3"), ("CI_NODE_TOTAL", "3")];
        assert_eq!(told(&gitlab).as_deref(), Ok("3/3"));
        let circle = [("CIRCLE_NODE_INDEX", "2"), ("CIRCLE_NODE_TOTAL", "3")];
        assert_eq!(told(&circle).as_deref(), Ok("3/3"));
        let buildkite = [("BUILDKITE_PARALLEL_JOB", "1"), ("BUILDKITE_PARALLEL_JOB_COUNT", "2")];
        assert_eq!(told(&buildkite).as_deref(), Ok("2/2"));
        let parallel = [("PARALLEL_SEQ", "2"), (SHARDS_VARIABLE, "5")];
        assert_eq!(told(&parallel).as_deref(), Ok("2/5"));
        assert_eq!(told(&[kubernetes, gitlab].concat()), {
            Err(ShardError::Ambiguous("GitLab", "Kubernetes"))
        });
        assert!(matches!(told(&parallel[..1]), Err(ShardError::Uncounted { .. })));
        assert!(matches!(told(&[]), Err(ShardError::NoEngine(_))));
        let odd = [("CI_NODE_INDEX", "x"), ("CI_NODE_TOTAL", "3")];
        assert!(matches!(told(&odd), Err(ShardError::NoNumber { .. })));
    }

    #[test]
    fn parts_are_typed_from_one() {
        assert_eq!("2/8".parse(), Shard::new(2, 8));
        for wrong in ["0/8", "9/8", "1/0", "x", "1/", "1/100001"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_parts_are_exactly_the_whole() {
        for all in [0, 1, 7, 24, 25] {
            for of in 1..=9 {
                let mut numbers: Vec<u64> = (1..=of)
                    .map(|index| Shard::new(index, of).expect("a part"))
                    .flat_map(|shard| (0..shard.jobs(all)).map(move |k| shard.number(k)))
                    .collect();
                numbers.sort_unstable();
                assert!(numbers.into_iter().eq(0..all), "{all} in {of} parts");
            }
        }
    }
}
