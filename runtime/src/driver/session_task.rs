//! One session's task: the only caller of its machine. It brings facts and commands in, carries effects out, and holds
//! nothing that the machine should decide.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::child::{Child, WriteFailed};
use super::events::Event;
use super::feed::Feed;
use super::met::Told;
use super::{WATCHERS_MAX, WatchFrame, hex_id};
use crate::failure::{RefusalCode, RefusedOperation};
use crate::host::{Command, SessionEnd};
use crate::ids::{Fence, Generation, SessionId, SpawnToken};
use crate::journal::{Batch, Snapshot, StopReason};
use crate::limits::{CLOSE_BARRIER_MS, STOP_GRACE_MS};
use crate::platform::{BoxFuture, FileTail, Moment, Mono, SharedPlatform, sleep_ms};
use crate::session::record::SessionRecord;
use crate::session::{Answer, CallId, Effect, Operation, Policy, Session, Ticket};
use crate::status::Summary;
use crate::store::{Refusal, SharedStore, StoredRows};

/// Summaries of one session that the host task has not taken yet; past it the newest replaces the one before.
const SUMMARIES_MAX: usize = 16;
/// What a quitting host grants a session beyond every window of its child's end: the store's last answers.
const QUIT_SLACK_MS: u64 = 5_000;
/// Times a machine may be called for one deadline before it is plain that it never clears it.
const DEADLINE_REPEATS_MAX: u32 = 64;

/// What the host task asks of a session.
pub(super) enum Inbox {
    /// A mutating call.
    Command { expected_fence: Option<Fence>, command: Command, operation: Operation },
    /// The durable timeline.
    Snapshot(oneshot::Sender<Result<Snapshot, RefusedOperation>>),
    /// The durable timeline and everything after.
    Watch(Feed<WatchFrame>),
    /// Its summary again, for a subscription (rule 4.4.4).
    Project(u64),
    /// The host quits.
    Quit,
}

/// What a session tells the host task.
pub(super) enum FromSession {
    /// A call is answered.
    Answered(CallId, Answer),
    /// Summaries wait in its outbox.
    Published(Summaries),
    /// It was projected again for a subscription; what it published before came before.
    Projected(u64, SessionId),
}

/// Summaries on their way to the host task, bounded.
#[derive(Clone, Default)]
pub(super) struct Summaries(Arc<Mutex<VecDeque<Summary>>>);

impl Summaries {
    /// Puts one in; whether the host task has to be told.
    fn put(&self, summary: Summary) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= SUMMARIES_MAX {
            waiting.pop_back();
        }
        waiting.push_back(summary);
        waiting.len() == 1
    }

    /// Takes all of them, oldest first.
    pub(super) fn take(&self) -> VecDeque<Summary> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How a session begins.
pub(super) enum Origin {
    /// It is made now.
    Created(Box<SessionRecord>, Operation),
    /// It is an earlier host's.
    Restored(Box<SessionRecord>, StoredRows),
}

/// What every session's task is given.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) platform: SharedPlatform,
    pub(super) store: SharedStore,
    pub(super) policy: Policy,
    pub(super) check_invariants: bool,
    pub(super) facts: mpsc::UnboundedSender<FromSession>,
}

/// The task's state.
pub(super) struct SessionTask {
    id: SessionId,
    around: Surroundings,
    session: Session,
    pub(super) inbox: mpsc::Receiver<Inbox>,
    pub(super) inbox_open: bool,
    /// Events of our own making.
    pub(super) soon: VecDeque<Event>,
    pub(super) children: BTreeMap<Generation, Child>,
    /// Submitted and not answered; bounded by `APPENDS_IN_FLIGHT_MAX` and what a Stop adds.
    pub(super) appends: VecDeque<(Ticket, BoxFuture<Result<(), Refusal>>)>,
    /// An agent's session file that is being read.
    pub(super) reading_tail: Option<(Generation, BoxFuture<FileTail>)>,
    pub(super) timer: Option<(Mono, BoxFuture<()>)>,
    deadline_repeats: (Mono, u32),
    pub(super) quit_deadline: Option<BoxFuture<()>>,
    pub(super) watchers: Vec<Feed<WatchFrame>>,
    watched_fence: Fence,
    summaries: Summaries,
    quitting: bool,
    end: Option<SessionEnd>,
    met: Told,
}

