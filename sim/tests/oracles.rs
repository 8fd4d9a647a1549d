//! The oracles against the shipping code: over seeds, personas, profiles, kernels, presses, crashes and faults, every one
//! of them holds.

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

fn faults() -> Vec<Fault> {
    vec![
        Fault::AgentKilled,
        Fault::AgentFrozen { ms: None },
        Fault::AgentFrozen { ms: Some(2_000) },
        Fault::ClockStep { ms: -86_400_000 },
        Fault::HostCrash { restart_ms: 10 },
        Fault::HostCrash { restart_ms: 7_000 },
        Fault::HostRestart { restart_ms: 10 },
        Fault::CrashAtCommit { stored: true, restart_ms: 10 },
        Fault::CrashAtCommit { stored: false, restart_ms: 10 },
        Fault::PowerLoss { restart_ms: 10 },
        Fault::SecondHost { lock_lost: false },
        Fault::SecondHost { lock_lost: true },
        Fault::StoreRefuses { commits: 3 },
        Fault::StoreCloses,
        Fault::StoreStalls { ms: 900 },
        Fault::StoreAnswersLate { ms: 900 },
        Fault::SupervisorKilled,
        Fault::Suspend { ms: 7_200_000 },
    ]
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

#[test]
fn everything_holds_over_seeds() {
    let plans = plans();
    for seed in 0..60_u64 {
        let pick = |of: usize, salt: u64| usize::try_from(seed * 7 + salt).unwrap_or(0) % of;
        let (agents, faults, moments) = (agents(), faults(), moments());
        let (name, script) = &agents[pick(agents.len(), 1)];
        let (plan, actions) = &plans[pick(plans.len(), 3)];
        let profile = [Profile::Posix, Profile::Win32][pick(2, seed / 3)];
        let name = format!("{name}, {plan}");
        let mut scenario = scenario(&name, seed, KernelKind::Tape, profile);
        scenario.options.keep_background = seed % 5 == 0;
        scenario.options.watch_frames_max = if seed % 4 == 0 { 1 } else { 256 };
        scenario.options.world.pipe_us_max = 3_000;
        scenario.options.world.timer_late_us_max = 2_000;
        scenario.script = script.clone();
        scenario.actions.clone_from(actions);
        scenario.faults = (0..2)
            .map(|n| fault(moments[pick(moments.len(), n)], faults[pick(faults.len(), n * 5)]))
            .collect();
        scenario.source = Source::seed(seed);
        holds(&scenario);
    }
}
