//! What happened in a run: a running hash always, the lines on demand.
//!
//! Two runs of one seed must agree in every event and its virtual time; the first line in which they do not is where
//! something outside the seed got in.

use std::fmt::{self, Write};

use moored::platform::Mono;

/// One observed event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// When, in virtual time.
    pub at: Mono,
    /// What, by a fixed name.
    pub what: &'static str,
    /// Who and how.
    pub detail: String,
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, us) = (self.at.0 / 1_000, self.at.0 % 1_000);
        write!(f, "{ms:>8}.{us:03} {} {}", self.what, self.detail)
    }
}

/// How much of a run is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Every line, and each step of the scheduler as a line of its own. The hashes do not cover the steps.
    Steps,
    /// Every line.
    Lines,
    /// The hashes alone.
    #[default]
    Hashes,
}

/// The trace of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    keep: Keep,
    /// Over every event and its virtual time.
    hash: u64,
    /// Over every event without its time: the order alone.
    order: u64,
    events: u64,
    lines: Vec<TraceLine>,
}

/// FNV-1a: the same on every machine, and a write per byte is all a line costs.
struct Fnv(u64);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

impl Trace {
    /// An empty trace.
    pub const fn new(keep: Keep) -> Self {
        Self { keep, hash: FNV_BASIS, order: FNV_BASIS, events: 0, lines: Vec::new() }
    }

    /// Notes an event.
    pub fn note(&mut self, at: Mono, what: &'static str, detail: fmt::Arguments<'_>) {
        self.events += 1;
        let mut order = Fnv(self.order);
        order.bytes(what.as_bytes());
        order.bytes(&[0xff]);
        // Writing into a hash cannot fail; a `Display` that fails leaves a shorter detail.
        let _ = order.write_fmt(detail);
        order.bytes(&[0xfe]);
        self.order = order.0;
        let mut hash = Fnv(self.hash);
        hash.bytes(&self.order.to_le_bytes());
        hash.bytes(&at.0.to_le_bytes());
        self.hash = hash.0;
        if self.keep != Keep::Hashes {
            self.lines.push(TraceLine { at, what, detail: detail.to_string() });
        }
    }

    /// Notes a step of the scheduler, if steps are kept.
    pub fn note_step(&mut self, at: Mono, task: &'static str, id: u32) {
        if self.keep == Keep::Steps {
            self.lines.push(TraceLine { at, what: "step", detail: format!("{task}#{id}") });
        }
    }

    /// The running hash over every event and its virtual time.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The running hash over the order of events, whatever their times.
    pub const fn order_hash(&self) -> u64 {
        self.order
    }

    /// How many events there were.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// The kept lines.
    pub fn lines(&self) -> &[TraceLine] {
        &self.lines
    }

    /// The first place where two kept traces differ.
    pub fn divergence(&self, other: &Self) -> Option<Divergence> {
        let longest = self.lines.len().max(other.lines.len());
        let at = (0..longest).find(|i| self.lines.get(*i) != other.lines.get(*i))?;
        Some(Divergence {
            at,
            left: self.lines.get(at).cloned(),
            right: other.lines.get(at).cloned(),
        })
    }
}

/// Where two traces part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The number of the line, from 0.
    pub at: usize,
    /// The line of the one, `None` if it had ended.
    pub left: Option<TraceLine>,
    /// The line of the other.
    pub right: Option<TraceLine>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |line: &Option<TraceLine>| {
            line.as_ref().map_or_else(|| "(ended)".to_owned(), ToString::to_string)
        };
        write!(f, "line {}: {} / {}", self.at, line(&self.left), line(&self.right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(events: &[(u64, &'static str)]) -> Trace {
        let mut trace = Trace::new(Keep::Lines);
        for (at, what) in events {
            trace.note(Mono(*at), what, format_args!("one"));
        }
        trace
    }

    #[test]
    fn the_hash_covers_time_and_the_order_hash_does_not() {
        let (early, late) = (trace(&[(1, "a"), (2, "b")]), trace(&[(1, "a"), (3, "b")]));
        assert_ne!(early.hash(), late.hash());
        assert_eq!(early.order_hash(), late.order_hash());
        assert_ne!(early.order_hash(), trace(&[(1, "b"), (2, "a")]).order_hash());
    }

    #[test]
    fn the_first_divergence_shows_both_lines() {
        let (left, right) = (trace(&[(1, "a"), (2_500, "b")]), trace(&[(1, "a")]));
        let divergence = left.divergence(&right).expect("one trace is longer");
        assert_eq!(divergence.to_string(), "line 1:        2.500 b one / (ended)");
        assert_eq!(left.divergence(&left), None);
    }

    #[test]
    fn keeping_lines_does_not_change_the_hash() {
        let mut hashes = Trace::new(Keep::Hashes);
        hashes.note(Mono(1), "a", format_args!("one"));
        assert_eq!(hashes.hash(), trace(&[(1, "a")]).hash());
        assert!(hashes.lines().is_empty());
    }
}
