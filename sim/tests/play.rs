//! Playing scenarios: whatever is planned, the run ends, and what is told of it is the same every time.

mod common;

use common::faults;
use moored::journal::SendMode;
use moored_sim::kernel::{KernelKind, Pick};
use moored_sim::marks::WorldMark;
use moored_sim::play::{Playing, Run, play};
use moored_sim::scenario::{
    Act, Action, ClientAct, Delay, Edge, EventKind, Fault, NamedTurn, PlannedFault, Scenario,
    Trigger,
};

fn send(message: u32, when: Trigger) -> Action {
    let text = "hello".to_owned();
    Action { when, act: Act::Send { session: 0, message, text, mode: SendMode::AfterTurn } }
}

fn stop(when: Trigger) -> Action {
    Action { when, act: Act::Stop { session: 0, turn: NamedTurn::None } }
}

fn played(scenario: &Scenario) -> Run {
    let run = play(scenario, &Playing { timeline: true, ..Playing::default() })
        .expect("it can be played");
    if let Some(violation) = &run.violation {
        let told: Vec<String> = run
            .entries
            .iter()
            .map(|e| format!("{:>12} {:?} {} {}", e.at.0, e.lane, e.kind, e.words))
            .collect();
        panic!("{violation:?}\n{}", told.join("\n"));
    }
    run
}

#[test]
fn a_quiet_run_comes_to_rest_and_a_new_message_is_answered() {
    for kernel in KernelKind::available() {
        let mut scenario = Scenario::quiet("quiet", 1);
        scenario.options.kernel = *kernel;
        let run = played(&scenario);
        assert!(run.world.contains(WorldMark::ProbeCompleted), "{:?}", run.world);
    }
}

#[test]
fn a_stop_and_a_crash_are_survived() {
    let mut scenario = Scenario::quiet("stop-and-crash", 3);
    scenario.actions = vec![
        send(1, Trigger::at_start()),
        stop(Trigger::after(EventKind::PromptRead, 1)),
        send(2, Trigger::after(EventKind::TurnEnded, 1)),
    ];
    scenario.faults = vec![PlannedFault {
        when: Trigger::after(EventKind::PromptRead, 2),
        fault: Fault::HostCrash { restart_ms: 500 },
    }];
    for seed in 0..20 {
        scenario.source = moored_sim::draws::Source::seed(seed);
        let run = played(&scenario);
        assert!(run.world.contains(WorldMark::HostCrashedOverLiveAgent), "{:?}", run.world);
    }
}

#[test]
fn every_fault_is_survived_alone() {
    for fault in faults() {
        for when in [
            Trigger::at_start(),
            Trigger::after(EventKind::ProcessStarted, 1),
            Trigger::after(EventKind::PromptRead, 1),
            Trigger::after(EventKind::TurnEnded, 1).then(Delay::Us(5_000)),
            Trigger::after(EventKind::CancelWritten, 1)
                .then(Delay::Edge { edge: Edge::StopGrace, us: -1_000 }),
        ] {
            let mut scenario = Scenario::quiet("one-fault", 5);
            scenario.actions = vec![
                send(1, Trigger::at_start()),
                stop(Trigger::after(EventKind::PromptRead, 1)),
                Action {
                    when: Trigger::after(EventKind::TurnStarted, 1),
                    act: Act::Client { client: 0, act: ClientAct::Leave { ms: 50 } },
                },
            ];
            scenario.faults = vec![PlannedFault { when, fault }];
            played(&scenario);
        }
    }
}

/// The second host takes the store of the first, and dies with its own first commit: while it opens, or just behind. The
/// first one lives on and can store nothing; whoever looks after the hosts ends it and opens another (decisions D8, D35).
#[test]
fn a_second_host_that_dies_as_it_opens_leaves_nobody_with_a_host_that_is_none() {
    let mut opened = 0;
    for seed in 0..200 {
        let mut scenario = Scenario::quiet("second-host-dies", seed);
        scenario.actions = vec![
            send(0, Trigger::at_start()),
            send(1, Trigger::at_start()),
            send(2, Trigger::at_start()),
        ];
        scenario.options.pick = Pick::Pct { drops: 2, steps: 100 };
        scenario.options.commit_us_max = 1;
        let when = Trigger::after(EventKind::CallAnswered, 1);
        scenario.faults = vec![
            PlannedFault { when, fault: Fault::CrashAtCommit { stored: true, restart_ms: 0 } },
            PlannedFault { when, fault: Fault::SecondHost { lock_lost: true } },
        ];
        let run = played(&scenario);
        let crashed = run.entries.iter().position(|e| e.kind == "crash" && e.words.contains('1'));
        opened +=
            usize::from(crashed.is_some() && !run.world.contains(WorldMark::SecondHostOpened));
    }
    assert!(opened > 0, "no second host died before it was open");
}

#[test]
fn a_run_is_a_value() {
    let mut scenario = Scenario::quiet("value", 9);
    scenario.actions =
        vec![send(1, Trigger::at_start()), stop(Trigger::after(EventKind::PromptRead, 1))];
    let first = played(&scenario);
    assert_eq!(first.trace.hash(), played(&scenario).trace.hash());
    scenario.source = moored_sim::draws::Source::replay(first.tape.without_benign());
    assert_eq!(first.trace.hash(), played(&scenario).trace.hash(), "the tape replays it");
}
