//! Which scenarios are meant: built-in ones by name, others by file.

#![expect(clippy::disallowed_methods, reason = "a binary hears its panics")]

use std::path::Path;

use anyhow::{Context, bail};
use moored_scenarios::sweep::GENERATED;
use moored_scenarios::{Document, builtin};
use moored_sim::KernelKind;
use moored_sim::failure::FailureFile;
use moored_sim::kernel::RUN_THREAD_NAME;
use moored_sim::scenario::Scenario;

use crate::files;

/// What a name or a file means.
#[derive(Clone, Debug)]
pub enum Named {
    /// A scenario document.
    Document(Box<Document>),
    /// A failure that was kept.
    Failure(Box<FailureFile>),
    /// What the generator makes of a seed.
    Generated,
    /// A scenario.
    Scenario(Box<Scenario>),
}

/// The document of this name, or what is in this file.
pub fn find_any(named: &str) -> anyhow::Result<Named> {
    let built_in = builtin();
    if let Some(document) = built_in.iter().find(|document| document.name == named) {
        return Ok(Named::Document(Box::new(document.clone())));
    }
    if named == GENERATED {
        return Ok(Named::Generated);
    }
    let Some(text) = files::read(Path::new(named))? else {
        let names: Vec<&str> = built_in.iter().map(|document| document.name.as_str()).collect();
        bail!(
            "there is no scenario {named}, built-in or as a file; built-in are {}",
            names.join(", ")
        )
    };
    let value: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    let unreadable = || format!("the scenario {named} cannot be read");
    match value {
        Some(value) if FailureFile::is_one(&value) => {
            let failure = FailureFile::from_value(value).with_context(unreadable)?;
            Ok(Named::Failure(Box::new(failure)))
        }
        // A document has an agent and no source of choices.
        Some(value) if value.get("source").is_some() => {
            let scenario = Scenario::from_value(value).with_context(unreadable)?;
            Ok(Named::Scenario(Box::new(scenario)))
        }
        _ => {
            let document = Document::parse(&text, named)
                .context("the scenario cannot be read; correct it at")?;
            Ok(Named::Document(Box::new(document)))
        }
    }
}

/// The scenario document of this name, or in this file.
pub fn find(named: &str) -> anyhow::Result<Document> {
    match find_any(named)? {
        Named::Document(document) => Ok(*document),
        _ => bail!("{named} is no scenario document; `moored replay {named}` plays it"),
    }
}

/// A panic in a simulated run is that run's outcome and is reported as such, not printed beside the table.
pub fn keep_simulated_panics_quiet() {
    let printing = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some(RUN_THREAD_NAME) {
            printing(panic);
        }
    }));
}

/// A kernel as it is typed: its name with hyphens.
pub fn kernel(typed: &str) -> Result<KernelKind, String> {
    let available = KernelKind::available();
    available.iter().find(|kernel| kernel_word(**kernel) == typed).copied().ok_or_else(|| {
        let words: Vec<String> = available.iter().map(|kernel| kernel_word(*kernel)).collect();
        format!("this build has the kernels {}", words.join(", "))
    })
}

/// A kernel's name as it is typed.
pub fn kernel_word(kernel: KernelKind) -> String {
    kernel.to_string().replace(' ', "-")
}

/// A path as a word of a shell's command line.
pub fn shell_word(path: &Path) -> String {
    let word = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(shell_word(Path::new("a/b-1.json")), "a/b-1.json");
        assert_eq!(shell_word(Path::new("it's here")), r"'it'\''s here'");
    }

    #[test]
    fn every_kernel_can_be_typed() {
        for known in KernelKind::available() {
            assert_eq!(kernel(&kernel_word(*known)), Ok(*known));
        }
        assert!(kernel("none").expect_err("there is none").contains("tape"));
    }
}
