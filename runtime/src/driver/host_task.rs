//! The host's task: the only caller of the host's machine. It routes calls to sessions and answers to callers, keeps
//! the status stream, and waits for every session when the host ends.

use std::collections::{BTreeMap, BTreeSet};
use std::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot};

use super::feed::{Feed, broadcast};
use super::met::Told;
use super::session_task::{FromSession, Inbox, Origin, SessionTask, Surroundings};
use super::{CALLS_KEPT_FOR_STOPS, HostLimits, SESSION_FAILED, SUBSCRIBERS_MAX, WatchFrame};
use crate::failure::{RefusalCode, RefusedOperation};
use crate::host::{
    CallContext, Command, HostEffect, HostMachine, Incoming, SessionEnd, Statuses, SubscriptionId,
};
use crate::ids::SessionId;
use crate::journal::Snapshot;
use crate::planted::PlantedBug;
use crate::platform::{Moment, TaskError, Tasks, Watched};
use crate::session::{Answer, CallId};
use crate::status::{StatusFrame, Summary};

/// What a handle asks of the host.
pub(super) enum Call {
    Command {
        session: SessionId,
        context: CallContext,
        command: Command,
        reply: oneshot::Sender<Answer>,
    },
    Snapshot {
        session: SessionId,
        reply: oneshot::Sender<Result<Snapshot, RefusedOperation>>,
    },
    Watch {
        session: SessionId,
        feed: Feed<WatchFrame>,
    },
    Subscribe(Feed<StatusFrame>),
    Statuses(oneshot::Sender<Vec<Summary>>),
    Shutdown,
}

/// A question that could not be put to a session.
struct Unasked {
    refusal: RefusedOperation,
    asked: Inbox,
}

enum Event {
    Fact(FromSession),
    /// `None` when the last handle is gone.
    Called(Option<Call>),
    Ended(u64, Result<SessionEnd, TaskError>),
    Subscriber(usize),
}

/// Tells those who wait for the host's end, however it comes.
pub(super) struct Ending(pub(super) Watched<Option<Vec<SessionId>>>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.update(|unproven| {
            unproven.get_or_insert_default();
        });
    }
}

/// The task's state.
pub(super) struct HostTask {
    around: Surroundings,
    limits: HostLimits,
    machine: HostMachine,
    calls: mpsc::Receiver<Call>,
    calls_open: bool,
    facts: mpsc::UnboundedReceiver<FromSession>,
    waiting: BTreeMap<CallId, oneshot::Sender<Answer>>,
    last_call: u64,
    sessions: BTreeMap<SessionId, mpsc::Sender<Inbox>>,
    tasks: Tasks<SessionEnd>,
    task_sessions: BTreeMap<u64, SessionId>,
    statuses: Statuses,
    subscribers: Vec<Feed<StatusFrame>>,
    joining: BTreeMap<SubscriptionId, Feed<StatusFrame>>,
    last_subscription: SubscriptionId,
    unproven: BTreeSet<SessionId>,
    ending: Ending,
    met: Told,
}

impl HostTask {
    pub(super) fn new(
        around: Surroundings,
        limits: HostLimits,
        machine: HostMachine,
        calls: mpsc::Receiver<Call>,
        facts: mpsc::UnboundedReceiver<FromSession>,
        ending: Ending,
    ) -> Self {
        let statuses = Statuses::default();
        #[cfg(feature = "planted-bugs")]
        let statuses = statuses.planting(&around.policy);
        Self {
            around,
            limits,
            machine,
            calls,
            calls_open: true,
            facts,
            waiting: BTreeMap::new(),
            last_call: 0,
            sessions: BTreeMap::new(),
            tasks: Tasks::default(),
            task_sessions: BTreeMap::new(),
            statuses,
            subscribers: Vec::new(),
            joining: BTreeMap::new(),
            last_subscription: 0,
            unproven: BTreeSet::new(),
            ending,
            met: Told::default(),
        }
    }

    /// Starts a session's task.
    pub(super) fn start(&mut self, session: SessionId, origin: Origin) {
        // As long as the calls of the host: it never refuses what the host took.
        let (inbox, asked) = mpsc::channel(self.limits.calls_max);
        let life = SessionTask::run(self.around.clone(), origin, asked);
        let task = self.tasks.spawn(self.around.platform.as_ref(), "session", life);
        self.task_sessions.insert(task, session.clone());
        self.sessions.insert(session, inbox);
    }

