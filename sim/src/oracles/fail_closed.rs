//! Invariant 12: in doubt refuse, and never start something new silently.

use std::collections::BTreeMap;

use moored::ids::{SessionId, SpawnToken};
use moored::platform::Mono;
use moored::session::record::Claim;
use moored::store::Refusal;

use super::rows;
use super::{Oracle, Verdict};
use crate::witness::{Facts, HostNo, Seen};

/// A host that lost its store writes nothing more, nor does one that a newer one has taken over; a closed session starts
/// nothing; and a claim that may still be somebody's is not reserved over.
#[derive(Default)]
pub(super) struct FailClosed {
    newest: HostNo,
    lost: BTreeMap<HostNo, SessionId>,
    sessions: BTreeMap<SessionId, Record>,
}

#[derive(Default)]
struct Record {
    claim: Claim,
    token: Option<SpawnToken>,
    closed: bool,
}

impl Oracle for FailClosed {
    fn name(&self) -> &'static str {
        "fail-closed"
    }

    fn rule(&self) -> &'static str {
        "invariant 12, 6.13.6, D35"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        match seen {
            Seen::HostOpened { host } => self.newest = self.newest.max(*host),
            Seen::UnitAnswered { host, session, refusal: Some(Refusal::Closed { .. }), .. } => {
                self.lost.entry(*host).or_insert_with(|| (*session).clone());
            }
            Seen::Stored { host, unit } => {
                let session = &unit.session;
                if let Some(first) = self.lost.get(host) {
                    return Err(format!(
                        "host {host} stores rows of {session} after its store was closed to {first}"
                    ));
                }
                if *host < self.newest {
                    let newest = self.newest;
                    return Err(format!(
                        "host {host} stores rows of {session} while host {newest} owns the store"
                    ));
                }
                self.newest = *host;
                let Some(change) = &unit.record else { return Ok(()) };
                let (before, lease) = (rows::of(&mut self.sessions, session), &change.record.lease);
                let takes_over = lease.token.is_some()
                    && before.token != lease.token
                    && before.claim != Claim::Released;
                before.claim = lease.claim;
                before.token.clone_from(&lease.token);
                before.closed = change.record.closed;
                if takes_over {
                    return Err(format!(
                        "{session} is reserved over a claim that was not released"
                    ));
                }
            }
            Seen::Spawning { child, session, .. }
                if rows::of(&mut self.sessions, session).closed =>
            {
                return Err(format!("child {child} is asked for, and {session} is closed"));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use moored::store::RetryReason;

    use super::super::kit::{Story, record, session, submission};
    use super::*;

    fn story() -> Story {
        Story::of(FailClosed::default()).see(&Seen::HostOpened { host: 0 })
    }

    fn refused(story: Story, refusal: &Refusal) -> Story {
        let session = session();
        let refusal = Some(refusal);
        story.see(&Seen::UnitAnswered { host: 0, session: &session, last_seq: 1, refusal })
    }

    #[test]
    fn a_refusal_that_passes_and_a_new_owner_hold() {
        let again = refused(story(), &Refusal::Retry { reason: RetryReason::Full });
        let again = again.stored(1, [submission(1)]).see(&Seen::HostOpened { host: 1 });
        again.stored_by(1, 1, [submission(2)], None).holds();
        let free = story().recorded(record(Some("a"), false)).recorded(record(None, false));
        free.recorded(record(Some("b"), false)).asked_for(0).holds();
    }

    #[test]
    fn rows_of_a_host_that_lost_its_store_are_found() {
        let lost = refused(story(), &Refusal::Closed { reason: "gone".to_owned() });
        lost.stored(1, [submission(1)]).breaks("after its store was closed");
        let replaced = story().see(&Seen::HostOpened { host: 1 });
        replaced.stored(1, [submission(1)]).breaks("while host 1 owns the store");
    }

    #[test]
    fn a_start_over_a_claim_or_a_close_is_found() {
        let over = story().recorded(record(Some("a"), false));
        over.recorded(record(Some("b"), false)).breaks("a claim that was not released");
        story().recorded(record(None, true)).asked_for(0).breaks("s1 is closed");
    }
}
