//! The world itself, told as stories. Times are exact where nothing strays, and never asserted where a seed decides.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use moored::ids::SpawnToken;
use moored::platform::{
    ChildSpec, Exit, Mono, ORDERS_MAX, Order, Platform, ProofKind, Report, Signal, SpawnError,
    SpawnedChild, sleep_ms,
};
use moored::session::ladder::{LadderPolicy, Profile};
use moored::supervisor::core::SURVIVORS_NAMED_MAX;
use moored_sim::kernel::{self, KernelKind, Outcome, RunOptions};
use moored_sim::trace::Keep;
use moored_sim::world::{
    Fork, ForkPlace, PID_FIRST, PIPE_BYTES_MAX, PROCESSES_MAX, ProcessState, REPORTS_MAX, Sig,
    Stream, TREE_KILL_MS_MAX, pipe,
};
use moored_sim::{ProcessHandle, Programs, SharedWorld, SimPlatform, World, WorldOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

fn spec(program: &str, profile: Profile) -> ChildSpec {
    ChildSpec {
        argv: vec![program.to_owned(), "acp".to_owned()],
        cwd: "/ws".to_owned(),
        set_env: Vec::new(),
        drop_env: Vec::new(),
        token: SpawnToken::from("a-token"),
        ladder: LadderPolicy::stock(profile),
    }
}

/// Runs a story on a machine with one program called `agent`.
fn tell<A, AF, S, SF, T>(run: RunOptions, options: WorldOptions, agent: A, story: S) -> Outcome<T>
where
    A: Fn(ProcessHandle) -> AF + Send + Sync + 'static,
    AF: Future<Output = i32> + Send + 'static,
    S: FnOnce(SharedWorld, SimPlatform) -> SF + Send + 'static,
    SF: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let programs = Programs::default().with("agent", agent);
    let outcome = kernel::run(run.keeping(Keep::Lines), |kernel| {
        Box::pin(async move {
            let world = World::new(kernel, options, programs);
            let host = SimPlatform::start(&world, "host");
            story(world, host).await
        })
    });
    outcome.expect("the build has the kernel")
}

async fn start(host: &SimPlatform) -> SpawnedChild {
    let profile = host.world().options().profile;
    host.spawn_child(spec("agent", profile)).await.expect("the agent starts")
}

async fn sleeps(mut me: ProcessHandle) -> i32 {
    me.sleep_ms(1_000_000_000).await;
    0
}

async fn until_gone(world: &SharedWorld, name: &str) {
    while world.processes().iter().any(|row| row.name == name) {
        world.kernel().sleep_us(1_000).await;
    }
}

/// What happened to signals, in words and milliseconds.
fn signals(outcome: &Outcome<()>) -> Vec<(u64, String)> {
    let sent = outcome.trace.lines().iter().filter(|line| line.what == "signal.sent");
    sent.map(|line| (line.at.as_ms(), line.detail.clone())).collect()
}

#[test]
fn numbers_are_ones_no_real_system_has() {
    tell(RunOptions::benign(), WorldOptions::default(), sleeps, |_, host| async move {
        let child = start(&host).await;
        assert!(child.identity.root.pid > PID_FIRST);
        assert_eq!(child.identity.proof, ProofKind::Subreaper);
        let supervisor = child.identity.supervisor.expect("a posix child is supervised");
        assert!(supervisor.pid > PID_FIRST && supervisor != child.identity.root);
    })
    .finished();
}

#[test]
fn a_pipe_takes_64_kib_and_no_byte_more_until_it_is_read() {
    let reads_late = |mut me: ProcessHandle| async move {
        me.sleep_ms(5_000).await;
        let mut buf = [0; 1_000];
        while me.read(&mut buf).await.is_ok_and(|count| count > 0) {}
        0
    };
    tell(RunOptions::benign(), WorldOptions::default(), reads_late, |_, host| async move {
        let mut child = start(&host).await;
        child.stdin.write_all(&vec![7; PIPE_BYTES_MAX]).await.expect("it fits");
        assert_eq!(host.now(), Mono::ZERO, "what fits does not wait");
        child.stdin.write_all(&[8]).await.expect("it is read later");
        assert_eq!(host.now(), Mono::from_ms(5_000), "what does not fit waits for its reader");
    })
    .finished();
}

