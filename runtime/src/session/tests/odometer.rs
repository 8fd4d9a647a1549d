//! Every order of a few facts and commands, from every phase of a session: the invariants hold after each step, and
//! whatever came, everybody is answered in the end, nothing is left armed, and the rows are the state.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::rig::{AGENT_SESSION, Rig};
use crate::host::PermissionAnswer;
use crate::ids::{Generation, MessageId};
use crate::journal::{ItemBody, Resolution, SendMode, StopReason, SubmissionState};
use crate::platform::{Exit, Order, Report, SpawnError};
use crate::session::{CallId, Policy, Session};
use crate::store::{Refusal, StoredRows};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Send,
    Steer,
    Stop,
    Close,
    Quit,
    Commit,
    Refuse,
    LoseStore,
    Mint,
    Spawn,
    FailSpawn,
    Reply,
    Chunk,
    Tool,
    Ask,
    AnswerAsk,
    Wait,
    Exit,
    StdoutEnd,
    Swept,
    Resisted,
    WriteFailed,
    SupervisorLost,
}

/// The rig, and what a real world would hold true around it.
#[derive(Clone)]
struct World {
    rig: Rig,
    calls: Vec<CallId>,
    sends: u64,
    /// Requests of the host's that are unanswered.
    asked: Vec<Value>,
    prompts: Vec<String>,
    cancels: usize,
    asks: u64,
    /// A spawn was asked for and is not answered.
    spawning: bool,
    alive: bool,
    stdout_open: bool,
    spawns: usize,
    store_lost: bool,
    lost: bool,
}

impl World {
    fn new() -> Self {
        let mut rig = Rig::new();
        rig.commits = false;
        rig.mints = false;
        rig.spawns_succeed = false;
        Self {
            rig,
            calls: Vec::new(),
            sends: 0,
            asked: Vec::new(),
            prompts: Vec::new(),
            cancels: 0,
            asks: 0,
            spawning: false,
            alive: false,
            stdout_open: false,
            spawns: 0,
            store_lost: false,
            lost: false,
        }
    }

    fn after(steps: &[Step]) -> Self {
        let mut world = Self::new();
        for step in steps {
            assert!(world.take(*step), "{step:?} applies in {steps:?}");
        }
        world
    }

    /// Takes a step; `false` when no world could.
    fn take(&mut self, step: Step) -> bool {
        let generation = self.rig.generation.clone();
        match step {
            Step::Send => self.send(SendMode::AfterTurn),
            Step::Steer => self.send(SendMode::Steer),
            Step::Stop => {
                let call = self.rig.stop(None);
                self.calls.push(call);
            }
            Step::Close => {
                let call = self.rig.close();
                self.calls.push(call);
            }
            Step::Quit => self.rig.session.end_child(self.rig.now, StopReason::HostStop),
            Step::Commit if !self.rig.units.is_empty() => self.rig.commit_one(),
            Step::Refuse if !self.rig.units.is_empty() => self.rig.refuse_all(),
            Step::LoseStore if !self.rig.units.is_empty() => self.lose_store(),
            Step::Mint if self.rig.mint_waits => self.rig.mint(),
            Step::Spawn if self.spawning => {
                (self.spawning, self.alive, self.stdout_open) = (false, true, true);
                self.rig.spawned();
            }
            Step::FailSpawn if self.spawning => {
                self.spawning = false;
                let error = SpawnError::NotFound { program: "agent".to_owned() };
                self.rig.session.handle_spawn_failed(self.rig.now, &generation, error);
            }
            Step::Reply if self.stdout_open && !self.asked.is_empty() => self.reply(),
            Step::Chunk if self.stdout_open => self.rig.chunk("x"),
            Step::Tool if self.stdout_open => self.rig.tool("t", "in_progress"),
            Step::Ask if self.stdout_open => self.ask(),
            Step::AnswerAsk => return self.answer_ask(),
            Step::Wait => self.rig.pass_ms(4_000),
            Step::Exit if self.alive => {
                self.alive = false;
                self.report(Report::Exited { exit: Exit::Code(1) });
            }
            Step::StdoutEnd if self.stdout_open => {
                self.stdout_open = false;
                self.rig.session.handle_stdout_end(self.rig.now, &generation);
            }
            Step::Swept if self.sweeps() => self.report_swept(true),
            Step::Resisted if self.sweeps() => self.report_swept(false),
            Step::WriteFailed if self.alive => {
                self.rig.session.handle_write_failed(self.rig.now, &generation);
            }
            Step::SupervisorLost if self.alive && !self.lost => {
                self.lost = true;
                self.report(Report::SupervisorLost);
            }
            _ => return false,
        }
        self.settle();
        true
    }

