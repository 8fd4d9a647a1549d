//! The machine of one session.
//!
//! It has exactly four kinds of methods: getters; `handle_*`, facts from the world; commands, what a caller asks; and
//! `poll_*`, what the driver must do next. After every handle or command poll effects until there is none, then arm one
//! timer at `poll_deadline`. Time must not go backwards.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::append::Appends;
use super::child::Child;
use super::record::SessionRecord;
use super::settings::Policy;
use super::text::OpenText;
use super::timers::{Timer, Timers};
use super::{CallId, Effect, Operation};
use crate::coverage::{CoverageMark, CoverageMarks, Met};
use crate::failure::{RefusalCode, RefusedOperation};
use crate::ids::{Fence, Generation, MessageId};
use crate::journal::{EpochReason, Fold, RowKind, Snapshot};
use crate::planted::PlantedBug;
use crate::platform::{Moment, Mono};
use crate::status::{Status, StorageState, Summary, SummaryInput, reads_the_same, status, summary};

/// One hosted session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub(super) policy: Policy,
    /// As it will be once everything planned is durable.
    pub(super) record: SessionRecord,
    /// The journal as planned: the machine decides by it.
    pub(super) plan: Fold,
    /// The journal as it is on disk: readers see it.
    pub(super) durable: Fold,
    pub(super) appends: Appends,
    pub(super) effects: VecDeque<Effect>,
    pub(super) timers: Timers,
    pub(super) child: Option<Child>,
    /// A fresh generation was asked for.
    pub(super) minting: bool,
    pub(super) text: Option<OpenText>,
    pub(super) texts_made: u64,
    /// Updates that were not stored because the store refused through a ladder (decision D8).
    pub(super) discarded: u64,
    /// A message whose handover was recorded and whose frame a Stop held back: it goes first on the next child
    /// (decision D24).
    pub(super) withheld: Option<MessageId>,
    /// Messages that steer: they came while a prompt ran that they cut, which is this child's (rule 2.5.1). Pruned to those
    /// that wait.
    pub(super) steers: Vec<(Generation, MessageId)>,
    /// The latest person's Stop on this host, until what it stopped has ended.
    pub(super) settle: Option<super::settle::Settle>,
    /// Callers that wait for the child's end.
    pub(super) closers: Vec<Operation>,
    pub(super) life: Life,
    pub(super) published: Option<Summary>,
    /// What the published summary was made of: while it is the same, nothing is derived again (rule 4.1.7).
    pub(super) published_of: Option<SummaryOf>,
    pub(super) status_since: (Option<Status>, Option<u64>),
    pub(super) met: Met,
}

/// Everything a summary depends on, by its version.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct SummaryOf {
    /// The durable journal's.
    seq: u64,
    /// The record's; each start and each end of a child changes it.
    revision: u64,
    phase: Option<crate::status::ChildPhase>,
    refusing: bool,
    stopping: bool,
    /// What a Stop holds back; a repeated one withdraws it before that is on disk.
    held: Vec<MessageId>,
}

/// What the session still takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) enum Life {
    /// Everything.
    Open,
    /// Reads only: a newer build wrote it (rule 6.10.1), or its journal is damaged.
    ReadOnly,
    /// The host is quitting: nothing starts or is handed over (rule 5.3.7).
    Quitting,
    /// A person closed it.
    Closed,
}

impl Session {
    /// A new session; its creation is answered once it is durable.
    pub fn create(
        policy: Policy,
        record: SessionRecord,
        operation: Operation,
        now: Moment,
    ) -> Self {
        let mut session = Self::empty(policy, record);
        // The first unit creates the record: revision 0 is what the store must not have yet.
        session.record.revision = 0;
        let epoch = RowKind::Epoch {
            session: session.record.session.clone(),
            reason: EpochReason::Created,
        };
        let draft = super::append::Draft::rows(vec![epoch]).with_record().answering(
            &session,
            now,
            &operation,
            super::Answer::Created(Ok(())),
        );
        session.plan(now, draft);
        session
    }

