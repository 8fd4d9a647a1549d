//! The fold: rows in, the reduced timeline out. Maintained incrementally; nothing rescans a journal (rule 6.5.6).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    Batch, ChildRow, ContextView, Cursor, Cut, DispatchRow, DispatchState, ItemBody, ItemRow,
    ItemView, Mark, MessageBody, Mutation, Position, Removed, Resolution, Row, RowKind, SendMode,
    Snapshot, StopEvent, StreamedText, SubmissionState, SubmissionView, TextGrowth, ToolStatus,
    TurnBody, TurnState, UnknownReason, UserBody,
};
use crate::failure::FailureCode;
use crate::ids::{Fence, ItemKey, MessageId, TurnKey, key};
use crate::limits::SETTLEMENTS_REMEMBERED_MAX;

/// An item as the fold holds it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Item {
    /// Its revision.
    pub revision: u64,
    /// Where it stands.
    pub position: Position,
    /// The turn it belongs to.
    pub scope: Option<TurnKey>,
    /// When it was first seen.
    pub observed_ms: u64,
    /// Bytes of streamed text so far, whether or not the text itself is kept.
    pub text_bytes: u64,
    /// Its body.
    pub body: ItemBody,
}

impl Item {
    fn planned(&self) -> Self {
        let body = match &self.body {
            ItemBody::Message(message) => ItemBody::Message(MessageBody {
                text: String::new(),
                cut: message.cut.clone(),
                ..*message
            }),
            body => body.clone(),
        };
        Self { scope: self.scope.clone(), body, ..*self }
    }
}

/// A submission as the fold holds it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Submission {
    /// As it is published.
    pub view: SubmissionView,
    /// Digest of its payload.
    pub fingerprint: String,
    /// The fence it was handed over under.
    pub fence: Fence,
}

/// The newest request a verdict can be about (rule 4.2.4).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub enum LatestRequest {
    /// A turn.
    Turn(ItemKey),
    /// A send that the agent or its start refused.
    Refused(MessageId),
}

/// What one row or one commit touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    items: BTreeSet<ItemKey>,
    texts: Vec<TextGrowth>,
    removed: Vec<Removed>,
    submissions: BTreeSet<MessageId>,
    context: bool,
    /// Nobody is to be told: the rows are read back.
    unheard: bool,
}

impl Touched {
    /// For rows that nobody is told of; stays empty, and copies nothing.
    pub fn unheard() -> Self {
        Self { unheard: true, ..Self::default() }
    }

    fn item(&mut self, key: &ItemKey) {
        if !self.unheard {
            self.items.insert(key.clone());
        }
    }

    fn submission(&mut self, message: &MessageId) {
        if !self.unheard {
            self.submissions.insert(message.clone());
        }
    }

    /// Whether clients have anything to be told.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
            && self.texts.is_empty()
            && self.removed.is_empty()
            && self.submissions.is_empty()
            && !self.context
    }
}

/// The reduced state of one session's journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Fold {
    cursor: Cursor,
    fence: Fence,
    items: BTreeMap<ItemKey, Item>,
    order: BTreeMap<Position, ItemKey>,
    removed: BTreeMap<ItemKey, u64>,
    submissions: BTreeMap<MessageId, Submission>,
    /// In the order in which they will go out.
    queued: BTreeMap<u64, MessageId>,
    outstanding: BTreeSet<MessageId>,
    live_unknown: BTreeSet<MessageId>,
    pending_approvals: BTreeSet<ItemKey>,
    running_turns: BTreeSet<ItemKey>,
    running_tools: BTreeSet<ItemKey>,
    latest_turn: Option<ItemKey>,
    latest_request: Option<LatestRequest>,
    latest_stop: Option<(u64, StopEvent)>,
    latest_prompt: Option<ItemKey>,
    latest_answer: Option<ItemKey>,
    latest_tool: Option<ItemKey>,
    context: Option<ContextView>,
    settlements: VecDeque<String>,
    started_children: BTreeMap<Fence, ChildRow>,
    exited_children: BTreeMap<Fence, ChildRow>,
    updated_ms: u64,
    /// A request was ever made: the session is listable (rule 4.2.3).
    requested: bool,
    keeps_text: bool,
}