    fn settle(&mut self) {
        self.rig.settle();
        while let Some(frame) = self.rig.frames.pop_front() {
            if frame["method"] == "session/prompt" {
                self.prompts
                    .push(frame["params"]["prompt"][0]["text"].as_str().expect("text").to_owned());
            }
            self.cancels += usize::from(frame["method"] == "session/cancel");
            if frame.get("method").is_some() && frame.get("id").is_some() {
                self.asked.push(frame);
            }
        }
        if self.rig.spawns.len() > self.spawns {
            self.spawns = self.rig.spawns.len();
            self.spawning = true;
            self.asked.clear();
            self.rig.orders.clear();
            self.lost = false;
        }
        let distinct: BTreeSet<_> = self.prompts.iter().collect();
        assert_eq!(distinct.len(), self.prompts.len(), "a message goes out at most once");
    }

    fn send(&mut self, mode: SendMode) {
        self.sends += 1;
        let id = format!("m{}", self.sends);
        let call = self.rig.send_as(&id, &id, mode);
        self.calls.push(call);
    }

    fn lose_store(&mut self) {
        self.store_lost = true;
        let (ticket, _) = self.rig.units.remove(0);
        self.rig.units.clear();
        let refusal = Refusal::Closed { reason: "gone".to_owned() };
        self.rig.session.handle_refused(self.rig.now, ticket, refusal);
    }

