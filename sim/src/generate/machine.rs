//! The machine, the host and the kernel.

use moored::limits::STDOUT_DRAIN_MS;
use moored::session::ladder::POSIX_KILL_WAIT_MS;
use serde_json::{Map, Value, json};

use super::Shape;
use super::dice::{Dice, Stream};
use super::feature::{Feature, Features};
use crate::kernel::{KernelKind, Pick};
use crate::scenario::Options;
use crate::world::WorldOptions;

/// The steps among which the drops of a run with few preemptions fall.
const PCT_STEPS: u64 = 4_000;

pub(super) fn options(seed: u64, on: Features, shape: &Shape) -> Options {
    let mut dice = Dice::new(seed, Stream::Machine);
    // Drawn in every build; a build without a kernel takes the tape for it.
    let madsim_seed = dice.below(u64::MAX);
    let drops = u32::try_from(dice.between(1, 6)).unwrap_or(1);
    let (sessions, clients) = (dice.between(2, 3), dice.between(2, 4));
    let watch_frames_max = dice.between(1, 6);
    let many = |feature, n: u64| if on.has(feature) { usize::try_from(n).unwrap_or(1) } else { 1 };
    let defaults = Options::default();
    Options {
        kernel: kernel(on),
        madsim_seed,
        pick: match () {
            () if on.has(Feature::Fifo) => Pick::Fifo,
            () if on.has(Feature::Pct) => Pick::Pct { drops, steps: PCT_STEPS },
            () => Pick::Random,
        },
        world: world(&mut dice, on),
        commit_us_max: match on.has(Feature::SlowDisks) {
            true => dice.magnitude(20_000, 800_000),
            false => dice.magnitude(1_000, defaults.commit_us_max),
        },
        sessions: many(Feature::MoreSessions, sessions).min(shape.sessions_max),
        clients: many(Feature::MoreClients, clients),
        watch_frames_max: match on.has(Feature::SmallWatches) {
            true => usize::try_from(watch_frames_max).unwrap_or(1),
            false => defaults.watch_frames_max,
        },
        definition: definition(&mut dice, on),
        keep_background: on.has(Feature::KeepBackground),
        features: on.names(),
        ..defaults
    }
}

fn kernel(on: Features) -> KernelKind {
    let wanted = match () {
        () if on.has(Feature::Madsim) => KernelKind::Madsim,
        () if on.has(Feature::TapeInMadsim) => KernelKind::TapeInMadsim,
        () => KernelKind::Tape,
    };
    if KernelKind::available().contains(&wanted) { wanted } else { KernelKind::Tape }
}

fn world(dice: &mut Dice, on: Features) -> WorldOptions {
    let mut world =
        if on.has(Feature::Win32) { WorldOptions::win32() } else { WorldOptions::default() };
    let one_in = dice.between(2, 6);
    let rare = |feature| if on.has(feature) { one_in } else { 0 };
    world.signal_refused_one_in = rare(Feature::SignalsRefused);
    world.fork_refused_one_in = rare(Feature::ForksRefused);
    world.start_unreadable_one_in = if on.has(Feature::StartsUnreadable) { 2 } else { 0 };
    world.supervisor_refused_one_in = rare(Feature::SupervisorsRefused);
    world.pid_reused_one_in = if on.has(Feature::PidsReused) { 2 } else { 8 };
    if on.has(Feature::SlowPipes) {
        world.pipe_us_max = dice.magnitude(10_000, 400_000);
        world.control_us_max = dice.magnitude(2_000, 100_000);
    }
    if on.has(Feature::LateTimers) {
        world.timer_late_us_max = dice.magnitude(1_000, 50_000);
    }
    if on.has(Feature::SlowProcesses) {
        world.spawn_us_max = dice.magnitude(10_000, 800_000);
        world.exit_us_max = dice.magnitude(2_000, 1_500_000);
        // Beyond the wait for a killed child as well.
        world.death_us_max = dice.between(30_000, 4_000_000);
        world.signal_us_max = dice.magnitude(1_000, 500_000);
        world.supervisor_us_max = dice.magnitude(500, 30_000);
        // Around the cap of rule 1.6.4 as well.
        world.tree_kill_us_max = dice.magnitude(400_000, 6_000_000);
    }
    if on.has(Feature::Resists) {
        let late_us = dice.between(2, 4) * POSIX_KILL_WAIT_MS * 1_000;
        match dice.in_16(8) {
            true => world.death_us_max = late_us,
            false => world.signal_us_max = late_us,
        }
    }
    if on.has(Feature::LateEnds) {
        // Around the window for them as well.
        world.pipe_end_us_max = dice.magnitude(1_000, 3 * STDOUT_DRAIN_MS * 1_000);
    }
    world
}

/// Fields of the agent's definition.
fn definition(dice: &mut Dice, on: Features) -> Map<String, Value> {
    let mut fields = Map::new();
    if on.has(Feature::ByResume) {
        fields.insert("reopen".to_owned(), json!("resume"));
    }
    if on.has(Feature::AllowOnce) {
        fields.insert("access".to_owned(), json!("allow_once"));
    }
    if on.has(Feature::LongEofGrace) {
        fields.insert("eof_grace_ms".to_owned(), json!(dice.magnitude(1_500, 8_000)));
    }
    if on.has(Feature::OtherRelease) {
        fields.insert("versions".to_owned(), json!({ "from": "1.0.0" }));
    }
    if on.has(Feature::FileKnown) {
        fields.extend(session_file());
    }
    fields
}

/// How the session file of a scripted agent is read.
fn session_file() -> Map<String, Value> {
    let home = moored_fake_agents::HOME_VARIABLE;
    let readers = json!({
        "session_file": {
            "glob": format!("{{{home}}}/sessions/{{session}}.jsonl"),
            "header": { "matching": { "type": "session" }, "id": "id", "cwd": "cwd" },
        },
        "verdict": {
            "last_matching": { "type": "message", "message.role": "assistant" },
            "field": "message.stopReason",
            "words": { "aborted": "cancellation", "stop": "success" },
        },
        "prompt": {
            "matching": { "type": "message", "message.role": "user" },
            "text": "message.content.0.text",
        },
    });
    match readers {
        Value::Object(fields) => fields,
        _ => unreachable!("it is written as an object above"),
    }
}
