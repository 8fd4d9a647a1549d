//! The kernels inside madsim: its own scheduler with one node a process, and the tape in one of its tasks.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use madsim::runtime::{Handle, NodeHandle, Runtime};
use madsim::time::TimeHandle;
use moored::platform::{BoxFuture, Mono};

use super::tape::{Next, Tape};
use super::{Ended, Kernel, Outcome, RunOptions, SharedKernel, caught};
use crate::draws::{Draws, Source};
use crate::trace::Trace;

/// madsim arms no timer shorter than this; shorter gaps are stepped over.
const TIMER_FLOOR: Duration = Duration::from_millis(1);

fn runtime(seed: u64) -> Runtime {
    Runtime::with_seed_and_config(seed, madsim::Config::default())
}

/// The tape decides who runs; madsim owns the clock everybody else would read.
pub(super) fn run_tape<T, F>(options: RunOptions, body: F) -> Outcome<T>
where
    T: Send + 'static,
    F: FnOnce(SharedKernel) -> BoxFuture<T>,
{
    runtime(options.madsim_seed).block_on(async move {
        let clock = TimeHandle::current();
        let started = clock.elapsed();
        let tape = Tape::start(&options, body);
        let mut now = Mono::ZERO;
        loop {
            match tape.advance(now) {
                Next::Sleep(until) => {
                    now = until;
                    let gap = Duration::from_micros(until.0)
                        .saturating_sub(clock.elapsed().saturating_sub(started));
                    if gap >= TIMER_FLOOR {
                        madsim::time::sleep(gap).await;
                    } else {
                        madsim::time::advance(gap);
                    }
                }
                Next::Over(ended) => return tape.finish(ended),
            }
        }
    })
}

struct Record {
    draws: Draws,
    trace: Trace,
    steps: u64,
    steps_max: u64,
    /// Woken when the limit on steps is reached; from then on no task runs.
    at_limit: Option<Waker>,
    /// Timers that somebody waits for: none at the limit of time means that everybody waited for nothing.
    sleeping: u64,
    nodes: Vec<NodeHandle>,
    panic: Option<(&'static str, String)>,
}

type SharedRecord = Arc<Mutex<Record>>;

fn lock(record: &SharedRecord) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One node.
struct MadsimKernel {
    node: NodeHandle,
    record: SharedRecord,
}

fn node(record: &SharedRecord, name: &str) -> SharedKernel {
    let node = Handle::current().create_node().name(name).build();
    lock(record).nodes.push(node.clone());
    Arc::new(MadsimKernel { node, record: Arc::clone(record) })
}

fn now() -> Mono {
    let us = TimeHandle::current().elapsed().as_micros();
    Mono(u64::try_from(us).unwrap_or(u64::MAX))
}

impl Kernel for MadsimKernel {
    fn now(&self) -> Mono {
        now()
    }

    fn sleep_until(&self, at: Mono) -> BoxFuture<()> {
        let record = Arc::clone(&self.record);
        Box::pin(Sleep { record, at, armed: None, suspended: false })
    }

    fn spawn(&self, name: &'static str, task: BoxFuture<()>) {
        if Handle::current().is_exit(self.node.id()) {
            return;
        }
        drop(self.node.spawn(Counted { name, task, record: Arc::clone(&self.record) }));
    }

    fn child_scope(&self, name: &str) -> SharedKernel {
        node(&self.record, name)
    }

    fn kill_scope(&self) {
        Handle::current().kill(self.node.id());
    }

    fn choose(&self, label: &'static str, n: u64) -> u64 {
        lock(&self.record).draws.choose(label, n)
    }

