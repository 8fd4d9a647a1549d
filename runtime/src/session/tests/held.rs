//! What a Stop holds back, as the summary lists it (rule 5.4.1, decision D27), and what its derivation costs.

use serde_json::json;

use super::rig::{AGENT_SESSION, Rig};
use crate::ids::MessageId;
use crate::journal::{SendMode, SubmissionState};
use crate::limits::{HELD_LISTED_MAX, QUEUED_SENDS_MAX};
use crate::platform::Exit;
use crate::session::Answer;
use crate::status::{Held, Status, StatusFrame, Summaries, Summary, fold, held, main_agent};

fn working() -> Rig {
    let mut rig = Rig::working("hello");
    rig.expect("session/prompt");
    rig.chunk("one");
    rig
}

fn answers_cancelled(rig: &mut Rig) {
    // The prompt is the third request of a child.
    rig.says(&json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "cancelled"}}));
}

fn listed(rig: &Rig) -> Vec<&str> {
    rig.summary().held.iter().map(MessageId::as_str).collect()
}

fn why(rig: &Rig, message: &str) -> Option<Held> {
    held(rig.timeline.submission(&message.into()).expect("a submission"), rig.summary())
}

#[test]
pub(super) fn a_message_sent_behind_a_stop_is_listed_until_the_stopped_turn_has_ended() {
    let mut rig = working();
    rig.stop(None);
    assert!(rig.summary().stopping && listed(&rig).is_empty());
    rig.send("m2", "later");
    rig.send_as("m3", "and this", SendMode::Steer);
    assert_eq!(listed(&rig), ["m2", "m3"]);
    assert_eq!(why(&rig, "m2"), Some(Held::Stopping));
    assert_eq!(why(&rig, "m1"), None, "the agent has it");
    answers_cancelled(&mut rig);
    assert_eq!((rig.summary().stopping, listed(&rig)), (false, vec![]));
    assert_eq!(why(&rig, "m2"), None, "it waits for the old child's end, and not for the Stop");
    assert_eq!(rig.state_of("m2"), SubmissionState::Queued);
    assert_eq!(rig.session.summary(), *rig.summary(), "what is asked for is what was published");
}

#[test]
fn a_message_that_waits_behind_a_turn_is_not_held() {
    let mut rig = working();
    rig.send("m2", "later");
    assert!(listed(&rig).is_empty(), "it waits its turn, and nobody pressed");
    // That Stop withdraws it: it is held at no moment, not even before the withdrawal is on disk (rule 3.1.1).
    rig.commits = false;
    rig.stop(None);
    assert!(rig.summary().stopping && listed(&rig).is_empty());
    rig.send("m3", "after the press");
    rig.commit_all();
    assert_eq!(listed(&rig), ["m3"]);
}

#[test]
pub(super) fn a_second_stop_withdraws_what_the_first_one_held_back() {
    let mut rig = working();
    rig.stop(None);
    rig.send("m2", "later");
    assert_eq!(listed(&rig), ["m2"]);
    rig.commits = false;
    rig.stop(None);
    assert!(rig.summary().stopping && listed(&rig).is_empty(), "rule 3.8.1");
    rig.commit_all();
    assert_eq!(rig.state_of("m2"), SubmissionState::Rejected);
}

#[test]
fn a_message_whose_frame_a_stop_held_back_is_listed_first() {
    let mut rig = working();
    answers_cancelled(&mut rig);
    rig.commits = false;
    rig.send("m2", "just before");
    rig.commit_one();
    rig.stop(None);
    assert_eq!(listed(&rig), ["m2"], "its frame will not leave (decision D24)");
    rig.send("m3", "just behind");
    rig.commit_all();
    assert_eq!(rig.state_of("m2"), SubmissionState::HandedOver, "on disk, and nowhere else");
    assert_eq!(listed(&rig), ["m2", "m3"]);
    assert_eq!(why(&rig, "m2"), Some(Held::Stopping));
    rig.commits = true;
    rig.exits(Exit::Code(0));
    assert!(listed(&rig).is_empty(), "the Stop is over, and nothing waits for it");
}

#[test]
fn the_list_holds_the_whole_queue_and_no_more() {
    let mut rig = working();
    answers_cancelled(&mut rig);
    rig.commits = false;
    rig.send("withheld", "just before");
    rig.commit_one();
    rig.stop(None);
    rig.commits = true;
    rig.commit_all();
    for n in 0..QUEUED_SENDS_MAX {
        rig.send(&format!("m{n:03}"), "later");
    }
    assert_eq!(rig.summary().held.len(), HELD_LISTED_MAX);
    let last = format!("m{:03}", QUEUED_SENDS_MAX - 1);
    assert_eq!(listed(&rig)[..2], ["withheld", "m000"]);
    assert_eq!(listed(&rig).last(), Some(&last.as_str()));
    let call = rig.send("too many", "later");
    assert!(matches!(rig.answers.get(&call), Some(Answer::Sent(Err(_)))), "the queue is full");
    assert_eq!(rig.summary().held.len(), HELD_LISTED_MAX);
}

