//! Subscribers converge, whatever they lagged, missed or applied late; and are told nothing that is not on disk.

use std::collections::BTreeMap;

use moored::driver::WatchFrame;
use moored::ids::SessionId;
use moored::platform::Mono;
use moored::status::{StatusFrame, Summary};

use super::rows;
use super::{Oracle, Rest, Verdict};
use crate::witness::{Facts, Seen};

/// At rest every client's copy is the host's own; and no frame is ahead of what is stored.
#[derive(Default)]
pub(super) struct SubscribersConverge {
    /// The last stored row of each session.
    stored: BTreeMap<SessionId, u64>,
}

impl SubscribersConverge {
    fn is_stored(&mut self, session: &SessionId, seq: u64, what: &str) -> Verdict {
        let stored = *rows::of(&mut self.stored, session);
        if seq <= stored {
            return Ok(());
        }
        Err(format!("{what} of {session} is of row {seq}, and only {stored} rows are stored"))
    }

    fn told(&mut self, summary: &Summary) -> Verdict {
        self.is_stored(&summary.session_id, summary.cursor.seq, "a status")
    }
}

impl Oracle for SubscribersConverge {
    fn name(&self) -> &'static str {
        "subscribers-converge"
    }

    fn rule(&self) -> &'static str {
        "6.7.2, 6.5.1, D26"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        match seen {
            Seen::Stored { unit, .. } => {
                if let Some(row) = unit.rows.last() {
                    *rows::of(&mut self.stored, &unit.session) = row.seq;
                }
                Ok(())
            }
            Seen::Fed { session, frame: WatchFrame::Snapshot(whole), .. } => {
                self.is_stored(session, whole.cursor.seq, "a snapshot")
            }
            Seen::Fed { session, frame: WatchFrame::Batch(batch), .. } => {
                self.is_stored(session, batch.cursor.seq, "a batch")
            }
            Seen::Told { frame: StatusFrame::Status { summary }, .. } => self.told(summary),
            Seen::Told { frame: StatusFrame::Snapshot { summaries }, .. } => {
                summaries.iter().try_for_each(|summary| self.told(summary))
            }
            _ => Ok(()),
        }
    }

    fn at_rest(&mut self, rest: &Rest<'_>) -> Verdict {
        for session in rest.sessions {
            let Some(whole) = &session.snapshot else { continue };
            for (client, copy) in &session.clients {
                let id = &session.id;
                let items = copy.items();
                let differs = whole.items.iter().zip(&items).find(|(own, copied)| *own != **copied);
                if let Some((own, _)) = differs {
                    let (item, revision) = (&own.item, own.revision);
                    return Err(format!(
                        "client {client} has {item} of {id} otherwise than its host at revision {revision}"
                    ));
                }
                if items.len() != whole.items.len() {
                    let (has, of) = (items.len(), whole.items.len());
                    return Err(format!("client {client} has {has} of the {of} items of {id}"));
                }
                let sends = copy.submissions();
                let same = sends.len() == whole.submissions.len()
                    && whole.submissions.iter().zip(&sends).all(|(own, copied)| own == *copied);
                if !same {
                    return Err(format!(
                        "client {client} has the sends of {id} otherwise than its host"
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use moored::journal::{Batch, Cursor, Fold, Outcome, Snapshot, Timeline, Touched, TurnState};

    use super::super::RestingSession;
    use super::super::kit::{Story, session, submission, turn};
    use super::*;

    fn fed(story: Story, seq: u64) -> Story {
        let cursor = Cursor { epoch: "e".into(), seq };
        let frame = WatchFrame::Batch(Batch { cursor, ..Batch::default() });
        let session = session();
        story.see(&Seen::Fed { client: 0, session: &session, host: 0, frame: &frame })
    }

    fn story() -> Story {
        let over = turn(1, TurnState::Completed, Some(Outcome::Success));
        Story::of(SubscribersConverge::default()).stored(1, [submission(1), over])
    }

    fn rests(copies_all: bool, also_sends: bool) -> Story {
        let story = story();
        let whole = {
            let mut fold = Fold::new();
            story.rows().iter().for_each(|row| fold.apply(row, &mut Touched::unheard()));
            fold.snapshot()
        };
        let mut copy = Timeline::default();
        let mut partly = whole.clone();
        if !copies_all {
            partly.items.pop();
        }
        if !also_sends {
            partly.submissions.clear();
        }
        copy.apply_snapshot(partly);
        let resting = RestingSession {
            id: session(),
            rows: Vec::new(),
            fault: None,
            snapshot: Some(whole),
            clients: vec![(0, copy)],
            summary: None,
        };
        story.rests_as(resting, &[])
    }

    #[test]
    fn a_client_that_has_everything_converged() {
        rests(true, true).holds();
        fed(story(), 2).holds();
    }

    #[test]
    fn a_gap_and_news_before_the_disk_are_found() {
        rests(false, true).breaks("client 0 has 1 of the 2 items");
        rests(true, false).breaks("has the sends of s1 otherwise");
        fed(story(), 3).breaks("a batch of s1 is of row 3, and only 2 rows are stored");
        let early = WatchFrame::Snapshot(Snapshot {
            cursor: Cursor { epoch: "e".into(), seq: 9 },
            ..Snapshot::default()
        });
        let seen = Seen::Fed { client: 0, session: &session(), host: 0, frame: &early };
        story().see(&seen).breaks("a snapshot of s1 is of row 9");
    }
}
