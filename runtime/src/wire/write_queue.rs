//! The account of what waits to be written to a child (decision D2).
//!
//! It holds no bytes and knows no task: the driver asks before it queues a frame and reports what
//! went out. A part is reserved for what must never wait behind a prompt: a cancel, and the replies
//! the agent is owed.
use super::encode::MAX_OUTBOUND_FRAME;

/// The whole queue.
pub const WRITE_QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The part of it that only cancels and replies may use.
pub const RESERVED_BYTES: usize = 64 * 1024;

// The longest legal frame must fit an empty queue beside the reserve, or it would wait for room for
// ever.
const _: () = assert!(MAX_OUTBOUND_FRAME <= WRITE_QUEUE_BYTES_MAX - RESERVED_BYTES);

/// What a frame is, as far as waiting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// `session/cancel`.
    Cancel,
    /// A reply to the agent.
    Reply,
    /// A request of ours; it can wait.
    Request,
}

/// Whether a frame may be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Admission {
    /// Counted: queue it now.
    Admitted,
    /// A cancel or reply found even the reserve full: the child does not read, and its transport
    /// counts as broken.
    ReserveFull,
    /// A request that has to wait for room, as a queued send does.
    WaitForRoom,
}

/// The account. Invariant: `queued <= WRITE_QUEUE_BYTES_MAX`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WriteQueue {
    queued: usize,
}

impl WriteQueue {
    /// Asks for room for a frame of at most [`MAX_OUTBOUND_FRAME`] bytes.
    pub fn admit(&mut self, kind: FrameKind, bytes: usize) -> Admission {
        debug_assert!(bytes <= MAX_OUTBOUND_FRAME, "the encoder refuses longer frames");
        let limit = match kind {
            FrameKind::Request => WRITE_QUEUE_BYTES_MAX - RESERVED_BYTES,
            FrameKind::Cancel | FrameKind::Reply => WRITE_QUEUE_BYTES_MAX,
        };
        let wanted = self.queued.saturating_add(bytes);
        if wanted <= limit {
            self.queued = wanted;
            return Admission::Admitted;
        }
        match kind {
            FrameKind::Request => Admission::WaitForRoom,
            FrameKind::Cancel | FrameKind::Reply => Admission::ReserveFull,
        }
    }

    /// Reports bytes that were written, whole frames or parts of one.
    pub fn written(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.queued, "more was written than was admitted");
        self.queued = self.queued.saturating_sub(bytes);
    }

    /// How many bytes wait.
    pub fn queued(&self) -> usize {
        self.queued
    }
}
