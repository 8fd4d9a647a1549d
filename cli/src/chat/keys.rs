//! Bytes of a terminal in raw mode, read as keys. Pure.
//!
//! However the bytes are cut into reads, the keys are the same; only a lone Escape is known by the read it ended.

/// Longest text that is taken at once, typed or pasted.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Longest escape sequence that is waited for.
const SEQUENCE_BYTES_MAX: usize = 32;

const ESCAPE: u8 = 0x1b;
/// What a terminal sends before and behind a paste, once it was asked to (`CSI ? 2004 h`).
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// One key, or a run of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// Text that was typed.
    Text(String),
    /// Text that was pasted; line ends in it are part of it.
    Paste(String),
    /// A paste longer than [`TEXT_BYTES_MAX`], which is skipped whole.
    PasteTooLong,
    /// Enter.
    Enter,
    /// Alt-Enter: a line end within the message.
    NewLine,
    /// Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// One character to the left.
    Left,
    /// One character to the right.
    Right,
    /// One word to the left.
    WordLeft,
    /// One word to the right.
    WordRight,
    /// The start of the line.
    Home,
    /// The end of the line.
    End,
    /// The message before.
    Up,
    /// The message after.
    Down,
    /// Ctrl-U: everything before the cursor goes.
    KillBefore,
    /// Ctrl-K: the rest of the line goes.
    KillAfter,
    /// Ctrl-W: the word before the cursor goes.
    KillWord,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    Close,
    /// Ctrl-\.
    Quit,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-L.
    Redraw,
}

/// What was read so far of a key that has not ended.
#[derive(Debug, Default)]
pub struct Keys {
    begun: Vec<u8>,
    paste: Option<Paste>,
}

#[derive(Debug, Default)]
struct Paste {
    bytes: Vec<u8>,
    is_too_long: bool,
}

