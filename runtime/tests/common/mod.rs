//! A tiny world for the driver's tests: one thread, time that jumps to the next timer, and agents that are tasks.
//!
//! Nothing in it is random and nothing waits for a real clock: a test that hangs ends with a panic that says so.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that meets a poisoned lock has failed already")]

pub mod agent;
pub mod host;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use moored::coverage::CoverageMark;
use moored::platform::{
    BoxFuture, ChildIdentity, ChildSpec, Exit, FilePattern, FileTail, Mono, ORDERS_MAX, Order,
    Platform, ProcessIdentity, ProofKind, Report, Signal, SpawnError, SpawnedChild, TaskError,
    spawn,
};
use tokio::sync::mpsc;

/// Bytes a pipe holds before its writer waits.
const PIPE_BYTES: usize = 64 * 1024;
/// The world's wall clock at its start.
const WALL_MS: u64 = 1_700_000_000_000;
/// The task a test's own future is.
const MAIN: u64 = 0;

#[derive(Default)]
struct State {
    now: Mono,
    last_id: u64,
    tasks: BTreeMap<u64, BoxFuture<()>>,
    timers: BTreeMap<(Mono, u64), Waker>,
    last_pid: u32,
}

#[derive(Default)]
struct Ready {
    queue: VecDeque<u64>,
    queued: BTreeSet<u64>,
}

/// The world. Clones are the same one.
#[derive(Clone, Default)]
pub struct World {
    state: Arc<Mutex<State>>,
    ready: Arc<Mutex<Ready>>,
    minted: Arc<AtomicUsize>,
    pub seen: Arc<Mutex<agent::Seen>>,
    /// The next fresh bytes are a fault of our own.
    pub entropy_fails: Arc<AtomicBool>,
    /// Every mark that was told, as often as it was told.
    pub met: Arc<Mutex<Vec<CoverageMark>>>,
}

struct Ring {
    task: u64,
    ready: Arc<Mutex<Ready>>,
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.lock().unwrap();
        if ready.queued.insert(self.task) {
            ready.queue.push_back(self.task);
        }
    }
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn waker(&self, task: u64) -> Waker {
        Arc::new(Ring { task, ready: Arc::clone(&self.ready) }).into()
    }

    fn pop_ready(&self) -> Option<u64> {
        let mut ready = self.ready.lock().unwrap();
        let task = ready.queue.pop_front()?;
        ready.queued.remove(&task);
        Some(task)
    }

    /// Runs the world until `story` is told.
    pub fn tell<T>(&self, story: impl Future<Output = T>) -> T {
        let mut story = pin!(story);
        self.waker(MAIN).wake();
        loop {
            while let Some(task) = self.pop_ready() {
                let waker = self.waker(task);
                let mut context = Context::from_waker(&waker);
                if task == MAIN {
                    if let Poll::Ready(told) = story.as_mut().poll(&mut context) {
                        return told;
                    }
                } else {
                    self.step(task, &mut context);
                }
            }
            self.jump();
        }
    }

    fn step(&self, task: u64, context: &mut Context<'_>) {
        // Taken out while it runs: it may start others.
        let Some(mut future) = self.state().tasks.remove(&task) else { return };
        if future.as_mut().poll(context).is_pending() {
            self.state().tasks.insert(task, future);
        }
    }

    /// Time goes on to the next timer.
    fn jump(&self) {
        let waker = {
            let mut state = self.state();
            let Some(((at, _), waker)) = state.timers.pop_first() else {
                panic!("everybody waits and no timer is armed: the story hangs");
            };
            state.now = state.now.max(at);
            waker
        };
        waker.wake();
    }

    /// Tasks that have not ended.
    pub fn tasks(&self) -> usize {
        self.state().tasks.len()
    }

    /// Milliseconds since the world's start.
    pub fn now_ms(&self) -> u64 {
        self.state().now.as_ms()
    }

    /// Lets everything happen that takes no longer than this.
    pub async fn pass_ms(&self, ms: u64) {
        moored::platform::sleep_ms(self, ms).await;
    }
}

impl Platform for World {
    fn now(&self) -> Mono {
        self.state().now
    }

    fn wall_ms(&self) -> u64 {
        WALL_MS + self.now_ms()
    }

    fn sleep_until(&self, at: Mono) -> BoxFuture<()> {
        let world = self.clone();
        let id = {
            let mut state = self.state();
            state.last_id += 1;
            state.last_id
        };
        Box::pin(std::future::poll_fn(move |cx| {
            let mut state = world.state();
            if state.now >= at {
                state.timers.remove(&(at, id));
                return Poll::Ready(());
            }
            state.timers.insert((at, id), cx.waker().clone());
            Poll::Pending
        }))
    }

