//! The Stop matrix of rule 3.12, row by row: what a press reaches, how the turn ends, what the note says, and from when to
//! when the session reads stopping.

use serde_json::json;

use super::rig::{AGENT_SESSION, Rig};
use crate::journal::{ItemBody, Outcome, STOP_NOTE, TurnState};
use crate::platform::{Exit, Report};
use crate::session::{Answer, CallId};
use crate::status::Status;

const UNCONFIRMED: &str = "Cancellation was not confirmed.";

/// One row: how the state is reached, the press, what comes behind it.
struct Case {
    name: &'static str,
    before: fn() -> Rig,
    press: fn(&mut Rig) -> CallId,
    after: fn(&mut Rig),
    expected: Expected,
}

#[derive(Debug, PartialEq, Eq)]
struct Expected {
    /// The Stop's answer.
    cancelled: bool,
    /// Cancels that were written.
    cancels: usize,
    /// The newest turn.
    turn: Option<(TurnState, Option<Outcome>)>,
    notes: Vec<&'static str>,
    /// It reads stopping right behind the press.
    rises: bool,
    /// It still does at the end.
    stays: bool,
    /// The child is asked to end.
    ends: bool,
}

const CUT: Option<(TurnState, Option<Outcome>)> =
    Some((TurnState::Interrupted, Some(Outcome::Cancellation)));
const WARM: Option<(TurnState, Option<Outcome>)> =
    Some((TurnState::Completed, Some(Outcome::Success)));

fn working() -> Rig {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    rig.chunk("one");
    rig
}

fn answers(rig: &mut Rig, result: serde_json::Value) {
    // The prompt is the third request of a child.
    rig.says(&json!({"jsonrpc": "2.0", "id": 2, "result": result}));
}

fn leaves(rig: &mut Rig) {
    rig.exits(Exit::Code(0));
}

fn unnamed(rig: &mut Rig) -> CallId {
    rig.stop(None)
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let none = || Expected { cancelled: false, cancels: 0, turn: None, notes: vec![], rises: false, stays: false, ends: false };
    let cut = || Expected { cancelled: true, cancels: 1, turn: CUT, notes: vec![STOP_NOTE], rises: true, stays: false, ends: true };
    vec![
        Case { name: "nothing running, nothing queued", before: Rig::ready, press: unnamed, after: |_| {},
            expected: Expected { turn: WARM, ..none() } },
        Case { name: "nothing at all", before: Rig::new, press: unnamed, after: |_| {}, expected: none() },
        Case { name: "only queued sends", before: || {
                let mut rig = Rig::new();
                rig.mints = false;
                rig.send("m1", "hello");
                rig
            }, press: unnamed, after: |_| {}, expected: Expected { cancelled: true, ..none() } },
        Case { name: "queued sends, child starting", before: || {
                let mut rig = Rig::new();
                rig.send("m1", "hello");
                rig.expect("initialize");
                rig
            }, press: unnamed, after: leaves, expected: Expected { cancelled: true, ends: true, ..none() } },
        Case { name: "turn running, answers `cancelled` in time", before: working, press: unnamed,
            after: |rig| { answers(rig, json!({"stopReason": "cancelled"})); leaves(rig); }, expected: cut() },
        Case { name: "turn running, answers `end_turn` after the cancel", before: working, press: unnamed,
            after: |rig| { answers(rig, json!({"stopReason": "end_turn"})); leaves(rig); },
            expected: Expected { turn: WARM, ..cut() } },
        Case { name: "turn running, error answer after the cancel", before: working, press: unnamed,
            after: |rig| {
                rig.says(&json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32603, "message": "no quota"}}));
                leaves(rig);
            },
            expected: Expected { turn: Some((TurnState::Completed, Some(Outcome::Failure))),
                notes: vec![STOP_NOTE, "The agent ended the turn with an error. The agent said: no quota"], ..cut() } },
        Case { name: "turn running, no answer in 4 000 ms", before: working, press: unnamed,
            after: |rig| { rig.pass_ms(4_500); leaves(rig); }, expected: cut() },
        Case { name: "same, exit cannot be proven", before: working, press: unnamed, after: |rig| rig.pass_ms(60_000),
            expected: Expected { turn: Some((TurnState::Running, None)), notes: vec![UNCONFIRMED], stays: true, ..cut() } },
        Case { name: "turn running, permission pending", before: || {
                let mut rig = working();
                let params = json!({"sessionId": AGENT_SESSION, "toolCall": {"title": "rm"}, "options": []});
                rig.says(&json!({"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": params}));
                assert_eq!(rig.summary().status, Some(Status::Attention));
                rig
            }, press: unnamed, after: |rig| { answers(rig, json!({"stopReason": "cancelled"})); leaves(rig); }, expected: cut() },
        Case { name: "turn opened by the agent itself", before: || {
                let mut rig = Rig::ready();
                rig.pass_ms(1_000);
                rig.chunk("by myself");
                rig
            }, press: unnamed, after: |rig| { rig.pass_ms(10_000); leaves(rig); }, expected: cut() },
        Case { name: "Stop names an ended turn, another turn runs", before: || {
                let mut rig = Rig::ready();
                rig.send("m2", "again");
                rig.expect("session/prompt");
                rig
            }, press: |rig| rig.stop(Some("prompt:m1")), after: |_| {},
            expected: Expected { turn: Some((TurnState::Running, None)), ..none() } },
        Case { name: "close already in progress", before: || { let mut rig = working(); rig.close(); rig }, press: unnamed,
            after: |rig| { answers(rig, json!({"stopReason": "cancelled"})); leaves(rig); },
            // The close had withdrawn what there was and cancelled; it reads stopping for it, not for the press.
            expected: Expected { cancelled: false, notes: vec![], ..cut() } },
        Case { name: "exit was seen before the Stop's time", before: || {
                let mut rig = working();
                rig.exit_seen(Exit::Code(1));
                rig.pass_ms(5);
                rig
            }, press: unnamed, after: |rig| { rig.streams_end(); rig.swept(true); },
            expected: Expected { turn: Some((TurnState::Interrupted, None)),
                notes: vec!["The agent ended the turn with an error."], ends: true, ..none() } },
    ]
}

