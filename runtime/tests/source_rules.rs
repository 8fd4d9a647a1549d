//! The rules of the house that a text can be held to, over every source file of the repository, and a probe that the
//! determinism lists of `clippy.toml` bite.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "reads the repository's files and runs clippy"
)]

#[path = "source_support/code.rs"]
mod code;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use code::{attributes, without_words};

/// Longest source file.
const LINES_MAX: usize = 800;

/// Who may expect a lint of the determinism lists, and why: whatever meets the real machine, and nothing else. A path
/// that ends with `/` is a folder.
const REAL_MACHINE: &[(&str, &str)] = &[
    ("runtime/src/platform/native/", "implements the platform layer on the operating system"),
    ("runtime/src/store/sqlite/", "the real store has files and a thread"),
    ("runtime/src/supervisor/process.rs", "the supervisor as a real process"),
    ("runtime/src/supervisor/reaper.rs", "the supervisor as a real process"),
    ("fake-agents/src/native.rs", "a script as a real process"),
    ("fake-agents/src/native/", "a script as a real process"),
    ("scenarios/src/native.rs", "plays a scenario with real processes"),
    ("scenarios/src/native/", "plays a scenario with real processes"),
    ("real-omp-gated/src/", "installs and runs real agents"),
    ("sim/src/embed/test.rs", "a test's harness reads the environment and keeps failures"),
    ("cli/src/", "the command: it reads arguments, files and the environment for the library"),
];

/// The core: no clock, no input or output, no tasks, no randomness, no hash maps.
const PURE: &[&str] = &[
    "runtime/src/agent/",
    "runtime/src/coverage.rs",
    "runtime/src/digest.rs",
    "runtime/src/failure.rs",
    "runtime/src/goal_loop/",
    "runtime/src/host/",
    "runtime/src/ids.rs",
    "runtime/src/journal/",
    "runtime/src/limits.rs",
    "runtime/src/planted.rs",
    "runtime/src/session/",
    "runtime/src/status/",
    "runtime/src/store/check.rs",
    "runtime/src/store/group.rs",
    "runtime/src/supervisor/core.rs",
    "runtime/src/wire/",
];

/// What the core does not name.
const IMPURE: &[&str] = &[
    "HashMap",
    "HashSet",
    "async fn",
    "rusqlite",
    "rustix",
    "std::env",
    "std::fs",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time",
    "tokio",
];

/// What is not finished, or was left behind.
const UNFINISHED: &[&str] = &["dbg!", "todo!", "unimplemented!"];

/// What is wrong with a source file, sentence by sentence.
fn faults(path: &str, source: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let code = without_words(source);
    let lines = source.lines().count();
    if lines > LINES_MAX {
        faults.push(format!("has {lines} lines; {LINES_MAX} is the most"));
    }
    if let Some(line) = source.lines().position(|line| !line.is_ascii()) {
        faults.push(format!("line {} is not ASCII", line + 1));
    }
    for word in UNFINISHED.iter().filter(|word| code.contains(**word)) {
        faults.push(format!("has a {word}"));
    }
    if is_within(path, PURE.iter().copied()) {
        for word in IMPURE.iter().filter(|word| code.contains(**word)) {
            faults.push(format!("is of the pure core and names {word}"));
        }
    }
    faults.extend(select_faults(&code));
    faults.extend(attribute_faults(path, &code));
    faults
}

/// An unbiased select draws its first branch from a generator that no seed controls.
fn select_faults(code: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for rest in code.split("tokio::select!").skip(1) {
        let body = rest.trim_start().trim_start_matches(['{', '(', '[']).trim_start();
        if !body.starts_with("biased;") {
            faults.push("has a tokio::select! without biased".to_owned());
        }
    }
    if code.contains("use tokio::select") {
        faults.push("imports tokio::select; name it in full".to_owned());
    }
    faults
}

