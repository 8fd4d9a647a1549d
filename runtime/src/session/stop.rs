//! Stop: withdraw, record, interrupt, note, end the child (rule 3.1.1).

use std::collections::BTreeSet;

use super::append::Draft;
use super::child::Cause;
use super::deliver::rejection;
use super::machine::Session;
use super::timers::Timer;
use super::{Answer, Effect, Operation, StopAnswer};
use crate::coverage::CoverageMark;
use crate::failure::{FailureCode, FailureFact, RefusalCode, RefusedOperation};
use crate::host::Stop;
use crate::ids::{ItemKey, MessageId, TurnKey, key};
use crate::journal::{
    ItemBody, ItemRow, Mark, Mutation, Outcome, RowKind, StatusBody, StopEvent, StopReason,
    TurnBody, TurnState, stop_note, stop_note_item,
};
use crate::limits::STOP_GRACE_MS;
use crate::planted::PlantedBug;
use crate::platform::{Moment, Order, Signal};
use crate::wire;
use crate::wire::write_queue::FrameKind;

/// What a Stop reaches (rule 3.2.1).
enum Reach {
    /// A close is in progress: join it.
    Close,
    /// The child is starting: end it.
    Starting,
    /// A turn runs, or a message is with the agent: interrupt, then end the child.
    Interrupt,
    /// Only queued messages.
    Hold,
    /// Nothing.
    None,
}

