//! The kernel: the seven functions a world stands on, and the runs that bring them.
//!
//! Two kernels. The *tape* picks who runs next from the recorded choices; it runs alone, or inside one task of madsim,
//! with the same trace to the bit. The *madsim* kernel leaves that to madsim's own scheduler, one node a simulated
//! process: the same world, another distribution of schedules.

#[cfg(madsim)]
mod madsim;
mod tape;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use moored::platform::{BoxFuture, Mono};
use serde::{Deserialize, Serialize};

use crate::draws::{Source, Tape};
use crate::trace::{Keep, Trace};

/// A kernel, as the world holds it.
pub type SharedKernel = Arc<dyn Kernel>;

/// What a world stands on. Each handle belongs to one scope, which is one simulated process.
pub trait Kernel: Send + Sync + 'static {
    /// Virtual time.
    fn now(&self) -> Mono;

    /// Resolves at or after `at`, and never without suspending once.
    fn sleep_until(&self, at: Mono) -> BoxFuture<()>;

    /// Runs a task in this scope. In a killed scope the task is dropped.
    fn spawn(&self, name: &'static str, task: BoxFuture<()>);

    /// A scope of its own. It is not killed with this one.
    fn child_scope(&self, name: &str) -> SharedKernel;

    /// Ends this scope: none of its tasks takes another step. They are dropped at once, on madsim's scheduler at the
    /// step they would have taken; the running one is dropped when its step ends.
    fn kill_scope(&self);

    /// A number below `n`; 0 is the benign one.
    fn choose(&self, label: &'static str, n: u64) -> u64;

    /// Notes an event.
    fn trace(&self, what: &'static str, detail: fmt::Arguments<'_>);
}

impl dyn Kernel {
    /// Resolves after `us` microseconds, and never without suspending once.
    pub fn sleep_us(&self, us: u64) -> BoxFuture<()> {
        self.sleep_until(Mono(self.now().0.saturating_add(us)))
    }

    /// A fault that happens once in `one_in` times; never for 0.
    pub fn one_in(&self, label: &'static str, one_in: u64) -> bool {
        one_in > 0 && self.choose(label, one_in.max(2)) == one_in.max(2) - 1
    }
}

/// Which kernel a run stands on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelKind {
    /// madsim's own scheduler, one node a simulated process.
    Madsim,
    /// The tape alone.
    #[default]
    Tape,
    /// The tape inside one task of madsim, which intercepts clocks, entropy and threads.
    TapeInMadsim,
}

impl KernelKind {
    /// The kernels this build has.
    pub const fn available() -> &'static [Self] {
        if cfg!(madsim) { &[Self::Tape, Self::TapeInMadsim, Self::Madsim] } else { &[Self::Tape] }
    }
}

impl fmt::Display for KernelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Madsim => "madsim",
            Self::Tape => "tape",
            Self::TapeInMadsim => "tape in madsim",
        })
    }
}

/// How the tape picks the next task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// In the order they became ready.
    Fifo,
    /// By random priorities that drop at a few random steps: few preemptions, in odd places.
    Pct {
        /// How many drops.
        drops: u32,
        /// The steps among which they fall.
        steps: u64,
    },
    /// Any ready task.
    #[default]
    Random,
}

/// The name of a run's thread. A panic there is the run's outcome; a program may keep its hook from printing it too.
pub const RUN_THREAD_NAME: &str = "simulated run";
/// Steps after which a run is ended as too long.
pub const STEPS_MAX: u64 = 5_000_000;
/// Virtual time after which a run is ended as too long: a day.
pub const VIRTUAL_MS_MAX: u64 = 24 * 60 * 60 * 1_000;
/// Stack of the thread of one run.
const STACK_BYTES: usize = 512 * 1024;
/// Stack of a thread that makes many runs, and does more than that.
const MANY_STACK_BYTES: usize = 2 * 1024 * 1024;

/// How one run is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// What it stands on.
    pub kernel: KernelKind,
    /// Where its choices come from.
    pub source: Source,
    /// Seeds madsim; on its own scheduler this is the schedule. The tape does not need it.
    pub madsim_seed: u64,
    /// How the tape picks; unused on madsim's scheduler.
    pub pick: Pick,
    /// What of its trace is kept.
    pub keep: Keep,
    /// Its limit on steps.
    pub steps_max: u64,
    /// Its limit on virtual time.
    pub virtual_ms_max: u64,
    /// Make it on the calling thread, if it is on the tape: a thread's start and end, and the heap that ends with it, are a
    /// sixth of a short run. Nothing of ours depends on its thread; an embedder's own hash maps might, so it is not stock.
    pub in_place: bool,
}

impl RunOptions {
    /// A seed on a kernel, with the stock limits.
    pub const fn seed(kernel: KernelKind, seed: u64) -> Self {
        Self {
            kernel,
            source: Source::seed(seed),
            madsim_seed: seed,
            pick: Pick::Random,
            keep: Keep::Hashes,
            steps_max: STEPS_MAX,
            virtual_ms_max: VIRTUAL_MS_MAX,
            in_place: false,
        }
    }

