//! Accept, then deliver (rules 5.1, 5.3): a send is durable before it is answered; delivery re-reads journal and child
//! at each step and has no state of its own.

use super::append::{Draft, Gate};
use super::child::{Asked, Cause, Child, Phase, Prompt};
use super::machine::{Life, Session};
use super::{Accepted, Answer, Effect, Operation};
use crate::coverage::CoverageMark;
use crate::digest::fingerprint;
use crate::failure::{FailureCode, FailureFact, RefusalCode, RefusedOperation};
use crate::host::Send;
use crate::ids::{Generation, MessageId, TurnKey, key};
use crate::journal::{
    DispatchRow, DispatchState, ItemBody, RowKind, SendMode, StreamedText, SubmissionState,
    user_item,
};
use crate::limits::{MESSAGE_ID_BYTES_MAX, QUEUED_SENDS_MAX};
use crate::planted::PlantedBug;
use crate::platform::Moment;
use crate::wire::write_queue::{Admission, RESERVED_BYTES, WRITE_QUEUE_BYTES_MAX};
use crate::wire::{self, PromptBlock};

impl Session {
    /// Accepts a message. Needs no child and no agent; it is answered once it is on disk (rule 5.1.1).
    pub fn send(&mut self, now: Moment, operation: Operation, send: Send) {
        let print = fingerprint(
            "message",
            send.message_id.as_str(),
            &serde_json::json!({"text": send.text, "mode": send.mode}),
        );
        // What a lost store dropped was never accepted.
        let journal = if self.appends.is_closed() { &self.durable } else { &self.plan };
        if let Some(known) = journal.submission(&send.message_id) {
            // One id, one delivery: what was recorded is answered again (rule 5.2.1).
            let answer = if known.fingerprint == print {
                self.met.sometimes(CoverageMark::SendReplayed);
                let state = known.view.state;
                Ok(Accepted { message_id: send.message_id, state, fence: self.fence() })
            } else {
                self.met.sometimes(CoverageMark::MessageIdReused);
                Err(RefusedOperation::new(RefusalCode::MessageIdReused))
            };
            self.gate_on_last(now, Gate::Answer(operation.call, Box::new(Answer::Sent(answer))));
            return;
        }
        if let Some(code) = self.refuses_send(&send) {
            match code {
                RefusalCode::NotSaved => self.sometimes(CoverageMark::SendNotSaved),
                RefusalCode::Quitting | RefusalCode::SessionClosed => {
                    self.sometimes(CoverageMark::SendAtEnd);
                }
                _ => {}
            }
            self.answer_now(operation.call, Answer::Sent(Err(RefusedOperation::new(code))));
            return;
        }
        self.note_steer(&send);
        let row = RowKind::Submission {
            message_id: send.message_id.clone(),
            fingerprint: print,
            text: StreamedText(send.text),
            mode: send.mode,
            requested_ms: now.wall_ms,
        };
        let accepted = Accepted {
            message_id: send.message_id,
            state: SubmissionState::Queued,
            fence: self.fence(),
        };
        let draft =
            Draft::rows(vec![row]).answering(self, now, &operation, Answer::Sent(Ok(accepted)));
        self.plan(now, draft);
        // An end that was not proven is tried again by whoever needs the agent (rule 1.8.8).
        self.retry_unproven_end(now);
        self.advance(now);
    }

    fn refuses_send(&self, send: &Send) -> Option<RefusalCode> {
        if let Some(code) = self.refuses_commands() {
            return Some(code);
        }
        if self.appends.is_refusing() {
            // A send may not run without its row (rule 5.10.5).
            return Some(RefusalCode::NotSaved);
        }
        if !(1..=MESSAGE_ID_BYTES_MAX).contains(&send.message_id.as_str().len()) {
            return Some(RefusalCode::MessageIdInvalid);
        }
        if send.text.trim().is_empty() {
            return Some(RefusalCode::EmptyMessage);
        }
        if self.plan.queued().count() >= QUEUED_SENDS_MAX {
            return Some(RefusalCode::QueueFull);
        }
        // Escaping can lengthen a text sixfold; below that no frame can be too large.
        let may_be_too_large = send.text.len() >= wire::MAX_OUTBOUND_FRAME / 8;
        let blocks = || [PromptBlock::text(send.text.as_str())];
        if may_be_too_large
            && wire::encode::session_prompt(u64::MAX, &"x".repeat(1_024), &blocks()).is_err()
        {
            return Some(RefusalCode::MessageTooLarge);
        }
        None
    }

