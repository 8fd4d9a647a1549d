//! Never more than one cancel for a turn (decision D14).

use std::collections::BTreeMap;

use moored::platform::Mono;

use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, Line, Seen, Shape, same_id};

/// At most one `session/cancel` is written between two prompts: a second cancels the next turn of several agents. A turn
/// that the agent begins by itself behind its answer is a turn, and may be cancelled once.
#[derive(Default)]
pub(super) struct CancelAtMostOnce {
    children: BTreeMap<ChildNo, Turn>,
}

#[derive(Default)]
struct Turn {
    cancels: usize,
    /// The prompt it began with, until that is answered.
    prompt: Option<String>,
    answered: bool,
}

impl Turn {
    fn hears(&mut self, line: &Line<'_>) {
        let answers = |prompt: &String| line.id.is_some_and(|id| same_id(prompt, id));
        if line.shape == Shape::Answer && self.prompt.as_ref().is_some_and(answers) {
            (self.prompt, self.answered) = (None, true);
        } else if line.method() == Some("session/update") && std::mem::take(&mut self.answered) {
            self.cancels = 0;
        }
    }
}

impl Oracle for CancelAtMostOnce {
    fn name(&self) -> &'static str {
        "cancel-at-most-once"
    }

    fn rule(&self) -> &'static str {
        "D14, 1.8.2, 2.5.2"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        match seen {
            Seen::HostWrote { child, line } if line.method() == Some("session/prompt") => {
                let prompt = line.id.map(str::to_owned);
                self.children.insert(*child, Turn { prompt, ..Turn::default() });
            }
            Seen::HostWrote { child, line } if line.method() == Some("session/cancel") => {
                let cancels = &mut self.children.entry(*child).or_default().cancels;
                *cancels += 1;
                if *cancels > 1 {
                    return Err(format!(
                        "one prompt of child {child} is cancelled {cancels} times"
                    ));
                }
            }
            Seen::AgentWrote { child, line, .. } => {
                if let Some(turn) = self.children.get_mut(child) {
                    turn.hears(line);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::kit::Story;
    use super::*;

    #[test]
    fn each_prompt_may_be_cancelled_once() {
        let story = || Story::of(CancelAtMostOnce::default()).spawned(0).prompts(0, 1).cancels(0);
        story().prompts(0, 2).cancels(0).holds();
        story().cancels(0).breaks("one prompt of child 0 is cancelled 2 times");
    }

    #[test]
    fn a_turn_that_the_agent_began_behind_its_answer_may_be_cancelled_once() {
        let answer = r#"{"id":1,"result":{"stopReason":"cancelled"}}"#;
        let story = || {
            let story = Story::of(CancelAtMostOnce::default()).spawned(0).prompts(0, 1);
            story.cancels(0).agent_wrote(0, answer)
        };
        let goes_on = |story: Story| story.agent_wrote(0, r#"{"method":"session/update"}"#);
        goes_on(story()).cancels(0).holds();
        story().cancels(0).breaks("is cancelled 2 times");
        goes_on(goes_on(story()).cancels(0)).cancels(0).breaks("is cancelled 2 times");
    }
}
