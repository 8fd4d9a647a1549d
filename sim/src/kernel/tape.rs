//! The tape: an executor whose every decision is a recorded choice.
//!
//! A run alternates between polling ready tasks, one choice a step, and jumping to the next timer once none is ready.
//! Virtual time stands still while tasks run. The loop itself is a value, [`Tape::advance`], so that it runs alone or
//! inside a task of madsim without a difference in the trace.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use moored::platform::{BoxFuture, Mono};

use super::{Ended, Kernel, Outcome, Pick, RunOptions, SharedKernel, caught};
use crate::draws::Draws;
use crate::trace::Trace;

struct Slot {
    name: &'static str,
    scope: u32,
    /// Taken while it is polled.
    future: Option<BoxFuture<()>>,
    waker: Arc<TaskWaker>,
    /// Larger runs first, under [`Pick::Pct`].
    priority: u64,
}

struct TaskWaker {
    id: u32,
    queued: AtomicBool,
    ready: Arc<Mutex<Vec<u32>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            lock(&self.ready).push(self.id);
        }
    }
}

impl TaskWaker {
    /// Its task is gone: it leaves the ready list, and no wake puts it there again.
    fn retire(&self) {
        if self.queued.swap(true, Ordering::Relaxed) {
            lock(&self.ready).retain(|id| *id != self.id);
        }
    }
}

struct State {
    /// By number; none once it is over.
    tasks: Vec<Option<Slot>>,
    /// By time, then by the order of arming.
    timers: BTreeMap<(Mono, u64), Waker>,
    next_timer: u64,
    scopes: u32,
    dead_scopes: BTreeSet<u32>,
    draws: Draws,
    trace: Trace,
    steps: u64,
    /// Steps at which the running task's priority drops, under [`Pick::Pct`].
    drops: BTreeSet<u64>,
    /// The priority of the latest drop; each is lower than all before.
    lowest: u64,
}

impl State {
    /// A task that is not over.
    fn task(&mut self, id: u32) -> Option<&mut Slot> {
        self.tasks.get_mut(id as usize)?.as_mut()
    }
}

struct Shared {
    /// Virtual time, in microseconds: asked for far more often than anything else, so not under the lock.
    now_us: AtomicU64,
    state: Mutex<State>,
    ready: Arc<Mutex<Vec<u32>>>,
    pick: Pick,
}

/// One scope of a tape.
struct TapeKernel {
    shared: Arc<Shared>,
    scope: u32,
}

/// A panic is caught by the executor and ends the run; what it left under a lock is only read for the report.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kernel for TapeKernel {
    fn now(&self) -> Mono {
        self.shared.now()
    }

    fn sleep_until(&self, at: Mono) -> BoxFuture<()> {
        Box::pin(Sleep { shared: Arc::clone(&self.shared), at, armed: None, suspended: false })
    }

    fn spawn(&self, name: &'static str, task: BoxFuture<()>) {
        self.shared.spawn(name, self.scope, task);
    }

    fn child_scope(&self, _name: &str) -> SharedKernel {
        let mut state = lock(&self.shared.state);
        state.scopes += 1;
        Arc::new(Self { shared: Arc::clone(&self.shared), scope: state.scopes })
    }

    fn kill_scope(&self) {
        let dead: Vec<Slot> = {
            let mut state = lock(&self.shared.state);
            state.dead_scopes.insert(self.scope);
            let mine = |slot: &mut Slot| slot.scope == self.scope;
            state.tasks.iter_mut().filter_map(|slot| slot.take_if(mine)).collect()
        };
        dead.iter().for_each(|slot| slot.waker.retire());
        // Dropped without the lock, in the order of their start: a drop may wake, close or spawn.
        drop(dead);
    }

    fn choose(&self, label: &'static str, n: u64) -> u64 {
        lock(&self.shared.state).draws.choose(label, n)
    }

    fn trace(&self, what: &'static str, detail: fmt::Arguments<'_>) {
        lock(&self.shared.state).trace.note(self.shared.now(), what, detail);
    }
}

