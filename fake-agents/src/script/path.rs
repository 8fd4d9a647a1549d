//! Where in a document an error is: its path, and the line and column of that place. A document that holds a script
//! names its own errors in the same way.

use std::iter::Peekable;
use std::str::CharIndices;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Stands before and after the inner path in an error that passes through an outer reader as text.
const MARK: char = '\u{1}';

/// Reads a part of a script from a buffered value; an error names its path below that part.
pub fn nested<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    located(value).map_err(|(path, message)| format!("{MARK}{path}{MARK}{message}"))
}

/// Reads a value; an error comes as the whole path and a sentence.
pub fn located<T: DeserializeOwned>(value: Value) -> Result<T, (String, String)> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let outer = error.path().to_string();
        let message = error.into_inner().to_string();
        let Some((inner, message)) =
            message.strip_prefix(MARK).and_then(|rest| rest.split_once(MARK))
        else {
            return (clean(outer), message);
        };
        (join(&clean(outer), inner), message.to_string())
    })
}

/// serde_path_to_error writes `.` for the document itself.
fn clean(path: String) -> String {
    if path == "." { String::new() } else { path }
}

fn join(outer: &str, inner: &str) -> String {
    match (outer.is_empty(), inner.is_empty()) {
        (true, _) => inner.to_string(),
        (_, true) => outer.to_string(),
        _ if inner.starts_with('[') => format!("{outer}{inner}"),
        _ => format!("{outer}.{inner}"),
    }
}

/// The line and column, counted from 1, at which the value at `path` begins in `text`. `text` is JSON: it was parsed
/// before. Of a path that leads nowhere, the deepest place that exists counts.
pub fn line_and_column(text: &str, path: &str) -> (usize, usize) {
    let mut scanner = Scanner { text, chars: text.char_indices().peekable() };
    let mut at = scanner.skip_space();
    for segment in segments(path) {
        match scanner.enter(&segment) {
            Some(deeper) => at = deeper,
            None => break,
        }
    }
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}

enum Segment {
    Index(usize),
    Key(String),
}

/// `turns[0].steps[2].ms` in its parts.
fn segments(path: &str) -> Vec<Segment> {
    path.replace('[', ".[")
        .split('.')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let index = part.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            match index.and_then(|index| index.parse().ok()) {
                Some(index) => Segment::Index(index),
                None => Segment::Key(part.to_string()),
            }
        })
        .collect()
}

/// Walks JSON text that is known to be well-formed.
struct Scanner<'t> {
    text: &'t str,
    chars: Peekable<CharIndices<'t>>,
}

impl Scanner<'_> {
    /// Moves to the member or element `segment` of the value that begins here; returns its offset.
    fn enter(&mut self, segment: &Segment) -> Option<usize> {
        let opening = self.chars.next()?.1;
        let mut index = 0;
        loop {
            let at = self.skip_space();
            match self.chars.peek()?.1 {
                '}' | ']' => return None,
                ',' => {
                    self.chars.next();
                    index += 1;
                    continue;
                }
                _ => {}
            }
            let found = match (opening, segment) {
                ('{', segment) => {
                    let key = self.skip_value();
                    self.skip_space();
                    self.chars.next(); // the colon
                    self.skip_space();
                    matches!(segment, Segment::Key(wanted) if key == quoted(wanted))
                }
                ('[', Segment::Index(wanted)) => index == *wanted,
                _ => return None,
            };
            if found {
                return Some(if opening == '{' { self.offset() } else { at });
            }
            self.skip_value();
        }
    }

    fn offset(&mut self) -> usize {
        self.chars.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn skip_space(&mut self) -> usize {
        while self.chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
        self.offset()
    }

    /// Skips the value that begins here and returns its text.
    fn skip_value(&mut self) -> String {
        let from = self.offset();
        let mut depth = 0;
        let mut in_string = false;
        while let Some((_, c)) = self.chars.peek().copied() {
            if !in_string
                && depth == 0
                && self.offset() > from
                && matches!(c, ',' | ']' | '}' | ':')
            {
                break;
            }
            self.chars.next();
            match c {
                '\\' if in_string => {
                    self.chars.next();
                }
                '"' => in_string = !in_string,
                '{' | '[' if !in_string => depth += 1,
                '}' | ']' if !in_string => depth -= 1,
                _ => {}
            }
            if !in_string && depth == 0 && matches!(c, '"' | '}' | ']') {
                break;
            }
        }
        let to = self.offset();
        self.text[from..to].trim_end().to_string()
    }
}

/// The key as the script would spell it.
fn quoted(key: &str) -> String {
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut text);
    match key.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => String::new(),
    }
}