impl Keys {
    /// The keys that `read` completes.
    pub fn feed(&mut self, read: &[u8]) -> Vec<Key> {
        // An Escape that ended the read before was one only if no sequence goes on here.
        if self.begun == [ESCAPE] && !matches!(read.first(), Some(b'[' | b'O')) {
            self.begun.clear();
        }
        let bytes = [std::mem::take(&mut self.begun), read.to_vec()].concat();
        let mut keys = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let taken = match &mut self.paste {
                Some(_) => self.paste_on(rest, &mut keys),
                None => self.key(rest, &mut keys),
            };
            let Some(taken) = taken else {
                self.begun = rest.to_vec();
                break;
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
        keys
    }

    /// How many bytes one key took; nothing when its end has not come.
    fn key(&mut self, rest: &[u8], keys: &mut Vec<Key>) -> Option<usize> {
        if rest.starts_with(PASTE_BEGINS) {
            self.paste = Some(Paste::default());
            return Some(PASTE_BEGINS.len());
        }
        let (taken, key) = match rest[0] {
            ESCAPE => sequence(rest)?,
            byte if byte < 0x20 || byte == 0x7f => (1, control(byte)),
            _ => text(rest)?,
        };
        keys.extend(key);
        Some(taken)
    }

    fn paste_on(&mut self, rest: &[u8], keys: &mut Vec<Key>) -> Option<usize> {
        let paste = self.paste.as_mut()?;
        for (at, byte) in rest.iter().enumerate() {
            paste.bytes.push(*byte);
            if paste.bytes.ends_with(PASTE_ENDS) {
                paste.bytes.truncate(paste.bytes.len() - PASTE_ENDS.len());
                let text = String::from_utf8_lossy(&paste.bytes);
                // Terminals send the line ends of a paste as the Enter key does.
                let text = text.replace("\r\n", "\n").replace('\r', "\n");
                keys.push(if paste.is_too_long { Key::PasteTooLong } else { Key::Paste(text) });
                self.paste = None;
                return Some(at + 1);
            }
            if paste.bytes.len() > TEXT_BYTES_MAX + PASTE_ENDS.len() {
                paste.is_too_long = true;
                paste.bytes.drain(..TEXT_BYTES_MAX);
            }
        }
        Some(rest.len())
    }
}

fn control(byte: u8) -> Option<Key> {
    Some(match byte {
        0x01 => Key::Home,
        0x02 => Key::Left,
        0x03 => Key::Interrupt,
        0x04 => Key::Close,
        0x05 => Key::End,
        0x06 => Key::Right,
        0x08 | 0x7f => Key::Backspace,
        b'\t' => Key::Text("\t".to_owned()),
        b'\n' | b'\r' => Key::Enter,
        0x0b => Key::KillAfter,
        0x0c => Key::Redraw,
        0x0e => Key::Down,
        0x10 => Key::Up,
        0x15 => Key::KillBefore,
        0x17 => Key::KillWord,
        0x1a => Key::Suspend,
        0x1c => Key::Quit,
        _ => return None,
    })
}

/// A key that begins with Escape, and its length.
fn sequence(rest: &[u8]) -> Option<(usize, Option<Key>)> {
    let final_at = match *rest.get(1)? {
        b'[' => {
            let parameters = &rest[2..];
            let last = parameters.iter().position(|byte| !(0x20..=0x3f).contains(byte));
            match last {
                Some(at) => at + 2,
                // Nothing that a terminal sends is so long.
                None if rest.len() > SEQUENCE_BYTES_MAX => return Some((rest.len(), None)),
                None => return None,
            }
        }
        b'O' => rest.get(2).map(|_| 2)?,
        b'\r' | b'\n' => return Some((2, Some(Key::NewLine))),
        0x7f => return Some((2, Some(Key::KillWord))),
        b'b' => return Some((2, Some(Key::WordLeft))),
        b'f' => return Some((2, Some(Key::WordRight))),
        ESCAPE => return Some((1, None)),
        _ => return Some((2, None)),
    };
    let key = match &rest[2..=final_at] {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"C" => Some(Key::Right),
        b"D" => Some(Key::Left),
        b"H" | b"1~" | b"7~" => Some(Key::Home),
        b"F" | b"4~" | b"8~" => Some(Key::End),
        b"3~" => Some(Key::Delete),
        b"1;5C" | b"1;3C" => Some(Key::WordRight),
        b"1;5D" | b"1;3D" => Some(Key::WordLeft),
        _ => None,
    };
    Some((final_at + 1, key))
}

/// A run of text, up to the next control. A character whose bytes have not all come is waited for.
fn text(rest: &[u8]) -> Option<(usize, Option<Key>)> {
    let run = rest.iter().position(|byte| *byte < 0x20 || *byte == 0x7f).unwrap_or(rest.len());
    let bytes = &rest[..run];
    let whole = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && run == rest.len() => error.valid_up_to(),
        _ => run,
    };
    match whole {
        0 => None,
        _ => Some((whole, Some(Key::Text(String::from_utf8_lossy(&bytes[..whole]).into_owned())))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYTHING: &[u8] =
        b"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82\x7f\x1b[D\x1bOC\x1b[3~\x1b[1;5D\x1b\rb\
        \x1b[200~one\rtwo\x03\x1b[201~\r\x03\x04\x15\x0b\x17\x01\x05\x1b[99z\xff.";

    fn text(text: &str) -> Key {
        Key::Text(text.to_owned())
    }

    /// Runs of text are one, however they were cut.
    fn joined(keys: Vec<Key>) -> Vec<Key> {
        let mut joined: Vec<Key> = Vec::new();
        for key in keys {
            match (joined.last_mut(), key) {
                (Some(Key::Text(before)), Key::Text(more)) => before.push_str(&more),
                (_, key) => joined.push(key),
            }
        }
        joined
    }

    #[test]
    fn every_key_is_known() {
        let expected = [
            text("a\u{e9}\u{20ac}\u{1f642}"),
            Key::Backspace,
            Key::Left,
            Key::Right,
            Key::Delete,
            Key::WordLeft,
            Key::NewLine,
            text("b"),
            Key::Paste("one\ntwo\u{3}".to_owned()),
            Key::Enter,
            Key::Interrupt,
            Key::Close,
            Key::KillBefore,
            Key::KillAfter,
            Key::KillWord,
            Key::Home,
            Key::End,
            text("\u{fffd}."),
        ];
        assert_eq!(Keys::default().feed(EVERYTHING), expected);
    }

    #[test]
    fn no_cut_changes_what_was_typed() {
        let whole = Keys::default().feed(EVERYTHING);
        for at in 0..EVERYTHING.len() {
            let mut keys = Keys::default();
            let (before, after) = EVERYTHING.split_at(at);
            // A cut right behind an Escape makes it one of its own, and Alt-Enter then reads as Enter.
            if before.ends_with(b"\x1b") && after.starts_with(b"\r") {
                continue;
            }
            let cut = [keys.feed(before), keys.feed(after)].concat();
            assert_eq!(joined(cut), whole, "cut at {at}");
        }
    }

    #[test]
    fn an_escape_alone_takes_nothing_with_it() {
        let mut keys = Keys::default();
        assert_eq!(keys.feed(b"\x1b"), []);
        assert_eq!(keys.feed(b"a"), [text("a")]);
        assert_eq!(keys.feed(b"\x1b[1"), []);
        assert_eq!(keys.feed(&[b'1'; SEQUENCE_BYTES_MAX]), []);
        assert_eq!(keys.feed(b"b"), [text("b")], "a sequence that never ends is given up");
    }

    #[test]
    fn a_paste_past_the_limit_is_skipped_whole() {
        let paste =
            |bytes: usize| [PASTE_BEGINS, "x".repeat(bytes).as_bytes(), PASTE_ENDS, b"y"].concat();
        let fits = Keys::default().feed(&paste(TEXT_BYTES_MAX));
        assert_eq!(fits, [Key::Paste("x".repeat(TEXT_BYTES_MAX)), text("y")]);
        let long = Keys::default().feed(&paste(3 * TEXT_BYTES_MAX));
        assert_eq!(long, [Key::PasteTooLong, text("y")]);
    }
}
