//! The store's model: same queue, same judgement, same reading back, and a disk that is a value.
//!
//! The simulator's store. [`MemoryDisk`] is what survives; a [`MemoryStore`] is one host's handle on it. What may go
//! wrong is asked of [`StoreFaults`]:
//!
//! - refused: nothing of the transaction is stored, each unit may come again;
//! - slow: `before_commit` takes its time, units queue up behind it and form the next transaction;
//! - acknowledged late: `before_answer` takes its time, the units are durable all the while;
//! - crash before or after the commit: the handle is dead, its futures never resolve, the disk can be opened again;
//! - closed for good.

mod disk;
mod faults;

pub use disk::{MemoryDisk, StoredText};
pub use faults::{CommitVerdict, NoFaults, StoreFaults};

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::{Notify, oneshot};

use super::group::{Answers, Fault, Outcome, Queue, Submitted};
use super::{Refusal, Store, StoreError, StoreImage, StoredRows, Unit};
use crate::ids::SessionId;
use crate::platform::BoxFuture;

type Reply = oneshot::Sender<Result<(), Refusal>>;

/// One host's handle on a [`MemoryDisk`].
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    disk: MemoryDisk,
    instance: u64,
    faults: Arc<dyn StoreFaults>,
    queue: Mutex<Queue<Reply>>,
    wake: Notify,
    closing: AtomicBool,
    dead: Arc<AtomicBool>,
}

impl MemoryStore {
    /// Opens the disk, and gives the writer that the caller must run as a task of the same simulated process; it ends
    /// once the store is dropped and everything submitted is answered. `holder` is what a refused second host reads.
    pub fn open(
        disk: &MemoryDisk,
        holder: &str,
        faults: Arc<dyn StoreFaults>,
    ) -> Result<(Self, BoxFuture<()>), StoreError> {
        let instance = disk.claim(holder)?;
        let shared = Arc::new(Shared {
            disk: disk.clone(),
            instance,
            faults,
            queue: Mutex::new(Queue::new()),
            wake: Notify::new(),
            closing: AtomicBool::new(false),
            dead: Arc::new(AtomicBool::new(false)),
        });
        let writer = Box::pin(run(Arc::clone(&shared)));
        Ok((Self { shared }, writer))
    }

    /// Its process died: nothing more is answered through it, and the disk may be opened again.
    pub fn die(&self) {
        self.shared.die();
    }

    /// The disk under it.
    pub fn disk(&self) -> &MemoryDisk {
        &self.shared.disk
    }

    async fn before_read(shared: &Shared) -> Result<(), StoreError> {
        shared.unless_dead().await;
        suspend_once().await;
        let verdict = shared.faults.before_read().await;
        shared.unless_dead().await;
        verdict
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.wake.notify_one();
    }
}

impl Store for MemoryStore {
    fn submit(&self, unit: Unit) -> BoxFuture<Result<(), Refusal>> {
        let dead = Arc::clone(&self.shared.dead);
        if dead.load(Ordering::Acquire) {
            return Box::pin(std::future::pending());
        }
        let (reply, answer) = oneshot::channel();
        let pushed = self.shared.queue().push(unit, reply);
        match pushed {
            Ok(()) => self.shared.wake.notify_one(),
            Err((reply, refusal)) => drop(reply.send(Err(refusal))),
        }
        Box::pin(Answer { answer, dead, early: None, suspended: false })
    }

    fn load(&self) -> BoxFuture<Result<StoreImage, StoreError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            Self::before_read(&shared).await?;
            Ok(shared.disk.image())
        })
    }

    fn rows(&self, session: SessionId) -> BoxFuture<Result<StoredRows, StoreError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            Self::before_read(&shared).await?;
            Ok(shared.disk.rows(&session))
        })
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue<Reply>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn unless_dead(&self) {
        if self.dead.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
    }

    fn die(&self) {
        self.dead.store(true, Ordering::Release);
        self.disk.release(self.instance);
    }

    /// Judges and stores a group in one step of the simulated time.
    fn commit(&self, group: &[Submitted<Reply>]) -> Vec<Outcome> {
        self.disk.write(self.instance, self.faults.as_ref(), group)
    }

    fn settle(&self, group: Vec<Submitted<Reply>>, outcomes: Vec<Outcome>) {
        // Answers go out after the lock is released: a woken task may submit at once.
        let answers: Answers<Reply> = self.queue().settle(group, outcomes);
        for (reply, answer) in answers {
            // A caller that is gone needs no answer.
            drop(reply.send(answer));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.disk.release(self.instance);
    }
}

async fn run(shared: Arc<Shared>) {
    loop {
        let group = shared.queue().take();
        if group.is_empty() {
            if shared.closing.load(Ordering::Acquire) {
                return;
            }
            shared.wake.notified().await;
            continue;
        }
        let verdict = {
            let units: Vec<&Unit> = group.iter().map(|s| &s.unit).collect();
            shared.faults.before_commit(&units)
        }
        .await;
        match verdict {
            CommitVerdict::Commit => {
                let outcomes = shared.commit(&group);
                shared.faults.before_answer().await;
                shared.settle(group, outcomes);
            }
            CommitVerdict::Refuse(reason) => {
                let refused = Fault::Retry(reason).outcome();
                let outcomes = vec![refused; group.len()];
                shared.settle(group, outcomes);
            }
            CommitVerdict::Close(reason) => {
                let closed = Fault::Closed(reason).outcome();
                let outcomes = vec![closed; group.len()];
                shared.settle(group, outcomes);
            }
            CommitVerdict::CrashBefore => return shared.die(),
            CommitVerdict::CrashAfter => {
                shared.commit(&group);
                return shared.die();
            }
        }
    }
}

/// The answer to a submit. It suspends at least once: an operation that completes without yielding is no scheduling
/// point.
struct Answer {
    answer: oneshot::Receiver<Result<(), Refusal>>,
    dead: Arc<AtomicBool>,
    early: Option<Result<(), Refusal>>,
    suspended: bool,
}

impl Future for Answer {
    type Output = Result<(), Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.dead.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        if let Some(answer) = self.early.take() {
            return Poll::Ready(answer);
        }
        let answer = match Pin::new(&mut self.answer).poll(cx) {
            Poll::Pending => {
                self.suspended = true;
                return Poll::Pending;
            }
            Poll::Ready(Ok(answer)) => answer,
            Poll::Ready(Err(_)) => Err(Refusal::Closed { reason: "its writer ended".to_owned() }),
        };
        if self.suspended {
            return Poll::Ready(answer);
        }
        self.suspended = true;
        self.early = Some(answer);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

async fn suspend_once() {
    let mut suspended = false;
    poll_fn(|cx| {
        if suspended {
            return Poll::Ready(());
        }
        suspended = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
