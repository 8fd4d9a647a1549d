//! What stands behind `#[moored_sim::test]`: regressions first, then seeds; a failure is made smaller, saved and told.
#![expect(
    clippy::disallowed_methods,
    reason = "a test's harness reads the environment and keeps files"
)]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::Simulation;
use crate::failure::{FailureFile, Found, timeline};
use crate::play::Run;
use crate::scenario::Scenario;
use crate::shrink::shrink_with;

/// Names one seed to play and no other.
pub const SEED_VARIABLE: &str = "MOORED_SEED";
/// Says how many seeds every test plays, instead of its own number.
pub const SEEDS_VARIABLE: &str = "MOORED_SEEDS";
/// Where failures are saved, under the crate's folder.
const FAILURES: &str = "moored-failures";
/// Where kept failures are, under the crate's folder: they are played first.
const REGRESSIONS: &str = "moored-regressions";

/// One test, as the attribute makes it.
pub struct Test {
    /// Its path, the crate's name first.
    pub name: &'static str,
    /// The folder of its crate.
    pub folder: &'static str,
    /// How many seeds it plays.
    pub seeds: u64,
    /// Makes what is played.
    pub simulation: fn() -> Simulation,
}

impl Test {
    /// The name that `cargo test` is given.
    fn filter(&self) -> &str {
        self.name.split_once("::").map_or(self.name, |(_, rest)| rest)
    }

    /// The name that files and folders have.
    fn file_name(&self) -> String {
        self.filter().replace("::", "-")
    }
}

/// Plays a test: its regressions, then its seeds.
///
/// # Panics
///
/// When a run does not hold: the words tell the seed, how to play it again, and where it is saved.
pub fn run_test(test: &Test) {
    let simulation = (test.simulation)();
    let number = |name| -> Option<u64> {
        let text = std::env::var(name).ok()?;
        Some(
            text.trim()
                .parse()
                .unwrap_or_else(|_| panic!("{name} must be a number, and is {text:?}")),
        )
    };
    for (path, scenario) in regressions(test) {
        let run = played(&simulation, &scenario);
        if let Some(violation) = run.violation {
            panic!("the regression {} fails again: {}", path.display(), violation.words);
        }
    }
    let seeds = match number(SEED_VARIABLE) {
        Some(seed) => seed..seed.saturating_add(1),
        None => 0..number(SEEDS_VARIABLE).unwrap_or(test.seeds),
    };
    for seed in seeds {
        let scenario = simulation.scenario(seed);
        let run = played(&simulation, &scenario);
        if run.violation.is_some() {
            panic!("{}", told(test, &simulation, seed, &scenario, &run));
        }
    }
}

fn played(simulation: &Simulation, scenario: &Scenario) -> Run {
    simulation
        .play(scenario, false)
        .unwrap_or_else(|error| panic!("the run cannot be made: {error}"))
}

/// Everything a person needs of a failing seed.
fn told(test: &Test, simulation: &Simulation, seed: u64, scenario: &Scenario, run: &Run) -> String {
    let mut words = String::new();
    let Some(violation) = &run.violation else { return words };
    let _ = writeln!(
        words,
        "seed {seed} breaks {} (rule {}) at {} ms: {}",
        violation.oracle,
        violation.rule,
        violation.at.as_ms(),
        violation.words
    );
    let _ = writeln!(words, "play it again: {SEED_VARIABLE}={seed} cargo test {}", test.filter());
    let smaller = shrink_with(scenario, &|candidate| simulation.play(candidate, false).ok());
    let smallest = match &smaller {
        Ok(shrunk) => {
            let Scenario { actions, faults, .. } = &shrunk.scenario;
            let _ = writeln!(
                words,
                "the smallest run that fails so has {} actions and {} faults ({} replays)",
                actions.len(),
                faults.len(),
                shrunk.replays
            );
            for action in actions {
                let _ = writeln!(words, "  {}: {}", action.when, action.act);
            }
            for planned in faults {
                let _ = writeln!(words, "  {}: {}", planned.when, planned.fault);
            }
            &shrunk.scenario
        }
        Err(error) => {
            let _ = writeln!(words, "it could not be made smaller: {error}");
            scenario
        }
    };
    match save(test, simulation, seed, smallest) {
        Ok((file, page)) => {
            let _ =
                writeln!(words, "saved as {}; its timeline is {}", file.display(), page.display());
            let kept = Path::new(test.folder).join(REGRESSIONS).join(test.file_name());
            let _ = write!(words, "move the file into {} to have it played first", kept.display());
        }
        Err(error) => {
            let _ = write!(words, "it could not be saved: {error}");
        }
    }
    words
}

fn save(
    test: &Test,
    simulation: &Simulation,
    seed: u64,
    smallest: &Scenario,
) -> std::io::Result<(PathBuf, PathBuf)> {
    let run = simulation.play(smallest, true).map_err(std::io::Error::other)?;
    let folder = Path::new(test.folder).join(FAILURES);
    std::fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{}-{seed}.json", test.file_name()));
    let page = file.with_extension("html");
    let found = Found {
        scenario: test.filter().to_owned(),
        seed: Some(seed),
        kernel: smallest.options.kernel,
        build: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let failure = FailureFile::of_scenario(smallest, &run, found);
    let failure =
        failure.ok_or_else(|| std::io::Error::other("it holds when it is played again"))?;
    std::fs::write(&file, failure.to_text())?;
    let command = format!("{SEED_VARIABLE}={seed} cargo test {}", test.filter());
    let facts = vec![("seed".to_owned(), seed.to_string()), ("play again".to_owned(), command)];
    std::fs::write(&page, timeline(smallest, &run, facts).to_html())?;
    Ok((file, page))
}

/// The regressions of a test, by name.
fn regressions(test: &Test) -> Vec<(PathBuf, Scenario)> {
    let folder = Path::new(test.folder).join(REGRESSIONS).join(test.file_name());
    let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{} cannot be read: {error}", path.display()));
        match FailureFile::from_text(&text).map(|failure| failure.scenario().cloned()) {
            Ok(Some(scenario)) => (path, scenario),
            Ok(None) => panic!("{} holds a document, not a scenario", path.display()),
            Err(error) => panic!("{}: {error}", path.display()),
        }
    };
    paths.into_iter().map(read).collect()
}
