//! Real agents under real supervisors: how one starts, what it is given, how it ends, and that nobody stays behind.

#![cfg(feature = "native")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "real processes in a real process table"
)]

mod native_support;

use std::path::{Path, PathBuf};
use std::time::Duration;

use moored::platform::native::{Liveness, Native, NativeError, SupervisorProgram, is_alive};
use moored::platform::{
    Exit, ORDERS_MAX, Order, Platform, ProofKind, Report, Signal, SpawnError, Survivor,
};
use native_support::*;
use rustix::process::Signal as Number;
use tokio::time::timeout;

/// After this a channel that takes nothing is full; longer than a supervisor may take to answer, so that a clock that
/// wrongly ran meanwhile would be seen.
const PATIENCE: Duration = Duration::from_millis(1_500);

// Starting.

#[tokio::test]
async fn an_agent_echoes_and_leaves_on_eof_and_everything_is_proven_gone() {
    let story = Story::new();
    let mut agent = story.start(story.spec(&["/bin/cat"])).await;
    assert_eq!(agent.0.identity.proof, ProofKind::Subreaper);
    assert_eq!(agent.0.identity.boot, story.native.boot());
    assert_eq!(is_alive(&agent.0.identity.root), Liveness::Alive);
    agent.write("hello\n").await;
    assert_eq!(agent.line().await, "hello");
    agent.close_stdin();
    assert_eq!(agent.rest().await, "");
    assert_eq!(rest(&mut agent.0.stderr).await, "");
    agent.exited(Exit::Code(0)).await;
    assert_eq!(is_alive(&agent.0.identity.root), Liveness::Gone);
    assert_eq!(agent.sweeps().await, [""; 0]);
    agent.released().await;
    story.nobody_is_left().await;
}

#[tokio::test]
async fn its_exit_code_and_its_stderr_are_told() {
    let story = Story::new();
    let mut agent = story.sh("echo broken >&2; exit 7").await;
    agent.exited(Exit::Code(7)).await;
    assert_eq!(rest(&mut agent.0.stderr).await, "broken\n");
    agent.released().await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_not_found_by_name_or_by_path() {
    let story = Story::new();
    for program in ["/nowhere/agent", "no-such-agent-on-any-path", ""] {
        let refusal = story.refusal(story.spec(&[program])).await;
        assert_eq!(refusal, SpawnError::NotFound { program: program.to_owned() });
    }
    assert_eq!(
        story.refusal(story.spec(&[])).await,
        SpawnError::NotFound { program: String::new() }
    );
    story.nobody_is_left().await;
}

#[tokio::test]
async fn a_program_that_cannot_be_run_is_not_the_same_as_none() {
    let story = Story::new();
    let folder = tempfile::tempdir().expect("a folder");
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "text").expect("written");
    let script = folder.path().join("script");
    write_program(&script, "#!/nowhere/interpreter\n");
    for program in [plain, script] {
        let program = program.to_str().expect("text");
        let refusal = story.refusal(story.spec(&[program])).await;
        let SpawnError::NotExecutable { program: named, .. } = refusal else {
            panic!("{refusal}");
        };
        assert_eq!(named, program);
    }
}

#[tokio::test]
async fn a_workspace_that_cannot_be_entered_is_named_even_if_the_program_is_missing_too() {
    let story = Story::new();
    for cwd in ["/nowhere/at/all", "/etc/passwd", "relative"] {
        let mut spec = story.spec(&["/nowhere/agent"]);
        spec.cwd = cwd.to_owned();
        let refusal = story.refusal(spec).await;
        assert!(matches!(&refusal, SpawnError::Workspace { cwd: named, .. } if named == cwd));
    }
}

#[tokio::test]
async fn a_start_longer_than_a_control_line_is_refused_by_name() {
    let story = Story::new();
    let long = "x".repeat(8 * 1024 * 1024);
    let refusal = story.refusal(story.spec(&["/bin/echo", &long])).await;
    assert!(matches!(refusal, SpawnError::Supervisor { .. }), "{refusal}");
    // One that fits the line is the operating system's to refuse.
    let refusal = story.refusal(story.spec(&["/bin/echo", &long[..7 * 1024 * 1024]])).await;
    assert!(matches!(refusal, SpawnError::NotExecutable { .. }), "{refusal}");
}