    /// The task's whole life; it ends when the host quits and every session is at rest.
    pub(super) async fn run(mut self) {
        while !(self.machine.is_quitting() && self.tasks.is_empty()) {
            let event = std::future::poll_fn(|cx| self.poll_event(cx)).await;
            self.handle(event);
            self.carry_out();
        }
        let unproven = std::mem::take(&mut self.unproven).into_iter().collect();
        // Their feeds end with them, and a stream reads that as its `End`.
        self.subscribers.clear();
        // Let go of the store before anyone is told: whoever waits may open it again at once.
        drop(self.around);
        self.ending.0.update(|ended| *ended = Some(unproven));
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Poll::Ready(Some(fact)) = self.facts.poll_recv(cx) {
            return Poll::Ready(Event::Fact(fact));
        }
        if self.calls_open
            && let Poll::Ready(call) = self.calls.poll_recv(cx)
        {
            return Poll::Ready(Event::Called(call));
        }
        {
            // Made anew at each poll: it is cancel-safe and holds nothing.
            let mut joining = std::pin::pin!(self.tasks.join_next());
            if let Poll::Ready(Some((task, end))) = joining.as_mut().poll(cx) {
                return Poll::Ready(Event::Ended(task, end));
            }
        }
        let wanted = self.subscribers.iter().position(|s| s.poll_wanted(cx).is_ready());
        wanted.map_or(Poll::Pending, |index| Poll::Ready(Event::Subscriber(index)))
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Fact(fact) => self.handle_fact(fact),
            Event::Called(None) => {
                // Dropping the last handle is a shutdown that nobody waits for.
                self.calls_open = false;
                self.machine.quit();
            }
            Event::Called(Some(call)) => self.handle_call(call),
            Event::Ended(task, end) => self.handle_ended(task, end),
            Event::Subscriber(index) => {
                let summaries = self.statuses.all();
                if !self.subscribers[index].push_snapshot(StatusFrame::Snapshot { summaries }) {
                    self.subscribers.remove(index);
                }
            }
        }
    }

    fn handle_fact(&mut self, fact: FromSession) {
        match fact {
            FromSession::Answered(call, answer) => self.machine.handle_answer(call, answer),
            FromSession::Published(summaries) => {
                for summary in summaries.take() {
                    if self.statuses.publish(summary.clone()) {
                        self.broadcast(summary);
                    }
                }
            }
            FromSession::Projected(subscription, session) => {
                self.statuses.handle_projected(subscription, &session);
            }
        }
    }

    fn handle_call(&mut self, call: Call) {
        match call {
            Call::Command { session, context, command, reply } => {
                self.command(session, context, command, reply);
            }
            Call::Snapshot { session, reply } => {
                if let Err(unasked) = self.ask(&session, Inbox::Snapshot(reply))
                    && let Unasked { refusal, asked: Inbox::Snapshot(reply) } = *unasked
                {
                    let _ = reply.send(Err(refusal));
                }
            }
            // A watch of a session that cannot be reached ends: its feed is dropped here.
            Call::Watch { session, feed } => {
                let _ = self.ask(&session, Inbox::Watch(feed));
            }
            Call::Subscribe(feed) => self.subscribe(feed),
            Call::Statuses(reply) => {
                let _ = reply.send(self.statuses.all());
            }
            Call::Shutdown => self.machine.quit(),
        }
    }

    fn command(
        &mut self,
        session: SessionId,
        context: CallContext,
        command: Command,
        reply: oneshot::Sender<Answer>,
    ) {
        let kept = if command.ends_something() { 0 } else { CALLS_KEPT_FOR_STOPS };
        if self.waiting.len() + kept >= self.limits.calls_max {
            let _ = reply.send(command.refused(RefusedOperation::new(RefusalCode::QueueFull)));
            return;
        }
        self.last_call += 1;
        let call = CallId(self.last_call);
        self.waiting.insert(call, reply);
        self.machine.call(self.now(), Incoming { call, session, context, command });
    }

    /// Asks a session, or gives back what was to be asked with the reason why it cannot be.
    fn ask(&self, session: &SessionId, asked: Inbox) -> Result<(), Box<Unasked>> {
        let (code, asked) = match (self.machine.unreachable(session), self.sessions.get(session)) {
            (Some(code), _) => (code, asked),
            (None, None) => (RefusalCode::Quitting, asked),
            (None, Some(inbox)) => match inbox.try_send(asked) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Full(asked)) => (RefusalCode::QueueFull, asked),
                // Its task has ended and says so next.
                Err(mpsc::error::TrySendError::Closed(asked)) => {
                    (RefusalCode::SessionClosed, asked)
                }
            },
        };
        Err(Box::new(Unasked { refusal: RefusedOperation::new(code), asked }))
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.machine.poll_effect() {
            match effect {
                HostEffect::Create { record, operation } => {
                    self.start(record.session.clone(), Origin::Created(record, operation));
                }
                HostEffect::Deliver { session, expected_fence, command, operation } => {
                    let call = operation.call;
                    let asked = Inbox::Command { expected_fence, command, operation };
                    if let Err(unasked) = self.ask(&session, asked)
                        && let Unasked { refusal, asked: Inbox::Command { command, .. } } = *unasked
                    {
                        self.machine.handle_answer(call, command.refused(refusal));
                    }
                }
                HostEffect::EndChildren => {
                    // A session whose inbox is full learns of it from the inbox's end.
                    self.sessions.retain(|_, inbox| inbox.try_send(Inbox::Quit).is_ok());
                }
                HostEffect::Reply { call, answer } => {
                    if let Some(reply) = self.waiting.remove(&call) {
                        let _ = reply.send(answer);
                    }
                }
            }
        }
        while let Some(subscription) = self.statuses.poll_joined() {
            if let Some(feed) = self.joining.remove(&subscription) {
                let summaries = self.statuses.all();
                if feed.push_snapshot(StatusFrame::Snapshot { summaries }) {
                    self.subscribers.push(feed);
                }
            }
        }
        self.met.tell(self.around.platform.as_ref(), self.machine.met());
        if self.around.check_invariants {
            self.machine.invariants();
        }
    }

    /// Projects every session again before the newcomer hears anything (rule 4.4.4).
    fn subscribe(&mut self, feed: Feed<StatusFrame>) {
        self.subscribers.retain(|subscriber| !subscriber.is_dropped());
        self.joining.retain(|_, subscriber| !subscriber.is_dropped());
        if self.subscribers.len() + self.joining.len() >= SUBSCRIBERS_MAX {
            return;
        }
        self.last_subscription += 1;
        let id = self.last_subscription;
        let mut asked = self.machine.open();
        asked.retain(|session| self.ask(session, Inbox::Project(id)).is_ok());
        self.statuses.subscribe(id, asked);
        self.joining.insert(id, feed);
    }

    fn broadcast(&mut self, summary: Summary) {
        let frame = StatusFrame::Status { summary: Box::new(summary) };
        let silences = self.around.policy.plants(PlantedBug::GoneSubscriberSilencesTheRest);
        broadcast(&mut self.subscribers, &frame, silences);
    }

    fn handle_ended(&mut self, task: u64, end: Result<SessionEnd, TaskError>) {
        // What the session said last was said before its end.
        while let Ok(fact) = self.facts.try_recv() {
            self.handle_fact(fact);
        }
        let Some(session) = self.task_sessions.remove(&task) else { return };
        self.sessions.remove(&session);
        let end = end.unwrap_or_else(|fault| {
            // The words of a panic may quote what the machine held.
            let what = match &fault {
                TaskError::Aborted(_) => "was aborted",
                TaskError::Panicked(..) => "panicked",
            };
            tracing::error!(session = %session, "the session's task {what}; it takes no more calls");
            self.around.platform.event(SESSION_FAILED, format_args!("{session}: {fault}"));
            SessionEnd::Failed
        });
        self.machine.handle_ended(&session, end);
        self.statuses.handle_gone(&session);
        match end {
            SessionEnd::Closed | SessionEnd::NotCreated => self.statuses.remove(&session),
            SessionEnd::Failed => {
                if let Some(summary) = self.statuses.revoke(&session) {
                    self.broadcast(summary);
                }
            }
            SessionEnd::Unproven => {
                self.unproven.insert(session);
            }
            SessionEnd::AtRest => {}
        }
    }

    fn now(&self) -> Moment {
        let platform = &self.around.platform;
        Moment { mono: platform.now(), wall_ms: platform.wall_ms() }
    }
}
