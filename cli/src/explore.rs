//! `moored explore`: every order of a small alphabet on the pure core, each state once.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a binary measures how long a person has waited"
)]

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use moored_sim::explore::{
    ALPHABETS, Alphabet, Bounds, Explored, Explorer, Progress, SENDS_MAX, Violation,
};
use serde_json::json;

use crate::args::Explore;
use crate::error::Verdict;
use crate::output;

/// The alphabet that is explored when none is named.
const ALPHABET: &str = "race";
/// Deeper than any alphabet goes: the exploration ends when nothing is left.
const DEPTH_MAX: usize = 10_000;
/// The bar moves so often a second.
const BAR_HZ: u8 = 5;

/// Explores, and prints what there was.
pub fn run(options: &Explore) -> anyhow::Result<Verdict> {
    if options.list {
        return list();
    }
    let name = options.name.as_deref().unwrap_or(ALPHABET);
    let alphabet = alphabet(name)?;
    let depth = options.depth.or(alphabet.depth).unwrap_or(DEPTH_MAX);
    let explorer = Explorer { bounds: bounds(alphabet, options)?, depth };
    let jobs = options
        .jobs
        .map(usize::from)
        .unwrap_or_else(|| std::thread::available_parallelism().map(usize::from).unwrap_or(1));
    // A panic of the core is a violation, and is told as one.
    std::panic::set_hook(Box::new(|_| {}));
    let began = Instant::now();
    let bar = bar();
    let explored = explorer.run_watched(jobs, &mut |progress| {
        show(&bar, progress);
        options.time_ms.is_none_or(|ms| began.elapsed() < Duration::from_millis(ms))
    });
    bar.finish_and_clear();
    let _ = std::panic::take_hook();
    let took = began.elapsed();
    match options.json {
        true => output::print_json(&document(name, &explorer, &explored, took))?,
        false => output::print(&shown(name, &explorer, &explored, took))?,
    };
    Ok(if explored.violation.is_none() { Verdict::Holds } else { Verdict::Failed })
}

fn list() -> anyhow::Result<Verdict> {
    let rows: Vec<Vec<String>> =
        ALPHABETS.iter().map(|a| vec![a.name.to_owned(), a.about.to_owned()]).collect();
    output::print(&output::table(&rows))
}

/// The alphabet of that name.
fn alphabet(name: &str) -> anyhow::Result<&'static Alphabet> {
    ALPHABETS.iter().find(|alphabet| alphabet.name == name).with_context(|| {
        let names: Vec<&str> = ALPHABETS.iter().map(|alphabet| alphabet.name).collect();
        format!("there is no alphabet {name}; take one of {}", names.join(", "))
    })
}

/// Its bounds, with what was typed in place of its own.
fn bounds(alphabet: &Alphabet, options: &Explore) -> anyhow::Result<Bounds> {
    let bounds = alphabet.bounds;
    let bounds = Bounds {
        sends: options.sends.unwrap_or(bounds.sends),
        stops: options.stops.unwrap_or(bounds.stops),
        crashes: options.crashes.unwrap_or(bounds.crashes),
        late_updates: options.late_updates.unwrap_or(bounds.late_updates),
        refusals: options.refusals.unwrap_or(bounds.refusals),
    };
    if bounds.sends > SENDS_MAX {
        bail!(
            "{} messages are more than an exploration counts; give at most {SENDS_MAX}",
            bounds.sends
        );
    }
    Ok(bounds)
}

/// What a person at a terminal sees meanwhile; nothing anywhere else.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let target = indicatif::ProgressDrawTarget::stderr_with_hz(BAR_HZ);
    let bar = ProgressBar::with_draw_target(None, target);
    // Without the style the bar still moves.
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar
}

/// Through the present depth: how many more there are is not known.
fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_length(progress.frontier as u64);
    bar.set_position(progress.expanded as u64);
    bar.set_message(format!("of depth {}, {} states so far", progress.depth, progress.states));
}