#[test]
fn a_read_and_a_write_suspend_even_when_they_could_finish_at_once() {
    let says = |mut me: ProcessHandle| async move {
        i32::from(me.write_all(Stream::Stdout, b"word").await.is_err())
    };
    tell(RunOptions::benign(), WorldOptions::default(), says, |_, host| async move {
        let mut child = start(&host).await;
        sleep_ms(&host, 10).await;
        let mut buf = [0; 8];
        let polls = polls_until_done(child.stdout.read(&mut buf)).await;
        assert_eq!(polls, 2, "the word was there");
        let polls = polls_until_done(child.stdout.read(&mut buf)).await;
        assert_eq!(polls, 2, "the end was there");
        let (mut write, _read) = pipe(Arc::clone(host.scope()), 0);
        assert_eq!(polls_until_done(write.write(b"word")).await, 2, "there was room");
    })
    .finished();
}

async fn polls_until_done<F: Future>(future: F) -> u32 {
    let (mut future, mut polls) = (Box::pin(future), 0);
    std::future::poll_fn(|cx| {
        polls += 1;
        future.as_mut().poll(cx).map(|_| polls)
    })
    .await
}

#[test]
fn a_full_process_table_refuses_a_fork() {
    let forks_on = |mut me: ProcessHandle| async move {
        let mut forked = 0;
        while me.fork(Fork::default(), sleeps).await.is_ok() {
            forked += 1;
        }
        forked
    };
    tell(RunOptions::benign(), WorldOptions::default(), forks_on, |world, host| async move {
        let mut child = start(&host).await;
        let Some(Report::Exited { exit: Exit::Code(forked) }) = child.reports.recv().await else {
            panic!("it stops when a fork is refused");
        };
        // Init, host, supervisor and the agent itself have a row too.
        assert_eq!(usize::try_from(forked), Ok(PROCESSES_MAX - 4));
        child.orders.send(Order::Sweep { leave: false }).await.expect("it obeys");
        let Some(Report::Swept { empty: true, survivors }) = child.reports.recv().await else {
            panic!("a sweep ends everybody");
        };
        assert_eq!(survivors.len(), SURVIVORS_NAMED_MAX);
        assert_eq!(world.processes().len(), 3);
    })
    .finished();
}

#[test]
fn a_stream_arrives_whole_and_in_order_however_it_is_cut() {
    for seed in 0..50 {
        let says = |mut me: ProcessHandle| async move {
            for number in 0..100 {
                let line = format!("line {number}\n");
                if me.write_all(Stream::Stdout, line.as_bytes()).await.is_err() {
                    return 1;
                }
            }
            0
        };
        let run = RunOptions::seed(KernelKind::Tape, seed);
        let (heard, reads) = tell(run, WorldOptions::default(), says, |_, host| async move {
            let mut child = start(&host).await;
            let (mut heard, mut reads, mut buf) = (Vec::new(), 0, [0; 256]);
            loop {
                let count = child.stdout.read(&mut buf).await.expect("it reads");
                if count == 0 {
                    return (heard, reads);
                }
                heard.extend_from_slice(&buf[..count]);
                reads += 1;
            }
        })
        .finished();
        let said: String = (0..100).map(|number| format!("line {number}\n")).collect();
        assert_eq!(String::from_utf8_lossy(&heard), said);
        assert!(reads > 100, "some lines were cut");
    }
}

