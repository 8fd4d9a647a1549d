//! Faults of the model that SQLite cannot be made to show on demand: the simulator's scenarios rest on them.

mod store_support;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use moored::ids::Fence;
use moored::platform::BoxFuture;
use moored::store::memory::{CommitVerdict, MemoryDisk, MemoryStore, NoFaults, StoreFaults};
use moored::store::{QUEUED_UNITS_MAX, Refusal, RetryReason, Store, StoreError, Unit};
use store_support::*;
use tokio::sync::Semaphore;

/// Plays verdicts in order, then commits; a transaction and an answer each wait for a permit of their gate.
struct Script {
    verdicts: Mutex<VecDeque<CommitVerdict>>,
    groups: Mutex<Vec<usize>>,
    commits: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

const OPEN: usize = 1_000;

impl Script {
    fn new(verdicts: impl IntoIterator<Item = CommitVerdict>) -> Arc<Self> {
        Self::gated(verdicts, OPEN, OPEN)
    }

    fn gated(
        verdicts: impl IntoIterator<Item = CommitVerdict>,
        commits: usize,
        answers: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            verdicts: Mutex::new(verdicts.into_iter().collect()),
            groups: Mutex::default(),
            commits: Arc::new(Semaphore::new(commits)),
            answers: Arc::new(Semaphore::new(answers)),
        })
    }
}

fn permit(gate: &Arc<Semaphore>) -> BoxFuture<()> {
    let gate = Arc::clone(gate);
    Box::pin(async move { gate.acquire().await.expect("the gate is never closed").forget() })
}

impl StoreFaults for Script {
    fn before_commit(&self, units: &[&Unit]) -> BoxFuture<CommitVerdict> {
        self.groups.lock().expect("no poison").push(units.len());
        let verdict =
            self.verdicts.lock().expect("no poison").pop_front().unwrap_or(CommitVerdict::Commit);
        let open = permit(&self.commits);
        Box::pin(async move {
            open.await;
            verdict
        })
    }

    fn before_answer(&self) -> BoxFuture<()> {
        permit(&self.answers)
    }
}

fn open(disk: &MemoryDisk, faults: Arc<dyn StoreFaults>) -> MemoryStore {
    let (store, writer) = MemoryStore::open(disk, "1", faults).expect("the disk is free");
    #[expect(clippy::disallowed_methods, reason = "a test's own runtime")]
    tokio::spawn(writer);
    store
}

/// Lets every other task run as far as it can.
async fn settle() {
    for _ in 0..16 {
        #[expect(clippy::disallowed_methods, reason = "a test's own runtime")]
        tokio::task::yield_now().await;
    }
}

