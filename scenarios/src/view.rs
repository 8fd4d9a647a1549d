//! What a client of the session sees, and what a scenario waits for in it.

use moored::host::PermissionAnswer;
use moored::journal::{
    ItemBody, ItemView, Resolution, Role, SubmissionState, Timeline, ToolStatus, TurnState,
};
use moored::status::{ChildPhase, Status, Summary};

use crate::document::Moment;

/// What a client of the session sees.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct View {
    pub(crate) timeline: Timeline,
    summary: Option<Summary>,
    pub(crate) statuses: Vec<Status>,
    pub(crate) phases: Vec<ChildPhase>,
    /// The statuses, with what reads Stopping told apart.
    pub(crate) edges: Vec<String>,
    /// The wordings of Stop notes.
    pub(crate) notes: Vec<String>,
}

impl View {
    pub(crate) fn take_summary(&mut self, summary: Option<Summary>) {
        let status = summary.as_ref().and_then(|s| s.status);
        if let Some(status) = status.filter(|s| self.statuses.last() != Some(s)) {
            self.statuses.push(status);
        }
        if let Some(edge) = summary.as_ref().and_then(edge).filter(|e| self.edges.last() != Some(e))
        {
            self.edges.push(edge);
        }
        let phase = summary.as_ref().and_then(|s| s.host_execution_phase);
        if let Some(phase) = phase.filter(|p| self.phase() != Some(*p)) {
            self.phases.push(phase);
        }
        self.summary = summary;
    }

    /// Looks at the Stop notes once the timeline has changed.
    pub(crate) fn take_notes(&mut self) {
        let words = |item: &ItemView| match &item.body {
            ItemBody::Status(note) if item.item.as_str().starts_with("stop:") => {
                Some(note.text.clone())
            }
            _ => None,
        };
        let note = self.timeline.items().into_iter().rev().find_map(words);
        if let Some(note) = note.filter(|n| self.notes.last() != Some(n)) {
            self.notes.push(note);
        }
    }

    fn phase(&self) -> Option<ChildPhase> {
        self.summary.as_ref().and_then(|s| s.host_execution_phase)
    }
}

fn edge(summary: &Summary) -> Option<String> {
    let word = match summary.status? {
        Status::Working => "working",
        Status::Attention => "attention",
        Status::Idle => "idle",
        _ => "other",
    };
    let stopping = if summary.stopping { "+stopping" } else { "" };
    Some(format!("{word}{stopping}"))
}

pub(crate) fn has_happened(view: &View, event: Moment) -> bool {
    let timeline = &view.timeline;
    let turn = || {
        timeline.items().into_iter().rev().find_map(|i| match &i.body {
            ItemBody::Turn(turn) => Some(turn.state),
            _ => None,
        })
    };
    match event {
        Moment::ChildStarting => view.phase() == Some(ChildPhase::Starting),
        Moment::ChildReady => view.phase() == Some(ChildPhase::Ready),
        Moment::ChildGone => view.summary.is_some() && view.phase().is_none(),
        Moment::Rest => is_at_rest(view),
        Moment::PermissionPending => oldest_permission(timeline, None).is_some(),
        Moment::StopUnconfirmed => view.notes.last().is_some_and(|n| n.contains("not confirmed")),
        Moment::MessageAccepted => {
            timeline.submissions().last().is_some_and(|s| s.state == SubmissionState::Accepted)
        }
        Moment::ToolRunning => timeline
            .items()
            .iter()
            .any(|i| matches!(&i.body, ItemBody::Tool(t) if t.status == ToolStatus::Running)),
        Moment::TurnRunning => turn() == Some(TurnState::Running),
        Moment::TurnEnded => turn().is_some_and(|t| t != TurnState::Running),
    }
}

/// Nothing runs, nothing waits, nobody is asked.
pub(crate) fn is_at_rest(view: &View) -> bool {
    let busy = view
        .timeline
        .submissions()
        .iter()
        .any(|s| matches!(s.state, SubmissionState::Queued | SubmissionState::HandedOver));
    let status = view.summary.as_ref().and_then(|s| s.status);
    !busy && !matches!(status, Some(Status::Working | Status::Attention)) && !runs(&view.timeline)
}

fn runs(timeline: &Timeline) -> bool {
    timeline
        .items()
        .iter()
        .any(|i| matches!(&i.body, ItemBody::Turn(t) if t.state == TurnState::Running))
}

pub(crate) fn agent_text(timeline: &Timeline) -> String {
    let text = |i: &&ItemView| match &i.body {
        ItemBody::Message(m) if m.role == Role::Agent => Some(m.text.clone()),
        _ => None,
    };
    timeline.items().iter().filter_map(text).collect()
}

pub(crate) fn all_text(timeline: &Timeline) -> usize {
    let bytes = |i: &&ItemView| match &i.body {
        ItemBody::Message(m) => m.text.len(),
        _ => 0,
    };
    timeline.items().iter().map(bytes).sum()
}

pub(crate) fn oldest_permission(
    timeline: &Timeline,
    option: Option<String>,
) -> Option<PermissionAnswer> {
    timeline.items().into_iter().find_map(|i| match &i.body {
        ItemBody::Approval(a) if a.resolution == Resolution::Pending => Some(PermissionAnswer {
            item: i.item.clone(),
            expected_revision: i.revision,
            option: option.clone(),
        }),
        _ => None,
    })
}
