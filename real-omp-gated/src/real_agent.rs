//! Finding a real agent, or installing it, and the sandbox it runs in.
//!
//! An agent is looked for at the path its environment variable names, then in the cache folder, and
//! is downloaded only when `MOORED_REAL_AGENTS=install` asks for it. What cannot be found is
//! [`Skipped`] with a sentence that says what to set.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "finds, installs and prepares real programs: no part of a simulation"
)]

mod install;
mod recipe;
mod sandbox;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use self::recipe::{Approval, Kind};
pub use self::sandbox::Sandbox;

use crate::StubModel;

const CACHE_VARIABLE: &str = "MOORED_AGENT_CACHE";
const WISH_VARIABLE: &str = "MOORED_REAL_AGENTS";

/// Why an agent is not tested.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{kind} is skipped: {reason}")]
pub struct Skipped {
    /// The agent.
    pub kind: Kind,
    /// What is missing, and what would change that.
    pub reason: String,
}

/// An agent that is installed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RealAgent {
    kind: Kind,
    program: PathBuf,
    approval: Approval,
}

impl RealAgent {
    /// Looks for the agent as the environment says, and installs it if the environment asks for
    /// that.
    ///
    /// # Errors
    /// The agent is not there, or could not be installed.
    pub fn find_or_install(kind: Kind) -> Result<Self, Skipped> {
        Search::from_environment(kind).run(kind)
    }

    /// As [`find_or_install`](Self::find_or_install) for a test: prints the one line a skipped test
    /// owes its reader, past the capture of the test harness.
    ///
    /// # Panics
    /// The agent is missing although `MOORED_REAL_AGENTS` asks for it (`install` or `require`): a
    /// suite that was asked for must not pass by skipping.
    #[must_use]
    pub fn or_skip(kind: Kind) -> Option<Self> {
        match Self::find_or_install(kind) {
            Ok(agent) => Some(agent),
            Err(skipped) if Wish::from_environment() == Wish::UseIfPresent => {
                // In one write: tests that run beside each other must not break each other's line.
                // Nothing to be done for a reader whose stderr is closed.
                io::stderr().write_all(format!("{skipped}\n").as_bytes()).ok();
                None
            }
            Err(skipped) => panic!("{WISH_VARIABLE} asks for real agents, but {skipped}"),
        }
    }

    /// As [`or_skip`](Self::or_skip), for a suite that takes minutes: it is skipped as well where the agent is there and
    /// nobody has asked for it by `MOORED_REAL_AGENTS`.
    #[must_use]
    pub fn where_asked_for(kind: Kind) -> Option<Self> {
        if Wish::from_environment() == Wish::UseIfPresent {
            let line = format!("skipped: {WISH_VARIABLE} does not ask for the long suites\n");
            io::stderr().write_all(line.as_bytes()).ok();
            return None;
        }
        Self::or_skip(kind)
    }

    /// The same agent, asking before it uses a tool or not.
    #[must_use]
    pub fn with_approval(self, approval: Approval) -> Self {
        Self { approval, ..self }
    }

    /// Which agent it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Prepares a sandbox below `root`: home, workspace and configuration, with this stub as the
    /// only model.
    ///
    /// # Errors
    /// A folder or file cannot be made.
    pub fn sandbox(&self, model: &StubModel, root: &Path) -> io::Result<Sandbox> {
        Sandbox::create(self, model, root)
    }
}

/// What `MOORED_REAL_AGENTS` asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wish {
    /// Install what is missing, and fail if that fails.
    Install,
    /// Fail if an agent is missing.
    Require,
    /// Skip what is missing.
    UseIfPresent,
}

impl Wish {
    fn from_environment() -> Self {
        match env::var_os(WISH_VARIABLE) {
            Some(wish) if wish == "install" => Self::Install,
            Some(wish) if wish == "require" => Self::Require,
            _ => Self::UseIfPresent,
        }
    }
}

/// Where to look.
#[derive(Clone, Debug)]
struct Search {
    /// The path the agent's own variable names.
    program: Option<OsString>,
    cache: PathBuf,
    wish: Wish,
}

impl Search {
    fn from_environment(kind: Kind) -> Self {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
        let cache = env::var_os(CACHE_VARIABLE).map(PathBuf::from);
        Self {
            program: env::var_os(kind.variable()),
            cache: cache.unwrap_or_else(|| workspace.join("target/real-agents")),
            wish: Wish::from_environment(),
        }
    }

    fn run(&self, kind: Kind) -> Result<RealAgent, Skipped> {
        let skipped = |reason: String| Skipped { kind, reason };
        let found = |program: PathBuf| RealAgent { kind, program, approval: Approval::default() };
        if let Some(named) = &self.program {
            let program = PathBuf::from(named);
            // A path that was named and is wrong is not replaced by another agent.
            let reason =
                format!("{} names {}, which is no file", kind.variable(), program.display());
            return if program.is_file() { Ok(found(program)) } else { Err(skipped(reason)) };
        }
        let folder = self.cache.join(kind.folder());
        let program = folder.join(kind.program());
        if !program.is_file() {
            if self.wish != Wish::Install {
                return Err(skipped(format!(
                    "not found in {}; set {} to its path, or {WISH_VARIABLE}=install",
                    folder.display(),
                    kind.variable()
                )));
            }
            install::install(kind, &folder).map_err(|error| skipped(error.to_string()))?;
        }
        // Absolute: the agent is started in another folder than ours.
        program
            .canonicalize()
            .map(|_| found(absolute(&program)))
            .map_err(|error| skipped(error.to_string()))
    }
}

/// Absolute without resolving links: `node_modules/.bin/omp` is a link, and the folder it lies in
/// must be on `PATH`.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn search(cache: &Path) -> Search {
        Search { program: None, cache: cache.to_owned(), wish: Wish::UseIfPresent }
    }

    #[test]
    fn a_missing_agent_is_skipped_with_what_to_do() {
        let cache = tempfile::tempdir().unwrap();
        let sentence = search(cache.path()).run(Kind::Omp).unwrap_err().to_string();
        assert!(sentence.starts_with("omp is skipped: not found in "), "{sentence}");
        assert!(
            sentence.ends_with("; set MOORED_OMP to its path, or MOORED_REAL_AGENTS=install"),
            "{sentence}"
        );
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0, "a search must not write");
    }

    #[test]
    fn the_cache_is_used_without_asking() {
        let cache = tempfile::tempdir().unwrap();
        let program = cache.path().join(Kind::Omp.folder()).join(Kind::Omp.program());
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "").unwrap();
        assert_eq!(search(cache.path()).run(Kind::Omp).unwrap().program, program);
    }

    #[test]
    fn a_path_that_is_named_and_wrong_is_not_replaced_by_the_cache() {
        let cache = tempfile::tempdir().unwrap();
        let program = cache.path().join(Kind::CodexAcp.folder()).join(Kind::CodexAcp.program());
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "").unwrap();
        let mut search = search(cache.path());
        search.program = Some(cache.path().join("absent").into());
        let sentence = search.run(Kind::CodexAcp).unwrap_err().to_string();
        assert!(sentence.contains("MOORED_CODEX_ACP names"), "{sentence}");
        search.program = Some(program.clone().into());
        assert_eq!(search.run(Kind::CodexAcp).unwrap().program, program);
    }
}
