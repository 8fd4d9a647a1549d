//! A coverage mark is met where its rule is applied, and nowhere else.

use serde_json::json;

use super::rig::{AGENT_SESSION, Rig};
use crate::coverage::CoverageMark::{self, *};
use crate::coverage::CoverageMarks;
use crate::host::PermissionAnswer;
use crate::journal::{ItemBody, Resolution, SendMode};
use crate::platform::Exit;
use crate::session::{Policy, Session};
use crate::store::StoredRows;

/// The marks that `act` adds, in their order.
fn met<T>(rig: &mut Rig, act: impl FnOnce(&mut Rig) -> T) -> Vec<CoverageMark> {
    let before = rig.session.met();
    act(rig);
    rig.session.met().without(before).iter().collect()
}

fn cancelled() -> serde_json::Value {
    json!({"stopReason": "cancelled"})
}

#[test]
fn a_plain_turn_meets_nothing_rare() {
    let mut rig = Rig::ready();
    assert_eq!(rig.session.met(), CoverageMarks::EMPTY);
    rig.send("m2", "two");
    rig.chunk("one");
    rig.reply_prompt(json!({"stopReason": "end_turn"}));
    assert_eq!(rig.session.met(), CoverageMarks::EMPTY);
}

#[test]
fn what_a_session_met_is_no_part_of_it() {
    let plain = Rig::ready();
    let mut rig = plain.clone();
    let again = |rig: &mut Rig| rig.send("m1", "warm up");
    assert_eq!(met(&mut rig, again), [SendReplayed]);
    assert_ne!(rig.session.met(), plain.session.met());
    assert_eq!(rig.session, plain.session);
    let epoch = Some(rig.session.record().epoch.clone());
    let stored = StoredRows { epoch, rows: rig.stored.clone(), fault: None };
    let record = rig.session.record().clone();
    let restored = Session::restore(Policy::default(), record, stored, rig.now);
    assert_eq!(restored.met().iter().collect::<Vec<_>>(), [RestoredOwned], "it begins anew");
}

#[test]
fn each_reach_of_a_stop_has_its_mark() {
    let mut rig = Rig::new();
    assert_eq!(met(&mut rig, |r| r.stop(None)), [StopOfNothing]);
    rig.send("m1", "hello");
    let starting = met(&mut rig.clone(), |r| r.stop(None));
    assert_eq!(starting, [StopWhileStarting, QueuedWithdrawn]);
    rig.handshake();
    rig.chunk("one");
    assert_eq!(met(&mut rig, |r| r.stop(Some("prompt:m0"))), [StopLate]);
    assert_eq!(met(&mut rig, |r| r.stop(None)), [StopInterrupted]);
    let again = met(&mut rig.clone(), |r| r.stop(None));
    assert_eq!(again, [StopJoinedEnd, StopGraceCut]);
    assert_eq!(met(&mut rig, |r| r.reply_prompt(cancelled())), [WoundDown]);
    assert_eq!(met(&mut rig, |r| r.exits(Exit::Code(0))), [LeftOnEof]);
    assert_eq!(met(&mut rig, |r| r.stop(Some("prompt:m1"))), []);
}

#[test]
fn a_stop_of_a_turn_that_is_still_to_open_has_a_mark() {
    let mut rig = Rig::ready();
    rig.commits = false;
    rig.send("m2", "two");
    rig.commit_one();
    let opening = met(&mut rig, |r| r.stop(Some("prompt:m2")));
    assert_eq!(opening, [StopInterrupted, StopOfOpening]);
    let overtaken = met(&mut rig, Rig::commit_all);
    assert_eq!(overtaken, [SendWaitedForEnd, HandoverOvertaken]);
    rig.commits = true;
    rig.exits(Exit::Code(0));
    rig.expect("initialize");
    assert_eq!(met(&mut rig, |r| r.stop(None)), [StopWhileStarting, HeldWithdrawn]);
}

#[test]
fn what_a_cut_turn_becomes_has_a_mark() {
    let begun = || {
        let mut rig = Rig::working("hello");
        rig.chunk("one");
        rig
    };
    let mut rig = begun();
    assert_eq!(met(&mut rig, |r| r.exits(Exit::Signal(9))), [CutByExit]);
    let mut rig = begun();
    assert_eq!(met(&mut rig, |r| r.exits(Exit::Code(0))), [CutByExit, CleanExitMidTurn]);
    let mut rig = begun();
    rig.stop(None);
    let left = met(&mut rig, |r| r.exits(Exit::Code(0)));
    assert_eq!(left, [ExitInWindDown, CutMadeCancellation]);
    let mut rig = begun();
    rig.stop(None);
    let answered = met(&mut rig, |r| r.reply_prompt(json!({"stopReason": "end_turn"})));
    assert_eq!(answered, [WoundDown, VerdictUnderStop]);
    let mut rig = begun();
    rig.exit_seen(Exit::Code(1));
    rig.pass_ms(5);
    assert_eq!(met(&mut rig, |r| r.close()), [CloseJoinedEnd]);
    assert_eq!(met(&mut rig, Rig::streams_end), [CutByExit, ExitBeforeStop]);
}

