//! Prompt turns: opening, settling, and what ends with them (rules 2.1-2.4).

use std::collections::BTreeMap;

use super::append::Draft;
use super::deliver::prompt_turn;
use super::machine::Session;
use super::timers::Timer;
use crate::coverage::CoverageMark;
use crate::failure::{FailureCode, FailureFact};
use crate::ids::{ItemKey, MessageId, TurnKey, key};
use crate::journal::{
    ApprovalBody, EndedAs, ItemBody, ItemRow, Mutation, Outcome, Resolution, RowKind, StatusBody,
    TokenUsage, Tone, ToolBody, ToolStatus, TurnBody, TurnState, turn_item, user_item,
};
use crate::limits::{BATCH_BYTES_MAX, BATCH_MUTATIONS_MAX, TURNS_REMEMBERED_MAX};
use crate::planted::PlantedBug;
use crate::platform::{Moment, Mono};
use crate::wire::answer::{PromptAnswer, StopReason, words};
use crate::wire::{self, Findings, ReplyOutcome};

/// The turn that runs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct OpenTurn {
    pub(super) turn: TurnKey,
    /// The agent opened it by itself (rule 2.1.6).
    pub(super) by_agent: bool,
    /// Its tool calls, by the agent's ids.
    pub(super) tools: BTreeMap<String, ItemKey>,
}

/// A turn that ended on this child, kept for what comes late (decision D3).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct EndedTurn {
    pub(super) turn: TurnKey,
    pub(super) state: TurnState,
    pub(super) ended: Mono,
    pub(super) tools: BTreeMap<String, ItemKey>,
}

/// How a turn ends.
pub(super) struct TurnEnd {
    pub(super) state: TurnState,
    pub(super) outcome: Option<Outcome>,
    pub(super) completed_ms: Option<u64>,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Option<TokenUsage>,
    /// Written before the turn's end, so that it joins the turn (rule 2.2.3).
    pub(super) error: Option<FailureFact>,
}

impl TurnEnd {
    pub(super) fn cut(
        state: TurnState,
        outcome: Option<Outcome>,
        completed_ms: Option<u64>,
    ) -> Self {
        Self { state, outcome, completed_ms, stop_reason: None, usage: None, error: None }
    }
}

impl Session {
    /// The turn row opens at once when the prompt is written (rule 2.1.2).
    pub(super) fn open_prompt_turn(&mut self, now: Moment, message: &MessageId) {
        let requested_ms = self.plan.submission(message).map(|s| s.view.requested_ms);
        let body = TurnBody {
            turn: prompt_turn(message),
            state: TurnState::Running,
            outcome: None,
            user_item: Some(user_item(message)),
            started_ms: now.wall_ms,
            requested_ms,
            completed_ms: None,
            stop_reason: None,
            under_stop: false,
            delivery_unproven: false,
            usage: None,
        };
        self.open_turn(now, body, false);
    }

    /// The agent works by itself: a turn without a user item (rule 2.1.6).
    pub(super) fn open_agent_turn(&mut self, now: Moment) {
        let Some(child) = self.child.as_mut() else {
            return;
        };
        self.met.sometimes(CoverageMark::AgentTurnOpened);
        child.agent_turns += 1;
        let turn =
            TurnKey(key(&["agent", &child.fence.to_string(), &child.agent_turns.to_string()]));
        let body = TurnBody {
            turn,
            state: TurnState::Running,
            outcome: None,
            user_item: None,
            started_ms: now.wall_ms,
            requested_ms: None,
            completed_ms: None,
            stop_reason: None,
            under_stop: false,
            delivery_unproven: false,
            usage: None,
        };
        self.open_turn(now, body, true);
    }

    fn open_turn(&mut self, now: Moment, body: TurnBody, by_agent: bool) {
        // One that is open gives way (rule 2.1.7).
        if self.child.as_ref().is_some_and(|c| c.turn.is_some()) {
            self.sometimes(CoverageMark::AgentTurnSuperseded);
        }
        let superseded =
            TurnEnd::cut(TurnState::Interrupted, Some(Outcome::Superseded), Some(now.wall_ms));
        self.end_turn(now, "superseded", superseded);
        self.close_text(now);
        self.meet_turn(&body);
        let turn = body.turn.clone();
        let item = turn_item(&turn);
        let revision = self.plan.next_revision(&item);
        let row = ItemRow { item, revision, scope: Some(turn.clone()), body: ItemBody::Turn(body) };
        self.plan(now, Draft::rows(vec![RowKind::Item(row)]));
        if let Some(child) = self.child.as_mut() {
            child.turn = Some(OpenTurn { turn, by_agent, tools: BTreeMap::new() });
        }
    }