#[test]
fn stdin_can_be_closed_while_stdout_goes_on() {
    let answers_at_eof = |mut me: ProcessHandle| async move {
        let mut buf = [0; 64];
        while me.read(&mut buf).await.is_ok_and(|count| count > 0) {}
        let said = me.write_all(Stream::Stdout, b"and yet").await;
        i32::from(said.is_err())
    };
    tell(RunOptions::benign(), WorldOptions::default(), answers_at_eof, |_, host| async move {
        let mut child = start(&host).await;
        child.stdin.shutdown().await.expect("closing is not refused");
        assert!(child.stdin.write_all(b"more").await.is_err(), "a closed end takes nothing");
        let mut words = String::new();
        child.stdout.read_to_string(&mut words).await.expect("it reads");
        assert_eq!(words, "and yet");
    })
    .finished();
}

/// Forks a sleeper that lives where it is told and keeps stdout if it is told, then exits.
fn leaves_a_sleeper(
    place: ForkPlace,
    keeps: &'static [Stream],
) -> impl Fn(ProcessHandle) -> moored::platform::BoxFuture<i32> + Send + Sync + 'static {
    move |mut me| {
        Box::pin(async move {
            let fork = Fork {
                name: "sleeper".to_owned(),
                place,
                keeps: keeps.iter().copied().collect(),
                ignores: BTreeSet::new(),
            };
            i32::from(me.fork(fork, sleeps).await.is_err())
        })
    }
}

#[test]
fn stdout_ends_only_with_its_last_holder() {
    let agent = leaves_a_sleeper(ForkPlace::SameGroup, &[Stream::Stdout]);
    tell(RunOptions::benign(), WorldOptions::default(), agent, |world, host| async move {
        let mut child = start(&host).await;
        assert_eq!(child.reports.recv().await, Some(Report::Exited { exit: Exit::Code(0) }));
        let mut buf = [0; 8];
        let waits = moored::platform::timeout(&host, 60_000, child.stdout.read(&mut buf)).await;
        assert!(waits.is_err(), "the agent is gone, its stdout is not");
        child.orders.send(Order::Sweep { leave: false }).await.expect("it obeys");
        assert_eq!(child.stdout.read(&mut buf).await.expect("it reads"), 0);
        until_gone(&world, "sleeper").await;
    })
    .finished();
}

#[test]
fn who_leaves_its_session_is_reparented_to_the_supervisor_and_found_by_the_sweep() {
    let agent = leaves_a_sleeper(ForkPlace::OwnSession, &[]);
    tell(RunOptions::benign(), WorldOptions::default(), agent, |world, host| async move {
        let mut child = start(&host).await;
        let supervisor = child.identity.supervisor.clone().expect("there is one");
        assert_eq!(child.reports.recv().await, Some(Report::Exited { exit: Exit::Code(0) }));
        let rows = world.processes();
        let sleeper = rows.iter().find(|row| row.name == "sleeper").expect("it lives on");
        assert_eq!(sleeper.parent, supervisor.pid, "the nearest subreaper has it");
        assert_ne!(sleeper.group, child.identity.root.pid, "no signal to the group reaches it");
        assert_eq!(sleeper.session, sleeper.identity.pid);
        child.orders.send(Order::Sweep { leave: false }).await.expect("it obeys");
        let Some(Report::Swept { empty: true, survivors }) = child.reports.recv().await else {
            panic!("a sweep ends everybody");
        };
        assert_eq!(survivors.len(), 1);
        assert_eq!(survivors[0].name, "sleeper");
        assert!(!world.is_alive(&sleeper.identity));
    })
    .finished();
}

#[test]
fn a_zombie_is_not_alive_but_still_takes_a_signal_to_its_group() {
    let keeps_a_zombie = |mut me: ProcessHandle| async move {
        let fork = Fork { name: "short".to_owned(), ..Fork::default() };
        let forked = me.fork(fork, |_| async { 5 }).await;
        me.sleep_ms(1_000_000).await;
        i32::from(forked.is_err())
    };
    tell(RunOptions::benign(), WorldOptions::default(), keeps_a_zombie, |world, host| async move {
        let child = start(&host).await;
        sleep_ms(&host, 100).await;
        let rows = world.processes();
        let zombie = rows.iter().find(|row| row.name == "short").expect("nobody reaped it");
        assert_eq!(zombie.state, ProcessState::Zombie(Exit::Code(5)));
        assert!(!world.is_alive(&zombie.identity));
        assert_eq!(zombie.group, child.identity.root.pid);
        assert_eq!(world.signal(zombie.identity.pid, Sig::Term), Ok(()));
    })
    .finished();
}

