//! The settle of a Stop: what a press is to this host from its effect until it is known what it stopped (rules 3.4, 4.1).
//! It is memory, writes no row, and is gone with the host (rule 4.1.6).

use super::machine::{Life, Session};
use crate::coverage::CoverageMark;
use crate::ids::{MessageId, TurnKey};
use crate::journal::{
    Fold, Item, ItemBody, StopEvent, SubmissionState, TurnBody, TurnState, turn_item,
};
use crate::planted::PlantedBug;
use crate::status::{Status, status};

/// The latest person's Stop or close on this host.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Settle {
    /// The turn it stopped: the one it named, else the one that ran when it was pressed, else the one that ended under it.
    turn: Option<TurnKey>,
    /// The child's exit had been seen when it was first pressed: what that exit cut stays news (rule 3.4.8). The order in
    /// which this host met the two, for clocks tie and step; a repeat keeps it.
    behind_exit: bool,
    /// When it was first pressed, in the journal's time; a repeat keeps it.
    at_ms: u64,
    /// It named its turn: there is nothing to settle (rule 3.4.2).
    named: bool,
    /// It named no turn, and what it stopped is not known yet: every turn that ends meanwhile is its own (rule 3.4.10).
    open: bool,
    /// What still reads stopping because the process's end failed (rule 3.4.5). Display only.
    failed_on: Option<FailedOn>,
    /// It was published, and the session did not work any more: it does not rise again without a press, whatever is sent
    /// meanwhile (rule 4.1.4, decision D27).
    fell: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
enum FailedOn {
    /// The turn that ran then.
    Turn(TurnKey),
    /// No turn ran: the next that opens, unless a message was handed over before.
    Next,
}

impl Session {
    /// A person's Stop takes effect. A repeat keeps what the earlier press bound and when it was (rules 3.3.3, 3.4.6); gives
    /// the event's turn and time.
    pub(super) fn open_settle(&mut self, event: &mut StopEvent) {
        let forgets = self.plants(PlantedBug::ForgetTheFirstPress);
        let earlier = self.settle.take().filter(|earlier| {
            let same = event.turn.is_none() || earlier.turn.is_none() || event.turn == earlier.turn;
            same && self.is_unsettled(earlier) && !forgets
        });
        if let Some(earlier) = &earlier {
            self.sometimes(CoverageMark::StopRepeated);
            event.at_ms = event.at_ms.min(earlier.at_ms);
            event.turn = event.turn.take().or_else(|| earlier.turn.clone());
        }
        let exit_seen = || self.child.as_ref().is_some_and(|child| child.root.is_some());
        self.settle = Some(Settle {
            turn: event.turn.clone(),
            behind_exit: earlier.as_ref().map_or_else(exit_seen, |earlier| earlier.behind_exit),
            at_ms: event.at_ms,
            named: event.named,
            open: !event.named || self.plants(PlantedBug::NamedStopSettles),
            failed_on: earlier.and_then(|earlier| earlier.failed_on),
            fell: false,
        });
    }

    /// A press joins an end that a press before it began: its proof is waited for again (rules 3.4.6, 3.7.2).
    pub(super) fn reopen_settle(&mut self) {
        if self.plants(PlantedBug::RepeatDoesNotReopen) {
            return;
        }
        if let Some(settle) = self.settle.as_mut().filter(|settle| !settle.named) {
            settle.open = true;
            settle.fell = false;
        }
    }

    /// Nothing has ended yet that this press could have stopped.
    fn is_unsettled(&self, settle: &Settle) -> bool {
        settle.turn.as_ref().is_none_or(|turn| match self.plan.item(&turn_item(turn)) {
            Some(Item { body: ItemBody::Turn(turn), .. }) => !has_ended(turn.state),
            _ => false,
        })
    }

    /// Whether a turn that ends is the open settle's own.
    pub(super) fn settles(&self) -> bool {
        self.settle.as_ref().is_some_and(|settle| settle.open)
    }

    /// A turn ended under the open settle: it is what the Stop stopped (rule 3.4.4).
    pub(super) fn bind_settle(&mut self, turn: &TurnKey) {
        if self.plants(PlantedBug::SettleBindsNothing) {
            return;
        }
        if let Some(settle) = self.settle.as_mut().filter(|s| s.open && s.turn.is_none()) {
            settle.turn = Some(turn.clone());
        }
    }

    /// Whether the child's exit was seen before the press; none where the press was on an earlier host.
    pub(super) fn exit_came_before_the_press(&self) -> Option<bool> {
        self.settle.as_ref().map(|settle| settle.behind_exit)
    }

    /// A turn opens. Behind a Stop that failed before any turn showed it is that Stop's, unless a message opens it
    /// (rule 3.7.5).
    pub(super) fn meet_turn(&mut self, body: &TurnBody) {
        let Some(settle) = self.settle.as_mut().filter(|s| s.failed_on == Some(FailedOn::Next))
        else {
            return;
        };
        if body.user_item.is_some() {
            self.settle = None;
        } else {
            settle.failed_on = Some(FailedOn::Turn(body.turn.clone()));
        }
    }

