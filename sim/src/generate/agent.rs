//! What the agent is like in everything but its turns: how it starts, reacts to a cancel, reopens and ends.

use moored::limits::{AGENT_TURN_QUIET_MS, CLOSE_BARRIER_MS, STOP_GRACE_MS};
use moored::session::ladder;
use moored_fake_agents::Script;
use moored_fake_agents::script::step::{Reply, Step};
use moored_fake_agents::script::{
    AgentFacts, Busy, CancelReaction, Handlers, Idle, Moment, Obey, Reaction, Replay, SignIn,
    Stale, StoreFacts,
};
use serde_json::json;

use super::dice::{Dice, Stream};
use super::feature::{Feature, Features};
use super::turns::Writer;
use super::{steps, turns};

/// How far from the end of a window an agent may be.
const EDGE_MS: u64 = 5;

pub(super) fn script(seed: u64, on: Features, messages: u32) -> Script {
    let mut writer = Writer::new(Dice::new(seed, Stream::Agent), on);
    Script {
        agent: facts(&mut writer.dice, on),
        store: store(&mut writer.dice, on),
        on: handlers(&mut writer),
        turns: turns::turns(seed, on, messages),
        ..Script::default()
    }
}

fn facts(dice: &mut Dice, on: Features) -> AgentFacts {
    let mut facts = AgentFacts::default();
    if on.has(Feature::SlowStart) {
        facts.start_delay_ms = dice.magnitude(10, 8_000);
    }
    if on.has(Feature::SignIn) {
        facts.sign_in =
            dice.pick(&[SignIn::UntilAuthenticate, SignIn::UntilRespawn, SignIn::Never]);
        if dice.in_16(3) {
            facts.auth_methods.clear();
        }
    }
    if on.has(Feature::NoReopen) {
        let (load, resume) = dice.pick(&[(false, false), (true, false), (false, true)]);
        let sessions = if resume { json!({ "resume": {} }) } else { json!({}) };
        facts.capabilities = json!({ "loadSession": load, "sessionCapabilities": sessions });
    }
    if !on.has(Feature::NoClose) {
        facts.capabilities["sessionCapabilities"]["close"] = json!({});
    } else if let Some(offered) = facts.capabilities["sessionCapabilities"].as_object_mut() {
        offered.remove("close");
    }
    if on.has(Feature::OtherRelease) && dice.in_16(12) {
        facts.version = dice.pick(&["0.9.9", "1.0.0-beta.1", "next"]).to_owned();
    }
    if on.has(Feature::OtherVersion) && dice.in_16(10) {
        facts.protocol_version = match dice.below(3) {
            0 => json!(2),
            1 => json!("1"),
            _ => json!(null),
        };
    }
    facts
}

fn store(dice: &mut Dice, on: Features) -> StoreFacts {
    let mut facts = StoreFacts::default();
    if on.has(Feature::Replays) {
        let extra = u32::try_from(dice.below(4)).unwrap_or(0);
        facts.replay = Replay { own: true, extra, after_answer: dice.in_16(5) };
    }
    if on.has(Feature::LostSessions) {
        match dice.below(4) {
            0 => facts.exists = Some(false),
            1 => facts.persist_new = Moment::Never,
            2 => facts.persist_new = Moment::After,
            _ => facts.cwd = Some("/elsewhere".to_owned()),
        }
    }
    if on.has(Feature::ForgetsPrompts) {
        facts.persist_user = false;
        facts.persist_answer = Moment::Never;
    }
    facts
}

