//! The bodies of the suite.

use moored::platform::{Exit, Order, Report, Signal, SpawnError, SpawnedChild, Survivor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Arm, Body, MEBIBYTE, Needs, Purpose};

/// All of them.
pub const BODIES: &[Body] = &[
    Body {
        name: "a child echoes, exits at the end of its input, and its tree is proven gone",
        needs: Needs::Anything,
        run: |arm| Box::pin(echoes_until_eof(arm)),
    },
    Body {
        name: "a program that is not there is named",
        needs: Needs::Anything,
        run: |arm| Box::pin(names_what_is_missing(arm)),
    },
    Body {
        name: "an exit code and the last words on stderr arrive",
        needs: Needs::Anything,
        run: |arm| Box::pin(gives_code_and_last_words(arm)),
    },
    Body {
        name: "the environment is the host's, less what is dropped, with the spawn token",
        needs: Needs::Anything,
        run: |arm| Box::pin(passes_the_environment(arm)),
    },
    Body {
        name: "a full pipe holds its writer until it is read, and no byte is lost",
        needs: Needs::Anything,
        run: |arm| Box::pin(holds_back_a_fast_writer(arm)),
    },
    Body {
        name: "a writer without a reader has a broken pipe",
        needs: Needs::Anything,
        run: |arm| Box::pin(breaks_the_pipe_of_an_unread_writer(arm)),
    },
    Body {
        name: "writing to a child that closed its stdin is a broken pipe",
        needs: Needs::Anything,
        run: |arm| Box::pin(breaks_the_pipe_of_a_closed_stdin(arm)),
    },
    Body {
        name: "an ordered kill ends the child, and it is told",
        needs: Needs::Anything,
        run: |arm| Box::pin(kills_a_sleeper(arm)),
    },
    Body {
        name: "SIGTERM ends a child that does not handle it",
        needs: Needs::Signals,
        run: |arm| Box::pin(terminates_a_sleeper(arm)),
    },
    Body {
        name: "a child that ignores SIGTERM lives until SIGKILL",
        needs: Needs::Signals,
        run: |arm| Box::pin(kills_who_ignores_term(arm)),
    },
    Body {
        name: "a frozen child keeps SIGTERM pending and dies by SIGKILL",
        needs: Needs::Signals,
        run: |arm| Box::pin(kills_who_is_frozen(arm)),
    },
    Body {
        name: "a grandchild that holds stdout holds back its end, and the sweep ends both",
        needs: Needs::Signals,
        run: |arm| Box::pin(sweeps_who_holds_stdout(arm)),
    },
    Body {
        name: "a double fork into sessions of its own does not escape the sweep",
        needs: Needs::Signals,
        run: |arm| Box::pin(sweeps_a_double_fork(arm)),
    },
    Body {
        name: "a grandchild that ignores SIGTERM is killed by the sweep",
        needs: Needs::Signals,
        run: |arm| Box::pin(sweeps_who_ignores_term(arm)),
    },
    Body {
        name: "a sweep that leaves names the survivors and ends nobody",
        needs: Needs::Signals,
        run: |arm| Box::pin(leaves_the_background(arm)),
    },
];

async fn start(arm: &dyn Arm, purpose: Purpose) -> SpawnedChild {
    let spec = arm.spec(purpose);
    arm.platform().spawn_child(spec).await.expect("the program is there and starts")
}

async fn report(child: &mut SpawnedChild) -> Report {
    child.reports.recv().await.expect("the supervisor still has something to report")
}

async fn order(child: &mut SpawnedChild, order: Order) {
    child.orders.send(order).await.expect("the supervisor takes orders until it is released");
}

async fn exited(child: &mut SpawnedChild) -> Exit {
    match report(child).await {
        Report::Exited { exit } => exit,
        other => panic!("an exit was to be reported, not {other:?}"),
    }
}

async fn signal(child: &mut SpawnedChild, signal: Signal) {
    order(child, Order::Signal { signal }).await;
    assert_eq!(report(child).await, Report::Signalled { signal, delivered: true });
}

