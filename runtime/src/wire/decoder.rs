//! The decoder: bytes in, events out, in the order of the wire.
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;

use super::envelope::{self, INVALID_REQUEST};
use super::event::{Event, NoiseKind};
use super::findings::{Defect, Findings, Quirk, Quirks};
use super::hot;
use super::json::{Cursor, Fault, View, repair_surrogates};
use super::lines::{Lines, Split, Taken};
use super::skim::Skim;

/// The longest line read by default (decision D2).
pub const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How much noise is kept for diagnostics by default.
pub const NOISE_TAIL_BYTES_MAX: usize = 16 * 1024;
/// How much of one noise line is kept.
pub const NOISE_LINE_BYTES_MAX: usize = 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The decoder's bounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The longest line that is read, without its newline; longer ones are skipped and reported
    /// once.
    pub line_bytes_max: usize,
    /// How many bytes of noise are kept for diagnostics.
    pub noise_tail: usize,
}

/// Reads one child's stdout.
///
/// Bytes go in with [`push`](Self::push), in any cut, and [`finish`](Self::finish) says that no
/// more come. Events go to the sink in the order of the bytes; any cut gives the same events and
/// leaves the same decoder. It holds no clock and does no I/O, and nothing a peer sends can make it
/// fail.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Decoder {
    lines: Lines,
    frames: u64,
    quirks: Quirks,
    noise: NoiseTail,
}

/// The last noise of a child, oldest line first. Invariant: `bytes` is the sum of the lines and
/// within the limit.
#[derive(Clone, PartialEq, Eq, Hash)]
struct NoiseTail {
    limit: usize,
    bytes: usize,
    lines: VecDeque<Box<[u8]>>,
}

/// What ended the text that is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    EndOfStream,
    Newline,
}

