//! The text form: one line an event, for a terminal, a log, a diff.

use std::fmt::Write;
use std::ops::Range;

use super::{Broken, Entry, Timeline, ms};

/// Kinds are set in a column up to this width; a longer one pushes its words to the right.
const KIND_COLUMNS_MAX: usize = 28;

/// Renders the entries of `shown`, and says how many are left out around them.
pub(super) fn render(timeline: &Timeline, shown: Range<usize>) -> String {
    let mut out = String::new();
    head(&mut out, timeline);
    let entries = &timeline.entries;
    let kind_columns = entries[shown.clone()].iter().map(|entry| entry.kind.chars().count()).max();
    let kind_columns = kind_columns.unwrap_or_default().min(KIND_COLUMNS_MAX);
    let mark = timeline.mark();
    left_out(&mut out, shown.start, "before");
    if let (Some(broken), None) = (&timeline.broken, mark) {
        mark_line(&mut out, broken);
    }
    for index in shown.clone() {
        entry_line(&mut out, &entries[index], kind_columns);
        if let (Some(broken), true) = (&timeline.broken, mark == Some(index)) {
            mark_line(&mut out, broken);
        }
    }
    left_out(&mut out, entries.len() - shown.end, "after");
    match &timeline.broken {
        Some(broken) => {
            let (rule, oracle) = (one_line(&broken.rule), one_line(&broken.oracle));
            let (at, words) = (ms(broken.at), one_line(&broken.words));
            line(&mut out, &format!("\nbroken: rule {rule} ({oracle}) at {at} ms: {words}"));
        }
        None => line(&mut out, "\nnothing broke"),
    }
    out
}

fn head(out: &mut String, timeline: &Timeline) {
    line(out, &one_line(&timeline.title));
    let name_columns = timeline.facts.iter().map(|(name, _)| name.chars().count()).max();
    let name_columns = name_columns.unwrap_or_default();
    for (name, value) in &timeline.facts {
        line(out, &format!("  {:name_columns$}  {}", one_line(name), one_line(value)));
    }
    for note in &timeline.notes {
        line(out, &format!("  - {}", one_line(note)));
    }
    line(out, "");
}

fn left_out(out: &mut String, entries: usize, side: &str) {
    if entries > 0 {
        line(out, &format!("... {entries} events {side} are left out ..."));
    }
}

fn entry_line(out: &mut String, entry: &Entry, kind_columns: usize) {
    let (at, lane) = (ms(entry.at), entry.lane.word());
    let (kind, words) = (one_line(&entry.kind), one_line(&entry.words));
    line(out, &format!("{at:>14}  {lane:7}  {kind:kind_columns$}  {words}"));
}

/// The mark in its place. No event has such a lane, so a search for it finds the place.
fn mark_line(out: &mut String, broken: &Broken) {
    let (at, rule, words) = (ms(broken.at), one_line(&broken.rule), one_line(&broken.words));
    line(out, &format!("{at:>14}  !!!!!!!  rule {rule} broken: {words}"));
}

fn line(out: &mut String, words: &str) {
    out.push_str(words.trim_end());
    out.push('\n');
}

/// An agent's words may hold line ends, or orders to a terminal; neither may reach one.
fn one_line(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for char in words.chars() {
        match char {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            char if char.is_control() || is_format(char) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out
}

/// Line separators, and what reorders a line that is read from left to right.
const fn is_format(char: char) -> bool {
    matches!(char, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
