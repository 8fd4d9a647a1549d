//! A message is accepted when its agent is heard, not when it is written (rule 2.1.1).

use std::collections::{BTreeMap, BTreeSet};

use moored::journal::DispatchState;
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, Seen, Shape};

/// No message reads accepted while its agent has said nothing beyond the handshake. What an agent that has spoken before
/// says of the next message may be on its way already.
#[derive(Default)]
pub(super) struct AcceptedIsHeard {
    fences: rows::Fences,
    /// The prompts each agent was written.
    prompts: BTreeMap<ChildNo, usize>,
    heard: BTreeSet<ChildNo>,
}

impl Oracle for AcceptedIsHeard {
    fn name(&self) -> &'static str {
        "accepted-is-heard"
    }

    fn rule(&self) -> &'static str {
        "2.1.1, 2.1.3"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::HostWrote { child, line } if line.method() == Some("session/prompt") => {
                *self.prompts.entry(*child).or_default() += 1;
            }
            // Until the first prompt an answer is one of the handshake's.
            Seen::AgentWrote { child, line, .. }
                if line.shape != Shape::Answer || self.prompts.contains_key(child) =>
            {
                self.heard.insert(*child);
            }
            Seen::Stored { unit, .. } => {
                for row in &unit.rows {
                    self.fences.learn(&unit.session, row, facts);
                    let accepted =
                        rows::dispatches(row).find(|d| d.state == DispatchState::Accepted);
                    let child = self.fences.child(&unit.session, row.fence);
                    if let (Some(accepted), Some(child)) = (accepted, child)
                        && !self.heard.contains(&child)
                    {
                        let (message, session) = (&accepted.message_id, &unit.session);
                        return Err(format!(
                            "{message} of {session} reads accepted, and child {child} has said nothing"
                        ));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::kit::{Story, dispatch, started, submission};
    use super::*;

    const UPDATE: &str = r#"{"method":"session/update","params":{}}"#;
    const ANSWER: &str = r#"{"id":1,"result":{}}"#;

    fn story() -> Story {
        let handed_over = dispatch(1, DispatchState::HandedOver);
        let story = Story::of(AcceptedIsHeard::default()).spawned(0).agent_wrote(0, ANSWER);
        story.stored(1, [started(0), submission(1), handed_over]).prompts(0, 1)
    }

    #[test]
    fn an_update_or_an_answer_accepts() {
        let accepted = || [dispatch(1, DispatchState::Accepted)];
        story().agent_wrote(0, UPDATE).stored(1, accepted()).holds();
        story().agent_wrote(0, ANSWER).stored(1, accepted()).holds();
        story().stored(1, [dispatch(1, DispatchState::Unknown)]).holds();
    }

    #[test]
    fn a_message_that_is_accepted_unheard_is_found() {
        story()
            .stored(1, [dispatch(1, DispatchState::Accepted)])
            .breaks("child 0 has said nothing");
    }
}
