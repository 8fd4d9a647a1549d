//! Oracles: what must hold over the whole world, whatever went wrong in it.
//!
//! Each is a small file that names its rule. It sees every fact the moment it happens, and the whole at rest. It knows
//! nothing of the library's inside: rows, frames, signals, processes, feeds.

mod accepted;
mod acknowledged;
mod at_most_once;
mod barrier;
mod bounded;
mod cancel_grace;
mod cancel_once;
mod cancellation;
mod cards;
mod contact;
mod converge;
mod eof_before_force;
mod fail_closed;
mod handles;
mod handshake;
mod journal_whole;
#[cfg(test)]
mod kit;
mod late_text;
mod nothing_left;
mod one_error_row;
mod one_live_child;
mod own_verdict;
mod permission_options;
mod persist_before_act;
mod prompts;
mod proof_of_death;
mod reattach;
mod replies;
mod rows;
mod sends_settle;
mod stale_calls;
mod stale_facts;
mod stop_cancels;
mod stop_claims;
mod stop_events;
mod stop_note;
mod stop_once;
mod stop_unsaved;
mod stop_withdraws;
mod stopping;
mod stopping_agent;
mod turns_end;

use std::borrow::Cow;

use moored::ids::SessionId;
use moored::journal::{Row, RowFault, Snapshot, Timeline};
use moored::platform::Mono;
use moored::status::Summary;
use serde::{Deserialize, Serialize};

use crate::witness::{Facts, Seen};
use crate::world::ProcessRow;

/// What an oracle says when it does not hold: one sentence.
pub type Verdict = Result<(), String>;

/// A checker over the whole world.
pub trait Oracle: Send {
    /// Its name: lower-case words joined by hyphens.
    fn name(&self) -> &'static str;

    /// The rule or invariant it holds.
    fn rule(&self) -> &'static str;

    /// Something happened.
    fn see(&mut self, now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict;

    /// The run has come to rest.
    fn at_rest(&mut self, rest: &Rest<'_>) -> Verdict {
        let _ = rest;
        Ok(())
    }
}

/// An oracle that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Which.
    pub oracle: Cow<'static, str>,
    /// Its rule.
    pub rule: Cow<'static, str>,
    /// What was seen.
    pub words: String,
    /// When, in virtual microseconds.
    pub at: Mono,
}

/// The oracle of what only a fault of our own can break: a panic, a deadlock, a run without an end.
pub const OWN_FAULTS: &str = "own-faults";

impl Violation {
    /// A fault of our own.
    pub(crate) fn own_fault(words: String, at: Mono) -> Self {
        Self { oracle: OWN_FAULTS.into(), rule: "5.3.8".into(), words, at }
    }

    /// What an oracle found.
    pub(crate) fn of(oracle: &dyn Oracle, words: String, at: Mono) -> Self {
        Self { oracle: oracle.name().into(), rule: oracle.rule().into(), words, at }
    }
}

/// The whole, once it has come to rest.
pub struct Rest<'a> {
    /// Every session.
    pub sessions: &'a [RestingSession],
    /// Every process that lives and carries a spawn token, supervisors too.
    pub left: &'a [ProcessRow],
    /// What the witness knows.
    pub facts: &'a Facts,
}

/// A session at rest.
pub struct RestingSession {
    /// Which.
    pub id: SessionId,
    /// Its stored journal.
    pub rows: Vec<Row>,
    /// Why that is not the whole.
    pub fault: Option<RowFault>,
    /// What its host says of it before it ends; none if it would not say.
    pub snapshot: Option<Snapshot>,
    /// What each client has of it.
    pub clients: Vec<(usize, Timeline)>,
    /// Its published summary.
    pub summary: Option<Summary>,
}

/// All of them, fresh for one run.
pub fn all() -> Vec<Box<dyn Oracle>> {
    vec![
        Box::<one_live_child::OneLiveChild>::default(),
        Box::<stale_facts::StaleFacts>::default(),
        Box::<persist_before_act::PersistBeforeAct>::default(),
        Box::<at_most_once::AtMostOnce>::default(),
        Box::<own_verdict::OwnVerdict>::default(),
        Box::<cancellation::CancellationIsAPersons>::default(),
        Box::<proof_of_death::ProofOfDeath>::default(),
        Box::<eof_before_force::EofBeforeForce>::default(),
        Box::<stopping::StoppingIsDerived>::default(),
        Box::<stopping_agent::NothingToAStoppingAgent>::default(),
        Box::<reattach::ReattachWritesNoRows>::default(),
        Box::<fail_closed::FailClosed>::default(),
        Box::<acknowledged::AcknowledgedSurvives>::default(),
        Box::<sends_settle::SendsSettleOnce>::default(),
        Box::<turns_end::TurnsEndOnce>::default(),
        Box::<converge::SubscribersConverge>::default(),
        Box::<replies::OneReplyARequest>::default(),
        Box::<bounded::Bounded>::default(),
        Box::<nothing_left::NothingLeft>::default(),
        Box::<journal_whole::JournalReadsWhole>::default(),
        Box::<cancel_once::CancelAtMostOnce>::default(),
        Box::<cancel_grace::CancelHasItsGrace>::default(),
        Box::<barrier::SavedBeforeItsEnd>::default(),
        Box::<one_error_row::OneErrorRow>::default(),
        Box::<permission_options::AnsweredPermissions>::default(),
        Box::<handshake::HandshakeInOrder>::default(),
        Box::<stop_unsaved::StopNeedsNoStore>::default(),
        Box::<stop_once::StopsOnce>::default(),
        Box::<stop_events::StopEvents>::default(),
        Box::<stop_note::StopNotes>::default(),
        Box::<stop_claims::StopClaimsItsTurn>::default(),
        Box::<stop_cancels::StopCancels>::default(),
        Box::<stop_withdraws::StopWithdraws>::default(),
        Box::<stale_calls::StaleCallIsRefused>::default(),
        Box::<late_text::LateTextJoinsItsTurn>::default(),
        Box::<handles::HandleIsRecorded>::default(),
        Box::<contact::StdoutEndIsNoLoss>::default(),
        Box::<cards::NoCardUnderAStop>::default(),
        Box::<accepted::AcceptedIsHeard>::default(),
    ]
}
