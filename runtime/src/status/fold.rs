//! The fold every client uses over the status stream (rules 4.5.1, 4.5.2). One function, desktop and phone alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{StatusFrame, Summary};
use crate::ids::SessionId;

/// What a client holds.
pub type Summaries = Arc<BTreeMap<SessionId, Summary>>;

/// Takes one frame. The same object comes back when nothing changed, so that nothing is drawn again.
pub fn fold(held: Summaries, frame: StatusFrame) -> Summaries {
    let changed: Vec<Summary> = match frame {
        // A snapshot merges over what is held: a restarting host's first one may be empty (rule 4.5.1).
        StatusFrame::Snapshot { summaries } => summaries,
        StatusFrame::Status { summary } => vec![*summary],
        StatusFrame::End => Vec::new(),
    };
    let changed: Vec<_> =
        changed.into_iter().filter(|s| held.get(&s.session_id) != Some(s)).collect();
    if changed.is_empty() {
        return held;
    }
    let mut next = (*held).clone();
    next.extend(changed.into_iter().map(|s| (s.session_id.clone(), s)));
    Arc::new(next)
}

/// Contact with the host was lost: what only the host can know is dropped, everything else is kept. Losing contact is
/// never an exit (rule 4.5.2).
pub fn contact_lost(held: Summaries) -> Summaries {
    let mut next = (*held).clone();
    let mut changed = false;
    for summary in next.values_mut() {
        changed |= summary.let_go();
    }
    if changed { Arc::new(next) } else { held }
}