fn cancels(rig: &Rig) -> usize {
    rig.frames.iter().filter(|frame| frame["method"] == "session/cancel").count()
}

#[test]
pub(super) fn the_stop_matrix() {
    for case in cases() {
        let mut rig = (case.before)();
        let call = (case.press)(&mut rig);
        let reads_stopping = |rig: &Rig| rig.session.summary().stopping;
        let rises = reads_stopping(&rig);
        (case.after)(&mut rig);
        let answer = rig.answers.get(&call);
        let Some(Answer::Stopped(Ok(stopped))) = answer else {
            panic!("{}: the Stop is answered, not {answer:?}", case.name);
        };
        let lines = rig.lines();
        let seen = Expected {
            cancelled: stopped.cancelled,
            cancels: cancels(&rig),
            turn: rig.turns().pop().map(|turn| (turn.state, turn.outcome)),
            notes: case
                .expected
                .notes
                .iter()
                .copied()
                .filter(|n| lines.iter().any(|l| l == n))
                .collect(),
            rises,
            stays: reads_stopping(&rig),
            ends: rig.stdin_closed,
        };
        assert_eq!(seen, case.expected, "{}", case.name);
        assert_eq!(lines.len(), case.expected.notes.len(), "{}: {lines:?}", case.name);
    }
}

#[test]
fn stopping_is_published_from_the_press_to_the_turns_end_and_rises_once() {
    let mut rig = working();
    let published = rig.summaries.len();
    rig.stop(None);
    rig.pass_ms(100);
    rig.chunk("last words");
    answers(&mut rig, json!({"stopReason": "cancelled"}));
    leaves(&mut rig);
    let told: Vec<_> = rig.summaries[published..].iter().map(|s| (s.status, s.stopping)).collect();
    let stopping = told.iter().filter(|(_, stopping)| *stopping).count();
    assert_eq!(told.first(), Some(&(Some(Status::Working), true)), "{told:?}");
    assert!(stopping >= 1 && told[..stopping].iter().all(|(_, stopping)| *stopping), "{told:?}");
    assert_eq!(told.last(), Some(&(Some(Status::Idle), false)));
}

#[test]
fn stopping_needs_no_store() {
    let mut rig = working();
    rig.commits = false;
    rig.stop(None);
    rig.refuse_all();
    assert!(rig.summary().stopping, "the press took effect (rule 3.1.2)");
}

#[test]
fn a_message_held_behind_a_stop_does_not_read_stopping_once_the_stopped_turn_has_ended() {
    let mut rig = working();
    rig.stop(None);
    rig.send("m2", "later");
    answers(&mut rig, json!({"stopReason": "cancelled"}));
    assert_eq!((rig.summary().status, rig.summary().stopping), (Some(Status::Working), false));
    rig.expect("session/cancel");
    leaves(&mut rig);
    rig.handshake();
    assert!(!rig.summary().stopping, "never on a later turn (rule 4.1.4)");
}

