//! One suite, two arms: what the in-memory model promises, SQLite keeps, and the other way round.
//!
//! A story is written once, over `&dyn Store` and what an arm can do to the store from outside: open it again, crash
//! it, damage a row, fill the disk. The arms are at the end.
#![cfg(feature = "native")]
#![expect(clippy::disallowed_methods, reason = "the real arm has files, the other a task")]

mod store_support;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use moored::ids::Fence;
use moored::journal::{Row, RowFault};
use moored::platform::BoxFuture;
use moored::store::memory::{CommitVerdict, MemoryDisk, MemoryStore, StoreFaults};
use moored::store::sqlite::SqliteStore;
use moored::store::{
    LedgerOutcome, Refusal, RetryReason, SharedStore, Store, StoreError, TRANSACTION_UNITS_MAX,
    Unit,
};
use store_support::*;

/// A store, and the world's hand on it.
trait Arm {
    /// The store as the host holds it now.
    fn store(&self) -> &dyn Store;
    /// The host ends and starts again.
    fn reopen(&mut self);
    /// The host dies at this moment; another opens what is left.
    fn crash(&mut self);
    /// A second host tries to open the store.
    fn second_host(&self) -> Result<(), StoreError>;
    /// The lock is lost and a second host gets in; the store is its store from here on, the older one is returned.
    fn take_over(&mut self) -> SharedStore;
    /// A stored row gets other bytes, or is lost.
    fn overwrite(&self, session: &str, seq: u64, text: Option<&[u8]>);
    /// A stored record gets another text.
    fn overwrite_record(&self, session: &str, text: &str);
    /// The bytes of a stored row.
    fn text(&self, session: &str, epoch: &str, seq: u64) -> Vec<u8>;
    /// From now on the disk has no room for a unit of [`LARGE`] bytes, or has it again.
    fn set_full(&self, is_full: bool);
}

const LARGE: usize = 512 * 1024;

fn retry(reason: RetryReason) -> Result<(), Refusal> {
    Err(Refusal::Retry { reason })
}

/// Submits all, then reads the answers in order.
async fn submit_all(store: &dyn Store, units: Vec<Unit>) -> Vec<Result<(), Refusal>> {
    let answers: Vec<_> = units.into_iter().map(|unit| store.submit(unit)).collect();
    let mut read = Vec::new();
    for answer in answers {
        read.push(answer.await);
    }
    read
}

async fn stored(store: &dyn Store, session: &str) -> Vec<Row> {
    let stored = store.rows(sid(session)).await.expect("the store reads");
    assert_eq!(stored.fault, None);
    stored.rows
}

fn expected(session: &str, last: u64) -> Vec<Row> {
    (1..=last).map(|seq| row(session, seq)).collect()
}

async fn an_empty_store_has_nothing(arm: &mut dyn Arm) {
    let image = arm.store().load().await.expect("it loads");
    assert!(image.records.is_empty() && image.ledger.is_empty() && image.unreadable.is_empty());
    let rows = arm.store().rows(sid("nobody")).await.expect("it reads");
    assert_eq!((rows.epoch, rows.rows, rows.fault), (None, Vec::new(), None));
}

async fn everything_acknowledged_is_read_back_by_the_next_host(arm: &mut dyn Arm) {
    let entry = entry("a", "op-1", LedgerOutcome::Succeeded("{\"turn\":1}".to_owned()));
    let unit = with_entry(with_record(rows("a", 2..=4), record("a", 2, 1)), entry.clone());
    let units = vec![creation("a"), creation("b"), unit, rows("b", 2..=2)];
    assert_eq!(submit_all(arm.store(), units).await, [const { Ok(()) }; 4]);
    for crashes in [false, true] {
        if crashes {
            arm.crash();
        } else {
            arm.reopen();
        }
        let image = arm.store().load().await.expect("it loads");
        assert_eq!(image.records, [record("a", 2, 1), record("b", 1, 0)]);
        assert_eq!(image.ledger, std::slice::from_ref(&entry));
        assert_eq!(stored(arm.store(), "a").await, expected("a", 4));
        assert_eq!(stored(arm.store(), "b").await, expected("b", 2));
    }
    let next = Unit { fence: Fence(1), ..rows("a", 5..=5) };
    assert_eq!(arm.store().submit(next).await, Ok(()), "the next append works");
}

