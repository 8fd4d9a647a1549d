//! A call that expects a fence at which its session does not stand is not carried out (rule 5.10.2).

use std::collections::BTreeMap;

use moored::ids::{Fence, SessionId};
use moored::platform::Mono;

use super::{Oracle, Verdict};
use crate::witness::{Facts, Seen};

/// A call that is carried out expected no fence, or one that its session has reached.
#[derive(Default)]
pub(super) struct StaleCallIsRefused {
    newest: BTreeMap<SessionId, Fence>,
    expecting: BTreeMap<usize, Fence>,
}

impl Oracle for StaleCallIsRefused {
    fn name(&self) -> &'static str {
        "stale-call-is-refused"
    }

    fn rule(&self) -> &'static str {
        "5.10.2"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        match seen {
            Seen::Stored { unit, .. } => {
                let in_record = unit.record.as_ref().map(|change| change.record.lease.fence);
                let newest = in_record.into_iter().chain([unit.fence]).max();
                let kept = self.newest.entry(unit.session.clone()).or_insert(Fence(0));
                *kept = newest.map_or(*kept, |newest| newest.max(*kept));
            }
            Seen::Called { call, expects: Some(fence), .. } => {
                self.expecting.insert(*call, *fence);
            }
            Seen::Answered { call, refused: None, session, .. } => {
                let Some(expected) = self.expecting.remove(call) else { return Ok(()) };
                let newest = self.newest.get(*session).copied().unwrap_or(Fence(0));
                // One more may be reserved and not stored yet.
                if expected > newest.next() {
                    return Err(format!(
                        "call {call} expects {session} at fence {expected}, which is at {newest}, and is carried out"
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
    use super::super::kit::{Story, record, send_act, session};
    use super::*;

    /// At fence 1.
    fn called(expects: Option<u64>) -> Story {
        let story = Story::of(StaleCallIsRefused::default()).recorded(record(None, false));
        story.see(&Seen::Called {
            call: 0,
            host: 0,
            act: &send_act(1),
            session: &session(),
            again: false,
            expects: expects.map(Fence),
        })
    }

    #[test]
    fn a_call_that_expects_what_is_or_nothing_is_carried_out_and_any_other_refused() {
        called(None).answered(0, None).holds();
        called(Some(1)).answered(0, None).holds();
        let refused = Some("checkpoint_stale");
        let session = session();
        let stale = Seen::Answered { call: 0, refused, message: None, session: &session };
        called(Some(7)).see(&stale).holds();
    }

    #[test]
    fn a_call_that_expects_another_fence_and_is_carried_out_is_found() {
        called(Some(7)).answered(0, None).breaks("expects s1 at fence 7, which is at 1");
    }
}
