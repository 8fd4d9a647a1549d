//! The host's own thread: one, with a single-threaded runtime, so that an embedder needs none.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::open::open;
use super::{Host, HostConfig, OpenError};
use crate::platform::{SharedPlatform, Watched};
use crate::store::SharedStore;

/// The thread's name, as a debugger shows it.
const THREAD_NAME: &str = "moored-host";

/// The thread of a host; a host that was opened on another's tasks has none.
#[derive(Clone, Default)]
pub(super) struct HostThread(Option<Running>);

#[derive(Clone)]
struct Running {
    left: Watched<bool>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl HostThread {
    /// Waits for the thread's end. The wait itself is a future's; the join that follows it only collects the thread.
    pub(super) async fn join(&self) {
        let Some(running) = &self.0 else { return };
        running.left.wait_for(|left| *left).await;
        let thread = running.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(_)) = thread.map(JoinHandle::join) {
            tracing::error!("the host's thread panicked");
        }
    }
}

impl Host {
    /// Opens a host on a thread of its own. `make` runs on that thread, inside its runtime, and gives what the host
    /// stands on. The thread ends once the host has.
    pub fn open_on_thread<M>(
        config: HostConfig,
        make: M,
    ) -> impl Future<Output = Result<Self, OpenError>> + Send + 'static
    where
        M: FnOnce() -> Result<(SharedPlatform, SharedStore), OpenError> + Send + 'static,
    {
        let (opened, answer) = oneshot::channel();
        let left = Watched::new(false);
        let slot = Arc::new(Mutex::new(None));
        let running = Running { left: left.clone(), thread: Arc::clone(&slot) };
        let started = std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || {
            let _left = Leaving(left);
            live(config, make, HostThread(Some(running)), opened);
        });
        let started = started.map(|thread| {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        });
        async move {
            started.map_err(|error| OpenError::Platform { reason: error.to_string() })?;
            answer.await.unwrap_or_else(|_| {
                Err(OpenError::Platform { reason: "the host's thread ended".to_owned() })
            })
        }
    }
}

fn live<M>(
    config: HostConfig,
    make: M,
    thread: HostThread,
    opened: oneshot::Sender<Result<Host, OpenError>>,
) where
    M: FnOnce() -> Result<(SharedPlatform, SharedStore), OpenError>,
{
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = opened.send(Err(OpenError::Platform { reason: error.to_string() }));
            return;
        }
    };
    runtime.block_on(async move {
        let host = match config.check().and_then(|()| make()) {
            Ok((platform, store)) => open(platform, store, config, thread).await,
            Err(error) => Err(error),
        };
        let ended = host.as_ref().ok().map(Host::ended);
        // An opener that gave up drops the only handle here, and the host ends at once.
        let _ = opened.send(host);
        if let Some(ended) = ended {
            ended.wait_for(Option::is_some).await;
        }
    });
}

/// Says that the thread is about to end, after its runtime is gone.
struct Leaving(Watched<bool>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.update(|left| *left = true);
    }
}
