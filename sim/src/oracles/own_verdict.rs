//! Invariant 5: the agent's own verdict on a turn is never overwritten.

use std::collections::BTreeMap;

use moored::ids::{ItemKey, SessionId, TurnKey};
use moored::journal::{ChildRow, Outcome, Row, TurnBody, TurnState};
use moored::platform::Mono;
use serde::Deserialize;

use super::prompts::Prompts;
use super::rows::{self, Generations};
use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, Line, Seen, Shape};

/// A turn ends as its agent says (rule 2.2.1), when it said anything that was read; and then stays so, but for the proof
/// that settles an unverifiable one.
#[derive(Default)]
pub(super) struct OwnVerdict {
    generations: Generations,
    sessions: BTreeMap<SessionId, Session>,
    prompts: Prompts,
}

#[derive(Default)]
struct Session {
    said: BTreeMap<ItemKey, (ChildNo, Said)>,
    ended: BTreeMap<TurnKey, (TurnState, Option<Outcome>)>,
}

/// What an agent answered a prompt with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Reason(String),
    Error,
    /// No answer by the protocol.
    Nonsense,
}

impl Said {
    fn of(line: &Line<'_>) -> Self {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            result: Option<serde_json::Value>,
            #[serde(default)]
            error: Option<serde_json::Value>,
        }
        match serde_json::from_slice::<Answer>(line.bytes) {
            Ok(Answer { error: Some(_), .. }) => Self::Error,
            Ok(Answer { result: Some(result), .. }) => match result.get("stopReason") {
                Some(serde_json::Value::String(reason)) => Self::Reason(reason.clone()),
                _ => Self::Nonsense,
            },
            _ => Self::Nonsense,
        }
    }

    /// The table of rule 2.2.1. What does not parse may read as a failure or as unknown.
    fn allows(&self, state: TurnState, outcome: Option<Outcome>) -> bool {
        let end = (state, outcome);
        match self {
            Self::Reason(reason) => match reason.as_str() {
                "end_turn" => end == (TurnState::Completed, Some(Outcome::Success)),
                "cancelled" => end == (TurnState::Interrupted, Some(Outcome::Cancellation)),
                "refusal" | "max_tokens" | "max_turn_requests" | "error" | "rate_limit" => {
                    end == (TurnState::Completed, Some(Outcome::Failure))
                }
                _ => end == (TurnState::Completed, None),
            },
            Self::Error => end == (TurnState::Completed, Some(Outcome::Failure)),
            Self::Nonsense => {
                state == TurnState::Completed && matches!(outcome, None | Some(Outcome::Failure))
            }
        }
    }

    fn words(&self) -> &str {
        match self {
            Self::Reason(reason) => reason,
            Self::Error => "an error",
            Self::Nonsense => "nothing by the protocol",
        }
    }
}

impl OwnVerdict {
    fn ended(
        &mut self,
        session: &SessionId,
        row: &Row,
        turn: &TurnBody,
        exit: Option<ChildNo>,
    ) -> Verdict {
        let kept = rows::of(&mut self.sessions, session);
        let end = (turn.state, turn.outcome);
        let name = &turn.turn;
        if let Some(before) = kept.ended.get(name) {
            // Proof settles what was unverifiable (rules 2.3.8, 6.11.3).
            if before.0 != TurnState::Unverifiable && *before != end {
                return Err(format!(
                    "row {} of {session} rewrites {name}, which had ended {:?} {:?}, as {:?} {:?}",
                    row.seq, before.0, before.1, end.0, end.1
                ));
            }
        }
        kept.ended.insert(name.clone(), end);
        let Some(user) = &turn.user_item else { return Ok(()) };
        let said = kept.said.get(user);
        match (said, turn.state) {
            (Some((_, said)), TurnState::Completed) if !said.allows(turn.state, turn.outcome) => {
                Err(format!(
                    "{name} of {session} ends {:?} {:?}, and its agent had said {}",
                    end.0,
                    end.1,
                    said.words()
                ))
            }
            (None, TurnState::Completed) => {
                Err(format!("{name} of {session} reads completed, and its agent had said nothing"))
            }
            (Some((_, said)), _)
                if turn.stop_reason.is_some() && !said.allows(turn.state, turn.outcome) =>
            {
                Err(format!(
                    "{name} of {session} ends {:?} {:?}, and its agent had said {}",
                    end.0,
                    end.1,
                    said.words()
                ))
            }
            // At its exit everything an agent had written is read first (rule 2.7.2).
            (Some((child, said)), TurnState::Interrupted)
                if exit == Some(*child) && !said.allows(turn.state, turn.outcome) =>
            {
                Err(format!(
                    "{name} of {session} is cut by the exit of child {child}, which had said {}",
                    said.words()
                ))
            }
            _ => Ok(()),
        }
    }
}

