//! Contact with a child breaks off: a failed write, an ended stdout, a lost supervisor, a lost store (rules 1.5, D34).

use super::append::Draft;
use super::child::{Cause, Phase, Tree};
use super::machine::Session;
use super::timers::Timer;
use super::turn::TurnEnd;
use crate::coverage::CoverageMark;
use crate::failure::{FailureCode, FailureFact};
use crate::ids::Generation;
use crate::journal::{TurnState, UnknownReason};
use crate::limits::STDOUT_EOF_GRACE_MS;
use crate::planted::PlantedBug;
use crate::platform::Moment;

impl Session {
    /// Writing to the agent failed: the child is ended as not requested, and reading goes on (decision D34).
    pub fn handle_write_failed(&mut self, now: Moment, generation: &Generation) {
        let Some(child) = self.child_of(generation) else {
            return;
        };
        if child.root.is_none() && !child.is_in_ladder() {
            child.stdin_broken = true;
            self.sometimes(CoverageMark::WriteFailed);
            self.end_child_as(now, Cause::Broken);
            self.begin_ladder(now);
        }
        self.advance(now);
    }

    /// stdout ended while the root lives: after a grace without an exit it is a transport break (decision D34).
    pub(super) fn watch_ended_stdout(&mut self, now: Moment) {
        self.end_barrier(now, CoverageMark::BarrierLeft);
        if let Some(child) = self.child.as_ref()
            && child.root.is_none()
            && child.ending.is_none()
        {
            self.met.sometimes(CoverageMark::StdoutEndedFirst);
            if self.plants(PlantedBug::StdoutEndReadsAsBreak) {
                return self.break_connection(now);
            }
            self.timers.arm(Timer::StdoutEnd, now.mono.plus_ms(STDOUT_EOF_GRACE_MS));
        }
    }

    /// A transport break with the process perhaps alive: what runs is unverifiable until its end is proven (rule 1.5.2).
    pub(super) fn break_connection(&mut self, now: Moment) {
        if self.child.as_ref().is_none_or(|c| c.root.is_some() || c.ending.is_some()) {
            return;
        }
        if self.child.as_ref().is_some_and(|c| c.turn.is_some()) {
            self.sometimes(CoverageMark::ConnectionBroken);
        }
        let cut = match self.plants(PlantedBug::BreakReadsAsDeath) {
            true => TurnEnd::cut(TurnState::Interrupted, None, Some(now.wall_ms)),
            false => TurnEnd::cut(TurnState::Unverifiable, None, None),
        };
        self.cut_off(now, "broken", UnknownReason::ProviderExited, cut);
        if self.plants(PlantedBug::TwoErrorRows) {
            let broken = self.settlement("connection");
            let fact = FailureFact::new(FailureCode::ProviderError);
            let row = self.error_row(&["death", &broken], None, fact);
            self.plan_batch(now, &broken, vec![row], Draft::default());
        }
        self.end_child_as(now, Cause::Broken);
        self.begin_ladder(now);
    }

    /// Nobody is left who could ever prove the end of what runs: it is unverifiable, not running for ever (rules 1.5.2,
    /// 8.2).
    pub(super) fn write_off(&mut self, now: Moment) {
        if self.child.as_ref().is_some_and(|c| c.supervisor_lost && c.root.is_none()) {
            self.sometimes(CoverageMark::WrittenOff);
            let cut = TurnEnd::cut(TurnState::Unverifiable, None, None);
            self.cut_off(now, "written-off", UnknownReason::ProviderClosed, cut);
        }
    }

    /// The child is not heard any more: what it had not confirmed is unknown, and its turn ends as it is known to.
    pub(super) fn cut_off(
        &mut self,
        now: Moment,
        family: &str,
        reason: UnknownReason,
        cut: TurnEnd,
    ) {
        let unsettled = self.unsettled_prompt(reason);
        self.plan_batch(now, &self.settlement(family), unsettled, Draft::default());
        self.end_turn(now, family, cut);
        if let Some(child) = self.child.as_mut() {
            child.prompt = None;
            child.cut_off = true;
        }
    }

    /// The store is lost for good: the child is ended as not requested (rule 1.5.7).
    pub(super) fn end_for_lost_store(&mut self, now: Moment) {
        self.refuse_closers();
        self.withheld = None;
        self.minting = false;
        self.text = None;
        if self.phase_is(&Phase::Reserving) {
            self.child = None;
            return;
        }
        if let Some(child) = self.child.as_mut() {
            if child.exit_recorded && child.tree != Tree::Sweeping && child.tree != Tree::Unswept {
                let generation = child.generation.clone();
                return self.forget_child(&generation);
            }
            // Nothing of it can be stored, and the agent is owed its replies all the same (rule 9.4.1).
            self.withdraw_asks(now);
            self.end_child_as(now, Cause::Broken);
            self.begin_ladder(now);
        }
    }
}
