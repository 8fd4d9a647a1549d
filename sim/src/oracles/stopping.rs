//! Invariant 9: "Stopping..." is derived, never stored, never outlives `working` (and decision D27).

use std::collections::BTreeMap;

use moored::ids::SessionId;
use moored::platform::Mono;
use moored::status::{Status, StatusFrame, Summary};

use super::{Oracle, Verdict};
use crate::scenario::Act;
use crate::witness::{Facts, HostNo, Seen};

/// Only a working session reads stopping, and only after a press on the host that says so; it rises at most once a press.
///
/// A client sees what a host published later, and not all of it; so it is the numbers of rises and presses that are
/// compared, and not their order.
#[derive(Default)]
pub(super) struct StoppingIsDerived {
    presses: BTreeMap<(HostNo, SessionId), usize>,
    clients: BTreeMap<(usize, HostNo, SessionId), Reading>,
}

#[derive(Default)]
struct Reading {
    stopping: bool,
    rises: usize,
}

impl StoppingIsDerived {
    fn told(&mut self, client: usize, host: HostNo, summary: &Summary) -> Verdict {
        let session = &summary.session_id;
        if summary.stopping && summary.status != Some(Status::Working) {
            let status = summary.status;
            return Err(format!("{session} reads stopping while its status is {status:?}"));
        }
        let key = (client, host, session.clone());
        if !summary.stopping {
            if let Some(reading) = self.clients.get_mut(&key) {
                reading.stopping = false;
            }
            return Ok(());
        }
        let presses = self.presses.get(&(host, session.clone())).copied().unwrap_or(0);
        let reading = self.clients.entry(key).or_default();
        reading.rises += usize::from(!reading.stopping);
        reading.stopping = true;
        match (presses, reading.rises) {
            (0, _) => {
                Err(format!("host {host} says that {session} is stopping, and nobody pressed"))
            }
            (presses, rises) if rises > presses => Err(format!(
                "{session} began to read stopping {rises} times after {presses} presses on host {host}"
            )),
            _ => Ok(()),
        }
    }
}

impl Oracle for StoppingIsDerived {
    fn name(&self) -> &'static str {
        "stopping-is-derived"
    }

    fn rule(&self) -> &'static str {
        "invariant 9, 4.1.6, D27"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        match seen {
            Seen::Called { host, act: Act::Stop { .. } | Act::Close { .. }, session, .. } => {
                *self.presses.entry((*host, (*session).clone())).or_default() += 1;
                Ok(())
            }
            Seen::Told { client, host, frame: StatusFrame::Status { summary } } => {
                self.told(*client, *host, summary)
            }
            Seen::Told { client, host, frame: StatusFrame::Snapshot { summaries } } => {
                summaries.iter().try_for_each(|summary| self.told(*client, *host, summary))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kit::{Story, session, summary};
    use super::*;
    use crate::scenario::NamedTurn;

    fn told(story: Story, host: HostNo, status: Status, stopping: bool) -> Story {
        let summary = Box::new(Summary { status: Some(status), stopping, ..summary() });
        story.see(&Seen::Told { client: 0, host, frame: &StatusFrame::Status { summary } })
    }

    fn pressed() -> Story {
        let act = Act::Stop { session: 0, turn: NamedTurn::None };
        Story::of(StoppingIsDerived::default()).called(&act)
    }

    #[test]
    fn a_press_may_be_seen_to_rise_and_fall_once() {
        let rises = told(pressed(), 0, Status::Working, true);
        let still = told(rises, 0, Status::Working, true);
        told(still, 0, Status::Idle, false).holds();
        assert_eq!(session(), summary().session_id);
    }

    #[test]
    fn stopping_at_rest_unasked_or_twice_is_found() {
        told(pressed(), 0, Status::Idle, true).breaks("reads stopping while its status is");
        told(Story::of(StoppingIsDerived::default()), 0, Status::Working, true)
            .breaks("nobody pressed");
        // The press was on the host before.
        told(pressed(), 1, Status::Working, true).breaks("nobody pressed");
        let fell = told(told(pressed(), 0, Status::Working, true), 0, Status::Working, false);
        told(fell, 0, Status::Working, true).breaks("2 times after 1 presses");
    }
}