#[test]
fn a_close_holds_nothing_back_it_rejects() {
    let mut rig = working();
    rig.stop(None);
    rig.send("m2", "later");
    rig.commits = false;
    rig.close();
    assert!(listed(&rig).is_empty(), "it will never go out");
    rig.commit_all();
    assert_eq!(rig.state_of("m2"), SubmissionState::Rejected);

    // Nor what a Stop has overtaken on its way, once no child will come for it.
    let mut rig = Rig::ready();
    rig.commits = false;
    rig.send("m2", "just before");
    rig.commit_one();
    rig.stop(None);
    assert_eq!(listed(&rig), ["m2"]);
    rig.close();
    assert!(rig.session.is_stopping() && listed(&rig).is_empty());
    rig.commit_all();
    assert_eq!(rig.state_of("m2"), SubmissionState::Rejected);
}

#[test]
pub(super) fn t51_a_change_of_stopping_alone_is_sent_again_and_every_list_sees_it() {
    let mut rig = working();
    rig.pass_ms(100);
    let before = rig.session.summary();
    // No row is written: the store takes nothing, and the edge is published all the same (rule 4.4.3).
    rig.commits = false;
    let published = rig.summaries.len();
    rig.stop(None);
    let told = rig.summaries[published..].to_vec();
    assert_eq!(told.len(), 1, "once: {told:?}");
    assert_eq!(told[0], Summary { stopping: true, ..before.clone() }, "and nothing else changed");
    let row = main_agent(&told[0]).expect("there is a row");
    assert_eq!(
        serde_json::to_value(row).expect("it is JSON"),
        json!({"state": "working", "stopping": true, "stateStartedAt": before.status_started_at}),
        "rule 4.7.1"
    );
    let frame = |summary: &Summary| StatusFrame::Status { summary: Box::new(summary.clone()) };
    let list = fold(Summaries::default(), frame(&before));
    let next = fold(list.clone(), frame(&told[0]));
    assert!(!std::sync::Arc::ptr_eq(&list, &next), "a list draws again (rule 4.6.5)");
    // The repeat changes nothing a reader could see.
    rig.stop(None);
    assert_eq!(rig.summaries.len(), published + 1, "equal projections are not sent again");
}

#[test]
pub(super) fn t54_a_question_outranks_a_stop() {
    let mut rig = working();
    let params = json!({"sessionId": AGENT_SESSION, "toolCall": {"title": "rm"}, "options": []});
    rig.says(&json!({"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": params}));
    rig.commits = false;
    rig.stop(None);
    // The Stop withdraws the question; until that is on disk the person is asked, and reads that.
    let summary = rig.session.summary();
    assert_eq!((summary.status, summary.stopping), (Some(Status::Attention), false));
    assert!(rig.session.is_stopping(), "and the Stop is in force");
    rig.commit_all();
    assert_eq!((rig.summary().status, rig.summary().stopping), (Some(Status::Working), true));
}

/// A session with `turns` behind it that works, and whose person has pressed Stop if `stopped`.
fn long(turns: usize, stopped: bool) -> Rig {
    let mut rig = Rig::ready();
    for turn in 0..turns {
        rig.send(&format!("before {turn}"), "again");
        rig.expect("session/prompt");
        rig.chunk("said");
        rig.says(&json!({"jsonrpc": "2.0", "id": turn + 3, "result": {"stopReason": "end_turn"}}));
    }
    rig.send("now", "go");
    rig.expect("session/prompt");
    if stopped {
        rig.stop(None);
        rig.send("later", "then this");
        assert_eq!(listed(&rig), ["later"]);
    }
    rig
}

#[test]
fn t53_no_derivation_reads_what_lies_before_the_running_turn() {
    // What a rendering of the journal would cost is counted in allocations: they do not grow with its length.
    let derived = |turns, stopped| {
        let rig = long(turns, stopped);
        let used = allocation_counter::measure(|| drop(rig.session.summary()));
        (used.count_total, used.bytes_max)
    };
    for stopped in [false, true] {
        assert_eq!(derived(1, stopped), derived(200, stopped), "with a Stop: {stopped}");
    }
    let whole = |turns| {
        let rig = long(turns, true);
        allocation_counter::measure(|| drop(rig.session.snapshot())).count_total
    };
    assert!(whole(200) > whole(1) + 200, "a rendering is counted");
}

#[test]
pub(super) fn t53_nothing_is_derived_again_while_nothing_changed() {
    let mut rig = long(2, true);
    let published = rig.summaries.len();
    let step = allocation_counter::measure(|| rig.session.handle_deadline(rig.now));
    let derived = allocation_counter::measure(|| drop(rig.session.summary()));
    assert_eq!(rig.summaries.len(), published);
    assert!(
        step.count_total < derived.count_total,
        "{} of {}",
        step.count_total,
        derived.count_total
    );
}

#[test]
fn what_a_stop_holds_runs_in_its_order_and_a_steer_among_it_cuts_nobody() {
    let mut rig = working();
    rig.stop(None);
    rig.expect("session/cancel");
    rig.send("m2", "two");
    rig.send_as("m3", "three", SendMode::Steer);
    rig.send("m4", "four");
    answers_cancelled(&mut rig);
    rig.exits(Exit::Code(0));
    rig.handshake();
    for text in ["two", "three", "four"] {
        let prompt = rig.expect("session/prompt");
        assert_eq!(prompt["params"]["prompt"][0]["text"], text);
        assert!(rig.frames.is_empty(), "it is a turn of its own (rule 5.4.1)");
        rig.reply(&prompt, json!({"stopReason": "end_turn"}));
    }
    // The next one that is sent while a turn runs does steer.
    rig.send("m5", "five");
    rig.expect("session/prompt");
    rig.send_as("m6", "six", SendMode::Steer);
    rig.expect("session/cancel");
}