    /// The agent answered the prompt: its verdict is stored as it is (rule 2.2.1, invariant 5).
    pub(super) fn handle_prompt_answer(
        &mut self,
        now: Moment,
        message: &MessageId,
        outcome: &ReplyOutcome<'_>,
    ) {
        let running = self.child.as_ref().and_then(|c| c.prompt.as_ref());
        if running.is_none_or(|p| p.message != *message) {
            return;
        }
        if self.child.as_ref().is_some_and(|c| c.root.is_some()) {
            self.sometimes(CoverageMark::AnsweredAfterExit);
        }
        let end = match outcome {
            ReplyOutcome::Result(result) => {
                let mut findings = Findings::default();
                let answer = PromptAnswer::decode(result.as_str(), &mut findings);
                self.absorb(&findings);
                if findings.defects.is_empty() {
                    self.mark_verdict(&answer);
                    answered_end(now, &answer)
                } else {
                    // It does not parse against the protocol (rule 2.2.5).
                    self.sometimes(CoverageMark::PromptUndecodable);
                    failed_end(now, FailureFact::new(FailureCode::ProviderError))
                }
            }
            ReplyOutcome::Error { message, data, .. } => {
                let fact = error_fact(message, data.as_ref().map(wire::Json::as_str));
                self.sometimes(match fact.code {
                    FailureCode::NotSignedIn => CoverageMark::SignedOutInPrompt,
                    _ => CoverageMark::PromptFailed,
                });
                failed_end(now, fact)
            }
            ReplyOutcome::Undecodable => {
                self.sometimes(CoverageMark::PromptUndecodable);
                failed_end(now, FailureFact::new(FailureCode::ProviderError))
            }
        };
        // The answer first, then the send, then the next message (rule 2.2.10).
        self.end_turn(now, "answered", end);
        self.accept_prompt(now);
        self.note_cancel_answer();
        if let Some(child) = self.child.as_mut() {
            child.prompt = None;
        }
        self.wound_down(now);
    }

    fn mark_verdict(&mut self, answer: &PromptAnswer) {
        let unasked = self
            .child
            .as_ref()
            .and_then(|c| c.prompt.as_ref())
            .is_some_and(|p| p.cancelled.is_none());
        match &answer.stop_reason {
            StopReason::Cancelled if unasked => self.sometimes(CoverageMark::CancelledUnasked),
            StopReason::EndTurn | StopReason::Cancelled => {}
            StopReason::Other(_) | StopReason::Missing => {
                self.sometimes(CoverageMark::UnknownVerdict);
            }
            _ => self.sometimes(CoverageMark::AnsweredFailure),
        }
    }

    /// Ends the running turn, if one runs: one batch with everything that ends with it (rule 2.3.1).
    pub(super) fn end_turn(&mut self, now: Moment, family: &str, end: TurnEnd) {
        let Some(turn) = self.child.as_ref().and_then(|c| c.turn.as_ref()).map(|t| t.turn.clone())
        else {
            return;
        };
        self.close_text(now);
        self.timers.clear(Timer::AgentTurnQuiet);
        let state = end.state;
        let mutations = self.turn_end_mutations(now, &turn, end);
        self.plan_batch(now, &key(&[family, turn.as_str()]), mutations, Draft::default());
        let Some(child) = self.child.as_mut() else {
            return;
        };
        let Some(open) = child.turn.take() else {
            return;
        };
        if child.ended.len() == TURNS_REMEMBERED_MAX {
            child.ended.pop_front();
        }
        child.ended.push_back(EndedTurn { turn, state, ended: now.mono, tools: open.tools });
        if let Some(ending) = child.ending.as_mut().filter(|e| e.cause.is_requested()) {
            ending.turn_left = true;
        }
        self.release_asks();
    }

