//! A conversation at a terminal: the person writes while the agent works, and nothing that was written is lost.
//!
//! Enter sends at once; the host decides when a message runs. Ctrl-C is a Stop while anything runs or waits, as often as
//! it is pressed; a message that a Stop withdraws comes back to the written line (rules 3.8.1, 3.8.3).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{anyhow, bail};
use moored::driver::WatchFrame;
use moored::failure::{FailureCode, RefusalCode, RefusedOperation};
use moored::host::{PermissionAnswer, Send, Stop};
use moored::ids::{MessageId, TurnKey};
use moored::journal::{Batch, SendMode};
use moored::session::StopAnswer;
use tokio::time::Instant;

use super::{Conversation, Event, STOPPING};
use crate::chat::composer::{Composer, Edit};
use crate::chat::ending::{self, TurnEnd};
use crate::chat::input::{Asked, Typed};
use crate::chat::keys::Key;
use crate::chat::live::Footer;
use crate::chat::reading::{self, Question};
use crate::words::{clause, one_line, seconds};

/// Longest quotation of a message that waits; a terminal cuts it further.
const QUOTE_CHARS_MAX: usize = 400;

/// Calls that are not answered yet.
type Calls = Vec<Pin<Box<dyn Future<Output = Called>>>>;

/// What a call came to.
pub enum Called {
    Answered(Result<(), RefusedOperation>),
    Sent(MessageId, Result<(), RefusedOperation>),
    Stopped(Result<StopAnswer, RefusedOperation>),
}

/// What is known of the person at the terminal.
#[derive(Default)]
pub struct Person {
    /// Keys come, before everything else.
    pub is_writing: bool,
    pub calls: Calls,
    /// When the time that is shown changes.
    pub tick: Option<Instant>,
    /// Messages whose end is not known, in the order in which they were sent.
    sent: Vec<Sent>,
    /// Presses of Stop that are not answered (rule 4.6.2).
    presses: usize,
    /// The turn of a press that was taken, until the host says that it is stopping: its answer does not wait for that.
    pressed: Option<TurnKey>,
    /// Nothing was typed since the last press: another one may be meant for the same turn.
    has_just_stopped: bool,
    /// The turn that runs, and since when.
    turn: Option<(TurnKey, Instant)>,
    /// The question that waits, whether or not it may be shown.
    question: Option<Question>,
    /// A message may have come to its end.
    has_news: bool,
}

/// A message that left the written line.
struct Sent {
    id: MessageId,
    text: String,
    /// Stop was pressed before it was sent, and not since: it runs after the stop (rule 5.4.1).
    is_after_stop: bool,
    has_turn: bool,
}

/// The next of the calls to be answered.
pub fn poll_calls(calls: &mut Calls, cx: &mut Context<'_>) -> Option<Called> {
    for (index, call) in calls.iter_mut().enumerate() {
        if let Poll::Ready(called) = call.as_mut().poll(cx) {
            drop(calls.remove(index));
            return Some(called);
        }
    }
    None
}

/// Streamed words and nothing else: they come often, and no turn, question or message changes with them.
pub fn is_words_alone(frame: &WatchFrame) -> bool {
    match frame {
        WatchFrame::Batch(Batch { items, removed, submissions, .. }) => {
            items.is_empty() && removed.is_empty() && submissions.is_empty()
        }
        _ => false,
    }
}

impl Conversation {
    /// Until the person closes. An agent with which no conversation is possible is an error.
    pub async fn hold_at_terminal(&mut self) -> anyhow::Result<()> {
        self.person.is_writing = true;
        let held = self.write_and_read().await;
        self.person.is_writing = false;
        self.person.tick = None;
        self.person.calls.clear();
        self.screen.leave_live();
        for sent in std::mem::take(&mut self.person.sent) {
            if !sent.has_turn {
                self.screen.note(&format!("[note] not sent: {}", sent.text));
            }
        }
        if held.is_ok() && self.person.turn.is_some() {
            self.tell(&TurnEnd::Left);
        }
        held
    }

    /// The timeline has other items or submissions than before.
    pub(super) fn look_again(&mut self) {
        let running = reading::running_turn(&self.timeline).map(|turn| &turn.turn);
        if self.person.turn.as_ref().map(|(turn, _)| turn) != running {
            self.person.turn = running.map(|turn| (turn.clone(), Instant::now()));
        }
        self.person.question = reading::question(&self.timeline);
        self.person.has_news = true;
        for sent in &mut self.person.sent {
            sent.has_turn = sent.has_turn || reading::has_turn(&self.timeline, &sent.id);
        }
    }

