//! A failing run, kept as a file: what it broke, where it was found, and the run itself as a value.
//!
//! A seed names a run only as long as the generator stays as it is. A failure outlives that: it holds the scenario with
//! every choice that was made on its tape, so that it fails again until the library is mended and holds from then on.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::draws::{Source, Tape};
use crate::kernel::{KernelKind, RunError};
use crate::oracles::Violation;
use crate::play::{Playing, Run, play};
use crate::scenario::{Scenario, ScenarioError};
use crate::timeline::{Broken, Timeline};

/// The version of the file this build writes and reads.
pub const FAILURE_VERSION: u32 = 1;
/// Hexadecimal digits of a digest in a name.
const DIGEST_DIGITS: usize = 8;

/// A failing run, kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureFile {
    /// [`FAILURE_VERSION`].
    pub v: u32,
    /// What does not hold.
    pub violation: Violation,
    /// Where it was found; told, never read by a replay.
    pub found: Found,
    /// What fails.
    pub run: FailedRun,
}

/// Where a failure was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// What was swept: `generated`, or the name of a document or of a scenario.
    pub scenario: String,
    /// The seed; none for what was played without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// What it stood on.
    pub kernel: KernelKind,
    /// The build that found it.
    pub build: String,
}

/// What fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedRun {
    /// A scenario document with the choices of its run; the crate of the documents plays it.
    Document(Box<DocumentRun>),
    /// A scenario.
    Scenario(Box<Scenario>),
}

/// A run of a scenario document, as a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentRun {
    /// The document.
    pub document: serde_json::Value,
    /// What it stands on.
    #[serde(default)]
    pub kernel: KernelKind,
    /// Seeds madsim; on its own scheduler this is the schedule.
    #[serde(default)]
    pub madsim_seed: u64,
    /// Every choice that is not benign.
    pub tape: Tape,
}

/// Why a text is no failure of this build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FailureError {
    /// It is no JSON of this shape.
    #[error("this is no failure of this build: {0}")]
    Shape(String),
    /// Another build wrote it.
    #[error(
        "the failure has version {0}, and this build reads {FAILURE_VERSION}; use the build that wrote it"
    )]
    Version(u32),
    /// Its scenario is none of this build.
    #[error("{0}")]
    Scenario(#[from] ScenarioError),
}

/// Why a failure cannot be replayed here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It is the run of a document, which another crate plays.
    #[error("this failure is the run of a scenario document; `moored replay` plays it")]
    Document,
    /// The run cannot be made.
    #[error("{0}")]
    Run(#[from] RunError),
}

impl FailureFile {
    /// The failure of a scenario: what it broke, with every choice it made in place of the source it drew from. None if it
    /// holds.
    pub fn of_scenario(scenario: &Scenario, run: &Run, found: Found) -> Option<Self> {
        let violation = run.violation.clone()?;
        let source = Source::replay(run.tape.without_benign());
        let scenario = Scenario { source, ..scenario.clone() };
        let run = FailedRun::Scenario(Box::new(scenario));
        Some(Self { v: FAILURE_VERSION, violation, found, run })
    }

    /// Whether a value has the shape of a failure rather than that of a scenario.
    pub fn is_one(value: &serde_json::Value) -> bool {
        value.get("violation").is_some()
    }

    /// Reads a failure, and checks the scenario in it.
    pub fn from_value(value: serde_json::Value) -> Result<Self, FailureError> {
        let version = value.get("v").and_then(serde_json::Value::as_u64);
        if let Some(version) = version.filter(|v| *v != u64::from(FAILURE_VERSION)) {
            return Err(FailureError::Version(u32::try_from(version).unwrap_or(u32::MAX)));
        }
        if let Some(scenario) = value.pointer("/run/scenario") {
            Scenario::from_value(scenario.clone())?;
        }
        serde_json::from_value(value).map_err(|error| FailureError::Shape(error.to_string()))
    }

    /// Reads a failure, and checks the scenario in it.
    pub fn from_text(text: &str) -> Result<Self, FailureError> {
        let value = serde_json::from_str(text);
        Self::from_value(value.map_err(|error| FailureError::Shape(error.to_string()))?)
    }

    /// As indented JSON, with a line end.
    pub fn to_text(&self) -> String {
        #[expect(clippy::expect_used, reason = "no map in it has keys that are not text")]
        let text = serde_json::to_string_pretty(self).expect("a failure is always JSON");
        text + "\n"
    }

    /// The scenario that fails, if it is one.
    pub fn scenario(&self) -> Option<&Scenario> {
        match &self.run {
            FailedRun::Document(_) => None,
            FailedRun::Scenario(scenario) => Some(scenario),
        }
    }

    /// Plays the scenario again.
    pub fn replay(&self, playing: &Playing) -> Result<Run, ReplayError> {
        let scenario = self.scenario().ok_or(ReplayError::Document)?;
        Ok(play(scenario, playing)?)
    }

    /// Whether a run breaks the same oracle.
    pub fn is_broken_by(&self, run: &Run) -> bool {
        run.violation.as_ref().is_some_and(|violation| violation.oracle == self.violation.oracle)
    }

