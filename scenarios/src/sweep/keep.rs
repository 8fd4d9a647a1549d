//! Failures of a sweep as files, each with its timeline.

use moored_sim::failure::{FailureFile, Found, file_word};
use moored_sim::play::Playing;
use moored_sim::timeline::Timeline;

use super::plan::{Job, Jobs};
use super::report::SweepFailure;
use super::work::{DETERMINISM, Player};

/// Failures of one sweep that are written as files, in the order of their runs; more are told, and counted.
pub const FAILURES_KEPT_MAX: usize = 64;

/// A failure, ready to be written.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The name of its files, without an ending.
    pub name: String,
    /// The failure.
    pub file: FailureFile,
    /// Its run, for a person.
    pub timeline: Timeline,
    /// Whether it fails again from the file alone.
    pub fails_again: bool,
}

impl SweepFailure {
    /// The name of its files, without an ending.
    pub fn file_name(&self) -> String {
        match (&self.replays, self.row_kernel) {
            (Some(_), _) => format!("{}-{}", self.scenario, self.seed),
            (None, None) => format!("{}-{}", file_word(&self.scenario), self.seed),
            (None, Some(kernel)) => format!(
                "{}-{}-{}",
                file_word(&self.scenario),
                file_word(&kernel.to_string()),
                self.seed
            ),
        }
    }

    /// Whether what failed is that the run went otherwise when it was made again.
    pub fn is_divergence(&self) -> bool {
        self.violation.oracle == DETERMINISM
    }
}

/// Plays a failing run again with its timeline, and makes it a file. `facts` are told beside it.
pub fn keep(
    jobs: &Jobs,
    player: &dyn Player,
    failure: &SweepFailure,
    facts: Vec<(String, String)>,
) -> Result<Kept, String> {
    let row = jobs
        .rows()
        .iter()
        .position(|row| row.scenario == failure.scenario && row.kernel == failure.row_kernel);
    let row = row.ok_or_else(|| format!("there is no row {}", failure.scenario))?;
    let playable = jobs.playable(Job { number: failure.number, row, seed: failure.seed });
    let told = Playing { timeline: true, ..Playing::default() };
    let run = player.play(&playable, &told)?;
    let found = Found {
        scenario: failure.scenario.clone(),
        seed: failure.replays.is_none().then_some(failure.seed),
        kernel: failure.kernel,
        build: jobs.plan().build.clone(),
    };
    let file = playable.failure(failure.violation.clone(), &run.tape, found);
    let again = crate::Playable::of_failure(&file).map_err(|error| error.to_string())?;
    let again = player.play(&again, &Playing::default())?;
    Ok(Kept {
        name: failure.file_name(),
        fails_again: file.is_broken_by(&again),
        file,
        timeline: playable.timeline(&run, facts),
    })
}
