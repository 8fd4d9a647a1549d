//! What persons and their clients do.

use moored::journal::SendMode;
use moored::limits::{CLOSE_BARRIER_MS, STOP_GRACE_MS};

use super::Shape;
use super::dice::{Dice, Stream};
use super::feature::{Feature, Features};
use super::when::{self, Moment};
use crate::scenario::{
    Act, Action, Changed, ClientAct, Delay, EventKind as Kind, NamedTurn, Options, Trigger,
};

/// What the generator planned to be said.
pub(super) struct Plan {
    /// Everything that is done.
    pub(super) actions: Vec<Action>,
    /// Messages have the numbers from 1 to this.
    pub(super) messages: u32,
}

/// How long a person reads and thinks at most.
const READS_US_MAX: u64 = 60_000_000;

/// When a further message is sent: mostly once the last is answered, else while something is under way.
const FURTHER: &[Moment] = &[
    (Kind::TurnEnded, 1, 20),
    (Kind::AgentAnswered, 1, 6),
    (Kind::CallAnswered, 1, 2),
    (Kind::CallMade, 1, 3),
    (Kind::PromptRead, 1, 5),
    (Kind::PromptWritten, 1, 2),
    (Kind::TurnStarted, 1, 2),
    (Kind::AgentUpdated, 2, 3),
    (Kind::CancelWritten, 1, 3),
    (Kind::StdinClosed, 1, 4),
    (Kind::ProcessEnded, 1, 4),
    (Kind::ProcessStarted, 1, 2),
    (Kind::SignalSent, 1, 2),
    (Kind::HostOpened, 1, 2),
    (Kind::UnitSubmitted, 8, 2),
];

/// When a Stop is pressed.
const STOP: &[Moment] = &[
    (Kind::PromptRead, 2, 10),
    (Kind::PromptWritten, 2, 6),
    (Kind::AgentUpdated, 5, 10),
    (Kind::AgentAnswered, 2, 7),
    (Kind::AgentAsked, 2, 3),
    (Kind::PermissionRaised, 2, 3),
    (Kind::TurnStarted, 2, 5),
    (Kind::TurnEnded, 2, 5),
    (Kind::CallMade, 4, 8),
    (Kind::CallAnswered, 3, 4),
    (Kind::ProcessStarted, 2, 6),
    (Kind::ProcessEnded, 2, 7),
    (Kind::InitializeWritten, 2, 4),
    (Kind::SessionWritten, 2, 4),
    (Kind::StdinClosed, 2, 4),
    (Kind::SignalSent, 2, 2),
    (Kind::UnitSubmitted, 10, 6),
    (Kind::UnitStored, 10, 4),
    (Kind::UnitAnswered, 10, 4),
    (Kind::ReplyWritten, 1, 1),
    (Kind::HostOpened, 2, 1),
];

/// From the answer that makes a session ready to the first prompt.
const HANDOVER: &[Moment] = &[
    (Kind::AgentReplied, 2, 4),
    (Kind::UnitSubmitted, 9, 4),
    (Kind::UnitStored, 9, 4),
    (Kind::PromptWritten, 2, 2),
];

/// When a second Stop is pressed, or the session closed.
const STOP_AGAIN: &[Moment] = &[
    (Kind::CancelWritten, 1, 8),
    (Kind::CancelRead, 1, 4),
    (Kind::CloseWritten, 1, 6),
    (Kind::StdinClosed, 1, 8),
    (Kind::SignalSent, 2, 4),
    (Kind::CallMade, 4, 6),
    (Kind::AgentAnswered, 2, 4),
    (Kind::TurnEnded, 2, 4),
    (Kind::ProcessEnded, 1, 4),
    (Kind::PromptRead, 2, 4),
    (Kind::UnitSubmitted, 12, 4),
    (Kind::UnitStored, 12, 3),
];

/// When a question is answered. A person cannot answer what the own client does not show yet.
const ANSWER: &[Moment] =
    &[(Kind::PermissionRaised, 2, 8), (Kind::StatusSeen, 6, 2), (Kind::ClientFed, 8, 2)];

struct Planner<'a> {
    dice: Dice,
    on: Features,
    options: &'a Options,
    shape: &'a Shape,
    actions: Vec<Action>,
}

pub(super) fn plan(seed: u64, on: Features, options: &Options, shape: &Shape) -> Plan {
    let dice = Dice::new(seed, Stream::People);
    let mut planner = Planner { dice, on, options, shape, actions: Vec::new() };
    let mut messages = planner.messages();
    planner.stops();
    planner.situations(&mut messages);
    planner.answers();
    planner.oddities(messages);
    let mut actions = planner.actions;
    clients(seed, on, options, &mut actions);
    Plan { actions, messages }
}

