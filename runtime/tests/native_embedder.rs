//! Programs that embed the library, as whole processes: one that is its own supervisor, one that forgot to be, and one
//! that dies under its agent. This file is all of them, and the stories that run them.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "whole programs are run and killed here"
)]

mod native_support;

use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use moored::platform::native::{Native, NativeError, SupervisorProgram};
use moored::platform::{Exit, Platform};
use moored::session::ladder::{LadderPolicy, Profile};
use native_support::*;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

const ROLE: &str = "MOORED_TEST_EMBEDDER";

fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("forgets") => forgets(),
        Ok(role) => {
            moored::supervisor::run_if_asked();
            match role {
                "remembers" => remembers(),
                "dies" => dies(),
                "lends" => lends(),
                other => panic!("there is no such embedder: {other}"),
            }
        }
        Err(_) => stories(),
    }
}

// The embedders.

fn forgets() {
    let error = Native::new(SupervisorProgram::ThisExecutable).expect_err("it cannot be opened");
    match error {
        // Run again as the supervisor it is not: it starts nothing, least of all another of itself.
        NativeError::InsideSupervisor => {}
        NativeError::NotASupervisor { .. } => println!("found out: {error}"),
        other => println!("{other}"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn remembers() {
    let native = Native::new(SupervisorProgram::ThisExecutable).expect("it is its own supervisor");
    let story = Story { native, token: mint(), keep_background: false };
    let mut agent = story.start(story.spec(&["/bin/cat"])).await;
    agent.write("hello\n").await;
    println!("{}", agent.line().await);
    agent.close_stdin();
    agent.exited(Exit::Code(0)).await;
    agent.sweeps().await;
    agent.released().await;
}

#[tokio::main(flavor = "current_thread")]
async fn dies() {
    let native = Native::new(SupervisorProgram::ThisExecutable).expect("it is its own supervisor");
    let story = Story { native, token: mint(), keep_background: false };
    // Neither heeds EOF, one is out of the group, one ignores SIGTERM.
    let mut agent =
        story.sh("setsid sleep 1000 & trap '' TERM; echo up; while :; do sleep 1000; done").await;
    agent.line().await;
    println!("{} {}", story.token, agent.supervisor());
    std::future::pending::<()>().await;
}

/// A host by hand, whose end of the control socket another process holds as well, as after a fork.
fn lends() {
    let token = mint();
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let held = OwnedFd::from(ours.try_clone().expect("a second end"));
    let mut holder = Command::new("/bin/sleep");
    let holder = holder.arg("1000").env("MOORED_SPAWN_TOKEN", &token).stdin(held).spawn();
    let mut supervisor = supervisor(theirs);
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
    let pipes = [null(), null(), null()];
    let pipes = [pipes[0].as_fd(), pipes[1].as_fd(), pipes[2].as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    assert!(beside.push(SendAncillaryMessage::ScmRights(&pipes)));
    let request = request(std::process::id(), &token);
    let sent = sendmsg(&ours, &[IoSlice::new(&request)], &mut beside, SendFlags::empty());
    assert_eq!(sent, Ok(request.len()));
    let mut answer = String::new();
    BufReader::new(&ours).read_line(&mut answer).expect("it answers");
    assert!(answer.contains("spawned"), "{answer}");
    println!("{token} {}", holder.expect("it runs").id());
    // Until this host is killed.
    let _ = supervisor.wait();
}

fn mint() -> String {
    native().entropy().iter().map(|byte| format!("{byte:02x}")).collect()
}

// The stories.

fn stories() {
    let stories: [(&str, fn()); 7] = [
        ("an embedder is its own supervisor", an_embedder_is_its_own_supervisor),
        ("an embedder that forgot is told so", an_embedder_that_forgot_is_told_so),
        ("a dead host's agent is ended by its supervisor", a_dead_hosts_agent_is_ended),
        (
            "a supervisor whose host is gone starts nothing",
            a_supervisor_without_host_starts_nothing,
        ),
        ("a host that lent its socket is dead", a_host_that_lent_its_socket_is_dead_all_the_same),
        ("a supervisor starts nothing for a stranger", a_supervisor_starts_nothing_for_a_stranger),
        ("a supervisor run by hand says what it is", a_supervisor_run_by_hand_says_what_it_is),
    ];
    for (name, story) in stories {
        story();
        println!("story {name} ... ok");
    }
}

fn embedder(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(ROLE, role).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn an_embedder_is_its_own_supervisor() {
    let output = embedder("remembers").output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"hello\n");
}

fn an_embedder_that_forgot_is_told_so() {
    let output = embedder("forgets").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("found out: ") && said.contains("run_if_asked()"), "{said}");
    assert!(said.contains("native_embedder"), "the program is named as a person knows it: {said}");
}

fn a_dead_hosts_agent_is_ended() {
    let (mut host, token, supervisor) = doomed("dies");
    on_a_runtime(async {
        until("the agent and its grandchild run", || carriers(&token).len() >= 2).await;
        host.kill().expect("it is killed");
        host.wait().expect("it is reaped");
        until("nobody carries the token", || carriers(&token).is_empty()).await;
        // Whoever reaps it now, it has ended.
        until("its supervisor has ended", || stat(supervisor, 3).is_none_or(|state| state == "Z"))
            .await;
    });
}

fn a_host_that_lent_its_socket_is_dead_all_the_same() {
    let (mut host, token, holder) = doomed("lends");
    on_a_runtime(async {
        until("the holder and the agent run", || carriers(&token).len() == 2).await;
        host.kill().expect("it is killed");
        host.wait().expect("it is reaped");
        until("only the holder is left", || carriers(&token) == [holder]).await;
    });
    signal(holder, rustix::process::Signal::KILL);
}

/// An embedder that is to be killed, with the token of its agent and the number it tells.
fn doomed(role: &str) -> (Child, String, u32) {
    let mut host = embedder(role).spawn().expect("it runs");
    let mut said = String::new();
    BufReader::new(host.stdout.take().expect("piped")).read_line(&mut said).expect("it speaks");
    let (token, pid) = said.trim().split_once(' ').expect("a token and a number");
    (host, token.to_owned(), pid.parse().expect("a process number"))
}

fn a_supervisor_without_host_starts_nothing() {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    drop(ours);
    assert_eq!(supervisor(theirs).wait().expect("it ends").code(), Some(1));
}

fn a_supervisor_starts_nothing_for_a_stranger() {
    let token = mint();
    // Ours is read to the end: what it lacks is named.
    let (said, code) = ask_to_start(std::process::id(), &token);
    assert!(said.contains("refused") && said.contains("pipes"), "{said}");
    assert_eq!(code, Some(0));
    let (said, code) = ask_to_start(1, &token);
    assert_eq!((said.as_str(), code), ("", Some(1)));
    assert!(carriers(&token).is_empty());
}

fn ask_to_start(host_pid: u32, token: &str) -> (String, Option<i32>) {
    let (mut ours, theirs) = UnixStream::pair().expect("a socket pair");
    let mut supervisor = supervisor(theirs);
    ours.write_all(&request(host_pid, token)).expect("written");
    let mut said = String::new();
    ours.read_to_string(&mut said).expect("read to its end");
    (said, supervisor.wait().expect("it ends").code())
}

fn request(host_pid: u32, token: &str) -> Vec<u8> {
    let request = serde_json::json!({ "spawn": {
        "protocol": 1,
        "host_pid": host_pid,
        "spec": {
            "argv": ["/bin/sleep", "1000"],
            "cwd": "/",
            "set_env": [],
            "drop_env": [],
            "token": token,
            "ladder": LadderPolicy::stock(Profile::Posix),
        },
    }});
    format!("{request}\n").into_bytes()
}

fn a_supervisor_run_by_hand_says_what_it_is() {
    let output = Command::new(supervisor_program()).stdin(Stdio::null()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("started by a host"));
}

fn supervisor(control: UnixStream) -> Child {
    let mut command = Command::new(supervisor_program());
    command.stdin(OwnedFd::from(control)).spawn().expect("it runs")
}

fn on_a_runtime(what: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(what);
}
