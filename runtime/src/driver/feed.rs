//! A bounded queue between the host and one subscriber.
//!
//! A slow subscriber costs nobody else anything: the producer never waits. When a queue is full, what it held is thrown
//! away and the feed is lagging; once its subscriber asks again, the producer gives it one fresh snapshot and it goes on
//! from there (rule 4.4.5). A subscriber that is dropped is found by the producer at its next frame.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

struct Inner<T> {
    frames: VecDeque<T>,
    frames_max: usize,
    lagging: bool,
    wanted: bool,
    ended: bool,
    dropped: bool,
    subscriber: Option<Waker>,
    producer: Option<Waker>,
}

/// The producer's end.
pub(super) struct Feed<T>(Arc<Mutex<Inner<T>>>);

/// The subscriber's end.
pub(super) struct Tap<T>(Arc<Mutex<Inner<T>>>);

/// A queue that holds at most `frames_max` frames.
pub(super) fn feed<T>(frames_max: usize) -> (Feed<T>, Tap<T>) {
    let inner = Arc::new(Mutex::new(Inner {
        frames: VecDeque::new(),
        frames_max: frames_max.max(1),
        lagging: false,
        wanted: false,
        ended: false,
        dropped: false,
        subscriber: None,
        producer: None,
    }));
    (Feed(Arc::clone(&inner)), Tap(inner))
}

/// Hands a frame to every feed, and lets go of those whose subscriber is gone: it costs no other its frame (rule 4.4.5).
/// `silences` is [`PlantedBug::GoneSubscriberSilencesTheRest`](crate::planted::PlantedBug).
pub(super) fn broadcast<T: Clone>(feeds: &mut Vec<Feed<T>>, frame: &T, silences: bool) {
    let mut is_silenced = false;
    feeds.retain(|feed| {
        let takes = (silences && is_silenced) || feed.push(frame.clone());
        is_silenced |= !takes;
        takes
    });
}

fn lock<T>(inner: &Mutex<Inner<T>>) -> MutexGuard<'_, Inner<T>> {
    // No code that can panic runs under this lock.
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Feed<T> {
    /// Hands over a frame; `false` once the subscriber is gone. A lagging feed takes none until its snapshot.
    pub(super) fn push(&self, frame: T) -> bool {
        let mut inner = lock(&self.0);
        if inner.dropped {
            return false;
        }
        if inner.lagging {
            return true;
        }
        if inner.frames.len() >= inner.frames_max {
            inner.frames.clear();
            inner.lagging = true;
        } else {
            inner.frames.push_back(frame);
        }
        // Woken even when it lags: it is to come and ask.
        wake(inner.subscriber.take(), inner);
        true
    }

    /// Hands over the whole anew, in place of everything that still waits.
    pub(super) fn push_snapshot(&self, frame: T) -> bool {
        {
            let mut inner = lock(&self.0);
            inner.frames.clear();
            inner.lagging = false;
            inner.wanted = false;
        }
        self.push(frame)
    }

    /// Whether nobody takes its frames any more.
    pub(super) fn is_dropped(&self) -> bool {
        lock(&self.0).dropped
    }

    /// Ready when a lagging subscriber has come to ask for a snapshot.
    pub(super) fn poll_wanted(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = lock(&self.0);
        if inner.wanted {
            return Poll::Ready(());
        }
        keep(&mut inner.producer, cx);
        Poll::Pending
    }
}

impl<T> Drop for Feed<T> {
    // However the producer ends, its subscriber is not left waiting.
    fn drop(&mut self) {
        let mut inner = lock(&self.0);
        inner.ended = true;
        wake(inner.subscriber.take(), inner);
    }
}

impl<T> Tap<T> {
    /// The next frame; `None` once the producer is gone and everything was taken.
    pub(super) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut inner = lock(&self.0);
        if let Some(frame) = inner.frames.pop_front() {
            return Poll::Ready(Some(frame));
        }
        if inner.ended {
            return Poll::Ready(None);
        }
        keep(&mut inner.subscriber, cx);
        if inner.lagging && !inner.wanted {
            inner.wanted = true;
            wake(inner.producer.take(), inner);
        }
        Poll::Pending
    }
}

impl<T> Drop for Tap<T> {
    fn drop(&mut self) {
        let mut inner = lock(&self.0);
        inner.dropped = true;
        inner.frames.clear();
    }
}

/// Most polls come by the same waker, which is then not cloned.
fn keep(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) => waker.clone_from(cx.waker()),
        none => *none = Some(cx.waker().clone()),
    }
}

/// Wakes once the lock is free: a waker may run its task at once.
fn wake<T>(waker: Option<Waker>, inner: MutexGuard<'_, Inner<T>>) {
    drop(inner);
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
#[path = "tests/feed.rs"]
mod tests;