impl Fold {
    /// An empty fold that keeps all text: what readers see.
    pub fn new() -> Self {
        Self { keeps_text: true, ..Self::default() }
    }

    /// An empty fold that keeps only the length of streamed text: what the machine plans with.
    pub fn planning() -> Self {
        Self::default()
    }

    /// The same state as the machine plans with: streamed text is not copied.
    pub fn planning_copy(&mut self) -> Self {
        let items = std::mem::take(&mut self.items);
        let mut planning = Self { keeps_text: false, ..self.clone() };
        planning.items = items.iter().map(|(key, item)| (key.clone(), item.planned())).collect();
        self.items = items;
        planning
    }

    /// The last row.
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// The highest fence seen.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// One item.
    pub fn item(&self, item: &ItemKey) -> Option<&Item> {
        self.items.get(item)
    }

    /// The revision that a new row of `item` must carry (rule 6.4.2).
    pub fn next_revision(&self, item: &ItemKey) -> u64 {
        let current = self.items.get(item).map(|i| i.revision);
        current.or_else(|| self.removed.get(item).copied()).unwrap_or(0) + 1
    }

    /// One submission.
    pub fn submission(&self, message: &MessageId) -> Option<&Submission> {
        self.submissions.get(message)
    }

    /// Every message, in no order of time.
    pub fn submissions(&self) -> impl Iterator<Item = (&MessageId, &Submission)> {
        self.submissions.iter()
    }

    /// Messages that were accepted and not handed over, oldest first.
    pub fn queued(&self) -> impl Iterator<Item = &MessageId> {
        self.queued.values()
    }

    /// Messages handed over and not settled.
    pub fn outstanding(&self) -> impl Iterator<Item = &MessageId> {
        self.outstanding.iter()
    }

    /// Unknown deliveries of the fence that is current and whose child may still settle them: once it is gone nobody
    /// will (rules 4.2.2, 8.2).
    pub fn live_unknown(&self) -> impl Iterator<Item = &MessageId> {
        let gone = self.exited_child(self.fence).is_some();
        self.live_unknown.iter().filter(move |m| {
            !gone && self.submissions.get(*m).is_some_and(|s| s.fence == self.fence)
        })
    }

    /// Permission requests that wait for a person.
    pub fn pending_approvals(&self) -> impl Iterator<Item = &ItemKey> {
        self.pending_approvals.iter()
    }

    /// Turns that read running; one at most, but for a journal of an earlier fault.
    pub fn running_turns(&self) -> impl Iterator<Item = &ItemKey> {
        self.running_turns.iter()
    }

    /// The turn running now (rule 4.1.3).
    pub fn running_turn(&self) -> Option<&TurnBody> {
        match &self.items.get(self.running_turns.last()?)?.body {
            ItemBody::Turn(turn) => Some(turn),
            _ => None,
        }
    }

    /// Tool calls that read running.
    pub fn running_tools(&self) -> impl Iterator<Item = &ItemKey> {
        self.running_tools.iter()
    }

    /// The newest turn.
    pub fn latest_turn(&self) -> Option<&TurnBody> {
        match &self.items.get(self.latest_turn.as_ref()?)?.body {
            ItemBody::Turn(turn) => Some(turn),
            _ => None,
        }
    }

    /// The newest request a verdict can be about.
    pub fn latest_request(&self) -> Option<&LatestRequest> {
        self.latest_request.as_ref()
    }

    /// The latest Stop event and the row that carries it.
    pub fn latest_stop(&self) -> Option<(u64, &StopEvent)> {
        self.latest_stop.as_ref().map(|(seq, stop)| (*seq, stop))
    }

    /// The newest prompt's item.
    pub fn latest_prompt(&self) -> Option<&Item> {
        self.items.get(self.latest_prompt.as_ref()?)
    }

