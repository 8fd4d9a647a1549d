//! Reading a definition, the ones that are shipped, and giving a definition the values it asks for.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::{AgentDefinition, ValueKind, release};

/// Largest definition that is read.
pub const DEFINITION_BYTES_MAX: usize = 256 * 1_024;

/// The shipped definitions, by name.
const BUILTIN: [(&str, &str); 1] = [("omp", include_str!("definitions/omp.json"))];

/// Why there is no such definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// The document is not a definition.
    #[error("line {line} of the agent definition: {place}{reason}", place = place(field))]
    Invalid {
        /// Counted from 1.
        line: usize,
        /// Path of the field, `session_file.header.id`; empty for the document itself.
        field: String,
        /// What is wrong there.
        reason: String,
    },
    /// The document is no definition for its size alone.
    #[error(
        "the agent definition has {bytes} bytes, and may not have more than {DEFINITION_BYTES_MAX}"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A value was given that the definition does not ask for.
    #[error("{agent} asks for no value {name}; it asks for: {asked}")]
    UnknownValue {
        /// The definition.
        agent: String,
        /// The name that was given.
        name: String,
        /// The names it asks for.
        asked: String,
    },
    /// A value that cannot be what it is given for.
    #[error("the value {name} of {agent} has to be an absolute path; give its full path")]
    NotAbsolute {
        /// The definition.
        agent: String,
        /// The value's name. The value itself may be a secret.
        name: String,
    },
}

fn place(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("{field}: ") }
}

impl AgentDefinition {
    /// The names of the definitions that are shipped.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// A definition that is shipped.
    pub fn builtin(name: &str) -> Option<Self> {
        let (_, document) = BUILTIN.iter().find(|(known, _)| *known == name)?;
        // A test reads every one of them.
        Self::parse(document).ok()
    }

    /// Reads a definition; an error names the field and the line.
    pub fn parse(document: &str) -> Result<Self, DefinitionError> {
        if document.len() > DEFINITION_BYTES_MAX {
            return Err(DefinitionError::TooLarge { bytes: document.len() });
        }
        let mut reader = serde_json::Deserializer::from_str(document);
        let definition: Self = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let path = error.path().to_string();
            invalid(if path == "." { String::new() } else { path }, error.inner())
        })?;
        reader.end().map_err(|error| invalid(String::new(), &error))?;
        if let Some(name) = definition.idle_value() {
            return Err(DefinitionError::Invalid {
                line: line_of(document, name),
                field: format!("values.{name}"),
                reason: format!("no pinned variable has {{{name}}} in it"),
            });
        }
        if let Some(name) = definition.unpinned_in_glob() {
            return Err(DefinitionError::Invalid {
                line: line_of(document, "glob"),
                field: "session_file.glob".to_owned(),
                reason: format!(
                    "{name} is no pinned variable, and no session's file is found by it"
                ),
            });
        }
        Ok(definition)
    }

    /// Gives the definition a value it asks for.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Result<Self, DefinitionError> {
        let value = value.into();
        let Some(asked) = self.values.get_mut(name) else {
            let asked: Vec<&str> = self.values.keys().map(String::as_str).collect();
            return Err(DefinitionError::UnknownValue {
                asked: if asked.is_empty() { "nothing".to_owned() } else { asked.join(", ") },
                agent: self.name,
                name: name.to_owned(),
            });
        };
        if asked.kind == ValueKind::AbsolutePath && !is_absolute(&value) {
            return Err(DefinitionError::NotAbsolute { agent: self.name, name: name.to_owned() });
        }
        asked.value = Some(value);
        Ok(self)
    }

    /// The first value that is asked for and was not given. No session is made without it (rule 1.2.5): an agent that
    /// is not pinned may keep its sessions anywhere.
    pub fn missing_value(&self) -> Option<&str> {
        self.values.iter().find(|(_, asked)| asked.value.is_none()).map(|(name, _)| name.as_str())
    }

    /// The variables pinned at every spawn, with the values that were given in them.
    pub fn pinned(&self) -> BTreeMap<String, String> {
        let filled = |text: &String| self.filled(text);
        self.pin_env.iter().map(|(name, text)| (name.clone(), filled(text))).collect()
    }

    /// One pass: what stands in a value is never taken for another value's place.
    fn filled(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            let named = after
                .split_once('}')
                .and_then(|(name, after)| Some((self.values.get(name)?.value.as_deref()?, after)));
            match named {
                Some((value, after)) => {
                    filled.push_str(value);
                    rest = after;
                }
                None => {
                    filled.push('{');
                    rest = after;
                }
            }
        }
        filled + rest
    }

    /// A value that is asked for and stands nowhere: almost always a slip of the pen.
    fn idle_value(&self) -> Option<&str> {
        let stands = |name: &str| {
            let place = format!("{{{name}}}");
            self.pin_env.values().any(|text| text.contains(&place))
        };
        self.values.keys().map(String::as_str).find(|name| !stands(name))
    }
}

/// `C:\` counts wherever the host runs: a definition reads the same everywhere.
fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || matches!(path.as_bytes(), [_, b':', b'\\' | b'/', ..])
}

fn invalid(field: String, error: &serde_json::Error) -> DefinitionError {
    let reason = error.to_string();
    // The line is told in its own place.
    let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason);
    DefinitionError::Invalid { line: error.line().max(1), field, reason: reason.to_owned() }
}

/// Where a key of this name first stands.
fn line_of(document: &str, name: &str) -> usize {
    let key = format!("\"{name}\"");
    document.lines().position(|line| line.contains(&key)).map_or(1, |before| before + 1)
}

/// A release, `major.minor.patch`.
pub(super) fn release_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    // The plain form: what an agent may dress its release up with (`v1.2.3`) has no place in a document.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match release(&text) {
        Some(_) if is_plain => Ok(text),
        _ => Err(serde::de::Error::custom("not a release of the form major.minor.patch")),
    }
}
