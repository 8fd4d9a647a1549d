//! A Stop is taken whatever the store does (rule 3.1.2).

use std::collections::BTreeSet;

use moored::failure::RefusalCode;
use moored::platform::Mono;

use super::{Oracle, Verdict};
use crate::scenario::Act;
use crate::witness::{Facts, Seen};

/// No Stop is refused because it cannot be saved.
#[derive(Default)]
pub(super) struct StopNeedsNoStore {
    stops: BTreeSet<usize>,
}

impl Oracle for StopNeedsNoStore {
    fn name(&self) -> &'static str {
        "stop-needs-no-store"
    }

    fn rule(&self) -> &'static str {
        "3.1.2, 5.10.5"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        match seen {
            Seen::Called { call, act: Act::Stop { .. }, .. } => {
                self.stops.insert(*call);
            }
            Seen::Answered { call, refused: Some(name), session, .. }
                if self.stops.contains(call) && *name == RefusalCode::NotSaved.name() =>
            {
                return Err(format!("a Stop of {session} is refused because it cannot be saved"));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::kit::{Story, send_act, session};
    use super::*;
    use crate::scenario::NamedTurn;

    fn refused(act: &Act, name: &str) -> Story {
        let story = Story::of(StopNeedsNoStore::default()).called(act);
        story.see(&Seen::Answered {
            call: 0,
            refused: Some(name),
            message: None,
            session: &session(),
        })
    }

    #[test]
    fn a_send_is_refused_for_it_and_a_stop_for_other_reasons() {
        let stop = Act::Stop { session: 0, turn: NamedTurn::None };
        refused(&send_act(1), "not_saved").holds();
        refused(&stop, "quitting").holds();
        Story::of(StopNeedsNoStore::default()).called(&stop).answered(0, None).holds();
    }

    #[test]
    fn a_stop_that_is_refused_for_it_is_found() {
        let stop = Act::Stop { session: 0, turn: NamedTurn::Running };
        refused(&stop, "not_saved").breaks("because it cannot be saved");
    }
}
