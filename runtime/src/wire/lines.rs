//! Bytes to lines, over any cut of the bytes.
//!
//! A line that lies whole inside the given bytes is handed out where it lies; only the part of a
//! line that the bytes end in is copied. A line over the limit is skipped, but skimmed, for it may
//! be an answer.
use super::skim::{Outline, Skim};

/// Buffered capacity above this is given back once its line is done: one huge line must not cost
/// for ever.
const RETAINED_CAPACITY_MAX: usize = 8 * 1024;

/// What [`Lines::split`] found.
pub(super) enum Split<'a> {
    /// A line that lies whole in the given bytes.
    Borrowed { line: &'a [u8], rest: &'a [u8] },
    /// A line whose text [`Lines::take`] gives.
    Buffered { rest: &'a [u8] },
    /// No newline yet; everything is kept.
    Unfinished,
}

/// What [`Lines::take`] gives.
pub(super) enum Taken {
    /// A line without its newline.
    Kept(Vec<u8>),
    /// What is known of a line that was too long.
    Oversize { bytes: u64, outline: Outline },
}

/// The part of a line that has come so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Partial {
    Kept(Vec<u8>),
    Skipped { bytes: u64, skim: Box<Skim> },
}

/// The splitter. Invariant: what is kept holds no newline and at most `line_bytes_max` bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lines {
    line_bytes_max: usize,
    partial: Partial,
}

impl Lines {
    pub(super) fn new(line_bytes_max: usize) -> Self {
        Self { line_bytes_max, partial: Partial::Kept(Vec::new()) }
    }

    pub(super) fn limit(&self) -> usize {
        self.line_bytes_max
    }

    pub(super) fn buffered(&self) -> usize {
        match &self.partial {
            Partial::Kept(kept) => kept.len(),
            Partial::Skipped { .. } => 0,
        }
    }

    /// Takes the bytes up to and including the first newline, or all of them.
    pub(super) fn split<'a>(&mut self, bytes: &'a [u8]) -> Split<'a> {
        let Some(at) = memchr::memchr(b'\n', bytes) else {
            self.keep(bytes);
            return Split::Unfinished;
        };
        let (head, tail) = bytes.split_at(at);
        let rest = tail.get(1..).unwrap_or(&[]);
        let nothing_kept = matches!(&self.partial, Partial::Kept(kept) if kept.is_empty());
        if nothing_kept && head.len() <= self.line_bytes_max {
            return Split::Borrowed { line: head, rest };
        }
        self.keep(head);
        Split::Buffered { rest }
    }

    /// Takes what was buffered, and starts a new line.
    pub(super) fn take(&mut self) -> Taken {
        match std::mem::replace(&mut self.partial, Partial::Kept(Vec::new())) {
            Partial::Kept(kept) => Taken::Kept(kept),
            Partial::Skipped { bytes, skim } => Taken::Oversize { bytes, outline: skim.outline() },
        }
    }

    /// Gives a taken buffer back, so that the next partial line needs no allocation.
    pub(super) fn reuse(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        buffer.shrink_to(RETAINED_CAPACITY_MAX);
        self.partial = Partial::Kept(buffer);
    }

    fn keep(&mut self, bytes: &[u8]) {
        match &mut self.partial {
            Partial::Kept(kept) if kept.len() + bytes.len() <= self.line_bytes_max => {
                kept.extend_from_slice(bytes);
            }
            Partial::Kept(kept) => {
                let mut skim = Box::<Skim>::default();
                skim.feed(kept);
                skim.feed(bytes);
                let bytes = kept.len() as u64 + bytes.len() as u64;
                self.partial = Partial::Skipped { bytes, skim };
            }
            Partial::Skipped { bytes: skipped, skim } => {
                skim.feed(bytes);
                *skipped = skipped.saturating_add(bytes.len() as u64);
            }
        }
        debug_assert!(self.buffered() <= self.line_bytes_max, "a partial line is over its limit");
    }
}