    fn trace(&self, what: &'static str, detail: fmt::Arguments<'_>) {
        lock(&self.record).trace.note(now(), what, detail);
    }
}

/// madsim's sleep arms a new timer at every poll; this arms one a waker, and rounds up so that it never comes early.
struct Sleep {
    record: SharedRecord,
    at: Mono,
    armed: Option<(madsim::time::Sleep, Waker)>,
    suspended: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let now = now();
        if now >= this.at {
            if this.suspended {
                return Poll::Ready(());
            }
            this.suspended = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.suspended = true;
        if this.armed.as_ref().is_some_and(|(_, waker)| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        if this.armed.is_none() {
            lock(&this.record).sleeping += 1;
        }
        let gap = Duration::from_micros(this.at.0 - now.0 + 1).max(TIMER_FLOOR);
        let mut timer = TimeHandle::current().sleep(gap);
        let polled = Pin::new(&mut timer).poll(cx);
        this.armed = Some((timer, cx.waker().clone()));
        polled
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if self.armed.is_some() {
            lock(&self.record).sleeping -= 1;
        }
    }
}

/// A task whose steps are counted and whose panic is kept.
struct Counted {
    name: &'static str,
    task: BoxFuture<()>,
    record: SharedRecord,
}

impl Future for Counted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        {
            let mut record = lock(&this.record);
            if record.steps >= record.steps_max || record.panic.is_some() {
                let waker = record.at_limit.take();
                drop(record);
                if let Some(waker) = waker {
                    waker.wake();
                }
                return Poll::Pending;
            }
            record.steps += 1;
        }
        match caught(|| this.task.as_mut().poll(cx)) {
            Ok(polled) => polled,
            Err(words) => {
                let mut record = lock(&this.record);
                record.panic = Some((this.name, words));
                let waker = record.at_limit.take();
                drop(record);
                if let Some(waker) = waker {
                    waker.wake();
                }
                Poll::Ready(())
            }
        }
    }
}

/// madsim's own scheduler decides who runs.
pub(super) fn run_plain<T, F>(options: RunOptions, body: F) -> Outcome<T>
where
    T: Send + 'static,
    F: FnOnce(SharedKernel) -> BoxFuture<T>,
{
    let record = Arc::new(Mutex::new(Record {
        draws: Draws::new(options.source),
        trace: Trace::new(options.keep),
        steps: 0,
        steps_max: options.steps_max,
        at_limit: None,
        sleeping: 0,
        nodes: Vec::new(),
        panic: None,
    }));
    let virtual_max = Duration::from_millis(options.virtual_ms_max);
    let kept = Arc::clone(&record);
    let (ended, now) = runtime(options.madsim_seed).block_on(async move {
        let ended = race(&record, virtual_max, body).await;
        let now = now();
        // What is pending when a madsim run ends would leak; a killed node's tasks are dropped at their next step.
        let nodes = std::mem::take(&mut lock(&record).nodes);
        for node in &nodes {
            Handle::current().kill(node.id());
        }
        madsim::time::sleep(TIMER_FLOOR).await;
        (ended, now)
    });
    let mut record = lock(&kept);
    let draws = std::mem::replace(&mut record.draws, Draws::new(Source::Benign));
    let trace = std::mem::replace(&mut record.trace, Trace::new(Default::default()));
    Outcome { ended, tape: draws.into_tape(), trace, steps: record.steps, now }
}

async fn race<T, F>(record: &SharedRecord, virtual_max: Duration, body: F) -> Ended<T>
where
    T: Send + 'static,
    F: FnOnce(SharedKernel) -> BoxFuture<T>,
{
    let root = node(record, "root");
    let result: Arc<Mutex<(Option<T>, Option<Waker>)>> = Arc::new(Mutex::new((None, None)));
    let (main, place) = (body(Arc::clone(&root)), Arc::clone(&result));
    root.spawn(
        "main",
        Box::pin(async move {
            let value = main.await;
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            place.0 = Some(value);
            if let Some(waker) = place.1.take() {
                waker.wake();
            }
        }),
    );
    let mut limit = std::pin::pin!(madsim::time::sleep(virtual_max));
    let mut limit_armed = false;
    poll_fn(move |cx| {
        let mut place = result.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = place.0.take() {
            return Poll::Ready(Ended::Finished(value));
        }
        place.1 = Some(cx.waker().clone());
        let mut record = lock(record);
        if let Some((task, words)) = record.panic.take() {
            return Poll::Ready(Ended::Panicked { task, words });
        }
        if record.steps >= record.steps_max {
            return Poll::Ready(Ended::TooManySteps);
        }
        record.at_limit = Some(cx.waker().clone());
        let nobody_sleeps = record.sleeping == 0;
        drop(record);
        if !limit_armed || limit.is_elapsed() {
            limit_armed = true;
            if limit.as_mut().poll(cx).is_ready() {
                return Poll::Ready(match nobody_sleeps {
                    true => Ended::Deadlock { waiting: Vec::new() },
                    false => Ended::TooMuchTime,
                });
            }
        }
        Poll::Pending
    })
    .await
}
