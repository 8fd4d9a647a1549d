//! What the suites share.
#![allow(dead_code, reason = "each suite takes its own part")]
#![expect(clippy::disallowed_methods, reason = "suites read the repository's own files")]

pub mod test_names;
#[cfg(feature = "native")]
pub mod together;

use std::path::{Path, PathBuf};

use moored::platform::native::SupervisorProgram;
use moored_scenarios::{Document, NativeRun, builtin};

/// A document of this repository.
pub fn document(name: &str) -> Document {
    builtin().into_iter().find(|d| d.name == name).expect("the document is in the list")
}

/// The native player's programs.
pub fn native_run() -> NativeRun {
    NativeRun {
        agent_program: vec![env!("CARGO_BIN_EXE_scenario-agent").to_owned()],
        supervisor: SupervisorProgram::Program(env!("CARGO_BIN_EXE_scenario-supervisor").into()),
        state_dir: None,
    }
}

macro_rules! grouped {
    ($($how:ident { $($ident:ident = $name:literal,)* })*) => {
        /// Every document with the group it is listed in.
        pub fn groups() -> Vec<(&'static str, &'static str)> {
            vec![$($(($name, stringify!($how)),)*)*]
        }
    };
}
moored_scenarios::each_document!(grouped);

/// The names of the files in `documents/`, in order.
pub fn documents_folder() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("documents");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("it reads").path())
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Holds a file of the repository to `text`; writes it instead when `variable` is set.
pub fn hold_file(path: &str, text: &str, variable: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os(variable).is_some() {
        std::fs::write(&path, text).expect("the file can be written");
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == text,
        "{} is stale: run the test with {variable}=1 and look at the difference",
        path.display()
    );
}

/// Reads a file of the repository.
pub fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(path).expect("the file is there")
}

/// Whether an environment variable is set.
pub fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}
