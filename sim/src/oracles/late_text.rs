//! What an agent says right behind its answer belongs to the turn it answered (decision D3).

use std::collections::BTreeMap;

use moored::ids::{Fence, SessionId, TurnKey};
use moored::journal::{ItemBody, Row, RowKind};
use moored::limits::LATE_UPDATE_WINDOW_MS;
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Verdict};
use crate::scenario::Fault;
use crate::witness::{Facts, Seen};

/// No turn of the agent's own opens with words within the window behind the end of the turn before it. News of a call
/// opens one at any time.
#[derive(Default)]
pub(super) struct LateTextJoinsItsTurn {
    sessions: BTreeMap<SessionId, Session>,
    /// Rows tell by the wall clock, which says nothing once it was set or slept through.
    clock_moved: bool,
}

#[derive(Default)]
struct Session {
    /// When the newest turn that is over ended, and under which fence.
    ended: Option<(Fence, u64)>,
    /// A turn that opened within the window, and how long behind the one before it; what opens it comes next.
    opened: Option<(TurnKey, u64)>,
}

impl Session {
    fn row(&mut self, row: &Row) -> Result<(), (TurnKey, u64)> {
        if let Some(opened) = self.opened.take() {
            match opening(row) {
                Some(true) => return Err(opened),
                Some(false) => {}
                None => self.opened = Some(opened),
            }
        }
        for turn in rows::turns(row) {
            if !rows::is_over(turn.state) {
                let before = self.ended.filter(|(fence, _)| *fence == row.fence);
                let gap = before.and_then(|(_, ended)| turn.started_ms.checked_sub(ended));
                let gap = gap.filter(|gap| *gap < LATE_UPDATE_WINDOW_MS);
                self.opened =
                    gap.filter(|_| turn.user_item.is_none()).map(|gap| (turn.turn.clone(), gap));
            } else if let Some(ended) = turn.completed_ms {
                self.ended = Some((row.fence, ended));
            }
        }
        Ok(())
    }
}

/// Whether a row is of an agent's words, or of something else an agent does; none if it is of neither.
fn opening(row: &Row) -> Option<bool> {
    if matches!(row.kind, RowKind::Text { .. }) {
        return Some(true);
    }
    rows::items(row).find_map(|item| match &item.body {
        ItemBody::Message(_) | ItemBody::Plan(_) | ItemBody::Raw(_) => Some(true),
        ItemBody::Tool(_) | ItemBody::Approval(_) => Some(false),
        _ => None,
    })
}

impl Oracle for LateTextJoinsItsTurn {
    fn name(&self) -> &'static str {
        "late-text-joins-its-turn"
    }

    fn rule(&self) -> &'static str {
        "D3, 2.1.5"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        match seen {
            Seen::Struck { fault: Fault::ClockStep { .. } | Fault::Suspend { .. }, .. } => {
                self.clock_moved = true;
            }
            Seen::Stored { unit, .. } if !self.clock_moved => {
                let session = &unit.session;
                let kept = rows::of(&mut self.sessions, session);
                for row in &unit.rows {
                    kept.row(row).map_err(|(turn, gap)| {
                        format!(
                            "{turn} of {session} opens with words {gap} ms behind the end of the turn that they belong to"
                        )
                    })?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use moored::journal::{MessageBody, Outcome, Role, ToolBody, ToolStatus, TurnState};

    use super::super::kit::{Story, item, turn, turn_body};
    use super::*;

    /// A turn that ended at 20 ms.
    fn story() -> Story {
        let ended = turn(1, TurnState::Completed, Some(Outcome::Success));
        Story::of(LateTextJoinsItsTurn::default())
            .stored(1, [turn(1, TurnState::Running, None), ended])
    }

    fn opens(started_ms: u64) -> RowKind {
        let body = turn_body(2, TurnState::Running, None);
        item(
            "turn:t2",
            ItemBody::Turn(moored::journal::TurnBody { user_item: None, started_ms, ..body }),
        )
    }

    fn words() -> RowKind {
        let (role, text) = (Role::Agent, "one more thing".to_owned());
        item("words", ItemBody::Message(MessageBody { role, text, cut: None, late: false }))
    }

    fn call() -> RowKind {
        let body = ToolBody {
            tool_call_id: "call".to_owned(),
            title: "make".to_owned(),
            tool_kind: None,
            status: ToolStatus::Running,
            ended_as: None,
            input: None,
            output: None,
            late: false,
        };
        item("tool:call", ItemBody::Tool(body))
    }

    #[test]
    fn words_behind_the_window_a_call_and_another_child_open_a_turn() {
        story().stored(1, [words()]).holds();
        story().stored(1, [opens(270), words()]).holds();
        story().stored(1, [opens(30), call(), words()]).holds();
        story().stored(2, [opens(30), words()]).holds();
        let step = Seen::Struck { fault: &Fault::ClockStep { ms: -1_000 }, hit: true };
        story().see(&step).stored(1, [opens(30), words()]).holds();
    }

    #[test]
    fn words_within_the_window_that_open_a_turn_are_found() {
        story().stored(1, [opens(269), words()]).breaks("249 ms behind the end of the turn");
        story().stored(1, [opens(20)]).stored(1, [words()]).breaks("0 ms behind the end");
    }
}
