//! What a person sees of a session: the agent's words as they come, and a line for everything else.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use moored::driver::WatchFrame;
use moored::ids::ItemKey;
use moored::journal::{
    ApprovalBody, Batch, ItemBody, ItemView, MessageBody, RawBody, Resolution, Role, Snapshot,
    StatusBody, Tone, ToolBody,
};
use serde_json::{Value, json};

use super::ending::cannot_run;
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

/// A terminal, or two pipes.
pub struct Screen {
    json: bool,
    is_terminal: bool,
    /// Who spoke last on stdout, while that line has no end.
    voice: Option<Role>,
    shown: BTreeMap<ItemKey, Shown>,
}

impl Screen {
    /// Nothing is shown yet. With `json` each commit is one line on stdout, and nothing else is there.
    pub fn new(json: bool) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Self { json, is_terminal, voice: None, shown: BTreeMap::new() }
    }

    /// A frame of the session's watch.
    pub fn show(&mut self, frame: &WatchFrame) {
        match frame {
            WatchFrame::Snapshot(snapshot) => {
                self.event("snapshot", || json!(snapshot));
                let Snapshot { items, .. } = snapshot;
                items.iter().for_each(|item| self.show_item(item));
            }
            WatchFrame::Batch(batch) => {
                self.event("batch", || json!(batch));
                let Batch { items, texts, removed, .. } = batch;
                items.iter().for_each(|item| self.show_item(item));
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
        if !self.json {
            let _ = writeln!(std::io::stderr(), "{}", one_line(text, LINE_CHARS_MAX));
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
        if self.voice.take().is_some() && !self.json {
            out("\n");
        }
    }

    fn show_item(&mut self, item: &ItemView) {
        match &item.body {
            ItemBody::Message(message) => self.show_text(&item.item, message),
            ItemBody::Tool(tool) => self.show_line(&item.item, tool_line(tool)),
            ItemBody::Plan(plan) => self.show_line(&item.item, plan_line(plan)),
            ItemBody::Approval(approval) => self.show_line(&item.item, approval_line(approval)),
            // Where no conversation is possible, that is the command's own last word.
            ItemBody::Status(status) if status.fact.as_ref().is_some_and(cannot_run) => {}
            ItemBody::Status(status) => self.show_line(&item.item, status_line(status)),
            _ => {}
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
