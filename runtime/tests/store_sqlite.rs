//! What only the real store has: files, permissions, a schema, threads.
#![cfg(feature = "native")]
#![expect(clippy::disallowed_methods, reason = "the real store has real files")]

mod store_support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use moored::store::sqlite::{SCHEMA_VERSION, SqliteStore};
use moored::store::{LedgerOutcome, Refusal, RetryReason, Store, StoreError};
use store_support::*;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777
}

fn database(directory: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(directory.join("journal.sqlite")).expect("it opens")
}

#[test]
fn the_store_belongs_to_its_owner_alone() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("state/moored");
    let store = SqliteStore::open(&directory).unwrap();
    assert_eq!(drive(store.submit(creation("a"))), Ok(()));
    assert_eq!(mode(&directory), 0o700);
    let mut names = Vec::new();
    for file in std::fs::read_dir(&directory).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        names.push(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    names.sort();
    assert_eq!(names, ["journal.sqlite", "journal.sqlite-shm", "journal.sqlite-wal", "lock"]);
}

#[test]
fn a_store_that_was_opened_to_others_is_closed_to_them_at_the_next_open() {
    let root = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(root.path()).unwrap());
    for (name, lax) in [("", 0o755), ("journal.sqlite", 0o644), ("lock", 0o666)] {
        let permissions = std::fs::Permissions::from_mode(lax);
        std::fs::set_permissions(root.path().join(name), permissions).unwrap();
    }
    let _store = SqliteStore::open(root.path()).unwrap();
    assert_eq!(mode(root.path()), 0o700);
    assert_eq!(mode(&root.path().join("journal.sqlite")), 0o600);
    assert_eq!(mode(&root.path().join("journal.sqlite-wal")), 0o600);
    assert_eq!(mode(&root.path().join("lock")), 0o600);
}

#[test]
fn a_folder_of_somebody_elses_files_keeps_its_permissions() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("thesis.txt"), "chapter one").unwrap();
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = SqliteStore::open(root.path()).map(drop).unwrap_err();
    assert!(error.to_string().contains("choose an empty one"), "{error}");
    assert_eq!(mode(root.path()), 0o755);
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn a_newer_schema_is_refused_and_not_a_byte_of_it_changes() {
    let root = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(root.path()).unwrap());
    let connection = database(root.path());
    connection.pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
    connection.close().unwrap();
    let path = root.path().join("journal.sqlite");
    let before = std::fs::read(&path).unwrap();
    for open in [SqliteStore::open, SqliteStore::open_read_only] {
        let error = open(root.path()).map(drop).unwrap_err();
        assert!(
            matches!(&error, StoreError::Newer { schema, .. } if *schema == SCHEMA_VERSION + 1)
        );
        assert!(error.to_string().contains("update this program"), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn what_is_no_store_of_ours_is_left_alone() {
    let another_programs = tempfile::tempdir().unwrap();
    database(another_programs.path()).execute_batch("CREATE TABLE t (x)").unwrap();
    let no_database = tempfile::tempdir().unwrap();
    std::fs::write(no_database.path().join("journal.sqlite"), "dear diary, ".repeat(100)).unwrap();
    let empty = tempfile::tempdir().unwrap();
    std::fs::write(empty.path().join("journal.sqlite"), "").unwrap();
    for root in [another_programs, no_database, empty] {
        let path = root.path().join("journal.sqlite");
        let before = std::fs::read(&path).unwrap();
        for open in [SqliteStore::open, SqliteStore::open_read_only] {
            let error = open(root.path()).map(drop).unwrap_err();
            assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}

#[test]
fn a_store_that_was_never_finished_is_made_anew() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("lock"), "1").unwrap();
    std::fs::write(root.path().join("journal.sqlite.new"), "half of").unwrap();
    std::fs::write(root.path().join("journal.sqlite.new-journal"), "its journal").unwrap();
    let store = SqliteStore::open(root.path()).unwrap();
    assert_eq!(drive(store.submit(creation("a"))), Ok(()));
    assert!(!root.path().join("journal.sqlite.new").exists());
}

#[test]
fn a_reader_beside_a_running_host_sees_what_is_durable_and_writes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let none = SqliteStore::open_read_only(root.path()).map(drop).unwrap_err();
    assert!(none.to_string().contains("there is no store in it"), "{none}");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0, "a reader makes nothing");

    let store = SqliteStore::open(root.path()).unwrap();
    let reader = SqliteStore::open_read_only(root.path()).unwrap();
    drive(async {
        assert_eq!(store.submit(creation("a")).await, Ok(()));
        assert_eq!(reader.load().await.unwrap().records, [record("a", 1, 0)]);
        assert_eq!(reader.rows(sid("a")).await.unwrap().rows, [row("a", 1)]);
        let refused = reader.submit(rows("a", 2..=2)).await;
        assert!(matches!(refused, Err(Refusal::Closed { .. })));
        assert_eq!(store.submit(rows("a", 2..=2)).await, Ok(()));
        assert_eq!(reader.rows(sid("a")).await.unwrap().rows.len(), 2);
    });
    drop(store);
    drop(reader);
    let reader = SqliteStore::open_read_only(root.path()).unwrap();
    assert_eq!(drive(reader.rows(sid("a"))).unwrap().rows.len(), 2, "also when no host runs");
}

