//! What a person sees of a session: the agent's words as they come, and a line for everything else.

#![expect(clippy::disallowed_methods, reason = "a binary: asks the environment about the terminal")]

use std::collections::BTreeMap;
use std::io::{IsTerminal, Stdin, Stdout, Write};

use moored::driver::WatchFrame;
use moored::ids::ItemKey;
use moored::journal::{
    ApprovalBody, Batch, ItemBody, ItemView, MessageBody, RawBody, Resolution, Role, Snapshot,
    StatusBody, Timeline, Tone, ToolBody, TurnBody,
};
use serde_json::{Value, json};

use super::composer::Composer;
use super::ending::cannot_run;
use super::live::{Footer, Live};
use super::reading;
use super::terminal::{RawMode, size};
use crate::journal::line;
use crate::words::{counted, for_terminal, one_line};

/// Longest line beside the agent's words.
const LINE_CHARS_MAX: usize = 400;

/// What was shown of an item, so that a snapshot or a later revision shows only what is new.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown {
    /// So many bytes of a text, in this role.
    Text(usize, Role),
    /// This line.
    Line(String),
}

/// A terminal with a written line below what is said, a terminal or pipe that is only written to, or JSON.
pub struct Screen {
    json: bool,
    is_terminal: bool,
    live: Option<(Live, RawMode<Stdin, Stdout>)>,
    /// A person has pressed Stop: no question is shown (rule 3.5.3).
    asks_nothing: bool,
    /// Who spoke last on stdout, while that line has no end.
    voice: Option<Role>,
    shown: BTreeMap<ItemKey, Shown>,
}