fn handlers(writer: &mut Writer) -> Handlers {
    let on = writer.on;
    let mut handlers = Handlers { cancel: cancel(writer), ..Handlers::default() };
    let dice = &mut writer.dice;
    handlers.eof = at_eof(dice, on);
    if on.has(Feature::IgnoresTerm) {
        handlers.sigterm = match dice.below(3) {
            0 | 1 => Reaction { obey: Obey::Never, ..Reaction::default() },
            _ => Reaction {
                after_ms: around(dice, &[ladder::POSIX_TERM_GRACE_MS]),
                ..Reaction::default()
            },
        };
    } else if dice.in_16(4) {
        handlers.sigterm.obey = Obey::ByDying;
    }
    if on.has(Feature::Resists) {
        handlers.eof = Reaction { obey: Obey::Never, ..Reaction::default() };
        handlers.sigterm = handlers.eof.clone();
    }
    if on.has(Feature::BusyAgents) {
        handlers.busy =
            dice.pick(&[Busy::CancelFirst, Busy::NeverAnswer, Busy::QueueCancelled, Busy::Refuse]);
    }
    if on.has(Feature::FallsAtStart) && dice.in_16(10) {
        handlers.start = Some(vec![steps::delay(dice.magnitude(1, 500)), steps::fall(dice, on)]);
    }
    if on.has(Feature::Forks) && dice.in_16(5) {
        handlers.start.get_or_insert_default().push(steps::fork(dice, on));
    }
    requests(writer, &mut handlers);
    idle(writer, &mut handlers);
    handlers
}

/// Around the end of one of these windows.
fn around(dice: &mut Dice, windows_ms: &[u64]) -> u64 {
    let ms = dice.pick(windows_ms);
    dice.between(ms.saturating_sub(EDGE_MS), ms + EDGE_MS)
}

fn cancel(writer: &mut Writer) -> CancelReaction {
    let on = writer.on;
    let mut reaction = CancelReaction { steps: writer.cancelled(), ..CancelReaction::default() };
    let dice = &mut writer.dice;
    let resists = on.has(Feature::Resists) && dice.in_16(8);
    let mut perhaps = |feature, n| on.has(feature) && dice.in_16(n);
    if resists || perhaps(Feature::NeverAnswers, 6) || perhaps(Feature::PressedInGrace, 12) {
        reaction.obey = Obey::Never;
    } else if on.has(Feature::DoubleAnswers) && dice.in_16(6) {
        reaction.obey = Obey::Twice;
    }
    if on.has(Feature::SlowCancels) {
        reaction.after_ms = match dice.in_16(8) {
            true => around(dice, &[STOP_GRACE_MS]),
            false => dice.magnitude(1, 6_000),
        };
    }
    if on.has(Feature::LostCancels) {
        reaction.lost_within_ms = dice.magnitude(1, 10);
    }
    if on.has(Feature::StaleCancels) {
        reaction.stale = dice.pick(&[Stale::CancelsNextPermission, Stale::CancelsNextTurn]);
    }
    reaction
}

fn at_eof(dice: &mut Dice, on: Features) -> Reaction {
    let mut reaction = Reaction::default();
    if on.has(Feature::IgnoresEof) && dice.in_16(12) {
        reaction.obey = Obey::Never;
    }
    if on.has(Feature::SlowAtEof) {
        reaction.after_ms = match dice.in_16(10) {
            true => {
                let eof = [ladder::POSIX_EOF_GRACE_MS, ladder::WIN32_EOF_GRACE_MS];
                let term = eof[0] + ladder::POSIX_TERM_GRACE_MS;
                around(dice, &[eof[0], eof[1], term, term + ladder::POSIX_KILL_WAIT_MS])
            }
            false => dice.magnitude(1, 6_000),
        };
    }
    if on.has(Feature::FallsAtEof) && dice.in_16(10) {
        reaction.steps = Some(vec![steps::fall(dice, on)]);
    } else if on.has(Feature::LateText) && dice.in_16(4) {
        // The last words come behind the end of the input.
        let last = steps::later(0, vec![steps::say("good bye")]);
        let code = dice.pick(&[0, 0, 1]);
        let exit = Step::Exit(moored_fake_agents::script::step::Exit { code });
        reaction.steps = Some(vec![last, steps::delay(dice.magnitude(1, 100)), exit]);
    }
    reaction
}