async fn a_unit_is_stored_whole_or_not_at_all(arm: &mut dyn Arm) {
    let pending = || entry("a", "op-1", LedgerOutcome::Pending);
    arm.store().submit(with_entry(creation("a"), pending())).await.expect("it is stored");
    let finished = entry("a", "op-2", LedgerOutcome::Unknown);

    let wrong_record = with_record(rows("a", 2..=3), record("a", 1, 0));
    let wrong_rows = with_record(rows("a", 1..=1), record("a", 2, 0));
    let mut wrong_entry = with_record(rows("a", 2..=3), record("a", 2, 0));
    wrong_entry.ledger = Some(pending());
    wrong_entry.ledger.as_mut().expect("set").fingerprint = "another call".to_owned();
    for wrong in [with_entry(wrong_record, finished.clone()), with_entry(wrong_rows, finished)] {
        assert_eq!(arm.store().submit(wrong).await, Err(Refusal::Conflict));
    }
    assert_eq!(arm.store().submit(wrong_entry).await, Err(Refusal::Conflict));

    let image = arm.store().load().await.expect("it loads");
    assert_eq!(image.records, [record("a", 1, 0)]);
    assert_eq!(image.ledger, [pending()]);
    assert_eq!(stored(arm.store(), "a").await, expected("a", 1));
}

async fn a_sessions_units_are_stored_in_the_order_of_their_submission(arm: &mut dyn Arm) {
    let count = 2 * TRANSACTION_UNITS_MAX as u64;
    let mut units = vec![creation("a")];
    units.extend((2..=count).map(|seq| rows("a", seq..=seq)));
    assert!(submit_all(arm.store(), units).await.iter().all(Result::is_ok));
    arm.reopen();
    assert_eq!(stored(arm.store(), "a").await, expected("a", count));
}

async fn a_stale_fence_is_refused_and_told_the_current_one(arm: &mut dyn Arm) {
    let reserve = with_record(Unit { fence: Fence(3), ..unit("a") }, record("a", 2, 3));
    let late = Unit { fence: Fence(2), ..rows("a", 2..=2) };
    let current = Unit { fence: Fence(3), ..rows("a", 2..=2) };
    let answers = submit_all(arm.store(), vec![creation("a"), reserve, late, current]).await;
    let stale = Err(Refusal::Stale { current: Fence(3) });
    assert_eq!(answers, [Ok(()), Ok(()), stale, Ok(())]);
}

async fn rows_go_to_the_end_of_the_live_epoch_and_nowhere_else(arm: &mut dyn Arm) {
    arm.store().submit(creation("a")).await.expect("it is stored");
    let mut split = rows("a", 2..=4);
    split.rows.remove(1);
    let mut mixed = rows("a", 2..=3);
    mixed.rows[1].epoch = "another".into();
    let mut elsewhere = rows("a", 2..=2);
    elsewhere.rows[0].epoch = "another".into();
    let unknown_session = rows("nobody", 1..=1);
    let wrong =
        [rows("a", 1..=1), rows("a", 3..=3), split, mixed, elsewhere, unknown_session].to_vec();
    let count = wrong.len();
    assert_eq!(submit_all(arm.store(), wrong).await, vec![Err(Refusal::Conflict); count]);
    assert_eq!(arm.store().submit(rows("a", 2..=2)).await, Ok(()));
}