impl SessionTask {
    /// The task's whole life. The machine is made inside it: a fault in making it is this session's alone.
    pub(super) async fn run(
        around: Surroundings,
        origin: Origin,
        inbox: mpsc::Receiver<Inbox>,
    ) -> SessionEnd {
        let now = moment(&around);
        let policy = around.policy.clone();
        let restored = matches!(origin, Origin::Restored(..));
        let session = match origin {
            Origin::Created(record, operation) => Session::create(policy, *record, operation, now),
            Origin::Restored(record, rows) => Session::restore(policy, *record, rows, now),
        };
        let mut task = Self {
            id: session.record().session.clone(),
            watched_fence: session.fence(),
            around,
            session,
            inbox,
            inbox_open: true,
            soon: VecDeque::new(),
            children: BTreeMap::new(),
            appends: VecDeque::new(),
            reading_tail: None,
            timer: None,
            deadline_repeats: (Mono::ZERO, 0),
            quit_deadline: None,
            watchers: Vec::new(),
            summaries: Summaries::default(),
            quitting: false,
            end: None,
            met: Told::default(),
        };
        if restored {
            // A restart forgets what was published; restoring publishes it again (rules 4.4.6, 7.6.4).
            task.publish(task.session.summary());
        }
        loop {
            task.carry_out();
            if let Some(end) = task.ended() {
                return end;
            }
            let event = task.next().await;
            task.handle(event);
        }
    }

    fn now(&self) -> Moment {
        moment(&self.around)
    }

    fn handle(&mut self, event: Event) {
        if !self.around.platform.observes_steps() {
            return self.hear(event);
        }
        let (before, fact) = (self.session.phase(), event.fact());
        self.hear(event);
        if let Some(fact) = fact {
            self.around.platform.stepped(before, fact, self.session.phase());
        }
    }

    fn hear(&mut self, event: Event) {
        let now = self.now();
        let session = &mut self.session;
        match event {
            Event::Inbox(Some(asked)) => self.handle_inbox(now, asked),
            Event::Inbox(None) => {
                self.inbox_open = false;
                self.quit(now);
            }
            Event::Minted(generation, token) => session.handle_minted(now, generation, token),
            Event::Spawned(generation, Ok(spawned)) => {
                let identity = spawned.identity.clone();
                if let Some(child) = self.children.get_mut(&generation) {
                    child.attach(self.around.platform.as_ref(), spawned);
                }
                session.handle_spawned(now, &generation, identity);
            }
            Event::Spawned(generation, Err(error)) => {
                self.children.remove(&generation);
                session.handle_spawn_failed(now, &generation, error);
            }
            Event::FileTail(generation, tail) => {
                session.handle_file_tail(now, &generation, &tail);
            }
            Event::Report(generation, report) => session.handle_report(now, &generation, report),
            Event::Stored(ticket, Ok(())) => session.handle_durable(now, ticket),
            Event::Stored(ticket, Err(refusal)) => session.handle_refused(now, ticket, refusal),
            Event::Deadline(at) => {
                self.count_deadline(at);
                self.session.handle_deadline(now);
            }
            Event::QuitDeadline => self.end = Some(SessionEnd::Unproven),
            Event::Wrote(generation, Ok(bytes)) => session.handle_written(now, &generation, bytes),
            Event::Wrote(generation, Err(WriteFailed)) => {
                session.handle_write_failed(now, &generation);
            }
            Event::Stdout(generation, chunk) => {
                session.handle_stdout(now, &generation, &chunk.bytes);
            }
            Event::StdoutEnd(generation) => session.handle_stdout_end(now, &generation),
            Event::Stderr(generation, bytes) => session.handle_stderr(now, &generation, &bytes),
            Event::StderrEnd(generation) => session.handle_stderr_end(now, &generation),
            Event::Watcher(index) => {
                let snapshot = WatchFrame::Snapshot(session.snapshot());
                if !self.watchers[index].push_snapshot(snapshot) {
                    self.watchers.remove(index);
                }
            }
        }
    }

