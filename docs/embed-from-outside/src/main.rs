//! A stranger's program: it hosts an agent on this machine, and is itself the agent when it is started with `agent`.
//!
//! `cargo run -- "hello"` prints what the agent said and how it ended.

use std::process::ExitCode;

use embed_from_outside::{Failure, converse};
use moored::driver::{Host, HostConfig, NativeHost};
use moored::platform::native::SupervisorProgram;

fn main() -> ExitCode {
    // First: this program is run again as the supervisor of its agents.
    moored::supervisor::run_if_asked();
    if std::env::args().nth(1).as_deref() == Some("agent") {
        return moored_fake_agents::main_with_args(std::env::args_os().skip(2));
    }
    match host() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn host() -> Result<(), Failure> {
    let text = std::env::args().nth(1).unwrap_or_else(|| "hello".to_owned());
    let agent = std::env::current_exe()?.display().to_string();
    let command = [agent.as_str(), "agent", "--persona", "echo"].map(str::to_owned).to_vec();
    let state_dir = std::env::temp_dir().join(format!("embed-from-outside-{}", std::process::id()));
    let workspace = std::env::current_dir()?.display().to_string();
    let native = NativeHost {
        state_dir: state_dir.clone(),
        supervisor: SupervisorProgram::ThisExecutable,
        config: HostConfig::default(),
    };
    let turn = async {
        let host = Host::open(native).await?;
        let (said, ended) = converse(&host, command, &workspace, &text).await?;
        host.shutdown().await?;
        println!("{said}\n{ended:?}");
        Ok(())
    };
    let result = tokio::runtime::Builder::new_current_thread().build()?.block_on(turn);
    std::fs::remove_dir_all(state_dir).ok();
    result
}
