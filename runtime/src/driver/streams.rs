//! What subscribers hold: the watch of one session and the status stream of all.

use super::feed::Tap;
use crate::journal::{Batch, Snapshot};
use crate::status::StatusFrame;

/// One frame of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchFrame {
    /// The whole, in place of everything before: sent first, after the fence moved, and to a watcher that lagged.
    Snapshot(Snapshot),
    /// What one commit changed.
    Batch(Batch),
    /// Nothing more comes.
    End,
}

/// The timeline of one session as it becomes durable. Dropping it ends it.
pub struct Watch {
    tap: Tap<WatchFrame>,
    ended: bool,
}

/// The summaries of all sessions (rule 4.4.4): one `Snapshot`, then a `Status` for each change, at last an `End`. A
/// subscriber that lagged gets another `Snapshot`. Dropping it ends it.
pub struct StatusStream {
    tap: Tap<StatusFrame>,
    ended: bool,
}

impl Watch {
    pub(super) fn new(tap: Tap<WatchFrame>) -> Self {
        Self { tap, ended: false }
    }

    /// The next frame; `None` after the `End`. Cancel-safe.
    pub async fn next(&mut self) -> Option<WatchFrame> {
        next(&self.tap, &mut self.ended, WatchFrame::End).await
    }
}

impl StatusStream {
    pub(super) fn new(tap: Tap<StatusFrame>) -> Self {
        Self { tap, ended: false }
    }

    /// The next frame; `None` after the `End`. Cancel-safe.
    pub async fn next(&mut self) -> Option<StatusFrame> {
        next(&self.tap, &mut self.ended, StatusFrame::End).await
    }
}

/// However a producer ends, its subscriber reads exactly one end.
async fn next<T>(tap: &Tap<T>, ended: &mut bool, end: T) -> Option<T> {
    if *ended {
        return None;
    }
    let frame = std::future::poll_fn(|cx| tap.poll_next(cx)).await;
    *ended = frame.is_none();
    Some(frame.unwrap_or(end))
}
