//! The persist barrier: between a cut turn and stdin EOF the agent is asked to put its session on disk (decision D13).
//!
//! An agent's answer to the prompt does not mean that its abort is on disk, and an abort may take longer than the EOF
//! window. Its answer to `session/close` means that it is. Whatever it says or does not say, EOF follows.

use super::child::{Asked, Cause, Child, Ending, Phase};
use super::machine::Session;
use super::timers::Timer;
use crate::agent::Barrier;
use crate::coverage::CoverageMark;
use crate::limits::CLOSE_BARRIER_MS;
use crate::planted::PlantedBug;
use crate::platform::Moment;
use crate::wire;
use crate::wire::write_queue::FrameKind;

/// What an ending child's barrier rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct BarrierState {
    /// The prompt was answered after its cancel, inside the cancel wait.
    cancel_answered: bool,
    /// Stops since the end was asked for, up to three.
    presses: u8,
    /// `session/close` was written.
    asked: bool,
}

impl Ending {
    /// How often a person pressed for it. What they asked for was the first press; a host that quits pressed nothing.
    pub(super) fn presses(&self) -> u8 {
        let first = matches!(self.cause, Cause::Asked(reason) if reason.is_a_persons());
        self.barrier.presses + u8::from(first)
    }
}

impl Child {
    /// It is asked to put its session on disk, and EOF waits for that.
    pub(super) fn is_at_barrier(&self) -> bool {
        !self.is_in_ladder() && self.ending.as_ref().is_some_and(|e| e.barrier.asked)
    }

    /// Nothing holds its end but its turn.
    pub(super) fn is_winding_down(&self) -> bool {
        let waits = self.ending.as_ref().is_some_and(|e| !e.barrier.asked);
        self.phase == Phase::Ready && waits && !self.is_in_ladder()
    }

    /// It can be asked, and an answer could be read.
    fn offers_a_barrier(&self) -> bool {
        self.capabilities.close && !self.stdin_broken && !self.stdout_ended && !self.cut_off
    }
}

impl Session {
    /// The prompt is answered: whether that was the answer to the cancel of a child that ends.
    pub(super) fn note_cancel_answer(&mut self) {
        if let Some(child) =
            self.child.as_mut().filter(|c| c.is_winding_down() && c.offers_a_barrier())
            && child.prompt.as_ref().is_some_and(|p| p.cancelled.is_some())
            && let Some(ending) = child.ending.as_mut()
        {
            ending.barrier.cancel_answered = true;
        }
    }

    /// The turn has left, or the cancel wait is over: the barrier, or stdin EOF. An agent that did not answer the cancel gets
    /// no barrier: nothing says that it listens. A turn of the agent's own has no answer, and none either.
    pub(super) fn end_wound_down(&mut self, now: Moment) {
        let answered = self
            .child
            .as_ref()
            .and_then(|c| c.ending.as_ref())
            .is_some_and(|e| e.barrier.cancel_answered);
        if !answered || !self.begin_barrier(now) {
            self.begin_ladder(now);
        }
    }

    /// Somebody presses Stop again (decision D14). The second press ends the cancel wait and begins the barrier where it is
    /// offered, although the cancel is not answered: D13 grants a silent agent none so that nobody waits for it, and here a
    /// person asked for the next step; a lost cancel is what this press is for, and agents that are asked to close in
    /// the middle of a turn end it and save it. The third ends the barrier. Presses are counted: one that comes once the
    /// barrier runs by itself is the second, and an unintended double press loses nothing.
    pub(super) fn press_again(&mut self, now: Moment) {
        if self.plants(PlantedBug::GraceRestarts) {
            return;
        }
        let Some(child) = self.child.as_mut().filter(|c| c.phase == Phase::Ready) else {
            return;
        };
        let (winds_down, at_barrier) = (child.is_winding_down(), child.is_at_barrier());
        let Some(ending) = child.ending.as_mut() else {
            return;
        };
        if !winds_down && !at_barrier {
            return;
        }
        ending.barrier.presses = 3.min(ending.barrier.presses + 1);
        let nth = ending.presses();
        if winds_down && nth >= 2 {
            self.wound_down(now);
        } else if at_barrier && nth >= 3 {
            self.end_barrier(now, CoverageMark::BarrierCut);
        }
    }

    /// A second press has cut the cancel wait short, and nothing holds the end any more.
    pub(super) fn end_at_a_press(&mut self, now: Moment) {
        self.sometimes(CoverageMark::StopGraceCut);
        if !self.begin_barrier(now) {
            self.begin_ladder(now);
        }
    }

    /// Asks the agent to close its session; whether it could be asked.
    fn begin_barrier(&mut self, now: Moment) -> bool {
        let off =
            self.record.agent.barrier == Barrier::Off || self.plants(PlantedBug::BarrierForgotten);
        let Some(child) = self.child.as_mut().filter(|c| !off && c.offers_a_barrier()) else {
            return false;
        };
        let Some(session) = child.agent_session.clone() else {
            return false;
        };
        let id = child.next_request(Asked::Close);
        let Ok(frame) = wire::encode::session_close(id, session.as_str()) else {
            child.asked.remove(&id);
            return false;
        };
        if let Some(ending) = child.ending.as_mut() {
            ending.barrier.asked = true;
        }
        self.timers.clear(Timer::StopGrace);
        if !self.plants(PlantedBug::BarrierUnbounded) {
            self.timers.arm(Timer::CloseBarrier, now.mono.plus_ms(CLOSE_BARRIER_MS));
        }
        self.write(frame, FrameKind::Request);
        true
    }

    /// Stdin EOF follows. Without a barrier nothing happens: its end may be told late.
    pub(super) fn end_barrier(&mut self, now: Moment, how: CoverageMark) {
        if self.child.as_ref().is_some_and(Child::is_at_barrier) {
            self.sometimes(how);
            self.begin_ladder(now);
        }
    }
}
