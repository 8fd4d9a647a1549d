//! The oracles against the shipping code: over seeds, personas, profiles, kernels, presses, crashes and faults, every one
//! of them holds.

#![expect(
    clippy::disallowed_methods,
    reason = "which seeds are played, and how much is told, is a person's choice"
)]

mod common;

use common::faults;
use moored::journal::SendMode;
use moored::session::ladder::Profile;
use moored_fake_agents::{PERSONAS, persona};
use moored_sim::draws::Source;
use moored_sim::kernel::KernelKind;
use moored_sim::play::{Playing, Run, play};
use moored_sim::scenario::{
    Act, Action, Changed, ClientAct, Delay, Edge, EventKind, Fault, NamedTurn, PlannedFault,
    Scenario, Trigger,
};

fn at(event: EventKind, nth: u32) -> Trigger {
    Trigger::after(event, nth)
}

fn send_as(message: u32, when: Trigger, mode: SendMode) -> Action {
    let text = "hello".to_owned();
    Action { when, act: Act::Send { session: 0, message, text, mode } }
}

fn send(message: u32, when: Trigger) -> Action {
    send_as(message, when, SendMode::AfterTurn)
}

fn steer(message: u32, when: Trigger) -> Action {
    send_as(message, when, SendMode::Steer)
}

fn stop(when: Trigger) -> Action {
    Action { when, act: Act::Stop { session: 0, turn: NamedTurn::None } }
}

fn act(when: Trigger, act: Act) -> Action {
    Action { when, act }
}

fn fault(when: Trigger, fault: Fault) -> PlannedFault {
    PlannedFault { when, fault }
}

fn told(run: &Run) -> String {
    let line = |e: &moored_sim::timeline::Entry| {
        format!("{:>12} {:?} {} {} {}", e.at.0, e.lane, e.kind, e.words, e.detail)
    };
    run.entries.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Plays it, and once more with its timeline if an oracle fires.
#[track_caller]
fn holds(scenario: &Scenario) {
    let run = play(scenario, &Playing::default()).expect("it can be played");
    if run.holds() {
        return;
    }
    let again = play(scenario, &Playing { timeline: true, ..Playing::default() });
    let again = again.expect("it can be played");
    let text = if std::env::var_os("MOORED_TOLD").is_some() { told(&again) } else { String::new() };
    panic!("{:?}\n{text}\n{}", again.violation, scenario.to_text());
}

/// Sends, steers, presses and questions that go with any agent.
fn plans() -> Vec<(&'static str, Vec<Action>)> {
    let start = Trigger::at_start;
    let answer = |when, option| act(when, Act::Answer { session: 0, option });
    vec![
        ("one send", vec![send(1, start())]),
        (
            "two sends and two presses",
            vec![
                send(1, start()),
                send(2, at(EventKind::PromptRead, 1)),
                stop(at(EventKind::TurnStarted, 1).then(Delay::Us(3_000))),
                stop(at(EventKind::CancelWritten, 1).then(Delay::Us(500))),
                send(3, at(EventKind::CancelWritten, 1)),
            ],
        ),
        (
            "steers",
            vec![
                send(1, start()),
                steer(2, at(EventKind::PromptRead, 1)),
                steer(3, at(EventKind::CancelWritten, 1)),
                stop(at(EventKind::PromptWritten, 2)),
                send(4, at(EventKind::TurnEnded, 2)),
            ],
        ),
        (
            "a Stop while it starts, and again at the grace",
            vec![
                send(1, start()),
                stop(at(EventKind::ProcessStarted, 1)),
                send(2, at(EventKind::CallAnswered, 2)),
                stop(
                    at(EventKind::CancelWritten, 1)
                        .then(Delay::Edge { edge: Edge::StopGrace, us: -2_000 }),
                ),
                act(
                    at(EventKind::CallMade, 3),
                    Act::Again { call: 0, changed: Changed::default() },
                ),
                act(
                    at(EventKind::CallMade, 3),
                    Act::Again { call: 1, changed: Changed::default() },
                ),
            ],
        ),
        (
            "questions",
            vec![
                send(1, start()),
                answer(at(EventKind::PermissionRaised, 1), Some(0)),
                send(2, at(EventKind::PromptRead, 1)),
                answer(at(EventKind::PermissionRaised, 2), None),
                stop(at(EventKind::PermissionRaised, 3)),
                answer(at(EventKind::PermissionRaised, 3).then(Delay::Us(50)), Some(1)),
                send(3, at(EventKind::TurnEnded, 2)),
                act(
                    at(EventKind::TurnEnded, 1),
                    Act::Client { client: 1, act: ClientAct::LoadLate { ms: 40 } },
                ),
            ],
        ),
        (
            "a close in the turn",
            vec![
                send(1, start()),
                send(2, at(EventKind::PromptRead, 1)),
                act(at(EventKind::PromptRead, 1).then(Delay::Us(2_000)), Act::Close { session: 0 }),
                act(at(EventKind::StdinClosed, 1), Act::Close { session: 0 }),
            ],
        ),
    ]
}

/// An agent that asks before it works.
const ASKER: &str = r#"{ "turns": [{ "steps": [
    { "do": "say", "text": "may I? " },
    { "do": "tool_call", "id": "call_1" },
    { "do": "permission", "tool": "call_1" },
    { "do": "say", "text": "thank you" },
    { "do": "tool_update", "id": "call_1", "status": "completed", "text": "ok" },
    { "do": "permission", "tool": "call_2" },
    { "do": "reply" }
] }] }"#;

