//! Invariant 7: proof of death is an observation; losing contact is never death.

use std::collections::BTreeMap;

use moored::ids::{Fence, SessionId, SpawnToken};
use moored::journal::{ChildRow, RootProof, TreeProof, TurnBody, TurnState};
use moored::platform::Mono;
use moored::session::ladder::EndedHow;

use super::rows::{self, Generations};
use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, Seen};

/// A root that is written off is gone, and a tree that is proven gone has nobody left.
#[derive(Default)]
pub(super) struct ProofOfDeath {
    generations: Generations,
    /// The token each session reserved last.
    tokens: BTreeMap<SessionId, SpawnToken>,
    /// The newest child of each session, and its fence.
    newest: BTreeMap<SessionId, (ChildNo, Fence)>,
}

impl ProofOfDeath {
    fn row(&self, session: &SessionId, child: &ChildRow, facts: &Facts) -> Verdict {
        let known = rows::generation(child).and_then(|g| self.generations.child(g));
        match child {
            ChildRow::Exited { how: EndedHow::NeverStarted, .. } => {
                let token = self.tokens.get(session).map(SpawnToken::as_str);
                let no = token.and_then(|token| facts.child_of_token(token));
                match no.filter(|no| !facts.children[*no].living.is_empty()) {
                    Some(no) => {
                        Err(format!("child {no} of {session} lives, and reads as never started"))
                    }
                    None => Ok(()),
                }
            }
            ChildRow::Exited { .. } => match known {
                Some(no) if facts.children[no].exit.is_none() => Err(format!(
                    "child {no} of {session} is written off as exited, and its root lives"
                )),
                _ => Ok(()),
            },
            ChildRow::Settled { root, tree, .. } => {
                let Some(no) = known else { return Ok(()) };
                let child = &facts.children[no];
                if *root == RootProof::Exited && child.exit.is_none() {
                    return Err(format!(
                        "the root of child {no} of {session} lives, and is proven gone"
                    ));
                }
                if *tree == TreeProof::Gone && !child.living.is_empty() {
                    let count = child.living.len();
                    return Err(format!(
                        "{count} processes of child {no} of {session} live, and its tree is proven gone"
                    ));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Oracle for ProofOfDeath {
    fn name(&self) -> &'static str {
        "proof-of-death"
    }

    fn rule(&self) -> &'static str {
        "invariant 7, 1.1.4, 1.5.2, D10"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        let Seen::Stored { unit, .. } = seen else { return Ok(()) };
        for row in &unit.rows {
            self.generations.learn(row, facts);
            if let Some(child) = rows::child(row) {
                self.row(&unit.session, child, facts)?;
                let no = rows::generation(child).and_then(|g| self.generations.child(g));
                if let (ChildRow::Started { .. }, Some(no)) = (child, no) {
                    self.newest.insert(unit.session.clone(), (no, row.fence));
                }
            }
            // Only an exit that was seen cuts a turn so; a lost connection leaves it unverifiable (rule 1.5.2).
            let newest = self.newest.get(&unit.session).filter(|(_, fence)| *fence == row.fence);
            let lives = newest.filter(|(no, _)| facts.children[*no].exit.is_none());
            let Some((no, _)) = lives else { continue };
            let cut = |turn: &&TurnBody| {
                let end = (turn.state, turn.outcome, turn.stop_reason.as_ref());
                end == (TurnState::Interrupted, None, None)
            };
            if let Some(turn) = rows::turns(row).find(cut) {
                let (turn, session) = (&turn.turn, &unit.session);
                return Err(format!(
                    "{turn} of {session} reads cut by an exit, and the root of child {no} lives"
                ));
            }
        }
        if let Some(token) = unit.record.as_ref().and_then(|c| c.record.lease.token.as_ref()) {
            self.tokens.insert(unit.session.clone(), token.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use moored::journal::RowKind;

    use super::super::kit::{Story, exited, process, record, root, settled, started, turn};
    use super::*;

    fn story() -> Story {
        let story = Story::of(ProofOfDeath::default()).recorded(record(Some("token0"), false));
        story.spawned(0).starts(0, &process(7)).stored(1, [started(0)])
    }

    #[test]
    fn what_is_gone_may_be_proven_gone_and_what_is_left_may_be_left() {
        let gone = story().dies(&root(0)).stored(1, [exited(0)]).dies(&process(7));
        gone.stored(1, [settled(0, TreeProof::Gone)]).holds();
        story().dies(&root(0)).stored(1, [exited(0), settled(0, TreeProof::Left)]).holds();
    }

    #[test]
    fn a_turn_is_cut_by_an_exit_and_not_by_a_lost_connection() {
        story().dies(&root(0)).stored(1, [turn(1, TurnState::Interrupted, None)]).holds();
        story().stored(1, [turn(1, TurnState::Unverifiable, None)]).holds();
        let lost = story().stored(1, [turn(1, TurnState::Interrupted, None)]);
        lost.breaks("t1 of s1 reads cut by an exit, and the root of child 0 lives");
    }

    #[test]
    fn a_proof_over_the_living_is_found() {
        story().stored(1, [exited(0)]).breaks("its root lives");
        story()
            .stored(1, [settled(0, TreeProof::Unproven)])
            .breaks("the root of child 0 of s1 lives");
        let tree = story().dies(&root(0)).stored(1, [settled(0, TreeProof::Gone)]);
        tree.breaks("1 processes of child 0 of s1 live");
        let RowKind::Child(ChildRow::Exited { generation, .. }) = exited(1) else {
            panic!("it is one");
        };
        let how = EndedHow::NeverStarted;
        let never = ChildRow::Exited { generation, how, exit: None, requested: true };
        story().stored(1, [RowKind::Child(never)]).breaks("reads as never started");
    }
}
