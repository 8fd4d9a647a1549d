//! Native runs, many at a time: their processes mostly wait, and so would whoever plays them one by one.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "real processes are waited for by real threads, and a test is chosen on the command line"
)]

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use moored_scenarios::{Played, play_native};

use super::{document, native_run};

/// Runs at a time.
const RUNS_AT_A_TIME: usize = 24;

/// What a run left, or why there is none.
type Outcome = Result<Played, String>;

/// What a native run of each document left, begun before anybody asks for it.
pub struct Together {
    outcomes: BTreeMap<&'static str, Receiver<Outcome>>,
}

/// The runs of one test binary.
static TOGETHER: OnceLock<Mutex<Together>> = OnceLock::new();

/// What a native run of `name` left. Whoever asks first begins the runs of all `names`, unless somebody chose tests: then
/// each plays its own.
pub fn played(names: &[&'static str], name: &'static str) -> Outcome {
    let chosen = std::env::args().skip(1).any(|argument| !argument.starts_with('-'));
    if chosen {
        return play(name);
    }
    let begun = TOGETHER.get_or_init(|| Mutex::new(Together::begin(names.to_vec())));
    let mine = locked(begun).outcomes.remove(name);
    // A document that is asked for twice, or whose thread is gone, is played here.
    mine.and_then(|outcome| outcome.recv().ok()).unwrap_or_else(|| play(name))
}

/// Plays every one of `names` as often as asked, and tells what does not hold.
pub fn failures(names: &[&'static str], runs: usize) -> Vec<String> {
    let each: Vec<_> = (0..runs).flat_map(|_| names.iter().copied()).collect();
    let (failed, told) = mpsc::channel();
    let queue = Mutex::new(each);
    thread::scope(|scope| {
        for _ in 0..RUNS_AT_A_TIME {
            let (queue, failed) = (&queue, failed.clone());
            scope.spawn(move || {
                while let Some(name) = next(queue) {
                    let words = match play(name) {
                        Ok(played) if played.failures.is_empty() => continue,
                        Ok(played) => format!("{:?}\n{}", played.failures, played.canonical),
                        Err(words) => words,
                    };
                    let _ = failed.send(format!("{name}: {words}"));
                }
            });
        }
        drop(failed);
    });
    told.iter().collect()
}

impl Together {
    fn begin(names: Vec<&'static str>) -> Self {
        let (senders, outcomes): (Vec<_>, BTreeMap<_, _>) = names
            .into_iter()
            .map(|name| {
                let (sender, outcome) = mpsc::channel();
                ((name, sender), (name, outcome))
            })
            .unzip();
        let queue: &'static Mutex<Vec<(&str, Sender<Outcome>)>> =
            Box::leak(Box::new(Mutex::new(senders)));
        for _ in 0..RUNS_AT_A_TIME {
            thread::spawn(move || {
                while let Some((name, sender)) = next(queue) {
                    // A test that failed early waits no more.
                    let _ = sender.send(play(name));
                }
            });
        }
        Self { outcomes }
    }
}

fn play(name: &str) -> Outcome {
    play_native(&document(name), &native_run()).map_err(|error| error.to_string())
}

fn next<T>(queue: &Mutex<Vec<T>>) -> Option<T> {
    locked(queue).pop()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