async fn a_record_is_compared_and_set(arm: &mut dyn Arm) {
    let store = arm.store();
    assert_eq!(store.submit(with_record(unit("a"), record("a", 1, 5))).await, Ok(()));
    let under_5 = |record| Unit { fence: Fence(5), ..with_record(unit("a"), record) };
    let again = under_5(record("a", 1, 5));
    assert_eq!(store.submit(again).await, Err(Refusal::Conflict), "it exists");
    let ahead = under_5(record("a", 3, 5));
    assert_eq!(store.submit(ahead).await, Err(Refusal::Conflict), "revision 2 is not there");
    let lower = under_5(record("a", 2, 4));
    assert_eq!(store.submit(lower).await, Err(Refusal::Conflict), "a fence never goes down");
    let others = under_5(record("b", 2, 5));
    assert_eq!(store.submit(others).await, Err(Refusal::Conflict), "another session's record");
    assert_eq!(store.submit(under_5(record("a", 2, 5))).await, Ok(()));
    let image = store.load().await.expect("it loads");
    assert_eq!(image.records, [record("a", 2, 5)]);
}

async fn a_ledger_entry_is_replaced_by_its_own_call_only(arm: &mut dyn Arm) {
    let store = arm.store();
    let pending = entry("a", "op-1", LedgerOutcome::Pending);
    let succeeded = entry("a", "op-1", LedgerOutcome::Succeeded("{}".to_owned()));
    let failed = entry("a", "op-0", LedgerOutcome::Failed("{\"code\":\"x\"}".to_owned()));
    for entry in [pending, succeeded.clone(), failed.clone()] {
        assert_eq!(store.submit(with_entry(unit("a"), entry)).await, Ok(()));
    }
    let others = entry("b", "op-1", LedgerOutcome::Pending);
    assert_eq!(store.submit(with_entry(unit("b"), others)).await, Err(Refusal::Conflict));
    arm.reopen();
    let image = arm.store().load().await.expect("it loads");
    assert_eq!(image.ledger, [failed, succeeded], "in order of their ids");
}

async fn the_ledger_forgets_what_expired_when_it_is_full_and_nothing_else(arm: &mut dyn Arm) {
    use moored::store::{LEDGER_KEPT_MS, LEDGER_ROWS_MAX};
    let minted = |i: usize, recorded_ms: u64| {
        let mut entry = entry("a", &format!("op-{i:05}"), LedgerOutcome::Unknown);
        entry.recorded_ms = recorded_ms;
        with_entry(unit("a"), entry)
    };
    let old = (0..LEDGER_ROWS_MAX).map(|i| minted(i, if i < 10 { 0 } else { LEDGER_KEPT_MS }));
    // In parts: the queue is bounded too.
    for part in old.collect::<Vec<_>>().chunks(TRANSACTION_UNITS_MAX) {
        assert!(submit_all(arm.store(), part.to_vec()).await.iter().all(Result::is_ok));
    }
    assert_eq!(arm.store().load().await.expect("it loads").ledger.len(), LEDGER_ROWS_MAX);
    let one_more = minted(LEDGER_ROWS_MAX, LEDGER_KEPT_MS + 1);
    assert_eq!(arm.store().submit(one_more).await, Ok(()));
    let ledger = arm.store().load().await.expect("it loads").ledger;
    assert_eq!(ledger.len(), LEDGER_ROWS_MAX - 9, "ten are gone, one came");
    assert_eq!(ledger[0].op.as_str(), "op-00010");
}

async fn one_sessions_refusal_fails_no_other_session(arm: &mut dyn Arm) {
    let sessions: Vec<String> = (0..20).map(|i| format!("s{i:02}")).collect();
    let create = sessions.iter().map(|s| creation(s)).collect();
    assert!(submit_all(arm.store(), create).await.iter().all(Result::is_ok));
    let mut units: Vec<Unit> = sessions.iter().map(|s| rows(s, 2..=3)).collect();
    units[7] = rows("s07", 1..=2);
    let answers = submit_all(arm.store(), units).await;
    for (i, answer) in answers.into_iter().enumerate() {
        let expected = if i == 7 { Err(Refusal::Conflict) } else { Ok(()) };
        assert_eq!(answer, expected, "session {i}");
    }
    assert_eq!(stored(arm.store(), "s07").await, expected("s07", 1));
    assert_eq!(stored(arm.store(), "s08").await, expected("s08", 3));
}

