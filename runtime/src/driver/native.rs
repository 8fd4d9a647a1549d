//! A host on this machine: real processes, real clocks, and the SQLite journal in a state directory.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Host, HostConfig, OpenError};
use crate::platform::SharedPlatform;
use crate::platform::native::{Native, SupervisorProgram};
use crate::store::SharedStore;
use crate::store::sqlite::SqliteStore;

/// A host on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeHost {
    /// Where its journal is; one host at a time (decision D35). The library looks it up nowhere.
    pub state_dir: PathBuf,
    /// What stands between the host and its agents.
    pub supervisor: SupervisorProgram,
    /// How it behaves.
    pub config: HostConfig,
}

impl Host {
    /// Opens a host on this machine, on one thread of its own. No agent is started (rule 7.6.2).
    pub fn open(
        native: NativeHost,
    ) -> impl Future<Output = Result<Self, OpenError>> + Send + use<> {
        let NativeHost { state_dir, supervisor, config } = native;
        Self::open_on_thread(config, move || {
            // The store first: a second host is refused before it starts anything.
            let store: SharedStore = Arc::new(SqliteStore::open(&state_dir)?);
            let platform: SharedPlatform = Arc::new(
                Native::new(supervisor)
                    .map_err(|error| OpenError::Platform { reason: error.to_string() })?,
            );
            Ok((platform, store))
        })
    }
}