    fn handle_inbox(&mut self, now: Moment, asked: Inbox) {
        match asked {
            Inbox::Command { expected_fence, command, operation } => {
                self.command(now, expected_fence, command, operation);
            }
            Inbox::Snapshot(reply) => {
                let _ = reply.send(Ok(self.session.snapshot()));
            }
            Inbox::Watch(feed) => self.watch(feed),
            Inbox::Project(subscription) => {
                self.publish(self.session.summary());
                self.tell(FromSession::Projected(subscription, self.id.clone()));
            }
            Inbox::Quit => self.quit(now),
        }
    }

    fn command(
        &mut self,
        now: Moment,
        expected_fence: Option<Fence>,
        command: Command,
        operation: Operation,
    ) {
        // The ledger was asked already; the fence comes after it, and where it is current (rule 5.10.2).
        if let Some(refusal) = self.session.refuses_fence(expected_fence) {
            let answer = command.refused(refusal);
            return self.tell(FromSession::Answered(operation.call, answer));
        }
        match command {
            Command::Send(send) => self.session.send(now, operation, send),
            Command::Stop(stop) => self.session.stop(now, operation, stop),
            Command::Answer(answer) => self.session.answer(now, operation, answer),
            Command::Close => self.session.close(now, operation),
            Command::Evict => self.session.evict(now, operation),
            Command::Create { .. } => {
                let refusal = RefusedOperation::new(RefusalCode::SessionExists);
                let answer = command.refused(refusal);
                self.tell(FromSession::Answered(operation.call, answer));
            }
        }
    }

    fn watch(&mut self, feed: Feed<WatchFrame>) {
        self.watchers.retain(|watcher| !watcher.is_dropped());
        // One too many ends at once; it may come again.
        if self.watchers.len() < WATCHERS_MAX {
            let snapshot = self.session.snapshot();
            self.watched_fence = snapshot.fence;
            feed.push_snapshot(WatchFrame::Snapshot(snapshot));
            self.watchers.push(feed);
        }
    }

    fn quit(&mut self, now: Moment) {
        if self.quitting {
            return;
        }
        self.quitting = true;
        self.session.end_child(now, StopReason::HostStop);
        let windows = {
            let ladder = &self.around.policy.ladder;
            let eof_ms = self.session.record().agent.eof_grace_ms.unwrap_or(0);
            // The forced steps twice: once for the agent, once for what it left behind (decision D21).
            ladder.eof_grace_ms.max(eof_ms) + 2 * (ladder.term_grace_ms + ladder.kill_wait_ms)
        };
        let bound_ms = STOP_GRACE_MS + CLOSE_BARRIER_MS + windows + QUIT_SLACK_MS;
        self.quit_deadline = Some(sleep_ms(self.around.platform.as_ref(), bound_ms));
    }

