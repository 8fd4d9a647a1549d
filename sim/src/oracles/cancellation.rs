//! Invariant 6: only a person's Stop or close makes a cut turn a cancellation, and only the turn it stopped.

use std::collections::{BTreeMap, BTreeSet};

use moored::ids::{Fence, ItemKey, SessionId, TurnKey};
use moored::journal::{Outcome, StopEvent, TurnBody};
use moored::platform::{Mono, Report};

use super::prompts::Prompts;
use super::rows;
use super::{Oracle, Verdict};
use crate::scenario::Act;
use crate::witness::{Facts, Seen, Shape};

/// A cancellation is the agent's word, or a person's Stop or close that named the turn or could have reached it.
#[derive(Default)]
pub(super) struct CancellationIsAPersons {
    sessions: BTreeMap<SessionId, Session>,
    prompts: Prompts,
}

#[derive(Default)]
struct Session {
    /// Messages whose prompts were answered `cancelled`.
    cancelled: BTreeSet<ItemKey>,
    /// The newest Stop of any reason, and the fence it was written under.
    stop: Option<(StopEvent, Fence)>,
    /// Under which fence each turn began.
    begun: BTreeMap<TurnKey, Fence>,
    /// When a person first pressed Stop or closed the session, since its newest child was asked for.
    pressed: Option<Mono>,
    /// When that child was reported gone.
    exited: Option<Mono>,
}

impl Session {
    /// Rule 3.4.7, as far as it is seen from outside.
    fn is_a_persons(&self, turn: &TurnBody) -> bool {
        let Some((stop, fence)) = &self.stop else { return false };
        let in_time = match (self.pressed, self.exited) {
            // Which came first is not for the wall clock to say (rule 3.4.8).
            (Some(pressed), Some(exited)) => pressed <= exited,
            // An earlier host saw one of them.
            _ => turn.completed_ms.is_none_or(|ended| ended >= stop.at_ms),
        };
        let reached = match &stop.turn {
            Some(named) => *named == turn.turn,
            // A Stop that named no turn ends its child: a turn of a later one is not its.
            None => self.begun.get(&turn.turn).is_none_or(|begun| begun <= fence),
        };
        stop.reason.is_a_persons() && in_time && reached
    }
}

impl Oracle for CancellationIsAPersons {
    fn name(&self) -> &'static str {
        "cancellation-is-a-persons"
    }

    fn rule(&self) -> &'static str {
        "invariant 6, 3.4.7"
    }

    fn see(&mut self, now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        self.prompts.learn(seen, facts);
        match seen {
            Seen::Spawning { session, .. } => {
                let kept = rows::of(&mut self.sessions, session);
                (kept.pressed, kept.exited) = (None, None);
            }
            Seen::Called { act: Act::Stop { .. } | Act::Close { .. }, session, .. } => {
                rows::of(&mut self.sessions, session).pressed.get_or_insert(now);
            }
            // The exit of a child whose start failed may be told behind the start of the next.
            Seen::Reported { child, report: Report::Exited { .. } }
                if facts.is_the_newest(*child) =>
            {
                let session = &facts.children[*child].session;
                rows::of(&mut self.sessions, session).exited.get_or_insert(now);
            }
            Seen::AgentWrote { child, line, .. } if line.shape == Shape::Answer => {
                let Some(user) = self.prompts.answered(*child, line) else { return Ok(()) };
                let says = |word: &[u8]| line.bytes.windows(word.len()).any(|w| w == word);
                if says(b"\"cancelled\"") {
                    let session = &facts.children[*child].session;
                    rows::of(&mut self.sessions, session).cancelled.insert(user);
                }
            }
            Seen::Stored { unit, .. } => {
                let kept = rows::of(&mut self.sessions, &unit.session);
                for row in &unit.rows {
                    if let Some(stop) = rows::stop(row) {
                        kept.stop = Some((stop.clone(), row.fence));
                    }
                    for turn in rows::turns(row) {
                        if !rows::is_over(turn.state) {
                            kept.begun.entry(turn.turn.clone()).or_insert(row.fence);
                        }
                        let by_agent =
                            turn.user_item.as_ref().is_some_and(|u| kept.cancelled.contains(u));
                        if turn.outcome == Some(Outcome::Cancellation)
                            && !by_agent
                            && !kept.is_a_persons(turn)
                        {
                            let (turn, session) = (&turn.turn, &unit.session);
                            return Err(format!(
                                "{turn} of {session} reads cancelled by a person, and neither its agent nor a Stop in the journal says so"
                            ));
                        }
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
    use moored::journal::{RowKind, StopReason, TurnState};

    use super::super::kit::{Story, stop, submission, turn};
    use super::*;

    fn story() -> Story {
        let story = Story::of(CancellationIsAPersons::default()).spawned(0);
        story.stored(1, [submission(1), turn(1, TurnState::Running, None)]).prompts(0, 1)
    }

    fn cancelled() -> RowKind {
        turn(1, TurnState::Interrupted, Some(Outcome::Cancellation))
    }

    #[test]
    fn the_agents_word_and_a_persons_stop_make_a_cancellation() {
        let word = story().agent_wrote(0, r#"{"id":1,"result":{"stopReason":"cancelled"}}"#);
        word.stored(1, [cancelled()]).holds();
        story().stored(1, [stop(StopReason::UserStop, Some("t1")), cancelled()]).holds();
        story().stored(1, [stop(StopReason::UserClose, None), cancelled()]).holds();
    }

    #[test]
    fn anything_else_is_found() {
        let words = "neither its agent nor a Stop";
        story().stored(1, [cancelled()]).breaks(words);
        story().stored(1, [stop(StopReason::HostStop, Some("t1")), cancelled()]).breaks(words);
        story().stored(1, [stop(StopReason::UserStop, Some("t7")), cancelled()]).breaks(words);
        let ended = story().agent_wrote(0, r#"{"id":1,"result":{"stopReason":"end_turn"}}"#);
        ended.stored(1, [cancelled()]).breaks(words);
    }

    #[test]
    fn a_stop_does_not_reach_a_turn_of_a_later_child_nor_an_earlier_exit() {
        let story_of = || Story::of(CancellationIsAPersons::default());
        let later = story_of().stored(1, [stop(StopReason::UserStop, None)]);
        let later = later.stored(2, [turn(1, TurnState::Running, None), cancelled()]);
        later.breaks("neither its agent nor a Stop");
        let RowKind::Mark { mark: moored::journal::Mark::Stop(mut event) } =
            stop(StopReason::UserStop, Some("t1"))
        else {
            panic!("it is a Stop");
        };
        event.at_ms = 30;
        let late = RowKind::Mark { mark: moored::journal::Mark::Stop(event) };
        story().stored(1, [late.clone(), cancelled()]).breaks("neither its agent nor a Stop");
        // Where the world saw both, the wall clock is not asked.
        let press = Act::Stop { session: 0, turn: crate::scenario::NamedTurn::None };
        let report = Report::Exited { exit: moored::platform::Exit::Code(1) };
        let exit = Seen::Reported { child: 0, report: &report };
        let pressed = story().called(&press).at_ms(5).see(&exit).at_ms(9);
        pressed.stored(1, [late.clone(), cancelled()]).holds();
        let exited = story().see(&exit).at_ms(5).called(&press).at_ms(9);
        exited.stored(1, [late, cancelled()]).breaks("neither its agent nor a Stop");
    }
}