impl Screen {
    /// Nothing is shown yet. With `json` each commit is one line on stdout, and nothing else is there.
    pub fn new(json: bool) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let (live, asks_nothing) = (None, false);
        Self { json, is_terminal, live, asks_nothing, voice: None, shown: BTreeMap::new() }
    }

    /// Where a person sits at a terminal that can do it, keeps a line to write on below what is said, from here to
    /// [`Screen::leave_live`].
    pub fn go_live(&mut self) -> bool {
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
        if self.json || is_dumb || !self.is_terminal || !std::io::stdin().is_terminal() {
            return false;
        }
        let raw = RawMode::enter(std::io::stdin(), std::io::stdout()).ok();
        self.live = raw.map(|raw| (Live::default(), raw));
        self.live.is_some()
    }

    /// Gives the terminal back.
    pub fn leave_live(&mut self) {
        if let Some((mut live, _raw)) = self.live.take() {
            out(&live.leave(size(std::io::stdout())));
            self.voice = None;
        }
    }

    /// The written line.
    pub fn composer(&mut self) -> Option<&mut Composer> {
        let (live, _) = self.live.as_mut()?;
        live.touch();
        Some(&mut live.composer)
    }

    /// A message of the person's that has left the written line.
    pub fn echo(&mut self, text: &str) {
        self.end_line();
        if let Some((live, _)) = &mut self.live {
            live.line(&format!("> {}", for_terminal(text.trim_end()).replace('\n', "\n  ")));
        }
    }

    /// Brings the terminal up to date.
    pub fn draw(&mut self, footer: Footer) {
        if let Some((live, _)) = &mut self.live {
            live.set_footer(footer);
            out(&live.draw(size(std::io::stdout())));
        }
    }

    /// Gives the terminal to the shell, and takes it back once this program goes on.
    pub fn suspend(&mut self, stay_away: impl FnOnce()) {
        if let Some((live, raw)) = &mut self.live {
            out(&live.leave(size(std::io::stdout())));
            raw.pause();
            stay_away();
        }
        self.resume();
    }

    /// The terminal may have been changed: by a shell, or in its size.
    pub fn resume(&mut self) {
        if let Some((live, raw)) = &mut self.live {
            // A terminal that is gone shows in what is read from it.
            let _ = raw.resume();
            live.touch();
        }
    }

    /// Whether questions may be shown. Those that were held back and still wait are shown now.
    pub fn ask(&mut self, asks: bool, timeline: &Timeline) {
        if std::mem::replace(&mut self.asks_nothing, !asks) && asks {
            for item in timeline.items() {
                if matches!(item.body, ItemBody::Approval(_))
                    && !self.shown.contains_key(&item.item)
                {
                    self.show_item(item, timeline);
                }
            }
        }
    }

    /// A frame of the session's watch, which `timeline` has taken.
    pub fn show(&mut self, frame: &WatchFrame, timeline: &Timeline) {
        match frame {
            WatchFrame::Snapshot(snapshot) => {
                self.event("snapshot", || json!(snapshot));
                let Snapshot { items, .. } = snapshot;
                items.iter().for_each(|item| self.show_item(item, timeline));
            }
            WatchFrame::Batch(batch) => {
                self.event("batch", || json!(batch));
                let Batch { items, texts, removed, .. } = batch;
                items.iter().for_each(|item| self.show_item(item, timeline));
                for growth in texts {
                    let at = usize::try_from(growth.at).unwrap_or(usize::MAX);
                    self.grow(&growth.item, None, at, &growth.text.0);
                }
                for gone in removed {
                    self.shown.remove(&gone.item);
                }
            }
            _ => {}
        }
    }

    /// One event of `--json`.
    pub fn event(&mut self, name: &str, content: impl FnOnce() -> Value) {
        if self.json {
            out(&format!("{}\n", json!({ "event": name, name: content() })));
        }
    }

    /// A line of the command's own.
    pub fn note(&mut self, text: &str) {
        self.end_line();
        let text = one_line(text, LINE_CHARS_MAX);
        match &mut self.live {
            _ if self.json => {}
            Some((live, _)) if std::io::stderr().is_terminal() => live.line(&text),
            _ => {
                let _ = writeln!(std::io::stderr(), "{text}");
            }
        }
    }

    /// Invites a person to type.
    pub fn invite(&mut self, sign: &str) {
        self.end_line();
        if self.is_terminal && !self.json {
            out(sign);
        }
    }

    /// Whatever was being said is over: the next word starts a line of the terminal. In a pipe the answer has its own
    /// lines, whatever is noted beside it.
    pub fn end_line(&mut self) {
        if self.is_terminal {
            self.end_turn();
        }
    }

    /// The answer is over. Its last line gets its end, in a pipe too.
    pub fn end_turn(&mut self) {
        match (self.voice.take(), &mut self.live) {
            (Some(_), Some((live, _))) => live.end_line(),
            (Some(_), None) if !self.json => out("\n"),
            _ => {}
        }
    }

    fn show_item(&mut self, item: &ItemView, timeline: &Timeline) {
        match &item.body {
            ItemBody::Turn(turn) => self.show_turn(&item.item, turn, timeline),
            ItemBody::Message(message) => self.show_text(&item.item, message),
            ItemBody::Tool(tool) => self.show_line(&item.item, tool_line(tool)),
            ItemBody::Plan(plan) => self.show_line(&item.item, plan_line(plan)),
            ItemBody::Approval(approval) if self.is_shown(&item.item, approval) => {
                self.show_line(&item.item, approval_line(approval));
            }
            // Where no conversation is possible, that is the command's own last word.
            ItemBody::Status(status) if status.fact.as_ref().is_some_and(cannot_run) => {}
            ItemBody::Status(status) => self.show_line(&item.item, status_line(status)),
            _ => {}
        }
    }

    /// Of a question that nobody saw, its withdrawal is no news.
    fn is_shown(&self, item: &ItemKey, approval: &ApprovalBody) -> bool {
        match approval.resolution {
            Resolution::Pending => !self.asks_nothing,
            Resolution::Resolved => true,
            _ => self.shown.contains_key(item),
        }
    }

    /// A turn, where a person writes: what opened it at its beginning, and its end in its place. Elsewhere the
    /// conversation tells the end of the turn it waits for, and whoever sent a message knows it.
    fn show_turn(&mut self, item: &ItemKey, turn: &TurnBody, timeline: &Timeline) {
        if self.live.is_none() {
            return;
        }
        if !self.shown.contains_key(item) {
            self.shown.insert(item.clone(), Shown::Line(String::new()));
            let opened_by = turn.user_item.as_ref().and_then(|user| timeline.item(user));
            if let Some(ItemBody::User(user)) = opened_by.map(|item| &item.body) {
                self.echo(&user.text);
            }
        }
        let Some(end) = reading::end_of_turn(timeline, turn) else { return };
        self.end_turn();
        if let Some(sentence) = end.sentence() {
            self.show_line(item, format!("[turn] {sentence}"));
        }
    }

    fn show_line(&mut self, item: &ItemKey, line: String) {
        let line = Shown::Line(line);
        if self.shown.get(item) != Some(&line) {
            if let Shown::Line(text) = &line {
                self.note(text);
            }
            self.shown.insert(item.clone(), line);
        }
    }

    fn show_text(&mut self, item: &ItemKey, message: &MessageBody) {
        self.grow(item, Some(message.role), 0, &message.text);
    }

    /// `text` begins at byte `at` of the item; what of it was shown is not shown again.
    fn grow(&mut self, item: &ItemKey, role: Option<Role>, at: usize, text: &str) {
        let known = self.shown.get(item);
        let (shown, role) = match (known, role) {
            (Some(Shown::Text(shown, role)), _) => (*shown, *role),
            (_, Some(role)) => (0, role),
            _ => return,
        };
        let end = at.saturating_add(text.len());
        if end > shown || known.is_none() {
            self.shown.insert(item.clone(), Shown::Text(end.max(shown), role));
            self.say(role, text.get(shown.saturating_sub(at)..).unwrap_or(text));
        }
    }

    fn say(&mut self, role: Role, text: &str) {
        // What the agent thinks is for a person who looks on, and no part of its answer.
        let heard = role == Role::Agent || (role == Role::Thought && self.is_terminal);
        if self.json || !heard || text.is_empty() {
            return;
        }
        if self.voice.is_some_and(|voice| voice != role) {
            self.end_line();
        }
        if let Some((live, _)) = &mut self.live {
            live.say(&for_terminal(text), role == Role::Thought);
            self.voice = (!text.ends_with('\n')).then_some(role);
            return;
        }
        match (self.is_terminal, role) {
            (true, Role::Thought) => out(&format!("\u{1b}[2m{}\u{1b}[0m", for_terminal(text))),
            (true, _) => out(&for_terminal(text)),
            (false, _) => out(text),
        }
        self.voice = (!text.ends_with('\n')).then_some(role);
    }
}

