//! What omp has written to its session file.

use std::fmt;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// One entry of a session file.
#[derive(Clone, PartialEq)]
pub struct Entry(Value);

impl Entry {
    /// Whether it is a message of this role.
    pub fn is_by(&self, role: &str) -> bool {
        self.0["message"]["role"] == role
    }

    /// Its role, or its own type.
    fn name(&self) -> &str {
        let names = [&self.0["message"]["role"], &self.0["customType"], &self.0["type"]];
        names.into_iter().find_map(Value::as_str).unwrap_or("?")
    }

    /// How a `session_exit` came about: `manual/normal` for the end of input, `dispose/normal` for `session/close`.
    pub fn exit(&self) -> Option<String> {
        let (reason, kind) = (self.0["data"]["reason"].as_str(), self.0["data"]["kind"].as_str());
        (self.name() == "session_exit").then(|| format!("{}/{}", reason.unwrap(), kind.unwrap()))
    }

    /// Whether its text has these words in it.
    pub fn says(&self, words: &str) -> bool {
        self.0["message"]["content"].to_string().contains(words)
    }
}

/// A message's role with the word it ended with, if that is not the ordinary one, and the failure of a tool's result.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = &self.0["message"];
        match (message["stopReason"].as_str(), message["isError"].as_bool()) {
            (Some(word), _) if word != "stop" => write!(f, "{}[{word}]", self.name()),
            (_, Some(true)) => write!(f, "{}[failed]", self.name()),
            _ => f.write_str(self.name()),
        }
    }
}

/// Without a word of a message.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The entries of a session file; a line that is being written is none yet.
pub fn entries_of(file: &Path) -> Vec<Entry> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok().map(Entry)).collect()
}
