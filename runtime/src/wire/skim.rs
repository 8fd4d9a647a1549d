//! Reading the outline of a frame that cannot be decoded.
//!
//! A line that is too long, nested too deep or broken may still be the answer to one of our
//! requests, and nothing may hang because of a shape. The skim walks the bytes of such a line one
//! by one, keeps nothing but the names of the outermost members and the id, and so works at any
//! length, in constant memory, over any cut of the bytes.

/// The longest id or name that is kept.
const TOKEN_BYTES_MAX: usize = 256;

/// The walk so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Skim {
    outline: Outline,
    depth: u64,
    place: Place,
    member: Member,
    in_string: bool,
    escaped: bool,
    token: Vec<u8>,
    token_cut: bool,
}

/// What the outermost object turned out to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Outline {
    /// The id as it was written.
    pub(super) id: Option<String>,
    pub(super) has_jsonrpc: bool,
    pub(super) has_method: bool,
    pub(super) has_answer: bool,
    /// The object ended.
    pub(super) closed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Place {
    /// Before the first byte that counts.
    #[default]
    Before,
    Name,
    Value,
    /// Past the object, or there never was one.
    Over,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Member {
    Id,
    #[default]
    Other,
}

impl Skim {
    /// The outline of a whole text.
    pub(super) fn whole(bytes: &[u8]) -> Outline {
        let mut skim = Self::default();
        skim.feed(bytes);
        skim.outline()
    }

    pub(super) fn outline(self) -> Outline {
        self.outline
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.place == Place::Over {
                return;
            }
            if self.in_string {
                self.string_byte(*byte);
            } else {
                self.structure_byte(*byte);
            }
        }
    }

    fn string_byte(&mut self, byte: u8) {
        if self.escaped {
            self.escaped = false;
        } else if byte == b'\\' {
            self.escaped = true;
        } else if byte == b'"' {
            self.in_string = false;
            if self.depth == 1 && self.place == Place::Name {
                self.end_name();
                return;
            }
        }
        self.keep(byte);
    }

    fn structure_byte(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            // A byte order mark.
            0xef | 0xbb | 0xbf if self.place == Place::Before => {}
            b'{' if self.place == Place::Before => {
                self.depth = 1;
                self.place = Place::Name;
            }
            _ if self.place == Place::Before => self.place = Place::Over,
            b'"' => {
                self.in_string = true;
                if self.place == Place::Value {
                    self.keep(byte);
                }
            }
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' if self.depth == 1 => {
                self.end_value();
                self.outline.closed = true;
                self.place = Place::Over;
            }
            b'}' | b']' => self.depth -= 1,
            b':' if self.depth == 1 => self.place = Place::Value,
            b',' if self.depth == 1 => {
                self.end_value();
                self.place = Place::Name;
            }
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        let wanted = match self.place {
            Place::Name => true,
            Place::Value => self.member == Member::Id,
            Place::Before | Place::Over => false,
        };
        if self.depth != 1 || !wanted {
            return;
        }
        if self.token.len() < TOKEN_BYTES_MAX {
            self.token.push(byte);
        } else {
            self.token_cut = true;
        }
    }

    fn end_name(&mut self) {
        let name = std::mem::take(&mut self.token);
        self.token_cut = false;
        self.member = if name == b"id" { Member::Id } else { Member::Other };
        match name.as_slice() {
            b"jsonrpc" => self.outline.has_jsonrpc = true,
            b"method" => self.outline.has_method = true,
            b"result" | b"error" => self.outline.has_answer = true,
            _ => {}
        }
    }

    fn end_value(&mut self) {
        let token = std::mem::take(&mut self.token);
        let whole = !std::mem::take(&mut self.token_cut);
        if self.place == Place::Value && self.member == Member::Id && whole {
            self.outline.id = String::from_utf8(token).ok();
        }
    }
}