    /// Tools, questions, the failure row, then the turn itself.
    pub(super) fn turn_end_mutations(
        &mut self,
        now: Moment,
        turn: &TurnKey,
        end: TurnEnd,
    ) -> Vec<Mutation> {
        let item = turn_item(turn);
        let Some(ItemBody::Turn(body)) = self.plan.item(&item).map(|i| &i.body) else {
            return Vec::new();
        };
        let rewrites = self.plants(PlantedBug::EndedTwice);
        if matches!(body.state, TurnState::Running | TurnState::Unverifiable) || rewrites {
            let mut body = body.clone();
            let mut mutations = self.settle_tools(end.state);
            if !mutations.is_empty() {
                self.sometimes(CoverageMark::ToolCut);
            }
            if body.state == TurnState::Unverifiable {
                self.sometimes(CoverageMark::BreakProven);
                mutations.extend(self.prove_tools(turn));
            }
            mutations.extend(self.settle_asks(now));
            if let Some(fact) = &end.error {
                mutations.push(self.error_row(&["error", turn.as_str()], Some(turn), fact.clone()));
            }
            body.state = end.state;
            body.outcome = end.outcome;
            body.completed_ms = end.completed_ms;
            body.stop_reason = end.stop_reason;
            body.usage = end.usage;
            self.apply_turn_end_rule(&mut body);
            self.note_cut(&body);
            mutations.push(self.revise(&item, ItemBody::Turn(body)));
            mutations
        } else {
            // A turn that ended is not written again (rule 2.3.8).
            Vec::new()
        }
    }

    /// A call that still runs when its turn ends failed with it (rule 2.3.2).
    pub(super) fn settle_tools(&self, turn: TurnState) -> Vec<Mutation> {
        let ended_as = match turn {
            TurnState::Interrupted => Some(EndedAs::Interrupted),
            TurnState::Unverifiable => Some(EndedAs::Unverifiable),
            TurnState::Completed | TurnState::Running => None,
        };
        let mut mutations = Vec::new();
        if self.plants(PlantedBug::LeaveToolsRunning) {
            return mutations;
        }
        for item in self.plan.running_tools() {
            if let Some(ItemBody::Tool(tool)) = self.plan.item(item).map(|i| &i.body) {
                let mut tool = tool.clone();
                tool.status = ToolStatus::Failed;
                tool.ended_as = ended_as;
                mutations.push(self.revise(item, ItemBody::Tool(tool)));
            }
        }
        mutations
    }

    /// The calls of a turn that is proven cut after all follow it (rule 1.5.3).
    fn prove_tools(&self, turn: &TurnKey) -> Vec<Mutation> {
        let ended = self.child.iter().flat_map(|c| &c.ended).filter(|t| t.turn == *turn);
        let unproven = ended.flat_map(|t| t.tools.values()).filter_map(|item| {
            match &self.plan.item(item)?.body {
                ItemBody::Tool(t) if t.ended_as == Some(EndedAs::Unverifiable) => Some((item, t)),
                _ => None,
            }
        });
        unproven
            .map(|(item, tool)| {
                let proven = ToolBody { ended_as: Some(EndedAs::Interrupted), ..tool.clone() };
                self.revise(item, ItemBody::Tool(proven))
            })
            .collect()
    }

    /// A question that waits is cancelled with its turn (rule 2.3.4).
    pub(super) fn settle_asks(&self, now: Moment) -> Vec<Mutation> {
        let mut mutations = Vec::new();
        for item in self.plan.pending_approvals() {
            if let Some(ItemBody::Approval(approval)) = self.plan.item(item).map(|i| &i.body) {
                let cancelled = ApprovalBody {
                    resolution: Resolution::Cancelled,
                    resolved_ms: Some(now.wall_ms),
                    ..approval.clone()
                };
                mutations.push(self.revise(item, ItemBody::Approval(cancelled)));
            }
        }
        mutations
    }

    pub(super) fn revise(&self, item: &ItemKey, body: ItemBody) -> Mutation {
        let scope = self.plan.item(item).and_then(|i| i.scope.clone());
        Mutation::Item(ItemRow {
            item: item.clone(),
            revision: self.plan.next_revision(item),
            scope,
            body,
        })
    }

    pub(super) fn error_row(
        &self,
        parts: &[&str],
        scope: Option<&TurnKey>,
        fact: FailureFact,
    ) -> Mutation {
        let item = ItemKey(key(parts));
        let revision = self.plan.next_revision(&item);
        let text = fact.sentence();
        let body = ItemBody::Status(StatusBody { tone: Tone::Error, text, fact: Some(fact) });
        Mutation::Item(ItemRow { item, revision, scope: scope.cloned(), body })
    }

