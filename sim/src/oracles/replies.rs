//! Every request of an agent gets exactly one reply.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use moored::ids::SessionId;
use moored::platform::Mono;

use super::{Oracle, Verdict};
use crate::witness::{Child, ChildNo, Facts, HostNo, Seen, Shape};

/// A request older than this when its agent's stdin is closed by a host that lives should have been answered: what waits
/// for a person is withdrawn before.
const ANSWERED_WITHIN_US: u64 = 1_000_000;

/// One reply a request, counted by id: agents may use one again.
#[derive(Default)]
pub(super) struct OneReplyARequest {
    children: BTreeMap<ChildNo, BTreeMap<String, Asked>>,
    /// Since when the store has refused a session: its agent is not read on meanwhile (rule 1.5.8).
    refused: BTreeMap<SessionId, Mono>,
    /// When each unit was submitted that a host's store has not answered: a person's answer may be behind them, and goes
    /// out no earlier (rule 9.3.1).
    waiting: BTreeMap<(HostNo, SessionId), VecDeque<Mono>>,
    /// Agents that closed a stream of their own.
    closed: BTreeSet<ChildNo>,
    /// Lines in each agent's pipe, and since when it reads none of them.
    unread: BTreeMap<ChildNo, (usize, Mono)>,
}

#[derive(Default)]
struct Asked {
    open: usize,
    last: Mono,
    method: String,
}

impl OneReplyARequest {
    fn count_unread(&mut self, now: Mono, seen: &Seen<'_>) {
        match seen {
            Seen::HostWrote { child, .. } => {
                let (lines, since) = self.unread.entry(*child).or_default();
                if *lines == 0 {
                    *since = now;
                }
                *lines += 1;
            }
            Seen::AgentRead { child, .. } => {
                let (lines, since) = self.unread.entry(*child).or_default();
                (*lines, *since) = (lines.saturating_sub(1), now);
            }
            _ => {}
        }
    }

    /// Its pipe may be full, and then stdin is closed with replies that never left (invariant 8 goes before).
    fn does_not_read(&self, child: ChildNo, now: Mono) -> bool {
        let unread = self.unread.get(&child);
        unread.is_some_and(|(lines, since)| *lines > 0 && is_long_ago(*since, now))
    }

    fn answered(&mut self, host: HostNo, session: &SessionId) {
        if let Some(waiting) = self.waiting.get_mut(&(host, session.clone())) {
            waiting.pop_front();
        }
    }
}

fn is_long_ago(at: Mono, now: Mono) -> bool {
    at.0 + ANSWERED_WITHIN_US <= now.0
}

