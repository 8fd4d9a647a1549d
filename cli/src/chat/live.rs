//! The lower end of a terminal's screen, which changes: the row the agent is writing, what is going on, messages that
//! wait, and the line on which the next is written. Everything above it stays. Pure: it makes the bytes.

use super::composer::Composer;
use super::terminal::Size;
use super::wrap::{cut, full_rows};
use crate::words::counted;

/// Messages that wait and are shown; more of them are counted.
const WAITING_SHOWN_MAX: usize = 4;
/// Rows kept for the written line at least, however much is shown above it.
const WRITTEN_ROWS_MIN: usize = 1;

const DIM: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// What stands between the agent's words and the written line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// What is going on; nothing at rest.
    pub state: Option<String>,
    /// Messages that wait, each with why.
    pub waiting: Vec<String>,
    /// What the written line begins with.
    pub sign: &'static str,
    /// Shown while nothing is written.
    pub placeholder: &'static str,
}

/// The lower end.
#[derive(Debug, Default)]
pub struct Live {
    /// What the person writes.
    pub composer: Composer,
    footer: Footer,
    /// The agent's words since the last line end.
    unfinished: String,
    is_dim: bool,
    /// Lines above that are not on the screen yet.
    finished: String,
    /// The screen shows what is to be shown.
    is_drawn: bool,
    /// What is on the screen: the unfinished words, and how many rows below their end the cursor is.
    drawn: Option<Drawn>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Drawn {
    unfinished: String,
    rows_below: usize,
}

impl Live {
    /// Words of the agent, behind those before. Dim is what it thinks.
    pub fn say(&mut self, text: &str, is_dim: bool) {
        self.is_drawn = false;
        self.is_dim = is_dim;
        self.unfinished.push_str(&text.replace('\t', "    "));
        if let Some(end) = self.unfinished.rfind('\n') {
            let rest = self.unfinished.split_off(end + 1);
            let whole = std::mem::replace(&mut self.unfinished, rest);
            self.finish(&whole);
        }
    }

    /// The agent's line is over.
    pub fn end_line(&mut self) {
        if !self.unfinished.is_empty() {
            let whole = std::mem::take(&mut self.unfinished);
            self.finish(&whole);
            self.finished.push('\n');
            self.is_drawn = false;
        }
    }

    /// A line of its own.
    pub fn line(&mut self, text: &str) {
        self.end_line();
        self.finished.push_str(text);
        self.finished.push('\n');
        self.is_drawn = false;
    }

    /// What is going on now.
    pub fn set_footer(&mut self, footer: Footer) {
        self.is_drawn &= self.footer == footer;
        self.footer = footer;
    }

    /// The written line has changed, or the screen has.
    pub fn touch(&mut self) {
        self.is_drawn = false;
    }

    /// What brings the screen up to date.
    pub fn draw(&mut self, size: Size) -> String {
        if std::mem::replace(&mut self.is_drawn, true) {
            return String::new();
        }
        let mut bytes = self.erase(size);
        bytes.push_str(&std::mem::take(&mut self.finished));
        // Rows that are full do not change any more. The terminal breaks them, so that they are copied as one line.
        let (full, rest) = full_rows(&self.unfinished, size.columns);
        let above = usize::from(!rest.is_empty());
        bytes.push_str(&self.styled(full));
        bytes.push_str(&self.styled(rest));
        let rest = rest.to_owned();
        self.unfinished.clone_from(&rest);
        let (rows, (row, column)) = self.rows(size, above);
        if above > 0 {
            bytes.push('\n');
        }
        bytes.push_str(&rows.join("\n"));
        let up = rows.len() - 1 - row;
        if up > 0 {
            bytes.push_str(&format!("\u{1b}[{up}A"));
        }
        bytes.push('\r');
        if column > 0 {
            bytes.push_str(&format!("\u{1b}[{column}C"));
        }
        self.drawn = Some(Drawn { unfinished: rest, rows_below: row + above });
        bytes
    }

    /// Takes the lower end off the screen; what the agent said stays.
    pub fn leave(&mut self, size: Size) -> String {
        self.end_line();
        let mut bytes = self.erase(size);
        bytes.push_str(&std::mem::take(&mut self.finished));
        bytes
    }

    fn finish(&mut self, text: &str) {
        let styled = self.styled(text);
        self.finished.push_str(&styled);
    }

    fn styled(&self, text: &str) -> String {
        match self.is_dim && !text.is_empty() {
            true => format!("{DIM}{text}{PLAIN}"),
            false => text.to_owned(),
        }
    }

    fn erase(&mut self, size: Size) -> String {
        let Some(Drawn { unfinished, rows_below }) = self.drawn.take() else {
            return String::new();
        };
        // A terminal that became narrower has broken the row.
        let (full, _) = full_rows(&unfinished, size.columns);
        let broken = full.chars().map(super::wrap::width).sum::<usize>().div_ceil(size.columns);
        match rows_below + broken {
            0 => "\r\u{1b}[J".to_owned(),
            up => format!("\r\u{1b}[{up}A\u{1b}[J"),
        }
    }