    pub(super) fn empty(policy: Policy, record: SessionRecord) -> Self {
        Self {
            policy,
            record,
            plan: Fold::planning(),
            durable: Fold::new(),
            appends: Appends::default(),
            effects: VecDeque::new(),
            timers: Timers::default(),
            child: None,
            minting: false,
            text: None,
            texts_made: 0,
            discarded: 0,
            withheld: None,
            steers: Vec::new(),
            settle: None,
            closers: Vec::new(),
            life: Life::Open,
            published: None,
            published_of: None,
            status_since: (None, None),
            met: Met::default(),
        }
    }

    /// The record, as it will be once everything planned is durable.
    pub fn record(&self) -> &SessionRecord {
        &self.record
    }

    /// The session's fence.
    pub fn fence(&self) -> Fence {
        self.record.lease.fence
    }

    /// The coverage marks it has met since it was made or restored. No part of its state.
    pub fn met(&self) -> CoverageMarks {
        self.met.marks()
    }

    pub(super) fn sometimes(&mut self, mark: CoverageMark) {
        self.met.sometimes(mark);
    }

    pub(super) fn plants(&self, bug: PlantedBug) -> bool {
        self.policy.plants(bug)
    }

    /// Why a call is not taken that expects the session to stand at the fence `seen`, if it is not (rule 5.10.2).
    pub fn refuses_fence(&mut self, seen: Option<Fence>) -> Option<RefusedOperation> {
        let current = self.fence();
        if seen.is_none_or(|seen| seen == current) || self.plants(PlantedBug::DropTheFenceCheck) {
            return None;
        }
        self.sometimes(CoverageMark::FenceStale);
        let mut refusal = RefusedOperation::new(RefusalCode::CheckpointStale);
        refusal.current_fence = Some(current);
        Some(refusal)
    }

    /// The durable timeline.
    pub fn snapshot(&self) -> Snapshot {
        let mut whole = self.durable.snapshot();
        self.misread_notes(&mut whole.items);
        whole
    }

    /// The durable fold.
    pub fn journal(&self) -> &Fold {
        &self.durable
    }

    /// A child exists, or its end is not proven.
    pub fn has_child(&self) -> bool {
        self.child.is_some()
    }

    /// Faults of the agent that were seen on the child on record.
    pub fn defects(&self) -> Option<&super::defects::Defects> {
        self.child.as_ref().map(|c| &c.defects)
    }

    /// The child is being ended, and every window has passed without a proof.
    pub fn is_unproven(&self) -> bool {
        self.child.as_ref().is_some_and(|c| c.gave_up() || c.tree_resists())
    }

    /// No child, and nothing that waits to become durable.
    pub fn is_at_rest(&self) -> bool {
        self.child.is_none() && !self.minting && self.is_saved()
    }

    /// Nothing waits to become durable.
    pub fn is_saved(&self) -> bool {
        self.text.is_none() && self.appends.is_empty()
    }

    /// The summary, as it is published: it rests on durable rows.
    pub fn summary(&self) -> Summary {
        let refusing = self.appends.is_refusing() || self.appends.is_closed();
        let mut summary = summary(&SummaryInput {
            record: &self.record,
            fold: &self.published_fold(),
            child: self.child.as_ref().and_then(Child::published),
            storage: refusing.then_some(StorageState::NotSaved),
            status_started_at: self.status_since.1,
            stopping: self.is_stopping(),
            held: &self.held(),
        });
        self.misread_summary(&mut summary);
        summary
    }

