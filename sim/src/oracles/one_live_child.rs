//! Invariant 1: one child a session, and no second spawn while the first is not provably gone.

use std::collections::BTreeMap;

use moored::journal::{ChildRow, TreeProof};
use moored::platform::{Mono, ProofKind};

use super::rows::{self, Generations};
use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, Seen};

/// At most one root of a session lives, whoever started it, and the next start waits for the tree of the last one where
/// its end can be observed (decision D33).
#[derive(Default)]
pub(super) struct OneLiveChild {
    generations: Generations,
    settled: BTreeMap<ChildNo, (TreeProof, ProofKind)>,
}

impl OneLiveChild {
    /// Processes that outlive a root may go on where they were left on purpose, or where nobody can observe them.
    fn may_linger(&self, child: ChildNo) -> bool {
        matches!(
            self.settled.get(&child),
            Some((TreeProof::Left, _) | (TreeProof::Unproven, ProofKind::GroupSnapshot))
        )
    }

    fn is_alone(&self, child: ChildNo, facts: &Facts) -> Verdict {
        let session = &facts.children[child].session;
        for (no, earlier) in facts.children.iter().enumerate() {
            if no == child || earlier.session != *session {
                continue;
            }
            if earlier.root.is_some() && earlier.exit.is_none() {
                return Err(format!(
                    "child {child} of {session} is started while the root of child {no} lives"
                ));
            }
            // What an earlier host could not end is found by its token (decision D18), which no host does yet: the next one
            // goes by the root alone.
            let known = earlier.host == facts.children[child].host;
            if known && !earlier.living.is_empty() && !self.may_linger(no) {
                let count = earlier.living.len();
                return Err(format!(
                    "child {child} of {session} is started while {count} processes of child {no} live"
                ));
            }
        }
        Ok(())
    }
}

impl Oracle for OneLiveChild {
    fn name(&self) -> &'static str {
        "one-live-child"
    }

    fn rule(&self) -> &'static str {
        "invariant 1, 1.6.10, D33"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::Spawning { child, .. } => self.is_alone(*child, facts),
            Seen::ProcessStarted { token: Some(token), root, .. } => {
                let Some(child) = facts.child_of_token(token) else { return Ok(()) };
                if matches!(self.settled.get(&child), Some((TreeProof::Gone, _))) {
                    return Err(format!(
                        "a process of child {child} starts after it was proven gone"
                    ));
                }
                if *root { self.is_alone(child, facts) } else { Ok(()) }
            }
            Seen::Stored { unit, .. } => {
                for row in &unit.rows {
                    self.generations.learn(row, facts);
                    if let Some(ChildRow::Settled { generation, tree, proof, .. }) =
                        rows::child(row)
                        && let Some(child) = self.generations.child(generation)
                    {
                        self.settled.insert(child, (*tree, *proof));
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kit::{Story, process, root, settled, started};
    use super::*;

    fn story() -> Story {
        Story::of(OneLiveChild::default()).spawned(0).stored(1, [started(0)])
    }

    #[test]
    fn the_next_child_may_start_once_the_last_ones_tree_is_gone_or_was_left() {
        story().dies(&root(0)).spawned(1).holds();
        let left = story().starts(0, &process(7)).dies(&root(0));
        left.stored(1, [settled(0, TreeProof::Left)]).spawned(1).holds();
    }

    #[test]
    fn a_second_root_and_a_tree_that_lives_are_found() {
        story().asked_for(1).breaks("while the root of child 0 lives");
        story().starts(0, &process(7)).dies(&root(0)).asked_for(1).breaks("1 processes of child 0");
        let unproven = story().starts(0, &process(7)).dies(&root(0));
        unproven.stored(1, [settled(0, TreeProof::Unproven)]).asked_for(1).breaks("1 processes");
    }

    #[test]
    fn a_start_that_was_under_way_is_found_when_its_root_is_there() {
        let under_way = Story::of(OneLiveChild::default()).asked_for(0).spawned(1);
        under_way.starts(0, &root(0)).breaks("while the root of child 1 lives");
    }

    #[test]
    fn nothing_starts_after_the_proof() {
        let gone = story().dies(&root(0)).stored(1, [settled(0, TreeProof::Gone)]);
        gone.starts(0, &process(7)).breaks("after it was proven gone");
    }
}
