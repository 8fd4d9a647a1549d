//! The mutating calls as the ledger sees them: what is digested, what is remembered, what a replay answers.

use serde_json::{Value, json};

use super::{NewSession, PermissionAnswer, Send, Stop};
use crate::failure::{RefusalCode, RefusedOperation};
use crate::ids::{EpochId, SessionId};
use crate::session::{Answer, StopAnswer};
use crate::store::LedgerOutcome;

/// One mutating call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Make a session.
    Create {
        /// As it was asked for.
        new: Box<NewSession>,
        /// The epoch its journal begins with; minted with the call, no part of its digest.
        epoch: EpochId,
    },
    /// Send a message.
    Send(Send),
    /// Press Stop.
    Stop(Stop),
    /// Answer a permission request.
    Answer(PermissionAnswer),
    /// Close the session.
    Close,
    /// Let its child go, and keep the session.
    Evict,
}

impl Command {
    /// The method's name in the digest.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Send(_) => "send",
            Self::Stop(_) => "stop",
            Self::Answer(_) => "answer",
            Self::Close => "close",
            Self::Evict => "evict",
        }
    }

    /// Digest of method, session and fields (rule 5.10.1). A client that digests its call itself must come to the same.
    pub fn fingerprint(&self, session: &SessionId) -> String {
        let fields = match self {
            Self::Create { new, .. } => fields(new.as_ref()),
            Self::Send(send) => fields(send),
            Self::Stop(stop) => fields(stop),
            Self::Answer(answer) => fields(answer),
            Self::Close | Self::Evict => json!({}),
        };
        crate::digest::fingerprint(self.method(), session.as_str(), &fields)
    }

    /// Whether it ends something. Such a call is legal in every state (decision D12): it is taken while the host quits,
    /// and where other calls no longer find room.
    pub fn ends_something(&self) -> bool {
        matches!(self, Self::Stop(_) | Self::Close | Self::Evict)
    }

    /// This call's answer when it is refused.
    pub fn refused(&self, refusal: RefusedOperation) -> Answer {
        match self {
            Self::Create { .. } => Answer::Created(Err(refusal)),
            Self::Send(_) => Answer::Sent(Err(refusal)),
            Self::Stop(_) | Self::Evict => Answer::Stopped(Err(refusal)),
            Self::Answer(_) => Answer::Answered(Err(refusal)),
            Self::Close => Answer::Closed(Err(refusal)),
        }
    }

    /// What a replay of this call answers; `None` when nothing is known of the first and it must run again.
    ///
    /// A Stop never runs again, whatever became of the first (rule 3.1.3), and neither does an eviction. Every other call may: a session's id, a
    /// message's id, a question's revision and a closed session each make a second run harmless.
    pub fn replay(&self, outcome: &LedgerOutcome) -> Option<Answer> {
        if let (Some(answer), false) =
            (self.not_again(), matches!(outcome, LedgerOutcome::Failed(_)))
        {
            return Some(answer);
        }
        match outcome {
            // A refusal that was stored with what it refused reads as one.
            LedgerOutcome::Succeeded(text) => {
                self.succeeded(text).or_else(|| parse(text).map(|refusal| self.refused(refusal)))
            }
            LedgerOutcome::Failed(text) => parse(text).map(|refusal| self.refused(refusal)),
            LedgerOutcome::Pending | LedgerOutcome::Unknown => None,
        }
    }

    /// What a call answers that joined an earlier one of the same operation, when that one is answered.
    pub fn joined(&self, answer: &Answer) -> Answer {
        match (self.not_again(), answer) {
            (Some(not_again), Answer::Stopped(Ok(_))) => not_again,
            _ => answer.clone(),
        }
    }

    /// What a Stop or an eviction answers that was asked for before.
    fn not_again(&self) -> Option<Answer> {
        let turn = match self {
            Self::Stop(stop) => stop.turn.clone(),
            Self::Evict => None,
            _ => return None,
        };
        Some(Answer::Stopped(Ok(StopAnswer { turn, cancelled: false })))
    }

    fn succeeded(&self, text: &str) -> Option<Answer> {
        match self {
            Self::Create { .. } => Some(Answer::Created(Ok(()))),
            Self::Send(_) => parse(text).map(|accepted| Answer::Sent(Ok(accepted))),
            Self::Stop(_) | Self::Evict => self.not_again(),
            Self::Answer(_) => parse(text).map(|answered| Answer::Answered(Ok(answered))),
            Self::Close => parse(text).map(|ended| Answer::Closed(Ok(ended))),
        }
    }
}

/// What the ledger remembers of an answer, as the session stores it and as the host keeps it in memory. `None` for a
/// refusal that asks to retry: nothing was done, and a retry under the same id must find the world as it then is.
pub fn outcome_of(answer: &Answer) -> Option<LedgerOutcome> {
    match answer {
        Answer::Created(result) => outcome(result),
        Answer::Sent(result) => outcome(result),
        Answer::Stopped(result) => outcome(result),
        Answer::Answered(result) => outcome(result),
        Answer::Closed(result) => outcome(result),
    }
}

fn outcome<T: serde::Serialize>(result: &Result<T, RefusedOperation>) -> Option<LedgerOutcome> {
    match result {
        Ok(answer) => Some(LedgerOutcome::Succeeded(fields(answer).to_string())),
        Err(refusal) if passes(refusal.code) => None,
        Err(refusal) => Some(LedgerOutcome::Failed(fields(refusal).to_string())),
    }
}

/// Refusals that say nothing of the call, only of the moment it came.
fn passes(code: RefusalCode) -> bool {
    matches!(
        code,
        RefusalCode::CheckpointStale
            | RefusalCode::LedgerFull
            | RefusalCode::NotSaved
            | RefusalCode::OwnershipUnknown
            | RefusalCode::QueueFull
            | RefusalCode::Quitting
            | RefusalCode::StoreClosed
    )
}

fn fields<T: serde::Serialize>(value: &T) -> Value {
    #[expect(
        clippy::expect_used,
        reason = "calls and answers hold no map with keys that are not text"
    )]
    serde_json::to_value(value).expect("a call is always JSON")
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_work_is_never_done_twice_whatever_became_of_the_first() {
        let not_again = Answer::Stopped(Ok(StopAnswer { turn: None, cancelled: false }));
        for command in [Command::Stop(Stop { turn: None }), Command::Evict] {
            for outcome in [LedgerOutcome::Pending, LedgerOutcome::Unknown] {
                assert_eq!(command.replay(&outcome), Some(not_again.clone()), "{outcome:?}");
            }
            let done = Answer::Stopped(Ok(StopAnswer { turn: None, cancelled: true }));
            let kept = outcome_of(&done).expect("it is remembered");
            assert_eq!(command.replay(&kept), Some(not_again.clone()));
            assert_eq!(command.joined(&done), not_again);
        }
        // A close may run again: a closed session makes that harmless.
        assert_eq!(Command::Close.replay(&LedgerOutcome::Pending), None);
    }
}
