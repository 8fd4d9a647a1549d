//! What oracles pick out of stored rows.

use std::collections::BTreeMap;

use moored::ids::{Fence, Generation, SessionId};
use moored::journal::{
    ChildRow, DispatchRow, ItemBody, ItemRow, Mark, Mutation, Row, RowKind, StopEvent, TurnBody,
    TurnState,
};

use crate::witness::{ChildNo, Facts};

/// Every item a row writes, its own or its batch's.
pub(super) fn items(row: &Row) -> impl Iterator<Item = &ItemRow> {
    let own = match &row.kind {
        RowKind::Item(item) => Some(item),
        _ => None,
    };
    let batched = mutations(row).iter().filter_map(|mutation| match mutation {
        Mutation::Item(item) => Some(item),
        _ => None,
    });
    own.into_iter().chain(batched)
}

/// Every turn a row writes.
pub(super) fn turns(row: &Row) -> impl Iterator<Item = &TurnBody> {
    items(row).filter_map(|item| match &item.body {
        ItemBody::Turn(turn) => Some(turn),
        _ => None,
    })
}

/// Every dispatch a row writes.
pub(super) fn dispatches(row: &Row) -> impl Iterator<Item = &DispatchRow> {
    let own = match &row.kind {
        RowKind::Dispatch(dispatch) => Some(dispatch),
        _ => None,
    };
    let batched = mutations(row).iter().filter_map(|mutation| match mutation {
        Mutation::Dispatch(dispatch) => Some(dispatch),
        _ => None,
    });
    own.into_iter().chain(batched)
}

/// The Stop a row records.
pub(super) fn stop(row: &Row) -> Option<&StopEvent> {
    match &row.kind {
        RowKind::Mark { mark: Mark::Stop(stop) } => Some(stop),
        _ => None,
    }
}

/// What a row says of a child.
pub(super) fn child(row: &Row) -> Option<&ChildRow> {
    match &row.kind {
        RowKind::Child(child) => Some(child),
        _ => None,
    }
}

fn mutations(row: &Row) -> &[Mutation] {
    match &row.kind {
        RowKind::Batch { mutations, .. } => mutations,
        _ => &[],
    }
}

/// Whether a turn in this state is over.
pub(super) fn is_over(state: TurnState) -> bool {
    state != TurnState::Running
}

/// What an oracle keeps of one session, made when it is first asked for.
pub(super) fn of<'a, T: Default>(
    kept: &'a mut BTreeMap<SessionId, T>,
    session: &SessionId,
) -> &'a mut T {
    if !kept.contains_key(session) {
        kept.insert(session.clone(), T::default());
    }
    #[expect(clippy::expect_used, reason = "it was put there the line before")]
    kept.get_mut(session).expect("it is there")
}

/// Which child a generation is, from the rows that record starts.
#[derive(Default)]
pub(super) struct Generations(BTreeMap<Generation, ChildNo>);

impl Generations {
    /// Learns from a row.
    pub(super) fn learn(&mut self, row: &Row, facts: &Facts) {
        if let Some(ChildRow::Started { generation, identity }) = child(row)
            && let Some(no) = facts.child_of(&identity.root)
        {
            self.0.insert(generation.clone(), no);
        }
    }

    /// The child of that generation, if its start is recorded.
    pub(super) fn child(&self, generation: &Generation) -> Option<ChildNo> {
        self.0.get(generation).copied()
    }
}

/// Which child runs under a fence, from the rows that record starts.
#[derive(Default)]
pub(super) struct Fences(BTreeMap<SessionId, BTreeMap<Fence, ChildNo>>);

impl Fences {
    /// Learns from a row.
    pub(super) fn learn(&mut self, session: &SessionId, row: &Row, facts: &Facts) {
        if let Some(ChildRow::Started { identity, .. }) = child(row)
            && let Some(no) = facts.child_of(&identity.root)
        {
            of(&mut self.0, session).insert(row.fence, no);
        }
    }

    /// The child of that fence, if its start is recorded.
    pub(super) fn child(&self, session: &SessionId, fence: Fence) -> Option<ChildNo> {
        self.0.get(session)?.get(&fence).copied()
    }
}

/// The generation a row about a child names.
pub(super) fn generation(child: &ChildRow) -> Option<&Generation> {
    match child {
        ChildRow::Started { generation, .. }
        | ChildRow::Exited { generation, .. }
        | ChildRow::Settled { generation, .. } => Some(generation),
        _ => None,
    }
}
