//! The digest: what two sessions may differ in and be one state, and what makes them two.

use std::collections::BTreeMap;

use serde_json::json;

use super::rig::Rig;
use crate::ids::{Generation, SpawnToken};
use crate::platform::{Exit, Mono};
use crate::session::Session;
use crate::session::child::Prompt;
use crate::session::timers::Timer;

fn digest(rig: &Rig) -> u128 {
    rig.session.digest(rig.now)
}

/// A story of one message, stopped; `late` shifts it in time, and every name is made of `names`.
fn stopped(late: u64, names: &str) -> Rig {
    let mut rig = Rig::new();
    rig.pass_ms(late);
    rig.send(&format!("{names}-message"), "hello");
    rig.handshake();
    rig.pass_ms(50);
    rig.chunk("working");
    rig.stop(None);
    rig
}

#[test]
fn the_same_story_under_other_names_is_the_same_state() {
    assert_eq!(digest(&stopped(0, "a")), digest(&stopped(0, "b")));
}

#[test]
fn the_same_story_at_another_time_is_the_same_state() {
    let (early, late) = (stopped(10, "a"), stopped(7_000, "a"));
    assert_ne!(early.session, late.session, "their times differ");
    assert_eq!(digest(&early), digest(&late));
}

#[test]
fn a_window_that_is_further_along_is_another_state() {
    let mut early = stopped(0, "a");
    let before = digest(&early);
    early.now.mono = early.now.mono.plus_ms(1);
    early.now.wall_ms += 1;
    assert_ne!(before, digest(&early));
}

#[test]
fn a_time_that_is_past_is_not_a_time_that_is_now() {
    // The turn-end rule compares an exit with a Stop: whether the next one can come at the same time matters.
    let rig = stopped(0, "a");
    let mut later = rig.clone();
    later.now.wall_ms += 1;
    assert_ne!(digest(&rig), digest(&later));
    let next = digest(&later);
    later.now.wall_ms += 1;
    assert_eq!(next, digest(&later), "how long ago it was does not");
}

#[test]
fn two_orders_of_steps_that_do_not_touch_each_other_meet() {
    let ended = |stderr_first: bool| {
        let mut rig = Rig::working("hello");
        let generation = rig.generation.clone();
        let exit = crate::platform::Report::Exited { exit: Exit::Code(1) };
        rig.session.handle_report(rig.now, &generation, exit);
        if stderr_first {
            rig.session.handle_stderr_end(rig.now, &generation);
        }
        rig.session.handle_stdout_end(rig.now, &generation);
        if !stderr_first {
            rig.session.handle_stderr_end(rig.now, &generation);
        }
        rig.settle();
        rig
    };
    assert_eq!(digest(&ended(true)), digest(&ended(false)));
}

#[test]
fn another_exit_another_text_another_count_is_another_state() {
    let story = |text: &str, exit: i32, chunks: usize| {
        let mut rig = Rig::working(text);
        (0..chunks).for_each(|_| rig.chunk("x"));
        rig.exits(Exit::Code(exit));
        digest(&rig)
    };
    let first = story("hello", 0, 1);
    assert_eq!(first, story("hello", 0, 1));
    for other in [story("hullo", 0, 1), story("hello", 1, 1), story("hello", 0, 2)] {
        assert_ne!(first, other);
    }
}

/// One field at a time, from states all along a life.
#[test]
fn every_field_that_decides_something_counts() {
    type Change = fn(&mut Session);
    let changes: [(&str, Change); 12] = [
        ("withheld", |s| s.withheld = Some("other".into())),
        ("minting", |s| s.minting = !s.minting),
        ("discarded", |s| s.discarded += 1),
        ("texts", |s| s.texts_made += 1),
        ("life", |s| s.life = crate::session::machine::Life::Quitting),
        ("revision", |s| s.record.revision += 1),
        ("fence", |s| s.record.lease.fence = s.record.lease.fence.next()),
        ("claim", |s| s.record.lease.processless = !s.record.lease.processless),
        ("timer", |s| s.timers.arm(Timer::StoreRetry, Mono::from_ms(99_000))),
        ("policy", |s| s.policy.ladder.eof_grace_ms += 1),
        ("generation", |s| {
            s.child.iter_mut().for_each(|c| c.generation = Generation("other".to_owned()));
        }),
        ("token", |s| {
            s.record.lease.token = Some(SpawnToken("other".to_owned()));
        }),
    ];
    let mut rig = Rig::working("hello");
    let mut states = vec![rig.clone()];
    rig.chunk("x");
    states.push(rig.clone());
    rig.stop(None);
    states.push(rig.clone());
    rig.exits(Exit::Code(0));
    states.push(rig);
    for (at, rig) in states.iter().enumerate() {
        for (what, change) in changes {
            let mut other = rig.session.clone();
            change(&mut other);
            let same = other == rig.session;
            let digests = (rig.session.digest(rig.now), other.digest(rig.now));
            assert_eq!(digests.0 == digests.1, same, "{what} in state {at}");
        }
    }
}

#[test]
fn a_prompt_that_was_cancelled_long_ago_reads_like_one_cancelled_longer_ago() {
    let cancelled = |ago_ms: u64| {
        let mut rig = Rig::working("hello");
        let at = Mono(rig.now.mono.0 - ago_ms * 1_000);
        let child = rig.session.child.as_mut().expect("a child");
        let prompt = child.prompt.take().expect("a prompt");
        child.prompt = Some(Prompt { cancelled: Some(at), ..prompt });
        digest(&rig)
    };
    let mut seen = BTreeMap::new();
    for ago_ms in [0, 1, 500, 999] {
        assert!(seen.insert(cancelled(ago_ms), ago_ms).is_none(), "{ago_ms} ms ago");
    }
}

#[test]
fn a_key_is_the_same_id_wherever_it_stands() {
    // The item of one message, and the same with the two messages' items exchanged.
    let sent = |first: &str, second: &str| {
        let mut rig = Rig::working("hello");
        rig.send(first, "first");
        rig.send(second, "second");
        rig
    };
    let rig = sent("x", "y");
    assert_eq!(digest(&rig), digest(&sent("v", "w")), "renamed in order");
    let mut crossed = rig.clone();
    crossed.session.withheld = Some("x".into());
    let mut other = rig;
    other.session.withheld = Some("y".into());
    assert_ne!(digest(&crossed), digest(&other), "which of the two it is counts");
    let answered = json!({"stopReason": "end_turn"});
    let mut a = sent("x", "y");
    let mut b = sent("v", "w");
    a.reply_prompt(answered.clone());
    b.reply_prompt(answered);
    assert_eq!(digest(&a), digest(&b), "and they go on alike");
}
