//! The handshake's order: `initialize`, then the session, then prompts.

use std::collections::BTreeMap;

use moored::platform::Mono;

use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, Seen, Shape, same_id};

/// Nothing is asked of an agent before what it rests on was answered.
#[derive(Default)]
pub(super) struct HandshakeInOrder {
    children: BTreeMap<ChildNo, Step>,
}

#[derive(Default)]
struct Step {
    /// The request that is open: its id, and whether it is the session's.
    open: Option<(String, bool)>,
    initialized: bool,
    ready: bool,
}

impl Oracle for HandshakeInOrder {
    fn name(&self) -> &'static str {
        "handshake-in-order"
    }

    fn rule(&self) -> &'static str {
        "1.3.1, 1.3.9"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        match seen {
            Seen::HostWrote { child, line } => {
                let Some(method) = line.method() else { return Ok(()) };
                let step = self.children.entry(*child).or_default();
                let id = line.id.map(str::to_owned);
                match method {
                    "initialize" if step.initialized || step.open.is_some() => {
                        Err(format!("child {child} is initialized twice"))
                    }
                    "initialize" => {
                        step.open = id.map(|id| (id, false));
                        Ok(())
                    }
                    "session/new" | "session/load" | "session/resume" if step.initialized => {
                        step.open = id.map(|id| (id, true));
                        Ok(())
                    }
                    "authenticate" if step.initialized => Ok(()),
                    "session/prompt" | "session/cancel" if step.ready => Ok(()),
                    method if !step.initialized => {
                        Err(format!("child {child} gets {method} before it answered initialize"))
                    }
                    "session/prompt" | "session/cancel" => {
                        Err(format!("child {child} gets {method} before it opened a session"))
                    }
                    _ => Ok(()),
                }
            }
            Seen::AgentWrote { child, line, .. } if line.shape == Shape::Answer => {
                let Some(step) = self.children.get_mut(child) else { return Ok(()) };
                let answers =
                    |open: &(String, bool)| line.id.is_some_and(|id| same_id(&open.0, id));
                if let Some((_, session)) = step.open.take_if(|open| answers(open)) {
                    step.initialized = true;
                    step.ready |= session;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kit::Story;
    use super::*;

    const INITIALIZE: &str = r#"{"id":0,"method":"initialize","params":{}}"#;
    const NEW: &str = r#"{"id":1,"method":"session/new","params":{}}"#;

    fn story() -> Story {
        Story::of(HandshakeInOrder::default()).spawned(0).host_wrote(0, INITIALIZE)
    }

    fn initialized() -> Story {
        story().agent_wrote(0, r#"{"id":0,"result":{}}"#)
    }

    #[test]
    fn one_step_after_the_other_holds() {
        let opened = initialized().host_wrote(0, NEW).agent_wrote(0, r#"{"id":1,"result":{}}"#);
        opened.prompts(0, 1).cancels(0).holds();
    }

    #[test]
    fn a_step_before_its_time_is_found() {
        story().host_wrote(0, NEW).breaks("gets session/new before it answered initialize");
        story().host_wrote(0, INITIALIZE).breaks("is initialized twice");
        let early = initialized().host_wrote(0, NEW).prompts(0, 1);
        early.breaks("gets session/prompt before it opened a session");
    }
}
