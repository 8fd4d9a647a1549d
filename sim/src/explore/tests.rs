//! The search and the oracles can fail, and a merge loses nothing.

use std::collections::BTreeMap;

use super::world::{Watch, World, message};
use super::{ALPHABETS, Bounds, Explorer, Step, oracle};

fn world(sends: u8, stops: u8, crashes: u8) -> World {
    World::new(Bounds { sends, stops, crashes, ..Bounds::default() }).expect("a first state")
}

fn after(mut world: World, steps: &[Step]) -> World {
    for step in steps {
        assert!(world.is_enabled(*step), "{step:?} is enabled in {steps:?}");
        world.take(*step, &mut Watch::default()).expect("it holds");
    }
    world
}

use Step::*;

/// To a prompt that the agent has not answered.
const RUNNING: &[Step] =
    &[Send, Durable, Durable, Spawned, Durable, Initialized, Opened, Durable, Durable];

/// What comes next from a state, and what it leads to.
fn continuations(world: &World) -> Vec<(Step, u128, Vec<String>)> {
    let enabled = Step::ALL.into_iter().filter(|step| world.is_enabled(*step));
    let take = |step: Step| {
        let mut next = world.clone();
        let mut watch = Watch { effects: Some(Vec::new()), ..Watch::default() };
        next.take(step, &mut watch).expect("it holds");
        // Numbers of rows may differ between states that are one; what is done may not.
        let effects = watch.effects.unwrap_or_default();
        let kinds = effects.iter().map(|e| e.split(' ').next().unwrap_or_default().to_owned());
        (step, next.digest(), kinds.collect())
    };
    enabled.map(take).collect()
}

/// States that are merged because their digests are equal go on alike: the same steps are enabled, each leads to the
/// same state, and the machine asks for the same on the way.
fn merges_lose_nothing(bounds: Bounds, states_max: usize) {
    let first = World::new(bounds).expect("a first state");
    let mut known = BTreeMap::from([(first.digest(), first.clone())]);
    let mut open = vec![first];
    let (mut compared, mut different) = (0, 0);
    while let Some(world) = open.pop() {
        for step in Step::ALL.into_iter().filter(|step| world.is_enabled(*step)) {
            let mut next = world.clone();
            next.take(step, &mut Watch::default()).expect("it holds");
            match known.get(&next.digest()) {
                Some(other) => {
                    compared += 1;
                    different += usize::from(other.session != next.session);
                    assert_eq!(continuations(other), continuations(&next));
                }
                None if known.len() < states_max => {
                    known.insert(next.digest(), next.clone());
                    open.push(next);
                }
                None => {}
            }
        }
    }
    assert!(compared > 100 && different > 5, "{compared} merges, {different} of other sessions");
}

#[test]
fn a_merge_loses_nothing_with_one_message() {
    merges_lose_nothing(Bounds { sends: 1, stops: 1, crashes: 1, ..Bounds::default() }, 700);
}

#[test]
fn a_merge_loses_nothing_with_late_words_and_refusals() {
    let bounds = Bounds { sends: 1, stops: 1, crashes: 0, late_updates: 1, refusals: 1 };
    merges_lose_nothing(bounds, 700);
}

#[test]
fn a_merge_loses_nothing_with_two_messages() {
    merges_lose_nothing(Bounds { sends: 2, stops: 1, ..Bounds::default() }, 2_000);
}

#[test]
fn only_what_a_world_allows_is_enabled() {
    let new = world(1, 1, 0);
    for step in
        [Exited, AnsweredEndTurn, AnsweredCancelled, Initialized, TreeEmpty, LateUpdate, Crashed]
    {
        assert!(!new.is_enabled(step), "{step:?} in a new world");
    }
    let running = after(world(1, 0, 0), RUNNING);
    assert!(running.is_enabled(AnsweredEndTurn) && running.is_enabled(Exited));
    assert!(!running.is_enabled(Send) && !running.is_enabled(Stop), "both are used up");
    let gone = after(running, &[Exited, PipesEnded]);
    assert!(!gone.is_enabled(AnsweredEndTurn) && !gone.is_enabled(Exited));
}

#[test]
fn a_crash_leaves_the_old_child_to_nobody() {
    let crashed = after(after(world(1, 0, 1), RUNNING), &[Crashed]);
    assert!(crashed.around.orphan && crashed.around.agent.is_none());
    assert!(oracle::may_spawn(&crashed).is_err(), "nothing may be started over it");
}

#[test]
fn each_oracle_can_fail() {
    let mut lost = world(1, 0, 1);
    lost.around.accepted = 1 << 1;
    assert!(oracle::after_restart(&lost).is_err(), "an accepted message is gone");
    assert!(oracle::may_accept(&lost, &message(1)).is_err(), "it was never stored");
    assert!(oracle::may_prompt(&lost, 1).is_err(), "it was never handed over");

    let running = after(world(1, 0, 0), RUNNING);
    assert!(oracle::may_prompt(&running, 1).is_err(), "an agent has it");
    assert!(oracle::may_spawn(&running).is_err(), "a child lives");
    let agent = running.around.agent.as_ref().expect("a child");
    let signal = moored::platform::Signal::Term;
    assert!(oracle::may_signal(agent, signal, running.now.mono).is_err(), "no end was begun");
    assert!(oracle::may_forget(&running, &agent.generation).is_err(), "it lives");
    assert!(oracle::may_settle(agent, running.now.mono).is_err(), "it may still speak");

    let mut waits = world(0, 0, 0);
    waits.around.open_calls.push(moored::session::CallId(9));
    assert!(oracle::after_step(&waits).is_err(), "a call is never answered");

    let mut settled = after(after(world(1, 1, 0), RUNNING), &[Stop, AnsweredCancelled]);
    while settled.is_enabled(Durable) {
        settled = after(settled, &[Durable]);
    }
    assert!(oracle::after_step(&settled).is_ok());
    (settled.around.stopped, settled.around.answered_cancelled) = (0, 0);
    assert!(oracle::after_step(&settled).is_err(), "nobody stopped that turn");
}

#[test]
fn a_press_of_cancel_reaches_a_prompt_once() {
    let mut agent = after(world(1, 0, 0), RUNNING).around.agent;
    assert!(oracle::cancelled(agent.as_mut()).is_ok());
    assert!(oracle::cancelled(agent.as_mut()).is_err());
}

#[test]
fn a_violation_is_told_step_by_step() {
    let explorer = Explorer { bounds: Bounds { sends: 1, ..Bounds::default() }, depth: 3 };
    let lines = super::search::told(&explorer, &[Send, Durable]);
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("the person sends a message  [append"), "{}", lines[0]);
    assert!(lines[1].contains("answer 101 true"), "{}", lines[1]);
}

#[test]
fn names_of_alphabets_are_in_order_and_counted() {
    assert!(ALPHABETS.windows(2).all(|pair| pair[0].name < pair[1].name));
    assert!(ALPHABETS.iter().all(|alphabet| alphabet.bounds.sends <= super::SENDS_MAX));
}
