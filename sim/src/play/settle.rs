//! The second phase: the faults are over, and every session comes to rest in bounded virtual time.

use std::sync::Arc;

use moored::ids::{MessageId, SessionId};
use moored::journal::{
    Fold, ItemBody, Outcome, Snapshot, SubmissionState, SubmissionView, Timeline, Touched,
    TurnState,
};
use moored::platform::{Raced, race};
use moored::status::Status;

use super::Stage;
use super::clients::Clients;
use super::people::People;
use crate::marks::WorldMark;
use crate::oracles::{Rest, RestingSession, Violation};
use crate::scenario::{Act, NamedTurn};
use crate::witness::Seen;
use crate::world::ProcessRow;

/// How long a session may go on working by itself once the faults are over, before a person presses Stop.
/// As long as an agent thinks about a message.
const PATIENCE_MS: u64 = 120_000;
/// After that Stop it must be at rest within this: the cancel wait, every window of the ladder twice, the sweep of the
/// tree, stdout's end, the store's retry, and a slow machine's delays.
pub const REST_MS_MAX: u64 = 40_000;
/// A call must be answered within this.
const ANSWER_MS_MAX: u64 = 40_000;
/// A client must have what the host has within this.
const CONVERGE_MS_MAX: u64 = 5_000;
/// A supervisor that has anything left to do does it within this: every window of the ladder, twice, and its own delays.
const LEAVES_MS: u64 = 12_000;
/// Numbers of the messages that are sent after the heal begin here.
pub const PROBE_FIRST: u32 = 9_000;

pub(super) async fn settle(stage: &Stage, people: &Arc<People>) {
    let settled = Settling { stage, people };
    if let Err(violation) = settled.run().await {
        stage.witness.accuse(violation);
    }
}

type Settled = Result<(), Violation>;

struct Settling<'a> {
    stage: &'a Stage,
    people: &'a Arc<People>,
}

