//! The work: threads that make runs, and one line in which they are added up.
//!
//! Threads finish in any order; runs are added in the order of their numbers. What a sweep says is therefore the same for
//! any number of threads, also where it ends by itself once nothing new is seen.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moored::platform::Mono;
use moored_sim::kernel::{panic_words, run_thread};
use moored_sim::oracles::Violation;
use moored_sim::play::{Playing, Run};
use moored_sim::trace::Keep;

use super::plan::{Job, Jobs};
use super::report::{HowEnded, SweepReport};
use super::tally::{Shown, Tally};
use crate::playable::Playable;

/// The oracle of a run that went otherwise when it was made again.
pub const DETERMINISM: &str = "determinism";
/// The oracle of a run that could not be made.
pub const UNPLAYABLE: &str = "unplayable";
/// Runs that wait for an earlier one to finish; a thread that is further ahead waits for it.
pub const AHEAD_MAX: usize = 1_024;
/// A run that went otherwise once is made again at most so often, until its traces show where.
const DIVERGENCE_TRIES: usize = 4;
/// How long a thread that is too far ahead rests before it looks again.
const AHEAD_REST: Duration = Duration::from_millis(1);

/// How far a sweep is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Runs that are done.
    pub done: u64,
    /// All of them.
    pub all: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Coverage marks that were met.
    pub marks: u64,
    /// Runs since one showed something new.
    pub quiet: u64,
}

/// Who makes the runs.
pub trait Player: Sync {
    /// Makes one.
    fn play(&self, run: &Playable, playing: &Playing) -> Result<Run, String>;
}

/// The simulator.
#[derive(Clone, Debug, Default)]
pub struct Simulator {
    /// How scenarios are played; what is kept of a run is the sweep's own affair.
    pub playing: Playing,
}

impl Player for Simulator {
    fn play(&self, run: &Playable, playing: &Playing) -> Result<Run, String> {
        let mut how = self.playing.clone();
        (how.keep, how.timeline, how.in_place) = (playing.keep, playing.timeline, true);
        run.play(&how).map_err(|error| error.to_string())
    }
}

/// Sweeps. `watch` is called after each run; it ends the sweep by answering `false`.
pub fn sweep(
    jobs: &Jobs,
    threads: usize,
    player: &dyn Player,
    watch: &(dyn Fn(Progress) -> bool + Sync),
) -> SweepReport {
    let work = Work {
        jobs,
        player,
        next: AtomicU64::new(0),
        ended: AtomicBool::new(false),
        line: Mutex::new(Line {
            waiting: BTreeMap::new(),
            next: 0,
            tally: Tally::new(jobs),
            is_quiet: false,
        }),
    };
    std::thread::scope(|scope| {
        let start = |_| run_thread().spawn_scoped(scope, || work.run(watch));
        let workers: Vec<_> = (0..threads.max(1)).map_while(|n| start(n).ok()).collect();
        if workers.is_empty() {
            // Where the system gives no thread, this one does the work.
            work.run(watch);
        }
        for worker in workers {
            // A run's panic is that run's outcome; this one is the sweep's own, on a thread whose panics may go unprinted.
            if let Err(panic) = worker.join() {
                panic!("a sweep's own thread panicked: {}", panic_words(&*panic));
            }
        }
    });
    let line = work.line.into_inner().unwrap_or_else(PoisonError::into_inner);
    let ended = match (line.is_quiet, line.tally.runs < jobs.of_shard_len()) {
        (true, _) => HowEnded::Quiet,
        (false, true) => HowEnded::Time,
        (false, false) => HowEnded::Done,
    };
    SweepReport::new(jobs, line.tally, ended)
}

struct Work<'a> {
    jobs: &'a Jobs,
    player: &'a dyn Player,
    next: AtomicU64,
    ended: AtomicBool,
    line: Mutex<Line>,
}

/// Runs in the order of their numbers.
struct Line {
    /// Finished before an earlier one.
    waiting: BTreeMap<u64, (Job, Shown)>,
    /// The one that is added next.
    next: u64,
    tally: Tally,
    /// Nothing new was seen for long enough: what comes later is not looked at.
    is_quiet: bool,
}

impl Work<'_> {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, watch: &(dyn Fn(Progress) -> bool + Sync)) {
        while !self.ended.load(Ordering::Relaxed) {
            if self.line().waiting.len() >= AHEAD_MAX {
                std::thread::park_timeout(AHEAD_REST);
                continue;
            }
            let k = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.of_shard(k) else { return };
            let shown = self.play(job);
            if !watch(self.add(k, job, shown)) {
                self.ended.store(true, Ordering::Relaxed);
            }
        }
    }

    fn add(&self, k: u64, job: Job, shown: Shown) -> Progress {
        let mut guard = self.line();
        let line = &mut *guard;
        line.waiting.insert(k, (job, shown));
        while let Some((job, shown)) = line.waiting.remove(&line.next) {
            line.next += 1;
            if line.is_quiet {
                continue;
            }
            line.tally.add(self.jobs, job, shown);
            let quiet_runs = self.jobs.plan().quiet_runs;
            if quiet_runs.is_some_and(|runs| line.tally.quiet >= runs) {
                line.is_quiet = true;
                self.ended.store(true, Ordering::Relaxed);
            }
        }
        Progress {
            done: line.tally.runs,
            all: self.jobs.of_shard_len(),
            failed: line.tally.failed,
            marks: line.tally.marks,
            quiet: line.tally.quiet,
        }
    }

    fn play(&self, job: Job) -> Shown {
        let playable = self.jobs.playable(job);
        let run = match self.player.play(&playable, &Playing::default()) {
            Ok(run) => run,
            Err(words) => return Shown::unplayed(violation(UNPLAYABLE, words)),
        };
        let one_in = self.jobs.plan().checked_one_in;
        let checked = one_in > 0 && job.number.is_multiple_of(one_in);
        let hash = run.trace.hash();
        let mut shown = Shown::of(run);
        if checked {
            shown.checked = true;
            if let Some(words) = self.divergence(&playable, hash) {
                shown.violation = Some(violation(DETERMINISM, words));
            }
        }
        shown
    }

    /// Makes a run again, and says how it differed.
    fn divergence(&self, playable: &Playable, hash: u64) -> Option<String> {
        let again = self.player.play(playable, &Playing::default());
        let again = again.map_or(0, |run| run.trace.hash());
        if again == hash {
            return None;
        }
        Some(first_divergence(self.player, playable, DIVERGENCE_TRIES).unwrap_or_else(|| {
            format!(
                "two runs of it have the traces {hash:016x} and {again:016x}; with their lines kept, {} more agreed",
                DIVERGENCE_TRIES + 1
            )
        }))
    }
}

/// Plays a run and then again until one differs, at most `tries` times; says where both differ first.
pub fn first_divergence(player: &dyn Player, run: &Playable, tries: usize) -> Option<String> {
    let lines = Playing { keep: Keep::Lines, ..Playing::default() };
    let first = player.play(run, &lines).ok()?;
    for _ in 0..tries {
        let again = player.play(run, &lines).ok()?;
        if let Some(divergence) = first.trace.divergence(&again.trace) {
            return Some(format!("two runs of it differ first in {divergence}"));
        }
        if first.trace.hash() != again.trace.hash() {
            return Some("two runs of it have equal lines and unequal hashes".to_owned());
        }
    }
    None
}

fn violation(oracle: &'static str, words: String) -> Violation {
    Violation { oracle: oracle.into(), rule: "-".into(), words, at: Mono(0) }
}