    /// Why no command that changes something is taken now.
    pub(super) fn refuses_commands(&self) -> Option<RefusalCode> {
        match self.life {
            _ if self.appends.is_closed() => Some(RefusalCode::StoreClosed),
            Life::Open => None,
            Life::ReadOnly => Some(RefusalCode::ReadOnly),
            Life::Quitting => Some(RefusalCode::Quitting),
            Life::Closed => Some(RefusalCode::SessionClosed),
        }
    }

    /// A message steers if a prompt runs that it cuts (rule 2.5.1). Sent while none does, or while a Stop is in force, it runs
    /// in its order as any other, and as a turn of its own (rule 5.4.1).
    fn note_steer(&mut self, send: &Send) {
        let runs = |c: &&Child| c.is_ready() && (c.prompt.is_some() || c.dispatching.is_some());
        let Some(child) = self.child.as_ref().filter(runs) else { return };
        if send.mode == SendMode::Steer {
            let plan = &self.plan;
            self.steers.retain(|(_, m)| plan.queued().any(|queued| queued == m));
            self.steers.push((child.generation.clone(), send.message_id.clone()));
        }
    }

    /// The steers that wait, oldest first. One whose child ends steers no more.
    fn waiting_steers(&self) -> impl Iterator<Item = &MessageId> {
        let ready = self.child.as_ref().filter(|c| c.is_ready()).map(|c| &c.generation);
        let steers = self.steers.iter().filter(move |(of, _)| ready == Some(of));
        steers.map(|(_, message)| message).filter(|m| {
            self.plan.submission(m).is_some_and(|s| s.view.state == SubmissionState::Queued)
        })
    }

    /// The message that goes next.
    pub(super) fn next_message(&self) -> Option<MessageId> {
        let waiting = || self.waiting_steers().next().or_else(|| self.plan.queued().next());
        self.held_back().or_else(|| waiting().cloned())
    }

    /// The message whose frame was held back, unless it was rejected meanwhile.
    pub(super) fn held_back(&self) -> Option<MessageId> {
        self.withheld.clone().filter(|m| self.is_handed_over(m))
    }

    pub(super) fn is_handed_over(&self, message: &MessageId) -> bool {
        self.plan.submission(message).is_some_and(|s| s.view.state == SubmissionState::HandedOver)
    }

    /// One step of the delivery loop: ensure a child, or hand the next message over (rules 5.3.2, 5.3.3).
    pub(super) fn deliver(&mut self, now: Moment) {
        if self.life != Life::Open || self.appends.is_closed() || self.minting {
            return;
        }
        let Some(message) = self.next_message() else {
            return;
        };
        if self.holds_for_ever(&message) {
            return;
        }
        if self.is_owned_elsewhere() {
            // An earlier host's child may still live: nothing is started over it (invariant 1).
            self.sometimes(CoverageMark::OwnedElsewhere);
            let queued: Vec<_> = self.plan.queued().cloned().collect();
            for message in queued {
                self.reject(now, &message, FailureFact::new(FailureCode::PreviousExitUnverifiable));
            }
            return;
        }
        let Some(child) = self.child.as_ref() else {
            self.minting = true;
            self.effects.push_back(Effect::Mint);
            return;
        };
        // A child that starts takes nothing yet, one that ends takes nothing more (rules 5.3.5, 5.4).
        if child.ending.is_some() {
            self.met.sometimes(CoverageMark::SendWaitedForEnd);
        }
        if !self.takes_prompts() || child.prompt.is_some() || child.dispatching.is_some() {
            return;
        }
        if child.writes.queued() > WRITE_QUEUE_ROOM_BYTES {
            // It waits for room as a queued send (decision D2).
            return;
        }
        let generation = child.generation.clone();
        if self.withheld.take().is_some_and(|held| held == message) {
            // Its handover is on disk already, and no frame of it ever left.
            self.sometimes(CoverageMark::HeldDelivered);
            if let Some(child) = self.child.as_mut() {
                child.dispatching = Some(message.clone());
            }
            self.gate_on_last(now, Gate::Prompt(generation, message));
            return;
        }
        if self.overtakes_the_queue(&message) {
            self.sometimes(CoverageMark::SteerWentFirst);
        }
        if let Some(child) = self.child.as_mut() {
            child.dispatching = Some(message.clone());
        }
        // The dispatch row is on disk before the agent may see the message (invariant 4).
        let row = RowKind::Dispatch(DispatchRow {
            message_id: message.clone(),
            state: DispatchState::HandedOver,
            scope: Some(prompt_turn(&message)),
            fact: None,
            reason: None,
        });
        if self.plants(PlantedBug::ActBeforePersist) {
            self.plan(now, Draft::rows(vec![row]));
            return self.write_prompt(now, &generation, &message);
        }
        self.plan(now, Draft::rows(vec![row]).gate(Gate::Prompt(generation, message)));
    }

