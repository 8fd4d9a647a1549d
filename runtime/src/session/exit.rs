//! The root is gone: what is read to its end first, and what is written of it (rules 1.5, 2.7, 6.12).

use super::Effect;
use super::append::{Draft, Gate};
use super::child::{Cause, Child, Ending, Phase, RootEnd, Tree};
use super::ladder::{EndedHow, Ladder};
use super::machine::{Life, Session};
use super::record::Claim;
use super::timers::Timer;
use super::turn::TurnEnd;
use crate::coverage::CoverageMark;
use crate::failure::{FailureCode, FailureFact};
use crate::ids::{Generation, key};
use crate::journal::{
    ChildRow, DispatchRow, DispatchState, Mutation, Outcome, RowKind, SubmissionState, TurnBody,
    TurnState, UnknownReason,
};
use crate::limits::STDOUT_DRAIN_MS;
use crate::planted::PlantedBug;
use crate::platform::{Exit, Moment, Order, Report};

impl Session {
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

    pub(super) fn handle_exit(&mut self, now: Moment, exit: Exit) {
        self.timers.clear(Timer::Ladder);
        self.timers.clear(Timer::StopGrace);
        self.timers.clear(Timer::CloseBarrier);
        self.timers.clear(Timer::StdoutEnd);
        self.timers.clear(Timer::StdinDrain);
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

    pub(super) fn handle_swept(&mut self, now: Moment, swept: Tree) {
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
    pub(super) fn handle_supervisor_lost(&mut self, now: Moment) {
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
        if self.child.as_ref().is_some_and(Child::gave_up) {
            // Its end was told unproven already, and no window will come to write it off.
            return self.write_off(now);
        }
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
        self.look_into_its_file(now);
        self.settle_tree(now);
    }

    pub(super) fn settlement(&self, family: &str) -> String {
        let generation = self.child.as_ref().map(|c| c.generation.to_string()).unwrap_or_default();
        key(&[family, &generation])
    }

    pub(super) fn release_lease(&mut self) {
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
            if !requested || self.plants(PlantedBug::StopReadsAsADeath) {
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
    pub(super) fn failed_start(&mut self, requested: bool) -> Vec<Mutation> {
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
    pub(super) fn unsettled_prompt(&mut self, reason: UnknownReason) -> Vec<Mutation> {
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
}
