//! One run as a value, whichever kind of scenario it is of: played, kept as a failure, shown to a person.

use std::sync::Arc;

use moored_sim::KernelKind;
use moored_sim::draws::Tape;
use moored_sim::failure::{self, DocumentRun, FAILURE_VERSION, FailedRun, FailureFile, Found};
use moored_sim::oracles::Violation;
use moored_sim::play::{Playing, Run};
use moored_sim::scenario::Scenario;
use moored_sim::timeline::Timeline;
use moored_sim::trace::Keep;

use crate::document::{Document, DocumentError};
use crate::simulated::{SimulatedRun, simulate};
use crate::stage::PlayError;

/// A run that can be played.
#[derive(Clone, Debug)]
pub enum Playable {
    /// Of a scenario document.
    Document(Arc<Document>, SimulatedRun),
    /// Of a scenario.
    Scenario(Box<Scenario>),
}

impl Playable {
    /// A document under a seed.
    pub fn document(document: Arc<Document>, kernel: KernelKind, seed: u64) -> Self {
        let run = SimulatedRun { seed: Some(seed), kernel, ..SimulatedRun::default() };
        Self::Document(document, run)
    }

    /// What a kept failure fails in.
    pub fn of_failure(failure: &FailureFile) -> Result<Self, DocumentError> {
        Ok(match &failure.run {
            FailedRun::Scenario(scenario) => Self::Scenario(scenario.clone()),
            FailedRun::Document(run) => {
                let document = Document::parse(&run.document.to_string(), "the kept document")?;
                let run = SimulatedRun {
                    in_place: false,
                    seed: Some(run.madsim_seed),
                    kernel: run.kernel,
                    tape: Some(run.tape.clone()),
                    trace: false,
                };
                Self::Document(Arc::new(document), run)
            }
        })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        match self {
            Self::Document(document, _) => &document.name,
            Self::Scenario(scenario) => &scenario.name,
        }
    }

    /// What it stands on.
    pub fn kernel(&self) -> KernelKind {
        match self {
            Self::Document(_, run) => run.kernel,
            Self::Scenario(scenario) => scenario.options.kernel,
        }
    }

    /// Plays it. A document has no timeline but its trace.
    pub fn play(&self, playing: &Playing) -> Result<Run, PlayError> {
        match self {
            Self::Document(document, run) => {
                let trace = playing.timeline || playing.keep != Keep::Hashes;
                let run = SimulatedRun { trace, in_place: playing.in_place, ..run.clone() };
                Ok(simulate(document, &run)?.1)
            }
            Self::Scenario(scenario) => Ok(moored_sim::play::play(scenario, playing)?),
        }
    }

    /// It as a failure to keep: with the choices that were made, whatever they were drawn from.
    pub fn failure(&self, violation: Violation, tape: &Tape, found: Found) -> FailureFile {
        let tape = tape.without_benign();
        let run = match self {
            Self::Document(document, run) => {
                #[expect(clippy::expect_used, reason = "it was read from JSON")]
                let value = serde_json::to_value(&**document).expect("a document is always JSON");
                FailedRun::Document(Box::new(DocumentRun {
                    document: value,
                    kernel: run.kernel,
                    madsim_seed: run.seed.unwrap_or(0),
                    tape,
                }))
            }
            Self::Scenario(scenario) => {
                let source = moored_sim::draws::Source::replay(tape);
                FailedRun::Scenario(Box::new(Scenario { source, ..(**scenario).clone() }))
            }
        };
        FailureFile { v: FAILURE_VERSION, violation, found, run }
    }

    /// A run of it for a person. `facts` are what finds it and plays it again.
    pub fn timeline(&self, run: &Run, facts: Vec<(String, String)>) -> Timeline {
        match self {
            Self::Scenario(scenario) => failure::timeline(scenario, run, facts),
            Self::Document(document, played) => Timeline {
                title: document.name.clone(),
                facts: [facts, vec![("kernel".to_owned(), played.kernel.to_string())]].concat(),
                entries: run.entries.clone(),
                broken: failure::broken(run),
                notes: vec![document.about.clone()],
            },
        }
    }
}
