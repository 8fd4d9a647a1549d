//! The conformance suite of processes, in the real arm: real programs under real supervisors. The simulated arm runs in
//! the simulator's own tests; the bodies are the same.
#![cfg(all(feature = "native", target_os = "linux"))]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "real processes in a real process table, in an environment that this test prepares"
)]

mod common;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use moored::ids::SpawnToken;
use moored::platform::native::{Liveness, Native, is_alive};
use moored::platform::{ChildSpec, ProcessIdentity, SPAWN_TOKEN_VARIABLE, SharedPlatform};
use moored::session::ladder::{LadderPolicy, Profile};
use moored_sim::conformance::{Arm, BODIES, MEBIBYTE, Purpose};

use common::native_run;

struct Real {
    platform: SharedPlatform,
    folder: tempfile::TempDir,
    token: String,
}

impl Real {
    fn new(token: String) -> Self {
        let native = Native::new(native_run().supervisor).expect("the supervisor is there");
        let folder = tempfile::tempdir().expect("there is room");
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(MEBIBYTE).collect();
        std::fs::write(folder.path().join("mebibyte"), bytes).expect("there is room");
        Self { platform: Arc::new(native), folder, token }
    }

    fn command(&self, purpose: Purpose) -> Vec<String> {
        let shell = |script: &str| vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()];
        match purpose {
            Purpose::CloseStdinThenSleep => shell("exec <&-; echo closed; exec sleep 1000000"),
            Purpose::ComplainAndExitWith3 => shell("printf 'it hurts' >&2; exit 3"),
            Purpose::EchoUntilEof => vec!["/bin/cat".to_owned()],
            Purpose::ForkTwiceThenExit => shell(
                "setsid /bin/sh -c 'setsid sleep 1000000 & sleep 1000000' </dev/null >/dev/null 2>&1 & exit 0",
            ),
            Purpose::ForkHoldingStdoutThenExit => {
                shell("sleep 1000000 </dev/null 2>/dev/null & exit 0")
            }
            Purpose::ForkIgnoringTermThenExit => {
                shell("trap '' TERM; setsid sleep 1000000 </dev/null >/dev/null 2>&1 & exit 0")
            }
            // What is ignored stays so across exec.
            Purpose::IgnoreTerm => shell("trap '' TERM; echo ready; exec sleep 1000000"),
            Purpose::Missing => vec!["moored-no-such-program".to_owned()],
            Purpose::PrintEnvironment => vec!["/usr/bin/env".to_owned()],
            Purpose::SleepForever => shell("exec sleep 1000000"),
            Purpose::StopItself => shell("echo ready; kill -STOP $$; exec sleep 1000000"),
            Purpose::WriteAMebibyte => {
                vec!["/bin/cat".to_owned(), self.path("mebibyte")]
            }
            Purpose::WriteUntilBroken => {
                shell("trap '' PIPE; while printf '%4096s' x 2>/dev/null; do :; done; exit 7")
            }
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    /// Processes that carry this arm's token, by number. One that vanishes meanwhile is not there.
    fn left(&self) -> Vec<String> {
        let wanted = format!("{SPAWN_TOKEN_VARIABLE}={}", self.token);
        let table = std::fs::read_dir("/proc").expect("linux has a process table");
        let carries = |path: &Path| {
            let environment = std::fs::read(path.join("environ")).unwrap_or_default();
            environment.split(|b| *b == 0).any(|v| v == wanted.as_bytes())
        };
        let numbers = table.filter_map(|entry| Some(entry.ok()?.path()));
        let carriers = numbers.filter(|path| {
            path.file_name().is_some_and(|n| n.as_bytes().iter().all(u8::is_ascii_digit))
                && carries(path)
        });
        carriers.map(|path| path.to_string_lossy().into_owned()).collect()
    }
}

impl Arm for Real {
    fn platform(&self) -> SharedPlatform {
        Arc::clone(&self.platform)
    }

    fn spec(&self, purpose: Purpose) -> ChildSpec {
        ChildSpec {
            argv: self.command(purpose),
            cwd: self.folder.path().to_string_lossy().into_owned(),
            set_env: Vec::new(),
            drop_env: vec!["DROPPED".to_owned()],
            token: SpawnToken(self.token.clone()),
            ladder: LadderPolicy::stock(Profile::Posix),
        }
    }

    fn is_alive(&self, identity: &ProcessIdentity) -> bool {
        is_alive(identity) == Liveness::Alive
    }
}

/// Set in the process that runs the suite, in the environment that the suite asks for.
const SUITE_VARIABLE: &str = "KEPT";
const ONE_BODY_SECONDS_MAX: u64 = 60;

#[test]
fn real_processes_behave_as_the_suite_says() {
    if std::env::var_os(SUITE_VARIABLE).is_some() {
        return run_suite();
    }
    let me = std::env::current_exe().expect("a running test has a path");
    let output = Command::new(me)
        .args(["--exact", "real_processes_behave_as_the_suite_says", "--nocapture"])
        .envs([(SUITE_VARIABLE, "kept"), ("DROPPED", "dropped")])
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{wrong}");
    assert!(told.contains("1 passed"), "the suite ran: {told}");
}

fn run_suite() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        for (index, body) in BODIES.iter().enumerate() {
            let arm = Real::new(format!("conformance-{}-{index}", std::process::id()));
            println!("{}", body.name);
            let patience = Duration::from_secs(ONE_BODY_SECONDS_MAX);
            tokio::time::timeout(patience, (body.run)(&arm)).await.expect(body.name);
            // A released supervisor needs a moment to be gone.
            let gone = async {
                while !arm.left().is_empty() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            let gone = tokio::time::timeout(patience, gone).await;
            assert!(gone.is_ok(), "{} leaves {:?}", body.name, arm.left());
        }
    });
}
