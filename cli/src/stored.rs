//! A store, opened for reading only, whoever has it open.

use std::path::Path;

use anyhow::{anyhow, bail};
use moored::ids::SessionId;
use moored::journal::{ChildRow, Fold, Row, RowKind, Touched};
use moored::session::record::SessionRecord;
use moored::store::sqlite::SqliteStore;
use moored::store::{Store, StoreError, StoreImage, StoredRows};

/// What lies in a state directory.
pub struct Stored {
    store: SqliteStore,
    directory: String,
}

impl Stored {
    /// Opens it; nothing of it is changed.
    pub fn open(directory: &Path) -> anyhow::Result<Self> {
        let store = SqliteStore::open_read_only(directory).map_err(refused)?;
        let shown = directory.display().to_string();
        Ok(Self { store, directory: shown })
    }

    /// All sessions.
    pub async fn image(&self) -> anyhow::Result<StoreImage> {
        Ok(self.store.load().await?)
    }

    /// The rows of one.
    pub async fn rows(&self, session: &SessionId) -> anyhow::Result<StoredRows> {
        Ok(self.store.rows(session.clone()).await?)
    }

    /// The one session whose id is `word`, or begins with it.
    pub async fn session(&self, word: &str) -> anyhow::Result<SessionRecord> {
        let image = self.image().await?;
        if let Some(record) = image.records.iter().find(|r| r.session.as_str() == word) {
            return Ok(record.clone());
        }
        if let Some(unreadable) = image.unreadable.iter().find(|u| u.session.as_str() == word) {
            bail!("the record of session {word} cannot be read ({})", unreadable.what);
        }
        let begins = |r: &&SessionRecord| !word.is_empty() && r.session.as_str().starts_with(word);
        let found: Vec<_> = image.records.iter().filter(begins).collect();
        match found.as_slice() {
            [record] => Ok((*record).clone()),
            [] => bail!(
                "there is no session {word} in the store {}; `moored ps` lists those there are",
                self.directory
            ),
            several => bail!(
                "{} sessions begin with {word}; give more of the id, `moored ps` lists them",
                several.len()
            ),
        }
    }
}

/// The fold of a readable prefix.
pub fn fold(rows: &[Row]) -> Fold {
    let mut fold = Fold::new();
    for row in rows {
        fold.apply(row, &mut Touched::default());
    }
    fold
}

/// The last facts of a session's newest child: its exit, then what was proven.
pub fn last_child(rows: &[Row]) -> (Option<&ChildRow>, Option<&ChildRow>) {
    let (mut exited, mut settled) = (None, None);
    for row in rows {
        match &row.kind {
            RowKind::Child(ChildRow::Started { .. }) => (exited, settled) = (None, None),
            RowKind::Child(child @ ChildRow::Exited { .. }) => exited = Some(child),
            RowKind::Child(child @ ChildRow::Settled { .. }) => settled = Some(child),
            _ => {}
        }
    }
    (exited, settled)
}

/// Why a store cannot be used, with what to do about it.
pub fn refused(error: StoreError) -> anyhow::Error {
    match error {
        // The others say themselves what to do.
        StoreError::Unusable { .. } => {
            anyhow!(
                "{error}; `moored chat` makes a store where it may write, --store DIR names another"
            )
        }
        error => error.into(),
    }
}
