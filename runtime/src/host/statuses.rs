//! What is published of every session: the retained summaries, and who may hear of them when (rule 4.4).

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::SessionId;
use crate::planted::PlantedBug;
use crate::status::{Status, Summary, reads_the_same};

/// Names a subscription on its way in.
pub type SubscriptionId = u64;

/// The retained summaries of one host. The last projection stays after the child is gone: an idle session is still idle
/// (rule 4.4.6).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statuses {
    retained: BTreeMap<SessionId, Summary>,
    joining: BTreeMap<SubscriptionId, BTreeSet<SessionId>>,
    #[cfg(feature = "planted-bugs")]
    planted: Option<PlantedBug>,
}

impl Statuses {
    /// The same with the rule broken that `policy` breaks on purpose.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn planting(self, policy: &crate::session::Policy) -> Self {
        Self { planted: policy.planted, ..self }
    }

    #[cfg(feature = "planted-bugs")]
    fn plants(&self, bug: PlantedBug) -> bool {
        self.planted == Some(bug)
    }

    #[cfg(not(feature = "planted-bugs"))]
    #[inline(always)]
    const fn plants(&self, _bug: PlantedBug) -> bool {
        false
    }

    /// Takes a summary; whether subscribers are to hear of it (rule 4.4.2).
    #[must_use]
    pub fn publish(&mut self, summary: Summary) -> bool {
        let changed = self
            .retained
            .get(&summary.session_id)
            .is_none_or(|held| !reads_the_same(held, &summary));
        if self.plants(PlantedBug::ForgetTheIdle) && !summary.host_execution_owned {
            self.retained.remove(&summary.session_id);
            return changed;
        }
        // Cursor and time advance even where nobody is told: the next snapshot carries them.
        self.retained.insert(summary.session_id.clone(), summary);
        changed
    }

    /// All of them, by session id.
    pub fn all(&self) -> Vec<Summary> {
        self.retained.values().cloned().collect()
    }

    /// The host lets go of a session whose machine is lost: nobody drives a turn of it any more (rule 4.4.7). The
    /// summary to tell, when it changed.
    pub fn revoke(&mut self, session: &SessionId) -> Option<Summary> {
        let mut summary = self.retained.get(session)?.clone();
        let stopping = summary.stopping && self.plants(PlantedBug::LetGoKeepsStopping);
        summary.let_go();
        summary.stopping = stopping;
        summary.tool_name = None;
        // A row that nobody will ever revise must not look working for ever (rule 8.1.9).
        summary.status = summary.status.map(|_| Status::Idle);
        self.publish(summary.clone()).then_some(summary)
    }

    /// A closed session's row goes in the same step as the session (rule 8.1.9).
    pub fn remove(&mut self, session: &SessionId) {
        self.retained.remove(session);
    }

    /// Begins a subscription: every live session is projected again first, so that what changed reaches those who
    /// already listen before the newcomer's snapshot (rule 4.4.4).
    pub fn subscribe(&mut self, id: SubscriptionId, live: BTreeSet<SessionId>) {
        let live = match self.plants(PlantedBug::WelcomeBeforeProjecting) {
            false => live,
            true => BTreeSet::new(),
        };
        self.joining.insert(id, live);
    }

    /// A session was projected again for a subscription.
    pub fn handle_projected(&mut self, id: SubscriptionId, session: &SessionId) {
        if let Some(awaited) = self.joining.get_mut(&id) {
            awaited.remove(session);
        }
    }

    /// A session is gone: no subscription waits for it.
    pub fn handle_gone(&mut self, session: &SessionId) {
        for awaited in self.joining.values_mut() {
            awaited.remove(session);
        }
    }

    /// The next subscription that is to be registered and given its snapshot.
    pub fn poll_joined(&mut self) -> Option<SubscriptionId> {
        let id = *self.joining.iter().find(|(_, awaited)| awaited.is_empty())?.0;
        self.joining.remove(&id);
        Some(id)
    }
}

#[cfg(test)]
#[path = "tests/statuses.rs"]
mod tests;