impl Oracle for OwnVerdict {
    fn name(&self) -> &'static str {
        "own-verdict"
    }

    fn rule(&self) -> &'static str {
        "invariant 5, 2.2.1, 2.4.1, 2.7.2"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        self.prompts.learn(seen, facts);
        match seen {
            Seen::AgentWrote { child, line, .. } if line.shape == Shape::Answer => {
                let Some(user) = self.prompts.answered(*child, line) else { return Ok(()) };
                let kept = rows::of(&mut self.sessions, &facts.children[*child].session);
                kept.said.insert(user, (*child, Said::of(line)));
            }
            Seen::Stored { unit, .. } => {
                let exit = unit.rows.iter().find_map(|row| match rows::child(row) {
                    Some(ChildRow::Exited { generation, .. }) => self.generations.child(generation),
                    _ => None,
                });
                for row in &unit.rows {
                    self.generations.learn(row, facts);
                    for turn in rows::turns(row).filter(|turn| rows::is_over(turn.state)) {
                        self.ended(&unit.session, row, turn, exit)?;
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
    use moored::journal::RowKind;

    use super::super::kit::{Story, exited, started, submission, turn};
    use super::*;

    fn story() -> Story {
        let story = Story::of(OwnVerdict::default()).spawned(0);
        story.stored(1, [started(0), submission(1)]).prompts(0, 1)
    }

    fn says(reason: &str) -> Story {
        story().agent_wrote(0, &format!(r#"{{"id":1,"result":{{"stopReason":"{reason}"}}}}"#))
    }

    fn ended(state: TurnState, outcome: Outcome) -> RowKind {
        turn(1, state, Some(outcome))
    }

    #[test]
    fn what_the_agent_says_stands() {
        says("end_turn").stored(1, [ended(TurnState::Completed, Outcome::Success)]).holds();
        says("cancelled").stored(1, [ended(TurnState::Interrupted, Outcome::Cancellation)]).holds();
        says("refusal").stored(1, [ended(TurnState::Completed, Outcome::Failure)]).holds();
        says("on a whim").stored(1, [turn(1, TurnState::Completed, None)]).holds();
        let error = story().agent_wrote(0, r#"{"id":1,"error":{"code":1,"message":"no"}}"#);
        error.stored(1, [ended(TurnState::Completed, Outcome::Failure)]).holds();
        // It was not read before the host died.
        says("end_turn").stored(1, [turn(1, TurnState::Unverifiable, None)]).holds();
    }

    #[test]
    fn another_verdict_than_the_agents_is_found() {
        let other = says("end_turn").stored(1, [ended(TurnState::Completed, Outcome::Failure)]);
        other.breaks("and its agent had said end_turn");
        let made_up = story().stored(1, [ended(TurnState::Completed, Outcome::Success)]);
        made_up.breaks("its agent had said nothing");
        let cut = [turn(1, TurnState::Interrupted, None), exited(0)];
        says("end_turn")
            .stored(1, cut)
            .breaks("cut by the exit of child 0, which had said end_turn");
    }

    #[test]
    fn a_verdict_that_is_written_over_is_found_and_a_proof_is_not() {
        let done = says("end_turn").stored(1, [ended(TurnState::Completed, Outcome::Success)]);
        let over = done.stored(1, [ended(TurnState::Interrupted, Outcome::Cancellation)]);
        over.breaks("rewrites t1");
        let proven = story().stored(1, [turn(1, TurnState::Unverifiable, None)]);
        proven.stored(1, [turn(1, TurnState::Interrupted, None)]).holds();
    }
}
