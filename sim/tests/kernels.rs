//! The kernels: the same seed is the same run, different seeds are different ones, and no run hangs.

use std::collections::BTreeSet;

use moored::ids::SpawnToken;
use moored::platform::{ChildSpec, Order, Platform, Report, spawn};
use moored::session::ladder::{LadderPolicy, Profile};
use moored_sim::conformance::{self, Purpose};
use moored_sim::draws::{Concern, Source};
use moored_sim::kernel::{self, Ended, KernelKind, Outcome, Pick, RunOptions};
use moored_sim::trace::Keep;
use moored_sim::{SimPlatform, World, WorldOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn spec(purpose: Purpose) -> ChildSpec {
    ChildSpec {
        argv: vec![purpose.as_str().to_owned()],
        cwd: "/work".to_owned(),
        set_env: Vec::new(),
        drop_env: Vec::new(),
        token: SpawnToken::from("a-token"),
        ladder: LadderPolicy::stock(Profile::Posix),
    }
}

/// Three tasks of one host talk to three echoing children at once, each a line at a time, and end them.
async fn three_conversations(host: SimPlatform) -> Vec<String> {
    let talks: Vec<_> = (0..3)
        .map(|number| {
            let platform = host.clone();
            spawn(&host, "conversation", async move {
                let mut child =
                    platform.spawn_child(spec(Purpose::EchoUntilEof)).await.expect("it starts");
                let mut heard = String::new();
                for line in 0..4 {
                    let line = format!("{number}.{line}\n");
                    child.stdin.write_all(line.as_bytes()).await.expect("it reads");
                    let mut bytes = vec![0; line.len()];
                    child.stdout.read_exact(&mut bytes).await.expect("it echoes");
                    let said = String::from_utf8_lossy(&bytes).into_owned();
                    platform.event("heard", format_args!("{}", said.trim_end()));
                    heard.push_str(&said);
                }
                drop(child.stdin);
                assert!(matches!(child.reports.recv().await, Some(Report::Exited { .. })));
                child.orders.send(Order::Sweep { leave: false }).await.expect("it obeys");
                assert!(matches!(child.reports.recv().await, Some(Report::Swept { .. })));
                child.orders.send(Order::Release).await.expect("it obeys");
                heard
            })
        })
        .collect();
    let mut heard = Vec::new();
    for talk in talks {
        heard.push(talk.await.expect("a conversation does not panic"));
    }
    heard
}

fn run(options: RunOptions) -> Outcome<Vec<String>> {
    let outcome = kernel::run(options, |kernel| {
        Box::pin(async move {
            let world = World::new(kernel, WorldOptions::default(), conformance::programs());
            three_conversations(SimPlatform::start(&world, "host")).await
        })
    });
    outcome.expect("the build has the kernel")
}

fn assert_same(left: &Outcome<Vec<String>>, right: &Outcome<Vec<String>>) {
    assert_eq!(left.trace.divergence(&right.trace).map(|d| d.to_string()), None);
    assert_eq!(left, right, "choices, steps and virtual time agree too");
}

#[test]
fn the_same_seed_is_the_same_run_on_every_kernel() {
    for kernel in KernelKind::available() {
        for seed in 0..10 {
            let options = RunOptions::seed(*kernel, seed).keeping(Keep::Steps);
            assert_same(&run(options.clone()), &run(options));
        }
    }
}

#[cfg(madsim)]
#[test]
fn the_tape_alone_and_inside_madsim_agree_to_the_bit() {
    for seed in 0..50 {
        let alone = run(RunOptions::seed(KernelKind::Tape, seed).keeping(Keep::Steps));
        let inside = run(RunOptions::seed(KernelKind::TapeInMadsim, seed).keeping(Keep::Steps));
        assert_same(&alone, &inside);
    }
}

#[test]
fn different_seeds_are_different_orders() {
    for kernel in KernelKind::available() {
        let orders: BTreeSet<u64> =
            (0..200).map(|seed| run(RunOptions::seed(*kernel, seed)).trace.order_hash()).collect();
        assert!(orders.len() > 150, "{} orders in 200 seeds on {kernel}", orders.len());
    }
}

/// With the world frozen (every choice but the scheduler's is benign) what differs is who runs next.
#[test]
fn the_scheduler_alone_makes_different_orders_and_a_fifo_makes_one() {
    let orders = |pick: Pick| -> usize {
        let frozen = |seed| RunOptions {
            source: Source::Replay {
                tape: Default::default(),
                live: vec![Concern::Schedule],
                seed,
            },
            pick,
            ..RunOptions::benign()
        };
        (0..200).map(|seed| run(frozen(seed)).trace.order_hash()).collect::<BTreeSet<u64>>().len()
    };
    assert_eq!(orders(Pick::Fifo), 1);
    assert!(orders(Pick::Random) > 150);
    assert!(orders(Pick::Pct { drops: 3, steps: 600 }) > 20);
}

#[test]
fn a_tape_replays_its_run_whole_or_without_its_benign_choices() {
    for seed in 0..20 {
        let drawn = run(RunOptions::seed(KernelKind::Tape, seed).keeping(Keep::Lines));
        let whole = run(RunOptions::replay(drawn.tape.clone()).keeping(Keep::Lines));
        assert_same(&drawn, &whole);
        let tape = drawn.tape.without_benign();
        assert!(tape.0.len() < drawn.tape.0.len());
        assert_same(&drawn, &run(RunOptions::replay(tape).keeping(Keep::Lines)));
    }
}

#[test]
fn the_run_in_which_nothing_strays_is_the_empty_tape() {
    let benign = run(RunOptions::benign().keeping(Keep::Lines));
    assert_eq!(benign.tape.strayed(), 0);
    assert_same(&benign, &run(RunOptions::replay(Default::default()).keeping(Keep::Lines)));
    assert_eq!(benign.finished()[1], "1.0\n1.1\n1.2\n1.3\n");
}

#[test]
fn a_deadlock_is_told_with_who_waits() {
    for kernel in KernelKind::available() {
        let outcome = kernel::run(RunOptions::seed(*kernel, 1), |kernel| {
            kernel.spawn("a task that waits", Box::pin(std::future::pending()));
            Box::pin(std::future::pending::<()>())
        });
        let Ended::Deadlock { waiting } = outcome.expect("the build has the kernel").ended else {
            panic!("nobody will ever wake anybody");
        };
        if *kernel != KernelKind::Madsim {
            assert_eq!(waiting, ["a task that waits", "main"]);
        }
    }
}

#[test]
fn a_task_that_spins_reaches_the_limit_on_steps() {
    for kernel in KernelKind::available() {
        let options = RunOptions { steps_max: 1_000, ..RunOptions::seed(*kernel, 1) };
        let outcome = kernel::run(options, |kernel| {
            Box::pin(async move {
                loop {
                    kernel.sleep_us(0).await;
                }
            })
        });
        let outcome: Outcome<()> = outcome.expect("the build has the kernel");
        assert_eq!(outcome.ended, Ended::TooManySteps);
        assert_eq!(outcome.steps, 1_000);
    }
}

#[test]
fn a_task_that_waits_on_and_on_reaches_the_limit_on_time() {
    for kernel in KernelKind::available() {
        let options = RunOptions { virtual_ms_max: 60_000, ..RunOptions::seed(*kernel, 1) };
        let outcome = kernel::run(options, |kernel| {
            Box::pin(async move {
                loop {
                    kernel.sleep_us(7_000_000).await;
                }
            })
        });
        let outcome: Outcome<()> = outcome.expect("the build has the kernel");
        assert_eq!(outcome.ended, Ended::TooMuchTime);
    }
}

#[test]
fn a_panic_keeps_the_tape_that_led_to_it() {
    for kernel in KernelKind::available() {
        let outcome = kernel::run(RunOptions::seed(*kernel, 1), |kernel| {
            let scope = kernel.child_scope("a process");
            let chosen = kernel.choose("agent.word", 1_000);
            scope.spawn("a task that fails", Box::pin(async move { panic!("chose {chosen}") }));
            Box::pin(std::future::pending::<()>())
        });
        let outcome = outcome.expect("the build has the kernel");
        let value = outcome.tape.0.first().expect("one choice was made").value;
        let words = format!("chose {value}");
        assert_eq!(outcome.ended, Ended::Panicked { task: "a task that fails", words });
    }
}

#[test]
fn a_killed_scope_drops_its_tasks_and_takes_no_more() {
    for kernel in KernelKind::available() {
        let outcome = kernel::run(RunOptions::seed(*kernel, 1), |kernel| {
            Box::pin(async move {
                let scope = kernel.child_scope("a process");
                let (dropped, notice) = tokio::sync::oneshot::channel::<()>();
                scope.spawn(
                    "a task that is dropped",
                    Box::pin(async move {
                        std::future::pending::<()>().await;
                        drop(dropped);
                    }),
                );
                kernel.sleep_us(5_000).await;
                scope.kill_scope();
                let first = notice.await.is_err();
                let (dropped, notice) = tokio::sync::oneshot::channel::<()>();
                scope.spawn("a task too late", Box::pin(async move { drop(dropped) }));
                (first, notice.await.is_err())
            })
        });
        assert_eq!(outcome.expect("the build has the kernel").finished(), (true, true));
    }
}

#[test]
fn every_sleep_suspends_even_one_that_is_over() {
    let outcome = kernel::run(RunOptions::benign(), |kernel| {
        Box::pin(async move {
            let mut sleep = kernel.sleep_us(0);
            std::future::poll_fn(|cx| std::task::Poll::Ready(sleep.as_mut().poll(cx).is_pending()))
                .await
        })
    });
    assert!(outcome.expect("the build has the kernel").finished());
}
