//! Permissions raised and answered (rules 9.1-9.3). Every request of the agent's gets exactly one reply (R28).

use super::append::{Draft, Gate};
use super::child::Ask;
use super::defects::Fault;
use super::machine::Session;
use super::{Answer, Operation};
use crate::agent::Access;
use crate::coverage::CoverageMark;
use crate::failure::{RefusalCode, RefusedOperation};
use crate::host::PermissionAnswer;
use crate::ids::{Generation, ItemKey, key};
use crate::journal::{
    ApprovalBody, ApprovalOption, ItemBody, ItemKeyAnswer, ItemRow, Resolution, RowKind,
};
use crate::limits::AGENT_REQUESTS_MAX;
use crate::planted::PlantedBug;
use crate::platform::Moment;
use crate::wire::write_queue::FrameKind;
use crate::wire::{self, Json, PermissionKind, PermissionOutcome, PermissionRequest, RequestId};

const METHOD_NOT_FOUND: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;
const INTERNAL_ERROR: i64 = -32_603;
const INVALID_REQUEST: i64 = -32_600;

impl Session {
    pub(super) fn handle_request(
        &mut self,
        now: Moment,
        id: RequestId,
        method: &str,
        typed: Option<Box<PermissionRequest>>,
    ) {
        if method != "session/request_permission" {
            return self.refuse_request(&id, METHOD_NOT_FOUND);
        }
        let Some(request) = typed else {
            return self.refuse_request(&id, INVALID_PARAMS);
        };
        let Some(known) = self.agent_session() else {
            return self.refuse_request(&id, INTERNAL_ERROR);
        };
        if request.session.as_deref() != Some(known.as_str()) {
            return self.refuse_request(&id, INVALID_PARAMS);
        }
        let Some(child) = self.child.as_mut() else {
            return;
        };
        if child.asks.contains_key(&id) || child.asks.len() >= AGENT_REQUESTS_MAX {
            child.defects.count(Fault::TooManyRequests);
            return self.refuse_request(&id, INVALID_REQUEST);
        }
        if request.options.is_empty() {
            self.sometimes(CoverageMark::PermissionOptionless);
        }
        if let Some(option) = self.allowed_by_access(&request) {
            self.sometimes(CoverageMark::PermissionByAccess);
            return self.reply_permission(&id, &PermissionOutcome::Selected(option));
        }
        if !self.may_ask_a_person() {
            self.sometimes(CoverageMark::PermissionUnasked);
            return self.reply_permission(&id, &PermissionOutcome::Cancelled);
        }
        self.raise(now, id, *request);
    }

    /// A card is shown only while the host's own prompt runs and nothing ends it (rule 9.1.2).
    fn may_ask_a_person(&self) -> bool {
        let Some(child) = self.child.as_ref() else {
            return false;
        };
        let by_host = child.turn.as_ref().is_some_and(|t| !t.by_agent);
        if self.plants(PlantedBug::CardUnderAStop) {
            return by_host && child.prompt.is_some();
        }
        child.is_ready() && by_host && child.prompt.as_ref().is_some_and(|p| p.cancelled.is_none())
    }

    /// Full access chooses an offered `allow_once`; where none is offered a person is asked (rule 9.1.3).
    fn allowed_by_access(&self, request: &PermissionRequest) -> Option<String> {
        let open = self.child.as_ref().is_some_and(|c| {
            c.is_ready()
                && c.turn.is_some()
                && c.prompt.as_ref().is_none_or(|p| p.cancelled.is_none())
        });
        if self.record.agent.access != Access::AllowOnce || !open {
            return None;
        }
        request.options.iter().find(|o| o.kind == PermissionKind::AllowOnce).map(|o| o.id.clone())
    }

    fn raise(&mut self, now: Moment, id: RequestId, request: PermissionRequest) {
        self.accept_prompt(now);
        let Some(child) = self.child.as_mut() else {
            return;
        };
        let Some(turn) = child.turn.as_ref().map(|t| t.turn.clone()) else {
            return;
        };
        self.met.sometimes(CoverageMark::PermissionRaised);
        let item = self.ask_item(&id);
        let body = ApprovalBody {
            title: request
                .tool
                .title
                .clone()
                .unwrap_or_else(|| "The agent asks for permission".to_owned()),
            tool_call_id: request.tool.id.clone(),
            options: request
                .options
                .iter()
                .map(|o| ApprovalOption {
                    id: o.id.clone(),
                    label: o.name.clone(),
                    kind: Some(o.kind.word()),
                })
                .collect(),
            resolution: Resolution::Pending,
            selected: None,
            resolved_by: None,
            resolved_ms: None,
        };
        if let Some(child) = self.child.as_mut() {
            child.asks.insert(id, Ask { item: item.clone(), claimed: false });
        }
        self.close_text(now);
        let revision = self.plan.next_revision(&item);
        let row = ItemRow { item, revision, scope: Some(turn), body: ItemBody::Approval(body) };
        self.plan(now, Draft::rows(vec![RowKind::Item(row)]));
    }

