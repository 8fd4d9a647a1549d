//! Measures the search with bugs that are planted one at a time, and writes the table of `docs/planted-bugs.md`:
//! `cargo run --release -p moored-sim --features planted-bugs --example planted-bugs [--seeds N] [--write] [--pages DIR] [NAME...]`.
//!
//! For each bug: the first seed of the generator that breaks an oracle, and what is left of that run once it was made
//! smaller. The median over several stretches of seeds is what counts; the first seed alone is a matter of luck.
//! The page ends with what no sweep finds, and with the rules of `docs/stop-rules.md` by what breaks them.
//! `--pages` writes the timeline of each smaller run under a number: does a person who reads the page alone name the rule?
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "the table is what it is for")]

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use moored::planted::PlantedBug;
use moored_sim::failure::timeline;
use moored_sim::generate::generate;
use moored_sim::kernel::run_thread;
use moored_sim::play::{Playing, play};
use moored_sim::scenario::Scenario;
use moored_sim::shrink::shrink;

/// As the command has it: a run is mostly small allocations that live for one step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A bug must be found within this many seeds.
const SEEDS_MAX: u64 = 10_000;
/// Stretches of seeds from which each bug is looked for.
const STRETCHES: u64 = 3;
/// The page that holds the table.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/planted-bugs.md");
/// The rules of Stop, and what breaks each.
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/stop-rules.md");
/// What of those is a client's bug, and no sweep's.
const WRONG_CLIENTS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/src/status/tests/wrong.rs");
/// Where the table stands on the page.
const MARKS: (&str, &str) = ("<!-- table -->", "<!-- end of table -->");

struct Found {
    bug: PlantedBug,
    /// Seeds until the first failure, from the beginning of each stretch; none where there was none.
    seeds: Vec<Option<u64>>,
    oracle: String,
    actions: usize,
    faults: usize,
    choices: usize,
    replays: usize,
    smaller: Option<Scenario>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| {
        let at = arguments.iter().position(|a| a == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let seeds_max = after("--seeds").unwrap_or(SEEDS_MAX);
    let named = |bug: &PlantedBug| {
        let names: Vec<_> = arguments.iter().filter(|a| PlantedBug::named(a).is_some()).collect();
        names.is_empty() || names.iter().any(|name| *name == bug.name())
    };
    let bugs: Vec<PlantedBug> = PlantedBug::ALL.iter().copied().filter(named).collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let thread = run_thread().spawn_scoped(scope, || {
                while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let row = look_for(*bug, seeds_max);
                    println!("{}", line(&row));
                    found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(row);
                }
            });
            thread.expect("the system gives a thread");
        }
    });
    let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.sort_by_key(|row| row.bug);
    let mut table = table(&found, seeds_max);
    if found.len() == PlantedBug::ALL.len() {
        table.push_str(&unfound(&found));
        table.push_str(&rules_of_stop(&found));
    }
    println!("\n{table}");
    if arguments.iter().any(|a| a == "--write") {
        write_page(&table);
    }
    if let Some(at) = arguments.iter().position(|a| a == "--pages") {
        let folder = arguments.get(at + 1).unwrap_or_else(|| panic!("--pages wants a folder"));
        found.iter().enumerate().for_each(|(n, row)| write_timeline(folder, n, row));
    }
}

/// Nothing on the page tells the bug, but what it did.
fn write_timeline(folder: &str, n: usize, row: &Found) {
    let Some(scenario) = &row.smaller else { return };
    let playing = Playing { planted: Some(row.bug), timeline: true, ..Playing::default() };
    let run = play(scenario, &playing).unwrap_or_else(|error| panic!("{error}"));
    let page = timeline(scenario, &run, Vec::new());
    let path = std::path::Path::new(folder).join(format!("{n}.html"));
    let written =
        std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, page.to_html()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    println!("{} {}", path.display(), row.bug.name());
}

fn look_for(bug: PlantedBug, seeds_max: u64) -> Found {
    let playing = Playing { planted: Some(bug), in_place: true, ..Playing::default() };
    let fails = |seed: u64| {
        let scenario = generate(seed);
        let broken = play(&scenario, &playing).is_ok_and(|run| !run.holds());
        broken.then_some(scenario)
    };
    let mut first = None;
    let mut hopeless = false;
    let seeds: Vec<Option<u64>> = (0..STRETCHES)
        .map(|stretch| {
            if hopeless {
                return None;
            }
            let begin = stretch * 1_000_000;
            let hit = (begin..begin + seeds_max).find_map(|seed| Some((seed, fails(seed)?)));
            // What the first beginning does not show is not looked for from the others.
            hopeless |= hit.is_none() && stretch == 0;
            let (seed, scenario) = hit?;
            first.get_or_insert(scenario);
            Some(seed - begin + 1)
        })
        .collect();
    let smaller = first.as_ref().and_then(|scenario| shrink(scenario, &playing).ok());
    let (oracle, actions, faults, choices, replays) = match &smaller {
        Some(s) => {
            let choices = match &s.scenario.source {
                moored_sim::draws::Source::Replay { tape, .. } => tape.strayed(),
                _ => 0,
            };
            let oracle = s.violation.oracle.to_string();
            (oracle, s.scenario.actions.len(), s.scenario.faults.len(), choices, s.replays)
        }
        None => ("none".to_owned(), 0, 0, 0, 0),
    };
    let smaller = smaller.map(|s| s.scenario);
    Found { bug, seeds, oracle, actions, faults, choices, replays, smaller }
}

