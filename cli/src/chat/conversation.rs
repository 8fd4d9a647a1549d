//! One session from its creation to its close: what a person does, and what the agent makes of it.
//!
//! Of a pipe each line is a turn, one after the other, here; at a terminal a person writes while the agent works, in
//! [`at_terminal`].

#![expect(
    clippy::disallowed_methods,
    reason = "a binary: how long a person waits for a disk is measured on the real clock"
)]

mod at_terminal;

use std::future::{Future, poll_fn};
use std::io::IsTerminal;
use std::path::Path;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use anyhow::{anyhow, bail};
use moored::driver::{Host, StatusStream, Watch, WatchFrame};
use moored::failure::RefusedOperation;
use moored::host::{CallContext, NewSession, PermissionAnswer, Send, Stop};
use moored::ids::{MessageId, SessionId};
use moored::journal::{EndedAnswer, SendMode, Timeline};
use moored::session::ladder::POSIX_STOP_MS_MAX;
use moored::status::{StatusFrame, Summary};
use serde_json::json;

use super::ending::{self, agent_end};
use super::input::{Asked, Keyboard, Signals, Typed};
use super::reading::{self, Question};
use super::screen::Screen;
use crate::error::Verdict;
use crate::stored::Stored;
use at_terminal::{Called, Person};

pub use super::ending::TurnEnd;

/// How long a store may refuse before the conversation gives up on it. What it refuses is tried again all the while.
const NOT_SAVED_MS_MAX: u64 = 3_000;
/// A host whose store refuses gets this long to end the agent: a whole ladder. A supervisor goes on by itself.
const SHUTDOWN_MS_MAX: u64 = POSIX_STOP_MS_MAX + 500;
/// Pressed so often while nothing comes of it, Ctrl-C leaves.
const INTERRUPTS_MAX: u32 = 3;

/// Shown from the press of Stop to the end of what it stops (rules 4.6.1, 4.6.3).
const STOPPING: &str = "Stopping\u{2026}";

/// What happens next.
enum Event {
    Asked(Asked),
    Called(Called),
    Frame(WatchFrame),
    NotSaved,
    Status(Option<StatusFrame>),
    Tick,
    Typed(Typed),
}

/// A conversation.
pub struct Conversation {
    host: Host,
    session: SessionId,
    watch: Watch,
    statuses: Option<StatusStream>,
    timeline: Timeline,
    screen: Screen,
    keyboard: Keyboard,
    signals: Signals,
    /// The watch has ended.
    ended: bool,
    /// The store refuses since then.
    refusing_since: Option<tokio::time::Instant>,
    /// A person was told so, and may free some space; nobody else is waited for.
    warned: bool,
    is_patient: bool,
    interrupts: u32,
    leaving: bool,
    /// The host says that a Stop is under way.
    stopping: bool,
    person: Person,
    store: String,
}

impl Conversation {
    /// Makes a session, durably.
    pub async fn begin(
        host: &Host,
        new: NewSession,
        screen: Screen,
        keyboard: Keyboard,
        signals: Signals,
        store: &Path,
    ) -> anyhow::Result<Self> {
        let session = new.id.clone();
        let told = json!({ "id": session, "agent": new.agent.name, "workspace": new.workspace });
        let mut conversation = Self {
            host: host.clone(),
            session: session.clone(),
            watch: host.watch(&session),
            statuses: Some(host.subscribe()),
            timeline: Timeline::default(),
            screen,
            keyboard,
            signals,
            // There is nothing to watch yet.
            ended: true,
            refusing_since: None,
            warned: false,
            is_patient: false,
            interrupts: 0,
            leaving: false,
            stopping: false,
            person: Person::default(),
            store: store.display().to_string(),
        };
        let call = host.create(new, conversation.context());
        match conversation.attend(call).await {
            Ok(Some(())) => {}
            Ok(None) => bail!("left before the session was made"),
            // Nothing was started that would have to be ended.
            Err(error) => return Err(error),
        }
        conversation.watch = host.watch(&session);
        conversation.ended = false;
        conversation.screen.event("session", || told);
        Ok(conversation)
    }