#[test]
fn a_frozen_process_keeps_sigterm_pending_and_takes_it_when_continued() {
    tell(RunOptions::benign(), WorldOptions::default(), sleeps, |world, host| async move {
        let mut child = start(&host).await;
        let root = child.identity.root.clone();
        world.signal(root.pid, Sig::Stop).expect("it is there");
        sleep_ms(&host, 10).await;
        child.orders.send(Order::Signal { signal: Signal::Term }).await.expect("it obeys");
        sleep_ms(&host, 60_000).await;
        let row = world.process(&root).expect("it is still there");
        assert_eq!(row.state, ProcessState::Stopped);
        world.signal(root.pid, Sig::Cont).expect("it is there");
        let term = Report::Signalled { signal: Signal::Term, delivered: true };
        assert_eq!(child.reports.recv().await, Some(term));
        assert_eq!(child.reports.recv().await, Some(Report::Exited { exit: Exit::Signal(15) }));
    })
    .finished();
}

#[test]
fn a_frozen_process_runs_no_step_until_it_is_continued() {
    let ticks = |mut me: ProcessHandle| async move {
        for _ in 0..100 {
            me.sleep_ms(10).await;
            me.note("tick", format_args!(""));
        }
        0
    };
    tell(RunOptions::benign(), WorldOptions::default(), ticks, |world, host| async move {
        let child = start(&host).await;
        world.after("tick", 5).await;
        world.signal(child.identity.root.pid, Sig::Stop).expect("it is there");
        sleep_ms(&host, 500).await;
        assert_eq!(world.count("tick"), 5);
        world.signal(child.identity.root.pid, Sig::Cont).expect("it is there");
        world.after("tick", 100).await;
    })
    .finished();
}

#[test]
fn a_kill_takes_time() {
    let options = WorldOptions { death_us_max: 3_000_000, ..WorldOptions::default() };
    let mut slow = 0;
    for seed in 0..20 {
        let run = RunOptions::seed(KernelKind::Tape, seed);
        slow += tell(run, options.clone(), sleeps, |_, host| async move {
            let mut child = start(&host).await;
            child.orders.send(Order::Signal { signal: Signal::Kill }).await.expect("it obeys");
            let told = Report::Signalled { signal: Signal::Kill, delivered: true };
            assert_eq!(child.reports.recv().await, Some(told));
            let told_at = host.now();
            let exit = Exit::Signal(9);
            assert_eq!(child.reports.recv().await, Some(Report::Exited { exit }));
            u32::from(host.now() > told_at.plus_ms(1_000))
        })
        .finished();
    }
    assert!(slow > 5, "{slow} of 20 took more than a second");
}

#[test]
fn when_the_host_dies_the_supervisor_ends_the_agent_by_the_ladder() {
    let ignores_everything = |mut me: ProcessHandle| async move {
        me.ignore_signal(Sig::Term);
        let mut buf = [0; 8];
        let eof = me.read(&mut buf).await;
        me.note("agent.eof", format_args!("{eof:?}"));
        me.sleep_ms(1_000_000).await;
        0
    };
    let outcome = tell(
        RunOptions::benign(),
        WorldOptions::default(),
        ignores_everything,
        |world, host| async move {
            let child = start(&host).await;
            sleep_ms(&host, 10_000).await;
            host.crash();
            // Whoever still holds the child holds nothing: the host's ends are closed by its death.
            until_gone(&world, "agent").await;
            until_gone(&world, "supervisor").await;
            assert!(!world.processes().iter().any(|row| row.name == "host"));
            drop(child);
        },
    );
    let eof = outcome.trace.lines().iter().find(|line| line.what == "agent.eof");
    assert_eq!(eof.map(|line| line.at.as_ms()), Some(10_000));
    assert_eq!(
        signals(&outcome),
        [(11_000, "Term to group p3".to_owned()), (14_000, "Kill to group p3".to_owned())]
    );
}