impl Session {
    /// A person presses Stop. Legal in every state (decision D12); the agent is told at once, whatever the store does
    /// (rule 3.1.2).
    pub fn stop(&mut self, now: Moment, operation: Operation, stop: Stop) {
        let live = self.plan.running_turn().map(|t| t.turn.clone());
        if self.is_late(&stop, live.as_ref()) {
            // It means a turn that is over: it stops nothing (rule 3.2.4).
            self.sometimes(CoverageMark::StopLate);
            return self.answer_stop(now, &operation, stop.turn, false, vec![]);
        }
        if self.plants(PlantedBug::RefuseAStopUnsaved) && self.appends.is_refusing() {
            let refused = RefusedOperation::new(RefusalCode::NotSaved);
            return self.answer_now(operation.call, Answer::Stopped(Err(refused)));
        }
        if live.is_none() && stop.turn.is_some() {
            self.sometimes(CoverageMark::StopOfOpening);
        }
        // A message that an earlier Stop held back is withdrawn like a queued one (rule 3.8.1).
        let mut queued = self.undelivered();
        if self.plants(PlantedBug::SecondStopKeepsTheHeld) && self.settle.is_some() {
            queued.clear();
        }
        self.mark_withdrawn();
        let withdrawn = !queued.is_empty();
        // It is nobody's failure: clients hide it (rule 3.8.2).
        let code = match self.plants(PlantedBug::WithdrawAsAFault) {
            false => FailureCode::Cancelled,
            true => FailureCode::HostFault,
        };
        let mut rows: Vec<_> = queued
            .iter()
            .map(|m| RowKind::Dispatch(rejection(m, FailureFact::new(code))))
            .collect();
        if self.plants(PlantedBug::RunWhatAStopWithdrew) {
            rows.clear();
        }
        let mut event = StopEvent {
            op: operation.op.clone(),
            reason: StopReason::UserStop,
            named: stop.turn.is_some(),
            turn: self.turn_of_event(&stop, live.as_ref()),
            at_ms: now.wall_ms,
        };
        match self.reach(&stop) {
            Reach::Close => {
                self.sometimes(CoverageMark::StopJoinedEnd);
                if self.plants(PlantedBug::CancelTwice) {
                    self.cancel_prompt(now);
                }
                if self.plants(PlantedBug::GraceRestarts) && self.timers.is_armed(Timer::StopGrace)
                {
                    self.timers.arm(Timer::StopGrace, now.mono.plus_ms(STOP_GRACE_MS));
                }
                if withdrawn || self.plants(PlantedBug::RecordARepeat) {
                    // With nothing at work there is nothing to settle: what is withdrawn never reads stopping (T32).
                    if self.settle.is_some() || self.is_working() {
                        self.open_settle(&mut event);
                    }
                    rows.push(RowKind::Mark { mark: Mark::Stop(event) });
                }
                self.reopen_settle();
                let rests_on = self.unsaved_alone(&queued);
                self.record_stop(now, &operation, stop.turn, withdrawn, rows, rests_on);
                self.press_again(now);
                if !self.plants(PlantedBug::PressWithoutARetry) {
                    self.retry_unproven_end(now);
                }
            }
            Reach::Starting => {
                self.sometimes(CoverageMark::StopWhileStarting);
                self.open_settle(&mut event);
                rows.push(RowKind::Mark { mark: Mark::Stop(event) });
                if self.plants(PlantedBug::NoteForWhatNeverRan) {
                    rows.push(self.stop_note(&operation, None));
                }
                self.answer_stop(now, &operation, stop.turn, true, rows);
                if !self.plants(PlantedBug::LeaveAStartingChild) {
                    self.end_child_as(now, Cause::Asked(StopReason::UserStop));
                    self.begin_ladder(now);
                }
            }
            Reach::Interrupt => {
                self.sometimes(CoverageMark::StopInterrupted);
                if self.appends.is_refusing() {
                    self.sometimes(CoverageMark::StopWhileNotSaved);
                }
                let rests_on = self.unsaved_work(&queued);
                self.open_settle(&mut event);
                self.withdraw_asks(now);
                let note = self.stop_note(&operation, live.as_ref());
                rows.push(RowKind::Mark { mark: Mark::Stop(event) });
                rows.push(note);
                self.end_child_as(now, Cause::Asked(StopReason::UserStop));
                self.record_stop(now, &operation, stop.turn, true, rows, rests_on);
                self.wound_down(now);
            }
            Reach::Hold => {
                rows.push(RowKind::Mark { mark: Mark::Stop(event) });
                let rests_on = self.unsaved_alone(&queued);
                self.record_stop(now, &operation, stop.turn, true, rows, rests_on);
            }
            Reach::None => {
                self.sometimes(CoverageMark::StopOfNothing);
                let claims = self.plants(PlantedBug::ClaimWhatWasNotStopped);
                self.answer_stop(now, &operation, stop.turn, claims, vec![]);
            }
        }
        self.advance(now);
    }

    /// The live turn, else the one it names if that is still opening; never one that is over (rule 3.3.2).
    fn turn_of_event(&self, stop: &Stop, live: Option<&TurnKey>) -> Option<TurnKey> {
        if self.plants(PlantedBug::EventWithoutItsTurn) {
            return None;
        }
        let names_stale = self.plants(PlantedBug::NameAStaleTurn);
        let opening = stop.turn.as_ref().filter(|t| names_stale || self.may_still_open(t));
        live.or(opening).cloned()
    }

    /// These messages, if not one of them is on disk: a Stop that does nothing but withdraw them is no more than they are.
    fn unsaved_alone(&self, messages: &[MessageId]) -> BTreeSet<MessageId> {
        match messages.iter().all(|m| self.durable.submission(m).is_none()) {
            true => messages.iter().cloned().collect(),
            false => BTreeSet::new(),
        }
    }

    /// The messages that are all that works and waits, if not one of them is on disk: nothing has run yet.
    fn unsaved_work(&self, queued: &[MessageId]) -> BTreeSet<MessageId> {
        if self.plan.running_turn().is_some() {
            return BTreeSet::new();
        }
        let work: Vec<_> = self.plan.outstanding().chain(queued).cloned().collect();
        self.unsaved_alone(&work)
    }