async fn a_full_disk_refuses_what_does_not_fit_and_heals(arm: &mut dyn Arm) {
    let answers = submit_all(arm.store(), vec![creation("a"), creation("b")]).await;
    assert_eq!(answers, [Ok(()), Ok(())]);
    arm.set_full(true);
    // Its first row would fit: what is left of a refused unit is nothing all the same.
    let large = || Unit { rows: vec![row("a", 2), text_row(3, LARGE)], ..unit("a") };
    let small = || rows("a", 4..=4);
    let answers = submit_all(arm.store(), vec![large(), small(), rows("b", 2..=2)]).await;
    assert_eq!(answers[0], retry(RetryReason::Full));
    assert_eq!(answers[1], retry(RetryReason::Behind), "the later unit waits for the earlier one");
    assert_eq!(answers[2], Ok(()), "another session's small unit still fits");
    // Submitted before its caller read the refusal: it is behind, not a conflict.
    assert_eq!(arm.store().submit(rows("a", 5..=5)).await, retry(RetryReason::Behind));
    assert_eq!(stored(arm.store(), "a").await, expected("a", 1));

    arm.set_full(false);
    assert_eq!(arm.store().submit(rows("a", 5..=5)).await, retry(RetryReason::Behind));
    let again = submit_all(arm.store(), vec![resuming(large()), small(), rows("a", 5..=5)]).await;
    assert_eq!(again, [Ok(()), Ok(()), Ok(())]);
    arm.crash();
    assert_eq!(stored(arm.store(), "a").await.len(), 5);
    assert_eq!(stored(arm.store(), "b").await, expected("b", 2));
}

async fn a_new_epoch_seals_the_old_one_for_ever(arm: &mut dyn Arm) {
    let answers = submit_all(arm.store(), vec![creation("a"), rows("a", 2..=3)]).await;
    assert_eq!(answers, [Ok(()), Ok(())]);
    let sealed = arm.text("a", EPOCH, 3);
    let mut replacement = record("a", 2, 0);
    replacement.epoch = "epoch-2".into();
    let mut begin = with_record(unit("a"), replacement.clone());
    begin.rows = (1..=2).map(|seq| row_of("a", "epoch-2", seq)).collect();
    assert_eq!(arm.store().submit(begin).await, Ok(()));

    let late = rows("a", 4..=4);
    assert_eq!(arm.store().submit(late).await, Err(Refusal::Conflict), "a row of the old epoch");
    let back = with_record(unit("a"), record("a", 3, 0));
    assert_eq!(arm.store().submit(back).await, Err(Refusal::Conflict), "the old epoch again");
    arm.reopen();
    let stored = arm.store().rows(sid("a")).await.expect("it reads");
    assert_eq!(stored.epoch, Some("epoch-2".into()));
    assert_eq!(stored.rows, [row_of("a", "epoch-2", 1), row_of("a", "epoch-2", 2)]);
    assert_eq!(arm.text("a", EPOCH, 3), sealed, "byte for byte");
}

async fn what_a_newer_build_wrote_ends_the_readable_prefix_and_stays(arm: &mut dyn Arm) {
    let newer_version = r#"{"v":2,"epoch":"epoch-1","seq":3,"fence":0,"at_ms":0,"kind":"mark"}"#;
    let newer_kind = r#"{"v":1,"epoch":"epoch-1","seq":3,"fence":0,"at_ms":0,"kind":"hologram"}"#;
    let create = submit_all(arm.store(), vec![creation("a"), rows("a", 2..=4)]).await;
    assert_eq!(create, [Ok(()), Ok(())]);
    for (text, what) in [(newer_version, "version 2"), (newer_kind, "kind hologram")] {
        arm.overwrite("a", 3, Some(text.as_bytes()));
        arm.reopen();
        let stored = arm.store().rows(sid("a")).await.expect("it reads");
        assert_eq!(stored.rows, expected("a", 2));
        assert_eq!(stored.fault, Some(RowFault::Newer { seq: 3, what: what.to_owned() }));
        assert_eq!(arm.text("a", EPOCH, 3), text.as_bytes());
    }
}