    /// The newest message of the agent's.
    pub fn latest_answer(&self) -> Option<&Item> {
        self.items.get(self.latest_answer.as_ref()?)
    }

    /// The newest tool call.
    pub fn latest_tool(&self) -> Option<&Item> {
        self.items.get(self.latest_tool.as_ref()?)
    }

    /// The context ring's newest reading.
    pub fn context(&self) -> Option<ContextView> {
        self.context
    }

    /// Whether a batch of this identity was applied (rule 6.5.4).
    pub fn has_settled(&self, settlement: &str) -> bool {
        self.settlements.iter().any(|s| s == settlement)
    }

    /// The recorded start of the child of `fence`.
    pub fn started_child(&self, fence: Fence) -> Option<&ChildRow> {
        self.started_children.get(&fence)
    }

    /// The recorded exit of the child of `fence`: the death evidence of its turns (rule 6.11.2).
    pub fn exited_child(&self, fence: Fence) -> Option<&ChildRow> {
        self.exited_children.get(&fence)
    }

    /// The journal's last activity.
    pub fn updated_ms(&self) -> u64 {
        self.updated_ms
    }

    /// Whether there was ever a request (rule 4.2.3).
    pub fn is_listable(&self) -> bool {
        self.requested
    }

    /// Items in the order of the timeline.
    pub fn timeline(&self) -> impl DoubleEndedIterator<Item = (&ItemKey, &Item)> {
        self.order.values().filter_map(|key| self.items.get_key_value(key))
    }

    /// The whole timeline (rule 6.7.1).
    pub fn snapshot(&self) -> Snapshot {
        let mut submissions: Vec<_> = self.submissions.values().map(|s| s.view.clone()).collect();
        submissions
            .sort_by(|a, b| (a.requested_ms, &a.message_id).cmp(&(b.requested_ms, &b.message_id)));
        Snapshot {
            cursor: self.cursor.clone(),
            fence: self.fence,
            items: self.timeline().map(|(key, item)| self.view(key, item)).collect(),
            submissions,
            context: self.context,
        }
    }

    fn view(&self, key: &ItemKey, item: &Item) -> ItemView {
        ItemView {
            item: key.clone(),
            revision: item.revision,
            position: item.position,
            scope: item.scope.clone(),
            observed_ms: item.observed_ms,
            body: self.published_body(item),
        }
    }

    /// What clients are told of a commit (rule 6.7.2).
    pub fn batch(&self, touched: Touched) -> Batch {
        let mut items: Vec<_> = touched
            .items
            .iter()
            .filter_map(|key| self.items.get(key).map(|item| self.view(key, item)))
            .collect();
        let notes = items.iter().filter_map(|item| match &item.body {
            ItemBody::Turn(turn) => self.corrected_note(turn),
            _ => None,
        });
        let notes: Vec<_> = notes.filter(|note| !touched.items.contains(note)).collect();
        items.extend(notes.iter().filter_map(|key| Some(self.view(key, self.items.get(key)?))));
        items.sort_by_key(|item| item.position);
        // A text that travels whole needs no growth beside it.
        let texts =
            touched.texts.into_iter().filter(|t| !touched.items.contains(&t.item)).collect();
        Batch {
            cursor: self.cursor.clone(),
            fence: self.fence,
            items,
            texts,
            removed: touched.removed,
            submissions: touched
                .submissions
                .iter()
                .filter_map(|m| self.submissions.get(m).map(|s| s.view.clone()))
                .collect(),
            context: if touched.context { self.context } else { None },
        }
    }