    /// Says how the conversation is held. From here on a person at a terminal decides how long a store is waited for.
    pub fn greet(&mut self) {
        self.is_patient = std::io::stdin().is_terminal();
        self.screen.note(
            "Type a message and press Enter. Ctrl-C while the agent works stops it; \
             Ctrl-C or Ctrl-D at rest closes the session.",
        );
    }

    /// Whether a person sits at a terminal, and can write while the agent works.
    pub fn go_live(&mut self) -> bool {
        let is_live = self.screen.go_live();
        if is_live {
            self.keyboard.read_keys();
        }
        is_live
    }

    /// The next message; `None` once a person closes.
    pub async fn next_message(&mut self) -> Option<String> {
        self.screen.invite("> ");
        loop {
            match self.event(true).await {
                Event::Asked(Asked::Interrupt | Asked::Leave) | Event::Typed(Typed::End) => {
                    self.screen.invite("\n");
                    return None;
                }
                Event::Typed(Typed::Line(line)) if line.trim().is_empty() => {
                    self.screen.invite("> ");
                }
                Event::Typed(Typed::Line(line)) => return Some(line),
                Event::Typed(Typed::TooLong) => {
                    self.screen.note("[warning] that line is too long, and was skipped whole");
                }
                // What is not saved is tried again; a person at rest loses nothing by it.
                Event::NotSaved => self.warn(),
                event => self.absorb(event),
            }
            if self.ended {
                return None;
            }
        }
    }

    /// Sends a message, and attends to its turn until that is over. An agent with which no conversation is possible is
    /// an error.
    pub async fn hold_turn(&mut self, text: String) -> anyhow::Result<TurnEnd> {
        self.interrupts = 0;
        let message_id = MessageId(self.host.mint_id("message"));
        let send = Send { message_id: message_id.clone(), text, mode: SendMode::AfterTurn };
        let call = self.host.send(&self.session, send, self.context());
        if self.attend(call).await?.is_none() {
            return Ok(TurnEnd::Left);
        }
        let mut stopped = false;
        let mut asked = None;
        loop {
            if let Some(end) = reading::end_of(&self.timeline, &message_id) {
                self.screen.end_turn();
                self.screen.ask(true, &self.timeline);
                return match end {
                    TurnEnd::Rejected(fact)
                        if ending::cannot_run(&fact)
                            && reading::turns(&self.timeline).next().is_none() =>
                    {
                        Err(anyhow!("{}", ending::told(&fact)))
                    }
                    end => Ok(end),
                };
            }
            if self.ended {
                bail!("the session ended by a fault of the host; send it again in a new one");
            }
            if self.leaving || self.interrupts > 1 {
                return Ok(TurnEnd::Left);
            }
            if self.interrupts == 1 && !stopped {
                stopped = true;
                self.stop().await?;
                continue;
            }
            // From the Stop on nothing is asked (rule 3.5.3).
            let question = reading::question(&self.timeline).filter(|_| !stopped);
            if question != asked {
                if question.is_some() {
                    self.screen.invite("? ");
                }
                asked.clone_from(&question);
            }
            match (self.event(question.is_some()).await, question) {
                (Event::Typed(typed), Some(question)) => self.answer(question, typed).await?,
                (Event::NotSaved, _) if self.is_patient => self.warn(),
                (Event::NotSaved, _) => return Err(ending::not_saved(&self.store)),
                (event, _) => self.absorb(event),
            }
        }
    }

    /// Says how a turn ended.
    pub fn tell(&mut self, end: &TurnEnd) {
        self.screen.event("turn", || end.to_json());
        if let Some(sentence) = end.sentence() {
            self.screen.note(&format!("[turn] {sentence}"));
        }
    }

