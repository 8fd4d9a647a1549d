//! Simulation in an embedder's own tests, from outside: the attribute, the builder, what a failing test tells.
#![expect(clippy::disallowed_methods, reason = "what a failing test saved is looked at")]

use moored_sim::embed::Simulation;
use moored_sim::play::Sim;
use moored_sim::scenario::{EventKind, Fault, Trigger};

#[moored_sim::test(seeds = 12)]
fn a_late_persister_survives_a_stop() -> Simulation {
    Simulation::new("late-persister")
        .persona("late-persister")
        .send(Trigger::at_start(), 1, "hello")
        .stop(Trigger::after(EventKind::PromptRead, 1))
}

#[moored_sim::test(seeds = 12)]
async fn an_application_sends_whatever_goes_wrong(sim: Sim) {
    for n in 0..3 {
        if sim.send(0, &format!("m{n}"), &format!("m{n}: hello")).await {
            sim.until_rest(0, 30_000).await;
        }
    }
    // What was accepted is there, whatever crashed meanwhile.
    assert!(sim.timeline(0).submissions().len() <= 3);
}

/// What an application does around its host: it answers whatever an agent asks, from inside the host's process.
#[moored_sim::test(seeds = 12)]
fn callbacks_run_with_each_host() -> Simulation {
    Simulation::new("callbacks")
        .send(Trigger::at_start(), 1, "hello")
        .fault(Trigger::after(EventKind::TurnEnded, 1), Fault::HostCrash { restart_ms: 50 })
        .on_host(|sim: Sim| async move {
            let host = sim.host().await;
            let statuses = host.statuses().await.expect("the host is open");
            assert!(statuses.len() <= 1);
            sim.sleep_ms(10).await;
        })
}

fn failing() -> Simulation {
    Simulation::new("failing")
        .send(Trigger::at_start(), 1, "hello")
        .send(Trigger::at_start(), 2, "again")
        .fault(Trigger::after(EventKind::PromptRead, 1), Fault::Suspend { ms: 5 })
        .check(|run| match run.trace.events() {
            0 => Ok(()),
            _ => Err("something happened".to_owned()),
        })
}

#[test]
fn a_failing_test_tells_its_seed_and_how_to_play_it_again_and_saves_the_smallest_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let test = moored_sim::embed::Test {
        name: "app::tests::failing",
        folder: Box::leak(folder.path().to_string_lossy().into_owned().into_boxed_str()),
        seeds: 5,
        simulation: failing,
    };
    let told = told_by(&test);
    assert!(told.contains("seed 0 breaks the-test"), "{told}");
    assert!(told.contains("MOORED_SEED=0 cargo test tests::failing"), "{told}");
    assert!(told.contains("0 actions and 0 faults"), "{told}");
    let saved = folder.path().join("moored-failures/tests-failing-0.json");
    assert!(told.contains(&saved.display().to_string()), "{told}");
    assert!(saved.with_extension("html").exists());

    // Kept, it is played before any seed.
    let kept = folder.path().join("moored-regressions/tests-failing");
    std::fs::create_dir_all(&kept).expect("a folder");
    std::fs::rename(&saved, kept.join("one.json")).expect("the file is moved");
    let told = told_by(&test);
    assert!(told.contains("the regression") && told.contains("one.json fails again"), "{told}");
}

fn told_by(test: &moored_sim::embed::Test) -> String {
    let run = std::panic::AssertUnwindSafe(|| moored_sim::embed::run_test(test));
    let panic = std::panic::catch_unwind(run).expect_err("it fails");
    panic.downcast_ref::<String>().cloned().expect("in words")
}
