//! The end of an agent's stdout is not yet the loss of the agent (rule 1.5.1, decision D34).

use std::collections::BTreeMap;

use moored::journal::TurnState;
use moored::limits::STDOUT_EOF_GRACE_MS;
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, Seen};
use crate::world::Stream;

/// A host that lives takes a turn for one whose end nobody saw only after its grace, or when nobody is left who could see
/// it. What a host finds of an earlier one is another matter.
#[derive(Default)]
pub(super) struct StdoutEndIsNoLoss {
    fences: rows::Fences,
    /// When an agent's stdout may have ended: it was closed, or its process ended.
    silent: BTreeMap<ChildNo, Mono>,
}

impl Oracle for StdoutEndIsNoLoss {
    fn name(&self) -> &'static str {
        "stdout-end-is-no-loss"
    }

    fn rule(&self) -> &'static str {
        "1.5.1, D34"
    }

    fn see(&mut self, now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::AgentClosed { child, stream: Stream::Stdout } => {
                self.silent.entry(*child).or_insert(now);
            }
            Seen::ProcessEnded { identity, .. } => {
                if let Some(child) = facts.child_of(identity)
                    && facts.children[child].exit.is_some()
                {
                    self.silent.entry(child).or_insert(now);
                }
            }
            Seen::Stored { unit, .. } => {
                for row in &unit.rows {
                    self.fences.learn(&unit.session, row, facts);
                    let given_up =
                        rows::turns(row).find(|turn| turn.state == TurnState::Unverifiable);
                    let child = self.fences.child(&unit.session, row.fence);
                    let (Some(turn), Some(child), false) = (given_up, child, row.recovered) else {
                        continue;
                    };
                    if facts.children[child].lost {
                        continue;
                    }
                    let silent = self.silent.get(&child);
                    let waited = silent.map(|since| now.0.saturating_sub(since.0) / 1_000);
                    if waited.is_none_or(|ms| ms < STDOUT_EOF_GRACE_MS) {
                        let (turn, session) = (&turn.turn, &unit.session);
                        let waited = waited.unwrap_or(0);
                        return Err(format!(
                            "{turn} of {session} is given up {waited} ms after the stdout of child {child} ended"
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
    use moored::journal::RowKind;
    use moored::platform::Report;

    use super::super::kit::{Story, root, started, turn};
    use super::*;

    fn story() -> Story {
        let running = turn(1, TurnState::Running, None);
        let story = Story::of(StdoutEndIsNoLoss::default()).spawned(0);
        story.stored(1, [started(0), running]).at_ms(100)
    }

    fn given_up() -> [RowKind; 1] {
        [turn(1, TurnState::Unverifiable, None)]
    }

    fn closed(stream: Stream) -> Story {
        story().see(&Seen::AgentClosed { child: 0, stream })
    }

    #[test]
    fn an_agent_is_given_up_after_its_grace_or_with_its_supervisor() {
        closed(Stream::Stdout).at_ms(4_100).stored(1, given_up()).holds();
        story().dies(&root(0)).at_ms(4_100).stored(1, given_up()).holds();
        let lost = story().see(&Seen::Reported { child: 0, report: &Report::SupervisorLost });
        lost.stored(1, given_up()).holds();
    }

    #[test]
    fn one_that_is_given_up_before_is_found() {
        closed(Stream::Stdout)
            .at_ms(4_099)
            .stored(1, given_up())
            .breaks("3999 ms after the stdout");
        story().dies(&root(0)).at_ms(101).stored(1, given_up()).breaks("1 ms after the stdout");
        closed(Stream::Stdin).at_ms(9_000).stored(1, given_up()).breaks("0 ms after the stdout");
    }
}