    /// Closes the session and ends the host, and says how the agent ended. After an error nothing is said but that.
    pub async fn end(
        mut self,
        store: &Path,
        held: anyhow::Result<Verdict>,
    ) -> anyhow::Result<Verdict> {
        // The terminal is a plain one again before anything can go wrong.
        self.screen.leave_live();
        if self.refusing_since.is_some() {
            let proven = self.give_up().await;
            held?;
            self.screen.note(&format!("[end] {}", ending::unsaved(proven)));
            return Err(ending::not_saved(&self.store));
        }
        self.interrupts = 0;
        self.leaving = false;
        let call = self.host.close(&self.session, self.context());
        let answer = match self.attend(call).await {
            Ok(answer) => answer,
            Err(error) => {
                // What became of the agent is told by the error that ends the conversation.
                let _ = self.give_up().await;
                return held.and(Err(error));
            }
        };
        let unproven = self.host.shutdown().await.is_err();
        let rows = match Stored::open(store) {
            Ok(stored) => stored.rows(&self.session).await.map(|stored| stored.rows),
            Err(error) => Err(error),
        };
        let said = agent_end(&rows.unwrap_or_default(), answer.as_ref());
        self.screen.event("end", || ended(&self.session, answer.as_ref(), &said));
        let verdict = held?;
        self.screen.note(&format!("[end] {said}"));
        self.screen.note(&format!("[end] the journal is kept: moored journal {}", self.session));
        Ok(if unproven { Verdict::Failed } else { verdict })
    }

    fn context(&self) -> CallContext {
        self.host.call_context("moored-chat".into())
    }

    /// Presses Stop on what runs.
    async fn stop(&mut self) -> anyhow::Result<()> {
        self.screen.ask(false, &self.timeline);
        self.screen.note(&format!("[stop] {STOPPING}; Ctrl-C again closes the session"));
        let stop = Stop { turn: reading::running_turn(&self.timeline).map(|t| t.turn.clone()) };
        let call = self.host.stop(&self.session, stop, self.context());
        self.attend(call).await.map(drop)
    }

    async fn answer(&mut self, question: Question, typed: Typed) -> anyhow::Result<()> {
        let option = match question.chosen(&typed) {
            Ok(option) => option,
            Err(hint) => {
                self.screen.note(&hint);
                self.screen.invite("? ");
                return Ok(());
            }
        };
        let Question { item, revision, .. } = question;
        let answer = PermissionAnswer { item, expected_revision: revision, option };
        let call = self.host.answer(&self.session, answer, self.context());
        // One that came too late shows in the timeline.
        self.attend(async move { Ok(call.await.err()) }).await.map(|refused| {
            if let Some(Some(refusal)) = refused {
                self.screen.note(&format!("[warning] {}", refusal.sentence));
            }
        })
    }

    /// Waits for a call's answer, and attends to everything else meanwhile. `None` when a person would not wait.
    async fn attend<T>(
        &mut self,
        call: impl Future<Output = Result<T, RefusedOperation>>,
    ) -> anyhow::Result<Option<T>> {
        let mut call = pin!(call);
        loop {
            let answered = {
                let mut event = pin!(self.event(false));
                poll_fn(|cx| match call.as_mut().poll(cx) {
                    Poll::Ready(answer) => Poll::Ready(Ok(answer)),
                    Poll::Pending => event.as_mut().poll(cx).map(Err),
                })
                .await
            };
            let event = match answered {
                Ok(answer) => {
                    return answer.map(Some).map_err(|r| ending::refused(&r, &self.store));
                }
                Err(event) => event,
            };
            match event {
                Event::NotSaved if self.is_patient => self.warn(),
                Event::NotSaved => return Err(ending::not_saved(&self.store)),
                event => self.absorb(event),
            }
            if self.leaving || self.interrupts >= INTERRUPTS_MAX {
                return Ok(None);
            }
        }
    }

