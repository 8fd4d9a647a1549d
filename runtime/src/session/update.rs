//! What the agent says, event by event, in the order it was said.

use super::append::Draft;
use super::child::{Asked, Child, Phase};
use super::defects::Fault;
use super::machine::Session;
use super::text::Piece;
use super::timers::Timer;
use crate::coverage::CoverageMark;
use crate::ids::{AgentSessionId, Generation, ItemKey, TurnKey, key};
use crate::journal::{
    ItemBody, ItemRow, Mark, Payload, RawBody, Role, RowKind, ToolBody, ToolStatus, TurnState,
};
use crate::limits::{
    AGENT_TURN_QUIET_MS, EARLY_FRAMES_MAX, LADDER_BUFFER_BYTES_MAX, LATE_UPDATE_WINDOW_MS,
};
use crate::planted::PlantedBug;
use crate::platform::Moment;
use crate::wire::{self, ChunkRole, Event, ToolCall, Update};

/// Where an update belongs.
enum Place {
    /// In the running turn.
    Running(TurnKey),
    /// Behind the answer of a turn that has just ended (decision D3 c).
    Late(TurnKey),
    /// The agent was stopped, and its turn is over (rule 3.5.7).
    Nowhere,
}

impl Session {
    /// Bytes of the child's stdout, in order.
    pub fn handle_stdout(&mut self, now: Moment, generation: &Generation, bytes: &[u8]) {
        let Some(child) = self.child_of(generation) else {
            return;
        };
        if child.exit_recorded || child.cut_off {
            // Once its end is written, or contact is lost, nothing more of a child is accepted (rules 2.3.9, 1.5.2).
            return;
        }
        // The decoder is lent to the loop, which lends the session to each event.
        let mut decoder =
            std::mem::replace(&mut child.decoder, wire::Decoder::new(wire::Limits::default()));
        decoder.push(bytes, &mut |event| self.handle_event(now, event));
        if let Some(child) = self.child.as_mut() {
            decoder.absorb(child.decoder.quirks());
            child.decoder = decoder;
        }
        self.advance(now);
    }

    /// The agent's stdout has ended: by itself no loss (rule 1.5.1).
    pub fn handle_stdout_end(&mut self, now: Moment, generation: &Generation) {
        let Some(child) = self.child_of(generation) else {
            return;
        };
        if std::mem::replace(&mut child.stdout_ended, true) {
            return;
        }
        let mut decoder =
            std::mem::replace(&mut child.decoder, wire::Decoder::new(wire::Limits::default()));
        decoder.finish(&mut |event| self.handle_event(now, event));
        if let Some(child) = self.child.as_mut() {
            child.decoder = decoder;
        }
        self.watch_ended_stdout(now);
        self.settle_exit(now);
        self.advance(now);
    }

    /// Bytes of the child's stderr: only the last of them are kept (rule 1.5.9).
    pub fn handle_stderr(&mut self, _now: Moment, generation: &Generation, bytes: &[u8]) {
        if let Some(child) = self.child_of(generation) {
            child.keep_stderr(bytes);
        }
    }

    /// The child's stderr has ended: what it said of its own end is all here.
    pub fn handle_stderr_end(&mut self, now: Moment, generation: &Generation) {
        if let Some(child) = self.child_of(generation) {
            child.stderr_ended = true;
            self.settle_exit(now);
            self.advance(now);
        }
    }