    fn reply(&mut self) {
        let request = self.asked.remove(0);
        let result = match request["method"].as_str() {
            Some("initialize") => {
                json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}})
            }
            Some("session/new") => json!({"sessionId": AGENT_SESSION}),
            Some("session/prompt") => json!({"stopReason": "end_turn"}),
            _ => json!({}),
        };
        self.rig.reply(&request, result);
    }

    fn ask(&mut self) {
        self.asks += 1;
        let params = json!({"sessionId": AGENT_SESSION, "toolCall": {"title": "x"},
            "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]});
        self.rig.says(&json!({"jsonrpc": "2.0", "id": self.asks, "method": "session/request_permission", "params": params}));
    }

    fn answer_ask(&mut self) -> bool {
        let card = self.rig.items().into_iter().find(
            |i| matches!(&i.body, ItemBody::Approval(a) if a.resolution == Resolution::Pending),
        );
        let Some(card) = card else {
            return false;
        };
        let call = self.rig.answer(PermissionAnswer {
            item: card.item,
            expected_revision: card.revision,
            option: Some("yes".to_owned()),
        });
        self.calls.push(call);
        self.settle();
        true
    }

    fn report(&mut self, report: Report) {
        let generation: Generation = self.rig.generation.clone();
        self.rig.session.handle_report(self.rig.now, &generation, report);
    }

    /// A sweep was ordered and is not answered.
    fn sweeps(&self) -> bool {
        self.rig.orders.iter().any(|o| matches!(o, Order::Sweep { .. }))
    }

    fn report_swept(&mut self, empty: bool) {
        let at = self.rig.orders.iter().position(|o| matches!(o, Order::Sweep { .. }));
        self.rig.orders.remove(at.expect("a sweep was ordered"));
        self.report(Report::Swept { empty, survivors: Vec::new() });
    }

    /// The world goes on, kindly: the store heals, the host quits, what lives ends and is swept.
    fn drain(mut self, path: &[Step]) {
        self.rig.session.end_child(self.rig.now, StopReason::HostStop);
        self.settle();
        for _ in 0..12 {
            for step in [Step::Mint, Step::Spawn] {
                self.take(step);
            }
            while !self.rig.units.is_empty() {
                self.take(Step::Commit);
            }
            self.rig.pass_ms(1_000);
            self.settle();
        }
        if self.rig.session.is_unproven() && !self.alive {
            // Somebody asks again.
            let call = self.rig.close();
            self.calls.push(call);
        }
        for step in [Step::Exit, Step::StdoutEnd, Step::Swept, Step::Swept] {
            self.take(step);
        }
        for _ in 0..3 {
            while !self.rig.units.is_empty() {
                self.take(Step::Commit);
            }
            self.rig.pass_ms(1_000);
            self.settle();
        }
        self.check(path);
    }

    fn check(&self, path: &[Step]) {
        let session = &self.rig.session;
        for call in &self.calls {
            assert!(self.rig.answers.contains_key(call), "{call:?} is answered after {path:?}");
        }
        if session.is_unproven() {
            return;
        }
        assert!(!session.has_child(), "its child is gone after {path:?}");
        assert_eq!(session.poll_deadline(), None, "nothing is left armed after {path:?}");
        if self.store_lost {
            return;
        }
        assert!(session.is_at_rest(), "it rests after {path:?}");
        let journal = session.journal();
        assert_eq!(journal.queued().count(), 0, "nothing is queued after {path:?}");
        assert_eq!(journal.outstanding().count(), 0, "nothing is outstanding after {path:?}");
        assert_eq!(journal.running_tools().count(), 0, "no call runs after {path:?}");
        assert_eq!(journal.pending_approvals().count(), 0, "no question waits after {path:?}");
        assert_eq!(journal.running_turns().count(), 0, "no turn runs after {path:?}");
        for n in 1..=self.sends {
            let id = MessageId(format!("m{n}"));
            let Some(known) = journal.submission(&id) else {
                continue;
            };
            let rejected = known.view.state == SubmissionState::Rejected;
            let prompted = self.prompts.contains(&id.to_string());
            assert!(!(rejected && prompted), "{id} is not called undelivered after {path:?}");
        }
        let turns = self.rig.turns().len();
        assert!(self.cancels <= turns, "one cancel a turn after {path:?}");
        let stored = StoredRows {
            epoch: Some(session.record().epoch.clone()),
            rows: self.rig.stored.clone(),
            fault: None,
        };
        let restored =
            Session::restore(Policy::default(), session.record().clone(), stored, self.rig.now);
        assert_eq!(restored.journal(), journal, "the rows are the state after {path:?}");
        assert_eq!(restored.record(), session.record(), "nothing is left to settle after {path:?}");
    }
}

/// Every order of every part of `steps`, each drained.
fn every_order(world: &World, steps: &[Step], path: &mut Vec<Step>, count: &mut usize) {
    *count += 1;
    world.clone().drain(path);
    for (at, step) in steps.iter().enumerate() {
        if steps[..at].contains(step) {
            continue;
        }
        let mut next = world.clone();
        if !next.take(*step) {
            continue;
        }
        let mut rest = steps.to_vec();
        rest.remove(at);
        path.push(*step);
        every_order(&next, &rest, path, count);
        path.pop();
    }
}

use Step::*;

/// The way to each phase of a session.
const PHASES: [(&str, &[Step]); 11] = [
    ("queued", &[Send]),
    ("minting", &[Send, Commit]),
    ("reserving", &[Send, Commit, Mint]),
    ("spawning", &[Send, Commit, Mint, Commit]),
    ("recording", &[Send, Commit, Mint, Commit, Spawn]),
    ("initializing", &[Send, Commit, Mint, Commit, Spawn, Commit]),
    ("opening", &[Send, Commit, Mint, Commit, Spawn, Commit, Reply]),
    ("linking", &[Send, Commit, Mint, Commit, Spawn, Commit, Reply, Reply]),
    ("dispatching", &[Send, Commit, Mint, Commit, Spawn, Commit, Reply, Reply, Commit]),
    ("running", &[Send, Commit, Mint, Commit, Spawn, Commit, Reply, Reply, Commit, Commit]),
    (
        "asking",
        &[Send, Commit, Mint, Commit, Spawn, Commit, Reply, Reply, Commit, Commit, Tool, Ask],
    ),
];

fn turn_over(steps: &[Step]) {
    let mut count = 0;
    for (_, phase) in PHASES {
        let mut path = phase.to_vec();
        every_order(&World::after(phase), steps, &mut path, &mut count);
    }
    assert!(count > 100, "there were orders to try");
}

#[test]
fn stop_send_and_the_agents_end_in_every_order() {
    turn_over(&[Stop, Send, Commit, Exit, StdoutEnd, Swept]);
}

#[test]
fn stop_close_and_quit_in_every_order() {
    turn_over(&[Stop, Close, Quit, Commit, Reply, Send]);
}

#[test]
fn a_start_that_fails_under_a_stop_in_every_order() {
    turn_over(&[FailSpawn, Stop, Spawn, Commit, Mint, Send]);
}

#[test]
fn the_store_refuses_and_is_lost_in_every_order() {
    turn_over(&[Refuse, Stop, Wait, LoseStore, Exit, StdoutEnd]);
}

#[test]
fn a_tree_that_resists_in_every_order() {
    turn_over(&[Close, Exit, Resisted, StdoutEnd, Stop, Commit]);
}

#[test]
fn a_broken_connection_in_every_order() {
    turn_over(&[WriteFailed, SupervisorLost, StdoutEnd, Wait, Chunk, Exit]);
}

#[test]
fn questions_steers_and_answers_in_every_order() {
    turn_over(&[Ask, AnswerAsk, Steer, Reply, Commit, Stop]);
}

#[test]
fn text_behind_its_turn_in_every_order() {
    turn_over(&[Chunk, Tool, Reply, Wait, Send, Commit]);
}