fn shown(name: &str, explorer: &Explorer, explored: &Explored, took: Duration) -> String {
    let Bounds { sends, stops, crashes, late_updates, refusals } = explorer.bounds;
    let rows = [
        ("alphabet", name.to_owned()),
        (
            "bounds",
            format!(
                "sends {sends}, Stops {stops}, crashes {crashes}, late updates {late_updates}, refusals {refusals}"
            ),
        ),
        ("states", explored.states.to_string()),
        ("transitions", explored.transitions.to_string()),
        ("merges", explored.merges.to_string()),
        ("ends", explored.ends.to_string()),
        ("depth", explored.depth.to_string()),
        ("closed", if explored.closed { "yes" } else { "no" }.to_owned()),
        ("kinds", format!("{} of transitions of the machine", explored.seen.len())),
        ("time", format!("{:.1} s", took.as_secs_f64())),
    ];
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(word, value)| vec![word.to_owned(), value]).collect();
    let mut text = output::table(&rows);
    text.push('\n');
    text.push_str(&match &explored.violation {
        Some(violation) => format!("it does not hold:\n{violation}\n"),
        None => format!("everything holds; {}\n", completeness(explorer, explored)),
    });
    text
}

fn completeness(explorer: &Explorer, explored: &Explored) -> String {
    if explored.closed {
        "no state is left to explore".to_owned()
    } else if explored.cut_short {
        format!("the time was up, and every state within depth {} was reached", explored.depth)
    } else {
        format!("every state within depth {} was reached", explorer.depth)
    }
}

fn document(
    name: &str,
    explorer: &Explorer,
    explored: &Explored,
    took: Duration,
) -> serde_json::Value {
    let violation = explored.violation.as_ref().map(
        |Violation { what, steps, lines }| json!({"what": what, "steps": steps, "lines": lines}),
    );
    json!({
        "alphabet": name,
        "bounds": explorer.bounds,
        "holds": explored.violation.is_none(),
        "states": explored.states,
        "transitions": explored.transitions,
        "merges": explored.merges,
        "ends": explored.ends,
        "depth": explored.depth,
        "closed": explored.closed,
        "cut_short": explored.cut_short,
        "wall_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "seen": explored.seen.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "violation": violation,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Arguments, Command};

    fn typed(words: &[&str]) -> Explore {
        let line = ["moored", "explore"].iter().chain(words);
        match Arguments::try_parse_from(line).expect("it may be typed").command {
            Some(Command::Explore(options)) => options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_typed_takes_the_place_of_the_alphabets_own() {
        let race = alphabet("race").expect("it is built in");
        assert_eq!(bounds(race, &typed(&[])).expect("its own"), race.bounds);
        let fewer = bounds(race, &typed(&["--sends", "1", "--crashes", "0"])).expect("fewer");
        assert_eq!(fewer, Bounds { sends: 1, crashes: 0, ..race.bounds });
        assert!(bounds(race, &typed(&["--sends", "8"])).is_err(), "more than are counted");
    }

    #[test]
    fn an_alphabet_that_is_not_there_is_refused_with_those_that_are() {
        let refused = alphabet("rice").expect_err("there is none").to_string();
        assert!(refused.contains("late, race, stop, store"), "{refused}");
    }

    #[test]
    fn an_exploration_says_what_it_found_and_how_complete_it_is() {
        let bounds = Bounds { stops: 1, ..Bounds::default() };
        let explorer = Explorer { bounds, depth: DEPTH_MAX };
        let whole = explorer.run(1);
        let text = shown("stop", &explorer, &whole, Duration::from_millis(1_500));
        assert!(text.contains("closed       yes"), "{text}");
        assert!(text.ends_with("everything holds; no state is left to explore\n"), "{text}");
        let cut = Explorer { depth: 1, ..explorer };
        let text = shown("stop", &cut, &cut.run(1), Duration::ZERO);
        assert!(text.ends_with("every state within depth 1 was reached\n"), "{text}");
        let failed = Explored {
            violation: Some(Violation {
                what: "it is so".to_owned(),
                steps: Vec::new(),
                lines: vec!["a step".to_owned()],
            }),
            ..whole
        };
        let text = shown("stop", &explorer, &failed, Duration::ZERO);
        assert!(text.ends_with("it does not hold:\n  1. a step\n=> it is so\n"), "{text}");
    }
}