    fn published_fold(&self) -> Cow<'_, Fold> {
        if self.plants(PlantedBug::PublishBeforeDurable) {
            return Cow::Owned(self.appends.over(&self.durable));
        }
        Cow::Borrowed(&self.durable)
    }

    /// When to call `handle_deadline`.
    pub fn poll_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// What to do next; `None` once everything is done.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Time has passed.
    pub fn handle_deadline(&mut self, now: Moment) {
        while let Some(timer) = self.timers.take_due(now.mono) {
            match timer {
                Timer::AgentTurnQuiet => self.end_quiet_agent_turn(now),
                Timer::CloseBarrier => self.end_barrier(now, CoverageMark::BarrierExpired),
                Timer::Ladder => self.climb(now),
                Timer::SessionFile => self.give_up_look(now),
                Timer::StdinDrain => self.cut_stdin(now),
                Timer::StdoutDrain => self.give_up_stdout(now),
                Timer::StdoutEnd => self.break_connection(now),
                Timer::StopGrace => {
                    self.sometimes(CoverageMark::StopGraceExpired);
                    self.end_wound_down(now);
                }
                Timer::StoreRetry => self.retry_appends(now),
                Timer::TextFlush => {
                    self.sometimes(CoverageMark::TextByTime);
                    self.flush_text(now);
                }
            }
        }
        self.advance(now);
    }

    /// What every step ends with: deliver what may go, publish what changed.
    pub(super) fn advance(&mut self, now: Moment) {
        self.end_stuck_child(now);
        self.deliver(now);
        self.close_settle();
        self.publish(now);
    }

    fn publish(&mut self, now: Moment) {
        let refusing = self.appends.is_refusing() || self.appends.is_closed();
        let phase = self.child.as_ref().and_then(Child::published_phase);
        let of = SummaryOf {
            seq: self.published_seq(),
            revision: self.record.revision,
            phase,
            refusing,
            // A settle writes no row, so its edges are part of what a summary is made of (rule 4.4.3).
            stopping: self.is_stopping() && !self.plants(PlantedBug::SettleEdgeUnpublished),
            held: match self.plants(PlantedBug::SettleEdgeUnpublished) {
                false => self.held(),
                true => Vec::new(),
            },
        };
        let again = self.plants(PlantedBug::DeriveEveryTime);
        if self.published_of.as_ref() == Some(&of) && !again {
            return;
        }
        self.published_of = Some(of);
        let present = status(&self.published_fold());
        if self.status_since.0 != present || self.plants(PlantedBug::DateByActivity) {
            // Dated by the session's own edges, never by row activity (rule 4.3.1).
            self.status_since = (present, present.is_some().then_some(now.wall_ms));
        }
        let summary = self.summary();
        if self.published.as_ref().is_some_and(|p| self.is_no_news(p, &summary)) {
            return;
        }
        self.published = Some(summary.clone());
        self.effects.push_back(Effect::Publish(Box::new(summary)));
    }

    fn is_no_news(&self, published: &Summary, summary: &Summary) -> bool {
        if self.plants(PlantedBug::StoppingIsNoNews) {
            let (stopping, held) = (published.stopping, published.held.clone());
            return reads_the_same(published, &Summary { stopping, held, ..summary.clone() });
        }
        reads_the_same(published, summary)
    }

    fn published_seq(&self) -> u64 {
        if self.plants(PlantedBug::SummaryNotRepublished) {
            return 0;
        }
        if self.plants(PlantedBug::PublishBeforeDurable) {
            return self.plan.cursor().seq;
        }
        self.durable.cursor().seq
    }

    pub(super) fn answer_now(&mut self, call: CallId, answer: super::Answer) {
        self.effects.push_back(Effect::Answer { call, answer });
    }

    /// What must always hold. Panics with a sentence when it does not.
    pub fn invariants(&self) {
        if let Some(child) = &self.child {
            assert!(
                child.fence == self.record.lease.fence,
                "the child runs under the session's fence"
            );
            assert!(
                child.prompt.is_none() || child.turn.is_some() || child.root.is_some(),
                "a prompt on the wire has its turn"
            );
            assert!(
                !(child.is_ready() && self.record.head().is_none()),
                "a ready child has its handle link"
            );
            assert!(
                child.early.len() <= crate::limits::EARLY_FRAMES_MAX,
                "early frames are bounded"
            );
            assert!(
                child.asks.len() <= crate::limits::AGENT_REQUESTS_MAX,
                "open requests are bounded"
            );
        }
        if let Some(published) = &self.published {
            assert!(
                published.held.is_empty() || published.stopping,
                "nothing is published as held that no Stop holds"
            );
        }
        assert!(self.plan.running_turns().count() <= 1, "one turn runs at a time");
        assert!(
            self.plan.cursor().seq >= self.durable.cursor().seq,
            "nothing is durable that was not planned"
        );
        if self.appends.is_empty() && !self.appends.is_closed() {
            assert_eq!(
                self.plan.cursor(),
                self.durable.cursor(),
                "with nothing waiting, planned is durable"
            );
        }
        if self.child.is_none() && self.life == Life::Open && !self.appends.is_closed() {
            assert!(self.plan.running_turn().is_none(), "no turn runs without a child");
        }
    }
}