    /// Applies one row; rows come in the order of their sequence.
    pub fn apply(&mut self, row: &Row, touched: &mut Touched) {
        debug_assert!(
            row.epoch != self.cursor.epoch || row.seq == self.cursor.seq + 1,
            "rows are applied in order"
        );
        if self.cursor.epoch != row.epoch {
            self.cursor.epoch = row.epoch.clone();
        }
        self.cursor.seq = row.seq;
        self.fence = self.fence.max(row.fence);
        let at = At { seq: row.seq, at_ms: row.at_ms, fence: row.fence, recovered: row.recovered };
        if !matches!(row.kind, RowKind::Child(_) | RowKind::Epoch { .. }) {
            self.updated_ms = row.at_ms;
        }
        match &row.kind {
            RowKind::Epoch { .. } => {}
            RowKind::Item(item) => self.put_item(at, 0, item, touched),
            RowKind::Text { item, revision, at: offset, text, cut } => {
                if self.grow_text(item, *revision, *offset, &text.0, cut.as_ref())
                    && !touched.unheard
                {
                    touched.texts.push(TextGrowth {
                        item: item.clone(),
                        revision: *revision,
                        at: *offset,
                        text: text.clone(),
                        cut: cut.clone(),
                    });
                }
            }
            RowKind::Tombstone { item, revision } => self.remove(item, *revision, touched),
            RowKind::Mark { mark } => self.put_mark(at, mark, touched),
            RowKind::Submission { message_id, fingerprint, text, mode, requested_ms } => {
                let accepted = NewSubmission {
                    message_id,
                    fingerprint,
                    text,
                    mode: *mode,
                    requested_ms: *requested_ms,
                };
                self.put_submission(at, &accepted, touched);
            }
            RowKind::Dispatch(dispatch) => self.put_dispatch(at, 0, dispatch, touched),
            RowKind::Batch { settlement, mutations } => {
                if self.has_settled(settlement) {
                    return;
                }
                self.remember_settlement(settlement);
                for (index, mutation) in (0_u32..).zip(mutations) {
                    match mutation {
                        Mutation::Item(item) => self.put_item(at, index, item, touched),
                        Mutation::Tombstone { item, revision } => {
                            self.remove(item, *revision, touched)
                        }
                        Mutation::Dispatch(dispatch) => {
                            self.put_dispatch(at, index, dispatch, touched)
                        }
                    }
                }
            }
            RowKind::Child(child) => self.put_child(at, child),
        }
    }

    fn put_item(&mut self, at: At, index: u32, row: &ItemRow, touched: &mut Touched) {
        let gone = self.removed.get(&row.item).copied().unwrap_or(0);
        let known = self.items.get(&row.item);
        if known.is_some_and(|i| i.revision >= row.revision) || gone >= row.revision {
            return;
        }
        // Position, scope and first sight are pinned by the creating write (rule 6.4.3).
        let (position, scope, observed_ms) = match known {
            Some(item) => (item.position, item.scope.clone(), item.observed_ms),
            None => (Position { seq: at.seq, index }, row.scope.clone(), at.at_ms),
        };
        let mut body = row.body.clone();
        let mut text_bytes = 0;
        if let ItemBody::Message(message) = &mut body {
            text_bytes = message.text.len() as u64;
            if !self.keeps_text {
                message.text = String::new();
            }
        }
        self.removed.remove(&row.item);
        self.order.insert(position, row.item.clone());
        self.index_item(&row.item, &body);
        let item = Item { revision: row.revision, position, scope, observed_ms, text_bytes, body };
        self.items.insert(row.item.clone(), item);
        touched.item(&row.item);
    }

    fn index_item(&mut self, key: &ItemKey, body: &ItemBody) {
        let known = self.items.contains_key(key);
        match body {
            ItemBody::Turn(turn) => {
                keep(&mut self.running_turns, key, turn.state == TurnState::Running);
                if !known {
                    self.latest_turn = Some(key.clone());
                    self.latest_request = Some(LatestRequest::Turn(key.clone()));
                    self.requested = true;
                }
            }
            ItemBody::Tool(tool) => {
                keep(&mut self.running_tools, key, tool.status == ToolStatus::Running);
                self.latest_tool = Some(key.clone());
            }
            ItemBody::Approval(approval) => {
                keep(&mut self.pending_approvals, key, approval.resolution == Resolution::Pending);
            }
            ItemBody::Message(message) => {
                if message.role == super::Role::Agent && !known {
                    self.latest_answer = Some(key.clone());
                }
                self.requested = true;
            }
            ItemBody::User(_) | ItemBody::Plan(_) | ItemBody::Status(_) | ItemBody::Raw(_) => {}
        }
    }

