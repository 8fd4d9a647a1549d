//! A turn that a person's Stop cut is that person's cancellation (rule 3.4.7): the other half of invariant 6.

use std::collections::BTreeMap;

use moored::ids::{SessionId, TurnKey};
use moored::journal::TurnState;
use moored::platform::{Mono, Report};

use super::rows;
use super::{Oracle, Verdict};
use crate::witness::{Facts, HostNo, Seen};

/// A turn that ends interrupted without a verdict, behind a Stop or close that names it and that the host had written
/// before it heard of the exit, is a cancellation.
#[derive(Default)]
pub(super) struct StopClaimsItsTurn {
    sessions: BTreeMap<SessionId, Session>,
}

#[derive(Default)]
struct Session {
    /// The turn of the newest Stop that a host wrote while its child had not been reported gone.
    claimed: Option<(HostNo, TurnKey)>,
    exited: bool,
}

impl Oracle for StopClaimsItsTurn {
    fn name(&self) -> &'static str {
        "stop-claims-its-turn"
    }

    fn rule(&self) -> &'static str {
        "3.4.7"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::Spawning { session, .. } => {
                rows::of(&mut self.sessions, session).exited = false;
            }
            Seen::Reported { child, report: Report::Exited { .. } } => {
                let session = &facts.children[*child].session;
                rows::of(&mut self.sessions, session).exited = true;
            }
            Seen::Submitted { host, unit } => {
                let kept = rows::of(&mut self.sessions, &unit.session);
                for stop in unit.rows.iter().filter_map(rows::stop) {
                    let named = stop.turn.clone().filter(|_| stop.reason.is_a_persons());
                    match named {
                        // A refused one is handed in again.
                        Some(turn) if !kept.exited => kept.claimed = Some((*host, turn)),
                        Some(_) => {}
                        None => kept.claimed = None,
                    }
                }
            }
            Seen::Stored { host, unit } => {
                let kept = rows::of(&mut self.sessions, &unit.session);
                for row in unit.rows.iter().filter(|row| !row.recovered) {
                    let unclaimed = rows::turns(row).find(|turn| {
                        turn.state == TurnState::Interrupted
                            && turn.outcome.is_none()
                            && kept
                                .claimed
                                .as_ref()
                                .is_some_and(|(by, of)| by == host && *of == turn.turn)
                    });
                    if let Some(turn) = unclaimed {
                        let (turn, session) = (&turn.turn, &unit.session);
                        return Err(format!(
                            "a person stopped {turn} of {session}, and it does not end as theirs"
                        ));
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
    use moored::ids::Fence;
    use moored::journal::{Outcome, RowKind, StopReason};
    use moored::store::Unit;

    use super::super::kit::{Story, session, stop, turn};
    use super::*;

    fn working() -> Story {
        let story = Story::of(StopClaimsItsTurn::default()).spawned(0);
        story.stored(1, [turn(1, TurnState::Running, None)])
    }

    fn wrote(story: Story, kind: RowKind) -> Story {
        let row = moored::journal::Row {
            v: moored::journal::ROW_VERSION,
            epoch: "e".into(),
            seq: 9,
            fence: Fence(1),
            at_ms: 9,
            recovered: false,
            kind,
        };
        let rows = vec![row];
        let unit = Unit {
            session: session(),
            fence: Fence(1),
            rows,
            ledger: None,
            record: None,
            resumes: false,
        };
        story.see(&Seen::Submitted { host: 0, unit: &unit })
    }

    fn exits(story: Story) -> Story {
        let report = Report::Exited { exit: moored::platform::Exit::Code(0) };
        story.see(&Seen::Reported { child: 0, report: &report })
    }

    #[test]
    fn a_turn_that_was_stopped_is_the_persons_and_one_that_had_gone_is_news() {
        let cut = |outcome| [turn(1, TurnState::Interrupted, outcome)];
        let press = || stop(StopReason::UserStop, Some("t1"));
        let stopped = || exits(wrote(working(), press()));
        stopped().stored(1, cut(Some(Outcome::Cancellation))).holds();
        stopped().stored(1, cut(None)).breaks("does not end as theirs");
        wrote(exits(working()), press()).stored(1, cut(None)).holds();
        let evicted = wrote(working(), stop(StopReason::Evict, Some("t1")));
        exits(evicted).stored(1, cut(None)).holds();
        stopped().stored_by(1, 2, cut(None), None).holds();
    }
}
