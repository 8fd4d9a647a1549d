//! Ending a child: wind-down, ladder, exit, sweep, and what is written of it (rules 1.5, 1.6, 1.8, 6.12).

use super::append::{Draft, Gate};
use super::barrier::BarrierState;
use super::child::{Cause, Child, Ending, Phase, RootEnd, Tree};
use super::ladder::{EndedHow, Ladder, Rung};
use super::machine::{Life, Session};
use super::record::Claim;
use super::timers::Timer;
use super::turn::TurnEnd;
use super::{Answer, Effect, Operation};
use crate::coverage::CoverageMark;
use crate::failure::{FailureCode, FailureFact, RefusalCode, RefusedOperation};
use crate::ids::{Generation, MessageId, key};
use crate::journal::{
    ChildRow, DispatchRow, DispatchState, EndedAnswer, Mark, Mutation, Outcome, RootProof, RowKind,
    StopEvent, StopReason, SubmissionState, TreeProof, TurnBody, TurnState, UnknownReason,
};
use crate::limits::{STDOUT_DRAIN_MS, STDOUT_EOF_GRACE_MS};
use crate::planted::PlantedBug;
use crate::platform::{Exit, Moment, Order, ProofKind, Report};

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
                    reason: StopReason::UserClose,
                    turn: Some(turn),
                    named: false,
                    at_ms: now.wall_ms,
                };
                // A close that named no turn settles as a Stop does (rule 3.10.5).
                self.open_settle(&mut event);
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

    /// The host ends the child (rule 1.8.5). Nobody is answered: watch `is_at_rest` and `is_unproven`.
    pub fn end_child(&mut self, now: Moment, reason: StopReason) {
        if self.life == Life::Open {
            self.life = Life::Quitting;
            let rows = self.abandon_queued(FailureCode::HostStopped);
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

    /// What is queued is never blamed on the agent (rule 3.9.2).
    fn abandon_queued(&mut self, code: FailureCode) -> Vec<RowKind> {
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
        let mut policy =
            self.policy.ladder.clone().with_eof_grace_ms(self.record.agent.eof_grace_ms);
        if self.plants(PlantedBug::ForceBeforeItsWindow) {
            policy.eof_grace_ms /= 2;
        }
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
    fn tell_unproven(&mut self, now: Moment) {
        let rows = self.abandon_queued(FailureCode::PreviousExitUnverifiable);
        if !rows.is_empty() {
            self.plan(now, Draft::rows(rows));
        }
        self.revise_stop_note(now);
        self.write_off(now);
        self.refuse_closers();
    }

    /// Nobody is left who could ever prove the end of what runs: it is unverifiable, not running for ever (rules 1.5.2,
    /// 8.2).
    fn write_off(&mut self, now: Moment) {
        if self.child.as_ref().is_some_and(|c| c.supervisor_lost && c.root.is_none()) {
            self.sometimes(CoverageMark::WrittenOff);
            let cut = TurnEnd::cut(TurnState::Unverifiable, None, None);
            self.cut_off(now, "written-off", UnknownReason::ProviderClosed, cut);
        }
    }

    /// The child is not heard any more: what it had not confirmed is unknown, and its turn ends as it is known to.
    fn cut_off(&mut self, now: Moment, family: &str, reason: UnknownReason, cut: TurnEnd) {
        let unsettled = self.unsettled_prompt(reason);
        self.plan_batch(now, &self.settlement(family), unsettled, Draft::default());
        self.end_turn(now, family, cut);
        if let Some(child) = self.child.as_mut() {
            child.prompt = None;
            child.cut_off = true;
        }
    }

    fn refuse_closers(&mut self) {
        for operation in std::mem::take(&mut self.closers) {
            let refusal = RefusedOperation::new(RefusalCode::OwnershipUnknown);
            self.answer_now(operation.call, Answer::Closed(Err(refusal)));
        }
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

    /// What the supervisor reports.
    pub fn handle_report(&mut self, now: Moment, generation: &Generation, report: Report) {
        if self.child_of(generation).is_none() {
            return;
        }
        match report {
            Report::Exited { exit } => self.handle_exit(now, exit),
            // Delivery is no proof of anything; the next window decides.
            Report::Signalled { .. } => {}
            Report::Swept { empty, survivors } => {
                self.handle_swept(now, Tree::Swept { empty, survivors })
            }
            Report::SupervisorLost => self.handle_supervisor_lost(now),
        }
        self.advance(now);
    }

    fn handle_exit(&mut self, now: Moment, exit: Exit) {
        self.timers.clear(Timer::Ladder);
        self.timers.clear(Timer::StopGrace);
        self.timers.clear(Timer::CloseBarrier);
        self.timers.clear(Timer::StdoutEnd);
        let leave = self.policy.ladder.keep_background;
        let Some(child) = self.child.as_mut().filter(|c| c.root.is_none()) else {
            return;
        };
        if child.gave_up() {
            self.met.sometimes(CoverageMark::ProvenAtLast);
        }
        if child.is_at_barrier() {
            self.met.sometimes(CoverageMark::BarrierLeft);
        } else if child.is_requested() && child.phase == Phase::Ready && !child.is_in_ladder() {
            self.met.sometimes(CoverageMark::ExitInWindDown);
        }
        let ladder = child.ending.as_ref().and_then(|e| e.ladder.as_ref());
        // An agent whose stdin was gone before the host closed it did not leave on the host's EOF.
        let how = match ladder.map_or(EndedHow::ByItself, Ladder::ended_how) {
            EndedHow::OnEof if child.stdin_broken => EndedHow::ByItself,
            how => how,
        };
        match how {
            EndedHow::OnEof => self.met.sometimes(CoverageMark::LeftOnEof),
            EndedHow::AfterTerm => self.met.sometimes(CoverageMark::LeftAfterTerm),
            EndedHow::AfterKill => self.met.sometimes(CoverageMark::LeftAfterKill),
            EndedHow::ByItself | EndedHow::NeverStarted => {}
        }
        child.root = Some(RootEnd { exit, how, seen: now });
        child.tree = Tree::Sweeping;
        child.ending.get_or_insert(Ending::new(Cause::Exit));
        let generation = child.generation.clone();
        // What it had written is still in its pipe, and is read to its end before anything is settled.
        self.effects.push_back(Effect::CloseStdin { generation: generation.clone() });
        self.effects.push_back(Effect::Order { generation, order: Order::Sweep { leave } });
        self.regulate_reading();
        self.settle_exit(now);
    }

    fn handle_swept(&mut self, now: Moment, swept: Tree) {
        let Some(child) = self.child.as_mut().filter(|c| c.root.is_some()) else {
            return;
        };
        child.tree = swept;
        if child.exit_recorded {
            self.settle_tree(now);
        } else {
            self.timers.arm(Timer::StdoutDrain, now.mono.plus_ms(STDOUT_DRAIN_MS));
            self.settle_exit(now);
        }
    }

    /// Nobody is left who could prove anything; the root's end stays unproven unless it was seen.
    fn handle_supervisor_lost(&mut self, now: Moment) {
        let Some(child) = self.child.as_mut() else {
            return;
        };
        child.supervisor_lost = true;
        if child.root.is_some() {
            if matches!(child.tree, Tree::Sweeping | Tree::Unswept) {
                self.handle_swept(now, Tree::Swept { empty: false, survivors: Vec::new() });
            }
            return;
        }
        self.sometimes(CoverageMark::SupervisorLost);
        self.break_connection(now);
    }

    /// Somebody left on purpose holds the agent's stdout or stderr.
    pub(super) fn give_up_stdout(&mut self, now: Moment) {
        if let Some(child) = self.child.as_mut().filter(|c| c.root.is_some()) {
            self.met.sometimes(CoverageMark::StdoutHeldOpen);
            child.stdout_ended = true;
            child.stderr_ended = true;
            self.settle_exit(now);
        }
    }

    /// The root is gone and its stdout and stderr are read to the end: everything that ends with the child is written, once, in one
    /// unit, and the lease is released (rules 2.7, 6.12.1).
    pub(super) fn settle_exit(&mut self, now: Moment) {
        let Some(child) = self.child.as_ref() else {
            return;
        };
        let is_heard = (child.stdout_ended && child.stderr_ended)
            || self.plants(PlantedBug::SettleBeforeReadingOn);
        let Some(root) = child.root.filter(|_| is_heard && !child.exit_recorded) else {
            return;
        };
        self.timers.clear(Timer::StdoutDrain);
        self.close_text(now);
        let requested = self.child.as_ref().is_some_and(Child::is_requested);
        let mutations = self.exit_mutations(root, requested);
        self.release_lease();
        let Some(child) = self.child.as_mut() else {
            return;
        };
        let generation = child.generation.clone();
        child.exit_recorded = true;
        child.asks.clear();
        child.asked.clear();
        child.prompt = None;
        child.turn = None;
        let row = RowKind::Child(ChildRow::Exited {
            generation: generation.clone(),
            how: root.how,
            exit: Some(root.exit),
            requested,
        });
        let family = if requested { "expected-close" } else { "provider-exit" };
        let settlement = self.settlement(family);
        self.timers.clear(Timer::AgentTurnQuiet);
        let mut draft = Draft::rows(vec![row]).with_record();
        if self.plants(PlantedBug::SpawnBeforeProof) {
            draft = draft.gate(Gate::Gone(generation));
            self.answer_closers(now, None);
        }
        self.plan_batch(now, &settlement, mutations, draft);
        self.settle_tree(now);
    }

    fn settlement(&self, family: &str) -> String {
        let generation = self.child.as_ref().map(|c| c.generation.to_string()).unwrap_or_default();
        key(&[family, &generation])
    }

    fn release_lease(&mut self) {
        let lease = &mut self.record.lease;
        lease.claim = Claim::Released;
        lease.token = None;
        lease.owner = None;
    }

    /// The picture of rule 2.7, and what a failed start leaves (rules 1.4.6, 5.6.1).
    fn exit_mutations(&mut self, root: RootEnd, requested: bool) -> Vec<Mutation> {
        let Some(child) = self.child.as_ref() else {
            return Vec::new();
        };
        let mut mutations = Vec::new();
        let was_ready = child.phase == Phase::Ready;
        let (generation, last_words) = (child.generation.clone(), child.last_words());
        let turn = self.plan.latest_turn().filter(|t| self.cuts(child, t)).map(|t| t.turn.clone());
        self.mark_exit(root, requested, turn.is_some());
        if let Some(turn) = turn {
            let mut end = TurnEnd::cut(TurnState::Interrupted, None, Some(root.seen.wall_ms));
            if self.plants(PlantedBug::CancellationWithoutAPerson) && !requested {
                end.outcome = Some(Outcome::Cancellation);
            }
            mutations.extend(self.turn_end_mutations(root.seen, &turn, end));
            if !requested {
                // Exactly one error row a death, scoped to the turn it cut (rule 2.7.1).
                let fact = FailureFact::quoting(FailureCode::ProviderError, last_words.as_deref());
                let parts = ["death", generation.as_str()];
                mutations.push(self.error_row(&parts, Some(&turn), fact));
            }
        } else {
            mutations.extend(self.settle_asks(root.seen));
        }
        if !was_ready {
            mutations.extend(self.failed_start(requested));
        } else {
            mutations.extend(self.never_prompted(requested).into_iter().map(Mutation::Dispatch));
        }
        let reason =
            if requested { UnknownReason::ProviderClosed } else { UnknownReason::ProviderExited };
        mutations.extend(self.unsettled_prompt(reason));
        mutations
    }

    /// The exit of `child` cuts the turn: it has not ended, and belongs to this child rather than to an earlier one whose
    /// end was never proven.
    fn cuts(&self, child: &Child, turn: &TurnBody) -> bool {
        let rewrites = self.plants(PlantedBug::EndedTwice);
        let open = matches!(turn.state, TurnState::Running | TurnState::Unverifiable);
        let owned = child.turn.as_ref().is_some_and(|t| t.turn == turn.turn)
            || child
                .ended
                .iter()
                .any(|t| t.turn == turn.turn && (t.state == TurnState::Unverifiable || rewrites));
        (open || rewrites) && owned && !self.plants(PlantedBug::StuckWorking)
    }

    fn mark_exit(&mut self, root: RootEnd, requested: bool, cuts: bool) {
        let Some(child) = self.child.as_ref().filter(|_| !requested) else {
            return;
        };
        if root.how != EndedHow::ByItself {
            return;
        }
        self.met.sometimes(match (&child.phase, cuts) {
            (_, true) => CoverageMark::CutByExit,
            (Phase::Ready, false) => CoverageMark::LeftIdle,
            _ if child.answered => CoverageMark::ExitedInHandshake,
            _ => CoverageMark::ExitedInInitialize,
        });
        if cuts && root.exit == Exit::Code(0) {
            self.met.sometimes(CoverageMark::CleanExitMidTurn);
        }
    }

    /// The message that the child never saw. The one that a child was started for is rejected if that left by itself, or an
    /// agent that always leaves so would be started for ever (rule 5.3.3); one that came later has a start of its own.
    /// Where no other child comes, none is left behind: nobody looks at a closed session with a free lease again.
    fn never_prompted(&mut self, requested: bool) -> Vec<DispatchRow> {
        let Some(child) = self.child.as_ref() else { return Vec::new() };
        let (rejections, mark) = match self.life {
            Life::Open if requested => return Vec::new(),
            Life::Open => {
                let fact = FailureFact::new(FailureCode::ProviderExited);
                (self.start_rejections(child, &fact), CoverageMark::LeftBeforePrompt)
            }
            life => {
                let code = match life {
                    Life::Closed => FailureCode::ChatClosed,
                    _ => FailureCode::HostStopped,
                };
                let message = child.dispatching.clone().or(self.held_back());
                let overtaken = message.filter(|message| self.is_handed_over(message));
                let reject = |m| super::deliver::rejection(&m, FailureFact::new(code));
                (overtaken.map(reject).into_iter().collect(), CoverageMark::HeldRejected)
            }
        };
        if !rejections.is_empty() {
            self.sometimes(mark);
        }
        rejections
    }

    /// One error row a failed start, and the one message it was for (rules 5.3.4, 5.6.1).
    fn failed_start(&mut self, requested: bool) -> Vec<Mutation> {
        let Some(child) = self.child.as_ref() else {
            return Vec::new();
        };
        let fact = match &child.failure {
            Some(fact) if fact.detail.is_none() => {
                FailureFact::quoting(fact.code, child.last_words().as_deref())
            }
            Some(fact) => fact.clone(),
            None if requested => FailureFact::new(FailureCode::HostStopped),
            None => FailureFact::quoting(
                FailureCode::ProviderStartFailed,
                child.last_words().as_deref(),
            ),
        };
        let rejections = self.start_rejections(child, &fact);
        if !rejections.is_empty()
            && self.plan.queued().any(|m| rejections.iter().all(|r| r.message_id != *m))
        {
            self.met.sometimes(CoverageMark::StartFailedForOne);
        }
        let mut mutations: Vec<_> = rejections.into_iter().map(Mutation::Dispatch).collect();
        if !requested {
            mutations.push(self.error_row(&["start", child.generation.as_str()], None, fact));
        }
        mutations
    }

    /// A prompt on the wire that was not accepted is unknown, never sent again (invariant 3).
    fn unsettled_prompt(&mut self, reason: UnknownReason) -> Vec<Mutation> {
        let resends =
            self.plants(PlantedBug::ResendAfterCrash) && reason == UnknownReason::ProviderExited;
        let forgets = self.plants(PlantedBug::ForgetTheUnknown);
        let prompt = self.child.as_ref().and_then(|c| c.prompt.as_ref()).filter(|p| !p.accepted);
        let pending = prompt.filter(|p| {
            self.plan
                .submission(&p.message)
                .is_some_and(|s| s.view.state == SubmissionState::HandedOver)
        });
        let Some(message_id) = pending.map(|p| p.message.clone()) else {
            return Vec::new();
        };
        self.sometimes(CoverageMark::LeftUnknown);
        if resends {
            self.withheld = Some(message_id.clone());
        }
        if resends || forgets {
            return Vec::new();
        }
        vec![Mutation::Dispatch(DispatchRow {
            message_id,
            state: DispatchState::Unknown,
            scope: None,
            fact: None,
            reason: Some(reason),
        })]
    }

    /// The root is written off and the tree was swept: what is proven is written, and the next start may go once nothing
    /// is left (decision D33).
    fn settle_tree(&mut self, now: Moment) {
        let leave = self.policy.ladder.keep_background;
        let Some(child) = self.child.as_ref().filter(|c| c.exit_recorded) else {
            return;
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

    fn answer_close(&mut self, now: Moment, operation: &Operation, ended: EndedAnswer) {
        let draft = Draft::default().answering(self, now, operation, Answer::Closed(Ok(ended)));
        self.plan(now, draft);
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
        for timer in [Timer::Ladder, Timer::StopGrace, Timer::StdoutEnd, Timer::StdoutDrain] {
            self.timers.clear(timer);
        }
        self.effects.push_back(Effect::Forget { generation: generation.clone() });
    }
}