/// What a request of the handshake leads to.
fn requests(writer: &mut Writer, handlers: &mut Handlers) {
    let on = writer.on;
    let dice = &mut writer.dice;
    let method = dice.pick(&["session/new", "session/load", "session/resume", "initialize"]);
    let mut set = |method: &str, steps| {
        handlers.requests.insert(method.to_owned(), steps);
    };
    if on.has(Feature::SlowStart) && dice.in_16(8) {
        set(method, vec![steps::delay(dice.magnitude(1, 8_000)), steps::reply()]);
    }
    if on.has(Feature::EarlyFrames) {
        let early = steps::update(json!({
            "sessionUpdate": "available_commands_update", "availableCommands": []
        }));
        let early = if dice.in_16(8) { early } else { steps::say("hello") };
        let opening = dice.pick(&["session/new", "session/load", "session/resume"]);
        set(opening, vec![early.clone(), steps::reply(), early]);
    }
    if on.has(Feature::SlowCloses) {
        let answer = match dice.below(4) {
            0 => Vec::new(),
            1 => vec![steps::delay(around(dice, &[CLOSE_BARRIER_MS])), steps::reply()],
            2 => vec![steps::delay(dice.magnitude(1, 10_000)), steps::reply()],
            _ => vec![steps::delay(dice.magnitude(1, 6_000)), steps::fall(dice, on)],
        };
        set("session/close", answer);
    }
    if on.has(Feature::RefusedStart) && dice.in_16(10) {
        let error = match dice.below(3) {
            0 => steps::reply_error(-32603, "not today"),
            1 => steps::reply_error(-32000, "Authentication required"),
            _ => Step::Reply(Reply { result: Some(json!(7)), ..Reply::default() }),
        };
        set(method, vec![error]);
    }
    if on.has(Feature::OtherSession) {
        for opening in ["session/load", "session/resume"] {
            let result = Some(json!({ "sessionId": "another" }));
            set(opening, vec![Step::Reply(Reply { result, ..Reply::default() })]);
        }
    }
    if on.has(Feature::FallsWhenReady) {
        for opening in ["session/new", "session/load", "session/resume"] {
            let after = steps::delay(dice.pick(&[0, 0, 1, 3, 10, 100]));
            set(opening, vec![steps::reply(), after, steps::fall(dice, on)]);
        }
    }
    if on.has(Feature::FallsInInitialize) && dice.in_16(10) {
        set("initialize", vec![steps::delay(dice.below(20)), steps::fall(dice, on)]);
    }
    if on.has(Feature::FallsInSession) && dice.in_16(10) {
        let opening = dice.pick(&["session/new", "session/new", "session/load", "session/resume"]);
        set(opening, vec![steps::delay(dice.below(20)), steps::fall(dice, on)]);
    }
}

/// What the agent begins by itself.
fn idle(writer: &mut Writer, handlers: &mut Handlers) {
    let on = writer.on;
    if on.has(Feature::AgentTurns) {
        let times = u32::try_from(writer.dice.between(1, 2)).unwrap_or(1);
        let mut steps = Vec::new();
        for n in 0..writer.dice.between(1, 3) {
            if n > 0 {
                let quiet_ms = match writer.dice.in_16(6) {
                    true => around(&mut writer.dice, &[AGENT_TURN_QUIET_MS]),
                    false => writer.dice.magnitude(1, 2_500),
                };
                steps.push(steps::delay(quiet_ms));
            }
            writer.beat(0, &mut steps);
        }
        let after_ms = writer.late_ms();
        handlers.idle.push(Idle { after_ms, times, steps });
    }
    if on.has(Feature::FallsIdle) && writer.dice.in_16(8) {
        let after_ms = writer.dice.magnitude(1, 5_000);
        let steps = vec![steps::fall(&mut writer.dice, on)];
        handlers.idle.push(Idle { after_ms, times: 1, steps });
    }
    if on.has(Feature::Freezes) && writer.dice.in_16(4) {
        let after_ms = writer.dice.magnitude(1, 5_000);
        handlers.idle.push(Idle { after_ms, times: 1, steps: vec![steps::freeze()] });
    }
}
