//! The canonical encoding of a state: what may differ between two states that behave the same is written relatively.
//!
//! A `serde` serializer (`serializer.rs`) that writes into a hash. It knows by name what is a time and what is an id:
//!
//! - monotonic times are written relative to now, and ages past every window that reads them are written as one;
//! - wall times are written by their rank among all of them and now, since they are only ever compared;
//! - sequence numbers are written by their rank as well: the next one is always higher than all there are;
//! - ids are written by the ordinal of their first appearance. A key that is joined of parts (rule 6.3.1) is taken apart
//!   again, so that its parts stay the ids they are elsewhere;
//! - all else, revisions and counters among it, is written as it is.
//!
//! But for these the encoding could be read back, given the types: equal encodings are states that are equal up to a
//! renaming of ids which keeps the order of every map, and a change of wall times and sequence numbers which keeps
//! theirs.

use std::hash::{Hash, Hasher};

use serde::ser::{Serialize, Serializer};

use super::serializer::Unwritable;
use crate::limits::{LATE_UPDATE_WINDOW_MS, STOP_GRACE_MS};
use crate::platform::Moment;

/// Wall times, by the name they are serialised under.
const WALL_TIMES: &[&str] = &[
    "at_ms",
    "completed_ms",
    "created_ms",
    "handed_over_ms",
    "observed_ms",
    "recorded_ms",
    "requested_ms",
    "resolved_ms",
    "started_ms",
    "statusStartedAt",
    "updatedAt",
    "updated_ms",
    "wall_ms",
];

/// Durations: written as they are.
const DURATIONS: &[&str] = &["eof_grace_ms", "kill_wait_ms", "term_grace_ms"];

/// Ids, by the name of their type.
pub(super) const IDS: &[&str] = &[
    "AgentSessionId",
    "CallId",
    "CallerId",
    "EpochId",
    "Generation",
    "ItemKey",
    "MessageId",
    "OperationId",
    "SessionId",
    "SpawnToken",
    "TurnKey",
];

/// How the value that is written next is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    AsIs,
    Id,
    Wall,
    /// A sequence number.
    Seq,
    /// Monotonic; ages past this many microseconds are one.
    Mono(u64),
}

pub(super) const AGE_US_MAX: u64 = STOP_GRACE_MS * 1_000;
const LATE_US_MAX: u64 = LATE_UPDATE_WINDOW_MS * 1_000;

/// How the value of a field is read.
fn reading_of(field: &str) -> Reading {
    debug_assert!(
        !field.ends_with("_ms") || WALL_TIMES.contains(&field) || DURATIONS.contains(&field),
        "{field} is listed as a wall time or as a duration"
    );
    known_reading(field)
}

/// The same for a name that may be no field's.
pub(super) fn known_reading(field: &str) -> Reading {
    match field {
        "fingerprint" | "settlement" | "settlements" => Reading::Id,
        // A turn's end: read by nothing but the window for what comes late.
        "ended" => Reading::Mono(LATE_US_MAX),
        // The queue is keyed by them, and the latest Stop comes with its own.
        "seq" | "queued" | "latest_stop" => Reading::Seq,
        _ if WALL_TIMES.contains(&field) => Reading::Wall,
        _ => Reading::AsIs,
    }
}

/// Two 64-bit lanes of multiply and fold.
#[derive(Clone, Copy)]
pub(super) struct Lanes(u64, u64);

impl Lanes {
    pub(super) fn new() -> Self {
        Self(0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344)
    }

    pub(super) fn word(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word, 0xa409_3822_299f_31d1).wrapping_add(0x082e_fa98_ec4e_6c89);
        self.1 = fold(self.1 ^ word.rotate_left(29), 0x4528_21e6_38d0_1377)
            .wrapping_add(0xbe54_66cf_34e9_0c6d);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(word));
        }
    }

    pub(super) fn value(self) -> u128 {
        u128::from(self.0) << 64 | u128::from(self.1)
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide >> 64) as u64 ^ wide as u64
}

impl Hasher for Lanes {
    fn write(&mut self, bytes: &[u8]) {
        self.bytes(bytes);
    }

    fn write_u64(&mut self, word: u64) {
        self.word(word);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.1
    }
}

/// What holds neither a time nor an id of the host's, and is no serde value.
pub(super) fn by_hash<T: Hash, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    let mut lanes = Lanes::new();
    value.hash(&mut lanes);
    to.serialize_u128(lanes.value())
}