    /// Includes the generation, so that a fresh agent that counts from 0 again never overwrites an old card; a reused id
    /// becomes a new incarnation (rule 6.3.2).
    fn ask_item(&mut self, id: &RequestId) -> ItemKey {
        let generation = self.child.as_ref().map(|c| c.generation.to_string()).unwrap_or_default();
        let id = id.to_string();
        let mut item = ItemKey(key(&["ask", &generation, &id]));
        let mut incarnation = 1;
        while self.plan.item(&item).is_some() {
            self.met.sometimes(CoverageMark::RequestIdReused);
            incarnation += 1;
            item = ItemKey(key(&["ask", &generation, &format!("{id}#{incarnation}")]));
        }
        item
    }

    /// A person answers: claim, compare-and-set, then exactly one reply (rule 9.3.1).
    pub fn answer(&mut self, now: Moment, operation: Operation, answer: PermissionAnswer) {
        match self.resolve(now, &operation, &answer) {
            Ok(()) => {
                self.sometimes(match answer.option {
                    Some(_) => CoverageMark::PermissionAnswered,
                    None => CoverageMark::PermissionDismissed,
                });
                self.advance(now);
            }
            Err(code) => {
                if matches!(code, RefusalCode::AlreadyResolved) {
                    self.sometimes(CoverageMark::PermissionLost);
                }
                self.answer_now(operation.call, Answer::Answered(Err(RefusedOperation::new(code))));
            }
        }
    }

    fn resolve(
        &mut self,
        now: Moment,
        operation: &Operation,
        answer: &PermissionAnswer,
    ) -> Result<(), RefusalCode> {
        if let Some(code) = self.refuses_commands() {
            return Err(code);
        }
        let Some(item) = self.plan.item(&answer.item) else {
            return Err(RefusalCode::PromptUnavailable);
        };
        let ItemBody::Approval(body) = &item.body else {
            return Err(RefusalCode::PromptUnavailable);
        };
        if body.resolution != Resolution::Pending {
            return Err(RefusalCode::AlreadyResolved);
        }
        if item.revision != answer.expected_revision {
            return Err(RefusalCode::RevisionStale);
        }
        if let Some(option) = &answer.option
            && !body.options.iter().any(|o| o.id == *option)
        {
            return Err(RefusalCode::InvalidOption);
        }
        let mut body = body.clone();
        let Some(child) = self.child.as_mut() else {
            return Err(RefusalCode::PromptUnavailable);
        };
        let Some((id, ask)) =
            child.asks.iter_mut().find(|(_, a)| a.item == answer.item && !a.claimed)
        else {
            return Err(RefusalCode::PromptUnavailable);
        };
        let outcome = match &answer.option {
            Some(option) => PermissionOutcome::Selected(option.clone()),
            None => PermissionOutcome::Cancelled,
        };
        let Ok(frame) = wire::encode::permission_outcome(id, &outcome) else {
            return Err(RefusalCode::InvalidOption);
        };
        ask.claimed = true;
        let id = id.clone();
        let generation = child.generation.clone();
        body.resolution =
            if answer.option.is_some() { Resolution::Resolved } else { Resolution::Cancelled };
        body.selected.clone_from(&answer.option);
        body.resolved_by = Some(operation.caller.to_string());
        body.resolved_ms = Some(now.wall_ms);
        let revision = self.plan.next_revision(&answer.item);
        let scope = self.plan.item(&answer.item).and_then(|i| i.scope.clone());
        let row =
            ItemRow { item: answer.item.clone(), revision, scope, body: ItemBody::Approval(body) };
        let told = Answer::Answered(Ok(ItemKeyAnswer { item: answer.item.clone(), revision }));
        let draft = Draft::rows(vec![RowKind::Item(row)])
            .gate(Gate::Reply(generation, id, frame))
            .answering(self, now, operation, told);
        self.plan(now, draft);
        Ok(())
    }

    /// A committed answer goes out, also when a Stop came meanwhile (rule 9.4.1).
    pub(super) fn write_reply(
        &mut self,
        now: Moment,
        generation: &Generation,
        id: &RequestId,
        frame: Vec<u8>,
    ) {
        let Some(child) = self.child_of(generation) else {
            return;
        };
        child.asks.remove(id);
        self.write(frame, FrameKind::Reply);
        self.wound_down(now);
    }