    /// Plans one lifecycle batch, split into numbered ones past its bounds (rule 6.5.4). An empty one writes nothing,
    /// unless `draft` brings something of its own.
    pub(super) fn plan_batch(
        &mut self,
        now: Moment,
        settlement: &str,
        mutations: Vec<Mutation>,
        draft: Draft,
    ) {
        let mut chunks: Vec<Vec<Mutation>> = Vec::new();
        let mut bytes = 0;
        for mutation in mutations {
            let weight = serde_json::to_string(&mutation).map_or(0, |t| t.len());
            let full = chunks
                .last()
                .is_none_or(|c| c.len() == BATCH_MUTATIONS_MAX || bytes + weight > BATCH_BYTES_MAX);
            if full {
                chunks.push(Vec::new());
                bytes = 0;
            }
            bytes += weight;
            if let Some(chunk) = chunks.last_mut() {
                chunk.push(mutation);
            }
        }
        let rows = chunks.into_iter().enumerate().filter_map(|(i, mutations)| {
            let settlement =
                if i == 0 { settlement.to_owned() } else { format!("{settlement}#{}", i + 1) };
            (!self.plan.has_settled(&settlement))
                .then_some(RowKind::Batch { settlement, mutations })
        });
        let draft = draft.preceded_by(rows.collect());
        if !draft.is_empty() {
            self.plan(now, draft);
        }
    }

    /// Quiet ends a turn that the agent opened by itself; its outcome is absent (decision D4).
    pub(super) fn end_quiet_agent_turn(&mut self, now: Moment) {
        let by_agent =
            self.child.as_ref().and_then(|c| c.turn.as_ref()).is_some_and(|t| t.by_agent);
        if by_agent && self.plan.running_tools().next().is_some() {
            self.sometimes(CoverageMark::AgentTurnKept);
        } else if by_agent && self.child.as_ref().is_some_and(|c| c.ending.is_some()) {
            // Behind a cancel nothing comes any more; that it was cut is proven by the exit (rules 3.5.2, 3.12). What an
            // agent says while it saves ends no barrier.
            if self.child.as_ref().is_some_and(|c| !c.is_at_barrier()) {
                self.begin_ladder(now);
            }
        } else if by_agent {
            self.sometimes(CoverageMark::AgentTurnQuiet);
            self.end_turn(
                now,
                "quiet",
                TurnEnd::cut(TurnState::Completed, None, Some(now.wall_ms)),
            );
            self.wound_down(now);
        }
    }
}

/// The table of rule 2.2.1.
fn answered_end(now: Moment, answer: &PromptAnswer) -> TurnEnd {
    let (state, outcome, error) = match &answer.stop_reason {
        StopReason::EndTurn => (TurnState::Completed, Some(Outcome::Success), false),
        StopReason::Cancelled => (TurnState::Interrupted, Some(Outcome::Cancellation), false),
        StopReason::Refusal | StopReason::MaxTokens | StopReason::MaxTurnRequests => {
            (TurnState::Completed, Some(Outcome::Failure), false)
        }
        StopReason::Error | StopReason::RateLimit => {
            (TurnState::Completed, Some(Outcome::Failure), true)
        }
        // Unknown is never success (rule 2.2.2).
        StopReason::Other(_) | StopReason::Missing => (TurnState::Completed, None, false),
    };
    TurnEnd {
        state,
        outcome,
        completed_ms: Some(now.wall_ms),
        stop_reason: answer
            .stop_reason
            .word()
            .map(|w| w.chars().take(STOP_REASON_CHARS_MAX).collect()),
        usage: answer.usage.filter(|u| !u.is_all_zero()).map(|u| TokenUsage {
            input: u.input.unwrap_or(0),
            output: u.output.unwrap_or(0),
            total: u.total.unwrap_or(0),
        }),
        error: error.then(|| FailureFact::new(FailureCode::ProviderError)),
    }
}

/// An agent's word for a turn's end is kept up to this.
const STOP_REASON_CHARS_MAX: usize = 128;

fn failed_end(now: Moment, fact: FailureFact) -> TurnEnd {
    TurnEnd {
        error: Some(fact),
        ..TurnEnd::cut(TurnState::Completed, Some(Outcome::Failure), Some(now.wall_ms))
    }
}

/// The agent's words for an error; some agents say in them that nobody is signed in (rule 1.3.3a).
fn error_fact(message: &str, data: Option<&str>) -> FailureFact {
    let said = words(message, data);
    let signed_out =
        ["No model selected", "No API key found"].iter().any(|start| said.starts_with(start));
    let code = if signed_out { FailureCode::NotSignedIn } else { FailureCode::ProviderError };
    FailureFact::quoting(code, Some(&said))
}