#[tokio::test]
async fn a_start_nobody_waits_for_any_more_leaves_nobody() {
    let story = Story::new();
    let start = story.native.spawn_child(story.spec(&["/bin/sleep", "1000"]));
    drop(timeout(Duration::ZERO, start).await);
    until("it is started, since that had begun", || !story.carriers().is_empty()).await;
    story.nobody_is_left().await;
}

// What it is given.

#[tokio::test]
async fn it_gets_the_environment_as_asked_its_token_and_no_marker() {
    let story = Story::new();
    let mut spec = story.spec(&["/usr/bin/env"]);
    spec.drop_env = vec!["PATH".to_owned(), "REPLACED".to_owned()];
    spec.set_env = [("SET", "1"), ("SET", "2"), ("REPLACED", "new")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    let mut agent = story.start(spec).await;
    let environment = agent.rest().await;
    let has = |line: &str| environment.lines().any(|one| one == line);
    assert!(has("SET=2") && has("REPLACED=new"));
    assert!(has(&format!("MOORED_SPAWN_TOKEN={}", story.token)));
    let package = format!("CARGO_PKG_NAME={}", env!("CARGO_PKG_NAME"));
    assert!(has(&package), "the host's own environment is inherited");
    assert!(!environment.contains("\nPATH=") && !environment.starts_with("PATH="));
    assert!(!environment.contains("MOORED_SUPERVISOR"));
    agent.exited(Exit::Code(0)).await;
    agent.released().await;
}

#[tokio::test]
async fn it_runs_in_its_workspace_and_leads_a_group_of_its_own() {
    let story = Story::new();
    let folder = tempfile::tempdir().expect("a folder");
    let cwd = std::fs::canonicalize(folder.path()).expect("it is there");
    let mut spec = story.spec(&["/bin/sh", "-c", "pwd -P; read _"]);
    spec.cwd = cwd.to_str().expect("text").to_owned();
    let mut agent = story.start(spec).await;
    assert_eq!(agent.line().await, cwd.to_str().expect("text"));
    assert_eq!(stat(agent.pid(), 5), Some(agent.pid().to_string()), "group");
    assert_eq!(stat(agent.supervisor(), 6), Some(agent.supervisor().to_string()), "session");
    let supervisor = PathBuf::from(format!("/proc/{}/cwd", agent.supervisor()));
    let stands_in = std::fs::read_link(supervisor).expect("its folder");
    assert_eq!(stands_in, PathBuf::from("/"), "the supervisor keeps no folder busy");
    agent.close_stdin();
    agent.exited(Exit::Code(1)).await;
    agent.released().await;
}

#[tokio::test]
async fn no_file_but_its_three_pipes_reaches_an_agent_and_its_supervisor_keeps_none_of_them() {
    let story = Story::new();
    // What the test itself was started with and cannot close: a plain child has it too.
    let plain = std::process::Command::new("/bin/ls").arg("/proc/self/fd").output();
    let plain = String::from_utf8(plain.expect("it runs").stdout).expect("text");
    let mut first = story.start(story.spec(&["/bin/cat"])).await;
    let mut second = story.start(story.spec(&["/bin/ls", "/proc/self/fd"])).await;
    assert_eq!(second.rest().await, plain);
    second.exited(Exit::Code(0)).await;
    let pipes: Vec<_> = (0..3).map(|fd| link(first.pid(), fd)).collect();
    let kept = files(first.supervisor());
    assert!(!kept.is_empty() && kept.iter().all(|file| !pipes.contains(file)), "{kept:?}");
    first.close_stdin();
    first.exited(Exit::Code(0)).await;
    first.released().await;
    second.released().await;
}

fn link(pid: u32, fd: u32) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).expect("an open file")
}

fn files(pid: u32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its files");
    entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect()
}

#[tokio::test]
async fn nothing_of_a_start_stands_in_the_supervisors_arguments_or_environment() {
    let story = Story::new();
    let mut spec = story.spec(&["/bin/cat", "-"]);
    spec.set_env = vec![("A_SECRET".to_owned(), "s3cret".to_owned())];
    let mut agent = story.start(spec).await;
    for file in ["cmdline", "environ"] {
        let path = format!("/proc/{}/{file}", agent.supervisor());
        let text = String::from_utf8_lossy(&std::fs::read(path).expect("readable")).into_owned();
        assert!(!text.contains("s3cret") && !text.contains(&story.token), "{file}");
    }
    agent.close_stdin();
    agent.exited(Exit::Code(0)).await;
    agent.released().await;
}