    /// A tape replayed on the tape kernel.
    pub fn replay(tape: Tape) -> Self {
        Self { source: Source::replay(tape), ..Self::seed(KernelKind::Tape, 0) }
    }

    /// The run in which nothing strays.
    pub fn benign() -> Self {
        Self { source: Source::Benign, ..Self::seed(KernelKind::Tape, 0) }
    }

    /// The same run with its lines kept.
    #[must_use]
    pub fn keeping(self, keep: Keep) -> Self {
        Self { keep, ..self }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// Nothing was ready and no timer was armed: these tasks would wait for ever.
    Deadlock {
        /// The names of the waiting tasks, in the order they were started. madsim's scheduler does not name them.
        waiting: Vec<&'static str>,
    },
    /// The body returned.
    Finished(T),
    /// A task panicked outside the layer's own tasks.
    Panicked {
        /// Which.
        task: &'static str,
        /// Its words.
        words: String,
    },
    /// The limit on steps was reached: something spins.
    TooManySteps,
    /// The limit on virtual time was reached.
    TooMuchTime,
}

/// What a run left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<T> {
    /// How it ended.
    pub ended: Ended<T>,
    /// Its choices.
    pub tape: Tape,
    /// Its trace.
    pub trace: Trace,
    /// How many steps its tasks took.
    pub steps: u64,
    /// How much virtual time passed.
    pub now: Mono,
}

impl<T> Ended<T> {
    /// What went wrong, in a sentence; none if the body returned.
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::Finished(_) => None,
            Self::Deadlock { waiting } => {
                Some(format!("nothing can happen any more; {} wait", waiting.join(", ")))
            }
            Self::Panicked { task, words } => Some(format!("the task {task} panicked: {words}")),
            Self::TooManySteps => Some("the run takes too many steps".to_owned()),
            Self::TooMuchTime => Some("the run takes more than a day".to_owned()),
        }
    }
}

impl<T> Outcome<T> {
    /// The body's value.
    ///
    /// # Panics
    ///
    /// If the run ended otherwise, with how it ended.
    pub fn finished(self) -> T {
        match self.ended {
            Ended::Finished(value) => value,
            Ended::Deadlock { waiting } => panic!("the run is deadlocked: {waiting:?} wait"),
            Ended::Panicked { task, words } => panic!("the task {task} panicked: {words}"),
            Ended::TooManySteps => panic!("the run took more than {} steps", self.steps),
            Ended::TooMuchTime => panic!("the run passed {} ms", self.now.as_ms()),
        }
    }
}

/// Why a run could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The build lacks the kernel.
    #[error("this build has no {0} kernel; build with --cfg madsim, or choose the tape")]
    NoSuchKernel(KernelKind),
    /// The operating system gives no thread.
    #[error("no thread could be started for a run ({0})")]
    NoThread(String),
}

/// A thread to make many runs on, [in place](RunOptions::in_place).
pub fn run_thread() -> std::thread::Builder {
    std::thread::Builder::new().name(RUN_THREAD_NAME.to_owned()).stack_size(MANY_STACK_BYTES)
}

/// Runs `body` in a world of its own, on a thread of its own: what the standard library keeps per thread (the keys of
/// its hash maps advance with every map) must not carry over from one run to the next.
pub fn run<T, F>(options: RunOptions, body: F) -> Result<Outcome<T>, RunError>
where
    T: Send + 'static,
    F: FnOnce(SharedKernel) -> BoxFuture<T> + Send + 'static,
{
    if !KernelKind::available().contains(&options.kernel) {
        return Err(RunError::NoSuchKernel(options.kernel));
    }
    if options.in_place && options.kernel == KernelKind::Tape {
        return Ok(run_here(options, body));
    }
    let thread = std::thread::Builder::new()
        .name(RUN_THREAD_NAME.to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || run_here(options, body))
        .map_err(|error| RunError::NoThread(error.to_string()))?;
    // The kernels catch what a body panics with; a panic that gets here is the simulator's own fault.
    Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn run_here<T, F>(options: RunOptions, body: F) -> Outcome<T>
where
    T: Send + 'static,
    F: FnOnce(SharedKernel) -> BoxFuture<T> + Send + 'static,
{
    match options.kernel {
        #[cfg(madsim)]
        KernelKind::Madsim => madsim::run_plain(options, body),
        #[cfg(madsim)]
        KernelKind::TapeInMadsim => madsim::run_tape(options, body),
        _ => tape::run(options, body),
    }
}

/// Runs a step that may panic, and gives the panic's words.
pub(crate) fn caught<R>(step: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(step)).map_err(|panic| panic_words(&*panic))
}

/// What a panic said.
pub fn panic_words(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|words| (*words).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no words".to_owned())
}
