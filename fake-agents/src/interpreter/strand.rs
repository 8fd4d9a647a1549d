//! A strand: one list of steps being performed, with its place in it and what it waits for.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::body::Signal;
use crate::script::step::{Event, Step};

/// What a list of steps is about.
#[derive(Clone, Default)]
pub(super) struct Cue {
    /// The JSON-RPC id of the request at hand.
    pub(super) id: Option<Value>,
    pub(super) method: String,
    /// Shared: a cue is cloned for whatever is to be done about it.
    pub(super) params: Arc<Value>,
    pub(super) session: Option<String>,
    /// The user's text, for prompts.
    pub(super) prompt: String,
    /// The ordinal of the turn, from 1; 0 outside turns.
    pub(super) turn: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Beside everything else; nothing waits for it.
    Background,
    /// An obeyed cancel before it breaks the turn off.
    Cancel,
    /// Something the agent begins by itself, unless a prompt comes first.
    Idle,
    /// EOF, a bad line, a broken output.
    Reaction,
    Request,
    /// A signal's handler: it runs while an output is blocked, too.
    Signal(Signal),
    /// The start, before anything is read.
    Start,
    /// What a cancel put in place of the rest of a turn.
    Tail,
    Turn,
}

impl Kind {
    pub(super) fn belongs_to_turn(self) -> bool {
        matches!(self, Kind::Tail | Kind::Turn)
    }
}

/// Something a strand does before its next step.
pub(super) enum Errand {
    /// The idle entry with this index.
    BeginIdle(usize),
    BeginTurn,
    /// Breaks this turn off, if it is still open.
    BreakOff(u64),
    PersistAnswer(String),
    PersistHeader,
    Replay,
}

pub(super) enum Hold {
    Answer(Value),
    Event(Event),
}

/// What the answers to a request of the agent's own lead to.
#[derive(Clone, Copy)]
pub(super) enum Answers<'s> {
    Permission(&'s BTreeMap<String, Vec<Step>>),
    Request { on_result: &'s [Step], on_error: &'s [Step] },
}

impl<'s> Answers<'s> {
    /// The steps for this result; `None` is an error.
    pub(super) fn to(self, result: Option<&Value>) -> &'s [Step] {
        match (self, result) {
            (Answers::Request { on_result, .. }, Some(_)) => on_result,
            (Answers::Request { on_error, .. }, None) => on_error,
            (Answers::Permission(on_answer), result) => {
                let outcome = result.and_then(|result| result.get("outcome"));
                let word = match outcome {
                    None => Some("error"),
                    Some(outcome) => {
                        let option = outcome.get("optionId").and_then(Value::as_str);
                        option.or_else(|| outcome.get("outcome").and_then(Value::as_str))
                    }
                };
                let steps = word.and_then(|word| on_answer.get(word));
                steps.or_else(|| on_answer.get("*")).map_or(&[], Vec::as_slice)
            }
        }
    }
}

/// How often each event had happened when a strand began.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) cancels: u64,
    pub(super) prompts: u64,
    pub(super) signals: u64,
}

struct Round<'s> {
    steps: &'s [Step],
    next: usize,
    number: u64,
    times: u64,
    every_ms: u64,
}

pub(super) struct Strand<'s> {
    pub(super) kind: Kind,
    pub(super) cue: Cue,
    pub(super) seen: Seen,
    pub(super) errand: Option<Errand>,
    pub(super) hold: Option<Hold>,
    /// When it goes on: its time if it waits for nothing else, or its patience if it does.
    pub(super) due_ms: Option<u64>,
    /// First come, first served among strands that are due together.
    pub(super) order: u64,
    /// The result or error a well-behaved agent answers this request with, once worked out.
    pub(super) natural: Option<Result<Value, Value>>,
    /// The request has opened its session: its replay and its bootstrap are under way.
    pub(super) opened: bool,
    rounds: Vec<Round<'s>>,
    again: Option<&'s [Step]>,
}

impl<'s> Strand<'s> {
    pub(super) fn new(kind: Kind, cue: Cue, steps: &'s [Step]) -> Strand<'s> {
        let mut strand = Strand {
            kind,
            cue,
            seen: Seen::default(),
            errand: None,
            hold: None,
            due_ms: None,
            order: 0,
            natural: None,
            opened: false,
            rounds: Vec::new(),
            again: None,
        };
        strand.enter(steps);
        strand
    }

    /// The steps are done a second time, which alone may end the process.
    pub(super) fn twice(mut self, steps: &'s [Step]) -> Strand<'s> {
        self.again = Some(steps);
        self
    }

    pub(super) fn with(mut self, errand: Errand) -> Strand<'s> {
        self.errand = Some(errand);
        self
    }

    /// Whether ending the process is left to the second time.
    pub(super) fn spares_the_process(&self) -> bool {
        self.again.is_some()
    }

    /// Does these steps before it goes on with its own.
    pub(super) fn enter(&mut self, steps: &'s [Step]) {
        self.repeat(steps, 1, 0);
    }

    /// Does these steps after all of its own.
    pub(super) fn append(&mut self, steps: &'s [Step]) {
        if !steps.is_empty() {
            self.rounds.insert(0, Round { steps, next: 0, number: 1, times: 1, every_ms: 0 });
        }
    }

    pub(super) fn repeat(&mut self, steps: &'s [Step], times: u64, every_ms: u64) {
        if !steps.is_empty() && times > 0 {
            self.rounds.push(Round { steps, next: 0, number: 1, times, every_ms });
        }
    }

    /// The round of the innermost repetition, from 1.
    pub(super) fn round(&self) -> u64 {
        let repetition = self.rounds.iter().rev().find(|round| round.times > 1);
        repetition.map_or(1, |round| round.number)
    }

    pub(super) fn peek(&self) -> Option<&'s Step> {
        self.rounds.last().map(|round| &round.steps[round.next])
    }

    pub(super) fn take_step(&mut self) -> Option<&'s Step> {
        let round = self.rounds.last_mut()?;
        let step = &round.steps[round.next];
        round.next += 1;
        Some(step)
    }

    /// Leaves the lists that are at their end. The pause between two rounds begins here.
    pub(super) fn turn_page(&mut self, now_ms: u64) {
        while let Some(round) = self.rounds.last_mut() {
            if round.next < round.steps.len() {
                return;
            }
            // A round that still waits (for time, for an answer) ends when its wait does.
            if self.hold.is_some() || self.due_ms.is_some() {
                return;
            }
            if round.number < round.times {
                round.number += 1;
                round.next = 0;
                self.due_ms = (round.every_ms > 0).then(|| now_ms + round.every_ms);
                return;
            }
            self.rounds.pop();
        }
        if let Some(steps) = self.again.take() {
            self.enter(steps);
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.rounds.is_empty()
            && self.errand.is_none()
            && self.hold.is_none()
            && self.due_ms.is_none()
            && self.again.is_none()
    }
}