    /// The name of a file for it: its oracle, and a digest of what fails.
    pub fn name(&self) -> String {
        #[expect(clippy::expect_used, reason = "no map in it has keys that are not text")]
        let run = serde_json::to_vec(&self.run).expect("a run is always JSON");
        let mut name = format!("{}-", file_word(&self.violation.oracle));
        for byte in Sha256::digest(run).iter().take(DIGEST_DIGITS / 2) {
            // Writing into a text cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        name
    }
}

/// A name as part of a file's: what is neither a letter nor a digit becomes a hyphen.
pub fn file_word(name: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    name.chars().map(word).collect()
}

/// The timeline of a scenario's run, for a person. `facts` are what finds it and plays it again.
pub fn timeline(scenario: &Scenario, run: &Run, facts: Vec<(String, String)>) -> Timeline {
    let profile = if scenario.options.world.is_win32() { "win32" } else { "posix" };
    let mut told = vec![
        ("kernel".to_owned(), scenario.options.kernel.to_string()),
        ("profile".to_owned(), profile.to_owned()),
        ("trace".to_owned(), format!("{:016x}", run.trace.hash())),
    ];
    told.splice(0..0, facts);
    let acts = scenario.actions.iter().map(|a| format!("{}: {}", a.when, a.act));
    let faults = scenario.faults.iter().map(|f| format!("fault, {}: {}", f.when, f.fault));
    Timeline {
        title: scenario.name.clone(),
        facts: told,
        entries: run.entries.clone(),
        broken: broken(run),
        notes: acts.chain(faults).collect(),
    }
}

/// What a run broke, as a timeline marks it.
pub fn broken(run: &Run) -> Option<Broken> {
    let violation = run.violation.as_ref()?;
    Some(Broken {
        oracle: violation.oracle.to_string(),
        rule: violation.rule.to_string(),
        words: violation.words.clone(),
        at: violation.at,
        entry: run.violation_entry,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Act, Action, Trigger};

    /// An agent of a release that its definition does not take: the message after the heal is never answered.
    fn failing() -> Scenario {
        let mut scenario = Scenario::quiet("never-answered", 7);
        scenario.options.definition =
            [("versions".to_owned(), serde_json::json!({ "from": "999.0.0" }))]
                .into_iter()
                .collect();
        scenario.actions = vec![Action {
            when: Trigger::at_start(),
            act: Act::Stop { session: 0, turn: Default::default() },
        }];
        scenario
    }

    fn kept() -> (FailureFile, Run) {
        let run = play(&failing(), &Playing { timeline: true, ..Playing::default() })
            .expect("it can be played");
        let found = Found {
            scenario: "never-answered".to_owned(),
            seed: Some(7),
            kernel: KernelKind::Tape,
            build: "0.0.0".to_owned(),
        };
        (FailureFile::of_scenario(&failing(), &run, found).expect("it fails"), run)
    }

    #[test]
    fn a_kept_failure_reads_back_and_fails_again_without_its_seed() {
        let (kept, run) = kept();
        let read = FailureFile::from_text(&kept.to_text()).expect("it reads back");
        assert_eq!(read, kept);
        let scenario = read.scenario().expect("it is a scenario");
        assert!(matches!(&scenario.source, Source::Replay { tape, .. } if tape.strayed() > 0));
        let again = read.replay(&Playing::default()).expect("it can be played");
        assert!(read.is_broken_by(&again));
        assert_eq!(again.trace.hash(), run.trace.hash());
        assert!(read.name().starts_with(&format!("{}-", read.violation.oracle)));
        assert_eq!(read.name(), kept.name());
    }

    #[test]
    fn a_run_that_holds_is_no_failure() {
        let scenario = Scenario::quiet("quiet", 7);
        let run = play(&scenario, &Playing::default()).expect("it can be played");
        let found = kept().0.found;
        assert_eq!(FailureFile::of_scenario(&scenario, &run, found), None);
        assert!(!kept().0.is_broken_by(&run));
    }

    #[test]
    fn another_version_and_another_shape_are_refused_by_name() {
        let (kept, _) = kept();
        let text = kept.to_text();
        let newer = text.replacen("\"v\": 1", "\"v\": 2", 1);
        assert_eq!(FailureFile::from_text(&newer), Err(FailureError::Version(2)));
        assert!(matches!(FailureFile::from_text("{\"v\":1}"), Err(FailureError::Shape(_))));
        let mut scenario = kept.clone();
        if let FailedRun::Scenario(scenario) = &mut scenario.run {
            scenario.options.sessions = 99;
        }
        let told = FailureFile::from_text(&scenario.to_text());
        assert!(matches!(told, Err(FailureError::Scenario(ScenarioError::Bounds { .. }))));
    }

    #[test]
    fn the_timeline_says_what_broke_and_what_was_done() {
        let (kept, run) = kept();
        let facts = vec![("seed".to_owned(), "7".to_owned())];
        let timeline = timeline(&failing(), &run, facts);
        assert_eq!(timeline.facts[0].1, "7");
        assert_eq!(timeline.notes.len(), 1);
        assert_eq!(timeline.broken.expect("it broke").words, kept.violation.words);
        assert!(timeline.entries.len() > 5);
    }
}
