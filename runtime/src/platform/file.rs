//! One look at a file that an agent keeps for itself.

use std::fmt;

/// A path in which `*` stands for any run of characters of one component. Values that are no pattern were escaped
/// (`AgentDefinition::session_file_pattern`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePattern(String);

impl FilePattern {
    /// From a pattern of the `glob` crate's form.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a path is as the pattern says.
    pub fn matches(&self, path: &str) -> bool {
        let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
        glob::Pattern::new(&self.0).is_ok_and(|pattern| pattern.matches_with(path, options))
    }
}

/// What the look gave.
#[derive(Clone, PartialEq, Eq)]
pub enum FileTail {
    /// No file is as the pattern says.
    Missing,
    /// More than one is, or it is no regular file, or it cannot be read: nothing can be said.
    Unreadable,
    /// Its last bytes.
    Read {
        /// At most as many as were asked for.
        bytes: Vec<u8>,
        /// They are all there are.
        whole: bool,
    },
}

impl fmt::Debug for FileTail {
    // What is in it are the words of persons and agents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("Missing"),
            Self::Unreadable => f.write_str("Unreadable"),
            Self::Read { bytes, whole } => {
                write!(f, "Read({} bytes, whole: {whole})", bytes.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stays_inside_its_component() {
        let pattern = FilePattern::new("/store/sessions/*/*_s1.jsonl");
        assert!(pattern.matches("/store/sessions/ws/2026_s1.jsonl"));
        assert!(!pattern.matches("/store/sessions/ws/deeper/2026_s1.jsonl"));
        assert!(!pattern.matches("/store/sessions/ws/2026_s2.jsonl"));
    }
}
