//! What only planted bugs make of what is published: without one nothing here changes anything.

use super::machine::Session;
use crate::ids::MessageId;
use crate::journal::{Item, ItemBody, ItemView, stop_note};
use crate::planted::PlantedBug;
use crate::status::{Status, Summary};

impl Session {
    /// Notes of Stops in a whole (rule 3.6.6).
    pub(super) fn misread_notes(&self, items: &mut [ItemView]) {
        let never = self.plants(PlantedBug::NeverCorrectTheNote);
        let always = self.plants(PlantedBug::CorrectEveryNote);
        if !never && !always {
            return;
        }
        for view in items {
            if let Some(note) = self.doubtful_note(view) {
                view.body =
                    if never { note.body.clone() } else { ItemBody::Status(stop_note::taken()) };
            }
        }
    }

    /// Notes of Stops in a batch (rule 3.6.7).
    pub(super) fn misread_batch(&self, items: &mut Vec<ItemView>) {
        if self.plants(PlantedBug::NoteStaysBehindItsTurn) {
            items.retain(|view| self.doubtful_note(view).is_none_or(|note| note.body == view.body));
        }
        self.misread_notes(items);
    }

    /// What is stored of `view`, if that is the note of a Stop that was not confirmed.
    fn doubtful_note(&self, view: &ItemView) -> Option<&Item> {
        self.durable.item(&view.item).filter(|item| stop_note::is_unconfirmed(&item.body))
    }

    pub(super) fn misread_summary(&self, summary: &mut Summary) {
        if self.plants(PlantedBug::StoppingAtRest) && summary.status != Some(Status::Attention) {
            summary.stopping = self.is_stopping();
        }
        if self.plants(PlantedBug::StoppingHidesAQuestion)
            && summary.status == Some(Status::Attention)
            && self.is_stopping()
        {
            summary.status = Some(Status::Working);
            summary.stopping = true;
        }
        if self.plants(PlantedBug::WholePromptInTheSummary)
            && let Some(Item { body: ItemBody::User(user), .. }) = self.durable.latest_prompt()
        {
            summary.latest_prompt = Some(user.text.clone());
        }
    }

    /// A message that was sent behind a Stop is never handed over (rule 5.4.1).
    pub(super) fn holds_for_ever(&self, message: &MessageId) -> bool {
        let sent = self.plan.submission(message).map_or(0, |s| s.view.seq);
        self.plants(PlantedBug::HoldForEver)
            && self.child.is_none()
            && self.plan.latest_stop().is_some_and(|(at, s)| s.reason.is_a_persons() && at < sent)
    }
}