    fn mark_withdrawn(&mut self) {
        if self.held_back().is_some() {
            self.sometimes(CoverageMark::HeldWithdrawn);
        }
        if self.plan.queued().next().is_some() {
            self.sometimes(CoverageMark::QueuedWithdrawn);
        }
    }

    fn reach(&self, stop: &Stop) -> Reach {
        let queued = !self.undelivered().is_empty();
        match &self.child {
            Some(child) if child.ending.is_some() || child.root.is_some() => Reach::Close,
            Some(child) if !child.is_ready() => Reach::Starting,
            Some(_) if stop.turn.is_some() || self.is_working() => Reach::Interrupt,
            _ if queued => Reach::Hold,
            _ => Reach::None,
        }
    }

    /// A turn runs, or a send is unanswered (rule 3.2.2).
    pub(super) fn is_working(&self) -> bool {
        let held = self.held_back();
        let hands_over = self.plan.outstanding().any(|m| held.as_ref() != Some(m));
        self.plan.running_turn().is_some()
            || (hands_over && !self.plants(PlantedBug::HandoverIsNoWork))
    }

    /// A Stop that names a turn which is not the live one (rule 3.2.4). While a message is handed over and its turn has not
    /// opened, none is live: a Stop that names the turn before, or the one to come, stops what is in flight (rule 3.2.5).
    fn is_late(&self, stop: &Stop, live: Option<&TurnKey>) -> bool {
        let Some(named) = &stop.turn else {
            return false;
        };
        match live {
            Some(live) => live != named && !self.plants(PlantedBug::TakeALateStop),
            None => !self.is_working() || self.plants(PlantedBug::RefuseAStopOfTheOpening),
        }
    }

    fn may_still_open(&self, named: &TurnKey) -> bool {
        self.is_working() && self.plan.item(&crate::journal::turn_item(named)).is_none()
    }

    /// Keyed by the turn it stopped, else by the press; every press on that turn rewrites one row (rule 3.6.2).
    fn stop_note(&self, operation: &Operation, live: Option<&TurnKey>) -> RowKind {
        let keyed = live.filter(|_| !self.plants(PlantedBug::KeyTheNoteByThePress));
        let item = stop_note_item(keyed.map_or(operation.op.as_str(), TurnKey::as_str));
        let scope = live.filter(|_| !self.plants(PlantedBug::NoteWithoutItsTurn));
        let body = match self.plants(PlantedBug::DoubtAtThePress) {
            false => stop_note::taken(),
            true => stop_note::unconfirmed(),
        };
        RowKind::Item(self.note(item, scope, body))
    }

    fn note(&self, item: ItemKey, scope: Option<&TurnKey>, body: StatusBody) -> ItemRow {
        let revision = self.plan.next_revision(&item);
        ItemRow { item, revision, scope: scope.cloned(), body: ItemBody::Status(body) }
    }

    /// The end of the child failed while what the Stop was for still runs: its note says that it was not confirmed
    /// (rule 3.6.5). One that was pressed before the turn showed moves to the turn.
    pub(super) fn revise_stop_note(&mut self, now: Moment) {
        let Some((_, stop)) = self.plan.latest_stop() else { return };
        if stop.reason != StopReason::UserStop || !self.is_working() {
            return;
        }
        if self.plants(PlantedBug::NeverDoubtTheNote) {
            return;
        }
        let keys = stop.turn.iter().map(TurnKey::as_str).chain([stop.op.as_str()]);
        let written = keys.map(stop_note_item).find(|item| self.plan.item(item).is_some());
        let Some((old, item)) = written.and_then(|old| Some((old.clone(), self.plan.item(&old)?)))
        else {
            return;
        };
        if stop_note::is_unconfirmed(&item.body) {
            return;
        }
        let running = self.plan.running_turn().map(|turn| turn.turn.clone());
        let scope = running.or_else(|| item.scope.clone());
        let new = match &scope {
            Some(turn) => stop_note_item(turn.as_str()),
            None => old.clone(),
        };
        let mut mutations = Vec::new();
        if new != old && !self.plants(PlantedBug::LeaveTheOldNote) {
            let revision = self.plan.next_revision(&old);
            mutations.push(Mutation::Tombstone { item: old, revision });
        }
        let revised = self.note(new, scope.as_ref(), stop_note::unconfirmed());
        let settlement =
            key(&["stop-failed", revised.item.as_str(), &revised.revision.to_string()]);
        mutations.push(Mutation::Item(revised));
        self.plan_batch(now, &settlement, mutations, Draft::default());
    }