    /// The rows below the agent's words, and the cursor's place in them.
    fn rows(&self, size: Size, above: usize) -> (Vec<String>, (usize, usize)) {
        let room = size.rows.saturating_sub(above + WRITTEN_ROWS_MIN);
        let mut rows: Vec<String> = self.footer.state.iter().cloned().collect();
        let waiting = &self.footer.waiting;
        rows.extend(waiting.iter().take(WAITING_SHOWN_MAX).map(|line| format!("  {line}")));
        if let Some(more @ 1..) = waiting.len().checked_sub(WAITING_SHOWN_MAX) {
            rows.push(format!("  and {}", counted(more, "more message")));
        }
        rows.truncate(room);
        for row in &mut rows {
            *row = format!("{DIM}{}{PLAIN}", cut(row, size.columns - 1));
        }
        let (mut written, (row, column)) = self.composer.rows(self.footer.sign, size.columns);
        if self.composer.is_empty() && !self.footer.placeholder.is_empty() {
            let room = size.columns - 1 - column.min(size.columns - 1);
            written[0].push_str(&format!("{DIM}{}{PLAIN}", cut(self.footer.placeholder, room)));
        }
        // Of more rows than there is room for, those around the cursor.
        let room = size.rows.saturating_sub(above + rows.len()).max(WRITTEN_ROWS_MIN);
        let first = (row + 1).saturating_sub(room);
        let row = rows.len() + row - first;
        rows.extend(written.into_iter().skip(first).take(room));
        (rows, (row, column))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;
    use crate::chat::keys::Key;

    const SIZE: Size = Size { columns: 20, rows: 8 };

    /// What is on a terminal after these bytes.
    struct Terminal(vt100::Parser);

    impl Terminal {
        fn new(size: Size) -> Self {
            let cells = |n: usize| u16::try_from(n).ok().and_then(NonZero::new).expect("some");
            Self(vt100::Parser::new(cells(size.rows), cells(size.columns), 100))
        }

        fn shows(&mut self, bytes: &str) -> String {
            // The line discipline does that.
            self.0.process(bytes.replace('\n', "\r\n").as_bytes());
            let rows = self.0.screen().contents();
            rows.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
        }
    }

    fn live(state: &str, waiting: &[&str]) -> Live {
        let mut live = Live::default();
        live.set_footer(Footer {
            state: (!state.is_empty()).then(|| state.to_owned()),
            waiting: waiting.iter().map(|line| (*line).to_owned()).collect(),
            sign: "> ",
            placeholder: "",
        });
        live
    }

    fn write(live: &mut Live, text: &str) {
        live.composer.edit(&Key::Text(text.to_owned()));
        live.touch();
    }

    #[test]
    fn the_written_line_stays_below_what_is_said() {
        let mut terminal = Terminal::new(SIZE);
        let mut live = live("Working", &[]);
        assert_eq!(terminal.shows(&live.draw(SIZE)), "Working\n>");
        live.say("hel", false);
        write(&mut live, "my words");
        assert_eq!(terminal.shows(&live.draw(SIZE)), "hel\nWorking\n> my words");
        live.say("lo\nthere", false);
        assert_eq!(terminal.shows(&live.draw(SIZE)), "hello\nthere\nWorking\n> my words");
        assert_eq!(terminal.0.screen().cursor_position(), (3, 10));
        live.line("[note] a note");
        let all = "hello\nthere\n[note] a note\nWorking\n> my words";
        assert_eq!(terminal.shows(&live.draw(SIZE)), all);
        assert_eq!(live.draw(SIZE), "", "what has not changed is not drawn again");
        assert_eq!(terminal.shows(&live.leave(SIZE)), "hello\nthere\n[note] a note");
    }

    #[test]
    fn a_line_longer_than_the_screen_is_wide_comes_whole_in_any_pieces() {
        let text: String = ('a'..='z').cycle().take(67).collect();
        for piece in [1, 2, 3, 19, 20, 21, 40, 67] {
            let mut terminal = Terminal::new(SIZE);
            let mut live = live("", &[]);
            let mut shown = String::new();
            for from in (0..text.len()).step_by(piece) {
                live.say(&text[from..text.len().min(from + piece)], false);
                shown = terminal.shows(&live.draw(SIZE));
            }
            assert_eq!(shown.replace('\n', ""), format!("{text}>"), "in pieces of {piece}");
        }
    }

    #[test]
    fn what_waits_is_counted_and_the_written_line_always_has_its_row() {
        let mut terminal = Terminal::new(SIZE);
        let mut live = live("Stopping", &["1", "2", "3", "4", "5", "6"]);
        live.line("above");
        let shown = terminal.shows(&live.draw(SIZE));
        let rows = ["above", "Stopping", "  1", "  2", "  3", "  4", "  and 2 more messages", ">"];
        assert_eq!(shown.lines().next(), Some("above"));
        assert_eq!(shown.replace('\n', "|"), rows.map(|r| cut(r, 19).trim_end()).join("|"));
        write(&mut live, &"x".repeat(400));
        let small = Size { columns: 20, rows: 4 };
        let mut terminal = Terminal::new(small);
        let shown = terminal.shows(&live.draw(small));
        assert_eq!(shown.lines().count(), 4, "{shown}");
        assert!(shown.ends_with("xxx"), "{shown}");
        let (row, _) = terminal.0.screen().cursor_position();
        assert_eq!(row, 3);
    }

    #[test]
    fn a_narrower_screen_is_redrawn_without_leftovers() {
        let mut live = live("", &[]);
        live.say("0123456789abcde", false);
        live.draw(SIZE);
        let narrow = Size { columns: 10, rows: 8 };
        let bytes = live.draw(narrow);
        assert_eq!(bytes, "", "nothing changed yet");
        live.touch();
        // The row was broken into two, and the cursor is a row below the second.
        assert!(live.draw(narrow).starts_with("\r\u{1b}[2A\u{1b}[J"));
    }
}
