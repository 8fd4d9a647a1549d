//! The page: a template, its style and script, and the timeline as JSON.
//!
//! The script and the style are named in the page's content security policy by their hashes, so nothing else runs
//! and nothing is fetched, whatever an agent wrote. The JSON has no `<` in it and can therefore not end its element.

use std::borrow::Cow;
use std::ops::Range;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{
    Broken, DETAIL_BYTES_MAX, ENTRIES_AFTER_BROKEN_MAX, ENTRIES_MAX, Entry, Lane, Timeline,
    WORDS_BYTES_MAX, text,
};

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What the script is given. It reads back as a [`Timeline`]; the other fields are the page's own.
#[derive(Serialize)]
struct Page<'a> {
    title: &'a str,
    facts: &'a [(String, String)],
    notes: &'a [String],
    broken: Option<&'a Broken>,
    /// The place in the run of the entry after which the mark stands.
    mark: Option<usize>,
    lanes: [Column; Lane::ALL.len()],
    /// The place in the run of the first entry here.
    first: usize,
    /// How many entries the run had.
    of: usize,
    entries: Vec<Entry>,
}

#[derive(Serialize)]
struct Column {
    lane: Lane,
    heading: &'static str,
    meaning: &'static str,
}

pub(super) fn render(timeline: &Timeline) -> String {
    let shown = shown(timeline);
    let page = Page {
        title: &timeline.title,
        facts: &timeline.facts,
        notes: &timeline.notes,
        broken: timeline.broken.as_ref(),
        mark: timeline.mark(),
        lanes: Lane::ALL.map(column),
        first: shown.start,
        of: timeline.entries.len(),
        entries: timeline.entries[shown.clone()].iter().map(cut_entry).collect(),
    };
    let json = serde_json::to_string(&page).expect("strings and numbers are always JSON");
    fill(TEMPLATE, |place| match place {
        "policy" => Cow::Owned(policy()),
        "title" => Cow::Owned(escape(&timeline.title)),
        "style" => Cow::Borrowed(STYLE),
        "script" => Cow::Borrowed(SCRIPT),
        // `<` is never part of JSON's own syntax, so each one is inside a string and may be written so.
        "timeline" => Cow::Owned(json.replace('<', "\\u003c")),
        "text" => Cow::Owned(escape(&text::render(timeline, shown.clone()))),
        _ => unreachable!("the template names only what is filled in here"),
    })
}

fn column(lane: Lane) -> Column {
    Column { lane, heading: lane.heading(), meaning: lane.meaning() }
}

/// Which entries a page has: all that fit, and of a longer run those up to what broke and a little after it.
fn shown(timeline: &Timeline) -> Range<usize> {
    let all = timeline.entries.len();
    if all <= ENTRIES_MAX {
        return 0..all;
    }
    let end = match timeline.mark() {
        Some(mark) => (mark + 1 + ENTRIES_AFTER_BROKEN_MAX).clamp(ENTRIES_MAX, all),
        None => ENTRIES_MAX,
    };
    end - ENTRIES_MAX..end
}

fn cut_entry(entry: &Entry) -> Entry {
    Entry {
        words: cut(&entry.words, WORDS_BYTES_MAX),
        detail: cut(&entry.detail, DETAIL_BYTES_MAX),
        ..entry.clone()
    }
}

fn cut(words: &str, bytes_max: usize) -> String {
    if words.len() <= bytes_max {
        return words.to_owned();
    }
    let end = (0..=bytes_max).rev().find(|&end| words.is_char_boundary(end)).unwrap_or_default();
    format!("{} ... ({} bytes more)", &words[..end], words.len() - end)
}

/// Fills the `{{places}}` of a template in one pass: what is filled in is not looked at again.
fn fill<'a>(template: &str, words: impl Fn(&str) -> Cow<'a, str>) -> String {
    let mut parts = template.split("{{");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (place, rest) = part.split_once("}}").expect("each place of the template is closed");
        out.push_str(&words(place));
        out.push_str(rest);
    }
    out
}

/// Nothing is fetched, and only this page's own script and style apply.
fn policy() -> String {
    let (script, style) = (sha256_base64(SCRIPT), sha256_base64(STYLE));
    format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; \
         base-uri 'none'; form-action 'none'"
    )
}

fn sha256_base64(words: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for bytes in Sha256::digest(words.as_bytes()).chunks(3) {
        let byte = |place: usize| u32::from(bytes.get(place).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) as usize & 63;
            out.push(if place <= bytes.len() { char::from(DIGITS[digit]) } else { '=' });
        }
    }
    out
}

fn escape(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for char in words.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            char => out.push(char),
        }
    }
    out
}