fn agents() -> Vec<(&'static str, moored_fake_agents::Script)> {
    let mut agents: Vec<_> =
        PERSONAS.iter().map(|p| (p.name, persona(p.name).expect("it is one"))).collect();
    agents.push(("asker", ASKER.parse().expect("it is a script")));
    agents
}

fn scenario(name: &str, seed: u64, kernel: KernelKind, profile: Profile) -> Scenario {
    let mut scenario = Scenario::quiet(name, seed);
    scenario.options.kernel = kernel;
    scenario.options.madsim_seed = seed;
    scenario.options.world.profile = profile;
    scenario.options.clients = 2;
    scenario
}

#[test]
fn everything_holds_with_every_agent_whatever_persons_do() {
    for (name, script) in agents() {
        for (plan, actions) in plans() {
            for profile in [Profile::Posix, Profile::Win32] {
                for (seed, kernel) in (1..).zip(KernelKind::available()) {
                    let name = format!("{name}, {plan}");
                    let mut scenario = scenario(&name, seed, *kernel, profile);
                    scenario.script = script.clone();
                    scenario.actions.clone_from(&actions);
                    holds(&scenario);
                }
            }
        }
    }
}

fn moments() -> Vec<Trigger> {
    vec![
        at(EventKind::UnitStored, 1),
        at(EventKind::ProcessStarted, 1),
        at(EventKind::PromptRead, 1).then(Delay::Us(1_000)),
        at(EventKind::CancelWritten, 1),
        at(EventKind::StdinClosed, 1),
        at(EventKind::TurnEnded, 1),
    ]
}

#[test]
fn everything_holds_whatever_goes_wrong() {
    for (number, (name, script)) in agents().into_iter().enumerate() {
        for (at_plan, (plan, actions)) in plans().into_iter().enumerate() {
            for (at_fault, what) in faults().into_iter().enumerate() {
                // Not every combination, but every pair of them.
                let seed = number * 31 + at_plan * 7 + at_fault;
                let moments = moments();
                let when = moments[seed % moments.len()];
                let profile = [Profile::Posix, Profile::Win32][(seed / 2) % 2];
                let name = format!("{name}, {plan}, {what}");
                let mut scenario = scenario(&name, seed as u64, KernelKind::Tape, profile);
                scenario.script = script.clone();
                scenario.actions.clone_from(&actions);
                scenario.faults = vec![fault(when, what)];
                holds(&scenario);
            }
        }
    }
}

