//! A strict, borrowed, iterative reader of JSON text.
//!
//! The wire needs three things a general parser does not give together: values kept as the exact
//! text they came in, a nesting bound that also holds for the parts nobody looks at, and tolerance
//! for duplicate keys and broken surrogate pairs. So this is a cursor that checks what it steps
//! over, never recurses, and never copies.
use std::borrow::Cow;

use super::findings::{Findings, Quirk};

/// How deep containers may nest in one frame, the frame's own object included. One bit each of a
/// `u128`.
pub const NESTING_MAX: u32 = 128;

/// Why a text is no JSON value that we take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Malformed,
    TooDeep,
}

/// A position in a text, moving forward only.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// An escape of half a surrogate pair was stepped over: legal by the grammar, but no text.
    pub(super) lone_surrogate: bool,
}

/// A string between its quotes, not yet unescaped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quoted<'a> {
    pub(super) inner: &'a str,
    pub(super) escaped: bool,
}

/// One whole value that a [`Cursor`] has checked, without the white space around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View<'a>(&'a str);

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, lone_surrogate: false }
    }

    /// What has not been stepped over yet.
    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    pub(super) fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    /// Steps over a string; the cursor stands on its opening quote.
    pub(super) fn string(&mut self) -> Result<Quoted<'a>, Fault> {
        if !self.eat(b'"') {
            return Err(Fault::Malformed);
        }
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += plain_prefix(self.text.as_bytes().get(self.at..).unwrap_or(&[]));
            match self.peek() {
                Some(b'"') => {
                    let inner = self.text.get(start..self.at).ok_or(Fault::Malformed)?;
                    self.at += 1;
                    return Ok(Quoted { inner, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return Err(Fault::Malformed),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Fault> {
        // By far the most common escapes, taken without a second look.
        if let Some(b'n' | b'"' | b'\\' | b't') = self.text.as_bytes().get(self.at + 1) {
            self.at += 2;
            return Ok(());
        }
        let (character, length) = read_escape(self.rest()).ok_or(Fault::Malformed)?;
        self.lone_surrogate |= character.is_none();
        self.at += length;
        Ok(())
    }

    /// Steps over a member's name and its colon, to the first byte of its value.
    pub(super) fn member_name(&mut self) -> Result<Quoted<'a>, Fault> {
        let name = self.string()?;
        self.space();
        if !self.eat(b':') {
            return Err(Fault::Malformed);
        }
        self.space();
        Ok(name)
    }

    /// Steps over one value of any shape; `outer` containers are open around it.
    pub(super) fn value(&mut self, outer: u32) -> Result<View<'a>, Fault> {
        let start = self.at;
        // One bit a container open inside this value; 1 is an object, the lowest bit the innermost.
        let mut open: u128 = 0;
        let mut depth = 0_u32;
        loop {
            match self.peek() {
                Some(opening @ (b'{' | b'[')) => {
                    if outer + depth >= NESTING_MAX {
                        return Err(Fault::TooDeep);
                    }
                    let is_object = opening == b'{';
                    self.at += 1;
                    self.space();
                    if !self.eat(if is_object { b'}' } else { b']' }) {
                        depth += 1;
                        open = (open << 1) | u128::from(is_object);
                        if is_object {
                            self.member_name()?;
                        }
                        continue;
                    }
                }
                Some(_) => self.scalar()?,
                None => return Err(Fault::Malformed),
            }
            if !self.after_value(&mut open, &mut depth)? {
                return self.text.get(start..self.at).map(View).ok_or(Fault::Malformed);
            }
        }
    }

    /// Closes what ends here. `true`: another value follows inside the one being stepped over.
    fn after_value(&mut self, open: &mut u128, depth: &mut u32) -> Result<bool, Fault> {
        while *depth > 0 {
            self.space();
            let is_object = *open & 1 == 1;
            if self.eat(b',') {
                self.space();
                if is_object {
                    self.member_name()?;
                }
                return Ok(true);
            }
            if !self.eat(if is_object { b'}' } else { b']' }) {
                return Err(Fault::Malformed);
            }
            *open >>= 1;
            *depth -= 1;
        }
        Ok(false)
    }

    /// Steps over a value inside a text that has been checked, looking only for its end.
    fn checked_value(&mut self) -> Option<View<'a>> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut depth = 0_u32;
        loop {
            match *bytes.get(self.at)? {
                b'"' => {
                    self.checked_string();
                    if depth == 0 {
                        break;
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth > 1 => depth -= 1,
                b'}' | b']' if depth == 1 => {
                    self.at += 1;
                    break;
                }
                // A word or a number ends before its separator.
                b'}' | b']' | b',' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => break,
                _ => {}
            }
            self.at += 1;
            if depth == 0 && self.at == bytes.len() {
                break;
            }
        }
        // An empty container has no value to step over.
        if self.at == start { None } else { self.text.get(start..self.at).map(View) }
    }

    fn checked_string(&mut self) {
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            self.at += plain_prefix(bytes.get(self.at..).unwrap_or(&[]));
            match bytes.get(self.at) {
                Some(b'\\') => self.at += 2,
                _ => break self.at += 1,
            }
        }
    }

    fn scalar(&mut self) -> Result<(), Fault> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), Fault> {
        if !self.rest().starts_with(word) {
            return Err(Fault::Malformed);
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Fault> {
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _sign = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(Fault::Malformed) } else { Ok(()) }
    }
}

impl<'a> Quoted<'a> {
    pub(super) fn text(self) -> Cow<'a, str> {
        if !self.escaped {
            return Cow::Borrowed(self.inner);
        }
        let mut text = String::with_capacity(self.inner.len());
        let mut rest = self.inner;
        while let Some(at) = rest.find('\\') {
            let (plain, tail) = rest.split_at(at);
            text.push_str(plain);
            let (character, length) = read_escape(tail).unwrap_or((None, tail.len()));
            text.push(character.unwrap_or(char::REPLACEMENT_CHARACTER));
            rest = tail.get(length..).unwrap_or("");
        }
        text.push_str(rest);
        Cow::Owned(text)
    }
}