    pub(super) fn handle_event(&mut self, now: Moment, event: Event<'_>) {
        match event {
            Event::TextChunk { session, role, text, message_id } => {
                if self.takes(&session) && !self.is_replaying() {
                    self.handle_text(now, role, message_id.as_deref(), &text);
                } else {
                    self.keep_early(|| {
                        Event::TextChunk { session, role, text, message_id }.into_owned()
                    });
                }
            }
            Event::Update { session, update } => {
                if session.as_deref().is_none_or(|s| self.takes(s))
                    && self.is_open()
                    && !self.is_replayed(&update)
                {
                    self.handle_update(now, update);
                } else {
                    self.keep_early(|| Event::Update { session, update }.into_owned());
                }
            }
            Event::Reply { id, outcome } => self.handle_reply(now, id, &outcome),
            Event::Request { id, method, typed, .. } => {
                self.handle_request(now, id, &method, typed)
            }
            Event::InvalidRequest { id, code } => self.refuse_request(&id, code),
            Event::Notification { method, params } => {
                self.handle_notification(now, &method, params.as_ref())
            }
            Event::Defect(_) => self.count(Fault::Wire),
            // Noise is an event, never an answer (R18).
            Event::Noise { .. } => {}
        }
    }

    /// The agent's session is open, and what it says is live.
    fn is_open(&self) -> bool {
        self.phase_is(&Phase::Ready)
    }

    fn takes(&self, session: &str) -> bool {
        self.is_open()
            && self
                .child
                .as_ref()
                .and_then(|c| c.agent_session.as_ref())
                .is_some_and(|s| s.as_str() == session)
    }

    /// History that an agent repeats behind its answer to `session/load`; facts about the session itself are live.
    fn is_replayed(&self, update: &Update) -> bool {
        let fact = matches!(
            update,
            Update::UsageUpdate { .. }
                | Update::AvailableCommands(_)
                | Update::ConfigOptions(_)
                | Update::CurrentMode { .. }
                | Update::SessionInfo { .. }
        );
        !fact && self.is_replaying()
    }

    fn is_replaying(&self) -> bool {
        self.child.as_ref().is_some_and(|c| c.replaying)
    }

    /// Frames before the session is known are kept for it; what comes while an earlier session is being reopened is
    /// replay, and makes no rows (rules 1.2.8, 7.2.5).
    fn keep_early(&mut self, event: impl FnOnce() -> Event<'static>) {
        let Some(child) = self.child.as_mut() else {
            return;
        };
        use super::child::Opening;
        let takes_replay = self.policy.plants(PlantedBug::RowsFromReplay);
        match &child.phase {
            Phase::Opening(Opening::Resume(_) | Opening::Load(_)) if !takes_replay => {
                self.met.sometimes(CoverageMark::ReplayIgnored);
            }
            // Some agents replay behind the answer as well: until the first prompt nothing of it is live.
            Phase::Ready if child.replaying => self.met.sometimes(CoverageMark::ReplayIgnored),
            Phase::Ready => child.defects.count(Fault::ForeignSession),
            _ if child.early.len() < EARLY_FRAMES_MAX => child.early.push_back(event()),
            _ => child.defects.count(Fault::EarlyFrameDropped),
        }
    }

    fn handle_reply(&mut self, now: Moment, id: u64, outcome: &wire::ReplyOutcome<'_>) {
        let Some(child) = self.child.as_mut() else {
            return;
        };
        match child.asked.remove(&id) {
            Some(Asked::Initialize) => self.handle_initialize_answer(now, outcome),
            Some(Asked::Authenticate) => self.handle_authenticate_answer(now, outcome),
            Some(Asked::Open) => self.handle_open_answer(now, outcome),
            Some(Asked::Prompt(message)) => self.handle_prompt_answer(now, &message, outcome),
            Some(Asked::Close) => self.end_barrier(now, CoverageMark::BarrierAnswered),
            // A second answer never touches another turn (decision D9).
            None => {
                child.defects.count(Fault::DuplicateReply);
                let running = child.prompt.as_ref().map(|p| p.message.clone());
                self.sometimes(CoverageMark::ReplyDuplicated);
                if let Some(running) =
                    running.filter(|_| self.plants(PlantedBug::TakeASecondAnswer))
                {
                    self.handle_prompt_answer(now, &running, outcome);
                }
            }
        }
    }

