//! What a timeline says of one message: its turn, its end, and what a person is asked.

use moored::failure::FailureFact;
use moored::ids::{ItemKey, MessageId, TurnKey};
use moored::journal::{
    ItemBody, Resolution, SubmissionState, Timeline, TurnBody, TurnState, user_item,
};

use super::ending::TurnEnd;
use super::input::Typed;

/// A question that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its item.
    pub item: ItemKey,
    /// The revision that was shown.
    pub revision: u64,
    options: Vec<String>,
}

impl Question {
    /// The option that a typed number means; nothing for a dismissal. Otherwise what to type.
    pub fn chosen(&self, typed: &Typed) -> Result<Option<String>, String> {
        // At the end of stdin nobody is left who could answer.
        let Typed::Line(line) = typed else { return Ok(None) };
        match line.trim().parse::<usize>() {
            Ok(0) => Ok(None),
            Ok(number) if number <= self.options.len() => Ok(self.options.get(number - 1).cloned()),
            _ => Err(format!("answer with a number from 0 to {}", self.options.len())),
        }
    }
}

/// The oldest question that waits.
pub fn question(timeline: &Timeline) -> Option<Question> {
    timeline.items().into_iter().find_map(|item| match &item.body {
        ItemBody::Approval(approval) if approval.resolution == Resolution::Pending => {
            let options = approval.options.iter().map(|option| option.id.clone()).collect();
            Some(Question { item: item.item.clone(), revision: item.revision, options })
        }
        _ => None,
    })
}

/// Turns, in order.
pub fn turns(timeline: &Timeline) -> impl Iterator<Item = &TurnBody> {
    timeline.items().into_iter().filter_map(|item| match &item.body {
        ItemBody::Turn(turn) => Some(turn),
        _ => None,
    })
}

/// The turn that runs.
pub fn running_turn(timeline: &Timeline) -> Option<&TurnBody> {
    turns(timeline).find(|turn| turn.state == TurnState::Running)
}

/// How a message's turn ended, once it has.
pub fn end_of(timeline: &Timeline, message: &MessageId) -> Option<TurnEnd> {
    let opened_by = Some(user_item(message));
    if let Some(turn) = turns(timeline).find(|turn| turn.user_item == opened_by) {
        return end_of_turn(timeline, turn);
    }
    let submission = timeline.submission(message)?;
    match (submission.state, &submission.fact) {
        (SubmissionState::Rejected, Some(fact)) => Some(TurnEnd::Rejected(fact.clone())),
        (SubmissionState::Rejected | SubmissionState::Unknown, _) => {
            Some(TurnEnd::Unconfirmed(submission.reason))
        }
        _ => None,
    }
}

/// How a turn ended, once it has.
pub fn end_of_turn(timeline: &Timeline, turn: &TurnBody) -> Option<TurnEnd> {
    let over = turn.state != TurnState::Running;
    over.then(|| TurnEnd::Over(Box::new(turn.clone()), fact_of(timeline, &turn.turn)))
}

/// Whether the message has opened its turn.
pub fn has_turn(timeline: &Timeline, message: &MessageId) -> bool {
    let opened_by = Some(user_item(message));
    turns(timeline).any(|turn| turn.user_item == opened_by)
}

/// The failure that was noted in a turn.
fn fact_of(timeline: &Timeline, turn: &TurnKey) -> Option<FailureFact> {
    let items = timeline.items();
    let of_turn = items.iter().rev().filter(|item| item.scope.as_ref() == Some(turn));
    of_turn.into_iter().find_map(|item| match &item.body {
        ItemBody::Status(status) => status.fact.clone(),
        _ => None,
    })
}
