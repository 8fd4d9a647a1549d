//! Opening a host: what is stored is read, every session is restored, no agent is started (rule 7.6.2).

use std::future::Future;

use tokio::sync::mpsc;

use super::host_task::{Ending, HostTask};
use super::session_task::{Origin, Surroundings};
use super::{Host, HostConfig, OpenError};
use crate::host::HostMachine;
use crate::platform::{Moment, SharedPlatform, Watched, spawn};
use crate::store::SharedStore;

impl Host {
    /// Opens a host over a platform and a store. Its tasks run where the platform spawns them.
    pub fn open_on(
        platform: SharedPlatform,
        store: SharedStore,
        config: HostConfig,
    ) -> impl Future<Output = Result<Self, OpenError>> + Send + use<> {
        open(
            platform,
            store,
            config,
            #[cfg(feature = "native")]
            super::thread::HostThread::default(),
        )
    }
}

pub(super) async fn open(
    platform: SharedPlatform,
    store: SharedStore,
    config: HostConfig,
    #[cfg(feature = "native")] thread: super::thread::HostThread,
) -> Result<Host, OpenError> {
    config.check()?;
    let image = store.load().await?;
    let now = Moment { mono: platform.now(), wall_ms: platform.wall_ms() };
    let (machine, records) = HostMachine::restore(image, config.limits.sessions_max, now);
    #[cfg(feature = "planted-bugs")]
    let machine = machine.planting(&config.policy);
    let (facts, told) = mpsc::unbounded_channel();
    let (calls, called) = mpsc::channel(config.limits.calls_max);
    let ended = Watched::new(None);
    let around = Surroundings {
        platform: platform.clone(),
        store: store.clone(),
        check_invariants: config.checks_invariants(),
        policy: config.policy,
        facts,
    };
    let mut task =
        HostTask::new(around, config.limits, machine, called, told, Ending(ended.clone()));
    for record in records {
        let session = record.session.clone();
        let rows = store.rows(session.clone()).await?;
        task.start(session, Origin::Restored(Box::new(record), rows));
    }
    drop(spawn(platform.as_ref(), "host", task.run()));
    Ok(Host::new(
        calls,
        platform,
        config.limits,
        ended,
        #[cfg(feature = "native")]
        thread,
    ))
}
