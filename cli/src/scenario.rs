//! Which scenarios are meant: built-in ones by name, others by file.

#![expect(
    clippy::disallowed_methods,
    reason = "a binary reads the file it is given, and hears its panics"
)]

use std::io::ErrorKind;

use anyhow::{Context, bail};
use moored_scenarios::{Document, builtin};
use moored_sim::KernelKind;
use moored_sim::kernel::RUN_THREAD_NAME;

/// The scenario of this name, or in this file.
pub fn find(named: &str) -> anyhow::Result<Document> {
    let built_in = builtin();
    if let Some(document) = built_in.iter().find(|document| document.name == named) {
        return Ok(document.clone());
    }
    match std::fs::read_to_string(named) {
        Ok(text) => {
            Document::parse(&text, named).context("the scenario cannot be read; correct it at")
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let names: Vec<&str> = built_in.iter().map(|document| document.name.as_str()).collect();
            bail!(
                "there is no scenario {named}, built-in or as a file; built-in are {}",
                names.join(", ")
            )
        }
        Err(error) => bail!("the scenario {named} cannot be read ({error}); name another file"),
    }
}

/// These, or all that are built in, each with what names it.
pub fn find_all(names: &[String]) -> anyhow::Result<Vec<(String, Document)>> {
    match names.is_empty() {
        true => Ok(builtin().into_iter().map(|d| (d.name.clone(), d)).collect()),
        false => names.iter().map(|name| Ok((name.clone(), find(name)?))).collect(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_can_be_typed() {
        for known in KernelKind::available() {
            assert_eq!(kernel(&kernel_word(*known)), Ok(*known));
        }
        assert!(kernel("none").expect_err("there is none").contains("tape"));
    }
}
