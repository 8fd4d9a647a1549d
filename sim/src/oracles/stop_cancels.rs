//! A Stop of a prompt cancels it (rule 3.5.1), and the child is then ended (rule 3.2.6).

use std::collections::BTreeMap;

use moored::ids::{Fence, SessionId};
use moored::journal::{StopReason, stop_note_item};
use moored::platform::Mono;

use super::rows::{self, Fences};
use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, Seen};

/// No agent's stdin is closed for a Stop before the prompt that this Stop is about was cancelled, or answered.
///
/// An agent that does not read what it was written is left out: its cancel may wait in the host until the end (T29).
#[derive(Default)]
pub(super) struct StopCancels {
    fences: Fences,
    /// The prompt that a child has, as far as it has read it, and whether it was cancelled.
    prompts: BTreeMap<ChildNo, Prompt>,
    stopped: BTreeMap<ChildNo, (SessionId, Fence)>,
    /// Lines that a child was written and has not read.
    unread: BTreeMap<ChildNo, usize>,
}

#[derive(Default)]
struct Prompt {
    was_read: bool,
    was_cancelled: bool,
    was_answered: bool,
}

impl Oracle for StopCancels {
    fn name(&self) -> &'static str {
        "stop-cancels-its-prompt"
    }

    fn rule(&self) -> &'static str {
        "3.5.1"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::HostWrote { child, .. } => *self.unread.entry(*child).or_default() += 1,
            Seen::AgentRead { child, .. } => {
                let unread = self.unread.entry(*child).or_default();
                *unread = unread.saturating_sub(1);
            }
            _ => {}
        }
        match seen {
            Seen::HostWrote { child, line } => match line.method() {
                Some("session/prompt") => {
                    self.prompts.insert(*child, Prompt::default());
                }
                Some("session/cancel") => {
                    self.prompts.entry(*child).or_default().was_cancelled = true;
                }
                _ => {}
            },
            Seen::AgentRead { child, line } if line.method() == Some("session/prompt") => {
                self.prompts.entry(*child).or_default().was_read = true;
            }
            Seen::AgentWrote { child, answers_prompt: true, .. } => {
                self.prompts.entry(*child).or_default().was_answered = true;
            }
            Seen::Stored { unit, .. } => {
                for row in &unit.rows {
                    self.fences.learn(&unit.session, row, facts);
                    let Some(stop) = rows::stop(row) else { continue };
                    // Its note says that it interrupted: it did not join an end that had begun.
                    let Some(turn) = stop.turn.as_ref() else { continue };
                    let note = stop_note_item(turn.as_str());
                    let noted = unit.rows.iter().flat_map(rows::items).any(|i| i.item == note);
                    if noted
                        && stop.reason == StopReason::UserStop
                        && let Some(child) = self.fences.child(&unit.session, row.fence)
                    {
                        self.stopped.insert(child, (unit.session.clone(), row.fence));
                    }
                }
            }
            Seen::StdinClosed { child, by_crash: false, broken: false } => {
                let reads = self.unread.get(child).is_none_or(|unread| *unread == 0);
                let ignored = self
                    .prompts
                    .get(child)
                    .is_some_and(|p| reads && p.was_read && !p.was_cancelled && !p.was_answered);
                if let (Some((session, fence)), true) = (self.stopped.get(child), ignored) {
                    return Err(format!(
                        "the agent of {session} at fence {fence} is ended by a Stop that never cancelled its prompt"
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
    use moored::journal::{ItemBody, RowKind, STOP_NOTE, StatusBody, Tone, TurnState};

    use super::super::kit::{Story, item, prompt, started, stop, turn};
    use super::*;

    fn note() -> RowKind {
        let text = STOP_NOTE.to_owned();
        let body = ItemBody::Status(StatusBody { tone: Tone::Info, text, fact: None });
        item(stop_note_item("t1").as_str(), body)
    }

    fn stopped() -> Story {
        let story = Story::of(StopCancels::default()).spawned(0);
        let story = story.stored(1, [started(0), turn(1, TurnState::Running, None)]).prompts(0, 1);
        let read = story.agent_read(0, &prompt(1));
        read.stored(1, [stop(StopReason::UserStop, Some("t1")), note()])
    }

    #[test]
    fn a_prompt_is_cancelled_or_answered_before_its_agents_stdin_is_closed() {
        stopped().cancels(0).stdin_closed(0).holds();
        let answered = stopped().agent_wrote(0, r#"{"id":1,"result":{}}"#);
        answered.stdin_closed(0).holds();
        stopped().stdin_closed(0).breaks("never cancelled its prompt");
        // It does not read: the cancel may not have left.
        stopped().host_wrote(0, r#"{"id":7,"result":{}}"#).stdin_closed(0).holds();
    }

    #[test]
    fn a_stop_that_joined_an_end_cancels_nothing() {
        let story = Story::of(StopCancels::default()).spawned(0);
        let story = story.stored(1, [started(0), turn(1, TurnState::Running, None)]).prompts(0, 1);
        let read = story.agent_read(0, &prompt(1));
        read.stored(1, [stop(StopReason::UserStop, Some("t1"))]).stdin_closed(0).holds();
    }
}