fn median(seeds: &[Option<u64>]) -> Option<u64> {
    let mut all: Vec<u64> = seeds.iter().map(|seed| seed.unwrap_or(u64::MAX)).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().filter(|median| *median < u64::MAX)
}

fn shown(seeds: Option<u64>) -> String {
    seeds.map_or_else(|| "not found".to_owned(), |seeds| seeds.to_string())
}

fn line(row: &Found) -> String {
    let Found { bug, seeds, oracle, actions, faults, choices, replays, .. } = row;
    let worst = match seeds.iter().any(Option::is_none) {
        true => None,
        false => seeds.iter().flatten().max().copied(),
    };
    format!(
        "| {} | {} | {} | {} | {oracle} | {actions} | {faults} | {choices} | {replays} |",
        bug.name(),
        bug.rule(),
        shown(median(seeds)),
        shown(worst),
    )
}

fn table(found: &[Found], seeds_max: u64) -> String {
    let mut medians: Vec<u64> =
        found.iter().map(|row| median(&row.seeds).unwrap_or(u64::MAX)).collect();
    medians.sort_unstable();
    let every = found.iter().filter(|row| is_found(row)).count();
    let small =
        found.iter().filter(|r| r.smaller.is_some() && r.actions <= 8 && r.faults <= 2).count();
    let mut table = format!(
        "{every} of {} bugs are found within {seeds_max} seeds from each of {STRETCHES} beginnings; the median bug after {} seeds; {small} come down to at most 8 actions and 2 faults.\n\n",
        found.len(),
        shown(medians.get(medians.len() / 2).copied().filter(|m| *m < u64::MAX)),
    );
    table.push_str("| bug | rule | seeds, median | seeds, worst | oracle | actions | faults | choices | replays |\n");
    table.push_str("|---|---|---:|---:|---|---:|---:|---:|---:|\n");
    for row in found {
        let _ = writeln!(table, "{}", line(row));
    }
    table
}

fn is_found(row: &Found) -> bool {
    row.seeds.iter().all(Option::is_some)
}

/// What only its story notices.
fn unfound(found: &[Found]) -> String {
    let names: Vec<_> = found.iter().filter(|row| !is_found(row)).map(|r| r.bug.name()).collect();
    match &names[..] {
        [] => String::new(),
        names => format!(
            "\nNot found from each beginning, and held by their stories alone: {}.\n",
            names.join(", ")
        ),
    }
}

/// Each rule of Stop is broken by a bug of this table or by a wrong client, or says why by none.
fn rules_of_stop(found: &[Found]) -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let (page, clients) = (read(RULES), read(WRONG_CLIENTS));
    let (mut swept, mut told, mut reasons) = (0, 0, 0);
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Rule")) {
        let broken_by = row.split(" | ").nth(2).unwrap_or_else(|| panic!("no row: {row}"));
        let names: Vec<&str> = broken_by.split('`').skip(1).step_by(2).collect();
        let finds = |name: &&str| {
            let row = found.iter().find(|row| row.bug.name() == *name);
            let is_client = clients.contains(&format!("\"{name}\""));
            assert!(row.is_some() || is_client, "{name} is planted nowhere");
            row.is_some_and(is_found)
        };
        match (broken_by.starts_with("nothing: "), names.is_empty()) {
            (true, _) => reasons += 1,
            (false, true) => panic!("nothing breaks this rule, and it does not say why: {row}"),
            (false, false) => match names.iter().filter(|name| finds(name)).count() {
                0 => told += 1,
                _ => swept += 1,
            },
        }
    }
    let rules = swept + told + reasons;
    format!(
        "\nOf the {rules} rules of [Stop](stop-rules.md), {swept} are broken by a bug that the sweep finds, {told} by one that only its story notices, and {reasons} say there why nothing breaks them.\n"
    )
}

fn write_page(table: &str) {
    let page = std::fs::read_to_string(PAGE).unwrap_or_else(|error| panic!("{PAGE}: {error}"));
    let parts =
        page.split_once(MARKS.0).and_then(|(head, rest)| Some((head, rest.split_once(MARKS.1)?.1)));
    let (head, tail) = parts.unwrap_or_else(|| panic!("{PAGE} has no place for the table"));
    let page = format!("{head}{}\n\n{table}\n{}{tail}", MARKS.0, MARKS.1);
    std::fs::write(PAGE, page).unwrap_or_else(|error| panic!("{PAGE}: {error}"));
}
