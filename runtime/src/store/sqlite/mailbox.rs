//! Work for one thread: a shared state, and the thread parked while there is nothing in it to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// What a thread and its owner share.
pub(super) struct Mailbox<S> {
    state: Mutex<S>,
    closing: AtomicBool,
}

impl<S> Mailbox<S> {
    pub fn lock(&self) -> MutexGuard<'_, S> {
        // The states are queues whose methods cannot panic between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `take` finds something; `None` once the owner is gone and there is nothing left.
    pub fn next<T>(&self, mut take: impl FnMut(&mut S) -> Option<T>) -> Option<T> {
        loop {
            // Read before looking: what was put in before the owner left is found after it.
            let is_closing = self.closing.load(Ordering::Acquire);
            if let Some(work) = take(&mut self.lock()) {
                return Some(work);
            }
            if is_closing {
                return None;
            }
            std::thread::park();
        }
    }
}

/// A named thread and its mailbox. Dropping it lets the thread finish what is there and waits for its end.
pub(super) struct Worker<S> {
    mailbox: Arc<Mailbox<S>>,
    thread: Option<JoinHandle<()>>,
}

impl<S: Send + 'static> Worker<S> {
    pub fn start(
        name: &str,
        state: S,
        work: impl FnOnce(&Mailbox<S>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let mailbox =
            Arc::new(Mailbox { state: Mutex::new(state), closing: AtomicBool::new(false) });
        let shared = Arc::clone(&mailbox);
        let thread =
            std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&shared))?;
        Ok(Self { mailbox, thread: Some(thread) })
    }
}

impl<S> Worker<S> {
    /// Changes the state and wakes the thread.
    pub fn put<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let result = change(&mut self.mailbox.lock());
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        result
    }
}

impl<S> Drop for Worker<S> {
    fn drop(&mut self) {
        self.mailbox.closing.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A thread that panicked has told its callers; there is nothing to add here.
            let _ = thread.join();
        }
    }
}
