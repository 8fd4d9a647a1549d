//! The note that a Stop leaves (rule 3.6): its words, its key, and how one that was not confirmed is read later.

use super::fold::{Fold, Item};
use super::{ItemBody, StatusBody, Tone, TurnBody, TurnState, turn_item};
use crate::failure::{FailureCode, FailureFact};
use crate::ids::{ItemKey, TurnKey, key};

/// The Stop's note when it was taken (rule 3.6.1).
pub const STOP_NOTE: &str = "Cancellation requested.";

/// Where the note of a Stop stands: keyed by the turn it stopped, else by the press (rule 3.6.2).
pub fn stop_note_item(subject: &str) -> ItemKey {
    ItemKey(key(&["stop", subject]))
}

/// The note of a Stop that was taken.
pub(crate) fn taken() -> StatusBody {
    StatusBody { tone: Tone::Info, text: STOP_NOTE.to_owned(), fact: None }
}

/// The note of a Stop whose process end failed while work runs on (rule 3.6.5).
pub(crate) fn unconfirmed() -> StatusBody {
    let fact = FailureFact::new(FailureCode::CancelUnconfirmed);
    StatusBody { tone: Tone::Error, text: fact.sentence(), fact: Some(fact) }
}

impl StatusBody {
    /// It is the note of a Stop that was not confirmed, as it is stored.
    pub fn is_unconfirmed_stop(&self) -> bool {
        self.fact.as_ref().is_some_and(|fact| fact.code == FailureCode::CancelUnconfirmed)
    }
}

/// Whether it is the note of a Stop that was not confirmed, as it is stored.
pub(crate) fn is_unconfirmed(body: &ItemBody) -> bool {
    matches!(body, ItemBody::Status(status) if status.is_unconfirmed_stop())
}

impl Fold {
    /// How an item is published: an unconfirmed note whose turn turned out interrupted reads as taken. Nothing is stored
    /// (rule 3.6.6).
    pub(super) fn published_body(&self, item: &Item) -> ItemBody {
        let corrected = is_unconfirmed(&item.body)
            && item.scope.as_ref().is_some_and(|turn| self.is_interrupted(turn));
        if corrected { ItemBody::Status(taken()) } else { item.body.clone() }
    }

    /// The unconfirmed note of a turn that was interrupted: whoever is told of that end is told of it too (rule 3.6.7).
    pub(super) fn corrected_note(&self, turn: &TurnBody) -> Option<ItemKey> {
        if turn.state != TurnState::Interrupted {
            return None;
        }
        let note = stop_note_item(turn.turn.as_str());
        self.item(&note).is_some_and(|item| is_unconfirmed(&item.body)).then_some(note)
    }

    fn is_interrupted(&self, turn: &TurnKey) -> bool {
        let Some(Item { body: ItemBody::Turn(turn), .. }) = self.item(&turn_item(turn)) else {
            return false;
        };
        turn.state == TurnState::Interrupted
    }
}
