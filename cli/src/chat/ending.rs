//! How turns, messages and agents end, in the words of the command.

use moored::failure::{FailureCode, FailureFact, RefusalCode, RefusedOperation};
use moored::journal::{ChildRow, EndedAnswer, Outcome, Row, TurnBody, UnknownReason};
use moored::status::outcome;
use serde_json::{Value, json};

use crate::journal::line;
use crate::ps::outcome_word;
use crate::stored;
use crate::words::{clause, seconds};

/// How the turn of a message ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// It is over.
    Over(Box<TurnBody>, Option<FailureFact>),
    /// The message never reached the agent.
    Rejected(FailureFact),
    /// Nobody knows whether it did.
    Unconfirmed(Option<UnknownReason>),
    /// A person left before its end.
    Left,
}

impl TurnEnd {
    /// Whether the agent finished.
    pub fn is_success(&self) -> bool {
        self.outcome() == Some(Outcome::Success)
    }

    fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Over(turn, _) => outcome(turn),
            _ => None,
        }
    }

    /// What a person is told; nothing of a turn that went well.
    pub fn sentence(&self) -> Option<String> {
        match self {
            // A Stop's end, in the words of every client (rule 4.6.3).
            Self::Over(turn, None) if self.outcome() == Some(Outcome::Cancellation) => {
                let took = turn.completed_ms.map(|end| end.saturating_sub(turn.started_ms));
                Some(format!("Interrupted after {}", seconds(took.unwrap_or_default())))
            }
            Self::Over(turn, fact) if !self.is_success() => {
                let word = outcome(turn).map_or("an unknown outcome", outcome_word);
                let said = turn.stop_reason.as_deref().unwrap_or_default();
                Some(match fact {
                    // What happened was shown in the timeline.
                    Some(fact) => {
                        format!("the turn ended in {word}; {}", clause(fact.code.remedy()))
                    }
                    None if said.is_empty() => format!("the turn ended in {word}"),
                    None => format!("the turn ended in {word} (the agent's word: {said})"),
                })
            }
            Self::Over(..) => None,
            Self::Rejected(fact) => Some(told(fact)),
            Self::Unconfirmed(_) => Some(
                "it is not known whether the agent has the message; look before sending it again"
                    .to_owned(),
            ),
            Self::Left => Some("left before the turn's end".to_owned()),
        }
    }

    /// For `--json`.
    pub fn to_json(&self) -> Value {
        let fact = match self {
            Self::Over(_, fact) => fact.as_ref(),
            Self::Rejected(fact) => Some(fact),
            Self::Unconfirmed(_) | Self::Left => None,
        };
        json!({ "outcome": self.outcome(), "fact": fact, "sentence": self.sentence() })
    }
}

/// Why no conversation is possible with this agent here, if that is what a rejection means.
pub fn cannot_run(fact: &FailureFact) -> bool {
    matches!(
        fact.code,
        FailureCode::HostUnsupported
            | FailureCode::NotSignedIn
            | FailureCode::PreviousExitUnverifiable
            | FailureCode::ProviderStartFailed
            | FailureCode::StartFailed
            | FailureCode::VersionMismatch
            | FailureCode::WriteFailed
    )
}

/// A fact as one clause: what happened, and what to do.
pub fn told(fact: &FailureFact) -> String {
    let what = clause(fact.code.sentence());
    match (&fact.detail, fact.code) {
        // The host's own words, which say what to do.
        (Some(words), FailureCode::StartFailed | FailureCode::HostUnsupported) => {
            format!("{what}: {words}")
        }
        (Some(words), _) => format!("{what} (it said: {words}); {}", clause(fact.code.remedy())),
        (None, _) => format!("{what}; {}", clause(fact.code.remedy())),
    }
}

/// A refusal as an error of the command.
pub fn refused(refusal: &RefusedOperation, store: &str) -> anyhow::Error {
    match refusal.code {
        RefusalCode::NotSaved | RefusalCode::StoreClosed => not_saved(store),
        _ => anyhow::anyhow!("{}", refusal.sentence),
    }
}

/// The store takes no writes.
pub fn not_saved(store: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "the store {store} cannot be written; free some space on its disk and try again \
         (what was saved before is kept)"
    )
}

/// How the agent ended where the journal cannot say it.
pub fn unsaved(proven: bool) -> String {
    let agent = match proven {
        true => "the agent was ended",
        false => "the agent is ended by its supervisor, if it is not gone already",
    };
    format!(
        "{agent}; the journal has nothing of what came after the store refused: no message, no Stop \
         and no end"
    )
}

/// How the agent ended, from the journal; from the close's own answer where the journal tells nothing.
pub fn agent_end(rows: &[Row], answer: Option<&EndedAnswer>) -> String {
    let (exited, settled) = stored::last_child(rows);
    let proof = match (settled, answer) {
        (Some(ChildRow::Settled { root, tree, .. }), _) => line::proof_said(*root, *tree),
        (_, Some(answer)) => line::proof_said(answer.root, answer.tree),
        _ => "its end is not proven",
    };
    match (exited, answer.and_then(|answer| answer.how)) {
        (Some(ChildRow::Exited { how, exit, .. }), _) => {
            format!("the agent {}; {proof}", line::exit_said(*how, *exit))
        }
        (_, Some(how)) => format!("the agent {}; {proof}", line::exit_said(how, None)),
        _ => "no agent was started".to_owned(),
    }
}