    async fn write_and_read(&mut self) -> anyhow::Result<()> {
        loop {
            self.settle_sent()?;
            if self.ended {
                bail!("the session ended by a fault of the host; send it again in a new one");
            }
            if self.leaving {
                return Ok(());
            }
            self.settle_press();
            self.screen.ask(!self.is_stopping(), &self.timeline);
            self.draw();
            match self.event(true).await {
                Event::Asked(Asked::Interrupt) => self.interrupt(),
                Event::Called(called) => self.called(called)?,
                Event::NotSaved => self.warn(),
                Event::Typed(Typed::Key(key)) => self.press(&key),
                Event::Typed(Typed::End) => self.leaving = true,
                event => self.absorb(event),
            }
        }
    }

    fn press(&mut self, key: &Key) {
        if *key == Key::Interrupt {
            return self.interrupt();
        }
        self.person.has_just_stopped = false;
        match key {
            Key::Enter => self.enter(),
            Key::Quit => self.leaving = true,
            Key::Close if self.composer().is_some_and(|line| line.is_empty()) => {
                self.leaving = true;
            }
            Key::Suspend => self.screen.suspend(|| {
                // Without a shell that could wake it, it is not stopped, and goes on.
                let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
            }),
            Key::Redraw => self.screen.resume(),
            key => {
                let edit = self.composer().map(|line| line.edit(key));
                if edit == Some(Edit::TooLong) {
                    self.screen.note("[warning] that is too long for a message, and was not taken");
                }
            }
        }
    }

    /// Ctrl-C: a Stop of whatever runs; at rest it clears the line, and leaves an empty one.
    fn interrupt(&mut self) {
        if self.is_working() {
            return self.press_stop();
        }
        if std::mem::take(&mut self.person.has_just_stopped) {
            // It was on its way to the turn that the press before has ended.
            return self
                .screen
                .note("[note] nothing runs any more; Ctrl-C again closes the session");
        }
        match self.composer() {
            Some(line) if !line.is_empty() => {
                let text = line.clear();
                line.remember(&text);
            }
            _ => self.leaving = true,
        }
    }

    fn press_stop(&mut self) {
        let turn = self.person.turn.as_ref().map(|(turn, _)| turn.clone());
        for sent in &mut self.person.sent {
            // It is withdrawn by this press, if it still waits.
            sent.is_after_stop = false;
        }
        let call = self.host.stop(&self.session, Stop { turn }, self.context());
        self.person.presses += 1;
        self.person.has_just_stopped = true;
        self.person.calls.push(Box::pin(async { Called::Stopped(call.await) }));
    }

    fn enter(&mut self) {
        let question = self.question();
        let Some(line) = self.composer() else { return };
        match question {
            Some(question) => {
                let text = line.clear();
                self.answer_at_terminal(question, text);
            }
            None => {
                let text = line.take();
                if !text.trim().is_empty() {
                    self.send_at_terminal(text);
                }
            }
        }
    }

    fn answer_at_terminal(&mut self, question: Question, text: String) {
        match question.chosen(&Typed::Line(text.clone())) {
            Ok(option) => {
                let Question { item, revision, .. } = question;
                let answer = PermissionAnswer { item, expected_revision: revision, option };
                let call = self.host.answer(&self.session, answer, self.context());
                let call = async { Called::Answered(call.await.map(drop)) };
                self.person.calls.push(Box::pin(call));
            }
            Err(hint) => {
                self.screen.note(&hint);
                // A message that was being written when the question came.
                self.put_back(&text);
            }
        }
    }

    fn send_at_terminal(&mut self, text: String) {
        let id = MessageId(self.host.mint_id("message"));
        let send = Send { message_id: id.clone(), text: text.clone(), mode: SendMode::AfterTurn };
        let call = self.host.send(&self.session, send, self.context());
        let is_after_stop = self.is_stopping();
        self.person.sent.push(Sent { id: id.clone(), text, is_after_stop, has_turn: false });
        let call = async { Called::Sent(id, call.await.map(drop)) };
        self.person.calls.push(Box::pin(call));
    }

