//! What grows has a named limit.

use std::collections::{BTreeMap, BTreeSet};

use moored::ids::{MessageId, SessionId};
use moored::journal::RowKind;
use moored::limits::{AGENT_REQUESTS_MAX, APPENDS_IN_FLIGHT_MAX, QUEUED_SENDS_MAX};
use moored::platform::Mono;
use moored::store::Unit;

use super::rows;
use super::{Oracle, Verdict};
use crate::scenario::Act;
use crate::witness::{ChildNo, Facts, HostNo, Seen, Shape};

/// Units of one session that are on their way to the store. Reading pauses at the first limit; what a person's calls add
/// beyond it is bounded by what may be queued, and what an agent's questions add by how many may be open.
pub const UNITS_OPEN_MAX: usize = APPENDS_IN_FLIGHT_MAX + QUEUED_SENDS_MAX + AGENT_REQUESTS_MAX;

/// Starts for one message: it is held and runs on the next child when its own was gone before the prompt was written.
/// More in a row is an agent that is started for ever.
pub const STARTS_A_MESSAGE_MAX: usize = 4;

/// One prompt on the wire a child; appends in flight; and starts in proportion to messages, and to Stops that overtook one
/// (decision D24).
#[derive(Default)]
pub(super) struct Bounded {
    prompts: BTreeMap<ChildNo, BTreeSet<String>>,
    sessions: BTreeMap<SessionId, Session>,
}

#[derive(Default)]
struct Session {
    open: BTreeMap<HostNo, usize>,
    sends: BTreeSet<MessageId>,
    stops: usize,
    spawns: usize,
}

impl Oracle for Bounded {
    fn name(&self) -> &'static str {
        "bounded"
    }

    fn rule(&self) -> &'static str {
        "2.1.1, D8, D22"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        match seen {
            Seen::HostWrote { child, line } if line.method() == Some("session/prompt") => {
                let prompts = self.prompts.entry(*child).or_default();
                if let Some(id) = line.id {
                    prompts.insert(id.to_owned());
                }
                if prompts.len() > 1 {
                    let count = prompts.len();
                    return Err(format!(
                        "{count} prompts of child {child} are on the wire at once"
                    ));
                }
            }
            Seen::AgentWrote { child, line, .. } if line.shape == Shape::Answer => {
                if let (Some(prompts), Some(id)) = (self.prompts.get_mut(child), line.id) {
                    prompts.remove(id);
                }
            }
            Seen::Submitted { host, unit } => {
                let kept = rows::of(&mut self.sessions, &unit.session);
                let open = kept.open.entry(*host).or_default();
                *open += 1;
                // Also one that is refused with its row: a start that it asked for may go on.
                kept.sends.extend(sent(unit));
                if *open > UNITS_OPEN_MAX {
                    let session = &unit.session;
                    return Err(format!(
                        "more than {UNITS_OPEN_MAX} units of {session} wait for the store of host {host}"
                    ));
                }
            }
            Seen::UnitAnswered { host, session, .. } => {
                let open = rows::of(&mut self.sessions, session).open.entry(*host).or_default();
                *open = open.saturating_sub(1);
            }
            Seen::Stored { unit, .. } => {
                rows::of(&mut self.sessions, &unit.session).sends.extend(sent(unit));
            }
            Seen::Called { act: Act::Stop { .. }, session, .. } => {
                rows::of(&mut self.sessions, session).stops += 1;
            }
            Seen::Spawning { session, .. } => {
                let kept = rows::of(&mut self.sessions, session);
                kept.spawns += 1;
                let (spawns, sends, stops) = (kept.spawns, kept.sends.len(), kept.stops);
                if spawns > sends * STARTS_A_MESSAGE_MAX + stops {
                    return Err(format!(
                        "{session} has {spawns} children started for {sends} messages and {stops} Stops"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn sent(unit: &Unit) -> impl Iterator<Item = MessageId> {
    unit.rows.iter().filter_map(|row| match &row.kind {
        RowKind::Submission { message_id, .. } => Some(message_id.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use moored::ids::Fence;

    use super::super::kit::{Story, session, submission};
    use super::*;

    fn story() -> Story {
        Story::of(Bounded::default()).stored(1, [submission(1)]).spawned(0)
    }

    #[test]
    fn a_prompt_after_the_answer_of_the_last_holds() {
        let next = story().prompts(0, 1).agent_wrote(0, r#"{"id":1,"result":{}}"#);
        next.prompts(0, 2).stored(1, [submission(2)]).spawned(1).holds();
    }

    #[test]
    fn two_prompts_and_a_start_for_nothing_are_found() {
        story().prompts(0, 1).prompts(0, 2).breaks("2 prompts of child 0");
        let again = || (1..STARTS_A_MESSAGE_MAX).fold(story(), Story::asked_for);
        again().asked_for(STARTS_A_MESSAGE_MAX).breaks("5 children started for 1 messages");
        let stop = Act::Stop { session: 0, turn: crate::scenario::NamedTurn::None };
        again().called(&stop).asked_for(STARTS_A_MESSAGE_MAX).holds();
    }

    #[test]
    fn units_without_end_are_found() {
        let (session, fence) = (session(), Fence(1));
        let unit =
            Unit { session, fence, rows: Vec::new(), ledger: None, record: None, resumes: false };
        let submit = |story: Story| story.see(&Seen::Submitted { host: 0, unit: &unit });
        let full = (0..UNITS_OPEN_MAX).fold(story(), |story, _| submit(story));
        submit(full).breaks("units of s1 wait for the store of host 0");
        let seen =
            Seen::UnitAnswered { host: 0, session: &unit.session, last_seq: 0, refusal: None };
        let full = (0..UNITS_OPEN_MAX).fold(story(), |story, _| submit(story));
        submit(full.see(&seen)).holds();
    }
}
