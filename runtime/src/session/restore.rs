//! A session of an earlier host, from what is stored (rule 6.11). Starts no child.

use super::append::Draft;
use super::machine::{Life, Session};
use super::record::{Claim, SessionRecord};
use super::settings::Policy;
use super::turn::TurnEnd;
use crate::coverage::CoverageMark;
use crate::failure::{FailureCode, FailureFact};
use crate::ids::{TurnKey, key};
use crate::journal::{
    ChildRow, DispatchRow, DispatchState, Mutation, Touched, TurnState, UnknownReason,
};
use crate::planted::PlantedBug;
use crate::platform::Moment;
use crate::store::StoredRows;

impl Session {
    /// Restores a session, and settles what the earlier host left: messages handed over are unknown, messages never handed
    /// over are rejected, and what still reads running is ended by the evidence stored for its fence (rules 6.11.1,
    /// 6.11.2).
    pub fn restore(policy: Policy, record: SessionRecord, stored: StoredRows, now: Moment) -> Self {
        let mut session = Self::empty(policy, record);
        let mut touched = Touched::unheard();
        for row in &stored.rows {
            session.durable.apply(row, &mut touched);
        }
        session.plan = session.durable.planning_copy();
        if stored.fault.is_some() {
            // In doubt: refuse, and keep it readable (invariant 12).
            session.life = Life::ReadOnly;
        } else if session.record.closed {
            session.life = Life::Closed;
        }
        if session.life == Life::Open || session.life == Life::Closed {
            session.settle_restored(now);
        }
        session.advance(now);
        session
    }

    fn settle_restored(&mut self, now: Moment) {
        let mut handed_over: Vec<_> = self.plan.outstanding().cloned().collect();
        let mut queued: Vec<_> = self.plan.queued().cloned().collect();
        if !handed_over.is_empty() {
            self.sometimes(CoverageMark::RestoredUnknown);
        }
        if !queued.is_empty() {
            self.sometimes(CoverageMark::RestoredRejected);
        }
        if self.plants(PlantedBug::ResendOnRestore) {
            self.withheld = handed_over.pop();
        }
        if self.plants(PlantedBug::ForgetQueuedOnRestore) {
            queued.clear();
        }
        let mut mutations: Vec<Mutation> = handed_over
            .into_iter()
            .map(|message_id| {
                Mutation::Dispatch(DispatchRow {
                    message_id,
                    state: DispatchState::Unknown,
                    scope: None,
                    fact: None,
                    reason: Some(UnknownReason::HostRestarted),
                })
            })
            .collect();
        mutations.extend(queued.iter().map(|m| {
            Mutation::Dispatch(super::deliver::rejection(
                m,
                FailureFact::new(FailureCode::HostRestarted),
            ))
        }));
        mutations.extend(self.settle_restored_turn(now));
        let lease_changes = self.reconcile_lease();
        if self.record.lease.claim != Claim::Released {
            self.sometimes(CoverageMark::RestoredOwned);
        }
        if mutations.is_empty() && !lease_changes {
            return;
        }
        // The host start's own name: a second pass over the same journal finds nothing left to settle.
        let settlement = key(&["restart", &self.plan.cursor().seq.to_string()]);
        let draft = if lease_changes { Draft::default().with_record() } else { Draft::default() };
        self.plan_batch(now, &settlement, mutations, draft.recovered());
    }

    fn settle_restored_turn(&mut self, now: Moment) -> Vec<Mutation> {
        let running: Vec<TurnKey> =
            self.plan.running_turn().map(|t| t.turn.clone()).into_iter().collect();
        let Some(turn) = running.into_iter().next() else {
            return self.settle_asks(now);
        };
        // The evidence of the fence that owned the turn, and of no other (rule 6.11.2).
        let exited = self.plan.exited_child(self.plan.fence());
        let end = match exited {
            Some(ChildRow::Exited { .. }) => {
                TurnEnd::cut(TurnState::Interrupted, None, Some(self.plan.updated_ms()))
            }
            _ => {
                self.sometimes(CoverageMark::RestoredUnverifiable);
                TurnEnd::cut(TurnState::Unverifiable, None, None)
            }
        };
        self.turn_end_mutations(now, &turn, end)
    }

    /// What is free is freed; a process that may live keeps its claim, and nothing is started over it (rule 6.13.6).
    fn reconcile_lease(&mut self) -> bool {
        let lease = &mut self.record.lease;
        let unused = lease.owner.is_none() && lease.processless;
        let free = lease.owner.is_none() && lease.token.is_none();
        if lease.claim != Claim::Released && (unused || free) {
            lease.claim = Claim::Released;
            lease.token = None;
            return true;
        }
        false
    }

    /// A process of an earlier host may still own the session: nothing is started over it.
    pub(super) fn is_owned_elsewhere(&self) -> bool {
        self.child.is_none()
            && self.record.lease.claim != Claim::Released
            && !self.minting
            && self.life == Life::Open
    }
}
