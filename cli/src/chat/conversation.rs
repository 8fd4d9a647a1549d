//! One session from its creation to its close: what a person does, and what the agent makes of it.

#![expect(
    clippy::disallowed_methods,
    reason = "a binary: how long a person waits for a disk is measured on the real clock"
)]

use std::future::Future;
use std::io::IsTerminal;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use anyhow::{anyhow, bail};
use moored::driver::{Host, StatusStream, Watch, WatchFrame};
use moored::failure::{FailureFact, RefusedOperation};
use moored::host::{CallContext, NewSession, PermissionAnswer, Send, Stop};
use moored::ids::{ItemKey, MessageId, SessionId, TurnKey};
use moored::journal::{
    EndedAnswer, ItemBody, Resolution, SendMode, SubmissionState, Timeline, TurnBody, TurnState,
    user_item,
};
use moored::status::{StatusFrame, Summary};
use serde_json::json;

use super::ending::{self, agent_end};
use super::input::{Asked, Keyboard, Signals, Typed};
use super::screen::Screen;
use crate::error::Verdict;
use crate::stored::Stored;

pub use super::ending::TurnEnd;

/// How long a store may refuse before the conversation gives up on it. What it refuses is tried again all the while.
const NOT_SAVED_MS_MAX: u64 = 3_000;
/// After a fault the host gets this long to end the agent; its supervisor goes on by itself.
const SHUTDOWN_MS_MAX: u64 = 15_000;
/// Pressed so often while nothing comes of it, Ctrl-C leaves.
const INTERRUPTS_MAX: u32 = 3;

/// What happens next.
enum Event {
    Asked(Asked),
    Frame(WatchFrame),
    NotSaved,
    Status(Option<StatusFrame>),
    Typed(Typed),
}