    /// The answer never waits for the store: a Stop may run without its row (rule 5.10.5).
    pub(super) fn answer_stop(
        &mut self,
        now: Moment,
        operation: &Operation,
        turn: Option<TurnKey>,
        cancelled: bool,
        rows: Vec<RowKind>,
    ) {
        self.record_stop(now, operation, turn, cancelled, rows, BTreeSet::new());
    }

    fn record_stop(
        &mut self,
        now: Moment,
        operation: &Operation,
        turn: Option<TurnKey>,
        cancelled: bool,
        rows: Vec<RowKind>,
        rests_on: BTreeSet<MessageId>,
    ) {
        let answer = Answer::Stopped(Ok(StopAnswer { turn, cancelled }));
        if self.refuses_commands().is_none() {
            let draft = Draft::rows(rows).remembering(self, now, operation, &answer);
            self.plan(now, draft.resting_on(rests_on));
        } else {
            self.sometimes(CoverageMark::StopUnrecorded);
        }
        self.answer_now(operation.call, answer);
    }

    /// THE turn-end rule (rule 3.4.7): only a person's Stop or close makes a cut turn a cancellation, and only the turn it
    /// stopped (invariant 6).
    pub(super) fn apply_turn_end_rule(&mut self, body: &mut TurnBody) {
        let Some((_, stop)) = self.plan.latest_stop() else {
            return;
        };
        let settles = self.settles() && !self.plants(PlantedBug::OpenSettleClaimsNothing);
        let binds = stop.turn.as_ref() == Some(&body.turn)
            || (stop.turn.is_none() && settles)
            || self.plants(PlantedBug::BindAStopToTheNextTurn)
            || (self.plants(PlantedBug::FailedOnIsBound) && self.failed_on(&body.turn));
        let is_a_persons =
            stop.reason.is_a_persons() || self.plants(PlantedBug::HostStopReadsAsAPersons);
        if !is_a_persons || !binds {
            return;
        }
        body.under_stop = true;
        // An exit that was seen before the Stop stays news (rule 3.4.8). The host that saw both knows which came first,
        // whatever the wall clock did.
        let before = self
            .exit_came_before_the_press()
            .unwrap_or_else(|| body.completed_ms.is_some_and(|end| end < stop.at_ms));
        let after = !before || self.plants(PlantedBug::StopClaimsAnEarlierExit);
        self.bind_settle(&body.turn);
        match (body.state, body.outcome) {
            (TurnState::Interrupted, None)
                if after && self.plants(PlantedBug::LeaveTheCutUnclaimed) => {}
            (TurnState::Interrupted, None) if after => {
                self.met.sometimes(CoverageMark::CutMadeCancellation);
                body.outcome = Some(Outcome::Cancellation);
            }
            (TurnState::Interrupted, None) => self.met.sometimes(CoverageMark::ExitBeforeStop),
            (TurnState::Completed, _) => {
                self.met.sometimes(CoverageMark::VerdictUnderStop);
                if self.plants(PlantedBug::OverwriteTheVerdict) {
                    body.state = TurnState::Interrupted;
                    body.outcome = Some(Outcome::Cancellation);
                }
            }
            _ => {}
        }
    }

