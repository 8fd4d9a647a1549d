//! Asking a child to end: close, wind-down and ladder, and what is told when its end is not proven (rules 1.6, 1.8).

use super::append::{Draft, Gate};
use super::barrier::BarrierState;
use super::child::{Cause, Ending, Phase, Tree};
use super::ladder::{Ladder, LadderPolicy, Rung};
use super::machine::{Life, Session};
use super::record::Claim;
use super::timers::Timer;
use super::turn::TurnEnd;
use super::{Answer, Effect, Operation};
use crate::coverage::CoverageMark;
use crate::failure::{FailureCode, FailureFact, RefusalCode, RefusedOperation};
use crate::ids::{Generation, MessageId, OperationId, key};
use crate::journal::{Mark, RowKind, StopEvent, StopReason, TurnState, UnknownReason};
use crate::limits::STDIN_DRAIN_MS;
use crate::planted::PlantedBug;
use crate::platform::{Moment, Order};

impl Session {
    /// A person closes the session: what is queued is abandoned, the child is ended, and the answer tells how (rules 1.8,
    /// 3.9). Closing again joins, and runs an unproven end again.
    pub fn close(&mut self, now: Moment, operation: Operation) {
        if let Some(code) = self.refuses_commands().filter(|c| *c != RefusalCode::SessionClosed) {
            self.answer_now(operation.call, Answer::Closed(Err(RefusedOperation::new(code))));
            return;
        }
        if self.life == Life::Open {
            self.life = Life::Closed;
            self.record.closed = true;
            let mut rows = self.abandon_queued(FailureCode::ChatClosed);
            if let Some(turn) = self.plan.running_turn().map(|t| t.turn.clone()) {
                let mut event = StopEvent {
                    op: operation.op.clone(),
                    reason: self.reason_of_close(),
                    turn: Some(turn),
                    named: false,
                    at_ms: now.wall_ms,
                };
                // A close that named no turn settles as a Stop does (rule 3.10.5).
                if !self.plants(PlantedBug::CloseWithoutASettle) {
                    self.open_settle(&mut event);
                }
                rows.push(RowKind::Mark { mark: Mark::Stop(event) });
            }
            self.plan(now, Draft::rows(rows).with_record());
        }
        self.closers.push(operation);
        if let Some(over) = self.child.as_ref().and_then(|c| c.over.clone()) {
            self.answer_closers(now, Some(over));
        } else if let Some(child) = &self.child {
            if child.ending.is_some() {
                self.met.sometimes(CoverageMark::CloseJoinedEnd);
            }
            self.end_child_as(now, Cause::Asked(StopReason::UserClose));
            self.wound_down(now);
            self.retry_unproven_end(now);
        } else if self.record.lease.claim == Claim::Released {
            self.answer_closers(now, None);
        } else {
            // An earlier host's child may still live (rule 1.8.8).
            self.refuse_closers();
        }
        self.advance(now);
    }

    /// The host lets the child go and keeps the session: what waits, and the next message, start another (rule 3.10). It is
    /// answered at once with whether it ended work, and asked again it does nothing again, both as a Stop (rule 3.1.3).
    ///
    /// The event is written only where work ends (rule 3.10.1). What the machine has heard is in its plan at once, so there is
    /// nothing to drain before it looks. A person's Stop that still decides over anything has a child that ends already,
    /// which this joins without an event of its own (rules 3.10.2, 3.10.3).
    pub fn evict(&mut self, now: Moment, operation: Operation) {
        if let Some(code) = self.refuses_commands() {
            self.answer_now(operation.call, Answer::Stopped(Err(RefusedOperation::new(code))));
            return;
        }
        if self.plants(PlantedBug::EvictionWaitsForTheStore) && self.appends.is_refusing() {
            let refused = RefusedOperation::new(RefusalCode::NotSaved);
            return self.answer_now(operation.call, Answer::Stopped(Err(refused)));
        }
        let ends = self.child.as_ref().is_some_and(|c| c.ending.is_some() || c.root.is_some());
        let defers = self.plants(PlantedBug::DeferToAnOldStop)
            && self.plan.latest_stop().is_some_and(|(_, stop)| stop.reason.is_a_persons());
        let takes = self.plants(PlantedBug::HostStopTakesThePersonsAway);
        let records_nothing = self.plants(PlantedBug::EvictionOfNothingIsRecorded);
        let works = self.is_working() || records_nothing;
        let mut rows = Vec::new();
        if (ends && !takes) || defers || self.plants(PlantedBug::EvictWithoutAnEvent) {
            self.sometimes(CoverageMark::EvictJoinedEnd);
        } else if self.child.is_some() && works {
            self.sometimes(CoverageMark::EvictEndedWork);
            let mut event = StopEvent {
                op: operation.op.clone(),
                reason: StopReason::Evict,
                turn: self.plan.running_turn().map(|turn| turn.turn.clone()),
                named: false,
                at_ms: now.wall_ms,
            };
            if self.plants(PlantedBug::EvictReadsStopping) {
                self.open_settle(&mut event);
            }
            rows.push(RowKind::Mark { mark: Mark::Stop(event) });
        } else if self.child.is_some() {
            self.sometimes(CoverageMark::EvictAtRest);
        }
        self.answer_stop(now, &operation, None, !rows.is_empty(), rows);
        self.end_child_as(now, Cause::Asked(StopReason::Evict));
        self.wound_down(now);
        self.retry_unproven_end(now);
        self.advance(now);
    }