    /// A request that outlived its turn gets its `cancelled` outcome; its row ended with the turn (R28, rule 2.3.4).
    pub(super) fn release_asks(&mut self) {
        let Some(child) = self.child.as_mut() else {
            return;
        };
        let open: Vec<_> =
            child.asks.iter().filter(|(_, a)| !a.claimed).map(|(id, _)| id.clone()).collect();
        if !open.is_empty() {
            self.met.sometimes(CoverageMark::PermissionOutlived);
        }
        child.asks.retain(|_, a| a.claimed);
        if self.policy.plants(PlantedBug::ForgetAPermissionAtStop) && child.ending.is_some() {
            return;
        }
        for id in open {
            self.reply_permission(&id, &PermissionOutcome::Cancelled);
        }
    }

    /// A person's answer will never be on disk: the request is as open as before.
    pub(super) fn unclaim_ask(&mut self, id: &RequestId) {
        if let Some(ask) = self.child.as_mut().and_then(|child| child.asks.get_mut(id)) {
            ask.claimed = false;
        }
    }

    /// At a Stop, a close or a steer: the agent gets its `cancelled` outcome, the row is cancelled (rule 9.4.1). A claimed
    /// answer finishes.
    pub(super) fn withdraw_asks(&mut self, now: Moment) {
        if self.plants(PlantedBug::ForgetAPermissionAtStop) {
            return;
        }
        let withdraws_claimed = self.plants(PlantedBug::AnswerAPermissionTwice);
        let Some(child) = self.child.as_mut() else {
            return;
        };
        if child.asks.values().any(|a| a.claimed) {
            self.met.sometimes(CoverageMark::PermissionClaimed);
        }
        let open: Vec<_> = child
            .asks
            .iter()
            .filter(|(_, a)| !a.claimed || withdraws_claimed)
            .map(|(id, a)| (id.clone(), a.item.clone()))
            .collect();
        for (id, item) in open {
            self.met.sometimes(CoverageMark::PermissionWithdrawn);
            if let Some(child) = self.child.as_mut() {
                child.asks.remove(&id);
            }
            self.reply_permission(&id, &PermissionOutcome::Cancelled);
            self.cancel_ask(now, &item);
        }
    }

    fn cancel_ask(&mut self, now: Moment, item: &ItemKey) {
        if let Some(ItemBody::Approval(body)) = self.plan.item(item).map(|i| &i.body)
            && body.resolution == Resolution::Pending
        {
            let mut body = body.clone();
            body.resolution = Resolution::Cancelled;
            body.resolved_ms = Some(now.wall_ms);
            let revision = self.plan.next_revision(item);
            let scope = self.plan.item(item).and_then(|i| i.scope.clone());
            let row =
                ItemRow { item: item.clone(), revision, scope, body: ItemBody::Approval(body) };
            self.plan(now, Draft::rows(vec![RowKind::Item(row)]));
        }
    }

    pub(super) fn handle_notification(
        &mut self,
        now: Moment,
        method: &str,
        params: Option<&Json<'_>>,
    ) {
        // The agent takes its own request back (rule 9.5.1).
        if method != "$/cancel_request" {
            return;
        }
        let id = params
            .and_then(|p| serde_json::from_str::<serde_json::Value>(p.as_str()).ok())
            .and_then(|p| {
                RequestId::parse(&p.get("requestId").or_else(|| p.get("id"))?.to_string()).ok()
            });
        let Some(child) = self.child.as_mut() else {
            return;
        };
        let Some(id) = id.filter(|id| child.asks.get(id).is_some_and(|a| !a.claimed)) else {
            return;
        };
        if let Some(ask) = child.asks.remove(&id) {
            self.met.sometimes(CoverageMark::PermissionTakenBack);
            self.reply_permission(&id, &PermissionOutcome::Cancelled);
            self.cancel_ask(now, &ask.item);
        }
    }

    fn reply_permission(&mut self, id: &RequestId, outcome: &PermissionOutcome) {
        match wire::encode::permission_outcome(id, outcome) {
            Ok(frame) => self.write(frame, FrameKind::Reply),
            Err(_) => self.refuse_request(id, INTERNAL_ERROR),
        }
    }

    pub(super) fn refuse_request(&mut self, id: &RequestId, code: i64) {
        self.sometimes(CoverageMark::RequestRefused);
        let words = match code {
            METHOD_NOT_FOUND => "this host does not offer that method",
            INVALID_PARAMS => "the parameters name no session of this host",
            INVALID_REQUEST => "the request cannot be taken",
            _ => "the host cannot serve this now",
        };
        if let Ok(frame) = wire::encode::reply_error(id, code, words) {
            self.write(frame, FrameKind::Reply);
        }
    }
}
