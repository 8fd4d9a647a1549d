//! Reading the agent's own session file: what of a cut turn is in it (decisions D20, D28).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{AgentDefinition, VerdictWord};
use crate::limits::SESSION_FILE_GLOB_BYTES_MAX;
use crate::platform::{FilePattern, PatternPart};

/// What of a cut turn is in the agent's session file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutOnDisk {
    /// The message that opened the turn.
    pub prompt: bool,
    /// A record behind it that says that the turn was stopped.
    pub aborted: bool,
}

/// A part of `session_file.glob`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place<'a> {
    Text(&'a str),
    Star,
    Session,
    Variable(&'a str),
}

/// Reads it in one pass: what is put into a place is never read again.
fn places(glob: &str) -> Result<Vec<Place<'_>>, String> {
    if glob.len() > SESSION_FILE_GLOB_BYTES_MAX {
        return Err(format!("it may not have more than {SESSION_FILE_GLOB_BYTES_MAX} bytes"));
    }
    if glob.contains("**") {
        return Err("a `*` stands for characters of one component, and `**` for nothing".to_owned());
    }
    let mut places = Vec::new();
    let mut rest = glob;
    while let Some(at) = rest.find(['*', '{']) {
        let (text, sign) = rest.split_at(at);
        places.push(Place::Text(text));
        if let Some(behind) = sign.strip_prefix('*') {
            places.push(Place::Star);
            rest = behind;
            continue;
        }
        let Some((name, behind)) = sign[1..].split_once('}') else {
            return Err("a `{` has no `}`".to_owned());
        };
        places.push(if name == "session" { Place::Session } else { Place::Variable(name) });
        rest = behind;
    }
    places.push(Place::Text(rest));
    if !places.contains(&Place::Session) {
        return Err("it has no {session} in it, and would name the files of others".to_owned());
    }
    let leads_somewhere = |first: &str| {
        let mut variable = Some(first);
        FilePattern::of(places.iter().map(|place| match place {
            Place::Text(text) => PatternPart::Text(text),
            Place::Star => PatternPart::Star,
            Place::Session => PatternPart::Text("id"),
            Place::Variable(_) => PatternPart::Text(variable.take().unwrap_or("value")),
        }))
    };
    // A variable at its head brings the `/`.
    if leads_somewhere("/value").or_else(|| leads_somewhere("value")).is_none() {
        let reason = "it has to be an absolute path without empty components, `.` and `..`";
        return Err(reason.to_owned());
    }
    Ok(places)
}

/// A pattern that can name a session's file.
pub(super) fn glob_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    match places(&text) {
        Ok(_) => Ok(text),
        Err(reason) => Err(serde::de::Error::custom(reason)),
    }
}

impl AgentDefinition {
    /// A variable that the pattern of the session file names, and that is not pinned.
    pub(super) fn unpinned_in_glob(&self) -> Option<&str> {
        let places = places(&self.session_file.as_ref()?.glob).ok()?;
        places.into_iter().find_map(|place| match place {
            Place::Variable(name) if !self.pin_env.contains_key(name) => Some(name),
            _ => None,
        })
    }

    /// Where the file of an agent's session is, if the definition says so. None as well for an id that would lead out of
    /// its folder: it is the agent's word.
    pub fn session_file_pattern(&self, session: &str) -> Option<FilePattern> {
        let places = places(&self.session_file.as_ref()?.glob).ok()?;
        if session.is_empty() || session.contains(['/', '\\', '\0']) || session.starts_with('.') {
            return None;
        }
        let pinned = self.pinned();
        let parts: Option<Vec<_>> = places
            .into_iter()
            .map(|place| match place {
                Place::Text(text) => Some(PatternPart::Text(text)),
                Place::Star => Some(PatternPart::Star),
                Place::Session => Some(PatternPart::Text(session)),
                Place::Variable(name) => pinned.get(name).map(|v| PatternPart::Text(v)),
            })
            .collect();
        FilePattern::of(parts?)
    }

