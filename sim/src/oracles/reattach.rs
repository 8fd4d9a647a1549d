//! Invariant 11: reattach writes no rows from what the agent repeats; the journal is the only transcript.

use std::collections::{BTreeMap, BTreeSet};

use moored::ids::{Fence, ItemKey, SessionId};
use moored::journal::{ChildRow, ItemBody, RowKind};
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, Seen, Shape};

/// What an agent says before it has answered `session/load` or `session/resume` becomes no item.
#[derive(Default)]
pub(super) struct ReattachWritesNoRows {
    children: BTreeMap<ChildNo, Reopening>,
    /// The child that runs under each session's newest fence.
    newest: BTreeMap<SessionId, (ChildNo, Fence)>,
    known: BTreeMap<SessionId, BTreeSet<ItemKey>>,
}

struct Reopening {
    /// The id of the request.
    id: String,
    answered: bool,
    /// It has said something since that is no repetition, or was prompted.
    speaks: bool,
}

impl Oracle for ReattachWritesNoRows {
    fn name(&self) -> &'static str {
        "reattach-writes-no-rows"
    }

    fn rule(&self) -> &'static str {
        "invariant 11, 7.2.5"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::HostWrote { child, line } => match (line.method(), line.id) {
                (Some("session/load" | "session/resume"), Some(id)) => {
                    let id = id.to_owned();
                    self.children.insert(*child, Reopening { id, answered: false, speaks: false });
                }
                (Some("session/prompt" | "session/new"), _) => {
                    if let Some(reopening) = self.children.get_mut(child) {
                        reopening.speaks = true;
                    }
                }
                _ => {}
            },
            Seen::AgentWrote { child, line, .. } => {
                let Some(reopening) = self.children.get_mut(child) else { return Ok(()) };
                if line.shape == Shape::Answer && line.id == Some(reopening.id.as_str()) {
                    reopening.answered = true;
                } else if reopening.answered && line.method() == Some("session/update") {
                    reopening.speaks = true;
                }
            }
            Seen::Stored { unit, .. } => {
                let session = &unit.session;
                let known = rows::of(&mut self.known, session);
                for row in &unit.rows {
                    if let Some(ChildRow::Started { identity, .. }) = rows::child(row)
                        && let Some(child) = facts.child_of(&identity.root)
                    {
                        self.newest.insert(session.clone(), (child, row.fence));
                    }
                    let newest = self.newest.get(session);
                    let newest = newest.filter(|(_, fence)| *fence == row.fence);
                    let replays = newest.and_then(|(child, _)| {
                        self.children.get(child).filter(|r| !r.speaks).map(|_| *child)
                    });
                    let text = match &row.kind {
                        RowKind::Text { item, .. } => Some(item),
                        _ => None,
                    };
                    let said = rows::items(row).filter(|item| {
                        matches!(
                            item.body,
                            ItemBody::Message(_) | ItemBody::Tool(_) | ItemBody::Plan(_)
                        )
                    });
                    for item in said.map(|item| &item.item).chain(text) {
                        if known.contains(item) {
                            continue;
                        }
                        if let Some(child) = replays {
                            let seq = row.seq;
                            return Err(format!(
                                "row {seq} of {session} is new, and only repeats what child {child} says while it reopens the session"
                            ));
                        }
                        known.insert(item.clone());
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
    use moored::journal::{MessageBody, Role};

    use super::super::kit::{Story, item, started};
    use super::*;

    const LOAD: &str = r#"{"id":4,"method":"session/load","params":{}}"#;
    const UPDATE: &str = r#"{"method":"session/update","params":{}}"#;
    const LOADED: &str = r#"{"id":4,"result":{}}"#;

    fn said(key: &str) -> RowKind {
        let (role, text) = (Role::Agent, "hello".to_owned());
        item(key, ItemBody::Message(MessageBody { role, text, cut: None, late: false }))
    }

    fn story() -> Story {
        let story = Story::of(ReattachWritesNoRows::default()).stored(1, [said("before")]);
        story.spawned(0).stored(2, [started(0)]).host_wrote(0, LOAD)
    }

    #[test]
    fn what_is_said_after_the_answer_is_the_agents_own() {
        story().agent_wrote(0, UPDATE).agent_wrote(0, LOADED).stored(2, [said("before")]).holds();
        let own = story().agent_wrote(0, LOADED).agent_wrote(0, UPDATE);
        own.stored(2, [said("new")]).holds();
        story().agent_wrote(0, LOADED).prompts(0, 1).stored(2, [said("new")]).holds();
    }

    #[test]
    fn a_row_of_what_is_repeated_is_found() {
        let repeated = story().agent_wrote(0, UPDATE).stored(2, [said("again")]);
        repeated.breaks("while it reopens the session");
        let late = story().agent_wrote(0, UPDATE).agent_wrote(0, LOADED);
        late.stored(2, [said("again")]).breaks("child 0 says while it reopens");
    }
}
