//! The tests of this repository by name, as its sources have them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::read;

/// Where tests are looked for, from the root of the repository.
const FOLDERS: [&str; 7] = [
    "cli/tests",
    "fake-agents/tests",
    "runtime/src",
    "runtime/tests",
    "scenarios/tests",
    "sim/src",
    "sim/tests",
];

/// A test function: its file, and its name.
pub type Found = (String, String);

/// Every test function of the repository.
pub fn test_functions() -> BTreeSet<Found> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for folder in FOLDERS {
        let mut files = Vec::new();
        sources(&root.join(folder), &mut files);
        for path in files {
            let text = read(path.to_str().expect("a path of the repository is text"));
            let file =
                path.strip_prefix(&root).expect("it is below").to_string_lossy().into_owned();
            found.extend(functions_of(&text).map(|name| (file.clone(), name.to_owned())));
        }
    }
    found
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    for path in entries.map(|entry| entry.expect("it reads").path()) {
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The names behind `#[test]` and `#[tokio::test]`, with other attributes between or not; in a `proptest!`, too.
pub fn functions_of(source: &str) -> impl Iterator<Item = &str> {
    let mut lines = source.lines().map(str::trim_start);
    std::iter::from_fn(move || {
        lines.find(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))?;
        let line = lines.find(|line| line.contains("fn ") && !line.starts_with("//"))?;
        let name = line.split_once("fn ")?.1;
        name.split(['(', '<']).next()
    })
}
