//! Invariant 3: a message goes on the wire at most once, and reaches agents at most once.

use std::collections::{BTreeMap, BTreeSet};

use moored::ids::{MessageId, SessionId};
use moored::journal::RowKind;
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, Line, Seen};

/// However often it is asked for, and whatever dies: a text is prompted as often as it was sent under an id of its own.
#[derive(Default)]
pub(super) struct AtMostOnce {
    sessions: BTreeMap<SessionId, BTreeMap<String, Sent>>,
}

/// How often one text was sent, and went out.
#[derive(Default)]
struct Sent {
    messages: BTreeSet<MessageId>,
    written: usize,
    read: usize,
}

impl AtMostOnce {
    fn text(&mut self, child: ChildNo, line: &Line<'_>, facts: &Facts) -> Option<&mut Sent> {
        let text = line.prompt_text()?;
        let session = &facts.children.get(child)?.session;
        Some(rows::of(&mut self.sessions, session).entry(text).or_default())
    }
}

/// The words a person finds a message by, without the rest of its text.
fn named(line: &Line<'_>) -> String {
    let text = line.prompt_text().unwrap_or_default();
    text.split(':').next().unwrap_or_default().chars().take(40).collect()
}

impl Oracle for AtMostOnce {
    fn name(&self) -> &'static str {
        "at-most-once"
    }

    fn rule(&self) -> &'static str {
        "invariant 3, 5.2.1"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::Stored { unit, .. } => {
                for row in &unit.rows {
                    if let RowKind::Submission { message_id, text, .. } = &row.kind {
                        let sent = rows::of(&mut self.sessions, &unit.session);
                        let sent = sent.entry(text.0.clone()).or_default();
                        sent.messages.insert(message_id.clone());
                    }
                }
            }
            Seen::AgentRead { child, line } if line.method() == Some("session/prompt") => {
                let Some(sent) = self.text(*child, line, facts) else { return Ok(()) };
                sent.read += 1;
                if sent.read > sent.messages.len().max(1) {
                    let (read, of) = (sent.read, sent.messages.len());
                    let name = named(line);
                    return Err(format!(
                        "agents have read {name} {read} times, child {child} last; it was sent {of} times"
                    ));
                }
            }
            Seen::HostWrote { child, line } if line.method() == Some("session/prompt") => {
                let Some(sent) = self.text(*child, line, facts) else { return Ok(()) };
                sent.written += 1;
                if sent.written > sent.messages.len().max(1) {
                    let (written, of) = (sent.written, sent.messages.len());
                    let name = named(line);
                    return Err(format!(
                        "{name} was written {written} times, to child {child} last; it was sent {of} times"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use moored::journal::StreamedText;

    use super::super::kit::{Story, prompt, submission};
    use super::*;

    fn story() -> Story {
        Story::of(AtMostOnce::default()).spawned(0).stored(1, [submission(1), submission(2)])
    }

    #[test]
    fn each_message_may_go_out_once() {
        story().prompts(0, 1).agent_read(0, &prompt(1)).prompts(0, 2).holds();
    }

    #[test]
    fn a_message_that_goes_out_again_is_found_on_either_side() {
        story().prompts(0, 1).prompts(0, 1).breaks("m1 was written 2 times");
        let twice = story().agent_read(0, &prompt(1)).agent_read(0, &prompt(1));
        twice.breaks("agents have read m1 2 times");
    }

    #[test]
    fn the_same_text_may_be_sent_twice_under_two_ids() {
        let RowKind::Submission { fingerprint, mode, requested_ms, .. } = submission(3) else {
            panic!("it is one");
        };
        let text = StreamedText("m1: hi".to_owned());
        let message_id = MessageId::from("m3");
        let again = RowKind::Submission { message_id, fingerprint, text, mode, requested_ms };
        let story = story().stored(1, [again]).prompts(0, 1).prompts(0, 1);
        story.prompts(0, 1).breaks("it was sent 2 times");
    }
}