#[test]
fn whatever_the_seed_a_dead_host_leaves_nobody_behind() {
    for kernel in KernelKind::available() {
        for seed in 0..50 {
            let agent = leaves_a_sleeper(ForkPlace::OwnSession, &[Stream::Stdout]);
            let run = RunOptions::seed(*kernel, seed);
            let left = tell(run, WorldOptions::default(), agent, |world, host| async move {
                let in_host = host.clone();
                host.spawn_task(
                    "starts a child",
                    Box::pin(async move {
                        let _child = start(&in_host).await;
                        std::future::pending::<()>().await;
                    }),
                );
                // Anywhere from before the start to long after the agent's own end.
                world.after_any(world.kernel().choose("workload.crash_after", 8)).await;
                host.crash();
                world.kernel().sleep_us(20_000_000).await;
                world.processes().into_iter().map(|row| row.name).collect::<Vec<_>>()
            });
            assert_eq!(left.finished(), ["init"], "seed {seed} on {kernel}");
        }
    }
}

#[test]
fn a_frozen_supervisor_is_ended_without_losing_the_group() {
    let outcome =
        tell(RunOptions::benign(), WorldOptions::default(), sleeps, |world, host| async move {
            let mut child = start(&host).await;
            let supervisor = child.identity.supervisor.clone().expect("there is one");
            world.signal(supervisor.pid, Sig::Stop).expect("it is there");
            sleep_ms(&host, 1_000).await;
            child.orders.send(Order::Signal { signal: Signal::Term }).await.expect("it is taken");
            assert_eq!(child.reports.recv().await, Some(Report::SupervisorLost));
            assert_eq!(child.reports.recv().await, None);
            until_gone(&world, "agent").await;
            assert!(!world.is_alive(&supervisor));
        });
    assert_eq!(
        signals(&outcome)[1..],
        [
            (2_000, "Stop to p2".to_owned()),
            (2_000, "Kill to group p3".to_owned()),
            (2_000, "Kill to p2".to_owned())
        ]
    );
}

/// Orders without reading a report, until no more is taken; says how many were.
async fn order_until_full(host: &SimPlatform, orders: &mpsc::Sender<Order>) -> usize {
    let mut taken = 0;
    while orders.try_send(Order::Signal { signal: Signal::Term }).is_ok() {
        taken += 1;
        sleep_ms(host, 2).await;
    }
    taken
}

#[test]
fn orders_to_a_frozen_supervisor_wait_up_to_a_limit() {
    tell(RunOptions::benign(), WorldOptions::default(), sleeps, |world, host| async move {
        let child = start(&host).await;
        let supervisor = child.identity.supervisor.clone().expect("there is one");
        world.signal(supervisor.pid, Sig::Stop).expect("it is there");
        sleep_ms(&host, 10).await;
        // Both ends of the pipe are full, and one order is on its way.
        assert_eq!(order_until_full(&host, &child.orders).await, 2 * ORDERS_MAX + 1);
    })
    .finished();
}

#[test]
fn reports_to_a_host_that_reads_none_wait_up_to_a_limit() {
    let ignores_term = |mut me: ProcessHandle| async move {
        me.ignore_signal(Sig::Term);
        sleeps(me).await
    };
    tell(RunOptions::benign(), WorldOptions::default(), ignores_term, |_, host| async move {
        let child = start(&host).await;
        sleep_ms(&host, 10).await;
        // Besides the full queues, one order and two reports are on their way.
        let taken = order_until_full(&host, &child.orders).await;
        assert_eq!(taken, 2 * ORDERS_MAX + 1 + 2 * REPORTS_MAX + 2);
    })
    .finished();
}