    fn handle_text(&mut self, now: Moment, role: ChunkRole, message: Option<&str>, text: &str) {
        let role = match role {
            ChunkRole::Agent => Role::Agent,
            ChunkRole::Thought => Role::Thought,
            // The echo of our own prompt makes no second bubble (rule 5.10.6).
            ChunkRole::User if self.echoes_prompt() => {
                self.sometimes(CoverageMark::PromptEchoed);
                return self.accept_prompt(now);
            }
            ChunkRole::User => Role::User,
        };
        match self.place(now) {
            Place::Running(_) if self.drops_words() => {}
            Place::Running(turn) => {
                self.stream_text(now, &Piece { role, message, text }, &turn, false)
            }
            Place::Late(turn) => {
                self.sometimes(CoverageMark::LateTextJoined);
                self.stream_text(now, &Piece { role, message, text }, &turn, true);
            }
            Place::Nowhere => return self.drop_late(),
        }
        self.restart_quiet(now);
    }

    /// While the host's prompt runs, a user chunk is the agent repeating it.
    fn echoes_prompt(&self) -> bool {
        self.child.as_ref().is_some_and(|c| c.prompt.is_some())
    }

    /// Where a substantive update belongs; opens an agent turn when none runs (rules 2.1.5, 2.1.6).
    fn place(&mut self, now: Moment) -> Place {
        if let Some(turn) = self.running() {
            self.accept_prompt(now);
            return Place::Running(turn);
        }
        if let Some(child) = self.child.as_ref()
            && let Some(last) = child.ended.back()
            && now.mono.since(last.ended).as_millis() < u128::from(LATE_UPDATE_WINDOW_MS)
            && !self.plants(PlantedBug::LateTextReopens)
        {
            return Place::Late(last.turn.clone());
        }
        if !self.may_open_a_turn() {
            return Place::Nowhere;
        }
        self.open_agent_turn(now);
        let turn = self.running();
        debug_assert!(turn.is_some(), "an agent turn was just opened");
        Place::Running(turn.unwrap_or_default())
    }

    /// Nothing of a child that was asked to end, and whose turn is over, opens another (rule 3.5.7).
    fn may_open_a_turn(&self) -> bool {
        self.child.as_ref().is_none_or(Child::may_open_a_turn)
            || self.plants(PlantedBug::StoppedChildOpensATurn)
    }

    /// Only under [`PlantedBug::DropWordsUnderAStop`].
    fn drops_words(&self) -> bool {
        self.plants(PlantedBug::DropWordsUnderAStop)
            && self.child.as_ref().is_some_and(Child::is_requested)
    }

    fn running(&mut self) -> Option<TurnKey> {
        self.child.as_ref().and_then(|c| c.turn.as_ref()).map(|t| t.turn.clone())
    }

    fn handle_update(&mut self, now: Moment, update: Update) {
        if self.appends.bytes() > LADDER_BUFFER_BYTES_MAX {
            self.discarded += 1;
            return;
        }
        match update {
            Update::ToolCall(call) => self.handle_tool(now, &call, true),
            Update::ToolCallUpdate(call) => self.handle_tool(now, &call, false),
            Update::Plan(entries) => {
                let Some(turn) = self.place_turn(now) else { return self.drop_late() };
                let raw: Vec<_> = entries
                    .iter()
                    .map(|e| {
                        serde_json::json!({"content": e.content, "priority": e.priority, "status": e.status})
                    })
                    .collect();
                let payload = Payload::bounded(&serde_json::Value::from(raw).to_string());
                let item = ItemKey(key(&["plan", turn.as_str()]));
                let body = ItemBody::Plan(RawBody { kind: "plan".to_owned(), payload });
                self.put_item(now, item, &turn, body);
            }
            Update::Content { role, raw, .. } => {
                let Some(turn) = self.place_turn(now) else { return self.drop_late() };
                let kind = match role {
                    ChunkRole::Agent => "agent_content",
                    ChunkRole::Thought => "thought_content",
                    ChunkRole::User => "user_content",
                };
                self.put_raw(now, &turn, kind, raw.as_str());
            }
            Update::Unknown { kind, raw } => {
                // Raw, and in order; an unknown kind opens no turn by itself (rule 2.1.5).
                if let Some(turn) = self.running() {
                    self.accept_prompt(now);
                    self.put_raw(now, &turn, &kind, raw.as_str());
                }
            }
            Update::UsageUpdate { used, size } => self.put_context(now, used, size),
            // Never open a turn, and are no rows (rule 2.1.5).
            Update::AvailableCommands(_)
            | Update::ConfigOptions(_)
            | Update::CurrentMode { .. }
            | Update::SessionInfo { .. } => {}
        }
        self.restart_quiet(now);
    }

