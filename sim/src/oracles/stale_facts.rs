//! Invariant 2: what does not carry the current fence and generation has no effect.

use std::collections::BTreeMap;

use moored::ids::{Fence, Generation, SessionId};
use moored::journal::ChildRow;
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Verdict};
use crate::witness::{Facts, Seen};

/// No row of an older fence or of an older child follows one of a newer.
#[derive(Default)]
pub(super) struct StaleFacts {
    sessions: BTreeMap<SessionId, Newest>,
}

#[derive(Default)]
struct Newest {
    rows: Fence,
    record: Fence,
    /// The fence under which the newest child was started.
    started: Option<Fence>,
    child: Option<Generation>,
}

impl Oracle for StaleFacts {
    fn name(&self) -> &'static str {
        "stale-facts"
    }

    fn rule(&self) -> &'static str {
        "invariant 2, 6.5.2"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        let Seen::Stored { unit, .. } = seen else { return Ok(()) };
        let session = &unit.session;
        let newest = rows::of(&mut self.sessions, session);
        for row in &unit.rows {
            if row.fence < newest.rows {
                let (seq, old, new) = (row.seq, row.fence.0, newest.rows.0);
                return Err(format!(
                    "row {seq} of {session} has fence {old}, after one with fence {new}"
                ));
            }
            newest.rows = row.fence;
            let Some(child) = rows::child(row) else { continue };
            let Some(generation) = rows::generation(child) else { continue };
            if matches!(child, ChildRow::Started { .. }) {
                if newest.started.is_some_and(|fence| fence >= row.fence) {
                    let fence = row.fence.0;
                    return Err(format!(
                        "two children of {session} are started under fence {fence}"
                    ));
                }
                newest.started = Some(row.fence);
                newest.child = Some(generation.clone());
            } else if newest.started == Some(row.fence) && newest.child.as_ref() != Some(generation)
            {
                let seq = row.seq;
                return Err(format!(
                    "row {seq} of {session} is about a child that is not the newest"
                ));
            }
        }
        if let Some(change) = &unit.record {
            let fence = change.record.lease.fence;
            if fence < newest.record {
                let (old, new) = (fence.0, newest.record.0);
                return Err(format!("the lease of {session} goes back from fence {new} to {old}"));
            }
            newest.record = fence;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use moored::journal::TreeProof;

    use super::super::kit::{Story, exited, record, settled, started, submission};
    use super::*;

    #[test]
    fn fences_and_children_that_go_forward_hold() {
        let first = [started(0), exited(0), settled(0, TreeProof::Gone)];
        let story = Story::of(StaleFacts::default()).stored(1, first);
        story.stored(2, [submission(1), started(1), exited(1)]).holds();
    }

    #[test]
    fn an_older_fence_after_a_newer_one_is_found() {
        let story = Story::of(StaleFacts::default()).stored(2, [submission(1)]);
        story.stored(1, [submission(2)]).breaks("has fence 1, after one with fence 2");
        let mut old = record(None, false);
        old.lease.fence = Fence(0);
        let story = Story::of(StaleFacts::default()).recorded(record(None, false));
        story.recorded(old).breaks("goes back from fence 1 to 0");
    }

    #[test]
    fn an_older_child_after_a_newer_one_is_found() {
        let story =
            Story::of(StaleFacts::default()).stored(1, [started(0)]).stored(2, [started(1)]);
        story.stored(2, [exited(0)]).breaks("is not the newest");
        let story = Story::of(StaleFacts::default()).stored(1, [started(0)]);
        story.stored(1, [started(1)]).breaks("two children of s1 are started under fence 1");
    }
}
