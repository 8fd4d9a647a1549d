//! Making a kept failure smaller, whichever kind of scenario it is of.

use moored_sim::failure::{DocumentRun, FailedRun, FailureFile};
use moored_sim::oracles::Violation;
use moored_sim::play::Playing;
use moored_sim::shrink::{Plan, REPLAYS_MAX, ShrinkError, shrink, shrink_value};
use serde_json::Value;

use crate::playable::Playable;

/// A failure that was made smaller.
#[derive(Clone, Debug)]
pub struct SmallerFailure {
    /// What is left.
    pub failure: FailureFile,
    /// How many runs it took.
    pub replays: usize,
    /// The limit on replays ended it.
    pub cut_short: bool,
}

/// Where the parts of a document's run are.
const PLAN: Plan<'static> = Plan {
    lists: &["/document/actions"],
    tape: "/tape",
    trees: &["/document/agent", "/document/definition", "/document/actions"],
};

/// The least of a failure that still breaks the same oracle.
pub fn shrink_failure(failure: &FailureFile) -> Result<SmallerFailure, ShrinkError> {
    match &failure.run {
        FailedRun::Scenario(scenario) => {
            let shrunk = shrink(scenario, &Playing::default())?;
            let run = FailedRun::Scenario(Box::new(shrunk.scenario));
            let failure = FailureFile { violation: shrunk.violation, run, ..failure.clone() };
            Ok(SmallerFailure { failure, replays: shrunk.replays, cut_short: shrunk.cut_short })
        }
        FailedRun::Document(run) => shrink_document(failure, run),
    }
}

fn shrink_document(
    failure: &FailureFile,
    run: &DocumentRun,
) -> Result<SmallerFailure, ShrinkError> {
    let broken = |run: DocumentRun| -> Option<(DocumentRun, Violation)> {
        let candidate =
            FailureFile { run: FailedRun::Document(Box::new(run.clone())), ..failure.clone() };
        let played = Playable::of_failure(&candidate).ok()?.play(&Playing::default()).ok()?;
        Some((run, played.violation?))
    };
    let wanted = &failure.violation.oracle;
    let (_, first) = broken(run.clone()).ok_or(ShrinkError::Holds)?;
    if first.oracle != *wanted {
        let (wanted, got) = (wanted.to_string(), first.oracle.into_owned());
        return Err(ShrinkError::Other { wanted, got });
    }
    let mut best = (run.clone(), first);
    let mut fails = |value: &Value| {
        let candidate: DocumentRun = serde_json::from_value(value.clone()).ok()?;
        crate::Document::parse(&candidate.document.to_string(), "candidate").ok()?;
        let broken = broken(candidate).filter(|(_, violation)| violation.oracle == *wanted);
        let fails = broken.is_some();
        if let Some(smaller) = broken {
            best = smaller;
        }
        Some(fails)
    };
    #[expect(clippy::expect_used, reason = "no map in it has keys that are not text")]
    let value = serde_json::to_value(run).expect("a run is always JSON");
    let (replays, cut_short) = shrink_value(value, &PLAN, REPLAYS_MAX, &mut fails);
    let (run, violation) = best;
    let failure =
        FailureFile { violation, run: FailedRun::Document(Box::new(run)), ..failure.clone() };
    Ok(SmallerFailure { failure, replays: replays + 1, cut_short })
}