#[test]
fn a_killed_supervisor_is_reported_lost_and_its_agent_falls_to_init() {
    tell(RunOptions::benign(), WorldOptions::default(), sleeps, |world, host| async move {
        let mut child = start(&host).await;
        let supervisor = child.identity.supervisor.clone().expect("there is one");
        world.signal(supervisor.pid, Sig::Kill).expect("it is there");
        assert_eq!(child.reports.recv().await, Some(Report::SupervisorLost));
        let row = world.process(&child.identity.root).expect("the agent lives on");
        assert_eq!(row.parent, PID_FIRST);
        assert_eq!(world.living_with_token("a-token"), [row], "and can be found by its token");
    })
    .finished();
}

#[test]
fn a_signal_the_system_refuses_is_reported_as_not_delivered() {
    let options = WorldOptions { signal_refused_one_in: 2, ..WorldOptions::default() };
    let mut refused = 0;
    for seed in 0..20 {
        let run = RunOptions::seed(KernelKind::Tape, seed);
        let delivered = tell(run, options.clone(), sleeps, |_, host| async move {
            let mut child = start(&host).await;
            child.orders.send(Order::Signal { signal: Signal::Term }).await.expect("it obeys");
            loop {
                if let Some(Report::Signalled { delivered, .. }) = child.reports.recv().await {
                    return delivered;
                }
            }
        });
        refused += u32::from(!delivered.finished());
    }
    assert!((2..19).contains(&refused), "{refused} of 20");
}

#[test]
fn a_number_is_given_again_and_a_stored_identity_does_not_match_its_new_holder() {
    let mut reused = 0;
    for seed in 0..30 {
        let run = RunOptions::seed(KernelKind::Tape, seed);
        let options = WorldOptions { pid_reused_one_in: 2, ..WorldOptions::default() };
        let exits = |_: ProcessHandle| async { 0 };
        reused += tell(run, options, exits, |world, host| async move {
            let mut first = start(&host).await;
            assert_eq!(first.reports.recv().await, Some(Report::Exited { exit: Exit::Code(0) }));
            first.orders.send(Order::Release).await.expect("it obeys");
            assert_eq!(first.reports.recv().await, None);
            let second = start(&host).await;
            let (old, new) = (first.identity.root, second.identity.root);
            assert_ne!(old, new);
            assert!(!world.is_alive(&old));
            u32::from(old.pid == new.pid)
        })
        .finished();
    }
    assert!(reused > 3, "{reused} of 30");
}

#[test]
fn a_late_signal_never_reaches_the_next_holder_of_a_number() {
    let mut reused = 0;
    for seed in 0..30 {
        let exits_the_first_time = |mut me: ProcessHandle| async move {
            let before = me.read_file("/ws/ran").await;
            let ran = me.append_file("/ws/ran", b"once").await;
            match (before, ran) {
                (Ok(None), Ok(())) => 0,
                _ => {
                    me.handle_signal(Sig::Term);
                    me.next_signal().await.number()
                }
            }
        };
        let options = WorldOptions {
            signal_us_max: 10_000_000,
            pid_reused_one_in: 2,
            ..WorldOptions::default()
        };
        let run = RunOptions::seed(KernelKind::Tape, seed);
        reused += tell(run, options, exits_the_first_time, |world, host| async move {
            let mut first = start(&host).await;
            let old = first.identity.root.clone();
            world.signal(old.pid, Sig::Term).expect("it is there");
            while !matches!(first.reports.recv().await, Some(Report::Exited { .. })) {}
            first.orders.send(Order::Release).await.expect("it obeys");
            assert_eq!(first.reports.recv().await, None);
            world.put_file("/ws/ran", Vec::new());
            let second = start(&host).await;
            sleep_ms(&host, 20_000).await;
            let new = second.identity.root.clone();
            assert!(world.is_alive(&new));
            u32::from(old.pid == new.pid)
        })
        .finished();
    }
    assert!(reused > 3, "{reused} of 30");
}

