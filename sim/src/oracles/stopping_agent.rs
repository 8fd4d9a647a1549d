//! Invariant 10: nothing is handed to an agent that a Stop is ending.

use std::collections::{BTreeMap, BTreeSet};

use moored::ids::{Fence, MessageId, SessionId};
use moored::journal::{RowKind, SendMode};
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, Line, Seen};

/// After a cancel only the steer it made way for is prompted; after a Stop in the journal, nothing is, of that child.
#[derive(Default)]
pub(super) struct NothingToAStoppingAgent {
    sessions: BTreeMap<SessionId, Session>,
    cancelled: BTreeSet<ChildNo>,
    fences: BTreeMap<ChildNo, Fence>,
}

#[derive(Default)]
struct Session {
    texts: BTreeMap<String, (MessageId, SendMode)>,
    /// The fence that a Stop of any reason was last written under.
    stopped: Option<Fence>,
}

impl NothingToAStoppingAgent {
    fn prompted(&mut self, child: ChildNo, line: &Line<'_>, facts: &Facts) -> Verdict {
        let (Some(at), Some(text)) = (facts.children.get(child), line.prompt_text()) else {
            return Ok(());
        };
        let kept = rows::of(&mut self.sessions, &at.session);
        let Some((message, mode)) = kept.texts.get(&text) else { return Ok(()) };
        // The cancel made way for it (rule 2.5.1); the next one is free again.
        if self.cancelled.remove(&child) && *mode != SendMode::Steer {
            return Err(format!(
                "{message} is prompted to child {child}, whose turn was cancelled"
            ));
        }
        let fence = self.fences.get(&child);
        if fence.is_some() && fence == kept.stopped.as_ref() {
            let session = &at.session;
            return Err(format!(
                "{message} is prompted to child {child}, which a Stop of {session} is ending"
            ));
        }
        Ok(())
    }
}

impl Oracle for NothingToAStoppingAgent {
    fn name(&self) -> &'static str {
        "nothing-to-a-stopping-agent"
    }

    fn rule(&self) -> &'static str {
        "invariant 10, 5.4.2"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::HostWrote { child, line } => match line.method() {
                Some("session/cancel") => {
                    self.cancelled.insert(*child);
                }
                Some("session/prompt") => return self.prompted(*child, line, facts),
                _ => {}
            },
            Seen::Stored { unit, .. } => {
                let kept = rows::of(&mut self.sessions, &unit.session);
                for row in &unit.rows {
                    if let RowKind::Submission { message_id, text, mode, .. } = &row.kind {
                        kept.texts.insert(text.0.clone(), (message_id.clone(), *mode));
                    }
                    if rows::stop(row).is_some() {
                        kept.stopped = Some(row.fence);
                    }
                    if let Some(moored::journal::ChildRow::Started { identity, .. }) =
                        rows::child(row)
                        && let Some(child) = facts.child_of(&identity.root)
                    {
                        self.fences.insert(child, row.fence);
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
    use moored::journal::StopReason;

    use super::super::kit::{Story, started, steer, stop, submission};
    use super::*;

    fn story() -> Story {
        let story = Story::of(NothingToAStoppingAgent::default()).spawned(0);
        story.stored(1, [started(0), submission(1), steer(2), submission(3)]).prompts(0, 1)
    }

    #[test]
    fn a_steer_follows_the_cancel_that_made_way_for_it() {
        story().cancels(0).prompts(0, 2).prompts(0, 3).holds();
        let next = story().stored(1, [stop(StopReason::UserStop, None)]).spawned(1);
        next.stored(2, [started(1)]).prompts(1, 3).holds();
    }

    #[test]
    fn a_prompt_into_what_a_stop_is_ending_is_found() {
        story().cancels(0).prompts(0, 3).breaks("whose turn was cancelled");
        let stopped = story().stored(1, [stop(StopReason::UserStop, None)]);
        stopped.prompts(0, 3).breaks("which a Stop of s1 is ending");
    }
}
