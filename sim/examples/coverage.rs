//! What the generator's scenarios meet: how often each feature is on, which coverage marks are reached and how soon, what
//! fails, and how fast it goes.
//!
//! `cargo run --release -p moored-sim --example coverage -- [FIRST..]END [explore] [features] [+FEATURE] [-FEATURE]`,
//! where a feature is forced on or off; or `show SEED` for what one seed makes and how it goes.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a measuring program: it reads the clock and its arguments"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use moored::coverage::CoverageMark;
use moored_sim::generate::{self, Feature, Shape};
use moored_sim::kernel::{RUN_THREAD_NAME, run_thread};
use moored_sim::marks::WorldMark;
use moored_sim::play::{Playing, play};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Seeds of one failure that are shown.
const SHOWN: usize = 8;
const THREADS: usize = 2;

#[derive(Default)]
struct Reached(BTreeMap<&'static str, (u64, u64)>);

impl Reached {
    fn meet(&mut self, name: &'static str, seed: u64) {
        let (runs, first) = self.0.entry(name).or_insert((0, seed));
        *runs += 1;
        *first = (*first).min(seed);
    }

    fn join(&mut self, other: Self) {
        for (name, (runs, first)) in other.0 {
            let mine = self.0.entry(name).or_insert((0, first));
            *mine = (mine.0 + runs, mine.1.min(first));
        }
    }

    fn print(&self, what: &str, all: impl Iterator<Item = &'static str>) {
        println!("\n{what}: runs, first seed");
        let mut lines: Vec<_> =
            all.map(|name| (self.0.get(name).copied().unwrap_or((0, 0)), name)).collect();
        lines.sort_unstable();
        for ((runs, first), name) in lines {
            println!("{runs:>8} {first:>8}  {name}");
        }
    }
}

#[derive(Default)]
struct Tally {
    runs: u64,
    virtual_ms: u64,
    choices: u64,
    features: Reached,
    marks: Reached,
    world: Reached,
    /// By oracle: the seeds, and the words of the first.
    failures: BTreeMap<String, (Vec<u64>, String)>,
    slowest: Vec<(Duration, u64)>,
    generating: Duration,
    playing: Duration,
}

impl Tally {
    fn run(&mut self, seed: u64, shape: &Shape) {
        let began = Instant::now();
        let scenario = generate::generate_with(seed, shape);
        let generated = Instant::now();
        let run = play(&scenario, &Playing { in_place: true, ..Playing::default() })
            .expect("the generator knows this build");
        let played = generated.elapsed();
        self.generating += generated - began;
        self.playing += played;
        self.slowest.push((played, seed));
        self.slowest.sort_unstable();
        self.slowest.reverse();
        self.slowest.truncate(SHOWN);
        self.runs += 1;
        self.virtual_ms += run.virtual_ms;
        self.choices += run.tape.0.len() as u64;
        for feature in Feature::ALL {
            if scenario.options.features.contains(feature.name()) {
                self.features.meet(feature.name(), seed);
            }
        }
        run.met.iter().for_each(|mark| self.marks.meet(mark.name(), seed));
        run.world.iter().for_each(|mark| self.world.meet(mark.name(), seed));
        if let Some(violation) = run.violation {
            let entry = self.failures.entry(violation.oracle.to_string()).or_default();
            if entry.0.is_empty() {
                entry.1.clone_from(&violation.words);
            }
            entry.0.push(seed);
        }
    }

    fn join(&mut self, other: Self) {
        self.runs += other.runs;
        self.virtual_ms += other.virtual_ms;
        self.choices += other.choices;
        self.features.join(other.features);
        self.marks.join(other.marks);
        self.world.join(other.world);
        self.generating += other.generating;
        self.playing += other.playing;
        self.slowest.extend(other.slowest);
        for (oracle, (seeds, words)) in other.failures {
            let mine = self.failures.entry(oracle).or_insert_with(|| (Vec::new(), words));
            mine.0.extend(seeds);
        }
    }

    fn print(mut self, wall: Duration, features: bool) {
        if features {
            self.features.print("features", Feature::ALL.iter().map(|f| f.name()));
        }
        self.marks.print("coverage marks", CoverageMark::ALL.iter().map(|m| m.name()));
        self.world.print("world marks", WorldMark::ALL.iter().map(|m| m.name()));
        println!("\nfailures:");
        for (oracle, (seeds, words)) in &mut self.failures {
            seeds.sort_unstable();
            let shown = &seeds[..seeds.len().min(SHOWN)];
            println!("{:>8}  {oracle}: seeds {shown:?}; {words}", seeds.len());
        }
        self.slowest.sort_unstable();
        self.slowest.reverse();
        println!("\nslowest: {:?}", &self.slowest[..self.slowest.len().min(SHOWN)]);
        let runs = self.runs as f64;
        println!(
            "\n{} runs in {:.1} s: {:.0} a second; {:.0} us to generate, {:.0} us to play, {:.1} virtual s and {:.0} choices each",
            self.runs,
            wall.as_secs_f64(),
            runs / wall.as_secs_f64(),
            self.generating.as_secs_f64() * 1e6 / runs,
            self.playing.as_secs_f64() * 1e6 / runs,
            self.virtual_ms as f64 / 1e3 / runs,
            self.choices as f64 / runs,
        );
    }
}

fn show(seed: u64) {
    let scenario = generate::generate(seed);
    println!("{}", scenario.to_text());
    let playing = Playing { timeline: true, ..Playing::default() };
    let run = play(&scenario, &playing).expect("the generator knows this build");
    for entry in &run.entries {
        let (at, lane) = (entry.at.0, format!("{:?}", entry.lane));
        println!("{:>10}.{:03} {lane:8} {} {}", at / 1_000, at % 1_000, entry.kind, entry.words);
    }
    println!("{:?}", run.violation);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, seed, ..] = arguments.as_slice()
        && first == "show"
    {
        return show(seed.parse().expect("a seed is a number"));
    }
    let range = arguments.first().map_or("2000", String::as_str);
    let (first, end) = range.split_once("..").unwrap_or(("0", range));
    let first: u64 = first.parse().expect("a range is FIRST..END");
    let end: u64 = end.parse().expect("a range is FIRST..END");
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let mut shape = if has("explore") { generate::EXPLORE } else { Shape::ANY };
    for feature in Feature::ALL {
        if has(&format!("+{}", feature.name())) {
            shape = shape.always(&[*feature]);
        }
        if has(&format!("-{}", feature.name())) {
            shape = shape.never(&[*feature]);
        }
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // A run that panics is told of as a failure.
        if std::thread::current().name() != Some(RUN_THREAD_NAME) {
            hook(info);
        }
    }));
    let (next, began) = (AtomicU64::new(first), Instant::now());
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let work = || {
            let mut tally = Tally::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end {
                    return tally;
                }
                tally.run(seed, &shape);
            }
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|_| run_thread().spawn_scoped(scope, work).expect("the system gives a thread"))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread ends")).collect()
    });
    let mut all = Tally::default();
    tallies.into_iter().for_each(|tally| all.join(tally));
    all.print(began.elapsed(), has("features"));
}
