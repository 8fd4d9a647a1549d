//! The derivation of a summary from the journal and the child on record (rules 4.2, 4.3).

use super::{ChildPhase, ChildRef, Status, StorageState, Summary};
use crate::ids::MessageId;
use crate::journal::{Fold, Item, ItemBody, LatestRequest, Outcome, TurnBody, TurnState};
use crate::limits::{HELD_LISTED_MAX, PREVIEW_CHARS_MAX};
use crate::session::record::SessionRecord;

/// What a summary is made of, beside the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryInput<'a> {
    /// The session's record.
    pub record: &'a SessionRecord,
    /// The durable journal.
    pub fold: &'a Fold,
    /// The child on record.
    pub child: Option<(ChildRef, ChildPhase)>,
    /// Whether the store refuses.
    pub storage: Option<StorageState>,
    /// When the present status began.
    pub status_started_at: Option<u64>,
    /// A person's Stop is under way; it is read only while the session works (rule 4.1.1).
    pub stopping: bool,
    /// Messages that wait behind that Stop, oldest first (rule 5.4.1); they are read only while it reads stopping.
    pub held: &'a [MessageId],
}

/// The summary (rule 4.3.1).
pub fn summary(input: &SummaryInput<'_>) -> Summary {
    let SummaryInput { record, fold, child, storage, status_started_at, stopping, held } = input;
    let status = status(fold);
    let working = status == Some(Status::Working);
    let stopping = working && *stopping;
    Summary {
        session_id: record.session.clone(),
        workspace_id: record.workspace.clone(),
        agent: record.agent.name.clone(),
        status,
        host_execution_owned: child.is_some(),
        host_execution_phase: child.as_ref().map(|(_, phase)| *phase),
        host_execution_child: child.as_ref().map(|(child, _)| child.clone()),
        latest_prompt: fold.latest_prompt().and_then(words).map(preview),
        tool_name: fold.latest_tool().filter(|_| working).and_then(words).map(preview),
        last_assistant_message: fold.latest_answer().and_then(words).map(first_line),
        turn_outcome: if status == Some(Status::Idle) { verdict(fold) } else { None },
        stopping,
        held: held.iter().filter(|_| stopping).take(HELD_LISTED_MAX).cloned().collect(),
        storage: *storage,
        conversation_name: record.name.clone(),
        updated_at: fold.updated_ms().max(record.created_ms),
        status_started_at: *status_started_at,
        cursor: fold.cursor().clone(),
    }
}

/// What the session is doing (rules 4.2.2, 4.2.3).
pub fn status(fold: &Fold) -> Option<Status> {
    let unanswered = fold.queued().next().is_some()
        || fold.outstanding().next().is_some()
        || fold.live_unknown().next().is_some();
    if fold.pending_approvals().next().is_some() {
        Some(Status::Attention)
    } else if unanswered || fold.running_turn().is_some() {
        Some(Status::Working)
    } else if fold.is_listable() {
        Some(Status::Idle)
    } else {
        None
    }
}

/// The verdict of the latest request (rule 4.2.4); `None` is unknown, never success.
pub fn verdict(fold: &Fold) -> Option<Outcome> {
    match fold.latest_request()? {
        LatestRequest::Refused(_) => Some(Outcome::Failure),
        LatestRequest::Turn(key) => match &fold.item(key)?.body {
            ItemBody::Turn(turn) => outcome(turn),
            _ => None,
        },
    }
}

/// A turn's outcome as it is read: the stored one, else what its state says (rule 2.4.2).
pub fn outcome(turn: &TurnBody) -> Option<Outcome> {
    turn.outcome.or(match turn.state {
        TurnState::Interrupted => Some(Outcome::Interruption),
        TurnState::Unverifiable => Some(Outcome::Unconfirmed),
        TurnState::Running | TurnState::Completed => None,
    })
}

/// Whether two summaries say the same to a reader (rule 4.4.2): a tick of `updatedAt` while working is no news.
pub fn reads_the_same(a: &Summary, b: &Summary) -> bool {
    // Field by field, so that a new one is decided upon here.
    let Summary {
        session_id,
        workspace_id,
        agent,
        status,
        host_execution_owned,
        host_execution_phase,
        host_execution_child,
        latest_prompt,
        tool_name,
        last_assistant_message,
        turn_outcome,
        stopping,
        held,
        storage,
        conversation_name,
        updated_at,
        status_started_at,
        cursor: _,
    } = a;
    let ticks = *status != Some(Status::Idle) || status_started_at.is_some();
    (ticks || *updated_at == b.updated_at)
        && *session_id == b.session_id
        && *workspace_id == b.workspace_id
        && *agent == b.agent
        && *status == b.status
        && *host_execution_owned == b.host_execution_owned
        && *host_execution_phase == b.host_execution_phase
        && *host_execution_child == b.host_execution_child
        && *latest_prompt == b.latest_prompt
        && *tool_name == b.tool_name
        && *last_assistant_message == b.last_assistant_message
        && *turn_outcome == b.turn_outcome
        && *stopping == b.stopping
        && *held == b.held
        && *storage == b.storage
        && *conversation_name == b.conversation_name
        && *status_started_at == b.status_started_at
}

fn words(item: &Item) -> Option<&str> {
    match &item.body {
        ItemBody::User(user) => Some(&user.text),
        ItemBody::Message(message) => Some(&message.text),
        ItemBody::Tool(tool) => Some(&tool.title),
        _ => None,
    }
}

fn preview(text: &str) -> String {
    beginning(text).to_owned()
}

fn first_line(text: &str) -> String {
    beginning(text.trim_start()).split('\n').take(1).collect()
}

/// As much of a text as is shown; of a long one no more is read.
fn beginning(text: &str) -> &str {
    let end = text.char_indices().nth(PREVIEW_CHARS_MAX).map_or(text.len(), |(end, _)| end);
    &text[..end]
}
