//! What a client keeps of one session: the snapshot and every batch, folded so that overlaps converge (rule 6.7.2).

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Batch, ContextView, Cursor, ItemBody, ItemView, Snapshot, SubmissionView, TextGrowth,
    place_text,
};
use crate::ids::{Fence, ItemKey, MessageId};

/// A client's copy of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    cursor: Cursor,
    fence: Fence,
    items: BTreeMap<ItemKey, (u64, ItemView)>,
    removed: BTreeMap<ItemKey, u64>,
    /// The newest snapshot: up to here, what it does not hold is gone.
    whole: u64,
    submissions: BTreeMap<MessageId, SubmissionView>,
    context: Option<ContextView>,
}

impl Timeline {
    /// As of where.
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// The session's fence.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// The context ring's newest reading.
    pub fn context(&self) -> Option<ContextView> {
        self.context
    }

    /// Items in the order of the timeline.
    pub fn items(&self) -> Vec<&ItemView> {
        let mut items: Vec<_> = self.items.values().map(|(_, item)| item).collect();
        items.sort_by_key(|item| item.position);
        items
    }

    /// One item.
    pub fn item(&self, item: &ItemKey) -> Option<&ItemView> {
        self.items.get(item).map(|(_, item)| item)
    }

    /// One submission.
    pub fn submission(&self, message: &MessageId) -> Option<&SubmissionView> {
        self.submissions.get(message)
    }

    /// Submissions by the time they were accepted.
    pub fn submissions(&self) -> Vec<&SubmissionView> {
        let mut all: Vec<_> = self.submissions.values().collect();
        all.sort_by(|a, b| (a.requested_ms, &a.message_id).cmp(&(b.requested_ms, &b.message_id)));
        all
    }

    /// Takes a whole timeline. A snapshot of another epoch replaces everything.
    pub fn apply_snapshot(&mut self, snapshot: Snapshot) {
        if snapshot.cursor.epoch != self.cursor.epoch {
            *self = Self::default();
        }
        let as_of = snapshot.cursor.seq;
        if as_of > self.whole {
            self.whole = as_of;
            // What was removed while nobody was told.
            let kept: BTreeSet<_> = snapshot.items.iter().map(|i| &i.item).collect();
            self.items.retain(|key, (seen, _)| *seen > as_of || kept.contains(key));
        }
        for item in snapshot.items {
            self.put(as_of, item);
        }
        for submission in snapshot.submissions {
            self.put_submission(submission);
        }
        self.advance(snapshot.cursor, snapshot.fence, snapshot.context);
    }

    /// Takes what a commit changed. Applied twice, or over a catch-up, it changes nothing more. A batch of another epoch
    /// than what is held was under way when the epoch changed, and is not mixed in (rule 6.6.2): only a snapshot leads
    /// into an epoch.
    pub fn apply_batch(&mut self, batch: Batch) {
        let held = &self.cursor.epoch;
        if !held.as_str().is_empty() && *held != batch.cursor.epoch {
            return;
        }
        let as_of = batch.cursor.seq;
        for item in batch.items {
            self.put(as_of, item);
        }
        for growth in batch.texts {
            self.grow(as_of, growth);
        }
        for gone in batch.removed {
            let older = self.items.get(&gone.item).is_some_and(|(_, i)| i.revision < gone.revision);
            if older {
                self.items.remove(&gone.item);
            }
            let known = self.removed.entry(gone.item).or_default();
            *known = (*known).max(gone.revision);
        }
        for submission in batch.submissions {
            self.put_submission(submission);
        }
        self.advance(batch.cursor, batch.fence, batch.context);
    }

    fn advance(&mut self, cursor: Cursor, fence: Fence, context: Option<ContextView>) {
        if context.is_some() && cursor.seq >= self.cursor.seq {
            self.context = context;
        }
        self.fence = self.fence.max(fence);
        if cursor.epoch != self.cursor.epoch || cursor.seq > self.cursor.seq {
            self.cursor = cursor;
        }
    }

    fn put(&mut self, as_of: u64, item: ItemView) {
        let gone = self.removed.get(&item.item).is_some_and(|r| *r >= item.revision);
        // At equal revision the later as-of wins (decision D26).
        let older = self
            .items
            .get(&item.item)
            .is_some_and(|(seen, known)| (known.revision, *seen) > (item.revision, as_of));
        // A late batch must not bring back what a snapshot no longer held.
        let dropped = as_of < self.whole && !self.items.contains_key(&item.item);
        if !gone && !older && !dropped {
            self.items.insert(item.item.clone(), (as_of, item));
        }
    }

    fn grow(&mut self, as_of: u64, growth: TextGrowth) {
        let Some((seen, item)) = self.items.get_mut(&growth.item) else {
            return;
        };
        if item.revision >= growth.revision {
            return;
        }
        if let ItemBody::Message(message) = &mut item.body {
            if growth.at > message.text.len() as u64 {
                // What lies before it has not come: it is not taken for the whole.
                return;
            }
            place_text(&mut message.text, growth.at, &growth.text.0);
            if growth.cut.is_some() {
                message.cut = growth.cut;
            }
            item.revision = growth.revision;
            *seen = as_of;
        }
    }

    fn put_submission(&mut self, submission: SubmissionView) {
        let older =
            self.submissions.get(&submission.message_id).is_some_and(|s| s.seq > submission.seq);
        if !older {
            self.submissions.insert(submission.message_id.clone(), submission);
        }
    }
}
