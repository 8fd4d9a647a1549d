//! Nothing is left of a child: the proof is written, whoever waits is answered, the next may start (rule 1.6, D33).

use super::append::{Draft, Gate};
use super::child::{Cause, Ending, Tree};
use super::ladder::EndedHow;
use super::machine::Session;
use super::persisted::Look;
use super::timers::Timer;
use super::{Answer, Effect, Operation};
use crate::coverage::CoverageMark;
use crate::failure::{RefusalCode, RefusedOperation};
use crate::ids::Generation;
use crate::journal::{ChildRow, EndedAnswer, RootProof, RowKind, TreeProof};
use crate::platform::{Moment, Order, ProofKind};

impl Session {
    /// The root is written off and the tree was swept: what is proven is written, and the next start may go once nothing
    /// is left (decision D33).
    pub(super) fn settle_tree(&mut self, now: Moment) {
        let leave = self.policy.ladder.keep_background;
        let Some(child) = self.child.as_ref().filter(|c| c.exit_recorded) else {
            return;
        };
        let abort_persisted = match child.look {
            // Its end row says it, so it waits for it; bounded by a timer.
            Look::Reading(_) => return,
            Look::Over(persisted) => Some(persisted),
            Look::NotDue | Look::Due(_) => None,
        };
        let Tree::Swept { empty, survivors } = child.tree.clone() else {
            return;
        };
        let proof = child.identity.as_ref().map_or(ProofKind::Subreaper, |i| i.proof);
        let tree = match (empty, leave) {
            (true, _) => TreeProof::Gone,
            (false, true) => TreeProof::Left,
            (false, false) => TreeProof::Unproven,
        };
        let how = child.root.map(|r| r.how);
        let ended_survivors = !survivors.is_empty();
        let generation = child.generation.clone();
        let row = RowKind::Child(ChildRow::Settled {
            generation: generation.clone(),
            root: RootProof::Exited,
            tree,
            proof,
            survivors,
            abort_persisted,
        });
        match tree {
            TreeProof::Unproven => self.sometimes(CoverageMark::TreeResisted),
            TreeProof::Left => self.sometimes(CoverageMark::BackgroundLeft),
            _ if ended_survivors => self.sometimes(CoverageMark::SurvivorsEnded),
            _ => {}
        }
        let mut draft = Draft::rows(vec![row]);
        if tree == TreeProof::Unproven {
            self.plan(now, draft);
            self.tell_unproven(now);
            return;
        }
        self.effects
            .push_back(Effect::Order { generation: generation.clone(), order: Order::Release });
        draft = draft.gate(Gate::Gone(generation));
        let closed = EndedAnswer { how, root: RootProof::Exited, tree };
        if let Some(child) = self.child.as_mut() {
            child.over = Some(closed.clone());
        }
        self.plan(now, draft);
        self.answer_closers(now, Some(closed));
    }

    /// No process ever existed: the reservation is proven unused (rules 1.1.5, 6.13.5).
    pub(super) fn end_processless(&mut self, now: Moment) {
        let Some(child) = self.child.as_ref() else {
            return;
        };
        let requested = child.is_requested();
        let generation = child.generation.clone();
        let mutations = self.failed_start(requested);
        self.release_lease();
        self.record.lease.processless = true;
        let row = RowKind::Child(ChildRow::Exited {
            generation: generation.clone(),
            how: EndedHow::NeverStarted,
            exit: None,
            requested,
        });
        let settlement = self.settlement("never-started");
        let draft = Draft::rows(vec![row]).with_record().gate(Gate::Gone(generation));
        let never = EndedAnswer {
            how: Some(EndedHow::NeverStarted),
            root: RootProof::Exited,
            tree: TreeProof::Gone,
        };
        if let Some(child) = self.child.as_mut() {
            child.exit_recorded = true;
            child.over = Some(never.clone());
            child.ending.get_or_insert(Ending::new(Cause::AttachFailed));
        }
        self.plan_batch(now, &settlement, mutations, draft);
        self.answer_closers(now, Some(never));
    }

    pub(super) fn answer_closers(&mut self, now: Moment, ended: Option<EndedAnswer>) {
        let ended = ended.unwrap_or(EndedAnswer {
            how: None,
            root: RootProof::Exited,
            tree: TreeProof::Gone,
        });
        for operation in std::mem::take(&mut self.closers) {
            self.answer_close(now, &operation, ended.clone());
        }
    }

    pub(super) fn answer_close(&mut self, now: Moment, operation: &Operation, ended: EndedAnswer) {
        let draft = Draft::default().answering(self, now, operation, Answer::Closed(Ok(ended)));
        self.plan(now, draft);
    }

    pub(super) fn refuse_closers(&mut self) {
        for operation in std::mem::take(&mut self.closers) {
            let refusal = RefusedOperation::new(RefusalCode::OwnershipUnknown);
            self.answer_now(operation.call, Answer::Closed(Err(refusal)));
        }
    }

    /// Everything about the child is on disk: it is forgotten, and the next may start.
    pub(super) fn forget_child(&mut self, generation: &Generation) {
        if self.child_of(generation).is_none() {
            return;
        }
        let dispatching = self.child.as_mut().and_then(|c| c.dispatching.take());
        debug_assert!(
            dispatching.is_none() || self.appends.is_closed(),
            "its gate has opened by now"
        );
        self.child = None;
        for timer in [
            Timer::Ladder,
            Timer::StdinDrain,
            Timer::StopGrace,
            Timer::StdoutEnd,
            Timer::StdoutDrain,
        ] {
            self.timers.clear(timer);
        }
        self.effects.push_back(Effect::Forget { generation: generation.clone() });
    }
}