    /// Whether the text was taken.
    fn grow_text(
        &mut self,
        key: &ItemKey,
        revision: u64,
        at: u64,
        text: &str,
        cut: Option<&Cut>,
    ) -> bool {
        let keeps_text = self.keeps_text;
        let Some(item) = self.items.get_mut(key).filter(|i| i.revision < revision) else {
            return false;
        };
        let ItemBody::Message(message) = &mut item.body else {
            return false;
        };
        if keeps_text {
            place_text(&mut message.text, at, text);
        }
        if cut.is_some() {
            message.cut = cut.cloned();
        }
        item.text_bytes = item.text_bytes.max(at + text.len() as u64);
        item.revision = revision;
        true
    }

    fn remove(&mut self, key: &ItemKey, revision: u64, touched: &mut Touched) {
        let gone = self.removed.get(key).copied().unwrap_or(0);
        if gone >= revision || self.items.get(key).is_some_and(|i| i.revision >= revision) {
            return;
        }
        if let Some(item) = self.items.remove(key) {
            self.order.remove(&item.position);
            for set in
                [&mut self.running_turns, &mut self.running_tools, &mut self.pending_approvals]
            {
                set.remove(key);
            }
        }
        touched.items.remove(key);
        self.removed.insert(key.clone(), revision);
        if !touched.unheard {
            touched.removed.push(Removed { item: key.clone(), revision });
        }
    }

    fn put_mark(&mut self, at: At, mark: &Mark, touched: &mut Touched) {
        match mark {
            Mark::Stop(stop) => self.latest_stop = Some((at.seq, stop.clone())),
            Mark::Context { used, size } => {
                self.context = Some(ContextView { used: *used, size: *size });
                touched.context = !touched.unheard;
            }
            Mark::Unknown => {}
        }
    }

    fn put_submission(&mut self, at: At, new: &NewSubmission<'_>, touched: &mut Touched) {
        if self.submissions.contains_key(new.message_id) {
            return;
        }
        let view = SubmissionView {
            message_id: new.message_id.clone(),
            state: SubmissionState::Queued,
            mode: new.mode,
            requested_ms: new.requested_ms,
            handed_over_ms: None,
            seq: at.seq,
            fact: None,
            reason: None,
            recovered: false,
        };
        let submission = Submission { view, fingerprint: new.fingerprint.clone(), fence: at.fence };
        self.submissions.insert(new.message_id.clone(), submission);
        self.queued.insert(at.seq, new.message_id.clone());
        touched.submission(new.message_id);
        let body = UserBody { message_id: new.message_id.clone(), text: new.text.0.clone() };
        let row = ItemRow {
            item: user_item(new.message_id),
            revision: 1,
            scope: None,
            body: ItemBody::User(body),
        };
        self.put_item(at, 0, &row, touched);
        self.latest_prompt = Some(row.item);
    }

    fn put_dispatch(&mut self, at: At, index: u32, row: &DispatchRow, touched: &mut Touched) {
        let Some(submission) = self.submissions.get_mut(&row.message_id) else {
            return;
        };
        // Terminal states stand (rule 5.1.3).
        if matches!(submission.view.state, SubmissionState::Accepted | SubmissionState::Rejected) {
            return;
        }
        let view = &mut submission.view;
        view.state = row.state.into();
        view.seq = at.seq;
        view.fact.clone_from(&row.fact);
        view.reason = row.reason;
        view.recovered = at.recovered;
        if row.state == DispatchState::HandedOver {
            view.handed_over_ms = Some(at.at_ms);
            submission.fence = at.fence;
        }
        let message = row.message_id.clone();
        self.queued.retain(|_, m| *m != message);
        keep(&mut self.outstanding, &message, row.state == DispatchState::HandedOver);
        keep(
            &mut self.live_unknown,
            &message,
            // Only a delivery that a living child may still settle: one that its child's end made unknown nobody will
            // (rules 4.2.2, 8.2).
            row.state == DispatchState::Unknown
                && !at.recovered
                && row.reason == Some(UnknownReason::WriteUnconfirmed),
        );
        match row.state {
            DispatchState::HandedOver => {
                self.move_item(at, index, &message, row.scope.clone(), touched)
            }
            DispatchState::Rejected => {
                self.move_item(at, index, &message, None, touched);
                if row.fact.as_ref().is_some_and(|f| refused_by_agent(f.code)) {
                    self.latest_request = Some(LatestRequest::Refused(message.clone()));
                    self.requested = true;
                }
            }
            DispatchState::Accepted | DispatchState::Unknown => self.requested = true,
        }
        touched.submission(&message);
    }