/// Ends the tree and lets the supervisor go; gives who was still there.
async fn swept(mut child: SpawnedChild) -> Vec<Survivor> {
    order(&mut child, Order::Sweep { leave: false }).await;
    let Report::Swept { empty, survivors } = report(&mut child).await else {
        panic!("a sweep is answered by what it found");
    };
    assert!(empty, "a sweep ends everybody");
    order(&mut child, Order::Release).await;
    assert_eq!(child.reports.recv().await, None, "a released supervisor has nothing to say");
    survivors
}

async fn killed(mut child: SpawnedChild) {
    order(&mut child, Order::Signal { signal: Signal::Kill }).await;
    // The answer and the exit race.
    let both = [report(&mut child).await, report(&mut child).await];
    assert!(both.contains(&Report::Signalled { signal: Signal::Kill, delivered: true }));
    assert!(both.iter().any(|report| matches!(report, Report::Exited { .. })));
    assert_eq!(swept(child).await, []);
}

async fn said(child: &mut SpawnedChild, words: &str) {
    let mut bytes = vec![0; words.len()];
    child.stdout.read_exact(&mut bytes).await.expect("the child has more to say");
    assert_eq!(String::from_utf8_lossy(&bytes), words);
}

async fn rest(child: &mut SpawnedChild) -> Vec<u8> {
    let mut bytes = Vec::new();
    child.stdout.read_to_end(&mut bytes).await.expect("stdout reads to its end");
    bytes
}

/// Dropping the writer closes it; a shutdown alone need not.
fn close_stdin(child: &mut SpawnedChild) {
    child.stdin = Box::pin(tokio::io::sink());
}

async fn echoes_until_eof(arm: &dyn Arm) {
    let mut child = start(arm, Purpose::EchoUntilEof).await;
    assert!(arm.is_alive(&child.identity.root));
    child.stdin.write_all(b"one\ntwo\n").await.expect("the child reads");
    said(&mut child, "one\ntwo\n").await;
    close_stdin(&mut child);
    assert_eq!(rest(&mut child).await, b"");
    assert_eq!(exited(&mut child).await, Exit::Code(0));
    let root = child.identity.root.clone();
    assert_eq!(swept(child).await, []);
    assert!(!arm.is_alive(&root));
}

async fn names_what_is_missing(arm: &dyn Arm) {
    let spec = arm.spec(Purpose::Missing);
    let named = spec.argv.first().cloned().expect("a command has a program");
    let Err(refused) = arm.platform().spawn_child(spec).await else {
        panic!("a program that is not there cannot start");
    };
    assert_eq!(refused, SpawnError::NotFound { program: named });
}

async fn gives_code_and_last_words(arm: &dyn Arm) {
    let mut child = start(arm, Purpose::ComplainAndExitWith3).await;
    let mut words = String::new();
    child.stderr.read_to_string(&mut words).await.expect("stderr reads to its end");
    assert_eq!(words, "it hurts");
    assert_eq!(exited(&mut child).await, Exit::Code(3));
    swept(child).await;
}

async fn passes_the_environment(arm: &dyn Arm) {
    let spec = arm.spec(Purpose::PrintEnvironment);
    let token = format!("{}={}", moored::platform::SPAWN_TOKEN_VARIABLE, spec.token);
    let mut child = arm.platform().spawn_child(spec).await.expect("the program starts");
    let printed =
        String::from_utf8(rest(&mut child).await).expect("the suite's variables are text");
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines.contains(&token.as_str()), "the token is passed on");
    assert!(lines.contains(&"KEPT=kept"));
    assert!(!lines.iter().any(|line| line.starts_with("DROPPED=")));
    assert_eq!(exited(&mut child).await, Exit::Code(0));
    swept(child).await;
}

async fn holds_back_a_fast_writer(arm: &dyn Arm) {
    let mut child = start(arm, Purpose::WriteAMebibyte).await;
    let mut first = [0; 1];
    child.stdout.read_exact(&mut first).await.expect("the child writes");
    assert!(arm.is_alive(&child.identity.root), "what does not fit is still to be written");
    let rest = rest(&mut child).await;
    assert_eq!(rest.len(), MEBIBYTE - 1);
    let in_order = rest.iter().zip(1usize..).all(|(byte, at)| usize::from(*byte) == at % 256);
    assert!(in_order, "no byte is lost or moved");
    assert_eq!(exited(&mut child).await, Exit::Code(0));
    swept(child).await;
}