    fn called(&mut self, called: Called) -> anyhow::Result<()> {
        let refused = match called {
            Called::Answered(answered) => answered.err(),
            Called::Stopped(answered) => {
                self.person.presses -= 1;
                if let Ok(StopAnswer { turn, cancelled: true }) = &answered {
                    self.person.pressed.clone_from(turn);
                }
                answered.err()
            }
            Called::Sent(message, answered) => {
                if answered.is_err() {
                    self.take_back(&message);
                }
                answered.err()
            }
        };
        match refused {
            Some(refusal) if is_final(refusal.code) => Err(ending::refused(&refusal, &self.store)),
            Some(refusal) => {
                self.screen.note(&format!("[warning] {}", refusal.sentence));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Messages whose end is known are no longer waited for. One that never reached the agent comes back.
    fn settle_sent(&mut self) -> anyhow::Result<()> {
        if !std::mem::take(&mut self.person.has_news) {
            return Ok(());
        }
        let mut back = Vec::new();
        let mut index = 0;
        while let Some(sent) = self.person.sent.get(index) {
            let Some(end) = reading::end_of(&self.timeline, &sent.id) else {
                index += 1;
                continue;
            };
            let Sent { text, .. } = self.person.sent.remove(index);
            match &end {
                TurnEnd::Rejected(fact) => {
                    let is_first = reading::turns(&self.timeline).next().is_none();
                    if ending::cannot_run(fact) && is_first {
                        return Err(anyhow!("{}", ending::told(fact)));
                    }
                    back.push(text);
                    if fact.code == FailureCode::Cancelled {
                        let what = clause(fact.code.sentence());
                        self.screen.note(&format!("[turn] {what}; it is back on the line"));
                    } else {
                        self.tell(&end);
                    }
                }
                // The screen has it.
                TurnEnd::Over(..) => {}
                TurnEnd::Unconfirmed(_) | TurnEnd::Left => {
                    self.screen.echo(&text);
                    self.tell(&end);
                }
            }
        }
        if !back.is_empty() {
            self.put_back(&back.join("\n"));
        }
        Ok(())
    }

    fn take_back(&mut self, message: &MessageId) {
        let sent = &mut self.person.sent;
        if let Some(index) = sent.iter().position(|sent| sent.id == *message) {
            let Sent { text, .. } = sent.remove(index);
            self.put_back(&text);
        }
    }

    fn put_back(&mut self, text: &str) {
        if let Some(line) = self.composer() {
            line.put_back(text);
        }
    }

    fn composer(&mut self) -> Option<&mut Composer> {
        self.screen.composer()
    }

    /// What waits for an answer; nothing is asked once Stop was pressed (rule 3.5.3).
    fn question(&self) -> Option<Question> {
        self.person.question.clone().filter(|_| !self.is_stopping())
    }

    fn is_working(&self) -> bool {
        !self.person.sent.is_empty() || self.person.turn.is_some()
    }

    /// Rule 4.6.1. Between the answer to a press and the host's word for it nothing flickers.
    fn is_stopping(&self) -> bool {
        let is_pressed = self.person.presses > 0 || self.person.pressed.is_some();
        self.is_working() && (self.stopping || is_pressed)
    }

    /// From here on the host's word counts, or there is nothing left that it could be about.
    fn settle_press(&mut self) {
        let running = self.person.turn.as_ref().map(|(turn, _)| turn);
        if self.stopping || self.person.pressed.as_ref() != running {
            self.person.pressed = None;
        }
    }

    fn draw(&mut self) {
        let state = self.state();
        let is_stopping = self.is_stopping();
        let why = |sent: &Sent| match () {
            () if is_stopping && sent.is_after_stop => "runs after the stop",
            () if is_stopping => "waits",
            () if self.person.turn.is_some() => "runs after this turn",
            () => "waits for the agent",
        };
        let quote = |text: &str| one_line(text, QUOTE_CHARS_MAX);
        let waiting = self.person.sent.iter().filter(|sent| !sent.has_turn);
        let waiting = waiting.map(|sent| format!("{}: {}", why(sent), quote(&sent.text)));
        let footer = Footer {
            state,
            waiting: waiting.collect(),
            sign: if self.question().is_some() { "? " } else { "> " },
            placeholder: match is_stopping {
                true => "Send a message to run after the stop",
                false => "",
            },
        };
        self.screen.draw(footer);
    }

    /// What is going on, and since when.
    fn state(&mut self) -> Option<String> {
        let since = self.person.turn.as_ref().map(|(_, since)| *since);
        let lasted_ms = since.map(|since| since.elapsed().as_millis() as u64);
        self.person.tick = since
            .zip(lasted_ms)
            .map(|(since, lasted_ms)| since + Duration::from_secs(lasted_ms / 1_000 + 1));
        match (self.is_working(), self.is_stopping(), lasted_ms) {
            (false, ..) => None,
            (_, true, Some(ms)) => Some(format!("{STOPPING} ({})", seconds(ms))),
            (_, true, None) => Some(STOPPING.to_owned()),
            (_, _, Some(ms)) => Some(format!("Working for {} (Ctrl-C stops)", seconds(ms))),
            (_, _, None) => Some("Waiting for the agent (Ctrl-C stops)".to_owned()),
        }
    }
}

/// After this the session takes nothing more.
fn is_final(code: RefusalCode) -> bool {
    matches!(code, RefusalCode::Quitting | RefusalCode::SessionClosed | RefusalCode::StoreClosed)
}
