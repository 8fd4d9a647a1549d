//! Playing a document with real processes and real pipes.
#![expect(
    clippy::disallowed_methods,
    reason = "the native player writes the agent's script to a real file and runs on a real clock"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use moored::platform::native::{Native, SupervisorProgram};
use moored::session::ladder::Profile;
use moored::store::SharedStore;
use moored::store::sqlite::SqliteStore;

mod processes;

use crate::document::{AgentSource, Document};
use crate::expect;
use crate::faults::{Faults, RefusingStore};
use crate::stage::{PlayError, Played, SavedFiles, Stage, play};

/// How a document is played natively.
#[derive(Clone, Debug)]
pub struct NativeRun {
    /// Program and arguments that run `--script FILE`, or whatever stands behind it, as a scripted agent.
    pub agent_program: Vec<String>,
    /// What is run as the supervisor.
    pub supervisor: SupervisorProgram,
    /// A folder for store, home and workspace; a fresh one that is removed afterwards if none is given.
    pub state_dir: Option<PathBuf>,
}

/// Plays `document` with real processes.
pub fn play_native(document: &Document, run: &NativeRun) -> Result<Played, PlayError> {
    if document.profile == Profile::Win32 && !document.win32_natively {
        return Err(PlayError::Unplayable(format!(
            "{} plays the windows of win32, which this system lacks; set \"win32_natively\" to play them with its own \
             processes",
            document.name
        )));
    }
    if document.simulation_only {
        return Err(PlayError::Unplayable(format!(
            "{} is played in simulation only (\"simulation_only\")",
            document.name
        )));
    }
    let fresh = match &run.state_dir {
        Some(_) => None,
        None => Some(tempfile::tempdir().map_err(setup)?),
    };
    let root = run.state_dir.clone().or_else(|| fresh.as_ref().map(|d| d.path().to_owned()));
    let root = root.unwrap_or_default();
    let folders = Folders::make(&root)?;
    let command = match &document.agent {
        AgentSource::Missing(program) => vec![program.clone()],
        _ => {
            let script = document.script().unwrap_or_default();
            let text = serde_json::to_string_pretty(&script)
                .map_err(|e| PlayError::Setup(e.to_string()))?;
            let file = root.join("script.json");
            std::fs::write(&file, text).map_err(setup)?;
            let arguments = ["--script".to_owned(), file.to_string_lossy().into_owned()];
            run.agent_program.iter().cloned().chain(arguments).collect()
        }
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(setup)?;
    runtime.block_on(async {
        let native = Native::new(run.supervisor.clone())
            .map_err(|error| PlayError::Setup(error.to_string()))?;
        let faults = Arc::new(Faults::default());
        let store: SharedStore = Arc::new(SqliteStore::open(&folders.store)?);
        let store: SharedStore =
            Arc::new(RefusingStore { inner: store, faults: Arc::clone(&faults) });
        let home = folders.home.to_string_lossy().into_owned();
        let mut played = play(Stage {
            document: document.clone(),
            platform: Arc::new(native),
            store,
            command,
            workspace: folders.workspace.to_string_lossy().into_owned(),
            home: home.clone(),
            saved: saved_in(folders.home.join("sessions")),
            faults,
            strike: Box::new(processes::strike),
            tell: Box::new(|_| {}),
        })
        .await?;
        let told = played.unproven > 0;
        let left = processes::end_left(&home, &played.rows, document.expect.left.unwrap_or(0));
        played.failures.extend(expect::left(&document.expect, &left.await).filter(|_| !told));
        Ok(played)
    })
}

/// Reads the agent's session files.
fn saved_in(folder: PathBuf) -> SavedFiles {
    Box::new(move || {
        let entries = std::fs::read_dir(&folder).into_iter().flatten();
        let mut files: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        files.sort();
        files.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect()
    })
}

struct Folders {
    store: PathBuf,
    workspace: PathBuf,
    home: PathBuf,
}

impl Folders {
    fn make(root: &Path) -> Result<Self, PlayError> {
        let folders = Self {
            store: root.join("store"),
            workspace: root.join("workspace"),
            home: root.join("home"),
        };
        for folder in [&folders.workspace, &folders.home] {
            std::fs::create_dir_all(folder).map_err(setup)?;
        }
        Ok(folders)
    }
}

fn setup(error: std::io::Error) -> PlayError {
    PlayError::Setup(error.to_string())
}
