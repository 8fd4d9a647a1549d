//! Where the journal is: `--store`, else `$MOORED_STORE`, else the state folder of the person.

#![expect(
    clippy::disallowed_methods,
    reason = "a binary reads its environment; the library never does"
)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Names the state directory itself.
pub const STORE_VARIABLE: &str = "MOORED_STORE";

/// The state directory, absolute. It need not exist: opening it for writing makes it, for its owner only.
pub fn find(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    let found = resolve(asked, |name| std::env::var_os(name))
        .context("there is no home folder to keep a store in; name one with --store DIR")?;
    std::path::absolute(&found)
        .with_context(|| format!("the store {} cannot be found from here", found.display()))
}

fn resolve(asked: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The state folder of the XDG base directories; a relative one is to be ignored.
    let state = || set("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let home = || set("HOME").map(|home| home.join(".local/state"));
    asked
        .map(Path::to_owned)
        .or_else(|| set(STORE_VARIABLE))
        .or_else(|| state().or_else(home).map(|folder| folder.join("moored")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(asked: Option<&str>, set: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        resolve(asked.map(Path::new), variable).map(|path| path.display().to_string())
    }

    #[test]
    fn the_nearest_word_wins() {
        let all = [(STORE_VARIABLE, "/m"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(found(Some("/s"), &all).as_deref(), Some("/s"));
        assert_eq!(found(None, &all).as_deref(), Some("/m"));
        assert_eq!(found(None, &all[1..]).as_deref(), Some("/x/moored"));
        assert_eq!(found(None, &all[2..]).as_deref(), Some("/h/.local/state/moored"));
        assert_eq!(found(None, &[]), None);
    }

    #[test]
    fn an_empty_or_relative_variable_says_nothing() {
        let odd = [(STORE_VARIABLE, ""), ("XDG_STATE_HOME", "x"), ("HOME", "/h")];
        assert_eq!(found(None, &odd).as_deref(), Some("/h/.local/state/moored"));
    }
}