type NumberedSink<'s> = dyn FnMut(u64, Event<'_>) + 's;

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes_max: LINE_BYTES_MAX, noise_tail: NOISE_TAIL_BYTES_MAX }
    }
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new(limits: Limits) -> Self {
        Self {
            lines: Lines::new(limits.line_bytes_max),
            frames: 0,
            quirks: Quirks::default(),
            noise: NoiseTail { limit: limits.noise_tail, bytes: 0, lines: VecDeque::new() },
        }
    }

    /// Reads bytes and hands over what they complete.
    pub fn push(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Event<'_>)) {
        self.push_numbered(bytes, &mut |_, event| sink(event));
    }

    /// Like [`push`](Self::push), with each event's wire sequence number: the frame it came with,
    /// counted from 1.
    pub fn push_numbered(&mut self, bytes: &[u8], sink: &mut dyn FnMut(u64, Event<'_>)) {
        let mut rest = bytes;
        loop {
            rest = match self.lines.split(rest) {
                Split::Borrowed { line, rest } => {
                    self.read_line(line, Ending::Newline, sink);
                    rest
                }
                Split::Buffered { rest } => {
                    self.read_buffered(Ending::Newline, sink);
                    rest
                }
                Split::Unfinished => return,
            };
        }
    }

    /// Reads what is left of a stream that has ended: a last line without its newline.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        self.finish_numbered(&mut |_, event| sink(event));
    }

    /// Like [`finish`](Self::finish), with each event's wire sequence number.
    pub fn finish_numbered(&mut self, sink: &mut dyn FnMut(u64, Event<'_>)) {
        self.read_buffered(Ending::EndOfStream, sink);
    }

    /// How many frames have been read, noise and refused lines included. While an event is handed
    /// over this is its frame's number, so "after the response" is a comparison of two numbers.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Which tolerances the peer needed, and how often.
    pub fn quirks(&self) -> &Quirks {
        &self.quirks
    }

    /// Adds what a later look at an answer noticed (see [`super::answer`]) to the quirk report.
    pub fn absorb(&mut self, quirks: &Quirks) {
        self.quirks.absorb(quirks);
    }

    /// The last bytes that were no frame, for a person's diagnosis: whole or cut lines, oldest
    /// first.
    pub fn noise_tail(&self) -> impl Iterator<Item = &[u8]> {
        self.noise.lines.iter().map(AsRef::as_ref)
    }

    /// How many bytes of an unfinished line are held.
    pub fn buffered(&self) -> usize {
        self.lines.buffered()
    }

    fn read_buffered(&mut self, ending: Ending, sink: &mut NumberedSink<'_>) {
        match self.lines.take() {
            Taken::Kept(line) => {
                if !line.is_empty() || ending == Ending::Newline {
                    self.read_line(&line, ending, sink);
                }
                self.lines.reuse(line);
            }
            Taken::Oversize { bytes, outline } => {
                self.frames += 1;
                let limit = self.lines.limit();
                sink(self.frames, Event::Defect(Defect::OversizeLine { bytes, limit }));
                if ending == Ending::EndOfStream && !outline.closed {
                    // Half an answer is no answer; the end of the child settles the request.
                    return;
                }
                if let Some(event) = envelope::salvage(&outline, INVALID_REQUEST) {
                    sink(self.frames, event);
                }
            }
        }
    }

    fn read_line(&mut self, line: &[u8], ending: Ending, sink: &mut NumberedSink<'_>) {
        let line = self.trim(line, ending);
        let mut findings = Findings::default();
        let text = match str::from_utf8(line) {
            Ok(text) => {
                if let Some(chunk) = hot::text_chunk(text) {
                    self.frames += 1;
                    sink(self.frames, chunk.into_event());
                    return;
                }
                Cow::Borrowed(text)
            }
            Err(_) => {
                findings.defect(Defect::InvalidUtf8);
                String::from_utf8_lossy(line)
            }
        };
        self.read_text(&text, findings, ending, sink);
    }

    fn trim<'a>(&mut self, line: &'a [u8], ending: Ending) -> &'a [u8] {
        let mut line = line;
        if ending == Ending::EndOfStream {
            self.quirks.record(Quirk::LastLineUnterminated);
        }
        if let Some(shorter) = line.strip_suffix(b"\r") {
            self.quirks.record(Quirk::CarriageReturn);
            line = shorter;
        }
        if let Some(shorter) = line.strip_prefix(BYTE_ORDER_MARK) {
            self.quirks.record(Quirk::ByteOrderMark);
            line = shorter;
        }
        line
    }

    /// Reads the frames of one line: as a rule one; objects joined on one line are a frame each.
    fn read_text(
        &mut self,
        text: &str,
        mut findings: Findings,
        ending: Ending,
        sink: &mut NumberedSink<'_>,
    ) {
        let mut rest = text;
        let mut joined = false;
        loop {
            rest = rest.trim_start_matches([' ', '\t', '\r']);
            if rest.is_empty() && joined {
                return;
            }
            if joined {
                findings.quirk(Quirk::JoinedFrames);
            }
            self.frames += 1;
            let read = self.read_frame(rest, std::mem::take(&mut findings), ending, sink);
            rest = rest.get(read..).unwrap_or("");
            joined = true;
        }
    }

    /// Reads the frame a text begins with and returns how much of the text it was. What is no frame
    /// takes all.
    fn read_frame(
        &mut self,
        text: &str,
        mut findings: Findings,
        ending: Ending,
        sink: &mut NumberedSink<'_>,
    ) -> usize {
        if !text.starts_with('{') {
            self.read_non_object(text, findings, sink);
            return text.len();
        }
        let mut cursor = Cursor::new(text);
        match envelope::read(&mut cursor, &mut findings) {
            Ok(_) if cursor.lone_surrogate => {
                // Rare enough to read once more: from here on every text is one that any parser
                // takes.
                findings.quirks = Quirks::default();
                findings.quirk(Quirk::LoneSurrogate);
                let read = text.len() - cursor.rest().len();
                let repaired = repair_surrogates(text.get(..read).unwrap_or(""));
                self.read_frame(&repaired, findings, ending, sink);
                read
            }
            Ok(frame) => {
                let read = text.len() - cursor.rest().len();
                if frame.has_shape() {
                    let event = frame.event(&mut findings);
                    self.settle(findings, event, sink);
                } else {
                    self.settle(Findings { quirks: Quirks::default(), ..findings }, None, sink);
                    let bytes = text.as_bytes().get(..read).unwrap_or(&[]);
                    self.noise(NoiseKind::NoEnvelope, bytes, sink);
                }
                read
            }
            Err(fault) => {
                self.read_broken(text, fault, findings, ending, sink);
                text.len()
            }
        }
    }

    fn read_broken(
        &mut self,
        text: &str,
        fault: Fault,
        findings: Findings,
        ending: Ending,
        sink: &mut NumberedSink<'_>,
    ) {
        let outline = Skim::whole(text.as_bytes());
        let mut findings = Findings { quirks: Quirks::default(), ..findings };
        if ending == Ending::EndOfStream && !outline.closed {
            // Half an answer is no answer, here too.
            findings.defect(Defect::TruncatedFrame { bytes: text.len() });
            self.noise.keep(text.as_bytes());
            return self.settle(findings, None, sink);
        }
        let defect = envelope::defect_of(fault, &outline, text.len());
        let mut salvaged = envelope::salvage(&outline, INVALID_REQUEST);
        if fault == Fault::Malformed && matches!(salvaged, Some(Event::InvalidRequest { .. })) {
            // Nothing is written to the agent because of noise: only an answer counts here.
            salvaged = None;
        }
        let defect = match (defect, &salvaged) {
            (None, Some(_)) => Some(Defect::BrokenFrame { bytes: text.len() }),
            (defect, _) => defect,
        };
        match defect {
            Some(defect) => {
                findings.defect(defect);
                self.noise.keep(text.as_bytes());
                self.settle(findings, salvaged, sink);
            }
            None => {
                self.settle(findings, None, sink);
                self.noise(NoiseKind::NotJson, text.as_bytes(), sink);
            }
        }
    }

    fn read_non_object(&mut self, text: &str, findings: Findings, sink: &mut NumberedSink<'_>) {
        self.settle(findings, None, sink);
        let kind = match View::parse(text) {
            _ if text.is_empty() => NoiseKind::Blank,
            Ok(view) if view.elements().any(View::is_object) => {
                return self.read_batch(view, text, sink);
            }
            Ok(_) => NoiseKind::NoObject,
            Err(Fault::TooDeep) => {
                self.noise.keep(text.as_bytes());
                let limit = super::json::NESTING_MAX;
                return sink(self.frames, Event::Defect(Defect::NestingTooDeep { limit }));
            }
            Err(Fault::Malformed) => NoiseKind::NotJson,
        };
        self.noise(kind, text.as_bytes(), sink);
    }

    /// A batch is refused, but what waits inside it is not left waiting.
    fn read_batch(&mut self, batch: View<'_>, text: &str, sink: &mut NumberedSink<'_>) {
        self.noise.keep(text.as_bytes());
        let frames = batch.elements().count();
        sink(self.frames, Event::Defect(Defect::Batch { frames }));
        for element in batch.elements() {
            let outline = Skim::whole(element.token().as_bytes());
            if let Some(event) = envelope::salvage(&outline, INVALID_REQUEST) {
                sink(self.frames, event);
            }
        }
    }

    /// Hands over a frame's defects, then the frame.
    fn settle(
        &mut self,
        findings: Findings,
        event: Option<Event<'_>>,
        sink: &mut NumberedSink<'_>,
    ) {
        self.quirks.absorb(&findings.quirks);
        for defect in findings.defects {
            sink(self.frames, Event::Defect(defect));
        }
        if let Some(event) = event {
            sink(self.frames, event);
        }
    }

    fn noise(&mut self, kind: NoiseKind, bytes: &[u8], sink: &mut NumberedSink<'_>) {
        self.noise.keep(bytes);
        sink(self.frames, Event::Noise { kind, bytes: Cow::Borrowed(bytes) });
    }
}

impl NoiseTail {
    fn keep(&mut self, line: &[u8]) {
        let line = line.get(..NOISE_LINE_BYTES_MAX.min(self.limit)).unwrap_or(line);
        if line.is_empty() {
            return;
        }
        self.lines.push_back(line.into());
        self.bytes += line.len();
        while self.bytes > self.limit {
            let dropped = self.lines.pop_front().map_or(0, |dropped| dropped.len());
            self.bytes -= dropped;
        }
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("frames", &self.frames)
            .field("buffered", &self.buffered())
            .field("quirks", &self.quirks)
            .field("noise_bytes", &self.noise.bytes)
            .finish_non_exhaustive()
    }
}