impl Settling<'_> {
    async fn run(&self) -> Settled {
        if self.stage.witness.is_broken() {
            return Ok(());
        }
        self.heal().await?;
        for index in 0..self.stage.sessions.len() {
            self.come_to_rest(index).await?;
        }
        self.calls_are_answered().await?;
        self.restart().await?;
        for index in 0..self.stage.sessions.len() {
            self.probe(index).await?;
        }
        self.calls_are_answered().await?;
        self.rest().await
    }

    fn broken(&self, oracle: &'static str, rule: &'static str, words: String) -> Violation {
        let at = self.stage.kernel.now();
        Violation { oracle: oracle.into(), rule: rule.into(), words, at }
    }

    async fn heal(&self) -> Settled {
        let stage = self.stage;
        let closed = stage.hosts.faults.heal();
        stage.witness.see(&Seen::Healed);
        stage.world.heal();
        stage.clients.heal();
        stage.hosts.nobody_is_coming().await;
        let lost = stage.hosts.current().is_some_and(|c| stage.hosts.lost_its_store(c.no));
        if closed || lost {
            // Closed for good means until a host is opened again (decision D8).
            self.end_hosts().await?;
        }
        if stage.hosts.current().is_none() && stage.hosts.open().await.is_none() {
            return Err(self.broken(
                "a-host-opens",
                "6.11",
                "no host opens on the store".to_owned(),
            ));
        }
        Ok(())
    }

    /// Resolves to `false` if it does not hold within its time.
    async fn within(&self, ms: u64, holds: impl Fn() -> bool) -> bool {
        let over = || holds() || self.stage.witness.is_broken();
        self.stage.clients.within(&self.stage.kernel, ms, over).await
    }

    fn is_at_rest(&self, session: &SessionId) -> bool {
        is_at_rest(&self.stage.clients, session)
    }

    /// Its agent's end can no longer be proven to the host: what ran reads as running, and a message whose fate is not
    /// known as working, until a later host restores the session (rules 1.8.8, 3.12, 4.2.2).
    fn waits_for_proof(&self, session: &SessionId) -> bool {
        let host = self.stage.hosts.current().map(|current| current.no);
        let queued = |s: &SubmissionView| s.state == SubmissionState::Queued;
        let waits = |held: &Timeline| held.submissions().iter().any(|s| queued(s));
        !self.stage.clients.look(0, session, waits)
            && self.stage.witness.know(|facts| facts.is_unprovable(session, host))
    }

    /// It is closed: clients are told of it no more, and the journal has the last word.
    async fn is_over(&self, session: &SessionId) -> bool {
        let Some(current) = self.stage.hosts.current() else { return false };
        current.host.snapshot(session).await.is_err() && !is_busy(&read(&self.on_disk(session)))
    }

    async fn come_to_rest(&self, index: usize) -> Settled {
        let session = &self.stage.sessions[index];
        self.person_catches_up(session).await;
        if self.within(PATIENCE_MS, || self.is_at_rest(session)).await {
            return Ok(());
        }
        if self.is_over(session).await {
            return Ok(());
        }
        self.stage.witness.met_in_world(WorldMark::StopNeededToRest);
        self.people.act(&Act::Stop { session: index, turn: NamedTurn::None }).await;
        if self.within(REST_MS_MAX, || self.is_at_rest(session)).await
            || self.waits_for_proof(session)
        {
            return Ok(());
        }
        let summary = self.stage.clients.summary(0, session);
        let status = summary.and_then(|s| s.status);
        let words = format!("{session} does not come to rest after a Stop; it reads {status:?}");
        Err(self.broken("rest-comes", "3.1.2", words))
    }

    /// The person's own client may have been away for long, and what it shows is how rest is seen.
    async fn person_catches_up(&self, session: &SessionId) {
        let Some(current) = self.stage.hosts.current() else { return };
        let Ok(whole) = current.host.snapshot(session).await else { return };
        let (clients, wanted) = (&self.stage.clients, whole.cursor.seq);
        let is_there = || clients.look(0, session, |held| held.cursor().seq) >= wanted;
        // Whether it ever gets there is judged at the end.
        self.within(CONVERGE_MS_MAX, is_there).await;
    }

    async fn calls_are_answered(&self) -> Settled {
        let late = self.stage.kernel.sleep_us(ANSWER_MS_MAX * 1_000);
        match race(self.people.all_answered(), late).await {
            Raced::First(()) => Ok(()),
            Raced::Second(()) => {
                let words = "a call is never answered".to_owned();
                Err(self.broken("calls-are-answered", "D12", words))
            }
        }
    }

    /// Every host is ended as an embedder ends it, and one is opened again. What it left reads the same.
    async fn restart(&self) -> Settled {
        self.end_hosts().await?;
        let left: Vec<_> = self.stage.sessions.iter().map(|id| self.on_disk(id)).collect();
        if self.stage.hosts.open().await.is_none() {
            return Err(self.broken("a-host-opens", "6.11", "no host opens again".to_owned()));
        }
        let after = self.snapshots().await;
        for (session, (before, after)) in self.stage.sessions.iter().zip(left.iter().zip(&after)) {
            if let (Some(after), false) = (after, is_busy(&read(before))) {
                self.reads_the_same(session, before, after)?;
            }
        }
        Ok(())
    }

    fn on_disk(&self, session: &SessionId) -> Snapshot {
        let mut fold = Fold::new();
        for row in &self.stage.hosts.disk.rows(session).rows {
            fold.apply(row, &mut Touched::unheard());
        }
        fold.snapshot()
    }

    fn reads_the_same(&self, session: &SessionId, before: &Snapshot, after: &Snapshot) -> Settled {
        let same = before.items == after.items && before.submissions == after.submissions;
        if same {
            return Ok(());
        }
        let items = before.items.iter().zip(&after.items).find(|(b, a)| b != a);
        let submissions = before.submissions.iter().zip(&after.submissions).find(|(b, a)| b != a);
        let words = format!(
            "{session} was at rest and reads differently after a restart: {items:?} {submissions:?}, {} and {} items",
            before.items.len(),
            after.items.len(),
        );
        Err(self.broken("a-restart-changes-nothing-at-rest", "6.11.2", words))
    }

    /// Whoever carries a token and lives on, once nobody has left for a while: the supervisors of a host that crashed end
    /// what is below them by themselves, and then leave.
    async fn left(&self) -> Vec<ProcessRow> {
        let world = &self.stage.world;
        let left = || -> Vec<ProcessRow> {
            let carries = |p: &ProcessRow| p.token.is_some() && p.is_alive();
            world.processes().into_iter().filter(carries).collect()
        };
        let mut last = left();
        while !last.is_empty() {
            self.stage.kernel.sleep_us(LEAVES_MS * 1_000).await;
            let now = left();
            if now == last {
                break;
            }
            last = now;
        }
        last
    }

    async fn end_hosts(&self) -> Settled {
        while self.stage.hosts.count() > 0 {
            if self.stage.hosts.end().await == Some(false) {
                let words = "a host does not end in its time".to_owned();
                return Err(self.broken("a-host-ends", "1.8.5", words));
            }
        }
        Ok(())
    }

    async fn snapshots(&self) -> Vec<Option<Snapshot>> {
        let mut all = Vec::new();
        for session in &self.stage.sessions {
            let snapshot = match self.stage.hosts.current() {
                Some(current) => current.host.snapshot(session).await.ok(),
                None => None,
            };
            all.push(snapshot);
        }
        all
    }

    /// A new message is answered by an agent that behaves, or refused by a name that says why.
    async fn probe(&self, index: usize) -> Settled {
        let session = &self.stage.sessions[index];
        let number = PROBE_FIRST + u32::try_from(index).unwrap_or_default();
        let message = MessageId(format!("m{number}"));
        let send = Act::Send {
            session: index,
            message: number,
            text: "are you there".to_owned(),
            mode: moored::journal::SendMode::AfterTurn,
        };
        self.people.act(&send).await;
        let (clients, witness) = (&self.stage.clients, &self.stage.witness);
        let state = || clients.look(0, session, |held| held.submission(&message).map(|s| s.state));
        let refused = || witness.was_refused(&message);
        let over = || {
            let told = state();
            let settled = matches!(
                told,
                Some(
                    SubmissionState::Accepted
                        | SubmissionState::Rejected
                        | SubmissionState::Unknown
                )
            );
            refused().is_some()
                || (settled && (self.is_at_rest(session) || self.waits_for_proof(session)))
        };
        if !self.within(REST_MS_MAX, over).await {
            let words = format!("a message sent after the heal is {:?} for ever", state());
            return Err(self.broken("a-new-message-is-answered", "5.1", words));
        }
        if witness.is_broken() {
            return Ok(());
        }
        let timeline = clients.timeline(0, session);
        let submission = timeline.submission(&message);
        match (refused(), submission.map(|s| s.state)) {
            (Some(name), _) if REFUSED_BY.contains(&name.as_str()) => {
                witness.met_in_world(WorldMark::ProbeRefused);
                Ok(())
            }
            (None, Some(SubmissionState::Rejected))
                if submission.and_then(|s| s.fact.as_ref()).is_some_and(|fact| {
                    fact.code == moored::failure::FailureCode::PreviousExitUnverifiable
                }) =>
            {
                witness.met_in_world(WorldMark::ProbeRefused);
                Ok(())
            }
            (None, Some(SubmissionState::Accepted))
                if last_turn(&timeline) == Some(Outcome::Success) =>
            {
                witness.met_in_world(WorldMark::ProbeCompleted);
                Ok(())
            }
            (refused, state) => {
                let turn = last_turn(&timeline);
                let fact = submission.and_then(|s| s.fact.clone());
                let words = format!(
                    "a message sent after the heal is {state:?}, its turn {turn:?}, refused {refused:?}, because {fact:?}"
                );
                Err(self.broken("a-new-message-is-answered", "5.1", words))
            }
        }
    }

    async fn rest(&self) -> Settled {
        let stage = self.stage;
        let before = self.snapshots().await;
        for (session, snapshot) in stage.sessions.iter().zip(&before) {
            let Some(snapshot) = snapshot else { continue };
            let all_there = || {
                (0..stage.clients.count()).all(|client| {
                    stage.clients.look(client, session, |t| t.cursor().seq) >= snapshot.cursor.seq
                })
            };
            if !self.within(CONVERGE_MS_MAX, all_there).await {
                let words =
                    format!("a client of {session} never gets to row {}", snapshot.cursor.seq);
                return Err(self.broken("subscribers-converge", "6.7.2", words));
            }
        }
        let clients: Vec<Vec<(usize, Timeline)>> = stage
            .sessions
            .iter()
            .map(|s| {
                (0..stage.clients.count()).map(|c| (c, stage.clients.timeline(c, s))).collect()
            })
            .collect();
        let summaries: Vec<_> =
            stage.sessions.iter().map(|s| stage.clients.summary(0, s)).collect();
        self.end_hosts().await?;
        let left = self.left().await;
        let sessions: Vec<RestingSession> = stage
            .sessions
            .iter()
            .zip(before)
            .zip(clients)
            .zip(summaries)
            .map(|(((id, snapshot), clients), summary)| {
                let stored = stage.hosts.disk.rows(id);
                RestingSession {
                    id: id.clone(),
                    rows: stored.rows,
                    fault: stored.fault,
                    snapshot,
                    clients,
                    summary,
                }
            })
            .collect();
        let facts = stage.witness.facts();
        stage.witness.at_rest(&Rest { sessions: &sessions, left: &left, facts: &facts });
        Ok(())
    }
}

