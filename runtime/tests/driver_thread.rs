//! A host on a thread of its own: usable from any thread, without a runtime of the caller's.

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use common::host::{message, person};
use moored::agent::AgentDefinition;
use moored::driver::{Host, HostConfig, OpenError};
use moored::failure::RefusalCode;
use moored::host::NewSession;
use moored::platform::{
    BoxFuture, ChildSpec, FilePattern, FileTail, Mono, Platform, SharedPlatform, SpawnError,
    SpawnedChild,
};
use moored::store::SharedStore;
use moored::store::memory::{MemoryDisk, MemoryStore, NoFaults};
use tokio::runtime::Handle;

/// The host's own runtime, and nothing of the machine but its tasks.
struct Bare(Handle);

impl Platform for Bare {
    fn now(&self) -> Mono {
        Mono::ZERO
    }
    fn wall_ms(&self) -> u64 {
        1_700_000_000_000
    }
    fn sleep_until(&self, _: Mono) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }
    fn spawn_task(&self, _: &'static str, task: BoxFuture<()>) {
        drop(self.0.spawn(task));
    }
    fn spawn_child(&self, _: ChildSpec) -> BoxFuture<Result<SpawnedChild, SpawnError>> {
        Box::pin(async { Err(SpawnError::Unidentified) })
    }
    fn read_tail(&self, _: FilePattern, _: u64) -> BoxFuture<FileTail> {
        Box::pin(async { FileTail::Missing })
    }
    fn entropy(&self) -> [u8; 16] {
        use std::sync::atomic::{AtomicU64, Ordering};
        static MINTED: AtomicU64 = AtomicU64::new(1);
        u128::from(MINTED.fetch_add(1, Ordering::Relaxed)).to_be_bytes()
    }
}

/// The plainest executor there is.
fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    #[expect(clippy::disallowed_methods, reason = "this test is about real threads")]
    let waker: Waker = Arc::new(Unpark(std::thread::current())).into();
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn make(disk: &MemoryDisk) -> Result<(SharedPlatform, SharedStore), OpenError> {
    let (store, writer) = MemoryStore::open(disk, "a host", Arc::new(NoFaults))?;
    let platform = Bare(Handle::current());
    platform.spawn_task("store", writer);
    Ok((Arc::new(platform), Arc::new(store)))
}

fn open(disk: &MemoryDisk) -> Result<Host, OpenError> {
    let disk = disk.clone();
    wait(Host::open_on_thread(HostConfig::default(), move || make(&disk)))
}

#[test]
fn it_is_called_from_several_threads_and_joined_at_its_end() {
    let disk = MemoryDisk::default();
    let host = open(&disk).unwrap();
    std::thread::scope(|threads| {
        for n in 0..4 {
            let host = host.clone();
            threads.spawn(move || {
                let new = NewSession {
                    id: format!("s{n}").into(),
                    agent: AgentDefinition::generic(vec!["agent".to_owned()]),
                    workspace: "/work".to_owned(),
                };
                let id = new.id.clone();
                wait(host.create(new, person(&host))).unwrap();
                wait(host.close(&id, person(&host))).unwrap();
            });
        }
    });
    wait(host.shutdown()).unwrap();
    let refused = wait(host.send(&"s0".into(), message("m", "hi"), person(&host))).unwrap_err();
    assert_eq!(refused.code, RefusalCode::Quitting);
    // The store went with the thread: the disk is free again at once.
    wait(open(&disk).unwrap().shutdown()).unwrap();
}

#[test]
fn what_cannot_be_opened_says_why_and_leaves_no_thread() {
    let disk = MemoryDisk::default();
    let host = open(&disk).unwrap();
    let mut config = HostConfig::default();
    config.policy.ladder.eof_grace_ms = 1;
    let other = disk.clone();
    let refused = wait(Host::open_on_thread(config, move || make(&other))).unwrap_err();
    assert!(matches!(refused, OpenError::Policy { .. }));
    wait(host.shutdown()).unwrap();
}
