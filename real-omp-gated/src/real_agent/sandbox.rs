//! A home, a workspace and a configuration made for one agent, with the stub as the only model it
//! knows.
//!
//! ```text
//! ROOT/home/        HOME, with the agent's configuration and its sessions
//! ROOT/workspace/   the folder the session works in; it has no dotenv file
//! ROOT/tmp/         TMPDIR
//! ```

use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::RealAgent;
use crate::StubModel;

/// Session files looked at, and folders on the way to them: a sandbox holds few of either.
const ENTRIES_MAX: usize = 10_000;

/// Where and how to start an agent so that it meets nothing of the user's.
#[derive(Clone)]
pub struct Sandbox {
    /// The command line.
    pub argv: Vec<String>,
    /// The whole environment: start the agent with no other variable.
    pub env: Vec<(String, String)>,
    /// Its home.
    pub home: PathBuf,
    /// The folder for `session/new`. Agents compare this string when a session is reopened, so it
    /// is canonical.
    pub workspace: PathBuf,
    sessions: PathBuf,
}

impl fmt::Debug for Sandbox {
    /// Names of the environment variables only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        let mut sandbox = f.debug_struct("Sandbox");
        sandbox.field("argv", &self.argv).field("env", &names).field("home", &self.home);
        sandbox.field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

impl Sandbox {
    pub(super) fn create(agent: &RealAgent, model: &StubModel, root: &Path) -> io::Result<Self> {
        let folder = |name: &str| {
            let path = root.join(name);
            fs::create_dir_all(&path)?;
            path.canonicalize()
        };
        let (home, workspace, temporary) = (folder("home")?, folder("workspace")?, folder("tmp")?);
        for (file, text) in agent.kind.configuration(model.port, agent.approval) {
            let file = home.join(file);
            fs::create_dir_all(file.parent().unwrap_or(&home))?;
            fs::write(file, text)?;
        }
        let mut environment = common_environment(&home, &temporary, &agent.program, model.port);
        environment.extend(agent.kind.environment(&home, model.port));
        let own = |(name, value): (&str, String)| (name.to_owned(), value);
        Ok(Self {
            argv: agent.kind.argv(&agent.program.display().to_string(), agent.approval),
            env: environment.into_iter().map(own).collect(),
            sessions: home.join(agent.kind.sessions()),
            home,
            workspace,
        })
    }

    /// The session files the agent has written, in the order of their paths.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn session_files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let mut folders = vec![self.sessions.clone()];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries.take(ENTRIES_MAX) {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if is_session(&path) {
                    files.push(path);
                }
            }
        }
        files.sort();
        Ok(files)
    }
}

/// What every program needs, and a proxy that lets nothing out.
fn common_environment(
    home: &Path,
    temporary: &Path,
    program: &Path,
    port: u16,
) -> Vec<(&'static str, String)> {
    let system = env::var_os("PATH").unwrap_or_default();
    // Its own folder first: a script finds the interpreter that was installed with it.
    let own = program.parent().map(Path::to_path_buf).into_iter();
    let path = env::join_paths(own.chain(env::split_paths(&system))).unwrap_or(system);
    let proxy = format!("http://127.0.0.1:{port}");
    let local = "127.0.0.1,localhost".to_owned();
    vec![
        ("HOME", home.display().to_string()),
        ("LANG", "C.UTF-8".to_owned()),
        ("PATH", path.to_string_lossy().into_owned()),
        ("TMPDIR", temporary.display().to_string()),
        // The stub refuses to be a proxy, and its log shows who tried.
        ("HTTP_PROXY", proxy.clone()),
        ("HTTPS_PROXY", proxy.clone()),
        ("NO_PROXY", local.clone()),
        ("http_proxy", proxy.clone()),
        ("https_proxy", proxy),
        ("no_proxy", local),
    ]
}

/// Session files are JSON Lines, or one JSON value with older agents; a hidden file is a lock.
fn is_session(path: &Path) -> bool {
    let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let json =
        path.extension().is_some_and(|extension| extension == "jsonl" || extension == "json");
    json && !hidden
}
