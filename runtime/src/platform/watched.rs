//! A value that can be waited for. `tokio::sync::watch` wakes its waiters in an order drawn from a per-thread generator;
//! here they wake in the order they came.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

struct Inner<T> {
    value: T,
    next_waiter: u64,
    waiters: BTreeMap<u64, Waker>,
}

/// A shared value whose changes can be awaited.
pub struct Watched<T>(Arc<Mutex<Inner<T>>>);

impl<T> Clone for Watched<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone> Watched<T> {
    /// A watched `value`.
    pub fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(Inner { value, next_waiter: 0, waiters: BTreeMap::new() })))
    }

    /// The value now.
    pub fn get(&self) -> T {
        self.lock().value.clone()
    }

    /// Looks at the value now.
    pub fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock().value)
    }

    /// Changes the value and wakes every waiter, oldest first.
    pub fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let (result, waiters) = {
            let mut inner = self.lock();
            (change(&mut inner.value), std::mem::take(&mut inner.waiters))
        };
        for waker in waiters.into_values() {
            waker.wake();
        }
        result
    }

    /// The first value for which `holds` is true. Cancel-safe.
    pub async fn wait_for(&self, mut holds: impl FnMut(&T) -> bool) -> T {
        self.seen(|value| holds(value).then(|| value.clone())).await
    }

    /// Resolves once `holds` is true. Cancel-safe.
    pub async fn until(&self, mut holds: impl FnMut(&T) -> bool) {
        self.seen(|value| holds(value).then_some(())).await;
    }

    async fn seen<R>(&self, mut look: impl FnMut(&T) -> Option<R>) -> R {
        let mut slot = Slot { watched: self, id: None };
        poll_fn(|cx| {
            let mut inner = self.lock();
            if let Some(found) = look(&inner.value) {
                return Poll::Ready(found);
            }
            let id = *slot.id.get_or_insert_with(|| {
                inner.next_waiter += 1;
                inner.next_waiter
            });
            inner.waiters.insert(id, cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl<T> Watched<T> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner<T>> {
        // A panic under this lock cannot leave the value torn: `update` is the only writer.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Slot<'a, T> {
    watched: &'a Watched<T>,
    id: Option<u64>,
}

impl<T> Drop for Slot<'_, T> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.watched.lock().waiters.remove(&id);
        }
    }
}
