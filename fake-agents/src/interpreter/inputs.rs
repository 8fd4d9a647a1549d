//! What the host sends: requests, cancels, answers, the end of the input; and signals.

use std::sync::Arc;

use serde_json::Value;

use super::strand::{Cue, Errand, Hold, Kind, Strand};
use super::{Agent, OpenTurn, PROMPTS_QUEUED_MAX};
use crate::body::{Body, Signal};
use crate::script::step::Step;
use crate::script::{Busy, Obey, Reaction, Stale, When};

impl<'s, B: Body> Agent<'s, '_, B> {
    pub(super) async fn on_line(&mut self, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let Ok(Value::Object(mut frame)) = serde_json::from_slice(line) else {
            self.on_bad_line();
            return;
        };
        let id = frame.remove("id");
        let params = frame.remove("params").unwrap_or(Value::Null);
        match (frame.get("method").and_then(Value::as_str), id) {
            (Some(method), Some(id)) => {
                let cue = Cue {
                    id: Some(id),
                    method: method.into(),
                    session: named_session(&params),
                    params: Arc::new(params),
                    ..Cue::default()
                };
                self.on_request(cue).await;
            }
            (Some("session/cancel"), None) => self.on_cancel(named_session(&params)),
            (Some("$/cancel_request"), None) => self.on_cancel_request(&params),
            (Some(_), None) => {}
            (None, Some(id)) => self.on_answer(&id, frame.get("result")),
            (None, None) => self.on_bad_line(),
        }
    }

    fn on_bad_line(&mut self) {
        if let Some(steps) = &self.script.on.bad_line {
            let cue = self.cue_at_hand();
            self.begin(Strand::new(Kind::Reaction, cue, steps), 0);
        }
    }

    async fn on_request(&mut self, mut cue: Cue) {
        let is_session = matches!(
            cue.method.as_str(),
            "session/load" | "session/new" | "session/prompt" | "session/resume"
        );
        if is_session && !self.signed_in {
            let steps = self.defaults.not_signed_in.as_slice();
            self.begin(Strand::new(Kind::Request, cue, steps), 0);
            return;
        }
        match cue.method.as_str() {
            "session/prompt" => {
                cue.prompt = prompt_text(&cue.params);
                return self.on_prompt(cue);
            }
            // Off the protocol, and answered by at least one agent once the abort is on disk.
            "session/cancel" => self.on_cancel(cue.session.clone()),
            "session/new" => cue.session = Some(self.new_session(&cue.params).await),
            _ => {}
        }
        let default = match cue.method.as_str() {
            "session/cancel" => &self.defaults.cancel_as_request,
            "session/close" => &self.defaults.close,
            _ => &self.defaults.reply,
        };
        let steps = self.script.on.requests.get(&cue.method).unwrap_or(default);
        self.begin(Strand::new(Kind::Request, cue, steps), 0);
    }

    fn on_prompt(&mut self, cue: Cue) {
        self.seen.prompts += 1;
        if self.turn.is_none() && self.queue.is_empty() {
            self.begin_turn(cue);
            return;
        }
        let full = self.queue.len() >= PROMPTS_QUEUED_MAX;
        let busy = if full { Busy::Refuse } else { self.script.on.busy };
        match busy {
            Busy::CancelFirst => {
                self.settle_turn();
                self.queue.push_back(cue);
            }
            Busy::NeverAnswer => {}
            Busy::Queue | Busy::QueueCancelled => self.queue.push_back(cue),
            Busy::Refuse => {
                let steps = self.defaults.refused_busy.as_slice();
                self.begin(Strand::new(Kind::Request, cue, steps), 0);
            }
        }
    }

    pub(super) fn begin_turn(&mut self, mut cue: Cue) {
        self.turns += 1;
        cue.turn = self.turns;
        self.said.clear();
        self.strands.retain(|strand| strand.kind != Kind::Idle);
        if cue.session.is_some() {
            self.session.clone_from(&cue.session);
        }
        let cancelled = self.script.on.cancel.stale == Stale::CancelsNextTurn
            && std::mem::take(&mut self.stale_cancel);
        let steps = match self.poison.take() {
            Some(poison) => poison,
            None => self.steps_for(&cue),
        };
        self.turn = Some(OpenTurn {
            cue: cue.clone(),
            began_ms: self.body.now_ms(),
            cancelled,
            over: false,
        });
        let (kind, steps) = if cancelled {
            let steps = self.script.on.cancel.steps.as_deref();
            (Kind::Tail, steps.unwrap_or(&self.defaults.cancel))
        } else {
            (Kind::Turn, steps)
        };
        self.begin(Strand::new(kind, cue, steps).with(Errand::BeginTurn), 0);
    }

    fn steps_for(&self, cue: &Cue) -> &'s [Step] {
        let script = self.script;
        let turn = script.turns.iter().find(|turn| self.holds(&turn.when, cue));
        turn.map_or(self.defaults.echo.as_slice(), |turn| turn.steps.as_slice())
    }

    fn holds(&self, when: &When, cue: &Cue) -> bool {
        when.nth.is_none_or(|nth| nth == cue.turn)
            && when.contains.as_ref().is_none_or(|text| cue.prompt.contains(text))
            && when.life.is_none_or(|life| life == self.life)
    }

    fn on_cancel(&mut self, session: Option<String>) {
        let at_hand = self.cue_at_hand().session;
        if session.is_some() && at_hand.is_some() && session != at_hand {
            return; // it is about another session
        }
        self.seen.cancels += 1;
        let cancel = &self.script.on.cancel;
        let now_ms = self.body.now_ms();
        if self.script.on.busy == Busy::QueueCancelled {
            let steps = self.defaults.cancel.as_slice();
            for cue in std::mem::take(&mut self.queue) {
                self.begin(Strand::new(Kind::Request, cue, steps), 0);
            }
        }
        let Some(turn) = self.turn.as_mut().filter(|turn| !turn.over && !turn.cancelled) else {
            self.stale_cancel = cancel.stale != Stale::Ignored;
            return;
        };
        if now_ms - turn.began_ms < cancel.lost_within_ms {
            return;
        }
        turn.cancelled = true;
        if cancel.obey == Obey::Never {
            return;
        }
        let cue = turn.cue.clone();
        let errand = Errand::BreakOff(cue.turn);
        let steps = cancel.steps.as_deref().unwrap_or(&self.defaults.cancel);
        let mut strand = Strand::new(Kind::Cancel, cue, steps).with(errand);
        if cancel.obey == Obey::Twice {
            strand = strand.twice(steps);
        }
        self.begin(strand, cancel.after_ms);
    }

    fn on_cancel_request(&mut self, params: &Value) {
        let Some(steps) = &self.script.on.cancel_request else { return };
        let wanted = params.get("requestId").or_else(|| params.get("id")).cloned();
        let at_work = self.strands.iter().map(|strand| &strand.cue);
        let cue = at_work.chain(self.turn.as_ref().map(|turn| &turn.cue));
        let Some(cue) = cue.into_iter().find(|cue| cue.id.is_some() && cue.id == wanted).cloned()
        else {
            return;
        };
        self.strands.retain(|strand| strand.cue.id != cue.id);
        let kind = if cue.method == "session/prompt" { Kind::Tail } else { Kind::Request };
        self.begin(Strand::new(kind, cue, steps), 0);
    }

    /// The host's answer to one of the agent's own requests.
    fn on_answer(&mut self, id: &Value, result: Option<&Value>) {
        let Some(index) = self.asked.iter().position(|asked| asked.id == *id) else { return };
        let Some(asked) = self.asked.remove(index) else { return };
        let steps = asked.answers.to(result);
        let waiting = self
            .strands
            .iter_mut()
            .find(|strand| matches!(&strand.hold, Some(Hold::Answer(awaited)) if awaited == id));
        if let Some(strand) = waiting {
            strand.hold = None;
            strand.due_ms = None;
            strand.enter(steps);
        } else if !asked.waited_for && !steps.is_empty() {
            self.begin(Strand::new(Kind::Background, asked.cue, steps), 0);
        }
    }

    pub(super) fn on_eof(&mut self) {
        self.eof = true;
        let script = self.script;
        self.react(Kind::Reaction, &script.on.eof, &self.defaults.eof);
    }

    pub(super) fn on_signal(&mut self, signal: Signal) {
        self.seen.signals += 1;
        let kind = Kind::Signal(signal);
        if self.strands.iter().any(|strand| strand.kind == kind) {
            return; // it is being obeyed
        }
        let (on, defaults) = (&self.script.on, self.defaults);
        let (reaction, default) = match signal {
            Signal::Hup => (&on.sighup, &defaults.sighup),
            Signal::Int => (&on.sigint, &defaults.sigint),
            _ => (&on.sigterm, &defaults.sigterm),
        };
        self.react(kind, reaction, default);
    }

    fn react(&mut self, kind: Kind, reaction: &'s Reaction, default: &'s [Step]) {
        let steps = reaction.steps.as_deref().unwrap_or(default);
        let strand = Strand::new(kind, self.cue_at_hand(), steps);
        match reaction.obey {
            Obey::ByDying | Obey::Never => {}
            Obey::Once => self.begin(strand, reaction.after_ms),
            Obey::Twice => self.begin(strand.twice(steps), reaction.after_ms),
        }
    }

    /// The agent's own initiative: it begins unless a prompt comes first.
    pub(super) fn arm_idle(&mut self) {
        if self.turn.is_some() || !self.queue.is_empty() {
            return;
        }
        self.strands.retain(|strand| strand.kind != Kind::Idle);
        let script = self.script;
        for (index, idle) in script.on.idle.iter().enumerate() {
            if self.idles_done[index] < idle.times {
                let cue = self.cue_at_hand();
                let strand =
                    Strand::new(Kind::Idle, cue, &idle.steps).with(Errand::BeginIdle(index));
                self.begin(strand, idle.after_ms);
            }
        }
    }
}

fn named_session(params: &Value) -> Option<String> {
    params.get("sessionId").and_then(Value::as_str).map(str::to_string)
}

/// The text blocks of a prompt, one after the other.
fn prompt_text(params: &Value) -> String {
    let blocks = params.get("prompt").and_then(Value::as_array);
    let texts = blocks.into_iter().flatten().filter_map(|block| block.get("text")?.as_str());
    texts.collect()
}
