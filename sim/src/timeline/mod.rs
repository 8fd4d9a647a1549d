//! A run on one page: who did what, when, and where a rule broke.
//!
//! A [`Timeline`] is what a failing run leaves for a person. It is a value and nothing more: whoever ran the scenario
//! fills in the entries in the order in which they happened, and takes one of two forms. [`Timeline::to_html`] is a
//! self-contained page (no server, no network, no file beside it); [`Timeline::to_text`] is one line an event.
//!
//! Everything in a timeline may be written by an agent, and an agent may be hostile: the page embeds it as text that
//! cannot end its element and a script that never makes markup of it, and the text form has no control characters.

mod html;
mod text;

use std::borrow::Cow;

use moored::platform::Mono;
use serde::{Deserialize, Serialize};

/// Most entries on a page. A longer run is cut around what broke, and the page says what is left out.
pub const ENTRIES_MAX: usize = 20_000;
/// Of a cut run, the most entries shown after the one at which it broke: the cause comes before.
pub const ENTRIES_AFTER_BROKEN_MAX: usize = 1_000;
/// Most bytes of one entry's words on a page.
pub const WORDS_BYTES_MAX: usize = 1_024;
/// Most bytes of one entry's detail on a page.
pub const DETAIL_BYTES_MAX: usize = 16 * 1_024;

const _: () = assert!(ENTRIES_AFTER_BROKEN_MAX < ENTRIES_MAX);
const _: () = assert!(WORDS_BYTES_MAX < DETAIL_BYTES_MAX);

/// Where something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// What a person asked for.
    User,
    /// What the host decided.
    Host,
    /// What went over the agent's pipes, either way.
    Wire,
    /// What the agent did.
    Agent,
    /// What became of processes: spawned, signalled, gone.
    Process,
    /// What the store was given and made durable.
    Store,
    /// What the host published.
    Feed,
    /// What clients saw.
    Client,
}

impl Lane {
    /// Every lane, from left to right.
    pub const ALL: [Self; 8] = [
        Self::User,
        Self::Host,
        Self::Wire,
        Self::Agent,
        Self::Process,
        Self::Store,
        Self::Feed,
        Self::Client,
    ];

    /// The word a text has for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Host => "host",
            Self::Wire => "wire",
            Self::Agent => "agent",
            Self::Process => "process",
            Self::Store => "store",
            Self::Feed => "feed",
            Self::Client => "client",
        }
    }

    /// What stands over its column.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Client => "clients",
            lane => lane.word(),
        }
    }

    /// What its events are, for a reader who sees the page for the first time.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::User => "what a person asked for",
            Self::Host => "what the host decided",
            Self::Wire => "what went over the agent's pipes, either way",
            Self::Agent => "what the agent did",
            Self::Process => "processes: spawned, signalled, gone",
            Self::Store => "what the store was given and made durable",
            Self::Feed => "what the host published",
            Self::Client => "what clients saw",
        }
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When, in virtual time.
    #[serde(rename = "at_us")]
    pub at: Mono,
    /// Where.
    pub lane: Lane,
    /// What, by a fixed name: `store.durable`, `wire.prompt`.
    pub kind: Cow<'static, str>,
    /// One short line.
    pub words: String,
    /// The row or frame, whole. Where it is JSON the page lays it out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Joins the events of one cause: of one message, of one child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<u32>,
}

/// What broke.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// The oracle that saw it.
    pub oracle: String,
    /// The number of the rule, `3.4.7`.
    pub rule: String,
    /// What is wrong, in a sentence.
    pub words: String,
    /// When it was seen, in virtual time.
    #[serde(rename = "at_us")]
    pub at: Mono,
    /// The place in [`Timeline::entries`] of the event at which it was seen.
    #[serde(default)]
    pub entry: Option<usize>,
}

/// A run, as a person reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// The name of the scenario.
    pub title: String,
    /// What identifies the run and plays it again: seed, kernel, profile, command.
    pub facts: Vec<(String, String)>,
    /// What happened, in the order in which it did.
    pub entries: Vec<Entry>,
    /// What broke, if anything did.
    pub broken: Option<Broken>,
    /// What the scenario was: actions and faults in words.
    pub notes: Vec<String>,
}

impl Timeline {
    /// One HTML file, to be opened from anywhere.
    pub fn to_html(&self) -> String {
        html::render(self)
    }

    /// One line an event: time in milliseconds, lane, kind, words.
    pub fn to_text(&self) -> String {
        text::render(self, 0..self.entries.len())
    }

    /// The entry after which the mark of what broke stands: the one named, else the last one up to its time.
    fn mark(&self) -> Option<usize> {
        let broken = self.broken.as_ref()?;
        let named = broken.entry.filter(|&entry| entry < self.entries.len());
        named.or_else(|| self.entries.iter().rposition(|entry| entry.at <= broken.at))
    }
}

/// Milliseconds with three decimals.
fn ms(at: Mono) -> String {
    format!("{}.{:03}", at.0 / 1_000, at.0 % 1_000)
}
