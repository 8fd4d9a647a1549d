//! The personas: each does what its line says, whatever the timing.

mod bench;

use bench::Bench;
use moored_fake_agents::{End, PERSONAS, Signal, persona};

fn ready(name: &str) -> Bench {
    let script = persona(name).expect(name);
    let mut bench = Bench::process(script, &Default::default(), 100);
    bench.pass(2_000); // the slowest start of them
    bench.open();
    bench
}

#[test]
fn every_persona_is_known_by_name_and_says_what_it_is_for() {
    for known in PERSONAS {
        assert!(!persona(known.name).expect(known.name).about.is_empty(), "{}", known.name);
    }
    assert!(persona("nobody").is_none());
    assert!(PERSONAS.is_sorted_by_key(|known| known.name));
}

#[test]
fn echo_says_it_back() {
    let mut bench = ready("echo");
    bench.prompt(3, "hi");
    assert_eq!(bench.frames(), ["say hi", "3 end_turn"]);
    bench.end_input();
    assert_eq!(bench.end(), Some(End::Exited(0)));
}

#[test]
fn the_slow_starter_answers_after_two_seconds() {
    let mut bench = Bench::process(persona("slow-starter").unwrap(), &Default::default(), 100);
    bench.request(1, "initialize", serde_json::json!({}));
    bench.pass(1_999);
    assert_eq!(bench.frames().len(), 0);
    bench.pass(1);
    assert_eq!(bench.frames().len(), 1);
}

#[test]
fn the_late_persister_exits_on_nothing_but_the_end_of_input_and_not_before_its_entry_is_written() {
    let mut bench = ready("late-persister");
    bench.prompt(3, "go");
    bench.cancel();
    assert_eq!(bench.frames(), ["say working", "3 cancelled"]);
    for signal in [Signal::Term, Signal::Int, Signal::Hup] {
        bench.signal(signal);
    }
    bench.end_input();
    bench.pass(199);
    assert_eq!((bench.end(), bench.file().len()), (None, 2));
    bench.pass(1);
    assert_eq!(bench.end(), Some(End::Exited(0)));
    assert_eq!(bench.file()[2..], ["assistant aborted working", "custom session_exit manual"]);

    let mut bench = ready("late-persister");
    bench.prompt(3, "finish");
    assert_eq!(bench.frames(), ["say finished", "3 end_turn"]);
}

#[test]
fn never_answers_takes_no_cancel_and_exits() {
    let mut bench = ready("never-answers");
    bench.prompt(3, "hi");
    bench.cancel();
    bench.prompt(4, "there?");
    bench.pass(600_000);
    assert_eq!(bench.frames(), ["think let me see"]);
    bench.end_input();
    assert_eq!((bench.end(), bench.frames().len()), (Some(End::Exited(0)), 0));
}

#[test]
fn the_crasher_dies_in_its_turn() {
    let mut bench = ready("crasher");
    bench.prompt(3, "hi");
    assert_eq!(
        (bench.frames(), bench.end()),
        (vec!["say one ".into(), "say two ".into()], Some(End::Exited(1)))
    );
    assert_eq!(bench.machine().stderr, b"fatal: out of cheese\n");
    assert_eq!(bench.file(), ["session", "user hi"]);

    let mut bench = ready("crasher");
    bench.prompt(3, "by signal");
    assert_eq!(bench.end(), Some(End::Signalled(Signal::Kill)));

    let mut bench = ready("crasher");
    bench.prompt(3, "finish");
    assert_eq!(bench.frames(), ["say finished", "3 end_turn"]);
}

#[test]
fn the_refuser_refuses() {
    let mut bench = ready("refuser");
    bench.prompt(3, "hi");
    assert_eq!(bench.frames(), ["3 refusal"]);
}

#[test]
fn the_flooder_floods_both_outputs_and_answers() {
    let mut bench = ready("flooder");
    bench.prompt(3, "hi");
    let output = bench.output();
    let lines: Vec<&[u8]> = output.split(|byte| *byte == b'\n').collect();
    assert_eq!((lines.len(), lines[2000].len()), (2000 + 1 + 1 + 1, 1 << 20));
    assert_eq!(bench.machine().stderr.len(), 1 << 20);
}

#[test]
fn the_noisy_one_says_forty_two_things_before_its_first_frame() {
    let mut bench = Bench::process(persona("noisy-stdout").unwrap(), &Default::default(), 100);
    bench.request(1, "initialize", serde_json::json!({}));
    let frames = bench.frames();
    assert_eq!(frames.len(), 40 + 1 + 2 + 1);
    assert!(frames[43].contains("protocolVersion"));
    bench.open();
    bench.prompt(3, "hi");
    assert_eq!(bench.frames().iter().filter(|frame| *frame == "say hi").count(), 1);
}

#[test]
fn one_ignores_the_end_of_input_and_obeys_a_signal() {
    let mut bench = ready("ignores-eof");
    bench.end_input();
    bench.pass(600_000);
    assert_eq!(bench.end(), None);
    bench.signal(Signal::Term);
    assert_eq!(bench.end(), Some(End::Exited(143)));
}

#[test]
fn the_orphan_maker_makes_two() {
    let mut bench = ready("orphan-maker");
    bench.prompt(3, "hi");
    assert_eq!(bench.frames(), ["say hi", "3 end_turn"]);
    assert_eq!(bench.machine().forks.len(), 2);
    bench.end_input();
    assert_eq!(bench.end(), Some(End::Exited(0)), "the children are left behind");
}

#[test]
fn the_frozen_one_stops_in_its_turn() {
    let mut bench = ready("frozen");
    bench.prompt(3, "hi");
    bench.end_input();
    bench.pass(60_000);
    assert_eq!((bench.frames(), bench.end()), (vec!["say one ".into()], None));
    assert!(bench.machine().stopped);
}
