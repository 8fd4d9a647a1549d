//! Streamed text: coalesced, stored as rows that place it at its offset (decision D31).

use super::append::Draft;
use super::machine::Session;
use super::timers::Timer;
use crate::coverage::CoverageMark;
use crate::digest::RunningDigest;
use crate::ids::{ItemKey, TurnKey, key};
use crate::journal::{Cut, ItemBody, ItemRow, MessageBody, Role, RowKind, StreamedText};
use crate::limits::{
    LADDER_BUFFER_BYTES_MAX, TEXT_COALESCE_MS, TEXT_ITEM_BYTES_MAX, TEXT_ROW_BYTES_MAX,
};
use crate::platform::Moment;

/// The text item that is growing.
#[derive(Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct OpenText {
    item: ItemKey,
    role: Role,
    scope: Option<TurnKey>,
    /// The agent's own id of the message, where it gives one.
    message: Option<String>,
    late: bool,
    /// Bytes that are planned already.
    placed: usize,
    /// Bytes that wait.
    waiting: String,
    /// Bytes of the whole text, kept or not.
    whole: u64,
    #[serde(serialize_with = "super::digest::by_text")]
    digest: RunningDigest,
    /// The bound was reached.
    full: bool,
}

/// A piece of streamed text.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) role: Role,
    pub(super) message: Option<&'a str>,
    pub(super) text: &'a str,
}

impl std::fmt::Debug for OpenText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenText({}, {} placed, {} waiting)", self.item, self.placed, self.waiting.len())
    }
}

impl Session {
    /// More text of `role` in the turn `scope`.
    pub(super) fn stream_text(
        &mut self,
        now: Moment,
        piece: &Piece<'_>,
        scope: &TurnKey,
        late: bool,
    ) {
        let Piece { role, message, text } = *piece;
        if text.is_empty() {
            return;
        }
        if self.appends.bytes() > LADDER_BUFFER_BYTES_MAX {
            self.discarded += 1;
            return;
        }
        let same = self.text.as_ref().is_some_and(|t| {
            t.role == role
                && t.late == late
                && t.scope.as_ref() == Some(scope)
                && t.message.as_deref() == message
        });
        if !same {
            self.close_text(now);
            self.texts_made += 1;
            let fence = self.record.lease.fence.to_string();
            let item = ItemKey(key(&["text", &fence, &self.texts_made.to_string()]));
            self.text = Some(OpenText {
                item,
                role,
                scope: Some(scope.clone()),
                message: message.map(str::to_owned),
                late,
                placed: 0,
                waiting: String::new(),
                whole: 0,
                digest: RunningDigest::default(),
                full: false,
            });
        }
        let Some(open) = self.text.as_mut() else {
            return;
        };
        open.waiting.push_str(text);
        if open.waiting.len() >= TEXT_ROW_BYTES_MAX {
            self.sometimes(CoverageMark::TextBySize);
            self.flush_text(now);
        } else if !self.timers.is_armed(Timer::TextFlush) {
            self.timers.arm(Timer::TextFlush, now.mono.plus_ms(TEXT_COALESCE_MS));
        }
    }

    /// No more text joins the growing item. A text that was cut is told its length and digest now.
    pub(super) fn close_text(&mut self, now: Moment) {
        self.flush_text(now);
        let Some(open) = self.text.take() else {
            return;
        };
        if open.whole > open.placed as u64 {
            let cut = Cut { bytes: open.whole, sha256: Some(open.digest.hex()) };
            let row = RowKind::Text {
                revision: self.plan.next_revision(&open.item),
                item: open.item,
                at: open.placed as u64,
                text: StreamedText::default(),
                cut: Some(cut),
            };
            self.plan_without_flush(now, Draft::rows(vec![row]));
        }
    }

    /// Plans what waits. Comes before any other row of the session, so that order is the order of the wire.
    pub(super) fn flush_text(&mut self, now: Moment) {
        self.timers.clear(Timer::TextFlush);
        let Some(open) = self.text.as_mut() else {
            return;
        };
        if open.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut open.waiting);
        open.whole += waiting.len() as u64;
        open.digest.update(waiting.as_bytes());
        let mut rows = Vec::new();
        let mut revision = self.plan.next_revision(&open.item);
        let mut rest = waiting.as_str();
        loop {
            let room = if open.full { 0 } else { TEXT_ITEM_BYTES_MAX - open.placed };
            let piece = head(rest, TEXT_ROW_BYTES_MAX.min(room));
            if piece.is_empty() {
                break;
            }
            rows.push(open.row(revision, piece));
            open.placed += piece.len();
            revision += 1;
            rest = &rest[piece.len()..];
        }
        if !rest.is_empty() {
            // Kept whole up to its bound, then cut: no later piece may slip in behind the gap (decision D31).
            open.full = true;
        }
        if !rows.is_empty() {
            self.plan_without_flush(now, Draft::rows(rows));
        }
    }
}

impl OpenText {
    fn row(&self, revision: u64, piece: &str) -> RowKind {
        if self.placed > 0 {
            return RowKind::Text {
                item: self.item.clone(),
                revision,
                at: self.placed as u64,
                text: StreamedText(piece.to_owned()),
                cut: None,
            };
        }
        let body =
            MessageBody { role: self.role, text: piece.to_owned(), cut: None, late: self.late };
        RowKind::Item(ItemRow {
            item: self.item.clone(),
            revision,
            scope: self.scope.clone(),
            body: ItemBody::Message(body),
        })
    }
}

/// The longest start of `text` that has at most `bytes` and ends between characters.
fn head(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