    /// Writes `session/cancel` for the running prompt or agent turn, at most once (decision D14).
    pub(super) fn cancel_prompt(&mut self, now: Moment) {
        let Some(child) = self.child.as_mut() else {
            return;
        };
        let Some(session) = child.agent_session.clone() else {
            return;
        };
        if let Some(prompt) = child.prompt.as_mut() {
            if prompt.cancelled.is_some() {
                self.met.sometimes(CoverageMark::CancelSuppressed);
                if !self.policy.plants(PlantedBug::CancelTwice) {
                    return;
                }
            }
            prompt.cancelled = Some(now.mono);
        } else if child.turn.is_none() {
            return;
        } else {
            self.met.sometimes(CoverageMark::AgentTurnCancelled);
        }
        if self.plants(PlantedBug::WindDownWithoutACancel) {
            return;
        }
        if let Ok(frame) = wire::encode::session_cancel(session.as_str()) {
            self.write(frame, FrameKind::Cancel);
        }
    }

    /// A child that is asked to end with a turn in flight winds it down first: cancel, then at most 4 000 ms counted from
    /// the first cancel (rules 1.8.1, 1.8.2, 3.5.2).
    pub(super) fn wind_down(&mut self, now: Moment) {
        self.withdraw_asks(now);
        self.cancel_prompt(now);
        let since = self
            .child
            .as_ref()
            .and_then(|c| c.prompt.as_ref())
            .and_then(|p| p.cancelled)
            .unwrap_or(now.mono);
        if !self.plants(PlantedBug::NoStopGrace) {
            self.timers.arm(Timer::StopGrace, since.plus_ms(STOP_GRACE_MS));
        }
    }

    /// The turn has left and the prompt is settled, or a second press does not wait for that (decision D14); and no answer
    /// of a person's is on its way to the disk, which finishes (rule 9.4.1): the ladder may begin.
    pub(super) fn wound_down(&mut self, now: Moment) {
        let Some(child) = &self.child else { return };
        let waits = child.ending.as_ref().is_some_and(|e| e.ladder.is_none());
        let has_left = child.prompt.is_none() && child.turn.is_none();
        let is_cut =
            child.is_winding_down() && child.ending.as_ref().is_some_and(|e| e.presses() >= 2);
        let free = !child.is_at_barrier() && child.root.is_none() && !child.owes_an_answer();
        let done = waits && free && (has_left || is_cut);
        let drains = self.plants(PlantedBug::DeliverIntoAStoppingChild)
            && self.timers.is_armed(Timer::StopGrace)
            && !self.undelivered().is_empty();
        if done && !has_left {
            self.end_at_a_press(now);
        } else if done && !drains {
            self.sometimes_wound_down();
            if self.plants(PlantedBug::KillAtTheResponse) {
                self.kill_at_once();
            }
            if self.plants(PlantedBug::KeepTheStoppedChild) {
                return self.keep_child();
            }
            self.end_wound_down(now);
        }
    }

    /// A turn has left inside its grace; an idle child had none to leave.
    fn sometimes_wound_down(&mut self) {
        if self.timers.is_armed(Timer::StopGrace) {
            self.sometimes(CoverageMark::WoundDown);
        }
    }

    /// Only under [`PlantedBug::KeepTheStoppedChild`].
    fn keep_child(&mut self) {
        let stopped = |cause| cause == Cause::Asked(StopReason::UserStop);
        self.timers.clear(Timer::StopGrace);
        if let Some(child) = self.child.as_mut()
            && child.ending.as_ref().is_some_and(|e| stopped(e.cause))
        {
            child.ending = None;
        }
    }

    /// Only under [`PlantedBug::KillAtTheResponse`].
    fn kill_at_once(&mut self) {
        let order = Order::Signal { signal: Signal::Kill };
        if self.timers.is_armed(Timer::StopGrace)
            && let Some(generation) = self.child.as_ref().map(|c| c.generation.clone())
        {
            self.effects.push_back(Effect::Order { generation, order });
        }
    }
}