impl<'a> View<'a> {
    /// Checks a whole text that may hold white space around its one value.
    pub(super) fn parse(text: &'a str) -> Result<Self, Fault> {
        let mut cursor = Cursor::new(text);
        cursor.space();
        let view = cursor.value(0)?;
        cursor.space();
        if cursor.rest().is_empty() { Ok(view) } else { Err(Fault::Malformed) }
    }

    /// The exact text of the value.
    pub(super) fn token(self) -> &'a str {
        self.0
    }

    pub(super) fn is_null(self) -> bool {
        self.0 == "null"
    }

    pub(super) fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    pub(super) fn is_number(self) -> bool {
        self.0.starts_with(|first: char| first == '-' || first.is_ascii_digit())
    }

    pub(super) fn quoted(self) -> Option<Quoted<'a>> {
        if self.0.starts_with('"') { Cursor::new(self.0).string().ok() } else { None }
    }

    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        self.quoted().map(Quoted::text)
    }

    /// The members of an object in their order; nothing for any other value.
    pub(super) fn members(self) -> impl Iterator<Item = (Cow<'a, str>, View<'a>)> {
        let mut cursor = Cursor::new(self.0);
        let mut open = cursor.eat(b'{');
        std::iter::from_fn(move || {
            if !open {
                return None;
            }
            cursor.space();
            let name = cursor.member_name().ok()?;
            let value = cursor.checked_value()?;
            cursor.space();
            open = cursor.eat(b',');
            Some((name.text(), value))
        })
    }

    /// The elements of an array in their order; nothing for any other value.
    pub(super) fn elements(self) -> impl Iterator<Item = View<'a>> {
        let mut cursor = Cursor::new(self.0);
        let mut open = cursor.eat(b'[');
        std::iter::from_fn(move || {
            if !open {
                return None;
            }
            cursor.space();
            let value = cursor.checked_value()?;
            cursor.space();
            open = cursor.eat(b',');
            Some(value)
        })
    }

    /// A count of something: fractions are cut off, negative and endless numbers are none.
    pub(super) fn count(self, findings: &mut Findings) -> Option<u64> {
        if let Ok(count) = self.0.parse::<u64>() {
            return Some(count);
        }
        let number = self.number()?;
        if !(0.0..=9_007_199_254_740_992.0).contains(&number) {
            return None;
        }
        findings.quirk(Quirk::FractionalCount);
        Some(number as u64)
    }

    pub(super) fn number(self) -> Option<f64> {
        if self.is_number() { self.0.parse::<f64>().ok() } else { None }
    }
}

/// Fills a slot with a member's value. Of duplicate keys the last one counts, as in every
/// `JSON.parse`.
pub(super) fn take_last<T>(slot: &mut Option<T>, value: T, findings: &mut Findings) {
    if slot.replace(value).is_some() {
        findings.quirk(Quirk::DuplicateKey);
    }
}

/// Replaces every escape of half a surrogate pair by the replacement character's escape, so that
/// the text can be stored and read again by any parser.
pub(super) fn repair_surrogates(text: &str) -> String {
    let mut repaired = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (plain, tail) = rest.split_at(at);
        repaired.push_str(plain);
        let (character, length) = read_escape(tail).unwrap_or((Some('\\'), 1));
        let (escape, after) = tail.split_at(length);
        repaired.push_str(if character.is_some() { escape } else { "\\ufffd" });
        rest = after;
    }
    repaired.push_str(rest);
    repaired
}

/// The length of the longest prefix that holds no quote, no backslash and no control character.
///
/// Eight bytes at a time: a byte's high bit ends up set where it is one of the three. Borrows can
/// mark bytes above a true hit falsely, never below one, and only the lowest mark is used.
fn plain_prefix(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let (words, _) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let quote = word ^ (ONES * b'"' as u64);
        let slash = word ^ (ONES * b'\\' as u64);
        let marks = (word.wrapping_sub(ONES * 0x20) & !word)
            | (quote.wrapping_sub(ONES) & !quote)
            | (slash.wrapping_sub(ONES) & !slash);
        if marks & HIGHS != 0 {
            return index * 8 + ((marks & HIGHS).trailing_zeros() / 8) as usize;
        }
    }
    let whole = words.len() * 8;
    let tail = bytes.get(whole..).unwrap_or(&[]);
    let plain = tail.iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f)).count();
    whole + plain
}

/// Reads the escape a text starts with: its character, or `None` for half a surrogate pair, and its
/// length.
fn read_escape(text: &str) -> Option<(Option<char>, usize)> {
    let character = match text.as_bytes().get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return read_unit_escape(text),
        _ => return None,
    };
    Some((Some(character), 2))
}

fn read_unit_escape(text: &str) -> Option<(Option<char>, usize)> {
    let unit = read_unit(text)?;
    if (0xd800..0xdc00).contains(&unit)
        && let Some(low @ 0xdc00..0xe000) = text.get(6..).and_then(read_unit)
    {
        let point = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        return Some((char::from_u32(point), 12));
    }
    Some((char::from_u32(unit), 6))
}

fn read_unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    // `from_str_radix` would take a sign.
    if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        u32::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}
