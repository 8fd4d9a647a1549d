//! The line on which a person writes the next message, and how it is laid out. Pure.
//!
//! A message may have several lines: pasted ones, or ones made with Alt-Enter.

use std::collections::VecDeque;

use super::keys::{Key, TEXT_BYTES_MAX};
use super::wrap::{Rows, width};

/// Earlier messages that the Up key brings back.
const RECALLED_MAX: usize = 100;

/// Text, and a cursor in it.
#[derive(Debug, Default)]
pub struct Composer {
    text: String,
    /// A character boundary.
    at: usize,
    earlier: VecDeque<String>,
    /// Which of the earlier messages is shown, and what was being written before it was.
    recalled: Option<(usize, String)>,
}

/// What came of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The line took it.
    Taken,
    /// The line would be longer than [`TEXT_BYTES_MAX`]; nothing changed.
    TooLong,
    /// It is no key of the line's.
    NotMine,
}

impl Composer {
    /// Nothing is written.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes what is written, to be sent; the Up key brings it back.
    pub fn take(&mut self) -> String {
        let text = self.clear();
        self.remember(&text);
        text
    }

    /// Empties the line.
    pub fn clear(&mut self) -> String {
        self.at = 0;
        self.recalled = None;
        std::mem::take(&mut self.text)
    }

    /// The Up key brings `text` back.
    pub fn remember(&mut self, text: &str) {
        if !text.trim().is_empty() && self.earlier.back().is_none_or(|last| last != text) {
            self.earlier.push_back(text.to_owned());
            if self.earlier.len() > RECALLED_MAX {
                self.earlier.pop_front();
            }
        }
    }

    /// Puts a text that was sent back in front of what has been written since (rules 3.8.1, 3.8.3). The limit of the
    /// line does not apply: it is the person's only copy.
    pub fn put_back(&mut self, text: &str) {
        let between = if self.text.is_empty() { "" } else { "\n" };
        self.text.insert_str(0, &format!("{text}{between}"));
        self.at = self.text.len();
        self.recalled = None;
    }

    /// Edits the line.
    pub fn edit(&mut self, key: &Key) -> Edit {
        match key {
            Key::Text(text) | Key::Paste(text) => return self.insert(text),
            Key::NewLine => return self.insert("\n"),
            Key::PasteTooLong => return Edit::TooLong,
            Key::Backspace => self.kill(self.before(self.at), self.at),
            Key::Delete | Key::Close => self.kill(self.at, self.after(self.at)),
            Key::Left => self.at = self.before(self.at),
            Key::Right => self.at = self.after(self.at),
            Key::WordLeft => self.at = self.word_before(),
            Key::WordRight => self.at = self.word_after(),
            Key::Home => self.at = self.row_start(),
            Key::End => self.at = self.row_end(),
            Key::KillBefore => self.kill(self.row_start(), self.at),
            Key::KillAfter => self.kill(self.at, self.row_end()),
            Key::KillWord => self.kill(self.word_before(), self.at),
            Key::Up => self.recall_before(),
            Key::Down => self.recall_after(),
            Key::Enter | Key::Interrupt | Key::Quit | Key::Suspend | Key::Redraw => {
                return Edit::NotMine;
            }
        }
        Edit::Taken
    }

    /// The rows of a terminal so many columns wide, and the cursor's row and column. The first begins with `sign`, the
    /// others with as many spaces.
    pub fn rows(&self, sign: &str, columns: usize) -> (Vec<String>, (usize, usize)) {
        let mut rows = Rows::new(sign, columns);
        let (before, after) = self.text.split_at(self.at);
        before.chars().for_each(|c| rows.push(c));
        let cursor = rows.end();
        after.chars().for_each(|c| rows.push(c));
        (rows.into_rows(), cursor)
    }

    fn insert(&mut self, text: &str) -> Edit {
        let is_text = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
        let text: String = text.chars().filter(is_text).collect();
        if self.text.len() + text.len() > TEXT_BYTES_MAX {
            return Edit::TooLong;
        }
        self.text.insert_str(self.at, &text);
        self.at += text.len();
        Edit::Taken
    }

    fn kill(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.at = from;
    }

    /// What looks like one character goes as one: accents and joined signs with what they stand on.
    fn before(&self, at: usize) -> usize {
        let mut start = at;
        for (index, c) in self.text[..at].char_indices().rev() {
            start = index;
            let joins = self.text[..index].ends_with(JOINER);
            if c == '\n' || (width(c) > 0 && !joins) {
                break;
            }
        }
        start
    }

    fn after(&self, at: usize) -> usize {
        let mut chars = self.text[at..].char_indices();
        let Some((_, mut last)) = chars.next() else { return at };
        for (index, c) in chars {
            if last == '\n' || c == '\n' || (width(c) > 0 && last != JOINER) {
                return at + index;
            }
            last = c;
        }
        self.text.len()
    }

    fn word_before(&self) -> usize {
        let before = self.text[..self.at].trim_end();
        let space = before.char_indices().rfind(|(_, c)| c.is_whitespace());
        space.map_or(0, |(at, c)| at + c.len_utf8())
    }

    fn word_after(&self) -> usize {
        let after = &self.text[self.at..];
        let word = after.len() - after.trim_start().len();
        let end = after[word..].find(char::is_whitespace);
        end.map_or(self.text.len(), |end| self.at + word + end)
    }