impl Planner<'_> {
    fn push(&mut self, mut when: Trigger, act: Act) {
        let riding = self.on.has(Feature::Together) && self.dice.in_16(5);
        if let (Some(last), true) = (self.actions.last(), riding) {
            when = when::together(&mut self.dice, last.when);
        }
        self.actions.push(Action { when, act });
    }

    fn session(&mut self) -> usize {
        usize::try_from(self.dice.below(self.options.sessions as u64)).unwrap_or(0)
    }

    fn messages(&mut self) -> u32 {
        let (on, dice) = (self.on, &mut self.dice);
        let count = match () {
            () if on.has(Feature::ManyMessages) => dice.between(3, 8),
            () if on.has(Feature::MoreMessages) => dice.between(2, 3),
            () => 1,
        };
        let count = u32::try_from(count).unwrap_or(1).min(self.shape.sends_max);
        for message in 1..=count {
            let when = match message {
                1 => Trigger::at_start(),
                _ => {
                    let mut when = when::at(&mut self.dice, FURTHER);
                    // Message n waits for something of the one before it.
                    if self.dice.in_16(12) {
                        when.nth = when.nth.max(message - 1);
                    }
                    // A person reads the answer, and thinks.
                    if when.event == Some(Kind::TurnEnded) && self.dice.in_16(9) {
                        when.then = Delay::Us(self.dice.between(1_000_000, READS_US_MAX));
                    }
                    when
                }
            };
            let steers = on.has(Feature::Steers) && message > 1 && self.dice.in_16(8);
            let mode = if steers { SendMode::Steer } else { SendMode::AfterTurn };
            let session = self.session();
            let text = "go on".to_owned();
            self.push(when, Act::Send { session, message, text, mode });
        }
        count
    }

    fn stops(&mut self) {
        let (on, most) = (self.on, self.shape.stops_max);
        if on.has(Feature::Stops) && most > 0 {
            let moments = match on.has(Feature::StopsAtHandover) && self.dice.in_16(12) {
                true => HANDOVER,
                false => STOP,
            };
            let when = when::at(&mut self.dice, moments);
            self.stop(when);
            if on.has(Feature::MoreStops) && most > 1 {
                for _ in 0..self.dice.between(1, 2).min(u64::from(most) - 1) {
                    let when = when::at(&mut self.dice, STOP_AGAIN);
                    self.stop(when);
                }
            }
        }
        if on.has(Feature::Closes) {
            let moments = if self.dice.in_16(8) { STOP } else { STOP_AGAIN };
            let (when, session) = (when::at(&mut self.dice, moments), self.session());
            self.push(when, Act::Close { session });
        }
        if on.has(Feature::Evictions) && most > 0 {
            let moments = if self.dice.in_16(8) { STOP } else { STOP_AGAIN };
            let (when, session) = (when::at(&mut self.dice, moments), self.session());
            self.push(when, Act::Evict { session });
        }
    }

    /// What the urns make too rarely.
    fn situations(&mut self, messages: &mut u32) {
        let (on, most) = (self.on, self.shape.stops_max);
        if !on.has(Feature::Stops) || most < 2 {
            return;
        }
        let stop = || Act::Stop { session: 0, turn: NamedTurn::None };
        let read = |nth| Trigger::after(Kind::PromptRead, nth);
        if on.has(Feature::PressedInGrace) {
            let later = Delay::Us(self.dice.between(200_000, STOP_GRACE_MS * 1_000));
            let when = when::behind(&mut self.dice, read(1), 1_000_000);
            self.actions.push(Action { when, act: stop() });
            let when = Trigger::after(Kind::CancelWritten, 1).then(later);
            self.actions.push(Action { when, act: stop() });
        }
        if on.has(Feature::PressedAtBarrier) && most > 2 {
            // One begins it, one finds it, one ends it.
            self.actions.push(Action {
                when: when::behind(&mut self.dice, read(1), 1_000_000),
                act: stop(),
            });
            for _ in 0..2 {
                let later = Delay::Us(self.dice.magnitude(1_000, CLOSE_BARRIER_MS * 1_000));
                let when = Trigger::after(Kind::CloseWritten, 1).then(later);
                self.actions.push(Action { when, act: stop() });
            }
        }
        if on.has(Feature::PressedBehindFall) {
            let gone = Trigger::after(Kind::ProcessEnded, 1);
            let when = gone.then(Delay::Us(self.dice.magnitude(2_000, 400_000)));
            self.actions.push(Action { when, act: stop() });
        }
        if on.has(Feature::StopAskedAgain) && *messages < self.shape.sends_max {
            let when = when::behind(&mut self.dice, read(1), 1_000_000);
            self.actions.push(Action { when, act: stop() });
            *messages += 1;
            let reads = Delay::Us(self.dice.between(1_000_000, 10_000_000));
            let when = Trigger::after(Kind::TurnEnded, 1).then(reads);
            let (message, text, mode) = (*messages, "go on".to_owned(), SendMode::AfterTurn);
            self.actions.push(Action { when, act: Act::Send { session: 0, message, text, mode } });
            // The Stop is often the call behind the first message.
            let call = if self.dice.in_16(12) { 1 } else { 2 };
            let when = when::behind(&mut self.dice, read(2), 1_000_000);
            self.actions.push(Action { when, act: Act::Again { call, changed: Changed::Nothing } });
        }
    }

    fn stop(&mut self, mut when: Trigger) {
        let runs =
            matches!(when.event, Some(Kind::PromptRead | Kind::TurnStarted | Kind::AgentUpdated));
        if runs && self.on.has(Feature::LongTurns) && self.dice.in_16(8) {
            // A person watches for a while.
            when.then = Delay::Us(self.dice.between(1_000_000, READS_US_MAX));
        }
        let turn = match self.on.has(Feature::NamedStops) {
            true => self.dice.pick(&[
                NamedTurn::None,
                NamedTurn::Ended,
                NamedTurn::Running,
                NamedTurn::Running,
                NamedTurn::Unknown,
                NamedTurn::Unknown,
            ]),
            false => NamedTurn::None,
        };
        let session = self.session();
        self.push(when, Act::Stop { session, turn });
    }

    fn answers(&mut self) {
        if !self.on.has(Feature::Permissions) {
            return;
        }
        for _ in 0..self.dice.between(0, 3) {
            let (mut when, session) = (when::at(&mut self.dice, ANSWER), self.session());
            if when.event == Some(Kind::PermissionRaised) && !self.dice.in_16(2) {
                when.then = Delay::Us(self.dice.magnitude(3_000, 4_000_000));
            }
            let option = self.dice.in_16(12).then(|| self.dice.below(4));
            let option = option.and_then(|n| usize::try_from(n).ok());
            self.push(when, Act::Answer { session, option });
            let stops = self.on.has(Feature::Stops) && self.shape.stops_max > 0;
            if let (Some(answer), true) = (self.actions.last(), stops && self.dice.in_16(9)) {
                // Somebody presses while the answer is on its way to the disk.
                let when = when::behind(&mut self.dice, answer.when, 4_000);
                self.actions
                    .push(Action { when, act: Act::Stop { session, turn: NamedTurn::None } });
            }
        }
    }

    fn oddities(&mut self, messages: u32) {
        let on = self.on;
        if on.has(Feature::RepeatedCalls) {
            for _ in 0..self.dice.between(1, 2) {
                let when = when::at(&mut self.dice, when::ANY);
                let call = usize::try_from(self.dice.below(4)).unwrap_or(0);
                let changed = match self.dice.in_16(10) {
                    true => Changed::Nothing,
                    false => self.dice.pick(&[
                        Changed::Call,
                        Changed::Call,
                        Changed::Digest,
                        Changed::Fence,
                        Changed::Fence,
                        Changed::Time,
                    ]),
                };
                self.push(when, Act::Again { call, changed });
            }
        }
        for (feature, text) in
            [(Feature::RepeatedMessages, "go on"), (Feature::OtherTexts, "something else")]
        {
            if on.has(feature) && self.dice.in_16(12) {
                let when = when::at(&mut self.dice, when::ANY);
                let message = u32::try_from(self.dice.between(1, u64::from(messages))).unwrap_or(1);
                let session = self.session();
                let mode = SendMode::AfterTurn;
                self.push(when, Act::Send { session, message, text: text.to_owned(), mode });
            }
        }
    }
}

fn clients(seed: u64, on: Features, options: &Options, actions: &mut Vec<Action>) {
    let mut dice = Dice::new(seed, Stream::Clients);
    for feature in [Feature::ClientsLeave, Feature::ClientsPause, Feature::ClientsLoadLate] {
        if !on.has(feature) {
            continue;
        }
        for _ in 0..dice.between(1, 2) {
            let when = when::at(&mut dice, when::ANY);
            let client = usize::try_from(dice.below(options.clients as u64)).unwrap_or(0);
            let ms = dice.magnitude(5, 6_000);
            let act = match feature {
                Feature::ClientsLeave => ClientAct::Leave { ms },
                Feature::ClientsPause => ClientAct::Pause { ms },
                _ => ClientAct::LoadLate { ms },
            };
            actions.push(Action { when, act: Act::Client { client, act } });
        }
    }
}