    /// A child that starts or ends takes none.
    fn takes_prompts(&self) -> bool {
        let ends = self.plants(PlantedBug::DeliverIntoAStoppingChild);
        self.child
            .as_ref()
            .is_some_and(|c| c.is_ready() || (ends && c.phase == Phase::Ready && !c.is_in_ladder()))
    }

    fn overtakes_the_queue(&self, message: &MessageId) -> bool {
        self.plan.queued().next().is_some_and(|first| first != message)
    }

    /// The dispatch row is durable: the prompt goes out, and its turn opens (decision D32).
    pub(super) fn write_prompt(
        &mut self,
        now: Moment,
        generation: &Generation,
        message: &MessageId,
    ) {
        let takes = self.takes_prompts();
        let Some(child) = self.child_of(generation) else {
            self.withhold(now, message);
            return;
        };
        if child.dispatching.take().is_none() || !takes {
            // A Stop or an end overtook it: it never left, and runs as its own turn later (decision D24).
            self.withhold(now, message);
            return;
        }
        let Some(session) = child.agent_session.clone() else {
            debug_assert!(false, "a ready child knows its session");
            return;
        };
        let Some(ItemBody::User(user)) = self.plan.item(&user_item(message)).map(|i| &i.body)
        else {
            debug_assert!(false, "a handed over message has its item");
            return;
        };
        let blocks = [PromptBlock::text(user.text.as_str())];
        let Some(child) = self.child.as_mut() else {
            return;
        };
        let id = child.next_request(Asked::Prompt(message.clone()));
        let Ok(frame) = wire::encode::session_prompt(id, session.as_str(), &blocks) else {
            child.asked.remove(&id);
            self.reject(now, message, FailureFact::new(FailureCode::MessageTooLarge));
            return;
        };
        child.replaying = false;
        child.prompt = Some(Prompt { message: message.clone(), accepted: false, cancelled: None });
        self.write(frame, wire::write_queue::FrameKind::Request);
        self.open_prompt_turn(now, message);
        if self.plants(PlantedBug::AcceptAtTheWrite) {
            self.accept_prompt(now);
        }
        self.steer(now);
    }

    fn withhold(&mut self, now: Moment, message: &MessageId) {
        if !self.is_handed_over(message) {
            return;
        }
        self.sometimes(match self.life {
            Life::Open => CoverageMark::HandoverOvertaken,
            _ => CoverageMark::HeldRejected,
        });
        match self.life {
            Life::Open if self.plants(PlantedBug::SwallowAnOvertakenSend) => {}
            Life::Open => self.withheld = Some(message.clone()),
            // No child comes that could take it, and it is proven that none has seen it.
            Life::Closed => self.reject(now, message, FailureFact::new(FailureCode::ChatClosed)),
            Life::Quitting | Life::ReadOnly => {
                self.reject(now, message, FailureFact::new(FailureCode::HostStopped));
            }
        }
    }