impl Oracle for OneReplyARequest {
    fn name(&self) -> &'static str {
        "one-reply-a-request"
    }

    fn rule(&self) -> &'static str {
        "9.1.4, 9.3.1, 9.4.1"
    }

    fn see(&mut self, now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        self.count_unread(now, seen);
        match seen {
            Seen::AgentWrote { child, line, .. } if line.is_request() => {
                let (Some(id), Some(method)) = (line.id.filter(|id| *id != "null"), line.method())
                else {
                    return Ok(());
                };
                let asked = self.children.entry(*child).or_default();
                let asked = asked.entry(id.to_owned()).or_default();
                asked.open += 1;
                asked.last = now;
                method.clone_into(&mut asked.method);
            }
            Seen::HostWrote { child, line } if line.shape == Shape::Answer => {
                let Some(id) = line.id.filter(|id| *id != "null") else { return Ok(()) };
                let asked = self.children.get_mut(child).and_then(|asked| asked.get_mut(id));
                match asked {
                    Some(asked) if asked.open > 0 => asked.open -= 1,
                    Some(asked) => {
                        let method = &asked.method;
                        return Err(format!("{method} {id} of child {child} is answered twice"));
                    }
                    None => {
                        return Err(format!(
                            "child {child} is answered {id}, which it never asked"
                        ));
                    }
                }
            }
            // Nothing of it is read any more.
            Seen::AgentClosed { child, .. } => {
                self.closed.insert(*child);
            }
            Seen::Submitted { host, unit } => {
                let waiting = self.waiting.entry((*host, unit.session.clone())).or_default();
                waiting.push_back(now);
            }
            Seen::UnitAnswered { host, session, refusal: Some(_), .. } => {
                self.answered(*host, session);
                self.refused.entry((*session).clone()).or_insert(now);
            }
            Seen::UnitAnswered { host, session, refusal: None, .. } => {
                self.answered(*host, session);
                if self.refused.remove(*session).is_none() {
                    return Ok(());
                }
                // Only now is read what waited meanwhile.
                let of = |no: &ChildNo| facts.children[*no].session == **session;
                let waited = self.children.iter_mut().filter(|(no, _)| of(no));
                waited.flat_map(|(_, asked)| asked.values_mut()).for_each(|a| a.last = now);
            }
            Seen::StdinClosed { child, by_crash: false, broken: false } => {
                let lives = facts.children.get(*child).is_some_and(|c| c.exit.is_none() && !c.lost)
                    && !self.closed.contains(child)
                    && !self.does_not_read(*child, now);
                let Some(asked) = self.children.get(child).filter(|_| lives) else { return Ok(()) };
                let Child { session, host, .. } = &facts.children[*child];
                let waiting = self.waiting.get(&(*host, session.clone()));
                if waiting.and_then(VecDeque::front).is_some_and(|since| is_long_ago(*since, now)) {
                    return Ok(());
                }
                // What was asked while nobody read, or right before, is still in the pipe.
                let unread = self.refused.get(session);
                let due = |asked: &Asked| {
                    is_long_ago(asked.last, now)
                        && unread.is_none_or(|since| is_long_ago(asked.last, *since))
                };
                if let Some((id, asked)) =
                    asked.iter().find(|(_, asked)| asked.open > 0 && due(asked))
                {
                    let method = &asked.method;
                    return Err(format!(
                        "the stdin of child {child} is closed, and its {method} {id} was never answered"
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
    use moored::ids::Fence;
    use moored::store::{Refusal, RetryReason, Unit};

    use super::super::kit::{Story, session};
    use super::*;

    const ASKS: &str = r#"{"id":"a","method":"session/request_permission","params":{}}"#;
    const ANSWER: &str = r#"{"id":"a","result":{}}"#;

    fn asked() -> Story {
        Story::of(OneReplyARequest::default()).spawned(0).agent_wrote(0, ASKS)
    }

    #[test]
    fn each_request_is_answered_also_one_that_uses_its_id_again() {
        let once = asked().host_wrote(0, ANSWER);
        once.agent_wrote(0, ASKS).host_wrote(0, ANSWER).at_ms(5_000).stdin_closed(0).holds();
        // It has only just asked.
        asked().at_ms(900).stdin_closed(0).holds();
    }

    fn unit() -> Unit {
        Unit {
            session: session(),
            fence: Fence(1),
            rows: Vec::new(),
            ledger: None,
            record: None,
            resumes: false,
        }
    }

    #[test]
    fn what_is_asked_right_before_the_store_refuses_is_not_read() {
        let (session, full) = (session(), Refusal::Retry { reason: RetryReason::Full });
        let refused = |story: Story| {
            let refusal = Some(&full);
            story.see(&Seen::UnitAnswered { host: 0, session: &session, last_seq: 1, refusal })
        };
        refused(asked().at_ms(2)).at_ms(4_000).stdin_closed(0).holds();
        let early = refused(asked().at_ms(1_000));
        early.at_ms(4_000).stdin_closed(0).breaks("was never answered");
    }

    #[test]
    fn an_answer_may_be_behind_what_the_store_stalls() {
        let unit = unit();
        let stalls = |ms| asked().at_ms(ms).see(&Seen::Submitted { host: 0, unit: &unit });
        stalls(1).at_ms(4_000).stdin_closed(0).holds();
        stalls(3_500).at_ms(4_000).stdin_closed(0).breaks("was never answered");
    }

    #[test]
    fn two_replies_none_and_one_unasked_are_found() {
        asked().host_wrote(0, ANSWER).host_wrote(0, ANSWER).breaks("is answered twice");
        asked().at_ms(1_000).stdin_closed(0).breaks("was never answered");
        let unasked = Story::of(OneReplyARequest::default()).spawned(0).host_wrote(0, ANSWER);
        unasked.breaks("which it never asked");
    }
}
