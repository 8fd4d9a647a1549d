//! What was acknowledged survives, whatever dies.

use std::collections::{BTreeMap, BTreeSet};

use moored::driver::WatchFrame;
use moored::ids::{MessageId, SessionId};
use moored::journal::RowKind;
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Rest, Verdict};
use crate::witness::{Facts, HostNo, Seen};

/// A message whose send was answered is in everything that a later host says of its session, and in the journal at rest.
#[derive(Default)]
pub(super) struct AcknowledgedSurvives {
    sessions: BTreeMap<SessionId, Acknowledged>,
    newest: HostNo,
}

#[derive(Default)]
struct Acknowledged {
    /// Each message, and the newest host when it was acknowledged.
    messages: BTreeMap<MessageId, HostNo>,
    /// Hosts whose first whole was looked at.
    looked_at: BTreeSet<HostNo>,
}

impl Oracle for AcknowledgedSurvives {
    fn name(&self) -> &'static str {
        "acknowledged-survives"
    }

    fn rule(&self) -> &'static str {
        "5.1.1, 6.5.1, R23"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        match seen {
            Seen::HostOpened { host } => self.newest = self.newest.max(*host),
            Seen::Answered { refused: None, message: Some(message), session, .. } => {
                let newest = self.newest;
                let kept = rows::of(&mut self.sessions, session);
                kept.messages.entry((*message).clone()).or_insert(newest);
            }
            Seen::Fed { session, host, frame: WatchFrame::Snapshot(whole), .. } => {
                let kept = rows::of(&mut self.sessions, session);
                if !kept.looked_at.insert(*host) {
                    return Ok(());
                }
                let listed: BTreeSet<_> = whole.submissions.iter().map(|s| &s.message_id).collect();
                let mut earlier = kept.messages.iter().filter(|(_, acked_by)| *acked_by < host);
                if let Some((lost, acked_by)) =
                    earlier.find(|(message, _)| !listed.contains(message))
                {
                    return Err(format!(
                        "host {host} does not know {lost} of {session}, which was acknowledged when host {acked_by} was the newest"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn at_rest(&mut self, rest: &Rest<'_>) -> Verdict {
        for session in rest.sessions {
            let Some(kept) = self.sessions.get(&session.id) else { continue };
            let stored: BTreeSet<_> = session
                .rows
                .iter()
                .filter_map(|row| match &row.kind {
                    RowKind::Submission { message_id, .. } => Some(message_id),
                    _ => None,
                })
                .collect();
            if let Some(lost) = kept.messages.keys().find(|message| !stored.contains(message)) {
                let session = &session.id;
                return Err(format!(
                    "{lost} was acknowledged, and the journal of {session} has it not"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use moored::journal::Snapshot;

    use super::super::kit::{Story, message, session, submission};
    use super::*;

    fn acknowledged() -> Story {
        let story = Story::of(AcknowledgedSurvives::default()).see(&Seen::HostOpened { host: 0 });
        story.answered(0, Some(&message(1)))
    }

    fn told(story: Story, host: HostNo) -> Story {
        let (session, frame) = (session(), WatchFrame::Snapshot(Snapshot::default()));
        story.see(&Seen::Fed { client: 0, session: &session, host, frame: &frame })
    }

    #[test]
    fn what_is_stored_is_there_and_a_frame_from_before_may_be_late() {
        told(acknowledged(), 0).stored(1, [submission(1)]).rests(&[]).holds();
    }

    #[test]
    fn what_is_lost_is_found_at_rest_and_at_the_next_host() {
        acknowledged().stored(1, [submission(2)]).rests(&[]).breaks("m1 was acknowledged");
        told(acknowledged(), 1).breaks("host 1 does not know m1");
    }
}