#[test]
fn each_rung_of_the_ladder_has_its_mark() {
    let mut rig = Rig::working("hello");
    rig.stop(None);
    assert_eq!(met(&mut rig, |r| r.pass_ms(4_000)), [StopGraceExpired]);
    let term = met(&mut rig.clone(), |r| {
        r.pass_ms(1_000);
        r.exits(Exit::Signal(15));
    });
    assert_eq!(term, [LeftUnknown, LeftAfterTerm, CutMadeCancellation]);
    assert_eq!(met(&mut rig, |r| r.pass_ms(6_000)), [EndUnproven, StopFailed]);
    assert_eq!(met(&mut rig, |r| r.stop(None)), [EndRetried, StopJoinedEnd]);
    rig.pass_ms(6_000);
    let proven = met(&mut rig, |r| r.exits(Exit::Signal(9)));
    assert_eq!(proven, [LeftUnknown, LeftAfterKill, ProvenAtLast, CutMadeCancellation]);
}

#[test]
fn a_break_and_its_proof_have_marks() {
    let mut rig = Rig::working("hello");
    rig.tool("t1", "in_progress");
    assert_eq!(met(&mut rig, Rig::stdout_ends), [StdoutEndedFirst]);
    assert_eq!(met(&mut rig, |r| r.pass_ms(4_000)), [ConnectionBroken, ToolCut]);
    assert_eq!(met(&mut rig, |r| r.exits(Exit::Signal(15))), [BreakProven, LeftOnEof]);
}

#[test]
fn late_words_and_second_answers_have_marks() {
    let mut rig = Rig::working("hello");
    rig.tool("t1", "completed");
    let prompt = rig.expect("session/prompt");
    rig.reply(&prompt, json!({"stopReason": "end_turn"}));
    assert_eq!(met(&mut rig, |r| r.tool_update("t1", "failed")), [LateToolMarked]);
    assert_eq!(met(&mut rig, |r| r.chunk("more")), [LateTextJoined]);
    let twice = met(&mut rig, |r| r.reply(&prompt, cancelled()));
    assert_eq!(twice, [ReplyDuplicated]);
    rig.pass_ms(1_000);
    assert_eq!(met(&mut rig, |r| r.chunk("by the way")), [AgentTurnOpened]);
    assert_eq!(met(&mut rig.clone(), |r| r.pass_ms(3_000)), [AgentTurnQuiet]);
    assert_eq!(met(&mut rig, |r| r.send("m2", "two")), [AgentTurnSuperseded]);
}

#[test]
fn steers_and_suppressed_cancels_have_marks() {
    let mut rig = Rig::working("one");
    rig.send("m2", "later");
    let steer = |id: &'static str| move |r: &mut Rig| r.send_as(id, "now", SendMode::Steer);
    assert_eq!(met(&mut rig, steer("m3")), [SteerCut]);
    assert_eq!(met(&mut rig, steer("m4")), [CancelSuppressed]);
    assert_eq!(met(&mut rig, |r| r.reply_prompt(cancelled())), [SteerWentFirst]);
}

#[test]
fn a_refusing_store_has_marks() {
    let mut rig = Rig::working("hello");
    rig.commits = false;
    rig.chunk("more");
    rig.pass_ms(20);
    assert_eq!(met(&mut rig, Rig::refuse_all), [ReadingPaused, StoreRefused]);
    assert_eq!(met(&mut rig, |r| r.send("m2", "two")), [SendNotSaved]);
    let stopped = met(&mut rig, |r| r.stop(None));
    assert_eq!(stopped, [StopInterrupted, StopWhileNotSaved, PlannedWhileRefused]);
    assert_eq!(met(&mut rig, |r| r.pass_ms(250)), []);
    assert_eq!(met(&mut rig, Rig::commit_all), [ReadingResumed, StoreHealed]);
}

#[test]
fn what_becomes_of_a_question_has_a_mark() {
    let ask = |rig: &mut Rig, id: u64| {
        let params = json!({"sessionId": AGENT_SESSION, "toolCall": {"title": "x"},
            "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]});
        rig.says(&json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}));
    };
    let card = |rig: &Rig, option: Option<&str>| {
        let pending = |b: &ItemBody| matches!(b, ItemBody::Approval(a) if a.resolution == Resolution::Pending);
        let card = rig.items().into_iter().find(|i| pending(&i.body)).expect("a card");
        PermissionAnswer {
            item: card.item,
            expected_revision: card.revision,
            option: option.map(str::to_owned),
        }
    };
    let mut rig = Rig::working("hello");
    assert_eq!(met(&mut rig, |r| ask(r, 1)), [PermissionRaised]);
    let yes = card(&rig, Some("yes"));
    assert_eq!(met(&mut rig, |r| r.answer(yes.clone())), [PermissionAnswered]);
    assert_eq!(met(&mut rig, |r| r.answer(yes.clone())), [PermissionLost]);
    assert_eq!(met(&mut rig, |r| ask(r, 1)), [RequestIdReused]);
    let no = card(&rig, None);
    assert_eq!(met(&mut rig, |r| r.answer(no)), [PermissionDismissed]);
    ask(&mut rig, 3);
    let withdrawn = met(&mut rig, |r| r.stop(None));
    assert_eq!(withdrawn, [StopInterrupted, PermissionWithdrawn]);
    assert_eq!(met(&mut rig, |r| ask(r, 4)), [PermissionUnasked]);
}