    fn row_start(&self) -> usize {
        self.text[..self.at].rfind('\n').map_or(0, |at| at + 1)
    }

    fn row_end(&self) -> usize {
        self.text[self.at..].find('\n').map_or(self.text.len(), |end| self.at + end)
    }

    fn recall_before(&mut self) {
        let shown = self.recalled.as_ref().map_or(self.earlier.len(), |(shown, _)| *shown);
        let Some(index) = shown.checked_sub(1) else { return };
        let text = self.earlier[index].clone();
        let written = std::mem::replace(&mut self.text, text);
        let (_, kept) = self.recalled.take().unwrap_or((0, written));
        self.recalled = Some((index, kept));
        self.at = self.text.len();
    }

    fn recall_after(&mut self) {
        let Some((shown, written)) = self.recalled.take() else { return };
        match self.earlier.get(shown + 1) {
            Some(text) => {
                self.text.clone_from(text);
                self.recalled = Some((shown + 1, written));
            }
            None => self.text = written,
        }
        self.at = self.text.len();
    }
}

/// Zero width joiner: what follows it is drawn as one with what is before it.
const JOINER: char = '\u{200d}';

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Composer {
        let mut composer = Composer::default();
        assert_eq!(composer.edit(&Key::Text(text.to_owned())), Edit::Taken);
        composer
    }

    fn edited(mut composer: Composer, keys: &[Key]) -> String {
        for key in keys {
            composer.edit(key);
        }
        composer.text
    }

    #[test]
    fn a_character_goes_as_it_is_seen() {
        assert_eq!(edited(typed("a\u{20ac}"), &[Key::Backspace]), "a");
        // e and a combining accent; a family of three joined signs.
        assert_eq!(edited(typed("ae\u{301}"), &[Key::Backspace]), "a");
        let family = "a\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}b";
        assert_eq!(edited(typed(family), &[Key::Left, Key::Backspace]), "ab");
        assert_eq!(edited(typed(family), &[Key::Home, Key::Right, Key::Delete]), "ab");
        assert_eq!(edited(Composer::default(), &[Key::Backspace, Key::Delete, Key::Left]), "");
    }

    #[test]
    fn words_and_lines_are_killed() {
        assert_eq!(edited(typed("one two  "), &[Key::KillWord]), "one ");
        assert_eq!(edited(typed("one two"), &[Key::WordLeft, Key::KillBefore]), "two");
        let keys = [Key::Home, Key::WordRight, Key::KillAfter];
        assert_eq!(edited(typed("one two"), &keys), "one");
        assert_eq!(edited(typed("one\ntwo"), &[Key::KillBefore]), "one\n");
        assert_eq!(edited(typed("\u{20ac}\u{3000}\u{20ac}"), &[Key::KillWord]), "\u{20ac}\u{3000}");
    }

    #[test]
    fn what_comes_back_stands_before_what_was_written_since() {
        let mut composer = typed("later");
        composer.put_back("held");
        assert_eq!(composer.text, "held\nlater");
        let mut composer = Composer::default();
        composer.put_back("held");
        assert_eq!(edited(composer, &[Key::Text("!".to_owned())]), "held!");
    }

    #[test]
    fn earlier_messages_come_back_and_what_was_being_written_too() {
        let mut composer = typed("one");
        assert_eq!(composer.take(), "one");
        composer.edit(&Key::Text("two".to_owned()));
        composer.take();
        composer.edit(&Key::Text("thr".to_owned()));
        let shown = [Key::Up, Key::Up, Key::Up, Key::Down, Key::Down, Key::Down].map(|key| {
            composer.edit(&key);
            composer.text.clone()
        });
        assert_eq!(shown, ["two", "one", "one", "two", "thr", "thr"]);
        for n in 0..2 * RECALLED_MAX {
            composer.remember(&n.to_string());
        }
        assert_eq!(composer.earlier.len(), RECALLED_MAX);
    }

    #[test]
    fn a_line_past_the_limit_takes_no_more() {
        let mut composer = typed(&"x".repeat(TEXT_BYTES_MAX));
        assert_eq!(composer.edit(&Key::Text("y".to_owned())), Edit::TooLong);
        assert_eq!(composer.text.len(), TEXT_BYTES_MAX);
    }

    #[test]
    fn rows_fit_and_the_cursor_is_where_it_is_typed() {
        let composer = typed("abcdef\ng");
        let (rows, cursor) = composer.rows("> ", 6);
        assert_eq!(rows, ["> abc", "  def", "  g"]);
        assert_eq!(cursor, (2, 3));
        // A wide character is not cut; a full row is followed by the row the next character goes to.
        let (rows, cursor) = typed("ab\u{4e2d}").rows("> ", 6);
        assert_eq!((rows, cursor), (vec!["> ab".to_owned(), "  \u{4e2d}".to_owned()], (1, 4)));
        let (rows, cursor) = typed("abc").rows("> ", 6);
        assert_eq!((rows, cursor), (vec!["> abc".to_owned(), "  ".to_owned()], (1, 2)));
        let (rows, _) = typed("abc\nd").rows("> ", 6);
        assert_eq!(rows, ["> abc", "  d"]);
    }
}