/// Names under which a message may be refused though the faults are over: each says that a person has to act.
const REFUSED_BY: &[&str] =
    &["agent_session_ownership_unknown", "session_closed", "read_only", "session_unknown"];

/// Nothing runs, nothing waits, nobody is asked, as far as the person's own client knows.
pub(super) fn is_at_rest(clients: &Clients, session: &SessionId) -> bool {
    let status = clients.summary(0, session).and_then(|s| s.status);
    !clients.look(0, session, is_busy)
        && !matches!(status, Some(Status::Working | Status::Attention))
}

fn read(snapshot: &Snapshot) -> Timeline {
    let mut timeline = Timeline::default();
    timeline.apply_snapshot(snapshot.clone());
    timeline
}

/// A message is under way, or a turn runs.
fn is_busy(timeline: &Timeline) -> bool {
    let under_way = |s: &SubmissionView| {
        matches!(s.state, SubmissionState::Queued | SubmissionState::HandedOver)
    };
    let running =
        |body: &ItemBody| matches!(body, ItemBody::Turn(t) if t.state == TurnState::Running);
    timeline.submissions().iter().any(|s| under_way(s))
        || timeline.items().iter().any(|item| running(&item.body))
}

fn last_turn(timeline: &Timeline) -> Option<Outcome> {
    timeline.items().into_iter().rev().find_map(|item| match &item.body {
        ItemBody::Turn(turn) => Some(turn.outcome),
        _ => None,
    })?
}