    async fn event(&mut self, listens: bool) -> Event {
        let Self { watch, statuses, keyboard, signals, ended, refusing_since, warned, .. } = self;
        let Person { calls, tick, is_writing, .. } = &mut self.person;
        let patience = refusing_since.filter(|_| !*warned);
        let patience = patience.map(|at| at + Duration::from_millis(NOT_SAVED_MS_MAX));
        let mut asked = pin!(signals.next());
        let mut frame = pin!(next_frame(watch, *ended));
        let mut status = pin!(next_status(statuses));
        let mut typed = pin!(next_typed(keyboard, listens));
        let mut late = pin!(until(patience));
        let mut tick = pin!(until(*tick));
        // In this order: what a person asks for comes before what the agent says. A line of a pipe is no request.
        poll_fn(|cx| {
            if let Poll::Ready(asked) = asked.as_mut().poll(cx) {
                return Poll::Ready(Event::Asked(asked));
            }
            if *is_writing && let Poll::Ready(typed) = typed.as_mut().poll(cx) {
                return Poll::Ready(Event::Typed(typed));
            }
            if let Poll::Ready(frame) = frame.as_mut().poll(cx) {
                return Poll::Ready(Event::Frame(frame));
            }
            if let Poll::Ready(status) = status.as_mut().poll(cx) {
                return Poll::Ready(Event::Status(status));
            }
            // Behind the statuses: whether the host is stopping is known before its answer to the press.
            if let Some(called) = at_terminal::poll_calls(calls, cx) {
                return Poll::Ready(Event::Called(called));
            }
            if !*is_writing && let Poll::Ready(typed) = typed.as_mut().poll(cx) {
                return Poll::Ready(Event::Typed(typed));
            }
            if tick.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Event::Tick);
            }
            late.as_mut().poll(cx).map(|()| Event::NotSaved)
        })
        .await
    }

    fn absorb(&mut self, event: Event) {
        match event {
            Event::Asked(Asked::Interrupt) => self.interrupts += 1,
            Event::Asked(Asked::Leave) => self.leaving = true,
            Event::Asked(Asked::Redraw) => self.screen.resume(),
            Event::Frame(frame) => {
                match frame.clone() {
                    WatchFrame::Snapshot(snapshot) => self.timeline.apply_snapshot(snapshot),
                    WatchFrame::Batch(batch) => self.timeline.apply_batch(batch),
                    _ => self.ended = true,
                }
                if self.person.is_writing && !at_terminal::is_words_alone(&frame) {
                    self.look_again();
                }
                self.screen.show(&frame, &self.timeline);
            }
            Event::Status(Some(StatusFrame::Snapshot { summaries })) => {
                summaries.iter().for_each(|summary| self.mind(summary));
            }
            Event::Status(Some(StatusFrame::Status { summary })) => self.mind(&summary),
            Event::Status(Some(_)) => {}
            Event::Status(None) => self.statuses = None,
            Event::Called(_) | Event::NotSaved | Event::Tick | Event::Typed(_) => {}
        }
    }

    fn mind(&mut self, summary: &Summary) {
        if summary.session_id != self.session {
            return;
        }
        self.stopping = summary.stopping;
        match (summary.storage, self.refusing_since) {
            (Some(_), None) => {
                self.refusing_since = Some(tokio::time::Instant::now());
            }
            (None, Some(_)) => {
                self.refusing_since = None;
                if std::mem::take(&mut self.warned) {
                    self.screen.note("[note] the store takes everything again");
                }
            }
            _ => {}
        }
    }

    fn warn(&mut self) {
        self.warned = true;
        self.screen.note(
            "[warning] nothing is saved now: the store refuses; free some space on its disk, and it goes on by itself",
        );
    }

    /// Ends the host without waiting for a store that may never answer; whether the agent's end is proven.
    async fn give_up(&mut self) -> bool {
        let patience = Duration::from_millis(SHUTDOWN_MS_MAX);
        // What is left then is the supervisors' to end.
        matches!(tokio::time::timeout(patience, self.host.shutdown()).await, Ok(Ok(_)))
    }
}

async fn next_frame(watch: &mut Watch, ended: bool) -> WatchFrame {
    match ended {
        true => std::future::pending().await,
        false => watch.next().await.unwrap_or(WatchFrame::End),
    }
}

async fn next_typed(keyboard: &mut Keyboard, listens: bool) -> Typed {
    match listens {
        true => keyboard.next().await,
        false => std::future::pending().await,
    }
}

async fn next_status(statuses: &mut Option<StatusStream>) -> Option<StatusFrame> {
    match statuses {
        Some(statuses) => statuses.next().await,
        None => std::future::pending().await,
    }
}

async fn until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn ended(session: &SessionId, answer: Option<&EndedAnswer>, said: &str) -> serde_json::Value {
    json!({ "session": session, "child": answer, "sentence": said })
}