async fn damage_ends_the_readable_prefix_of_its_session_alone(arm: &mut dyn Arm) {
    let units = vec![creation("a"), rows("a", 2..=4), creation("b")];
    assert_eq!(submit_all(arm.store(), units).await, [Ok(()), Ok(()), Ok(())]);
    let whole = arm.text("a", EPOCH, 3);
    let torn = &whole[..whole.len() / 2];
    let moved = row("a", 2).to_text();
    let damages: [(Option<&[u8]>, &str); 5] = [
        (Some(torn), "envelope"),
        (Some(b"\"\xff\xfe\""), "row 3 is not text"),
        (Some(b""), "envelope"),
        (Some(moved.as_bytes()), "row 3 says it is another one"),
        (None, "row 3 is missing"),
    ];
    for (text, expected_what) in damages {
        arm.overwrite("a", 3, text);
        arm.reopen();
        let stored = arm.store().rows(sid("a")).await.expect("damage is no error of the store");
        assert_eq!(stored.rows, expected("a", 2));
        let Some(RowFault::Damaged { what }) = stored.fault else {
            panic!("{expected_what}: {:?}", stored.fault)
        };
        assert!(what.starts_with(expected_what), "{what}");
    }
    assert_eq!(stored(arm.store(), "b").await, expected("b", 1));
    assert_eq!(arm.store().submit(rows("b", 2..=2)).await, Ok(()));
}

async fn optional_fields_of_a_newer_build_are_read_over_and_kept(arm: &mut dyn Arm) {
    let units = vec![creation("a"), rows("a", 2..=2)];
    assert_eq!(submit_all(arm.store(), units).await, [Ok(()), Ok(())]);
    let text = r#"{"v":1,"epoch":"epoch-1","seq":2,"fence":0,"at_ms":1700000000002,"mood":"good","kind":"mark","mark":{"mark":"context","used":2,"size":1000,"hue":3}}"#;
    arm.overwrite("a", 2, Some(text.as_bytes()));
    assert_eq!(arm.store().submit(rows("a", 3..=3)).await, Ok(()));
    arm.reopen();
    assert_eq!(stored(arm.store(), "a").await, expected("a", 3));
    assert_eq!(arm.text("a", EPOCH, 2), text.as_bytes(), "no write touches what is stored");
}

async fn an_unreadable_record_is_named_and_hides_no_other_session(arm: &mut dyn Arm) {
    let create = submit_all(arm.store(), vec![creation("a"), creation("b")]).await;
    assert_eq!(create, [Ok(()), Ok(())]);
    arm.overwrite_record("a", "{\"session\":\"a\"}");
    arm.reopen();
    let image = arm.store().load().await.expect("it loads");
    assert_eq!(image.records, [record("b", 1, 0)]);
    assert_eq!(image.unreadable.len(), 1);
    assert_eq!(image.unreadable[0].session, sid("a"));
    let again = arm.store().submit(creation("a")).await;
    assert_eq!(again, Err(Refusal::Conflict), "the id is taken");
}

async fn a_second_host_is_refused_while_the_first_lives(arm: &mut dyn Arm) {
    let Err(StoreError::InUse { pid, .. }) = arm.second_host() else { panic!("it got in") };
    assert_eq!(pid, std::process::id().to_string());
    assert_eq!(arm.store().submit(creation("a")).await, Ok(()), "the first is not disturbed");
    arm.reopen();
    assert_eq!(stored(arm.store(), "a").await, expected("a", 1));
}

