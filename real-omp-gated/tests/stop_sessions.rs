//! Stop, with real agents: at every moment, under every window, and with the next message behind it.
//!
//! `MOORED_STOP_RUNS` says how many Stops of omp each case gets (1), `MOORED_STOP_STORIES` how many sessions live at once (3).
//! `MOORED_STOP_ONLY` keeps the cases with these words in their names. Each case that took place is a line of a table of latencies.

#![expect(
    clippy::disallowed_methods,
    reason = "a test program over real processes, told by its environment how long to go on"
)]

mod hosted;
mod stops;

use std::collections::BTreeMap;
use std::env;
use std::sync::{Mutex, PoisonError};

use moored_real_omp_gated::{Kind, RealAgent};
use stops::latency::{Stages, table};
use stops::moment::Moment;
use stops::others;
use stops::pool::{Job, tell};
use stops::story::{self, Arm, Told};

/// One suite at a time: what is measured must not be measured under the others' load.
static MEASURING: Mutex<()> = Mutex::new(());
/// Stops of one session: the first meets a new session, the others a reopened one.
const STOPS_OF_A_SESSION: usize = 5;
/// So many Stops may have one after which the agent, on a loaded machine, leaves later than the windows of win32 allow.
const LATE_ONE_IN: usize = 40;

// T95 (rules 1.9.3, 3.5): the session file after each Stop, no force where none is due, and what the next turn is sent.
#[test]
fn omp_is_stopped_at_every_moment_and_goes_on_in_the_same_session() {
    let Some(omp) = RealAgent::where_asked_for(Kind::Omp) else { return };
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let told = Mutex::new(BTreeMap::<String, Told>::new());
    let mut jobs = Vec::new();
    for moment in Moment::ALL.into_iter().rev() {
        for arm in Arm::ALL {
            let name = format!("{moment}, {}", arm.name());
            for stops in sessions(number("MOORED_STOP_RUNS", 1)) {
                let (omp, told, own) = (&omp, &told, name.clone());
                let story = Box::new(move || {
                    let session = story::tell(omp, moment, arm, stops);
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    let case = told.entry(own).or_default();
                    case.stages.extend(session.stages);
                    case.messages_lost += session.messages_lost;
                    case.left_late += session.left_late;
                });
                jobs.push(Job { name: name.clone(), story });
            }
        }
    }
    if let Ok(only) = env::var("MOORED_STOP_ONLY") {
        jobs.retain(|job| job.name.contains(&only));
    }
    let failed = tell(jobs, number("MOORED_STOP_STORIES", 3));
    let told = told.into_inner().unwrap_or_else(PoisonError::into_inner);
    let late: usize = told.values().map(|case| case.left_late).sum();
    let stops: usize = told.values().map(|case| case.stages.len()).sum();
    report(told);
    assert!(failed.is_empty(), "{failed:?}");
    assert!(late <= stops.div_ceil(LATE_ONE_IN), "{late} of {stops} left late");
}

#[test]
fn codex_acp_is_stopped_and_goes_on_in_the_same_session() {
    let Some(codex) = RealAgent::where_asked_for(Kind::CodexAcp) else { return };
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    stop_another(&codex);
}

/// It mostly waits for the next minute, so it disturbs nobody's measurement.
#[test]
fn gemini_is_stopped_and_goes_on_or_the_host_says_that_it_does_not_remember() {
    let Some(gemini) = RealAgent::where_asked_for(Kind::Gemini) else { return };
    stop_another(&gemini);
}

/// Three Stops while the agent speaks, and three while its tool runs.
fn stop_another(agent: &RealAgent) {
    let measured = Mutex::new(BTreeMap::new());
    let job = |moment: Moment| {
        let (name, measured) = (moment.to_string(), &measured);
        let story = Box::new(move || {
            let stages = others::tell(agent, moment, 3);
            let mut measured = measured.lock().unwrap_or_else(PoisonError::into_inner);
            measured.insert(moment.to_string(), stages);
        });
        Job { name, story }
    };
    let failed = tell([Moment::Stream, Moment::Tool].map(job).into(), 2);
    let measured = measured.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{}\n{}", agent.kind(), table(&measured));
    assert!(failed.is_empty(), "{failed:?}");
}

fn report(told: BTreeMap<String, Told>) {
    let mut measured: BTreeMap<String, Vec<Stages>> = BTreeMap::new();
    for (name, told) in told {
        if told.messages_lost > 0 {
            println!(
                "{name}: {} of {} stopped messages are not in the agent's session",
                told.messages_lost,
                told.stages.len()
            );
        }
        if told.left_late > 0 {
            println!(
                "{name}: {} of {} left later than 1 500 ms after their input, and were killed",
                told.left_late,
                told.stages.len()
            );
        }
        measured.insert(name, told.stages);
    }
    println!("{}\n{}", Kind::Omp, table(&measured));
}

/// So many Stops, in sessions.
fn sessions(mut stops: usize) -> Vec<usize> {
    let mut sessions = Vec::new();
    while stops > 0 {
        sessions.push(stops.min(STOPS_OF_A_SESSION));
        stops -= sessions[sessions.len() - 1];
    }
    sessions
}

fn number(variable: &str, usual: usize) -> usize {
    match env::var(variable) {
        Ok(number) => number.parse().unwrap_or_else(|_| panic!("{variable} is no number")),
        Err(_) => usual,
    }
}
