-- Schema 1. The page docs/journal.md says what each column means.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('instance', 0);

CREATE TABLE sessions (
    session   TEXT PRIMARY KEY,
    epoch     TEXT NOT NULL,
    fence     INTEGER NOT NULL,
    revision  INTEGER NOT NULL,
    record    TEXT NOT NULL,
    claim     TEXT GENERATED ALWAYS AS (json_extract(record, '$.lease.claim')) VIRTUAL,
    owner_pid INTEGER GENERATED ALWAYS AS (json_extract(record, '$.lease.owner.root.pid')) VIRTUAL,
    workspace TEXT GENERATED ALWAYS AS (json_extract(record, '$.workspace')) VIRTUAL,
    closed    INTEGER GENERATED ALWAYS AS (json_extract(record, '$.closed')) VIRTUAL
) STRICT, WITHOUT ROWID;

CREATE TABLE rows (
    session TEXT NOT NULL REFERENCES sessions (session),
    epoch   TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    at_ms   INTEGER NOT NULL,
    row     TEXT NOT NULL,
    PRIMARY KEY (session, epoch, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE sealed (
    session     TEXT NOT NULL REFERENCES sessions (session),
    epoch       TEXT NOT NULL,
    replacement TEXT NOT NULL,
    last_seq    INTEGER NOT NULL,
    row_count   INTEGER NOT NULL,
    byte_count  INTEGER NOT NULL,
    PRIMARY KEY (session, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger (
    op          TEXT PRIMARY KEY,
    caller      TEXT NOT NULL,
    session     TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    recorded_ms INTEGER NOT NULL,
    expires_ms  INTEGER NOT NULL,
    outcome     TEXT NOT NULL,
    answer      TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_expires ON ledger (expires_ms);

CREATE TRIGGER sealed_rows_are_kept BEFORE DELETE ON rows
WHEN EXISTS (SELECT 1 FROM sealed WHERE session = old.session AND epoch = old.epoch)
BEGIN
    SELECT raise(ABORT, 'the epoch is sealed');
END;
CREATE TRIGGER sealed_rows_are_unchanged BEFORE UPDATE ON rows
WHEN EXISTS (SELECT 1 FROM sealed WHERE session = old.session AND epoch = old.epoch)
BEGIN
    SELECT raise(ABORT, 'the epoch is sealed');
END;
CREATE TRIGGER seals_are_kept BEFORE DELETE ON sealed
BEGIN
    SELECT raise(ABORT, 'the epoch is sealed');
END;