#[test]
fn a_start_fails_by_name() {
    tell(RunOptions::benign(), WorldOptions::default(), sleeps, |world, host| async move {
        let Err(missing) = host.spawn_child(spec("nobody", Profile::Posix)).await else {
            panic!("there is no such program");
        };
        assert_eq!(missing, SpawnError::NotFound { program: "nobody".to_owned() });
        world.remove_folder("/ws");
        let Err(folder) = host.spawn_child(spec("agent", Profile::Posix)).await else {
            panic!("there is no such folder");
        };
        assert!(matches!(folder, SpawnError::Workspace { cwd, .. } if cwd == "/ws"));
        assert_eq!(world.processes().len(), 2, "init and the host");
    })
    .finished();
}

#[test]
fn a_start_whose_time_stays_unreadable_is_refused_and_ended() {
    let options = WorldOptions { start_unreadable_one_in: 2, ..WorldOptions::default() };
    let mut unidentified = 0;
    for seed in 0..40 {
        let run = RunOptions::seed(KernelKind::Tape, seed);
        unidentified += tell(run, options.clone(), sleeps, |world, host| async move {
            let Err(refused) = host.spawn_child(spec("agent", Profile::Posix)).await else {
                return 0;
            };
            assert_eq!(refused, SpawnError::Unidentified);
            until_gone(&world, "agent").await;
            until_gone(&world, "supervisor").await;
            1
        })
        .finished();
    }
    assert!(unidentified > 0, "three unreadable reads in a row happen once in eight starts");
}

#[test]
fn files_are_appended_and_read_by_processes_and_outlive_them() {
    let writes = |mut me: ProcessHandle| async move {
        let path = format!("{}/session.jsonl", me.cwd());
        let nothing = me.read_file(&path).await.expect("reading is not refused");
        assert_eq!(nothing, None);
        me.append_file(&path, b"one\n").await.expect("appending is not refused");
        me.append_file(&path, b"two\n").await.expect("appending is not refused");
        me.die(Sig::Segv).await;
        0
    };
    tell(RunOptions::benign(), WorldOptions::default(), writes, |world, host| async move {
        let mut child = start(&host).await;
        assert_eq!(child.reports.recv().await, Some(Report::Exited { exit: Exit::Signal(11) }));
        world.lose_power();
        assert_eq!(world.file("/ws/session.jsonl").as_deref(), Some(&b"one\ntwo\n"[..]));
        assert_eq!(world.files(), ["/ws/session.jsonl"]);
    })
    .finished();
}

#[test]
fn a_handled_signal_is_given_to_the_program() {
    let leaves_on_term = |mut me: ProcessHandle| async move {
        me.handle_signal(Sig::Term);
        match me.next_signal().await {
            Sig::Term => 0,
            _ => 1,
        }
    };
    tell(RunOptions::benign(), WorldOptions::default(), leaves_on_term, |_, host| async move {
        let mut child = start(&host).await;
        sleep_ms(&host, 1).await;
        child.orders.send(Order::Signal { signal: Signal::Term }).await.expect("it obeys");
        let told = Report::Signalled { signal: Signal::Term, delivered: true };
        assert_eq!(child.reports.recv().await, Some(told));
        assert_eq!(child.reports.recv().await, Some(Report::Exited { exit: Exit::Code(0) }));
    })
    .finished();
}

#[test]
fn suspend_and_steps_show_on_the_wall_clock_alone() {
    tell(RunOptions::benign(), WorldOptions::default(), sleeps, |world, host| async move {
        let wall = host.wall_ms();
        sleep_ms(&host, 1_000).await;
        assert_eq!(host.wall_ms(), wall + 1_000);
        world.suspend(3_600_000);
        world.step_wall_clock(-500);
        assert_eq!(host.wall_ms(), wall + 3_600_500);
        assert_eq!(host.now(), Mono::from_ms(1_000), "decision D7");
    })
    .finished();
}

#[test]
fn random_bytes_stay_distinct_when_every_draw_is_benign() {
    tell(RunOptions::benign(), WorldOptions::default(), sleeps, |_, host| async move {
        let drawn: BTreeSet<[u8; 16]> = (0..100).map(|_| host.entropy()).collect();
        assert_eq!(drawn.len(), 100);
    })
    .finished();
}