// Ending it.

#[tokio::test]
async fn a_signal_reaches_the_whole_group() {
    let story = Story::new();
    for (signal, number) in [(Signal::Term, 15), (Signal::Kill, 9)] {
        let mut agent = story.sh("sleep 1000 & sleep 1000 & echo up; wait").await;
        assert_eq!(agent.line().await, "up");
        agent.signals(signal).await;
        agent.exited(Exit::Signal(number)).await;
        assert_eq!(agent.rest().await, "", "nobody holds its stdout any more");
        agent.sweeps().await;
        agent.released().await;
    }
    story.nobody_is_left().await;
}

#[tokio::test]
async fn a_stopped_agent_keeps_sigterm_pending_and_is_killed_all_the_same() {
    let story = Story::new();
    let mut agent = story.start(story.spec(&["/bin/sleep", "1000"])).await;
    signal(agent.pid(), Number::STOP);
    until("it is stopped", || stat(agent.pid(), 3).as_deref() == Some("T")).await;
    agent.signals(Signal::Term).await;
    assert_eq!(stat(agent.pid(), 3).as_deref(), Some("T"));
    agent.signals(Signal::Kill).await;
    agent.exited(Exit::Signal(9)).await;
    agent.sweeps().await;
    agent.released().await;
}

#[tokio::test]
async fn a_reaped_agent_is_never_signalled_and_the_order_is_answered() {
    let story = Story::new();
    let mut agent = story.start(story.spec(&["/bin/true"])).await;
    agent.exited(Exit::Code(0)).await;
    agent.order(Order::Signal { signal: Signal::Kill }).await;
    let told = Report::Signalled { signal: Signal::Kill, delivered: false };
    assert_eq!(agent.report().await, told);
    agent.released().await;
}

#[tokio::test]
async fn orders_wait_while_nobody_reads_the_reports_and_every_one_is_answered() {
    let story = Story::new();
    let mut agent = story.start(story.spec(&["/bin/cat"])).await;
    // Nothing is left behind by an agent that lives, so this one is answered at once.
    let order = Order::Sweep { leave: true };
    let mut given = 0;
    while let Ok(sent) = timeout(PATIENCE, agent.0.orders.send(order)).await {
        sent.expect("the client takes orders");
        given += 1;
    }
    assert!(given >= ORDERS_MAX, "{given} were given before one had to wait");
    for _ in 0..given {
        assert_eq!(agent.report().await, Report::Swept { empty: false, survivors: vec![] });
    }
    agent.close_stdin();
    agent.exited(Exit::Code(0)).await;
    agent.released().await;
}

// What it leaves behind.

#[tokio::test]
async fn a_grandchild_in_a_session_of_its_own_outlives_the_agent_and_is_swept_and_named() {
    let story = Story::new();
    let mut agent = story.sh("setsid sleep 1000 </dev/null >/dev/null 2>&1 & exit 0").await;
    agent.exited(Exit::Code(0)).await;
    until("it became itself", || only_sleeps(&story)).await;
    assert_eq!(agent.sweeps().await, ["sleep"]);
    assert!(story.carriers().is_empty(), "an empty sweep is proof");
    agent.released().await;
}

/// One look, since whoever is just becoming another program has no environment for a moment.
fn only_sleeps(story: &Story) -> bool {
    matches!(story.carriers()[..], [one] if name_of(one) == "sleep")
}

