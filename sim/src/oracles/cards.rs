//! Nothing that an agent asks under a Stop is shown (rule 3.5.4).

use std::collections::{BTreeMap, BTreeSet};

use moored::ids::ItemKey;
use moored::journal::{ItemBody, Resolution};
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, Seen, Shape, same_id};

/// Between the cancel of a prompt and the agent's answer to it no question becomes a card.
#[derive(Default)]
pub(super) struct NoCardUnderAStop {
    fences: rows::Fences,
    children: BTreeMap<ChildNo, Asking>,
}

#[derive(Default)]
struct Asking {
    /// The prompt it has not answered.
    prompt: Option<String>,
    /// It was told to stop, and has not answered since.
    stops: bool,
    /// The calls it asked about while it might.
    might: BTreeSet<Option<String>>,
    /// The calls it asked about when it was told to stop.
    might_not: BTreeSet<Option<String>>,
    shown: BTreeSet<ItemKey>,
}

impl Oracle for NoCardUnderAStop {
    fn name(&self) -> &'static str {
        "no-card-under-a-stop"
    }

    fn rule(&self) -> &'static str {
        "3.5.4, 9.1.2, 9.4.3"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::HostWrote { child, line } => {
                let asking = self.children.entry(*child).or_default();
                match line.method() {
                    // One that crosses the answer stops nothing.
                    Some("session/cancel") => asking.stops = asking.prompt.is_some(),
                    Some("session/prompt") => {
                        asking.stops = false;
                        asking.prompt = line.id.map(str::to_owned);
                    }
                    _ => {}
                }
            }
            Seen::AgentWrote { child, line, .. } => {
                let asking = self.children.entry(*child).or_default();
                if line.shape == Shape::Answer {
                    let answers = |prompt: &String| line.id.is_some_and(|id| same_id(prompt, id));
                    if asking.prompt.as_ref().is_some_and(answers) {
                        asking.prompt = None;
                        asking.stops = false;
                    }
                } else if line.method() == Some("session/request_permission") {
                    let call = line.tool_call();
                    if asking.stops { &mut asking.might_not } else { &mut asking.might }
                        .insert(call);
                }
            }
            Seen::Stored { unit, .. } => {
                for row in &unit.rows {
                    self.fences.learn(&unit.session, row, facts);
                    let Some(child) = self.fences.child(&unit.session, row.fence) else { continue };
                    let Some(asking) = self.children.get_mut(&child) else { continue };
                    for item in rows::items(row) {
                        let ItemBody::Approval(card) = &item.body else { continue };
                        let new = asking.shown.insert(item.item.clone());
                        if card.resolution != Resolution::Pending || !new {
                            continue;
                        }
                        let call = &card.tool_call_id;
                        if asking.might_not.contains(call) && !asking.might.contains(call) {
                            let (item, session) = (&item.item, &unit.session);
                            return Err(format!(
                                "{item} of {session} is put to a person, and child {child} asked it under a Stop"
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
    use moored::journal::{ApprovalBody, RowKind};

    use super::super::kit::{Story, item, started};
    use super::*;

    fn asks(call: &str) -> String {
        format!(
            r#"{{"id":7,"method":"session/request_permission","params":{{"toolCall":{{"toolCallId":"{call}"}}}}}}"#
        )
    }

    fn card(call: &str) -> [RowKind; 1] {
        let body = ApprovalBody {
            title: "may I".to_owned(),
            tool_call_id: Some(call.to_owned()),
            options: Vec::new(),
            resolution: Resolution::Pending,
            selected: None,
            resolved_by: None,
            resolved_ms: None,
        };
        [item(&format!("ask:{call}"), ItemBody::Approval(body))]
    }

    fn story() -> Story {
        Story::of(NoCardUnderAStop::default()).spawned(0).stored(1, [started(0)]).prompts(0, 1)
    }

    #[test]
    fn what_was_asked_before_the_cancel_or_behind_the_answer_may_be_shown() {
        story().agent_wrote(0, &asks("a")).cancels(0).stored(1, card("a")).holds();
        let answered = story().cancels(0).agent_wrote(0, r#"{"id":1,"result":{}}"#);
        answered.prompts(0, 2).agent_wrote(0, &asks("a")).stored(1, card("a")).holds();
        // The cancel crosses the answer: there is nothing left that it stops.
        let crossed = story().agent_wrote(0, r#"{"id":1,"result":{}}"#).cancels(0);
        crossed.agent_wrote(0, &asks("a")).stored(1, card("a")).holds();
    }

    #[test]
    fn what_was_asked_under_a_stop_and_is_shown_is_found() {
        let asked = story().agent_wrote(0, &asks("a")).cancels(0).agent_wrote(0, &asks("b"));
        asked.stored(1, card("b")).breaks("child 0 asked it under a Stop");
    }
}