#[test]
fn power_loss_ends_everything_and_begins_a_new_boot() {
    tell(RunOptions::benign(), WorldOptions::default(), sleeps, |world, host| async move {
        let before = start(&host).await.identity;
        world.lose_power();
        assert_eq!(world.processes().len(), 1, "init of the new boot");
        let host = SimPlatform::start(&world, "host");
        let after = start(&host).await.identity;
        assert_ne!(before.boot, after.boot);
        assert!(!world.is_alive(&before.root));
    })
    .finished();
}

// The win32 way.

#[test]
fn a_win32_child_is_in_a_job_and_has_no_sigterm() {
    tell(RunOptions::benign(), WorldOptions::win32(), sleeps, |_, host| async move {
        let mut child = start(&host).await;
        assert_eq!(child.identity.proof, ProofKind::Job);
        assert_eq!(child.identity.supervisor, None);
        child.orders.send(Order::Signal { signal: Signal::Term }).await.expect("it obeys");
        let told = Report::Signalled { signal: Signal::Term, delivered: false };
        assert_eq!(child.reports.recv().await, Some(told));
        child.orders.send(Order::Signal { signal: Signal::Kill }).await.expect("it obeys");
        let told = Report::Signalled { signal: Signal::Kill, delivered: true };
        assert_eq!(child.reports.recv().await, Some(told));
        assert_eq!(child.reports.recv().await, Some(Report::Exited { exit: Exit::Code(1) }));
    })
    .finished();
}

/// Leaves one child in the job and one outside it.
fn forks_in_and_out(mut me: ProcessHandle) -> moored::platform::BoxFuture<i32> {
    Box::pin(async move {
        for (name, place) in [("inside", ForkPlace::OwnSession), ("outside", ForkPlace::Breakaway)]
        {
            let fork = Fork { name: name.to_owned(), place, ..Fork::default() };
            if me.fork(fork, sleeps).await.is_err() {
                return 1;
            }
        }
        0
    })
}

#[test]
fn a_job_is_empty_without_the_child_that_broke_away() {
    tell(RunOptions::benign(), WorldOptions::win32(), forks_in_and_out, |world, host| async move {
        let mut child = start(&host).await;
        assert_eq!(child.reports.recv().await, Some(Report::Exited { exit: Exit::Code(0) }));
        child.orders.send(Order::Sweep { leave: false }).await.expect("it obeys");
        let Some(Report::Swept { empty: true, survivors }) = child.reports.recv().await else {
            panic!("an empty job is a proof");
        };
        assert_eq!(survivors.len(), 1);
        assert_eq!(survivors[0].name, "inside");
        let rows = world.processes();
        let outside = rows.iter().find(|row| row.name == "outside").expect("it broke away");
        assert_eq!(outside.parent, child.identity.root.pid, "nobody is reparented");
    })
    .finished();
}

#[test]
fn a_dead_win32_host_takes_its_job_with_it() {
    tell(RunOptions::benign(), WorldOptions::win32(), sleeps, |world, host| async move {
        let _child = start(&host).await;
        host.crash();
        until_gone(&world, "agent").await;
    })
    .finished();
}

#[test]
fn a_tree_kill_past_its_cap_proves_nothing_and_ends_nobody() {
    let tree_kill_us_max = 1_000 * TREE_KILL_MS_MAX * 1_000;
    let options = WorldOptions { tree_kill_us_max, ..WorldOptions::win32() };
    let lived = Arc::new(Mutex::new(0));
    for seed in 0..5 {
        let run = RunOptions::seed(KernelKind::Tape, seed);
        let lived = Arc::clone(&lived);
        tell(run, options.clone(), sleeps, |world, host| async move {
            let child = start(&host).await;
            child.orders.send(Order::Signal { signal: Signal::Kill }).await.expect("it obeys");
            world.after("job.terminate", 1).await;
            sleep_ms(&host, 1_000).await;
            *lived.lock().unwrap() += u32::from(world.is_alive(&child.identity.root));
        })
        .finished();
    }
    assert!(*lived.lock().unwrap() >= 4, "a delay this wide is nearly always past the cap");
}