#[test]
fn a_dropped_store_lands_what_was_submitted_and_then_frees_the_lock() {
    let root = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(root.path()).unwrap();
    let mut answers = vec![store.submit(creation("a"))];
    answers.extend((2..=500).map(|seq| store.submit(rows("a", seq..=seq))));
    drop(store);
    let next = SqliteStore::open(root.path()).unwrap();
    assert_eq!(drive(next.rows(sid("a"))).unwrap().rows.len(), 500);
    for answer in answers {
        assert_eq!(drive(answer), Ok(()));
    }
}

#[test]
fn a_unit_waits_for_another_connection_that_holds_the_write_lock() {
    let root = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(root.path()).unwrap();
    let other = database(root.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let answer = store.submit(creation("a"));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(drive(answer), Ok(()));
}

#[test]
fn damage_closes_the_store_for_good() {
    let root = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(root.path()).unwrap();
    assert_eq!(drive(store.submit(creation("a"))), Ok(()));
    drop(store);
    let root_page: i64 = database(root.path())
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'rows'", [], |r| r.get(0))
        .unwrap();
    let path = root.path().join("journal.sqlite");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = (usize::try_from(root_page).unwrap() - 1) * 4_096;
    bytes[at..at + 4_096].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();

    let store = SqliteStore::open(root.path()).unwrap();
    for _ in 0..2 {
        let Err(Refusal::Closed { reason }) = drive(store.submit(rows("a", 2..=2))) else {
            panic!("it wrote into damage")
        };
        assert!(reason.starts_with("it is damaged"), "{reason}");
    }
    assert!(drive(store.rows(sid("a"))).is_err());
    assert_eq!(drive(store.load()).unwrap().records.len(), 1, "what can be read is");
}

#[test]
fn sealed_rows_cannot_be_changed_even_by_hand() {
    let root = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(root.path()).unwrap();
    let mut replacement = record("a", 2, 0);
    replacement.epoch = "epoch-2".into();
    drive(async {
        store.submit(creation("a")).await.unwrap();
        store.submit(with_record(unit("a"), replacement)).await.unwrap();
    });
    let by_hand = database(root.path());
    for sql in ["UPDATE rows SET row = '{}'", "DELETE FROM rows", "DELETE FROM sealed"] {
        let error = by_hand.execute(sql, []).unwrap_err();
        assert!(error.to_string().contains("the epoch is sealed"), "{sql}: {error}");
    }
    let sealed: (String, String, i64, i64) = by_hand
        .query_row("SELECT epoch, replacement, last_seq, row_count FROM sealed", [], |r| {
            Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?))
        })
        .unwrap();
    assert_eq!(sealed, (EPOCH.to_owned(), "epoch-2".to_owned(), 1, 1));
}

#[test]
fn the_tables_read_as_the_page_says() {
    let root = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(root.path()).unwrap();
    let entry = entry("a", "op-1", LedgerOutcome::Failed("{}".to_owned()));
    assert_eq!(drive(store.submit(with_entry(creation("a"), entry))), Ok(()));
    let by_hand = database(root.path());
    let text = |sql: &str| by_hand.query_row(sql, [], |r| r.get::<_, String>(0)).unwrap();
    assert_eq!(text("SELECT row FROM rows"), row("a", 1).to_text());
    assert_eq!(text("SELECT json_extract(row, '$.kind') FROM rows"), "epoch");
    assert_eq!(text("SELECT claim FROM sessions"), "released");
    assert_eq!(text("SELECT workspace FROM sessions"), "/workspace");
    assert_eq!(text("SELECT outcome FROM ledger"), "failed");
}

