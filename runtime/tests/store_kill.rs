//! Kill -9: what a real process was told is stored is there after its death, whole.
//!
//! The test binary starts itself as a child that writes and says what was acknowledged; the parent kills it at some
//! point of that, and reads the store.
#![cfg(feature = "native")]
#![expect(clippy::disallowed_methods, reason = "real processes and their environment")]
#![expect(clippy::disallowed_types, reason = "real processes")]

mod store_support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use moored::store::sqlite::SqliteStore;
use moored::store::{Store, StoreError, Unit};
use store_support::*;

const DIRECTORY_VARIABLE: &str = "STORE_KILL_DIRECTORY";
const ROUNDS: usize = 20;
const SESSIONS: [&str; 3] = ["a", "b", "c"];
/// Rows of one unit; a unit also carries the record, so that a half of it would show.
const UNIT_ROWS: u64 = 3;

/// The next unit of a session that has `units` of them: its rows, and the record that counts them.
fn next_unit(session: &str, units: u64) -> Unit {
    let first = units * UNIT_ROWS + 1;
    with_record(rows(session, first..=first + UNIT_ROWS - 1), record(session, units + 1, 0))
}

/// The child's part; without its variable it is no test of its own.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE) else { return };
    let store = SqliteStore::open(&PathBuf::from(directory)).expect("the store opens");
    drive(async {
        let records = store.load().await.expect("the store loads").records;
        let mut units: BTreeMap<&str, u64> = SESSIONS.into_iter().map(|s| (s, 0)).collect();
        for record in records {
            *units.get_mut(record.session.as_str()).expect("one of ours") = record.revision;
        }
        let mut out = std::io::stdout();
        loop {
            let mut answers = Vec::new();
            for (session, count) in &mut units {
                for _ in 0..4 {
                    answers.push((*session, *count + 1, store.submit(next_unit(session, *count))));
                    *count += 1;
                }
            }
            for (session, count, answer) in answers {
                answer.await.expect("it is stored");
                writeln!(out, "acknowledged {session} {count}").expect("the parent reads");
            }
        }
    });
}

/// A child that is killed when the test ends, however it ends.
struct Writing(Child);

impl Drop for Writing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(directory: &Path) -> Writing {
    let child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "child_that_writes_until_it_is_killed", "--nocapture"])
        .env(DIRECTORY_VARIABLE, directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    Writing(child)
}

/// "acknowledged a 7": the session, and its count of units.
fn acknowledgement(line: &str) -> Option<(String, u64)> {
    let mut words = line.split("acknowledged ").nth(1)?.split(' ');
    let session = words.next()?.to_owned();
    let count = words.next()?.parse().ok()?;
    SESSIONS.contains(&session.as_str()).then_some((session, count))
}

#[test]
fn everything_acknowledged_is_there_after_a_kill() {
    let root = tempfile::tempdir().expect("a directory");
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut writing = start(root.path());
        let pid = writing.0.id().to_string();
        let stdout = writing.0.stdout.take().expect("it is piped");
        // At a different point each round, within and between the transactions.
        let kill_at = 1 + round * 7 % 23;
        let mut seen = 0;
        for line in BufReader::new(stdout).lines() {
            let Some((session, count)) = acknowledgement(&line.expect("text")) else { continue };
            acknowledged.insert(session, count);
            seen += 1;
            if seen == kill_at {
                let Err(StoreError::InUse { pid: holder, .. }) =
                    SqliteStore::open(root.path()).map(drop)
                else {
                    panic!("a second host got in")
                };
                assert_eq!(holder, pid);
                writing.0.kill().expect("SIGKILL is sent");
            }
        }
        assert!(seen >= kill_at, "round {round}: the child wrote until it was killed");
        drop(writing);
        check(root.path(), &acknowledged);
    }
}

fn check(directory: &Path, acknowledged: &BTreeMap<String, u64>) {
    let store = SqliteStore::open(directory).expect("the lock died with its holder");
    drive(async {
        let records = store.load().await.expect("it loads").records;
        for record in records {
            let session = record.session.as_str();
            let units = record.revision;
            let told = acknowledged.get(session).copied().unwrap_or(0);
            assert!(units >= told, "{session}: {told} units acknowledged, {units} there");
            let stored = store.rows(record.session.clone()).await.expect("it reads");
            assert_eq!(stored.fault, None);
            assert_eq!(stored.rows.len() as u64, units * UNIT_ROWS, "{session}: no half of a unit");
        }
    });
}
