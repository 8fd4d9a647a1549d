//! What a document lets go wrong.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::document::Fault;

/// What is wrong now. The rest of the faults strike processes, and are over at once.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    store_refuses: AtomicBool,
    signals_refused: AtomicBool,
}

impl Faults {
    /// Takes a fault that lasts; whether it is one.
    pub(crate) fn set(&self, fault: Fault) -> bool {
        let (which, holds) = match fault {
            Fault::StoreRefuses => (&self.store_refuses, true),
            Fault::StoreHeals => (&self.store_refuses, false),
            Fault::SignalsRefused => (&self.signals_refused, true),
            Fault::SignalsTaken => (&self.signals_refused, false),
            Fault::AgentFrozen | Fault::AgentKilled | Fault::SupervisorFrozen => return false,
        };
        which.store(holds, Ordering::SeqCst);
        true
    }

    /// Whether the store refuses writes.
    pub(crate) fn store_refuses(&self) -> bool {
        self.store_refuses.load(Ordering::SeqCst)
    }

    /// Whether signals of the host's are refused.
    pub(crate) fn signals_refused(&self) -> bool {
        self.signals_refused.load(Ordering::SeqCst)
    }
}

#[cfg(feature = "native")]
pub(crate) use refusing::RefusingStore;

#[cfg(feature = "native")]
mod refusing {
    use std::sync::Arc;

    use moored::ids::SessionId;
    use moored::platform::BoxFuture;
    use moored::store::{
        Refusal, RetryReason, SharedStore, Store, StoreError, StoreImage, StoredRows, Unit,
    };

    use super::Faults;

    /// A real store that refuses writes while it is told to. What is built on a refused unit is refused by the store
    /// itself: its rows do not follow the last stored one.
    pub(crate) struct RefusingStore {
        pub(crate) inner: SharedStore,
        pub(crate) faults: Arc<Faults>,
    }

    impl Store for RefusingStore {
        fn submit(&self, unit: Unit) -> BoxFuture<Result<(), Refusal>> {
            if self.faults.store_refuses() {
                let refusal = Refusal::Retry { reason: RetryReason::Full };
                return Box::pin(std::future::ready(Err(refusal)));
            }
            self.inner.submit(unit)
        }

        fn load(&self) -> BoxFuture<Result<StoreImage, StoreError>> {
            self.inner.load()
        }

        fn rows(&self, session: SessionId) -> BoxFuture<Result<StoredRows, StoreError>> {
            self.inner.rows(session)
        }
    }
}