    /// Closes the settle once the end of what it stopped is on disk, or the child's end is known, proven or not
    /// (rule 3.4.3, decision D13).
    pub(super) fn close_settle(&mut self) {
        let Some(settle) = &mut self.settle else { return };
        let shown = self.published.as_ref().is_some_and(|summary| summary.stopping);
        let rests = status(&self.durable) != Some(Status::Working);
        settle.fell |= shown && rests && !self.policy.plants(PlantedBug::StoppingAtRest);
        let turn = settle.turn.as_ref().map(turn_item);
        let state = turn.and_then(|item| match &self.durable.item(&item)?.body {
            ItemBody::Turn(turn) => Some(turn.state),
            _ => None,
        });
        let ended = state.is_some_and(has_ended);
        let unproven = self.is_unproven();
        let gone = self.child.is_none() && !self.plants(PlantedBug::SettleOutlivesItsChild);
        let gives_up = unproven && self.plants(PlantedBug::UnconfirmedEndsStopping);
        if ended || gone || gives_up {
            self.settle = None;
        } else if unproven && self.settles() && !self.plants(PlantedBug::FailedEndKeepsSettling) {
            let live = self.durable.running_turn().map(|turn| turn.turn.clone());
            self.sometimes(CoverageMark::StopFailed);
            if let Some(settle) = self.settle.as_mut() {
                settle.open = false;
                let failed_on = live.map_or(FailedOn::Next, FailedOn::Turn);
                settle.failed_on.get_or_insert(failed_on);
            }
        }
    }

    /// "Stopping...": derived, and published only while the session works (rule 4.1.2).
    pub(super) fn is_stopping(&self) -> bool {
        let Some(settle) = &self.settle else {
            return self.plants(PlantedBug::StoppingFromTheJournal) && self.was_stopped();
        };
        // A turn whose first row is not on disk yet runs as well: it would rise anew when that row lands (decision D27).
        let runs = |turn: &TurnKey| match self.durable.item(&turn_item(turn)) {
            Some(_) if self.plants(PlantedBug::LookAtTheFirstTurn) => self.first_turn_runs(),
            Some(_) => self.durable.running_turn().is_some_and(|running| running.turn == *turn),
            None if self.plants(PlantedBug::StoppingOnAnyTurn) => true,
            None => self.plan.item(&turn_item(turn)).is_some(),
        };
        if settle.fell {
            return false;
        }
        settle.open
            || match (&settle.turn, &settle.failed_on) {
                (Some(turn), _) | (None, Some(FailedOn::Turn(turn))) => runs(turn),
                (None, Some(FailedOn::Next)) => true,
                (None, None) => false,
            }
    }

    /// Only under [`PlantedBug::StoppingFromTheJournal`].
    fn was_stopped(&self) -> bool {
        self.durable.latest_stop().is_some_and(|(_, stop)| stop.reason.is_a_persons())
    }

    /// Only under [`PlantedBug::LookAtTheFirstTurn`].
    fn first_turn_runs(&self) -> bool {
        let first = self.durable.timeline().find_map(|(_, item)| match &item.body {
            ItemBody::Turn(turn) => Some(turn.state),
            _ => None,
        });
        first == Some(TurnState::Running)
    }

    /// Only under [`PlantedBug::FailedOnIsBound`].
    pub(super) fn failed_on(&self, turn: &TurnKey) -> bool {
        let on = self.settle.as_ref().and_then(|settle| settle.failed_on.as_ref());
        on == Some(&FailedOn::Turn(turn.clone()))
    }

    /// The messages that wait behind a person's Stop, oldest first (rule 5.4.1, decision D27): accepted on disk, not with
    /// the agent, and not withdrawn either, on disk or about to be. It reads the queue alone, which is bounded.
    pub(super) fn held(&self) -> Vec<MessageId> {
        if self.life != Life::Open || !self.is_stopping() || self.plants(PlantedBug::HideTheHeld) {
            return Vec::new();
        }
        let stands = |fold: &Fold, message: &MessageId, state| {
            fold.submission(message).is_some_and(|s| s.view.state == state)
        };
        // Its handover is on disk, and its frame never left (decision D24).
        let withheld = self.withheld.iter().filter(|m| {
            stands(&self.durable, m, SubmissionState::HandedOver)
                && stands(&self.plan, m, SubmissionState::HandedOver)
        });
        let queued =
            self.durable.queued().filter(|m| !stands(&self.plan, m, SubmissionState::Rejected));
        withheld.chain(queued).cloned().collect()
    }
}

/// Proven to be over.
fn has_ended(state: TurnState) -> bool {
    matches!(state, TurnState::Completed | TurnState::Interrupted)
}