struct Sleep {
    shared: Arc<Shared>,
    at: Mono,
    /// The number of its timer.
    armed: Option<u64>,
    suspended: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.shared.now() >= this.at {
            if this.suspended {
                return Poll::Ready(());
            }
            this.suspended = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.suspended = true;
        let mut state = lock(&this.shared.state);
        // One timer however often it is polled.
        let number = *this.armed.get_or_insert_with(|| {
            state.next_timer += 1;
            state.next_timer
        });
        match state.timers.entry((this.at, number)) {
            Entry::Occupied(mut armed) => armed.get_mut().clone_from(cx.waker()),
            Entry::Vacant(place) => drop(place.insert(cx.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.armed {
            // Left armed, it would wake its task for nothing and hide a deadlock.
            let waker = lock(&self.shared.state).timers.remove(&(self.at, number));
            drop(waker);
        }
    }
}

/// Priorities start above this, so that every drop is below every start.
const PRIORITY_FLOOR: u64 = u32::MAX as u64;

impl Shared {
    fn new(options: &RunOptions) -> Arc<Self> {
        let mut draws = Draws::new(options.source.clone());
        let mut drops = BTreeSet::new();
        if let Pick::Pct { drops: count, steps } = options.pick {
            drops.extend((0..count).map(|_| draws.choose("schedule.drop_at", steps)));
        }
        Arc::new(Self {
            now_us: AtomicU64::new(Mono::ZERO.0),
            state: Mutex::new(State {
                tasks: Vec::new(),
                timers: BTreeMap::new(),
                next_timer: 0,
                scopes: 0,
                dead_scopes: BTreeSet::new(),
                draws,
                trace: Trace::new(options.keep),
                steps: 0,
                drops,
                lowest: PRIORITY_FLOOR,
            }),
            ready: Arc::default(),
            pick: options.pick,
        })
    }

    fn now(&self) -> Mono {
        // Only the run's own thread writes it.
        Mono(self.now_us.load(Ordering::Relaxed))
    }

    fn spawn(&self, name: &'static str, scope: u32, future: BoxFuture<()>) {
        let mut state = lock(&self.state);
        if state.dead_scopes.contains(&scope) {
            drop(state);
            drop(future);
            return;
        }
        // A run takes fewer steps than this counts.
        let id = u32::try_from(state.tasks.len()).unwrap_or(u32::MAX);
        let priority = match self.pick {
            Pick::Pct { .. } => {
                PRIORITY_FLOOR + 1 + state.draws.choose("schedule.priority", PRIORITY_FLOOR)
            }
            Pick::Fifo | Pick::Random => 0,
        };
        let waker =
            Arc::new(TaskWaker { id, queued: AtomicBool::new(true), ready: self.ready.clone() });
        state.tasks.push(Some(Slot { name, scope, future: Some(future), waker, priority }));
        drop(state);
        lock(&self.ready).push(id);
    }

    /// Takes the next task off the ready list.
    fn next_ready(&self, state: &mut State) -> Option<u32> {
        let mut ready = lock(&self.ready);
        let place = match self.pick {
            _ if ready.is_empty() => return None,
            Pick::Fifo => 0,
            Pick::Random => {
                let place = state.draws.choose("schedule.next", ready.len() as u64);
                usize::try_from(place).unwrap_or(0)
            }
            Pick::Pct { .. } => {
                let mut priority = |place: &usize| state.task(ready[*place]).map(|s| s.priority);
                (0..ready.len()).max_by_key(|place| (priority(place), Reverse(*place)))?
            }
        };
        Some(ready.remove(place))
    }

    /// One step: polls one ready task.
    fn step(&self, steps_max: u64) -> Result<Step, (&'static str, String)> {
        let mut state = lock(&self.state);
        if state.steps >= steps_max {
            return Ok(Step::OneTooMany);
        }
        let Some(id) = self.next_ready(&mut state) else { return Ok(Step::NoneReady) };
        state.steps += 1;
        let steps = state.steps;
        let drops = state.drops.contains(&steps);
        state.lowest -= u64::from(drops);
        let lowest = state.lowest;
        let Some(slot) = state.task(id) else { return Ok(Step::Suspended) };
        if drops {
            slot.priority = lowest;
        }
        slot.waker.queued.store(false, Ordering::Relaxed);
        let (name, waker) = (slot.name, Waker::from(Arc::clone(&slot.waker)));
        let Some(mut future) = slot.future.take() else { return Ok(Step::Suspended) };
        state.trace.note_step(self.now(), name, id);
        drop(state);
        let polled = caught(|| future.as_mut().poll(&mut Context::from_waker(&waker)));
        let mut state = lock(&self.state);
        match (&polled, state.task(id)) {
            (Ok(Poll::Pending), Some(slot)) => {
                slot.future = Some(future);
                return Ok(Step::Suspended);
            }
            _ => {
                // It has ended, or its scope was killed while it ran.
                let slot = state.tasks.get_mut(id as usize).and_then(Option::take);
                drop(state);
                if let Some(slot) = &slot {
                    slot.waker.retire();
                }
                drop((slot, future));
            }
        }
        polled.map(|_| Step::Ended).map_err(|words| (name, words))
    }

    /// Jumps to the next timer and fires what is due.
    fn fire(&self, to: Mono) {
        self.now_us.fetch_max(to.0, Ordering::Relaxed);
        loop {
            let waker = {
                let mut state = lock(&self.state);
                match state.timers.first_entry() {
                    Some(timer) if timer.key().0 <= to => Some(timer.remove()),
                    _ => None,
                }
            };
            match waker {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }
}

/// What a step came to.
enum Step {
    /// The task is over, by itself or with its scope.
    Ended,
    NoneReady,
    /// The limit on steps was reached before it.
    OneTooMany,
    Suspended,
}

/// What the loop around a tape does next.
pub(super) enum Next<T> {
    /// Let virtual time reach this, and call again.
    Sleep(Mono),
    /// The run is over.
    Over(Ended<T>),
}

/// A run on the tape.
pub(super) struct Tape<T> {
    shared: Arc<Shared>,
    result: Arc<Mutex<Option<T>>>,
    limits: (u64, Mono),
}

impl<T: Send + 'static> Tape<T> {
    pub(super) fn start<F>(options: &RunOptions, body: F) -> Self
    where
        F: FnOnce(SharedKernel) -> BoxFuture<T>,
    {
        let shared = Shared::new(options);
        let result: Arc<Mutex<Option<T>>> = Arc::default();
        let future = body(Arc::new(TapeKernel { shared: Arc::clone(&shared), scope: 0 }));
        let place = Arc::clone(&result);
        let main = async move {
            let value = future.await;
            *lock(&place) = Some(value);
        };
        shared.spawn("main", 0, Box::pin(main));
        Self { shared, result, limits: (options.steps_max, Mono::from_ms(options.virtual_ms_max)) }
    }

    /// Fires the timers due at `now` and runs until nothing is ready.
    pub(super) fn advance(&self, now: Mono) -> Next<T> {
        self.shared.fire(now);
        loop {
            match self.shared.step(self.limits.0) {
                Ok(Step::Suspended) => {}
                Ok(Step::Ended) => {
                    if let Some(value) = lock(&self.result).take() {
                        return Next::Over(Ended::Finished(value));
                    }
                }
                Ok(Step::NoneReady) => break,
                Ok(Step::OneTooMany) => return Next::Over(Ended::TooManySteps),
                Err((task, words)) => return Next::Over(Ended::Panicked { task, words }),
            }
        }
        let state = lock(&self.shared.state);
        match state.timers.keys().next() {
            Some((at, _)) if *at <= self.limits.1 => Next::Sleep(*at),
            Some(_) => Next::Over(Ended::TooMuchTime),
            None => Next::Over(Ended::Deadlock {
                waiting: state.tasks.iter().flatten().map(|slot| slot.name).collect(),
            }),
        }
    }

    pub(super) fn finish(self, ended: Ended<T>) -> Outcome<T> {
        // Tasks hold the kernel, which holds the tasks: the circle is broken here. A drop may spawn again.
        loop {
            let tasks = std::mem::take(&mut lock(&self.shared.state).tasks);
            if tasks.is_empty() {
                break;
            }
            drop(tasks);
        }
        let timers = std::mem::take(&mut lock(&self.shared.state).timers);
        drop(timers);
        let mut state = lock(&self.shared.state);
        let draws = std::mem::replace(&mut state.draws, Draws::new(crate::draws::Source::Benign));
        let trace = std::mem::replace(&mut state.trace, Trace::new(Default::default()));
        let now = self.shared.now();
        Outcome { ended, tape: draws.into_tape(), trace, steps: state.steps, now }
    }
}

/// The tape alone.
pub(super) fn run<T, F>(options: RunOptions, body: F) -> Outcome<T>
where
    T: Send + 'static,
    F: FnOnce(SharedKernel) -> BoxFuture<T>,
{
    let tape = Tape::start(&options, body);
    let mut now = Mono::ZERO;
    loop {
        match tape.advance(now) {
            Next::Sleep(until) => now = until,
            Next::Over(ended) => return tape.finish(ended),
        }
    }
}
