//! A Stop that is asked again stops nothing again (rule 3.1.3).

use std::collections::{BTreeMap, BTreeSet};

use moored::ids::{OperationId, SessionId};
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Verdict};
use crate::witness::{Facts, Seen};

/// One operation writes one Stop.
#[derive(Default)]
pub(super) struct StopsOnce {
    sessions: BTreeMap<SessionId, BTreeSet<OperationId>>,
}

impl Oracle for StopsOnce {
    fn name(&self) -> &'static str {
        "stops-once"
    }

    fn rule(&self) -> &'static str {
        "3.1.3"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        let Seen::Stored { unit, .. } = seen else { return Ok(()) };
        let session = &unit.session;
        for row in &unit.rows {
            let Some(stop) = rows::stop(row) else { continue };
            if !rows::of(&mut self.sessions, session).insert(stop.op.clone()) {
                let seq = row.seq;
                return Err(format!("row {seq} of {session} stops again what was stopped before"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use moored::journal::{Mark, RowKind, StopReason};

    use super::super::kit::{Story, stop};
    use super::*;

    fn another() -> RowKind {
        let RowKind::Mark { mark: Mark::Stop(mut event) } = stop(StopReason::UserStop, None) else {
            panic!("it is a Stop");
        };
        event.op = "another".into();
        RowKind::Mark { mark: Mark::Stop(event) }
    }

    #[test]
    fn every_press_stops_for_itself() {
        let once = Story::of(StopsOnce::default()).stored(1, [stop(StopReason::UserStop, None)]);
        once.stored(1, [another()]).holds();
    }

    #[test]
    fn a_press_that_stops_twice_is_found() {
        let once = Story::of(StopsOnce::default()).stored(1, [stop(StopReason::UserStop, None)]);
        let again = once.stored(2, [another(), stop(StopReason::UserStop, Some("t1"))]);
        again.breaks("row 3 of s1 stops again");
    }
}