#[test]
pub(super) fn an_unconfirmed_stop_that_is_proven_later_reads_taken_for_everybody() {
    let mut rig = working();
    rig.stop(None);
    rig.pass_ms(60_000);
    assert_eq!(rig.lines(), [UNCONFIRMED]);
    // A second press runs the end again; it writes no second note (rule 3.7.2).
    rig.stop(None);
    assert!(rig.summary().stopping);
    rig.pass_ms(5);
    assert_eq!(rig.lines(), [UNCONFIRMED]);
    leaves(&mut rig);
    assert_eq!(rig.lines(), [STOP_NOTE], "in a batch (rule 3.6.7)");
    let texts = |items: Vec<crate::journal::ItemView>| -> Vec<String> {
        let line = |i: crate::journal::ItemView| match i.body {
            ItemBody::Status(status) => Some(status.text),
            _ => None,
        };
        items.into_iter().filter_map(line).collect()
    };
    assert_eq!(texts(rig.session.snapshot().items), [STOP_NOTE], "and in a whole (rule 3.6.6)");
    let turn = rig.last_turn();
    assert_eq!((turn.state, turn.outcome), CUT.expect("a cut turn"));
}

#[test]
pub(super) fn the_first_press_keeps_its_turn_when_a_second_one_withdraws_a_message() {
    let mut rig = working();
    rig.stop(None);
    rig.pass_ms(10);
    rig.exit_seen(Exit::Code(0));
    rig.pass_ms(10);
    rig.send("m2", "later");
    // It is a new event, behind the exit; the turn is still the first one's (rules 3.3.3, 3.4.8).
    rig.stop(None);
    rig.streams_end();
    rig.swept(true);
    let turn = rig.last_turn();
    assert_eq!((turn.state, turn.outcome), CUT.expect("a cut turn"));
}

#[test]
fn the_wall_clock_does_not_say_whether_an_exit_came_before_the_press() {
    for step_ms in [-5_000_i64, 5_000] {
        let mut rig = working();
        rig.exit_seen(Exit::Code(1));
        // The two may come in the same instant, and are met in this order.
        rig.now.wall_ms = rig.now.wall_ms.saturating_add_signed(step_ms);
        rig.send("m2", "later");
        rig.stop(None);
        rig.streams_end();
        rig.swept(true);
        assert_eq!(rig.last_turn().outcome, None, "it stays news (rule 3.4.8), step {step_ms}");
    }
    let mut rig = working();
    rig.stop(None);
    rig.pass_ms(1);
    rig.now.wall_ms -= 5_000;
    leaves(&mut rig);
    assert_eq!(
        rig.last_turn().outcome,
        Some(Outcome::Cancellation),
        "it was seen behind the press"
    );
}

#[test]
fn a_turn_whose_supervisor_was_lost_under_a_stop_does_not_run_for_ever() {
    let mut rig = working();
    rig.stop(None);
    let generation = rig.generation.clone();
    rig.session.handle_report(rig.now, &generation, Report::SupervisorLost);
    rig.settle();
    rig.pass_ms(60_000);
    assert_eq!(rig.last_turn().state, TurnState::Unverifiable);
    assert_eq!(rig.lines(), [UNCONFIRMED]);
    let summary = rig.summary();
    assert_eq!((summary.status, summary.stopping), (Some(Status::Idle), false));
    assert_eq!(summary.turn_outcome, Some(Outcome::Unconfirmed), "table 8.2");
}

#[test]
fn a_message_sent_after_a_stop_does_not_read_stopping() {
    let mut rig = Rig::new();
    rig.commits = false;
    rig.send("m1", "hello");
    rig.commit_all();
    rig.expect("initialize");
    rig.stop(None);
    assert!(rig.session.summary().stopping, "m1 is not withdrawn on disk yet");
    rig.send("m2", "later");
    rig.commit_one();
    rig.commit_all();
    let rises = |stopping: &[bool]| stopping.windows(2).filter(|w| !w[0] && w[1]).count();
    let told: Vec<_> = rig.summaries.iter().map(|summary| summary.stopping).collect();
    assert_eq!((rises(&told), told.last()), (1, Some(&false)), "{told:?}");
    assert_eq!(rig.summary().status, Some(Status::Working), "m2 waits");
}