async fn breaks_the_pipe_of_an_unread_writer(arm: &dyn Arm) {
    let mut child = start(arm, Purpose::WriteUntilBroken).await;
    child.stdout = Box::pin(tokio::io::empty());
    assert_eq!(exited(&mut child).await, Exit::Code(7));
    swept(child).await;
}

async fn breaks_the_pipe_of_a_closed_stdin(arm: &dyn Arm) {
    let mut child = start(arm, Purpose::CloseStdinThenSleep).await;
    said(&mut child, "closed\n").await;
    let refused = child.stdin.write_all(b"hello\n").await.expect_err("nobody can read it");
    assert_eq!(refused.kind(), std::io::ErrorKind::BrokenPipe);
    killed(child).await;
}

async fn kills_a_sleeper(arm: &dyn Arm) {
    let child = start(arm, Purpose::SleepForever).await;
    let root = child.identity.root.clone();
    killed(child).await;
    assert!(!arm.is_alive(&root));
}

async fn terminates_a_sleeper(arm: &dyn Arm) {
    let mut child = start(arm, Purpose::SleepForever).await;
    signal(&mut child, Signal::Term).await;
    assert_eq!(exited(&mut child).await, Exit::Signal(15));
    swept(child).await;
}

async fn kills_who_ignores_term(arm: &dyn Arm) {
    let mut child = start(arm, Purpose::IgnoreTerm).await;
    said(&mut child, "ready\n").await;
    signal(&mut child, Signal::Term).await;
    signal(&mut child, Signal::Kill).await;
    assert_eq!(exited(&mut child).await, Exit::Signal(9));
    swept(child).await;
}

async fn kills_who_is_frozen(arm: &dyn Arm) {
    let mut child = start(arm, Purpose::StopItself).await;
    said(&mut child, "ready\n").await;
    close_stdin(&mut child);
    signal(&mut child, Signal::Kill).await;
    assert_eq!(exited(&mut child).await, Exit::Signal(9));
    swept(child).await;
}

async fn sweeps_who_holds_stdout(arm: &dyn Arm) {
    let mut child = start(arm, Purpose::ForkHoldingStdoutThenExit).await;
    assert_eq!(exited(&mut child).await, Exit::Code(0));
    assert!(!arm.is_alive(&child.identity.root), "a reaped root does not live");
    order(&mut child, Order::Sweep { leave: true }).await;
    let Report::Swept { empty: false, survivors } = report(&mut child).await else {
        panic!("the grandchild lives on");
    };
    assert_eq!(survivors.len(), 1);
    order(&mut child, Order::Sweep { leave: false }).await;
    let Report::Swept { empty: true, survivors: ended } = report(&mut child).await else {
        panic!("everybody was to be ended");
    };
    // A name may change meanwhile: the survivor had perhaps not become its own program yet.
    assert_eq!(ended[0].pid, survivors[0].pid);
    assert_eq!(ended.len(), 1);
    assert_eq!(rest(&mut child).await, b"", "with its last holder gone, stdout ends");
    order(&mut child, Order::Release).await;
}

async fn sweeps_a_double_fork(arm: &dyn Arm) {
    let mut child = start(arm, Purpose::ForkTwiceThenExit).await;
    assert_eq!(exited(&mut child).await, Exit::Code(0));
    assert_eq!(rest(&mut child).await, b"", "nobody holds stdout any more");
    assert!(!swept(child).await.is_empty(), "the one that sleeps was found");
}

async fn sweeps_who_ignores_term(arm: &dyn Arm) {
    let mut child = start(arm, Purpose::ForkIgnoringTermThenExit).await;
    assert_eq!(exited(&mut child).await, Exit::Code(0));
    assert_eq!(swept(child).await.len(), 1);
}

async fn leaves_the_background(arm: &dyn Arm) {
    let mut child = start(arm, Purpose::ForkTwiceThenExit).await;
    assert_eq!(exited(&mut child).await, Exit::Code(0));
    for _ in 0..2 {
        order(&mut child, Order::Sweep { leave: true }).await;
        let Report::Swept { empty: false, survivors } = report(&mut child).await else {
            panic!("nobody was to be ended");
        };
        assert!(!survivors.is_empty());
    }
    assert!(!swept(child).await.is_empty());
}
