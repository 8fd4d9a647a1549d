//! Which message a prompt on the wire is of, and which one an answer settles.

use std::collections::BTreeMap;

use moored::ids::{ItemKey, SessionId};
use moored::journal::{RowKind, user_item};

use super::rows;
use crate::witness::{ChildNo, Facts, Line, Seen};

/// The prompts of a run, by the messages they are of.
#[derive(Default)]
pub(super) struct Prompts {
    /// The message of each text that was submitted.
    texts: BTreeMap<SessionId, BTreeMap<String, ItemKey>>,
    /// The message of each prompt on the wire, by its id.
    open: BTreeMap<ChildNo, BTreeMap<String, ItemKey>>,
}

impl Prompts {
    /// Learns of messages as they are stored, and of prompts as they are written.
    pub(super) fn learn(&mut self, seen: &Seen<'_>, facts: &Facts) {
        match seen {
            Seen::Stored { unit, .. } => {
                for row in &unit.rows {
                    if let RowKind::Submission { message_id, text, .. } = &row.kind {
                        let texts = rows::of(&mut self.texts, &unit.session);
                        texts.insert(text.0.clone(), user_item(message_id));
                    }
                }
            }
            Seen::HostWrote { child, line } if line.method() == Some("session/prompt") => {
                let (Some(at), Some(id), Some(text)) =
                    (facts.children.get(*child), line.id, line.prompt_text())
                else {
                    return;
                };
                let user = self.texts.get(&at.session).and_then(|texts| texts.get(&text));
                if let Some(user) = user {
                    self.open.entry(*child).or_default().insert(id.to_owned(), user.clone());
                }
            }
            _ => {}
        }
    }

    /// The message that an answer of a child's settles: the first answer counts (decision D9).
    pub(super) fn answered(&mut self, child: ChildNo, line: &Line<'_>) -> Option<ItemKey> {
        self.open.get_mut(&child)?.remove(line.id?)
    }
}
