//! What of a cut turn reached the agent's own disk (decisions D20, D28): looked up once, when the root is gone.
//!
//! An agent's answer to a cancel does not say so. Where its definition tells how to read its session file, the child's end
//! row says whether the abort is there, and a turn whose message is not there is marked.

use super::Effect;
use super::append::Draft;
use super::machine::Session;
use super::timers::Timer;
use crate::coverage::CoverageMark;
use crate::ids::{Generation, TurnKey, key};
use crate::journal::{
    AbortPersisted, Item, ItemBody, SubmissionState, TurnBody, TurnState, turn_item, user_item,
};
use crate::limits::{SESSION_FILE_READ_MS, SESSION_FILE_TAIL_MAX};
use crate::platform::{FileTail, Moment};

/// The look into a child's session file.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) enum Look {
    /// Nothing was cut, or not yet.
    #[default]
    NotDue,
    /// This turn was cut on somebody's request.
    Due(TurnKey),
    /// The file is being read.
    Reading(TurnKey),
    /// What it said.
    Over(AbortPersisted),
}

impl Session {
    /// A turn row is written: whether its child has cut it on request.
    pub(super) fn note_cut(&mut self, body: &TurnBody) {
        if let Some(child) = self.child.as_mut().filter(|c| c.is_requested())
            && body.state == TurnState::Interrupted
            && body.user_item.is_some()
        {
            child.look = Look::Due(body.turn.clone());
        }
    }

    /// The root is gone and heard to its end: its file is as it will stay.
    pub(super) fn look_into_its_file(&mut self, now: Moment) {
        let agent = &self.record.agent;
        let Some(child) = self.child.as_mut() else { return };
        let Look::Due(turn) = &child.look else { return };
        if agent.session_file.is_none() || agent.prompt.is_none() || agent.verdict.is_none() {
            child.look = Look::NotDue;
            return;
        }
        let session = child.agent_session.as_ref();
        let Some(pattern) = session.and_then(|s| agent.session_file_pattern(s.as_str())) else {
            // An id that could lead anywhere, or a folder that is not given.
            child.look = Look::Over(AbortPersisted::Unknown);
            self.sometimes(CoverageMark::AbortUnknown);
            return;
        };
        child.look = Look::Reading(turn.clone());
        let generation = child.generation.clone();
        self.timers.arm(Timer::SessionFile, now.mono.plus_ms(SESSION_FILE_READ_MS));
        let bytes_max = SESSION_FILE_TAIL_MAX;
        self.effects.push_back(Effect::ReadTail { generation, pattern, bytes_max });
    }

    /// The end of the agent's session file.
    pub fn handle_file_tail(&mut self, now: Moment, generation: &Generation, tail: &FileTail) {
        let Some(child) = self.child_of(generation) else { return };
        if let Look::Reading(turn) = child.look.clone() {
            let found = match tail {
                // Where no file is found nothing is told by one: it may lie elsewhere.
                FileTail::Missing | FileTail::Unreadable => None,
                FileTail::Read { bytes, whole } => self.find_cut(&turn, bytes, *whole),
            };
            self.end_look(now, &turn, found);
        }
        self.advance(now);
    }

    /// It cannot be waited for any longer.
    pub(super) fn give_up_look(&mut self, now: Moment) {
        if let Some(Look::Reading(turn)) = self.child.as_ref().map(|c| c.look.clone()) {
            self.end_look(now, &turn, None);
        }
    }

    /// Whether the message and its abort are there.
    fn find_cut(&self, turn: &TurnKey, file: &[u8], whole: bool) -> Option<(bool, bool)> {
        let item = self.plan.item(&turn_item(turn))?;
        let ItemBody::Turn(TurnBody { user_item: Some(user), .. }) = &item.body else {
            return None;
        };
        let ItemBody::User(opening) = &self.plan.item(user)?.body else { return None };
        // By what reached the agent, not by the order of the timeline: a steer overtakes what waits.
        let withheld = self.held_back();
        let others = self.plan.submissions().filter(|(message, submission)| {
            !matches!(submission.view.state, SubmissionState::Queued | SubmissionState::Rejected)
                && withheld.as_ref() != Some(message)
        });
        let others = others.map(|(message, _)| user_item(message)).filter(|item| item != user);
        let earlier: Vec<&str> = others
            .filter_map(|item| match &self.plan.item(&item)?.body {
                ItemBody::User(user) => Some(user.text.as_str()),
                _ => None,
            })
            .collect();
        let agent = &self.record.agent;
        let found = agent.cut_on_disk(file, whole, opening.text.as_str(), &earlier)?;
        Some((found.prompt, found.aborted))
    }

    fn end_look(&mut self, now: Moment, turn: &TurnKey, found: Option<(bool, bool)>) {
        self.timers.clear(Timer::SessionFile);
        let (persisted, mark) = match found {
            Some((_, true)) => (AbortPersisted::Yes, CoverageMark::AbortPersisted),
            Some((_, false)) => (AbortPersisted::No, CoverageMark::AbortNotPersisted),
            None => (AbortPersisted::Unknown, CoverageMark::AbortUnknown),
        };
        self.sometimes(mark);
        if let Some(child) = self.child.as_mut() {
            child.look = Look::Over(persisted);
        }
        if let Some((false, _)) = found {
            self.doubt_delivery(now, turn);
        }
        self.settle_tree(now);
    }

    /// The agent never kept the message that opened the turn (decision D20): how the turn ended stands.
    fn doubt_delivery(&mut self, now: Moment, turn: &TurnKey) {
        let item = turn_item(turn);
        let Some(Item { body: ItemBody::Turn(body), .. }) = self.plan.item(&item) else { return };
        self.met.sometimes(CoverageMark::DeliveryUnproven);
        let body = TurnBody { delivery_unproven: true, ..body.clone() };
        let revised = self.revise(&item, ItemBody::Turn(body));
        let settlement = key(&["delivery", turn.as_str()]);
        self.plan_batch(now, &settlement, vec![revised], Draft::default());
    }
}