fn tool_line(tool: &ToolBody) -> String {
    format!("[tool] {}: {}", tool.title, line::tool_word(tool))
}

fn plan_line(plan: &RawBody) -> String {
    let parsed: Value = serde_json::from_str(&plan.payload.head).unwrap_or_default();
    let entries = parsed["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is = |entry: &&Value, status: &str| entry["status"] == *status;
    let done = entries.iter().filter(|entry| is(entry, "completed")).count();
    let now = entries.iter().find(|entry| is(entry, "in_progress"));
    let now = now.and_then(|entry| entry["content"].as_str()).unwrap_or("-");
    format!("[plan] {done} of {} done, now: {now}", counted(entries.len(), "step"))
}

fn approval_line(approval: &ApprovalBody) -> String {
    let title = &approval.title;
    match approval.resolution {
        Resolution::Pending => {
            let options: Vec<String> = (1..)
                .zip(&approval.options)
                .map(|(number, option)| format!("{number} {}", option.label))
                .collect();
            format!("[question] {title}? {}, 0 dismiss", options.join(", "))
        }
        Resolution::Resolved => format!("[question] {title}: {}", line::chosen(approval)),
        _ => format!("[question] {title}: withdrawn"),
    }
}

fn status_line(status: &StatusBody) -> String {
    let tone = match status.tone {
        Tone::Warning => "warning",
        Tone::Error => "error",
        _ => "note",
    };
    format!("[{tone}] {}", status.text)
}

/// A reader that has gone is no reason to leave the agent alone.
fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests {
    use moored::journal::{Cursor, Position};

    use super::*;

    fn question(resolution: Resolution, revision: u64) -> ItemView {
        let approval = ApprovalBody {
            title: "touch it".to_owned(),
            tool_call_id: None,
            options: Vec::new(),
            resolution,
            selected: None,
            resolved_by: None,
            resolved_ms: None,
        };
        ItemView {
            item: ItemKey("question".to_owned()),
            revision,
            position: Position::default(),
            scope: None,
            observed_ms: 0,
            body: ItemBody::Approval(approval),
        }
    }

    /// A screen that writes nothing, after these versions of a question.
    fn screen(asks: bool, items: &[ItemView]) -> (Screen, Timeline) {
        let (mut screen, mut timeline) = (Screen::new(true), Timeline::default());
        screen.ask(asks, &timeline);
        for (seq, item) in (1..).zip(items) {
            let cursor = Cursor { seq, ..Cursor::default() };
            timeline.apply_batch(Batch { cursor, items: vec![item.clone()], ..Batch::default() });
            screen.show_item(item, &timeline);
        }
        (screen, timeline)
    }

    #[test]
    fn a_question_that_comes_during_a_stop_is_shown_only_if_it_outlives_it() {
        let pending = question(Resolution::Pending, 1);
        let (screen, _) = screen(true, std::slice::from_ref(&pending));
        assert_eq!(screen.shown.len(), 1);
        let (mut screen, timeline) = self::screen(false, std::slice::from_ref(&pending));
        assert_eq!(screen.shown.len(), 0);
        screen.ask(true, &timeline);
        assert_eq!(screen.shown.len(), 1);
        let gone = question(Resolution::Cancelled, 2);
        let (mut screen, timeline) = self::screen(false, &[pending, gone]);
        screen.ask(true, &timeline);
        assert_eq!(screen.shown.len(), 0, "nor is its withdrawal");
    }
}