async fn a_host_that_lost_its_lock_writes_no_more(arm: &mut dyn Arm) {
    assert_eq!(arm.store().submit(creation("a")).await, Ok(()));
    let older = arm.take_over();
    assert_eq!(arm.store().submit(rows("a", 2..=2)).await, Ok(()), "the newer host writes");
    for _ in 0..2 {
        let Err(Refusal::Closed { reason }) = older.submit(rows("a", 3..=3)).await else {
            panic!("the older host wrote")
        };
        assert_eq!(reason, "another host has taken it over");
    }
    assert_eq!(arm.store().submit(rows("a", 3..=3)).await, Ok(()));
    assert_eq!(stored(arm.store(), "a").await, expected("a", 3));
}

async fn a_unit_that_says_nothing_is_durable_after_the_ones_before_it(arm: &mut dyn Arm) {
    let first = arm.store().submit(creation("a"));
    assert_eq!(arm.store().submit(unit("a")).await, Ok(()));
    assert_eq!(stored(arm.store(), "a").await, expected("a", 1));
    assert_eq!(first.await, Ok(()));
}

macro_rules! stories {
    ($($story:ident,)*) => {
        mod memory {
            $(#[test] fn $story() { super::drive(async { super::$story(&mut super::Model::new()).await }); })*
        }
        mod sqlite {
            $(#[test] fn $story() { super::drive(async { super::$story(&mut super::Real::new()).await }); })*
        }
    };
}

stories! {
    a_full_disk_refuses_what_does_not_fit_and_heals,
    a_host_that_lost_its_lock_writes_no_more,
    a_ledger_entry_is_replaced_by_its_own_call_only,
    a_new_epoch_seals_the_old_one_for_ever,
    a_record_is_compared_and_set,
    a_second_host_is_refused_while_the_first_lives,
    a_sessions_units_are_stored_in_the_order_of_their_submission,
    a_stale_fence_is_refused_and_told_the_current_one,
    a_unit_is_stored_whole_or_not_at_all,
    a_unit_that_says_nothing_is_durable_after_the_ones_before_it,
    an_empty_store_has_nothing,
    an_unreadable_record_is_named_and_hides_no_other_session,
    damage_ends_the_readable_prefix_of_its_session_alone,
    everything_acknowledged_is_read_back_by_the_next_host,
    one_sessions_refusal_fails_no_other_session,
    optional_fields_of_a_newer_build_are_read_over_and_kept,
    rows_go_to_the_end_of_the_live_epoch_and_nowhere_else,
    the_ledger_forgets_what_expired_when_it_is_full_and_nothing_else,
    what_a_newer_build_wrote_ends_the_readable_prefix_and_stays,
}

/// The arm of the model.
struct Model {
    disk: MemoryDisk,
    full: Arc<AtomicBool>,
    store: Option<Arc<MemoryStore>>,
}

/// A disk that has room for small units only, when it is full.
struct Room(Arc<AtomicBool>);

impl StoreFaults for Room {
    fn before_commit(&self, _: &[&Unit]) -> BoxFuture<CommitVerdict> {
        Box::pin(std::future::ready(CommitVerdict::Commit))
    }

    fn refuse_unit(&self, unit: &Unit) -> Option<RetryReason> {
        let bytes: usize = unit.rows.iter().map(|row| row.to_text().len()).sum();
        (self.0.load(Ordering::Acquire) && bytes >= LARGE).then_some(RetryReason::Full)
    }
}

impl Model {
    fn new() -> Self {
        let mut model = Self { disk: MemoryDisk::new(), full: Arc::default(), store: None };
        model.open();
        model
    }

    fn open(&mut self) {
        let faults = Arc::new(Room(Arc::clone(&self.full)));
        let holder = std::process::id().to_string();
        let (store, writer) =
            MemoryStore::open(&self.disk, &holder, faults).expect("the disk is free");
        tokio::spawn(writer);
        self.store = Some(Arc::new(store));
    }
}

impl Arm for Model {
    fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("open")
    }

    fn reopen(&mut self) {
        // The writer's task ends at its next step; until then the lock is its own.
        self.store = None;
        self.disk.lose_lock();
        self.open();
    }

    fn crash(&mut self) {
        self.disk = self.disk.fork();
        self.open();
    }

    fn second_host(&self) -> Result<(), StoreError> {
        let faults = Arc::new(Room(Arc::clone(&self.full)));
        MemoryStore::open(&self.disk, "second", faults).map(drop)
    }

    fn take_over(&mut self) -> SharedStore {
        let older = self.store.take().expect("open");
        self.disk.lose_lock();
        self.open();
        older
    }

    fn overwrite(&self, session: &str, seq: u64, text: Option<&[u8]>) {
        assert!(self.disk.overwrite(&sid(session), &epoch(), seq, text), "there was such a row");
    }

    fn overwrite_record(&self, session: &str, text: &str) {
        assert!(self.disk.overwrite_record(&sid(session), text));
    }

    fn text(&self, session: &str, epoch: &str, seq: u64) -> Vec<u8> {
        let texts = self.disk.texts(&sid(session), &epoch.into());
        texts.into_iter().find(|t| t.seq == seq).expect("there is such a row").text
    }

    fn set_full(&self, is_full: bool) {
        self.full.store(is_full, Ordering::Release);
    }
}

/// The arm of SQLite, in a directory of its own.
struct Real {
    root: tempfile::TempDir,
    directory: PathBuf,
    store: Option<Arc<SqliteStore>>,
}

impl Real {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let directory = root.path().join("store-0");
        let mut real = Self { root, directory, store: None };
        real.open();
        real
    }

    fn open(&mut self) {
        self.store = Some(Arc::new(SqliteStore::open(&self.directory).expect("it opens")));
    }

    fn beside(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.directory.join("journal.sqlite")).expect("it opens")
    }
}

