//! The session that an agent works in is on record before anything is said in it (rule 7.1.1).

use std::collections::BTreeMap;

use moored::ids::{AgentSessionId, SessionId};
use moored::platform::Mono;

use super::{Oracle, Verdict};
use crate::witness::{Facts, Seen};

/// A prompt names the agent's session at the head of the stored chain: it is the one that the next host will reopen.
#[derive(Default)]
pub(super) struct HandleIsRecorded {
    heads: BTreeMap<SessionId, Option<AgentSessionId>>,
}

impl Oracle for HandleIsRecorded {
    fn name(&self) -> &'static str {
        "handle-is-recorded"
    }

    fn rule(&self) -> &'static str {
        "7.1.1"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::Stored { unit, .. } => {
                if let Some(change) = &unit.record {
                    let head = change.record.head().map(|link| link.agent_session.clone());
                    self.heads.insert(unit.session.clone(), head);
                }
            }
            Seen::HostWrote { child, line } if line.method() == Some("session/prompt") => {
                let (Some(at), Some(named)) = (facts.children.get(*child), line.session()) else {
                    return Ok(());
                };
                let head = self.heads.get(&at.session).and_then(Option::as_ref);
                if head.map(AgentSessionId::as_str) != Some(named.as_str()) {
                    let (session, on_record) = (&at.session, head.map_or("none", |h| h.as_str()));
                    return Err(format!(
                        "{session} is prompted in {named} of child {child}, and {on_record} is on record"
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
    use moored::session::record::{HandleLink, HandleOrigin};

    use super::super::kit::{Story, record};
    use super::*;

    fn prompt(named: &str) -> String {
        format!(
            r#"{{"id":1,"method":"session/prompt","params":{{"sessionId":"{named}","prompt":[]}}}}"#
        )
    }

    fn story(handles: &[&str]) -> Story {
        let mut record = record(None, false);
        for handle in handles {
            assert!(record.link(HandleLink {
                agent_session: AgentSessionId::from(*handle),
                origin: HandleOrigin::Created,
                fence: Fence(1),
                observed_ms: 0,
                replaces: None,
            }));
        }
        Story::of(HandleIsRecorded::default()).spawned(0).recorded(record)
    }

    #[test]
    fn a_prompt_in_the_session_on_record_holds() {
        story(&["one"]).host_wrote(0, &prompt("one")).holds();
        story(&["one", "two"]).host_wrote(0, &prompt("two")).holds();
    }

    #[test]
    fn a_prompt_in_an_earlier_session_or_in_one_without_a_record_is_found() {
        story(&["one", "two"]).host_wrote(0, &prompt("one")).breaks("and two is on record");
        story(&["one"]).host_wrote(0, &prompt("two")).breaks("and one is on record");
        story(&[]).host_wrote(0, &prompt("one")).breaks("and none is on record");
    }
}
