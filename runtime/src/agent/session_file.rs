//! Reading the agent's own session file: what of a cut turn is in it (decisions D20, D28).

use std::collections::BTreeMap;

use serde_json::Value;

use super::{AgentDefinition, VerdictWord};
use crate::platform::FilePattern;

/// What of a cut turn is in the agent's session file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutOnDisk {
    /// The message that opened the turn.
    pub prompt: bool,
    /// A record behind it that says that the turn was stopped.
    pub aborted: bool,
}

impl AgentDefinition {
    /// Where the file of an agent's session is, if the definition says so. None as well for an id that would lead out of
    /// its folder: it is the agent's word.
    pub fn session_file_pattern(&self, session: &str) -> Option<FilePattern> {
        let file = self.session_file.as_ref()?;
        if session.is_empty() || session.contains(['/', '\\', '\0']) || session.starts_with('.') {
            return None;
        }
        // Nothing but a star is a pattern.
        let mut pattern = glob::Pattern::escape(&file.glob).replace("[*]", "*");
        for (name, value) in self.pinned() {
            pattern = pattern.replace(&format!("{{{name}}}"), &glob::Pattern::escape(&value));
        }
        Some(FilePattern::new(pattern.replace("{session}", &glob::Pattern::escape(session))))
    }

    /// What the file says of the turn that the message `prompt` opened, `before` being the message before it. None where
    /// that cannot be told: without readers in the definition, from a file that is cut off before the message, or where two
    /// messages read alike.
    pub fn cut_on_disk(
        &self,
        file: &[u8],
        whole: bool,
        prompt: &str,
        before: Option<&str>,
    ) -> Option<CutOnDisk> {
        let (reader, verdict) = (self.prompt.as_ref()?, self.verdict.as_ref()?);
        if before == Some(prompt) {
            return None;
        }
        let mut aborted = false;
        // From the end on: a broken line is passed over, as the agents themselves do.
        for line in file.rsplit(|byte| *byte == b'\n') {
            let Ok(record) = serde_json::from_slice::<Value>(line) else { continue };
            if matches(&record, &verdict.last_matching) {
                let word = at(&record, &verdict.field).and_then(Value::as_str);
                let means = word.and_then(|word| verdict.words.get(word));
                aborted |= means == Some(&VerdictWord::Cancellation);
            } else if matches(&record, &reader.matching) {
                let said = at(&record, &reader.text).and_then(Value::as_str)?;
                return match said == prompt {
                    true => Some(CutOnDisk { prompt: true, aborted }),
                    // The newest one there is the one before: ours never came.
                    false if before == Some(said) => Some(NOT_THERE),
                    // Somebody else's, or ours in other words.
                    false => None,
                };
            }
        }
        (whole && before.is_none()).then_some(NOT_THERE)
    }
}

const NOT_THERE: CutOnDisk = CutOnDisk { prompt: false, aborted: false };

fn matches(record: &Value, fields: &BTreeMap<String, String>) -> bool {
    fields.iter().all(|(path, wanted)| {
        at(record, path).and_then(Value::as_str).is_some_and(|found| found == wanted)
    })
}

/// By a dotted path, in which a number is a place in an array.
fn at<'v>(record: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(record, |value, step| match value {
        Value::Array(values) => values.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn omp() -> AgentDefinition {
        let omp = AgentDefinition::builtin("omp").expect("it is shipped");
        omp.with("agent_dir", "/home/me/[agents]").expect("it asks for it")
    }

    fn user(text: &str) -> String {
        format!(
            r#"{{"type":"message","message":{{"role":"user","content":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    }

    fn assistant(word: &str) -> String {
        format!(
            r#"{{"type":"message","message":{{"role":"assistant","content":[],"stopReason":"{word}"}}}}"#
        )
    }

    fn look(lines: &[String], before: Option<&str>) -> Option<CutOnDisk> {
        let header = r#"{"type":"session","id":"s"}"#.to_owned();
        let file = [&[header], lines].concat().join("\n");
        omp().cut_on_disk(file.as_bytes(), true, "go", before)
    }

    #[test]
    fn a_value_and_an_id_are_no_patterns_and_an_id_leads_nowhere_else() {
        let pattern = omp().session_file_pattern("id*").expect("it says where");
        assert!(pattern.matches("/home/me/[agents]/sessions/ws/1_id*.jsonl"));
        assert!(!pattern.matches("/home/me/[agents]/sessions/ws/1_id7.jsonl"));
        for led_away in ["", "../x", "a/b", "..", "a\0"] {
            assert_eq!(omp().session_file_pattern(led_away), None, "{led_away:?}");
        }
        assert_eq!(AgentDefinition::generic(Vec::new()).session_file_pattern("s"), None);
    }

    #[test]
    fn a_stopped_turn_is_there_with_or_without_its_abort() {
        let there = |aborted| Some(CutOnDisk { prompt: true, aborted });
        assert_eq!(look(&[user("go"), assistant("aborted")], None), there(true));
        let tool = [user("go"), assistant("toolUse"), assistant("aborted")];
        assert_eq!(look(&tool, Some("earlier")), there(true));
        assert_eq!(look(&[user("go"), assistant("toolUse")], None), there(false));
        // A later entry of another kind, and a line that was cut.
        let lines = [user("go"), assistant("aborted"), r#"{"type":"custom"}"#.into(), "{".into()];
        assert_eq!(look(&lines, None), there(true));
    }

    #[test]
    fn a_message_that_never_came_is_told_from_one_that_cannot_be_told() {
        assert_eq!(look(&[], None), Some(NOT_THERE));
        let earlier = [user("earlier"), assistant("aborted")];
        assert_eq!(look(&earlier, Some("earlier")), Some(NOT_THERE));
        // Nobody knows whose that is.
        assert_eq!(look(&[user("other")], Some("earlier")), None);
        // The same words twice.
        assert_eq!(look(&[user("go"), assistant("aborted")], Some("go")), None);
        // The file goes on before what was read.
        assert_eq!(omp().cut_on_disk(b"{}\n", false, "go", None), None);
        let mut without = omp();
        without.prompt = None;
        assert_eq!(without.cut_on_disk(b"", true, "go", None), None);
    }
}