impl Arm for Real {
    fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("open")
    }

    fn reopen(&mut self) {
        self.store = None;
        self.open();
    }

    fn crash(&mut self) {
        // The files as they lie there while the store is open are what a crash leaves.
        let next = self.root.path().join(format!("{}-crashed", self.directory.display()));
        std::fs::create_dir(&next).expect("a directory");
        for name in ["journal.sqlite", "journal.sqlite-wal"] {
            std::fs::copy(self.directory.join(name), next.join(name)).expect("the file is copied");
        }
        self.directory = next;
        self.reopen();
    }

    fn second_host(&self) -> Result<(), StoreError> {
        SqliteStore::open(&self.directory).map(drop)
    }

    fn take_over(&mut self) -> SharedStore {
        let older = self.store.take().expect("open");
        std::fs::remove_file(self.directory.join("lock")).expect("there is a lock file");
        self.open();
        older
    }

    fn overwrite(&self, session: &str, seq: u64, text: Option<&[u8]>) {
        let (sql, text) = match text {
            Some(text) => {
                ("UPDATE rows SET row = CAST(?3 AS TEXT) WHERE session = ?1 AND seq = ?2", text)
            }
            None => ("DELETE FROM rows WHERE session = ?1 AND seq = ?2 AND ?3 = x''", &[][..]),
        };
        let changed = self.beside().execute(sql, rusqlite::params![session, seq as i64, text]);
        assert_eq!(changed.expect("it is changed"), 1);
    }

    fn overwrite_record(&self, session: &str, text: &str) {
        let changed = self
            .beside()
            .execute("UPDATE sessions SET record = ?2 WHERE session = ?1", [session, text]);
        assert_eq!(changed.expect("it is changed"), 1);
    }

    fn text(&self, session: &str, epoch: &str, seq: u64) -> Vec<u8> {
        let sql =
            "SELECT CAST(row AS BLOB) FROM rows WHERE session = ?1 AND epoch = ?2 AND seq = ?3";
        let parameters = rusqlite::params![session, epoch, seq as i64];
        self.beside().query_row(sql, parameters, |row| row.get(0)).expect("there is such a row")
    }

    fn set_full(&self, is_full: bool) {
        let store = self.store.as_ref().expect("open");
        store.limit_pages(is_full.then_some(1));
    }
}