    /// A steer that waits cuts the running prompt, once (rules 2.5.1, 2.5.2), and not before it is on disk: one that the store
    /// refuses has cut nothing.
    pub(super) fn steer(&mut self, now: Moment) {
        let running = self.child.as_ref().is_some_and(|c| c.is_ready() && c.prompt.is_some());
        let saved = |m: &MessageId| self.durable.submission(m).is_some();
        if running && self.waiting_steers().any(saved) {
            self.sometimes(CoverageMark::SteerCut);
            self.withdraw_asks(now);
            self.cancel_prompt(now);
        }
    }

    /// A message is proven not to have been delivered.
    pub(super) fn reject(&mut self, now: Moment, message: &MessageId, fact: FailureFact) {
        let row = RowKind::Dispatch(rejection(message, fact));
        self.plan(now, Draft::rows(vec![row]));
    }

    /// The running prompt's submission is accepted, once (rule 2.1.3).
    pub(super) fn accept_prompt(&mut self, now: Moment) {
        let Some(prompt) = self.child.as_mut().and_then(|c| c.prompt.as_mut()) else {
            return;
        };
        if prompt.accepted {
            return;
        }
        prompt.accepted = true;
        let row = RowKind::Dispatch(DispatchRow {
            message_id: prompt.message.clone(),
            state: DispatchState::Accepted,
            scope: None,
            fact: None,
            reason: None,
        });
        self.plan(now, Draft::rows(vec![row]));
    }

    /// Hands a frame to the child's writer, within the bounds of the write queue (decision D2).
    pub(super) fn write(&mut self, frame: Vec<u8>, kind: wire::write_queue::FrameKind) {
        let Some(child) = self.child.as_mut() else {
            return;
        };
        if child.root.is_some() || child.is_in_ladder() {
            // stdin is closed: nothing more can be said.
            return;
        }
        match child.writes.admit(kind, frame.len()) {
            Admission::Admitted => {
                let generation = child.generation.clone();
                self.effects.push_back(Effect::Write { generation, frame: super::Frame(frame) });
            }
            // Requests are made one at a time and only when there is room: the agent does not read.
            Admission::WaitForRoom | Admission::ReserveFull => {
                child.defects.count(super::defects::Fault::WriteQueueFull);
                child.stuck = true;
            }
        }
    }

    /// A child that does not read until even the reserve is full counts as broken (decision D2).
    pub(super) fn end_stuck_child(&mut self, now: Moment) {
        if self.child.as_mut().is_some_and(|c| std::mem::take(&mut c.stuck)) {
            self.end_child_as(now, Cause::Broken);
            self.begin_ladder(now);
        }
    }

    /// Bytes of frames that left for the pipe.
    pub fn handle_written(&mut self, now: Moment, generation: &Generation, bytes: usize) {
        if let Some(child) = self.child_of(generation) {
            child.writes.written(bytes);
            self.advance(now);
        }
    }

    /// A child ended before it was handed the message it was started for: that one alone is rejected, and starts no child
    /// again (rules 5.3.3, 5.3.4).
    pub(super) fn start_rejections(&self, child: &Child, fact: &FailureFact) -> Vec<DispatchRow> {
        let started_for = child.start_for.iter().filter(|m| {
            let written = child.prompt.as_ref().is_some_and(|p| p.message == **m);
            self.plan.submission(m).is_some_and(|s| match s.view.state {
                SubmissionState::Queued => true,
                SubmissionState::HandedOver => !written,
                _ => false,
            })
        });
        started_for.map(|m| rejection(m, fact.clone())).collect()
    }

    pub(super) fn phase_is(&self, phase: &Phase) -> bool {
        self.child.as_ref().is_some_and(|c| c.phase == *phase)
    }
}

/// With no more than this waiting, a frame of any length fits beside the reserve.
const WRITE_QUEUE_ROOM_BYTES: usize =
    WRITE_QUEUE_BYTES_MAX - RESERVED_BYTES - wire::MAX_OUTBOUND_FRAME;

/// The turn that a prompt opens (rule 2.1.2).
pub(super) fn prompt_turn(message: &MessageId) -> TurnKey {
    TurnKey(key(&["prompt", message.as_str()]))
}

pub(super) fn rejection(message: &MessageId, fact: FailureFact) -> DispatchRow {
    DispatchRow {
        message_id: message.clone(),
        state: DispatchState::Rejected,
        scope: None,
        fact: Some(fact),
        reason: None,
    }
}