    /// The host ends the child (rule 1.8.5). Nobody is answered: watch `is_at_rest` and `is_unproven`.
    pub fn end_child(&mut self, now: Moment, reason: StopReason) {
        if self.life == Life::Open {
            self.life = Life::Quitting;
            let mut rows = self.abandon_queued(FailureCode::HostStopped);
            if self.plants(PlantedBug::QuitIsRecorded) {
                rows.extend(self.event_of_quit(now, reason));
            }
            if !rows.is_empty() {
                self.plan(now, Draft::rows(rows));
            }
        }
        self.minting = false;
        self.close_text(now);
        if self.child.is_some() {
            self.end_child_as(now, Cause::Asked(reason));
            self.wound_down(now);
            self.retry_unproven_end(now);
        }
        self.advance(now);
    }

    /// A person's close is treated as their Stop (rule 3.9.1).
    fn reason_of_close(&self) -> StopReason {
        match self.plants(PlantedBug::CloseReadsAsTheHosts) {
            false => StopReason::UserClose,
            true => StopReason::HostStop,
        }
    }

    /// Only under [`PlantedBug::QuitIsRecorded`].
    fn event_of_quit(&self, now: Moment, reason: StopReason) -> Option<RowKind> {
        let turn = self.plan.running_turn().map(|turn| turn.turn.clone())?;
        let op = OperationId(key(&["quit", turn.as_str()]));
        let event = StopEvent { op, reason, turn: Some(turn), named: false, at_ms: now.wall_ms };
        Some(RowKind::Mark { mark: Mark::Stop(event) })
    }

    /// What is queued is never blamed on the agent (rule 3.9.2).
    pub(super) fn abandon_queued(&mut self, code: FailureCode) -> Vec<RowKind> {
        if self.plants(PlantedBug::SwallowASendAtClose) && code == FailureCode::ChatClosed {
            return Vec::new();
        }
        let queued = self.undelivered();
        if self.held_back().is_some() {
            self.sometimes(CoverageMark::HeldRejected);
        }
        if matches!(code, FailureCode::ChatClosed | FailureCode::HostStopped)
            && self.plan.queued().next().is_some()
        {
            self.sometimes(CoverageMark::QueuedAbandoned);
        }
        self.withheld = None;
        queued
            .iter()
            .map(|m| RowKind::Dispatch(super::deliver::rejection(m, FailureFact::new(code))))
            .collect()
    }

    /// What no agent has seen: a message that was held back, and what is queued.
    pub(super) fn undelivered(&self) -> Vec<MessageId> {
        self.held_back().into_iter().chain(self.plan.queued().cloned()).collect()
    }

    /// The child is to end. A ready one with a turn in flight is wound down first; the ladder of any other begins at once.
    pub(super) fn end_child_as(&mut self, now: Moment, cause: Cause) {
        let Some(child) = self.child.as_mut() else {
            return;
        };
        if child.ending.is_some() {
            return;
        }
        let winds_down = cause.is_requested()
            && child.phase == Phase::Ready
            && (child.prompt.is_some() || child.turn.is_some() || child.owes_an_answer());
        child.ending = Some(Ending::new(cause));
        if child.root.is_some() {
            return;
        }
        if winds_down {
            self.wind_down(now);
            if self.plants(PlantedBug::EofAtThePress) {
                self.begin_ladder(now);
            }
        } else if child.has_process() {
            self.begin_ladder(now);
        }
    }

    /// stdin EOF, and the first window (rule 1.6.1). Runs again in full when an earlier run proved nothing (rule 1.6.8).
    pub(super) fn begin_ladder(&mut self, now: Moment) {
        self.timers.clear(Timer::StopGrace);
        self.timers.clear(Timer::CloseBarrier);
        let policy = self.ladder_policy();
        let Some(child) = self.child.as_mut().filter(|c| c.has_process() && c.root.is_none())
        else {
            return;
        };
        let Some(ending) =
            child.ending.as_mut().filter(|e| e.ladder.as_ref().is_none_or(Ladder::gave_up))
        else {
            return;
        };
        let (ladder, _close_stdin) = match ending.ladder {
            None => Ladder::begin(policy, now.mono),
            Some(_) => {
                self.met.sometimes(CoverageMark::EndRetried);
                Ladder::begin_again(policy, now.mono)
            }
        };
        if let Some(at) = ladder.deadline() {
            self.timers.arm(Timer::Ladder, at);
        }
        ending.ladder = Some(ladder);
        if child.writes.queued() > 0 {
            self.timers.arm(Timer::StdinDrain, now.mono.plus_ms(STDIN_DRAIN_MS));
        }
        // It is over, and nothing rests on it any more.
        ending.barrier = BarrierState::default();
        let generation = child.generation.clone();
        if !self.plants(PlantedBug::EofNeverSent) {
            self.effects.push_back(Effect::CloseStdin { generation });
        }
        if self.plants(PlantedBug::ReleaseTheLeaseEarly) {
            self.release_lease();
            self.plan(now, Draft::default().with_record());
        }
        self.regulate_reading();
    }

