//! Standard input as lines.

/// The longest line an agent reads; a longer one is skipped to its end.
pub const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes in, lines out.
#[derive(Default)]
pub(super) struct Lines {
    /// What was read and not taken yet; `scanned` bytes of it hold no newline.
    buffer: Vec<u8>,
    scanned: usize,
    /// The line at the front is over the limit: its rest is thrown away.
    skipping: bool,
    ended: bool,
}

impl Lines {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        debug_assert!(!self.ended, "no bytes come after the end of the input");
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the input is at its end and every line of it is taken.
    pub(super) fn is_over(&self) -> bool {
        self.ended && self.buffer.is_empty()
    }

    /// The next line without its newline. A last line without one counts once the input has ended.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let newline = self.buffer[self.scanned..].iter().position(|b| *b == b'\n');
            let Some(offset) = newline else {
                self.scanned = self.buffer.len();
                if self.scanned > LINE_BYTES_MAX {
                    self.skipping = true;
                }
                if self.skipping {
                    self.forget(self.scanned);
                }
                if !self.ended || self.buffer.is_empty() {
                    return None;
                }
                self.scanned = 0;
                return Some(std::mem::take(&mut self.buffer));
            };
            let end = self.scanned + offset;
            if self.skipping || end > LINE_BYTES_MAX {
                self.skipping = false;
                self.forget(end + 1);
                continue;
            }
            let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
            line.pop();
            self.scanned = 0;
            return Some(line);
        }
    }

    fn forget(&mut self, count: usize) {
        self.buffer.drain(..count);
        self.scanned = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_over_the_limit_is_skipped_and_the_next_one_is_read() {
        let mut lines = Lines::default();
        for _ in 0..=LINE_BYTES_MAX / (1 << 20) {
            lines.push(&vec![b'x'; 1 << 20]);
            assert_eq!(lines.next(), None);
        }
        assert!(lines.buffer.is_empty(), "what is skipped is not kept");
        lines.push(b"the rest\nnext\nlast");
        assert_eq!(lines.next().as_deref(), Some(&b"next"[..]));
        assert_eq!(lines.next(), None);
        lines.end();
        assert_eq!(lines.next().as_deref(), Some(&b"last"[..]));
        assert!(lines.is_over());
    }
}
