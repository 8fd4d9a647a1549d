//! How much room words take on a terminal. Pure.

use unicode_width::UnicodeWidthChar;

/// What a tab is drawn as.
const TAB: &str = "    ";

/// Columns of one character.
pub fn width(c: char) -> usize {
    match c {
        '\t' => TAB.len(),
        _ => c.width().unwrap_or(0),
    }
}

/// Rows that are filled one character at a time. The last column stays free: a terminal waits there for what comes
/// next before it decides where the cursor is.
pub struct Rows {
    rows: Vec<String>,
    column: usize,
    indent: usize,
    room: usize,
    /// The row before is full, and nothing is in this one yet.
    is_wrapped: bool,
}

impl Rows {
    /// The first row begins with `sign`, the others with as many spaces.
    pub fn new(sign: &str, columns: usize) -> Self {
        let indent = sign.chars().map(width).sum();
        let room = columns.saturating_sub(1).max(indent + 2);
        Self { rows: vec![sign.to_owned()], column: indent, indent, room, is_wrapped: false }
    }

    /// One more character.
    pub fn push(&mut self, c: char) {
        if c == '\n' {
            // The end of a line that fills its row needs no second break.
            if !std::mem::take(&mut self.is_wrapped) {
                self.break_row();
            }
            return;
        }
        self.is_wrapped = false;
        let width = width(c);
        if self.column + width > self.room {
            self.break_row();
        }
        if let Some(row) = self.rows.last_mut() {
            match c {
                '\t' => row.push_str(TAB),
                _ => row.push(c),
            }
        }
        self.column += width;
        // The cursor is never behind the last column.
        if self.column >= self.room {
            self.break_row();
            self.is_wrapped = true;
        }
    }

    /// Row and column where the next character goes.
    pub fn end(&self) -> (usize, usize) {
        (self.rows.len() - 1, self.column)
    }

    /// The rows.
    pub fn into_rows(self) -> Vec<String> {
        self.rows
    }

    fn break_row(&mut self) {
        self.rows.push(" ".repeat(self.indent));
        self.column = self.indent;
    }
}

/// Splits `text` so that the first part fills whole rows of a terminal `columns` wide, and the rest fits into one.
pub fn full_rows(text: &str, columns: usize) -> (&str, &str) {
    let mut start = 0;
    let mut column = 0;
    for (at, c) in text.char_indices() {
        let width = width(c);
        if column + width > columns {
            start = at;
            column = 0;
        }
        column += width;
    }
    text.split_at(start)
}

/// `text` cut to one row.
pub fn cut(text: &str, columns: usize) -> &str {
    let mut column = 0;
    for (at, c) in text.char_indices() {
        column += width(c);
        if column > columns {
            return &text[..at];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_rows_are_told_from_the_last() {
        assert_eq!(full_rows("abc", 3), ("", "abc"));
        assert_eq!(full_rows("abcd", 3), ("abc", "d"));
        assert_eq!(full_rows("ab\u{4e2d}d", 3), ("ab", "\u{4e2d}d"));
        assert_eq!(full_rows("abcdefgh", 3), ("abcdef", "gh"));
        assert_eq!(cut("ab\u{4e2d}", 3), "ab");
        assert_eq!(cut("ab\u{4e2d}", 4), "ab\u{4e2d}");
    }
}
