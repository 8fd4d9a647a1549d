//! Tasks on any executor: a result that can be awaited, an abort, and a panic that is caught and told.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::{mpsc, oneshot};

use super::Platform;

/// Why a task has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// It was aborted, or its executor is gone.
    #[error("the task {0} was ended before it finished")]
    Aborted(&'static str),
    /// It panicked: a fault of our own.
    #[error("the task {0} panicked: {1}")]
    Panicked(&'static str, String),
}

#[derive(Default)]
struct Abort {
    asked: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// Ends a task at its next step.
#[derive(Clone, Default)]
pub struct AbortHandle(Arc<Abort>);

impl AbortHandle {
    /// The task is dropped at its next step; what it awaited is dropped with it.
    pub fn abort(&self) {
        self.0.asked.store(true, Ordering::Release);
        let waker = self.0.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A running task. Dropping it lets the task run on.
pub struct Task<T> {
    name: &'static str,
    result: oneshot::Receiver<Result<T, TaskError>>,
    abort: AbortHandle,
}

impl<T> Task<T> {
    /// Ends the task from elsewhere.
    pub fn abort_handle(&self) -> AbortHandle {
        self.abort.clone()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let name = self.name;
        Pin::new(&mut self.result).poll(cx).map(|r| r.unwrap_or(Err(TaskError::Aborted(name))))
    }
}

/// Starts a named task.
pub fn spawn<F>(platform: &dyn Platform, name: &'static str, future: F) -> Task<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (sender, result) = oneshot::channel();
    let abort = AbortHandle::default();
    let guarded = Guarded { name, future: Some(Box::pin(future)), abort: abort.clone() };
    platform.spawn_task(
        name,
        Box::pin(async move {
            let _ = sender.send(guarded.await);
        }),
    );
    Task { name, result, abort }
}

struct Guarded<F: Future> {
    name: &'static str,
    future: Option<Pin<Box<F>>>,
    abort: AbortHandle,
}

impl<F: Future> Future for Guarded<F> {
    type Output = Result<F::Output, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let name = self.name;
        match &mut *self.abort.0.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            // Most polls come by the same waker, which is then not cloned.
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        if self.abort.0.asked.load(Ordering::Acquire) {
            self.future = None;
            return Poll::Ready(Err(TaskError::Aborted(name)));
        }
        let Some(future) = self.future.as_mut() else {
            return Poll::Ready(Err(TaskError::Aborted(name)));
        };
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => {
                self.future = None;
                Poll::Ready(Ok(value))
            }
            Err(panic) => {
                self.future = None;
                let words = panic
                    .downcast_ref::<&str>()
                    .map(|s| (*s).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_else(|| "no words".to_owned());
                Poll::Ready(Err(TaskError::Panicked(name, words)))
            }
        }
    }
}

/// A set of tasks: results in the order they end, everything aborted on drop.
pub struct Tasks<T> {
    sender: mpsc::UnboundedSender<(u64, Result<T, TaskError>)>,
    results: mpsc::UnboundedReceiver<(u64, Result<T, TaskError>)>,
    live: BTreeMap<u64, AbortHandle>,
    next: u64,
}

impl<T: Send + 'static> Default for Tasks<T> {
    fn default() -> Self {
        let (sender, results) = mpsc::unbounded_channel();
        Self { sender, results, live: BTreeMap::new(), next: 0 }
    }
}

impl<T: Send + 'static> Tasks<T> {
    /// Starts a task of the set and names it by a number.
    pub fn spawn(
        &mut self,
        platform: &dyn Platform,
        name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> u64 {
        self.next += 1;
        let (id, sender) = (self.next, self.sender.clone());
        let abort = AbortHandle::default();
        let guarded = Guarded { name, future: Some(Box::pin(future)), abort: abort.clone() };
        platform.spawn_task(
            name,
            Box::pin(async move {
                let _ = sender.send((id, guarded.await));
            }),
        );
        self.live.insert(id, abort);
        id
    }

    /// The next result, `None` when no task is left. Cancel-safe.
    pub async fn join_next(&mut self) -> Option<(u64, Result<T, TaskError>)> {
        if self.live.is_empty() {
            return None;
        }
        let (id, result) = self.results.recv().await?;
        self.live.remove(&id);
        Some((id, result))
    }

    /// How many are running.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether none is running.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }
}

impl<T> Drop for Tasks<T> {
    fn drop(&mut self) {
        for abort in self.live.values() {
            abort.abort();
        }
    }
}