    fn met(&self, mark: CoverageMark) {
        self.met.lock().unwrap().push(mark);
    }

    fn spawn_task(&self, _name: &'static str, task: BoxFuture<()>) {
        let id = {
            let mut state = self.state();
            state.last_id += 1;
            let id = state.last_id;
            state.tasks.insert(id, task);
            id
        };
        self.waker(id).wake();
    }

    fn spawn_child(&self, spec: ChildSpec) -> BoxFuture<Result<SpawnedChild, SpawnError>> {
        let world = self.clone();
        Box::pin(async move { start(&world, spec) })
    }

    fn read_tail(&self, _: FilePattern, _: u64) -> BoxFuture<FileTail> {
        Box::pin(async { FileTail::Missing })
    }
    fn entropy(&self) -> [u8; 16] {
        assert!(!self.entropy_fails.load(Ordering::Relaxed), "a fault on purpose");
        let n = self.minted.fetch_add(1, Ordering::Relaxed) as u128 + 1;
        n.to_be_bytes()
    }
}

fn start(world: &World, spec: ChildSpec) -> Result<SpawnedChild, SpawnError> {
    let program = spec.argv.first().cloned().unwrap_or_default();
    if program != "agent" {
        return Err(SpawnError::NotFound { program });
    }
    let (stdin, agent_stdin) = tokio::io::duplex(PIPE_BYTES);
    let (agent_stdout, stdout) = tokio::io::duplex(PIPE_BYTES);
    let (agent_stderr, stderr) = tokio::io::duplex(PIPE_BYTES);
    let (orders, ordered) = mpsc::channel(ORDERS_MAX);
    let (reports, reported) = mpsc::channel(ORDERS_MAX);
    let pid = {
        let mut state = world.state();
        state.last_pid += 1;
        state.last_pid
    };
    let body = agent::live(
        world.clone(),
        spec.argv,
        Box::pin(agent_stdin),
        Box::pin(agent_stdout),
        Box::pin(agent_stderr),
    );
    world.spawn_task("supervisor", Box::pin(supervise(world.clone(), body, ordered, reports)));
    let identity = ChildIdentity {
        root: ProcessIdentity { pid, start: 1 },
        supervisor: None,
        boot: "one".to_owned(),
        proof: ProofKind::Subreaper,
    };
    let (stdin, stdout, stderr) = (Box::pin(stdin), Box::pin(stdout), Box::pin(stderr));
    Ok(SpawnedChild { identity, stdin, stdout, stderr, orders, reports: reported })
}

/// Obeys and reports, as a real supervisor does.
async fn supervise(
    world: World,
    body: BoxFuture<i32>,
    mut ordered: mpsc::Receiver<Order>,
    reports: mpsc::Sender<Report>,
) {
    enum Next {
        Ended(Result<i32, TaskError>),
        Ordered(Option<Order>),
    }
    let mut agent = Some(spawn(&world, "agent", body));
    let mut signalled = None;
    loop {
        let next = std::future::poll_fn(|cx| {
            if let Some(running) = &mut agent
                && let Poll::Ready(ended) = pin!(running).poll(cx)
            {
                return Poll::Ready(Next::Ended(ended));
            }
            ordered.poll_recv(cx).map(Next::Ordered)
        })
        .await;
        let report = match next {
            Next::Ended(ended) => {
                agent = None;
                let code = ended.unwrap_or_default();
                Report::Exited { exit: signalled.map_or(Exit::Code(code), Exit::Signal) }
            }
            Next::Ordered(Some(Order::Signal { signal })) => {
                let number = match signal {
                    Signal::Term => 15,
                    Signal::Kill => 9,
                };
                let delivered = agent.is_some();
                if let Some(agent) = &agent {
                    signalled = Some(number);
                    world.seen.lock().unwrap().signals.push(number);
                    agent.abort_handle().abort();
                }
                Report::Signalled { signal, delivered }
            }
            Next::Ordered(Some(Order::Sweep { .. })) => {
                Report::Swept { empty: true, survivors: Vec::new() }
            }
            Next::Ordered(Some(Order::Release)) => return,
            // The host is gone. The agent has read the end of its stdin.
            Next::Ordered(None) => {
                if let Some(agent) = agent.take() {
                    let _ = agent.await;
                }
                return;
            }
        };
        let _ = reports.send(report).await;
    }
}
