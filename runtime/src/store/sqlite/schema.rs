//! The file: whose it is, which schema it has, and the connections on it (`docs/journal.md`, "Tables").

use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::directory::Place;
use crate::store::StoreError;

/// The schema this build reads and writes.
pub const SCHEMA_VERSION: i64 = 1;
/// "moor", big-endian: says in the file's header that it is one of ours.
const APPLICATION_ID: i64 = 0x6d6f_6f72;
const BUSY_TIMEOUT: Duration = Duration::from_millis(5_000);
/// Statements kept prepared on a connection; the writer uses fewer.
const STATEMENTS_CACHED_MAX: usize = 32;

const TABLES: &str = include_str!("tables.sql");

/// Rule 6.1.3. `synchronous = FULL`: a submission must be on the disk before the agent may see the message.
/// `temp_store`: what a savepoint remembers are words of a person, and belongs in no file outside the state directory.
const SETTINGS: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA foreign_keys = ON;
    PRAGMA checkpoint_fullfsync = ON;
    PRAGMA journal_size_limit = 33554432;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -8192;
    PRAGMA trusted_schema = OFF;
";

/// Makes a store under another name and renames it: there is never half a one.
pub(super) fn create(place: &Place) -> Result<(), StoreError> {
    place.begin_draft()?;
    let make = || -> rusqlite::Result<()> {
        let mut connection = Connection::open_with_flags(place.draft(), flags_writable())?;
        // Takes effect only while the file is empty.
        connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL;")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        transaction.commit()?;
        connection.close().map_err(|(_, e)| e)
    };
    make().map_err(|e| place.unusable(e))?;
    place.finish_draft()
}

/// Whose file it is and which schema it has, read before any setting or migration (rule 6.1.4) on a connection that
/// cannot change a byte of it.
pub(super) fn inspect(place: &Place) -> Result<(), StoreError> {
    let path = place.database();
    let read = || -> rusqlite::Result<(i64, i64)> {
        let connection = Connection::open_with_flags(&path, flags_read_only())?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let application = connection.pragma_query_value(None, "application_id", |r| r.get(0))?;
        let schema = connection.pragma_query_value(None, "user_version", |r| r.get(0))?;
        Ok((application, schema))
    };
    match read() {
        Ok((APPLICATION_ID, SCHEMA_VERSION)) => Ok(()),
        Ok((APPLICATION_ID, schema)) if schema > SCHEMA_VERSION => {
            Err(StoreError::Newer { path: place.shown(), schema })
        }
        Ok(_) => Err(place.foreign(&path)),
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            Err(place.foreign(&path))
        }
        Err(e) => Err(place.unusable(e)),
    }
}

/// Opens the one writing connection and takes the store over: whoever had it before can write no more (decision D35).
pub(super) fn open_writable(place: &Place) -> Result<(Connection, i64), StoreError> {
    let open = || -> rusqlite::Result<(Connection, i64)> {
        let mut connection = Connection::open_with_flags(place.database(), flags_writable())?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED_MAX);
        // Else each new value bound to a cached statement plans it anew, a quarter of the writer's time.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.execute_batch(SETTINGS)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let instance = transaction.query_row(
            "UPDATE meta SET value = value + 1 WHERE name = 'instance' RETURNING value",
            [],
            |row| row.get(0),
        )?;
        transaction.commit()?;
        Ok((connection, instance))
    };
    open().map_err(|e| place.unusable(e))
}

/// Opens a connection that cannot write.
pub(super) fn open_read_only(place: &Place) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(place.database(), flags_read_only())?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.execute_batch("PRAGMA trusted_schema = OFF;")?;
    Ok(connection)
}

fn flags_writable() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn flags_read_only() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX
}