    /// A queued message moves to its handover, a rejected one to its rejection (rule 6.4.4).
    fn move_item(
        &mut self,
        at: At,
        index: u32,
        message: &MessageId,
        scope: Option<TurnKey>,
        touched: &mut Touched,
    ) {
        let key = user_item(message);
        let Some(item) = self.items.get_mut(&key) else {
            return;
        };
        self.order.remove(&item.position);
        item.position = Position { seq: at.seq, index };
        item.scope = scope;
        item.revision += 1;
        touched.item(&key);
        self.order.insert(item.position, key);
    }

    fn put_child(&mut self, at: At, child: &ChildRow) {
        match child {
            ChildRow::Started { .. } => {
                self.started_children.insert(at.fence, child.clone());
            }
            ChildRow::Exited { .. } => {
                self.exited_children.insert(at.fence, child.clone());
            }
            ChildRow::Settled { .. } => {}
        }
        // Only the newest few fences can still own an unsettled turn.
        for map in [&mut self.started_children, &mut self.exited_children] {
            while map.len() > CHILDREN_REMEMBERED_MAX {
                map.pop_first();
            }
        }
    }

    fn remember_settlement(&mut self, settlement: &str) {
        if self.settlements.len() == SETTLEMENTS_REMEMBERED_MAX {
            self.settlements.pop_front();
        }
        self.settlements.push_back(settlement.to_owned());
    }
}

/// Children whose start and exit are remembered.
pub const CHILDREN_REMEMBERED_MAX: usize = 16;

#[derive(Clone, Copy)]
struct At {
    seq: u64,
    at_ms: u64,
    fence: Fence,
    recovered: bool,
}

struct NewSubmission<'a> {
    message_id: &'a MessageId,
    fingerprint: &'a String,
    text: &'a StreamedText,
    mode: SendMode,
    requested_ms: u64,
}

/// The item of a person's message.
pub fn user_item(message: &MessageId) -> ItemKey {
    ItemKey(key(&["user", message.as_str()]))
}

/// The item of a turn.
pub fn turn_item(turn: &TurnKey) -> ItemKey {
    ItemKey(key(&["turn", turn.as_str()]))
}

/// A rejection that says something about the agent makes the session listable and its verdict a failure; a withdrawal
/// or a message left unsent does not (rule 4.2.3).
fn refused_by_agent(code: FailureCode) -> bool {
    !matches!(
        code,
        FailureCode::Cancelled
            | FailureCode::ChatClosed
            | FailureCode::HostRestarted
            | FailureCode::HostStopped
            | FailureCode::MessageTooLarge
            | FailureCode::QueueFull
            | FailureCode::WriteFailed
            | FailureCode::EmptyMessage
    )
}

/// Places `text` at a byte offset; what is already there is overwritten by the same bytes (decision D31).
pub fn place_text(whole: &mut String, at: u64, text: &str) {
    let Ok(at) = usize::try_from(at) else {
        return;
    };
    if at == whole.len() {
        whole.push_str(text);
    } else if at < whole.len() && whole.is_char_boundary(at) {
        let known = whole.len() - at;
        if let Some(more) = text.get(known..) {
            whole.push_str(more);
        }
    }
}

fn keep<T: Ord + Clone>(set: &mut BTreeSet<T>, value: &T, inside: bool) {
    if inside {
        set.insert(value.clone());
    } else {
        set.remove(value);
    }
}