/// A cheap source of picks: a run's own choices come from its seed.
struct Picks(u64);

impl Picks {
    fn below(&mut self, of: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % of
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    fn trigger(&mut self) -> Trigger {
        let nth = u32::try_from(1 + self.below(3)).unwrap_or(1);
        let then = match self.below(4) {
            0 | 1 => Delay::None,
            2 => Delay::Us(self.below(20_000) as u64),
            _ => {
                let us = i64::try_from(self.below(8_000)).unwrap_or(0) - 4_000;
                Delay::Edge { edge: self.of(Edge::ALL), us }
            }
        };
        at(self.of(EventKind::ALL), nth).then(then)
    }

    fn action(&mut self, n: u32) -> Action {
        let when = if n == 1 { Trigger::at_start() } else { self.trigger() };
        let turns = [
            NamedTurn::None,
            NamedTurn::None,
            NamedTurn::Running,
            NamedTurn::Ended,
            NamedTurn::Unknown,
        ];
        let client = self.below(2);
        let ms = self.below(400) as u64;
        match self.below(if n == 1 { 4 } else { 14 }) {
            0..=3 => send(n, when),
            4 | 5 => steer(n, when),
            6..=8 => act(when, Act::Stop { session: 0, turn: self.of(&turns) }),
            9 => act(when, Act::Answer { session: 0, option: self.of(&[None, Some(0), Some(2)]) }),
            10 => act(when, Act::Again { call: self.below(5), changed: Changed::default() }),
            11 => act(when, Act::Client { client, act: ClientAct::Leave { ms } }),
            12 => act(when, Act::Client { client, act: ClientAct::LoadLate { ms } }),
            _ if self.below(3) == 0 => act(when, Act::Close { session: 0 }),
            _ => act(when, Act::Client { client, act: ClientAct::Pause { ms } }),
        }
    }
}

fn mixed(seed: u64) -> Scenario {
    let mut picks = Picks(seed);
    picks.below(2);
    let (name, script) = picks.of(&agents());
    let kernel = picks.of(KernelKind::available());
    let profile = picks.of(&[Profile::Posix, Profile::Posix, Profile::Win32]);
    let mut scenario = scenario(name, seed, kernel, profile);
    scenario.script = script;
    scenario.options.keep_background = picks.below(6) == 0;
    scenario.options.watch_frames_max = picks.of(&[1, 3, 256]);
    let world = &mut scenario.options.world;
    world.timer_late_us_max = picks.of(&[0, 300, 5_000]);
    world.signal_refused_one_in = picks.of(&[0, 0, 0, 3]);
    world.fork_refused_one_in = picks.of(&[0, 0, 0, 4]);
    world.tree_kill_us_max = picks.of(&[400_000, 400_000, 6_000_000]);
    let actions = u32::try_from(2 + picks.below(7)).unwrap_or(2);
    scenario.actions = (1..=actions).map(|n| picks.action(n)).collect();
    scenario.faults =
        (0..picks.below(4)).map(|_| fault(picks.trigger(), picks.of(&faults()))).collect();
    scenario.source = Source::seed(seed);
    scenario
}

/// How many seeds are played; `MOORED_SEEDS` says how many more times, and `MOORED_SEED` plays one.
const SEEDS: u64 = 400;

#[test]
fn everything_holds_over_seeds() {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    if let Some(seed) = number("MOORED_SEED") {
        return holds(&mixed(seed));
    }
    for seed in 0..SEEDS * number("MOORED_SEEDS").unwrap_or(1) {
        let played = std::panic::catch_unwind(|| holds(&mixed(seed)));
        assert!(played.is_ok(), "seed {seed}");
    }
}