    /// An agent-initiated turn ends by quiet (decision D4).
    fn restart_quiet(&mut self, now: Moment) {
        if self.child.as_ref().and_then(|c| c.turn.as_ref()).is_some_and(|t| t.by_agent) {
            self.timers.arm(Timer::AgentTurnQuiet, now.mono.plus_ms(AGENT_TURN_QUIET_MS));
        }
    }

    fn place_turn(&mut self, now: Moment) -> Option<TurnKey> {
        match self.place(now) {
            Place::Running(turn) | Place::Late(turn) => Some(turn),
            Place::Nowhere => None,
        }
    }

    fn put_raw(&mut self, now: Moment, turn: &TurnKey, kind: &str, raw: &str) {
        self.texts_made += 1;
        let fence = self.record.lease.fence.to_string();
        let item = ItemKey(key(&["raw", &fence, &self.texts_made.to_string()]));
        let kind = kind.chars().take(KIND_CHARS_MAX).collect();
        let body = ItemBody::Raw(RawBody { kind, payload: Payload::bounded(raw) });
        self.put_item(now, item, turn, body);
    }

    fn put_item(&mut self, now: Moment, item: ItemKey, turn: &TurnKey, body: ItemBody) {
        if self.plan.item(&item).is_none() {
            // What comes after it is text of its own.
            self.close_text(now);
        }
        let revision = self.plan.next_revision(&item);
        let row = ItemRow { item, revision, scope: Some(turn.clone()), body };
        self.plan(now, Draft::rows(vec![RowKind::Item(row)]));
    }

    fn put_context(&mut self, now: Moment, used: Option<u64>, size: Option<u64>) {
        let known = self.plan.context();
        let (Some(used), Some(size)) = (used, size.or(known.map(|c| c.size))) else {
            return;
        };
        if known.is_none_or(|c| (c.used, c.size) != (used, size)) {
            let mark = Mark::Context { used, size };
            self.plan(now, Draft::rows(vec![RowKind::Mark { mark }]));
        }
    }

    fn handle_tool(&mut self, now: Moment, call: &ToolCall, announces: bool) {
        let Some(id) = call.id.clone() else {
            // A change of a call nobody can name.
            return self.count(Fault::Wire);
        };
        if let Some(turn) = self.running() {
            self.accept_prompt(now);
            return self.put_tool(now, &turn, &id, call);
        }
        let ended = self.child.as_ref().and_then(|c| {
            c.ended
                .iter()
                .rev()
                .find_map(|t| Some((t.turn.clone(), t.state, t.tools.get(&id)?.clone())))
        });
        match ended {
            // Revised and marked late, and nothing else changes (decision D3 a).
            Some((_, TurnState::Completed, item)) => {
                self.sometimes(CoverageMark::LateToolMarked);
                self.revise_tool(now, &item, call, true);
            }
            Some(_) => {
                self.sometimes(CoverageMark::LateToolDropped);
                self.count(Fault::LateUpdate);
            }
            None if !self.may_open_a_turn() => self.drop_late(),
            None if announces || call.title.is_some() => {
                self.open_agent_turn(now);
                if let Some(turn) = self.running() {
                    self.put_tool(now, &turn, &id, call);
                }
                self.restart_quiet(now);
            }
            None => self.count(Fault::LateUpdate),
        }
    }

    /// The agent goes on behind the end that a Stop made of its turn; nothing of it is shown (rule 3.5.7).
    fn drop_late(&mut self) {
        self.sometimes(CoverageMark::LateWordsDropped);
        self.count(Fault::LateUpdate);
    }