    /// What the file says of the turn that the message `prompt` opened; `earlier` are the messages before it that may have
    /// reached the agent. None where that cannot be told: without readers in the definition, from a file that is cut off
    /// before the message, or where an earlier message reads alike.
    pub fn cut_on_disk(
        &self,
        file: &[u8],
        whole: bool,
        prompt: &str,
        earlier: &[&str],
    ) -> Option<CutOnDisk> {
        let (reader, verdict) = (self.prompt.as_ref()?, self.verdict.as_ref()?);
        if earlier.contains(&prompt) {
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
                    // The newest one there is one before it: ours never came.
                    false if earlier.contains(&said) => Some(NOT_THERE),
                    // Somebody else's, or ours in other words.
                    false => None,
                };
            }
        }
        (whole && earlier.is_empty()).then_some(NOT_THERE)
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

    fn look(lines: &[String], earlier: &[&str]) -> Option<CutOnDisk> {
        let header = r#"{"type":"session","id":"s"}"#.to_owned();
        let file = [&[header], lines].concat().join("\n");
        omp().cut_on_disk(file.as_bytes(), true, "go", earlier)
    }

    fn refused(glob: &str) -> String {
        places(glob).expect_err(glob)
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
    fn a_value_that_looks_like_a_place_is_text() {
        let document = r#"{"name": "a", "values": {"dir": {"about": "its folder"}},
            "pin_env": {"DIR": "{dir}", "OTHER": "/other"},
            "session_file": {"glob": "{DIR}/{session}.x", "header": {"id": "id", "cwd": "cwd"}}}"#;
        let read = |value: &str| {
            let definition = AgentDefinition::parse(document).and_then(|d| d.with("dir", value));
            definition.expect("it is one").session_file_pattern("s1")
        };
        let pattern = read("/a*/{session}/{OTHER}").expect("an absolute path");
        assert!(pattern.matches("/a*/{session}/{OTHER}/s1.x"));
        assert!(!pattern.matches("/ab/{session}/{OTHER}/s1.x"));
        assert_eq!(read("relative"), None);
        assert_eq!(read("/a/../b"), None);
    }

    #[test]
    fn a_pattern_that_can_name_no_sessions_file_is_refused_by_what_is_wrong_with_it() {
        let long = format!("/{}{{session}}", "a".repeat(SESSION_FILE_GLOB_BYTES_MAX));
        for (glob, reason) in [
            ("", "no {session}"),
            ("/store/*.jsonl", "no {session}"),
            ("/store/**/{session}.jsonl", "`**`"),
            ("/store/a**{session}", "`**`"),
            ("store/{session}", "absolute"),
            ("*/{session}", "absolute"),
            ("{session}", "absolute"),
            ("/store/../{session}", "absolute"),
            ("/store//{session}", "absolute"),
            ("/store/{session}/", "absolute"),
            ("/store/{session}/.", "absolute"),
            ("/st\0re/{session}", "absolute"),
            ("/store/{session", "no `}`"),
            ("{DIR/{session}", "no {session}"),
            (long.as_str(), "4096 bytes"),
        ] {
            assert!(refused(glob).contains(reason), "{glob:?}: {}", refused(glob));
        }
        for glob in
            ["{DIR}/{session}", "/a/*/b*_{session}.x", "/{NAME}/{session}/log", "/{session}"]
        {
            assert!(places(glob).is_ok(), "{glob:?}: {}", refused(glob));
        }
    }

    #[test]
    fn a_stopped_turn_is_there_with_or_without_its_abort() {
        let there = |aborted| Some(CutOnDisk { prompt: true, aborted });
        assert_eq!(look(&[user("go"), assistant("aborted")], &[]), there(true));
        let tool = [user("go"), assistant("toolUse"), assistant("aborted")];
        assert_eq!(look(&tool, &["earlier"]), there(true));
        assert_eq!(look(&[user("go"), assistant("toolUse")], &[]), there(false));
        // A later entry of another kind, and a line that was cut.
        let lines = [user("go"), assistant("aborted"), r#"{"type":"custom"}"#.into(), "{".into()];
        assert_eq!(look(&lines, &[]), there(true));
    }

    #[test]
    fn a_message_that_never_came_is_told_from_one_that_cannot_be_told() {
        assert_eq!(look(&[], &[]), Some(NOT_THERE));
        let earlier = [user("earlier"), assistant("aborted")];
        assert_eq!(look(&earlier, &["earlier"]), Some(NOT_THERE));
        // One in between was lost as well.
        assert_eq!(look(&earlier, &["earlier", "lost"]), Some(NOT_THERE));
        // Nobody knows whose that is.
        assert_eq!(look(&[user("other")], &["earlier"]), None);
        // The same words twice, however far back.
        assert_eq!(look(&[user("go"), assistant("aborted")], &["go"]), None);
        assert_eq!(look(&[user("go"), assistant("aborted")], &["go", "lost"]), None);
        // The file begins anew, or was never written.
        assert_eq!(look(&[], &["earlier"]), None);
        // The file goes on before what was read.
        assert_eq!(omp().cut_on_disk(b"{}\n", false, "go", &[]), None);
        let mut without = omp();
        without.prompt = None;
        assert_eq!(without.cut_on_disk(b"", true, "go", &[]), None);
    }
}