fn attribute_faults(path: &str, code: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut told = 0;
    for attribute in attributes(code) {
        if attribute == "ignore" {
            faults.push("ignores a test without saying why".to_owned());
        }
        let lints = attribute.matches("clippy::disallowed_").count();
        told += lints;
        if lints == 0 {
            continue;
        }
        if !attribute.starts_with("expect(") {
            faults.push(format!("silences a determinism list: #[{attribute}]"));
        } else if !attribute.contains("reason = ") {
            faults.push(format!("expects a determinism lint without a reason: #[{attribute}]"));
        }
        if !meets_the_real_machine(path) {
            faults.push(format!("is not on the list of who may #[{attribute}]"));
        }
    }
    if code.matches("clippy::disallowed_").count() != told {
        faults.push("names a determinism lint outside an attribute".to_owned());
    }
    faults
}

fn meets_the_real_machine(path: &str) -> bool {
    // Tests, examples and programs meet the real machine where they say so.
    let own = ["/tests/", "/benches/", "/examples/", "/src/bin/"];
    let library_test = path.contains("/src/") && path.contains("/tests/");
    (own.iter().any(|folder| path.contains(folder)) && !library_test)
        || is_within(path, REAL_MACHINE.iter().map(|(path, _)| *path))
}

fn is_within<'a>(path: &str, places: impl IntoIterator<Item = &'a str>) -> bool {
    places.into_iter().any(|place| match place.ends_with('/') {
        true => path.starts_with(place),
        false => path == place,
    })
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every source file, by its path in the repository. The probe breaks rules on purpose.
fn sources() -> Vec<(String, String)> {
    let root = repository();
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root.join(&folder)).expect("a folder can be listed");
        for entry in entries {
            let entry = entry.expect("a folder can be listed");
            let name = entry.file_name().into_string().expect("names are text");
            let path = folder.join(&name);
            let kind = entry.file_type().expect("a file has a type");
            if kind.is_dir()
                && !name.starts_with('.')
                && !["target", "lint_probe"].contains(&name.as_str())
            {
                folders.push(path);
            } else if kind.is_file() && name.ends_with(".rs") {
                let text = std::fs::read_to_string(root.join(&path)).expect("source is UTF-8");
                found.push((path.to_str().expect("names are text").to_owned(), text));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_source_file_keeps_the_rules() {
    let sources = sources();
    assert!(sources.len() > 100, "the walk finds the repository, and found {}", sources.len());
    for place in ["runtime/src/wire/", "sim/src/", "cli/src/", "fake-agents/tests/"] {
        assert!(sources.iter().any(|(path, _)| path.starts_with(place)), "{place}");
    }
    let told: Vec<String> = sources
        .iter()
        .flat_map(|(path, source)| {
            faults(path, source).into_iter().map(move |f| format!("{path} {f}"))
        })
        .collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn each_rule_finds_what_it_is_for() {
    let pure = "runtime/src/session/x.rs";
    let cases = [
        (pure, "use tokio::sync;", "names tokio"),
        (pure, "std::time::Instant::now()", "names std::time"),
        (pure, "fn f() { std::fs::read(p) }", "names std::fs"),
        ("runtime/src/host/x.rs", "use std::process::Command;", "names std::process"),
        (pure, "let m = HashMap::new();", "names HashMap"),
        ("sim/src/x.rs", "todo!()", "has a todo!"),
        ("sim/src/x.rs", "dbg!(x)", "has a dbg!"),
        ("sim/src/x.rs", "unimplemented!()", "has a unimplemented!"),
        ("sim/src/x.rs", "tokio::select! { a = b => {} }", "without biased"),
        ("sim/src/x.rs", "use tokio::select;", "name it in full"),
        ("sim/src/x.rs", "#[ignore]\nfn f() {}", "without saying why"),
        ("sim/src/x.rs", "// caf\u{e9}", "line 1 is not ASCII"),
        ("sim/src/x.rs", "#[allow(clippy::disallowed_types)]", "silences"),
        ("cli/src/x.rs", "#![cfg_attr(test, allow(clippy::disallowed_types))]", "silences"),
        ("cli/src/x.rs", "#![expect(clippy::disallowed_types)]", "without a reason"),
        ("sim/src/x.rs", "#![expect(clippy::disallowed_types, reason = \"\")]", "not on the list"),
        (
            "runtime/src/driver/tests/x.rs",
            "#[expect(clippy::disallowed_methods, reason = \"\")]",
            "not on the list",
        ),
    ];
    for (path, source, fault) in cases {
        let found = faults(path, source);
        assert!(found.iter().any(|f| f.contains(fault)), "{source}: {found:?}");
    }
    let long = "\n".repeat(LINES_MAX + 1);
    assert_eq!(faults("sim/src/x.rs", &long).len(), 1);
}

#[test]
fn no_rule_finds_what_keeps_it() {
    let fine = [
        ("runtime/src/session/x.rs", "// tokio drives this\nlet words = \"std::fs\";"),
        ("runtime/src/driver/x.rs", "use tokio::sync::mpsc;"),
        ("sim/src/x.rs", "tokio::select! {\n    biased;\n    a = b => {}\n}"),
        ("sim/src/x.rs", "#[ignore = \"needs a second machine\"]\nfn f() {}"),
        ("sim/src/x.rs", "let words = r#\"todo!(\"a\")\"#; let quote = '\"'; // dbg!(x)"),
        (
            "cli/src/x.rs",
            "#![expect(\n    clippy::disallowed_types,\n    reason = \"a \\\" quote\"\n)]",
        ),
        ("sim/tests/x.rs", "#[expect(clippy::disallowed_methods, reason = \"files\")]"),
    ];
    for (path, source) in fine {
        assert_eq!(faults(path, source), [""; 0], "{source}");
    }
    assert_eq!(faults("sim/src/x.rs", &"\n".repeat(LINES_MAX)), [""; 0]);
}

#[test]
fn every_member_takes_the_workspaces_lints() {
    let root = repository();
    let manifest = |path: &str| {
        std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let workspace = manifest("Cargo.toml");
    let members =
        workspace.lines().find_map(|line| line.strip_prefix("members = ")).expect("members");
    let members: Vec<&str> = members.split('"').skip(1).step_by(2).collect();
    assert!(members.contains(&"runtime") && members.len() >= 6, "{members:?}");
    for member in members {
        let manifest = manifest(&format!("{member}/Cargo.toml"));
        assert!(manifest.contains("[lints]\nworkspace = true"), "{member} has lints of its own");
    }
    // What runs in production knows nothing of the simulator.
    let runtime = manifest("runtime/Cargo.toml");
    let needed = runtime.split("[dependencies]").nth(1).expect("it has dependencies");
    let needed = needed.split("\n[").next().unwrap_or_default();
    assert!(needed.contains("tokio") && !needed.contains("madsim"), "{needed}");
    assert!(!needed.contains("moored-"), "{needed}");
}

#[test]
fn every_entry_of_the_determinism_lists_is_found_by_clippy() {
    let cargo = std::env::var_os("CARGO").expect("cargo runs the tests");
    let installed = Command::new(&cargo).args(["clippy", "--version"]).output();
    if !installed.is_ok_and(|answer| answer.status.success()) {
        // Past the capture of the test harness.
        let _ = writeln!(std::io::stderr(), "clippy is not installed; its lists are not probed");
        return;
    }
    let root = repository();
    let probe = Command::new(&cargo)
        .args(["clippy", "--locked", "--quiet"])
        .current_dir(root.join("runtime/tests/lint_probe"))
        .env("CLIPPY_CONF_DIR", &root)
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("lint-probe"))
        .env("CARGO_TERM_COLOR", "never")
        // What the tests were built with is not what the probe is built with.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_MAKEFLAGS")
        .output()
        .expect("clippy runs");
    let said = String::from_utf8_lossy(&probe.stderr).into_owned();
    assert!(probe.status.success(), "{said}");
    let found: BTreeSet<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("warning: use of a disallowed "))
        .filter_map(|line| line.split('`').nth(1))
        .collect();
    let lists = std::fs::read_to_string(root.join("clippy.toml")).expect("the lists are there");
    let listed: BTreeSet<&str> = lists
        .lines()
        .filter_map(|line| line.split("path = \"").nth(1)?.split('"').next())
        .collect();
    assert!(listed.len() > 40, "{listed:?}");
    assert_eq!(listed, found, "the lists, and what clippy finds in a crate that breaks each");
}