    /// Carries out everything the machine wants, then arms its one timer.
    fn carry_out(&mut self) {
        while let Some(effect) = self.session.poll_effect() {
            let (id, detail) = (&self.id, &effect);
            self.around.platform.event("effect", format_args!("{id} {detail}"));
            self.perform(effect);
        }
        self.met.tell(self.around.platform.as_ref(), self.session.met());
        if self.around.check_invariants {
            self.session.invariants();
        }
        let deadline = self.session.poll_deadline();
        if self.timer.as_ref().map(|(at, _)| *at) != deadline {
            self.timer = deadline.map(|at| (at, self.around.platform.sleep_until(at)));
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Append { ticket, unit } => {
                self.appends.push_back((ticket, self.around.store.submit(*unit)));
            }
            Effect::Answer { call, answer } => {
                if matches!(answer, Answer::Created(Err(_))) {
                    self.end = Some(SessionEnd::NotCreated);
                }
                self.tell(FromSession::Answered(call, answer));
            }
            Effect::Commit(batch) => self.commit(batch),
            Effect::Mint => {
                let platform = self.around.platform.as_ref();
                let generation = Generation(hex_id(platform));
                self.soon.push_back(Event::Minted(generation, SpawnToken(hex_id(platform))));
            }
            Effect::Publish(summary) => self.publish(*summary),
            Effect::Spawn { generation, spec } => {
                let child = Child::starting(self.around.platform.spawn_child(spec));
                self.children.insert(generation, child);
            }
            Effect::Forget { generation } => {
                self.children.remove(&generation);
            }
            Effect::Write { generation, frame } => {
                self.with_child(&generation, |child| child.write(frame));
            }
            Effect::CutStdin { generation } => self.with_child(&generation, Child::cut_stdin),
            Effect::CloseStdin { generation } => self.with_child(&generation, Child::close_stdin),
            Effect::ReadTail { generation, pattern, bytes_max } => {
                let read = self.around.platform.read_tail(pattern, bytes_max);
                self.reading_tail = Some((generation, read));
            }
            Effect::Read { generation, on } => self.with_child(&generation, |c| c.read(on)),
            Effect::Order { generation, order } => {
                self.with_child(&generation, |child| child.order(order));
            }
        }
    }

    /// An effect for a child that failed to start or was forgotten has nothing to act on.
    fn with_child(&mut self, generation: &Generation, act: impl FnOnce(&mut Child)) {
        if let Some(child) = self.children.get_mut(generation) {
            act(child);
        }
    }

    fn commit(&mut self, batch: Batch) {
        if self.watchers.is_empty() {
            return;
        }
        // An attach moved the fence: everyone gets the whole afresh (rule 6.9.3).
        if batch.fence != self.watched_fence {
            let snapshot = self.session.snapshot();
            self.watched_fence = snapshot.fence;
            self.watchers.retain(|w| w.push_snapshot(WatchFrame::Snapshot(snapshot.clone())));
        } else {
            self.watchers.retain(|w| w.push(WatchFrame::Batch(batch.clone())));
        }
    }

    fn publish(&self, summary: Summary) {
        if self.summaries.put(summary) {
            self.tell(FromSession::Published(self.summaries.clone()));
        }
    }

    fn tell(&self, fact: FromSession) {
        // A host that is gone has nobody who waits.
        let _ = self.around.facts.send(fact);
    }

    /// Whether nothing is left to do.
    fn ended(&self) -> Option<SessionEnd> {
        if self.end.is_some() {
            return self.end;
        }
        // A minted id on its way means that a child is about to be.
        let at_rest =
            self.session.is_at_rest() && !self.session.has_child() && self.soon.is_empty();
        match at_rest {
            true if self.session.record().closed => Some(SessionEnd::Closed),
            true if self.quitting => Some(SessionEnd::AtRest),
            // Every window has passed; only another caller would try again, and there will be none. What was seen of
            // the end is on disk first: the next host goes by it.
            false if self.quitting && self.session.is_unproven() && self.session.is_saved() => {
                Some(SessionEnd::Unproven)
            }
            _ => None,
        }
    }

    fn count_deadline(&mut self, at: Mono) {
        let (last, repeats) = self.deadline_repeats;
        let repeats = if last == at { repeats + 1 } else { 0 };
        assert!(repeats < DEADLINE_REPEATS_MAX, "a deadline that was handled is cleared");
        self.deadline_repeats = (at, repeats);
    }
}

fn moment(around: &Surroundings) -> Moment {
    Moment { mono: around.platform.now(), wall_ms: around.platform.wall_ms() }
}