/// A question that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    item: ItemKey,
    revision: u64,
    options: Vec<String>,
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
            store: store.display().to_string(),
        };
        let call = host.create(new, conversation.context());
        match conversation.attend(call).await {
            Ok(Some(())) => {}
            Ok(None) => bail!("left before the session was made"),
            Err(error) => {
                conversation.give_up().await;
                return Err(error);
            }
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

    /// The next message; `None` once a person closes.
    pub async fn next_message(&mut self) -> Option<String> {
        self.screen.invite("> ");
        loop {
            match self.event(true).await {
                Event::Asked(_) | Event::Typed(Typed::End) => {
                    self.screen.end_line();
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
            if let Some(end) = self.end_of(&message_id) {
                self.screen.end_turn();
                return match end {
                    TurnEnd::Rejected(fact)
                        if ending::cannot_run(&fact) && self.turns().next().is_none() =>
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
            let question = self.question();
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
        if self.refusing_since.is_some() {
            self.give_up().await;
            return held;
        }
        self.interrupts = 0;
        self.leaving = false;
        let call = self.host.close(&self.session, self.context());
        let answer = match self.attend(call).await {
            Ok(answer) => answer,
            Err(error) => {
                self.give_up().await;
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
        self.screen.note("[stop] stopping; Ctrl-C again closes the session");
        let stop = Stop { turn: self.running_turn() };
        let call = self.host.stop(&self.session, stop, self.context());
        self.attend(call).await.map(drop)
    }

    async fn answer(&mut self, question: Question, typed: Typed) -> anyhow::Result<()> {
        let option = match chosen(&question, &typed) {
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
            let event = moored::select! {
                answer = &mut call => {
                    return answer.map(Some).map_err(|r| ending::refused(&r, &self.store));
                },
                event = self.event(false) => event,
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
        let patience = refusing_since.filter(|_| !*warned);
        let patience = patience.map(|at| at + Duration::from_millis(NOT_SAVED_MS_MAX));
        moored::select! {
            asked = signals.next() => Event::Asked(asked),
            frame = watch.next(), if !*ended => Event::Frame(frame.unwrap_or(WatchFrame::End)),
            status = next_status(statuses) => Event::Status(status),
            typed = keyboard.next(), if listens => Event::Typed(typed),
            () = until(patience) => Event::NotSaved,
        }
    }

    fn absorb(&mut self, event: Event) {
        match event {
            Event::Asked(Asked::Interrupt) => self.interrupts += 1,
            Event::Asked(Asked::Leave) => self.leaving = true,
            Event::Frame(frame) => {
                self.screen.show(&frame);
                match frame {
                    WatchFrame::Snapshot(snapshot) => self.timeline.apply_snapshot(snapshot),
                    WatchFrame::Batch(batch) => self.timeline.apply_batch(batch),
                    WatchFrame::End => self.ended = true,
                }
            }
            Event::Status(Some(StatusFrame::Snapshot { summaries })) => {
                summaries.iter().for_each(|summary| self.mind_storage(summary));
            }
            Event::Status(Some(StatusFrame::Status { summary })) => self.mind_storage(&summary),
            Event::Status(Some(_)) => {}
            Event::Status(None) => self.statuses = None,
            Event::NotSaved | Event::Typed(_) => {}
        }
    }

    fn mind_storage(&mut self, summary: &Summary) {
        if summary.session_id != self.session {
            return;
        }
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

    /// Ends the host without waiting for a store that may never answer.
    async fn give_up(&mut self) {
        let patience = Duration::from_millis(SHUTDOWN_MS_MAX);
        // What is left then is the supervisors' to end.
        let _ = tokio::time::timeout(patience, self.host.shutdown()).await;
    }

    fn turns(&self) -> impl Iterator<Item = &TurnBody> {
        self.timeline.items().into_iter().filter_map(|item| match &item.body {
            ItemBody::Turn(turn) => Some(turn),
            _ => None,
        })
    }

    fn running_turn(&self) -> Option<TurnKey> {
        let turn = self.turns().find(|turn| turn.state == TurnState::Running)?;
        Some(turn.turn.clone())
    }

    fn end_of(&self, message: &MessageId) -> Option<TurnEnd> {
        let opened_by = Some(user_item(message));
        if let Some(turn) = self.turns().find(|turn| turn.user_item == opened_by) {
            let over = turn.state != TurnState::Running;
            return over.then(|| TurnEnd::Over(Box::new(turn.clone()), self.fact_of(&turn.turn)));
        }
        let submission = self.timeline.submission(message)?;
        match (submission.state, &submission.fact) {
            (SubmissionState::Rejected, Some(fact)) => Some(TurnEnd::Rejected(fact.clone())),
            (SubmissionState::Rejected | SubmissionState::Unknown, _) => {
                Some(TurnEnd::Unconfirmed(submission.reason))
            }
            _ => None,
        }
    }

    /// The failure that was noted in a turn.
    fn fact_of(&self, turn: &TurnKey) -> Option<FailureFact> {
        let items = self.timeline.items();
        items.iter().rev().filter(|item| item.scope.as_ref() == Some(turn)).find_map(|item| {
            match &item.body {
                ItemBody::Status(status) => status.fact.clone(),
                _ => None,
            }
        })
    }

    fn question(&self) -> Option<Question> {
        self.timeline.items().into_iter().find_map(|item| match &item.body {
            ItemBody::Approval(approval) if approval.resolution == Resolution::Pending => {
                Some(Question {
                    item: item.item.clone(),
                    revision: item.revision,
                    options: approval.options.iter().map(|option| option.id.clone()).collect(),
                })
            }
            _ => None,
        })
    }
}

/// The option's id that a typed number means; nothing for a dismissal.
fn chosen(question: &Question, typed: &Typed) -> Result<Option<String>, String> {
    let Typed::Line(line) = typed else { return Ok(None) };
    match line.trim().parse::<usize>() {
        Ok(0) => Ok(None),
        Ok(number) if number <= question.options.len() => {
            Ok(question.options.get(number - 1).cloned())
        }
        _ => Err(format!("answer with a number from 0 to {}", question.options.len())),
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
