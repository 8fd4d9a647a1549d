//! Ready-made scripts by name.

use crate::script::Script;

/// A named script.
#[derive(Clone, Copy, Debug)]
pub struct Persona {
    /// Its name.
    pub name: &'static str,
    /// The document, as it stands in `fake-agents/personas/`.
    pub document: &'static str,
}

macro_rules! personas {
    ($($name:literal),* $(,)?) => {
        /// All personas, by name.
        pub const PERSONAS: &[Persona] = &[$(Persona {
            name: $name,
            document: include_str!(concat!("../personas/", $name, ".json")),
        }),*];
    };
}

personas![
    "crasher",
    "echo",
    "flooder",
    "frozen",
    "ignores-eof",
    "late-persister",
    "never-answers",
    "noisy-stdout",
    "orphan-maker",
    "refuser",
    "slow-starter",
];

/// The script of this name.
///
/// # Panics
///
/// Never: a test reads every document.
pub fn persona(name: &str) -> Option<Script> {
    let persona = PERSONAS.iter().find(|persona| persona.name == name)?;
    Some(persona.document.parse().expect("a test reads every persona"))
}