#[test]
fn a_full_disk_refuses_again_and_again_and_then_heals() {
    let root = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(root.path()).unwrap();
    drive(async {
        assert_eq!(store.submit(creation("a")).await, Ok(()));
        store.limit_pages(Some(1));
        let large = || moored::store::Unit { rows: vec![text_row(2, 64 * 1024)], ..unit("a") };
        for _ in 0..20 {
            let refused = store.submit(resuming(large())).await;
            assert_eq!(refused, Err(Refusal::Retry { reason: RetryReason::Full }));
        }
        store.limit_pages(None);
        assert_eq!(store.submit(resuming(large())).await, Ok(()));
    });
}

#[test]
fn a_log_torn_anywhere_leaves_whole_units_and_a_store_that_goes_on() {
    const UNITS: u64 = 6;
    let unit_after = |units: u64| {
        let first = units * 2 + 1;
        with_record(rows("a", first..=first + 1), record("a", units + 1, 0))
    };
    let root = tempfile::tempdir().unwrap();
    let whole = root.path().join("whole");
    let store = SqliteStore::open(&whole).unwrap();
    for units in 0..UNITS {
        assert_eq!(drive(store.submit(unit_after(units))), Ok(()));
    }
    let main = std::fs::read(whole.join("journal.sqlite")).unwrap();
    let log = std::fs::read(whole.join("journal.sqlite-wal")).unwrap();
    let torn = root.path().join("torn");
    let mut last = 0;
    // An odd step: the cuts fall on every part of a frame and of its header.
    for cut in (0..log.len()).step_by(1_021).chain([log.len()]) {
        let _ = std::fs::remove_dir_all(&torn);
        std::fs::create_dir(&torn).unwrap();
        std::fs::write(torn.join("lock"), "").unwrap();
        std::fs::write(torn.join("journal.sqlite"), &main).unwrap();
        std::fs::write(torn.join("journal.sqlite-wal"), &log[..cut]).unwrap();
        let store = SqliteStore::open(&torn).unwrap();
        drive(async {
            let records = store.load().await.unwrap().records;
            let units = records.first().map_or(0, |r| r.revision);
            let stored = store.rows(sid("a")).await.unwrap();
            assert_eq!((stored.rows.len() as u64, stored.fault), (units * 2, None), "cut {cut}");
            assert!(units >= last, "cut {cut}: a longer log holds no less");
            last = units;
            assert_eq!(store.submit(unit_after(units)).await, Ok(()), "cut {cut}");
        });
    }
    assert_eq!(last, UNITS, "the whole log holds everything");
}

#[test]
fn a_lock_file_that_holds_nonsense_still_locks() {
    let root = tempfile::tempdir().unwrap();
    let _store = SqliteStore::open(root.path()).unwrap();
    for nonsense in ["", "all mine", &"1".repeat(10_000)] {
        std::fs::write(root.path().join("lock"), nonsense).unwrap();
        let Err(StoreError::InUse { pid, .. }) = SqliteStore::open(root.path()).map(drop) else {
            panic!("it got in")
        };
        assert_eq!(pid, "(unknown)", "a number is read up to a bound, and this is none");
    }
}

#[test]
fn a_unit_that_fails_half_way_leaves_nothing_and_takes_nobody_with_it() {
    let root = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(root.path()).unwrap();
    let by_hand = database(root.path());
    by_hand
        .execute_batch(
            "CREATE TRIGGER no_row_three BEFORE INSERT ON rows
             WHEN new.session = 'a' AND new.seq = 3 BEGIN SELECT raise(ABORT, 'no'); END;",
        )
        .unwrap();
    let entry = entry("a", "op-1", LedgerOutcome::Pending);
    let failing = with_entry(with_record(rows("a", 2..=4), record("a", 2, 0)), entry);
    let answers =
        [creation("a"), creation("b"), failing, rows("b", 2..=3)].map(|unit| store.submit(unit));
    let [a, b, failed, other] = answers;
    assert_eq!((drive(a), drive(b), drive(other)), (Ok(()), Ok(()), Ok(())));
    assert_eq!(drive(failed), Err(Refusal::Conflict));
    let image = drive(store.load()).unwrap();
    assert_eq!(image.records, [record("a", 1, 0), record("b", 1, 0)]);
    assert!(image.ledger.is_empty());
    assert_eq!(drive(store.rows(sid("a"))).unwrap().rows, [row("a", 1)]);
    by_hand.execute_batch("DROP TRIGGER no_row_three").unwrap();
    assert_eq!(drive(store.submit(rows("a", 2..=4))), Ok(()));
}
