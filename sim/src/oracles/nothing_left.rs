//! Nothing is left of any child once its host is gone, but what the journal says is left.

use std::collections::BTreeMap;

use moored::journal::{ChildRow, TreeProof};
use moored::platform::{Exit, Mono};

use super::rows::{self, Generations};
use super::{Oracle, Rest, Verdict};
use crate::witness::{ChildNo, Facts, Seen};
use crate::world::SUPERVISOR;

/// At rest every process that carries a token was left on purpose, or is told as unproven, or lost its supervisor.
#[derive(Default)]
pub(super) struct NothingLeft {
    generations: Generations,
    settled: BTreeMap<ChildNo, TreeProof>,
    /// Children of which the supervisor has ended: on posix nobody but it ends what is below it.
    orphaned: std::collections::BTreeSet<ChildNo>,
}

impl NothingLeft {
    fn may_live(&self, child: ChildNo, facts: &Facts) -> bool {
        let left_by_a_crash = facts.leaves_background && facts.children[child].exit.is_some();
        left_by_a_crash
            || facts.children[child].lost
            || self.orphaned.contains(&child)
            || matches!(self.settled.get(&child), Some(TreeProof::Left | TreeProof::Unproven))
    }
}

impl Oracle for NothingLeft {
    fn name(&self) -> &'static str {
        "nothing-left"
    }

    fn rule(&self) -> &'static str {
        "1.6.10, 1.7.3, D18, D21"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::Stored { unit, .. } => {
                for row in &unit.rows {
                    self.generations.learn(row, facts);
                    if let Some(ChildRow::Settled { generation, tree, .. }) = rows::child(row)
                        && let Some(child) = self.generations.child(generation)
                    {
                        self.settled.insert(child, *tree);
                    }
                }
            }
            // Killed by somebody, it leaves what it should have ended; its own end comes after that of the rest.
            Seen::SignalSent { target, fault: true, .. } => {
                if let Some(no) = facts.child_of(target)
                    && facts.children[no].supervisor.as_ref() == Some(*target)
                {
                    self.orphaned.insert(no);
                }
            }
            // It gave up: what it could not end is for whoever finds it by its token (rule 1.7.4).
            Seen::ProcessEnded { identity, exit } if **exit != Exit::Code(0) => {
                if let Some(no) = facts.child_of(identity)
                    && facts.children[no].supervisor.as_ref() == Some(*identity)
                {
                    self.orphaned.insert(no);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn at_rest(&mut self, rest: &Rest<'_>) -> Verdict {
        for process in rest.left {
            let child = process.token.as_deref().and_then(|t| rest.facts.child_of_token(t));
            let Some(child) = child else { continue };
            let session = &rest.facts.children[child].session;
            let name = &process.name;
            if *name == SUPERVISOR && rest.facts.children[child].living.is_empty() {
                return Err(format!(
                    "the supervisor of child {child} of {session} has nobody left and stays"
                ));
            }
            if !self.may_live(child, rest.facts) {
                return Err(format!(
                    "{name} of child {child} of {session} lives on at rest, and nothing says so"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::kit::{Story, left, process, root, settled, started};
    use super::*;

    fn story() -> Story {
        let story = Story::of(NothingLeft::default()).spawned(0).starts(0, &process(7));
        story.stored(1, [started(0)]).dies(&root(0))
    }

    #[test]
    fn what_the_journal_says_is_left_may_be_there() {
        story().dies(&process(7)).rests(&[]).holds();
        let told = story().stored(1, [settled(0, TreeProof::Left)]);
        told.rests(&[left(7, "agent")]).holds();
    }

    #[test]
    fn anybody_else_is_found() {
        story().rests(&[left(7, "agent")]).breaks("agent of child 0 of s1 lives on at rest");
        let gone = story().dies(&process(7)).stored(1, [settled(0, TreeProof::Gone)]);
        gone.rests(&[left(3, SUPERVISOR)]).breaks("has nobody left and stays");
    }
}