/// Writes a state.
pub(super) struct Encoder {
    pub(super) lanes: Lanes,
    now: Moment,
    pub(super) reading: Reading,
    /// How the value of the key that is being written is read.
    pub(super) key: Option<Reading>,
    /// By the hash of its text, in the order of first appearance.
    ids: Vec<u128>,
    walls: Vec<u64>,
    seqs: Vec<u64>,
}

impl Encoder {
    pub(super) fn new(now: Moment) -> Self {
        let (ids, walls) = (Vec::with_capacity(32), Vec::with_capacity(64));
        Self {
            lanes: Lanes::new(),
            now,
            reading: Reading::AsIs,
            key: None,
            ids,
            walls,
            seqs: Vec::with_capacity(64),
        }
    }

    pub(super) fn put(&mut self, value: &impl Serialize) {
        let put = value.serialize(&mut *self);
        debug_assert!(put.is_ok(), "a state can always be written");
    }

    /// The hash of all that was put.
    pub(super) fn finish(mut self) -> u128 {
        // Whether a stored time is now or was before decides how it compares with what comes.
        self.walls.push(self.now.wall_ms);
        for numbers in [&self.walls, &self.seqs] {
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            sorted.dedup();
            for number in numbers {
                let rank = sorted.partition_point(|other| other < number);
                self.lanes.word(rank as u64);
            }
        }
        self.lanes.value()
    }

    pub(super) fn number(&mut self, number: u64) {
        match self.reading {
            Reading::AsIs => self.lanes.word(number),
            Reading::Id => {
                let mut lanes = Lanes::new();
                lanes.word(number);
                self.known(lanes.value());
            }
            Reading::Wall => self.walls.push(number),
            Reading::Seq => self.seqs.push(number),
            Reading::Mono(age_max) => {
                let now = self.now.mono.0;
                // Past and future do not meet: an age has the lowest bit set.
                let word = match number.checked_sub(now) {
                    Some(ahead) => ahead << 1,
                    None => (now - number).min(age_max) << 1 | 1,
                };
                self.lanes.word(word);
            }
        }
    }

    fn known(&mut self, id: u128) {
        let at = self.ids.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.ids.push(id);
            self.ids.len() - 1
        });
        self.lanes.word(at as u64);
    }

    /// One text is always written the same way, wherever it stands: keys by their parts, numbers as they are.
    pub(super) fn id(&mut self, text: &str) {
        if let Some((family, rest)) = text.split_once(':') {
            self.lanes.word(KEY);
            self.lanes.bytes(family.as_bytes());
            for part in rest.split(':') {
                self.part(part);
            }
            self.lanes.word(END);
            return;
        }
        if text.bytes().all(|b| b.is_ascii_digit()) {
            self.lanes.word(NUMBER);
            return self.lanes.bytes(text.as_bytes());
        }
        // One of several that a batch was split into (rule 6.5.4).
        if let Some((whole, number)) = text.rsplit_once('#') {
            self.lanes.word(NUMBERED);
            self.lanes.bytes(number.as_bytes());
            return self.id(whole);
        }
        self.lanes.word(ATOM);
        let mut lanes = Lanes::new();
        lanes.bytes(text.as_bytes());
        self.known(lanes.value());
    }

    fn part(&mut self, part: &str) {
        if !part.contains('%') {
            return self.id(part);
        }
        match decoded(part) {
            Some(text) => self.id(&text),
            None => {
                self.lanes.word(TEXT);
                self.lanes.bytes(part.as_bytes());
            }
        }
    }

    pub(super) fn field<T: ?Sized + Serialize>(
        &mut self,
        name: &str,
        value: &T,
    ) -> Result<(), Unwritable> {
        self.lanes.bytes(name.as_bytes());
        self.read_as(reading_of(name), value)
    }

    pub(super) fn read_as<T: ?Sized + Serialize>(
        &mut self,
        reading: Reading,
        value: &T,
    ) -> Result<(), Unwritable> {
        let before = std::mem::replace(&mut self.reading, reading);
        let written = value.serialize(&mut *self);
        self.reading = before;
        written
    }
}

const ATOM: u64 = 1;
pub(super) const PART: u64 = 7;
pub(super) const END: u64 = 2;
const KEY: u64 = 3;
const NUMBER: u64 = 4;
const NUMBERED: u64 = 5;
const TEXT: u64 = 6;

/// A part of a key without its percent signs.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = rest.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}