    fn put_tool(&mut self, now: Moment, turn: &TurnKey, id: &str, call: &ToolCall) {
        let open = self.child.as_mut().and_then(|c| c.turn.as_mut());
        let known = open.and_then(|t| t.tools.get(id).cloned());
        if let Some(item) = known {
            return self.revise_tool(now, &item, call, false);
        }
        let item = ItemKey(key(&["tool", turn.as_str(), id]));
        if let Some(open) = self.child.as_mut().and_then(|c| c.turn.as_mut()) {
            open.tools.insert(id.to_owned(), item.clone());
        }
        let body = ToolBody {
            tool_call_id: id.to_owned(),
            title: call.title.clone().unwrap_or_else(|| "tool call".to_owned()),
            tool_kind: call.kind.as_ref().map(wire::ToolKind::word),
            status: tool_status(call).unwrap_or(ToolStatus::Running),
            ended_as: None,
            input: call.raw_input.as_ref().map(|i| Payload::bounded(i.as_str())),
            output: tool_output(call),
            late: false,
        };
        self.put_item(now, item, turn, ItemBody::Tool(body));
    }

    fn revise_tool(&mut self, now: Moment, item: &ItemKey, call: &ToolCall, late: bool) {
        let Some(ItemBody::Tool(known)) = self.plan.item(item).map(|i| &i.body) else {
            return;
        };
        let mut body = known.clone();
        if let Some(title) = &call.title {
            body.title.clone_from(title);
        }
        if let Some(kind) = &call.kind {
            body.tool_kind = Some(kind.word());
        }
        // A call of a turn that ended is never set running again.
        if let Some(status) = tool_status(call).filter(|s| !late || *s != ToolStatus::Running) {
            body.status = status;
            body.ended_as = None;
        }
        if let Some(input) = &call.raw_input {
            body.input = Some(Payload::bounded(input.as_str()));
        }
        if let Some(output) = tool_output(call) {
            body.output = Some(output);
        }
        body.late |= late;
        if body == *known {
            return;
        }
        let scope = self.plan.item(item).and_then(|i| i.scope.clone()).unwrap_or_default();
        self.put_item(now, item.clone(), &scope, ItemBody::Tool(body));
    }

    pub(super) fn count(&mut self, fault: Fault) {
        if let Some(child) = self.child.as_mut() {
            child.defects.count(fault);
        }
    }

    /// What was not stored through a ladder with the store refusing is told once it heals (decision D8).
    pub(super) fn disclose_discarded(&mut self, now: Moment) {
        if self.discarded == 0 || self.appends.bytes() > 0 {
            return;
        }
        let count = std::mem::take(&mut self.discarded);
        let item = ItemKey(key(&["discarded", &self.plan.cursor().seq.to_string()]));
        let text = format!(
            "{count} updates of the agent were not saved: the store refused while it was ending."
        );
        let body =
            crate::journal::StatusBody { tone: crate::journal::Tone::Warning, text, fact: None };
        let row = ItemRow { item, revision: 1, scope: None, body: ItemBody::Status(body) };
        self.plan(now, Draft::rows(vec![RowKind::Item(row)]));
    }

    pub(super) fn agent_session(&self) -> Option<&AgentSessionId> {
        self.child.as_ref().and_then(|c| c.agent_session.as_ref())
    }
}

/// An unknown kind's own word is kept up to this.
const KIND_CHARS_MAX: usize = 128;

fn tool_status(call: &ToolCall) -> Option<ToolStatus> {
    call.status.as_ref().map(|status| match status {
        wire::ToolStatus::Completed => ToolStatus::Completed,
        wire::ToolStatus::Failed => ToolStatus::Failed,
        // An unknown word proves no end.
        _ => ToolStatus::Running,
    })
}

fn tool_output(call: &ToolCall) -> Option<Payload> {
    call.raw_output.as_ref().or(call.content.as_ref()).map(|o| Payload::bounded(o.as_str()))
}