fn name_of(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

#[tokio::test]
async fn a_daemon_that_forked_twice_and_holds_stdout_is_found_and_ended() {
    let story = Story::new();
    let mut agent =
        story.sh("(setsid /bin/sh -c 'setsid sleep 1000 & exit 0' &); echo up; exit 3").await;
    assert_eq!(agent.line().await, "up");
    agent.exited(Exit::Code(3)).await;
    until("only the daemon is left", || only_sleeps(&story)).await;
    assert_eq!(agent.sweeps().await, ["sleep"]);
    assert_eq!(agent.rest().await, "", "with the daemon goes the last holder of stdout");
    agent.released().await;
}

#[tokio::test]
async fn a_survivor_that_ignores_sigterm_and_one_that_is_stopped_are_killed() {
    let story = Story::new();
    let mut agent = story
        .sh("setsid /bin/sh -c 'trap \"\" TERM; echo up; while :; do sleep 1000; done' & \
             setsid sleep 2000 & echo $!; wait")
        .await;
    let mut lines = [agent.line().await, agent.line().await];
    lines.sort();
    let sleeper: u32 = lines[0].parse().expect("a process number");
    until("it became itself", || name_of(sleeper) == "sleep").await;
    signal(sleeper, Number::STOP);
    agent.signals(Signal::Kill).await;
    agent.exited(Exit::Signal(9)).await;
    let mut ended = agent.sweeps().await;
    ended.sort();
    ended.dedup();
    assert_eq!(ended, ["sh", "sleep"]);
    assert!(story.carriers().is_empty());
    agent.released().await;
}

#[tokio::test]
async fn what_is_left_on_purpose_lives_on_and_is_named() {
    let story = Story::keeping_background();
    let mut agent = story.sh("setsid sleep 1000 </dev/null >/dev/null 2>&1 & exit 0").await;
    agent.exited(Exit::Code(0)).await;
    until("it became itself", || only_sleeps(&story)).await;
    agent.order(Order::Sweep { leave: true }).await;
    let left = story.carriers()[0];
    let survivors = vec![Survivor { pid: left, name: "sleep".to_owned() }];
    assert_eq!(agent.report().await, Report::Swept { empty: false, survivors });
    agent.released().await;
    assert_eq!(story.carriers(), [left]);
    signal(left, Number::KILL);
    story.nobody_is_left().await;
}

#[tokio::test]
async fn orphans_that_end_while_the_agent_works_are_reaped_at_once() {
    let story = Story::new();
    let mut agent = story.sh("(setsid true &); (setsid true &); echo up; exec cat").await;
    assert_eq!(agent.line().await, "up");
    let supervisor = agent.supervisor();
    until("the agent is its only child", || children_of(supervisor) == [agent.pid()]).await;
    agent.close_stdin();
    agent.exited(Exit::Code(0)).await;
    assert_eq!(agent.sweeps().await, [""; 0], "a zombie is no survivor");
    agent.released().await;
}

// Without its host, without its supervisor.

#[tokio::test]
async fn a_dropped_child_is_closed_by_its_supervisor() {
    let story = Story::new();
    let mut agent = story.sh("setsid sleep 1000 & echo up; exec sleep 2000").await;
    assert_eq!(agent.line().await, "up");
    let supervisor = agent.supervisor();
    drop(agent);
    story.nobody_is_left().await;
    until("the supervisor is gone and reaped", || stat(supervisor, 3).is_none()).await;
}

#[tokio::test]
async fn a_frozen_supervisor_is_ended_with_the_group_and_never_without() {
    let story = Story::new();
    let mut agent = story.sh("setsid sleep 1000 & echo up; exec sleep 2000").await;
    assert_eq!(agent.line().await, "up");
    let supervisor = agent.supervisor();
    signal(supervisor, Number::STOP);
    agent.order(Order::Signal { signal: Signal::Term }).await;
    assert_eq!(agent.report().await, Report::SupervisorLost);
    assert_eq!(soon(agent.0.reports.recv()).await, None, "it is the last report");
    story.nobody_is_left().await;
    until("the supervisor is gone and reaped", || stat(supervisor, 3).is_none()).await;
}

#[tokio::test]
async fn a_supervisor_that_freezes_before_its_release_is_ended_too() {
    let story = Story::new();
    let mut agent = story.start(story.spec(&["/bin/true"])).await;
    agent.exited(Exit::Code(0)).await;
    agent.sweeps().await;
    signal(agent.supervisor(), Number::STOP);
    agent.released().await;
}

#[tokio::test]
async fn a_killed_supervisor_takes_its_agent_along() {
    let story = Story::new();
    let mut agent = story.sh("setsid sleep 1000 & echo up; exec sleep 2000").await;
    assert_eq!(agent.line().await, "up");
    let supervisor = agent.supervisor();
    signal(supervisor, Number::KILL);
    assert_eq!(agent.report().await, Report::SupervisorLost);
    story.nobody_is_left().await;
    until("it is reaped", || stat(supervisor, 3).is_none()).await;
}

#[tokio::test]
async fn a_supervisor_asked_to_end_ends_its_agent_first_and_stays_for_its_host() {
    let story = Story::new();
    let mut agent = story.start(story.spec(&["/bin/sleep", "1000"])).await;
    signal(agent.supervisor(), Number::TERM);
    let told = Report::Signalled { signal: Signal::Term, delivered: true };
    assert_eq!(agent.report().await, told);
    agent.exited(Exit::Signal(15)).await;
    assert_eq!(agent.sweeps().await, [""; 0]);
    agent.released().await;
}

// The layer itself.

#[test]
fn a_program_that_is_no_supervisor_is_found_out_before_anything_is_started() {
    let refused = |path: &str| {
        let program = SupervisorProgram::Program(PathBuf::from(path));
        Native::new(program).err().unwrap_or_else(|| panic!("{path} is no supervisor"))
    };
    assert!(matches!(refused("/nowhere/supervisor"), NativeError::Program { .. }));
    assert!(matches!(refused("/etc/passwd"), NativeError::Program { .. }));
    for path in ["/bin/true", "/bin/cat", "/bin/sh"] {
        let error = refused(path);
        assert!(matches!(error, NativeError::NotASupervisor { .. }));
        assert!(error.to_string().contains("run_if_asked"), "{error}");
    }
}

#[test]
fn a_program_that_greets_wrongly_or_not_at_all_is_told_from_a_supervisor() {
    let folder = tempfile::tempdir().expect("a folder");
    let seen = |name: &str, script: &str| {
        let program = SupervisorProgram::Program(supervisor_script(&folder, name, script));
        match Native::new(program) {
            Err(NativeError::NotASupervisor { seen, .. }) => seen,
            other => panic!("{name}: {other:?}"),
        }
    };
    let other = seen("other", "echo '{\"hello\":{\"protocol\":99}}' >&0");
    assert!(other.contains("99"), "{other}");
    assert!(seen("nonsense", "echo nonsense >&0").contains("no sense"));
    assert!(seen("flood", "head -c 5000 /dev/zero >&0; cat").contains("too long"));
    let silent = seen("silent", "echo $$ >$0.pid; exec sleep 1000");
    assert!(silent.contains("did not answer"), "{silent}");
    assert_eq!(stat(pid_of(&folder, "silent"), 3), None, "it was ended and reaped");
}

#[tokio::test]
async fn a_supervisor_that_answers_a_start_with_something_else_is_ended() {
    let story = Story::new();
    let folder = tempfile::tempdir().expect("a folder");
    let script = "read line; case $line in *hello*) echo '{\"hello\":{\"protocol\":1}}' >&0;; \
                  *) echo $$ >$0.pid; echo '\"taken\"' >&0; exec sleep 1000;; esac";
    let program = supervisor_script(&folder, "impostor", script);
    let native = Native::new(SupervisorProgram::Program(program)).expect("it greets well");
    let refusal = soon(native.spawn_child(story.spec(&["/bin/cat"]))).await.err();
    assert!(matches!(refusal, Some(SpawnError::Supervisor { .. })), "{refusal:?}");
    assert_eq!(stat(pid_of(&folder, "impostor"), 3), None, "it was ended and reaped");
}

fn supervisor_script(folder: &tempfile::TempDir, name: &str, script: &str) -> PathBuf {
    let path = folder.path().join(name);
    write_program(&path, &format!("#!/bin/sh\n{script}\n"));
    path
}

/// Written by a process of its own: a child that another test forks meanwhile would keep our writing end for a moment,
/// and a file that is open for writing cannot be run ("text file busy").
fn write_program(path: &Path, text: &str) {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut writer = Command::new("/bin/sh")
        .args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "write"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    writer.stdin.take().expect("its stdin").write_all(text.as_bytes()).expect("written");
    assert!(writer.wait().expect("it ends").success());
}

fn pid_of(folder: &tempfile::TempDir, name: &str) -> u32 {
    let text = std::fs::read_to_string(folder.path().join(format!("{name}.pid")));
    text.expect("it wrote its number").trim().parse().expect("a number")
}

#[tokio::test]
async fn a_sleep_never_ends_early_and_no_two_draws_of_entropy_are_equal() {
    let native = native();
    let at = native.now().plus_ms(20);
    native.sleep_until(at).await;
    assert!(native.now() >= at);
    assert_ne!(native.entropy(), native.entropy());
    assert!(native.wall_ms() > 1_600_000_000_000);
    let done = moored::platform::spawn(&native, "a task", async { 7 });
    assert_eq!(soon(done).await, Ok(7));
}