/// What a future has come to, without waiting for it.
async fn peek<T>(future: &mut BoxFuture<T>) -> Option<T> {
    settle().await;
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

fn retry(reason: RetryReason) -> Result<(), Refusal> {
    Err(Refusal::Retry { reason })
}

#[test]
fn a_refused_transaction_leaves_nothing_and_may_come_again() {
    drive(async {
        let disk = MemoryDisk::new();
        for reason in [RetryReason::Full, RetryReason::Busy, RetryReason::Io] {
            let store = open(&disk.fork(), Script::new([CommitVerdict::Refuse(reason)]));
            let first = store.submit(creation("a"));
            let second = store.submit(rows("a", 2..=2));
            assert_eq!(first.await, retry(reason));
            assert_eq!(second.await, retry(RetryReason::Behind));
            assert!(store.disk().image().records.is_empty());
            assert_eq!(store.submit(resuming(creation("a"))).await, Ok(()));
            assert_eq!(store.submit(rows("a", 2..=2)).await, Ok(()));
        }
    });
}

#[test]
fn a_crash_before_the_commit_loses_the_transaction_and_answers_nobody() {
    drive(async {
        let disk = MemoryDisk::new();
        let store = open(&disk, Script::new([CommitVerdict::Commit, CommitVerdict::CrashBefore]));
        assert_eq!(store.submit(creation("a")).await, Ok(()));
        let mut lost = store.submit(rows("a", 2..=2));
        assert_eq!(peek(&mut lost).await, None);
        let mut later = store.submit(rows("a", 3..=3));
        let mut load = store.load();
        assert_eq!(peek(&mut later).await, None, "a dead host is told nothing");
        assert!(peek(&mut load).await.is_none());

        let next = open(&disk, Arc::new(NoFaults));
        assert_eq!(next.rows(sid("a")).await.expect("it reads").rows.len(), 1);
        assert_eq!(next.submit(rows("a", 2..=2)).await, Ok(()));
        assert_eq!(peek(&mut lost).await, None);
    });
}

#[test]
fn a_crash_after_the_commit_keeps_the_transaction_and_answers_nobody() {
    drive(async {
        let disk = MemoryDisk::new();
        let store = open(&disk, Script::new([CommitVerdict::CrashAfter]));
        let mut first = store.submit(creation("a"));
        let mut second = store.submit(rows("a", 2..=2));
        assert_eq!(peek(&mut first).await, None);
        assert_eq!(peek(&mut second).await, None);
        let next = open(&disk, Arc::new(NoFaults));
        assert_eq!(next.rows(sid("a")).await.expect("it reads").rows.len(), 2);
    });
}

#[test]
fn units_that_come_while_a_commit_takes_its_time_share_the_next_one() {
    drive(async {
        let script = Script::gated([], 0, OPEN);
        let store = open(&MemoryDisk::new(), script.clone());
        let mut first = store.submit(creation("a"));
        assert_eq!(peek(&mut first).await, None, "the disk is slow");
        let waiting: Vec<_> = (2..=5).map(|seq| store.submit(rows("a", seq..=seq))).collect();
        script.commits.add_permits(2);
        assert_eq!(first.await, Ok(()));
        for answer in waiting {
            assert_eq!(answer.await, Ok(()));
        }
        assert_eq!(*script.groups.lock().expect("no poison"), [1, 4]);
    });
}

#[test]
fn a_late_acknowledgement_is_of_something_durable() {
    drive(async {
        let script = Script::gated([], OPEN, 0);
        let disk = MemoryDisk::new();
        let store = open(&disk, script.clone());
        let mut first = store.submit(creation("a"));
        assert_eq!(peek(&mut first).await, None);
        assert_eq!(disk.rows(&sid("a")).rows.len(), 1, "it is stored all the same");
        script.answers.add_permits(1);
        assert_eq!(first.await, Ok(()));
    });
}

#[test]
fn a_store_closed_for_good_stays_closed() {
    drive(async {
        let closed = CommitVerdict::Close("it is damaged".to_owned());
        let store = open(&MemoryDisk::new(), Script::new([closed]));
        let refusal = Err(Refusal::Closed { reason: "it is damaged".to_owned() });
        assert_eq!(store.submit(creation("a")).await, refusal);
        assert_eq!(store.submit(creation("b")).await, refusal);
    });
}

#[test]
fn an_answer_is_never_there_at_the_first_look() {
    // An operation that completes without suspending would be no scheduling point for the simulator.
    drive(async {
        let store = open(&MemoryDisk::new(), Arc::new(NoFaults));
        let mut answer = store.submit(creation("a"));
        assert_eq!(peek(&mut answer).await, None, "although it is stored by now");
        assert_eq!(answer.await, Ok(()));
        assert!(peek(&mut store.load()).await.is_none());
        assert!(peek(&mut store.rows(sid("a"))).await.is_none());
    });
}

#[test]
fn more_units_than_may_wait_are_refused_and_come_again() {
    drive(async {
        let store = open(&MemoryDisk::new(), Arc::new(NoFaults));
        let submit = |seq: u64| match seq {
            1 => store.submit(creation("a")),
            _ => store.submit(rows("a", seq..=seq)),
        };
        let last = QUEUED_UNITS_MAX as u64;
        let answers: Vec<_> = (1..=last + 1).map(submit).collect();
        let mut refused = 0;
        for answer in answers {
            match answer.await {
                Ok(()) => assert_eq!(refused, 0, "only the last one is refused"),
                Err(refusal) => {
                    assert_eq!(refusal, Refusal::Retry { reason: RetryReason::Backlog });
                    refused += 1;
                }
            }
        }
        assert_eq!(refused, 1);
        let again = resuming(rows("a", last + 1..=last + 1));
        assert_eq!(store.submit(again).await, Ok(()));
    });
}

#[test]
fn a_dropped_store_lands_what_was_submitted_and_then_frees_the_disk() {
    drive(async {
        let disk = MemoryDisk::new();
        let store = open(&disk, Arc::new(NoFaults));
        let answer = store.submit(creation("a"));
        drop(store);
        let in_use = MemoryStore::open(&disk, "2", Arc::new(NoFaults)).map(drop);
        assert!(matches!(in_use, Err(StoreError::InUse { .. })), "its writer is still at work");
        assert_eq!(answer.await, Ok(()));
        settle().await;
        open(&disk, Arc::new(NoFaults));
        assert_eq!(disk.image().records.len(), 1);
    });
}

#[test]
fn an_older_handle_cannot_write_although_its_commit_was_under_way() {
    drive(async {
        let disk = MemoryDisk::new();
        let script = Script::gated([], 0, OPEN);
        let older = open(&disk, script.clone());
        let mut answer = older.submit(creation("a"));
        assert_eq!(peek(&mut answer).await, None);
        disk.lose_lock();
        let newer = open(&disk, Arc::new(NoFaults));
        assert_eq!(newer.submit(with_record(unit("a"), record("a", 1, 9))).await, Ok(()));
        script.commits.add_permits(1);
        assert!(matches!(answer.await, Err(Refusal::Closed { .. })));
        assert_eq!(disk.image().records[0].lease.fence, Fence(9));
        drop(older);
        settle().await;
        let third = MemoryStore::open(&disk, "3", Arc::new(NoFaults)).map(drop);
        assert!(matches!(third, Err(StoreError::InUse { .. })), "the newer one holds the lock");
    });
}