    fn ladder_policy(&self) -> LadderPolicy {
        let eof_grace_ms = self.record.agent.eof_grace_ms;
        let mut policy = self.policy.ladder.clone().with_eof_grace_ms(eof_grace_ms);
        if self.plants(PlantedBug::ForceBeforeItsWindow) {
            policy.eof_grace_ms /= 2;
        }
        policy
    }

    /// An agent that does not read its pipe is offered EOF all the same, and its window from there on (invariant 8).
    pub(super) fn cut_stdin(&mut self, now: Moment) {
        let policy = self.ladder_policy();
        let Some(child) = self.child.as_mut().filter(|c| c.root.is_none()) else { return };
        let waits = child.writes.queued() > 0 && !child.stdin_broken;
        let Some(ending) = child.ending.as_mut().filter(|_| waits) else { return };
        let (ladder, _close_stdin) = Ladder::begin(policy, now.mono);
        if let Some(at) = ladder.deadline() {
            self.timers.arm(Timer::Ladder, at);
        }
        ending.ladder = Some(ladder);
        let generation = child.generation.clone();
        self.sometimes(CoverageMark::StdinCut);
        self.effects.push_back(Effect::CutStdin { generation });
    }

    /// A window of the ladder has passed.
    pub(super) fn climb(&mut self, now: Moment) {
        let Some(child) = self.child.as_mut().filter(|c| c.root.is_none()) else {
            return;
        };
        let Some(ladder) = child.ending.as_mut().and_then(|e| e.ladder.as_mut()) else {
            return;
        };
        let rung = ladder.handle_deadline(now.mono);
        if let Some(at) = ladder.deadline() {
            self.timers.arm(Timer::Ladder, at);
        }
        let generation = child.generation.clone();
        match rung {
            Some(Rung::Signal(signal)) => {
                self.effects
                    .push_back(Effect::Order { generation, order: Order::Signal { signal } });
            }
            Some(Rung::GiveUp) => {
                self.sometimes(CoverageMark::EndUnproven);
                if self.plants(PlantedBug::GiveUpReadsAsGone) {
                    return self.take_for_gone(now, generation);
                }
                self.tell_unproven(now);
            }
            Some(Rung::CloseStdin) | None => {}
        }
    }

    /// Only under [`PlantedBug::GiveUpReadsAsGone`].
    fn take_for_gone(&mut self, now: Moment, generation: Generation) {
        let unsettled = self.unsettled_prompt(UnknownReason::ProviderClosed);
        self.plan_batch(now, &self.settlement("gone"), unsettled, Draft::default());
        self.end_turn(now, "gone", TurnEnd::cut(TurnState::Interrupted, None, Some(now.wall_ms)));
        self.release_lease();
        self.plan(now, Draft::default().with_record().gate(Gate::Gone(generation)));
        self.answer_closers(now, None);
    }

    /// The end could not be proven: whoever needs the agent is refused by name, and may try again (rule 1.8.8).
    pub(super) fn tell_unproven(&mut self, now: Moment) {
        let rows = self.abandon_queued(FailureCode::PreviousExitUnverifiable);
        if !rows.is_empty() {
            self.plan(now, Draft::rows(rows));
        }
        self.revise_stop_note(now);
        if self.plants(PlantedBug::GiveUpEndsTheTurn) {
            let cut = TurnEnd::cut(TurnState::Interrupted, None, Some(now.wall_ms));
            self.end_turn(now, "stop-settled", cut);
        }
        self.write_off(now);
        self.refuse_closers();
    }

    /// A caller meets an end that was not proven: it is tried again in full (rules 1.6.8, D33).
    pub(super) fn retry_unproven_end(&mut self, now: Moment) {
        let Some(child) = self.child.as_mut() else {
            return;
        };
        if child.gave_up() {
            self.begin_ladder(now);
        } else if child.tree_resists() && child.supervisor_lost {
            // Whoever waits would wait for ever (decision D12).
            self.tell_unproven(now);
        } else if child.tree_resists() {
            child.tree = Tree::Sweeping;
            let generation = child.generation.clone();
            let leave = self.policy.ladder.keep_background;
            self.sometimes(CoverageMark::SweepRetried);
            self.effects.push_back(Effect::Order { generation, order: Order::Sweep { leave } });
        }
    }
}
