//! The suite's programs as simulated processes.

use std::collections::BTreeSet;
use std::io;

use super::{MEBIBYTE, Purpose};
use crate::world::{Fork, ForkPlace, ProcessHandle, Programs, Sig, Stream};

/// Longer than any run.
const FOR_EVER_MS: u64 = 365 * 24 * 60 * 60 * 1_000;

/// Every program of the suite but the missing one.
pub fn programs() -> Programs {
    Programs::default()
        .with(Purpose::CloseStdinThenSleep.as_str(), close_stdin_then_sleep)
        .with(Purpose::ComplainAndExitWith3.as_str(), complain_and_exit_with_3)
        .with(Purpose::EchoUntilEof.as_str(), echo_until_eof)
        .with(Purpose::ForkTwiceThenExit.as_str(), fork_twice_then_exit)
        .with(Purpose::ForkHoldingStdoutThenExit.as_str(), fork_holding_stdout_then_exit)
        .with(Purpose::ForkIgnoringTermThenExit.as_str(), fork_ignoring_term_then_exit)
        .with(Purpose::IgnoreTerm.as_str(), ignore_term)
        .with(Purpose::PrintEnvironment.as_str(), print_environment)
        .with(Purpose::SleepForever.as_str(), sleep_forever)
        .with(Purpose::StopItself.as_str(), stop_itself)
        .with(Purpose::WriteAMebibyte.as_str(), write_a_mebibyte)
        .with(Purpose::WriteUntilBroken.as_str(), write_until_broken)
}

/// A program's own failure, as the shell would show it.
fn code(result: io::Result<i32>) -> i32 {
    result.unwrap_or(101)
}

async fn sleep_forever(mut me: ProcessHandle) -> i32 {
    me.sleep_ms(FOR_EVER_MS).await;
    0
}

async fn close_stdin_then_sleep(mut me: ProcessHandle) -> i32 {
    me.close(Stream::Stdin);
    let said = me.write_all(Stream::Stdout, b"closed\n").await;
    me.sleep_ms(FOR_EVER_MS).await;
    code(said.map(|()| 0))
}

async fn complain_and_exit_with_3(mut me: ProcessHandle) -> i32 {
    code(me.write_all(Stream::Stderr, b"it hurts").await.map(|()| 3))
}

async fn echo_until_eof(mut me: ProcessHandle) -> i32 {
    let mut buf = [0; 4_096];
    loop {
        match me.read(&mut buf).await {
            Ok(0) => return 0,
            Ok(count) => {
                if let Err(error) = me.write_all(Stream::Stdout, &buf[..count]).await {
                    return code(Err(error));
                }
            }
            Err(error) => return code(Err(error)),
        }
    }
}

fn own_session(name: &str) -> Fork {
    Fork { name: name.to_owned(), place: ForkPlace::OwnSession, ..Fork::default() }
}

async fn fork_twice_then_exit(mut me: ProcessHandle) -> i32 {
    let between = |mut me: ProcessHandle| async move {
        code(me.fork(own_session("sleeper"), sleep_forever).await.map(|_| 0))
    };
    code(me.fork(own_session("between"), between).await.map(|_| 0))
}

async fn fork_holding_stdout_then_exit(mut me: ProcessHandle) -> i32 {
    let fork = Fork {
        name: "holder".to_owned(),
        keeps: BTreeSet::from([Stream::Stdout]),
        ..Fork::default()
    };
    code(me.fork(fork, sleep_forever).await.map(|_| 0))
}

async fn fork_ignoring_term_then_exit(mut me: ProcessHandle) -> i32 {
    let fork = Fork { ignores: BTreeSet::from([Sig::Term]), ..own_session("stubborn") };
    code(me.fork(fork, sleep_forever).await.map(|_| 0))
}

async fn ignore_term(mut me: ProcessHandle) -> i32 {
    me.ignore_signal(Sig::Term);
    let said = me.write_all(Stream::Stdout, b"ready\n").await;
    me.sleep_ms(FOR_EVER_MS).await;
    code(said.map(|()| 0))
}

async fn print_environment(mut me: ProcessHandle) -> i32 {
    let lines: Vec<String> =
        me.environment().iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    code(me.write_all(Stream::Stdout, lines.concat().as_bytes()).await.map(|()| 0))
}

async fn stop_itself(mut me: ProcessHandle) -> i32 {
    let said = me.write_all(Stream::Stdout, b"ready\n").await;
    me.stop_self().await;
    code(said.map(|()| 0))
}

async fn write_a_mebibyte(mut me: ProcessHandle) -> i32 {
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(MEBIBYTE).collect();
    code(me.write_all(Stream::Stdout, &bytes).await.map(|()| 0))
}

async fn write_until_broken(mut me: ProcessHandle) -> i32 {
    loop {
        match me.write_all(Stream::Stdout, &[0; 4_096]).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return 7,
            Err(error) => return code(Err(error)),
        }
    }
}
