//! The smallest run that still fails in the same way.
//!
//! A run is a value, so it is made smaller as a value: whole labels of the tape first, then actions, faults and parts of
//! the script, then chunks of what is left of the tape, then numbers; again, until nothing more can go. Every candidate
//! is played, and kept only if the same oracle is broken: another bug on the way is not followed.

mod value;

use serde_json::Value;

use crate::draws::Source;
use crate::oracles::Violation;
use crate::play::{Playing, Run, play};
use crate::scenario::Scenario;

pub use value::{Plan, shrink_value};

/// Replays that one shrinking may take.
pub const REPLAYS_MAX: usize = 4_000;

/// A run that was made smaller.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest one that was found.
    pub scenario: Scenario,
    /// What it breaks.
    pub violation: Violation,
    /// How many runs it took.
    pub replays: usize,
    /// The limit on replays ended it.
    pub cut_short: bool,
}

/// Why a run cannot be made smaller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShrinkError {
    /// It holds.
    #[error("the run holds: there is nothing to make smaller")]
    Holds,
    /// Its recorded choices do not lead to the same failure.
    #[error(
        "replayed from its own choices the run breaks {got} and not {wanted}; the build has changed since, or the run is not deterministic"
    )]
    Other {
        /// What it broke before.
        wanted: String,
        /// What it breaks now.
        got: String,
    },
}

/// Where the parts of a scenario are.
const PLAN: Plan<'static> = Plan {
    lists: &["/actions", "/faults"],
    tape: "/source/tape",
    trees: &["/script", "/options", "/actions", "/faults"],
};

/// Makes a failing scenario smaller.
pub fn shrink(scenario: &Scenario, playing: &Playing) -> Result<Shrunk, ShrinkError> {
    shrink_with(scenario, &|candidate| play(candidate, playing).ok())
}

/// Makes a failing scenario smaller; `play` plays a candidate, with whatever else belongs to the run.
pub fn shrink_with(
    scenario: &Scenario,
    play: &dyn Fn(&Scenario) -> Option<Run>,
) -> Result<Shrunk, ShrinkError> {
    let first = play(scenario).and_then(|run| Some((run.violation?, run.tape)));
    let Some((violation, tape)) = first else { return Err(ShrinkError::Holds) };
    let mut taped = scenario.clone();
    taped.source = Source::replay(tape.without_benign());
    let broken = |candidate: &Scenario| play(candidate).and_then(|run| run.violation);
    let again = broken(&taped);
    if again.as_ref().map(|v| &v.oracle) != Some(&violation.oracle) {
        let got = again.map_or_else(|| "nothing".to_owned(), |v| v.oracle.into_owned());
        return Err(ShrinkError::Other { wanted: violation.oracle.into_owned(), got });
    }
    let mut best = (taped.clone(), again.unwrap_or(violation));
    let wanted = best.1.oracle.clone();
    let mut fails = |value: &Value| {
        let Ok(candidate) = Scenario::from_value(value.clone()) else { return None };
        let broken = broken(&candidate).filter(|v| v.oracle == wanted);
        let fails = broken.is_some();
        if let Some(violation) = broken {
            best = (candidate, violation);
        }
        Some(fails)
    };
    #[expect(clippy::expect_used, reason = "no map in it has keys that are not text")]
    let value = serde_json::to_value(&taped).expect("a scenario is always JSON");
    let (replays, cut_short) = shrink_value(value, &PLAN, REPLAYS_MAX, &mut fails);
    let (scenario, violation) = best;
    // The first replay and the check of the tape count too.
    Ok(Shrunk { scenario, violation, replays: replays + 2, cut_short })
}
