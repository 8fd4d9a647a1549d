//! Each planted bug changes what is seen from outside, and changes nothing where it is not planted.

use serde_json::{Value, json};

use super::rig::{AGENT_SESSION, Rig};
use crate::host::PermissionAnswer;
use crate::ids::Fence;
use crate::journal::{
    ItemBody, Outcome, Resolution, SendMode, SubmissionState, ToolStatus, TurnState,
};
use crate::planted::PlantedBug;
use crate::platform::{Exit, Signal};
use crate::session::record::Claim;
use crate::session::{Answer, Policy, Session};
use crate::status::Status;
use crate::store::StoredRows;

/// What a story shows of a sound session, and of one with the bug. The sound one keeps every invariant.
fn told<T>(bug: PlantedBug, story: impl Fn(&Begin) -> T) -> [T; 2] {
    let sound = Begin { policy: Policy::default(), checks: true };
    let planted = Begin { policy: Policy::default().planting(bug), checks: false };
    [story(&sound), story(&planted)]
}

struct Begin {
    policy: Policy,
    checks: bool,
}

impl Begin {
    fn fresh(&self) -> Rig {
        let mut rig = Rig::new();
        rig.session.policy = self.policy.clone();
        rig.checks = self.checks;
        rig
    }

    /// The agent has the prompt, whose frame is not taken yet.
    fn working(&self) -> Rig {
        let mut rig = self.fresh();
        rig.send("m1", "hello");
        rig.handshake();
        rig
    }

    fn ready(&self) -> Rig {
        let mut rig = self.working();
        rig.reply_prompt(json!({"stopReason": "end_turn"}));
        rig
    }

    /// A message whose dispatch row waits for the store.
    fn dispatching(&self) -> Rig {
        let mut rig = self.ready();
        rig.commits = false;
        rig.send("m2", "two");
        rig.commit_one();
        rig
    }

    /// A child that starts over a stored agent session, asked to load it; the request is the oldest frame.
    fn loading(&self) -> Rig {
        let mut rig = self.ready();
        rig.exits(Exit::Code(0));
        rig.send("m2", "two");
        let initialize = rig.expect("initialize");
        let offered = json!({"loadSession": true});
        rig.reply(&initialize, json!({"protocolVersion": 1, "agentCapabilities": offered}));
        rig
    }

    /// The host dies, and the next one restores what is on disk.
    fn restart(&self, rig: &mut Rig) {
        let epoch = Some(rig.session.record().epoch.clone());
        let stored = StoredRows { epoch, rows: rig.stored.clone(), fault: None };
        let record = rig.session.record().clone();
        rig.session = Session::restore(self.policy.clone(), record, stored, rig.now);
        rig.mints = true;
        rig.settle();
    }
}

fn ask(rig: &mut Rig, id: u64) {
    let params = json!({"sessionId": AGENT_SESSION, "toolCall": {"title": "x"},
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]});
    rig.says(&json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}));
}

fn cards(rig: &Rig) -> Vec<PermissionAnswer> {
    let card = |i: crate::journal::ItemView| match i.body {
        ItemBody::Approval(a) if a.resolution == Resolution::Pending => Some(PermissionAnswer {
            item: i.item,
            expected_revision: i.revision,
            option: Some("yes".to_owned()),
        }),
        _ => None,
    };
    rig.items().into_iter().filter_map(card).collect()
}

/// How many of the frames that nobody has taken are calls of `method`.
fn calls(rig: &Rig, method: &str) -> usize {
    rig.frames.iter().filter(|f| f["method"] == method).count()
}

fn replies(rig: &Rig, id: u64) -> usize {
    let to = |f: &&Value| f.get("method").is_none() && f["id"] == json!(id);
    rig.frames.iter().filter(to).count()
}

fn cancelled() -> Value {
    json!({"stopReason": "cancelled"})
}

#[test]
fn a_start_that_is_hasty_or_forgetful_shows() {
    let spawned = told(PlantedBug::SpawnBeforeReservation, |begin| {
        let mut rig = begin.fresh();
        rig.commits = false;
        rig.send("m1", "hello");
        rig.commit_one();
        rig.spawns.len()
    });
    assert_eq!(spawned, [0, 1]);
    let fences = told(PlantedBug::ReuseTheFence, |begin| {
        let mut rig = begin.ready();
        rig.exits(Exit::Code(0));
        rig.send("m2", "two");
        rig.session.fence()
    });
    assert_eq!(fences, [Fence(2), Fence(1)]);
    let heads = told(PlantedBug::ForgetTheNewHandle, |begin| {
        let mut rig = begin.loading();
        let load = rig.expect("session/load");
        rig.fail(&load, json!({"code": -32603, "message": "gone"}));
        let new = rig.expect("session/new");
        rig.reply(&new, json!({"sessionId": "agent-session-2"}));
        rig.session.record().head().map(|h| h.agent_session.to_string())
    });
    assert_eq!(heads, [Some("agent-session-2".to_owned()), Some(AGENT_SESSION.to_owned())]);
    let rows = told(PlantedBug::RowsFromReplay, |begin| {
        let mut rig = begin.loading();
        let load = rig.expect("session/load");
        rig.chunk("replayed");
        rig.reply(&load, json!(null));
        rig.pass_ms(20);
        rig.items().iter().filter(|i| matches!(i.body, ItemBody::Message(_))).count()
    });
    assert_eq!(rows, [0, 1]);
}

#[test]
fn contact_that_is_lost_is_misread() {
    let states = told(PlantedBug::StdoutEndReadsAsBreak, |begin| {
        let mut rig = begin.working();
        rig.stdout_ends();
        rig.last_turn().state
    });
    assert_eq!(states, [TurnState::Running, TurnState::Unverifiable]);
    let states = told(PlantedBug::BreakReadsAsDeath, |begin| {
        let mut rig = begin.working();
        rig.stdout_ends();
        rig.pass_ms(4_000);
        rig.last_turn().state
    });
    assert_eq!(states, [TurnState::Unverifiable, TurnState::Interrupted]);
    let rows = told(PlantedBug::TwoErrorRows, |begin| {
        let mut rig = begin.working();
        rig.stdout_ends();
        rig.pass_ms(4_000);
        rig.exits(Exit::Signal(15));
        rig.lines().len()
    });
    assert_eq!(rows, [1, 2]);
    let outcomes = told(PlantedBug::SettleBeforeReadingOn, |begin| {
        let mut rig = begin.working();
        rig.exit_seen(Exit::Code(0));
        rig.reply_prompt(json!({"stopReason": "end_turn"}));
        rig.streams_end();
        rig.last_turn().outcome
    });
    assert_eq!(outcomes, [Some(Outcome::Success), None]);
    let reading = told(PlantedBug::ReadingNeverResumed, |begin| {
        let mut rig = begin.working();
        rig.commits = false;
        rig.chunk("more");
        rig.pass_ms(20);
        rig.refuse_all();
        rig.pass_ms(250);
        rig.commit_all();
        rig.reading
    });
    assert_eq!(reading, [true, false]);
}

#[test]
fn a_death_leaves_what_it_must_not() {
    let states = told(PlantedBug::StuckWorking, |begin| {
        let mut rig = begin.working();
        rig.exits(Exit::Code(1));
        rig.last_turn().state
    });
    assert_eq!(states, [TurnState::Interrupted, TurnState::Running]);
    let states = told(PlantedBug::EndedTwice, |begin| {
        let mut rig = begin.ready();
        rig.exits(Exit::Code(0));
        rig.last_turn().state
    });
    assert_eq!(states, [TurnState::Completed, TurnState::Interrupted]);
    let outcomes = told(PlantedBug::CancellationWithoutAPerson, |begin| {
        let mut rig = begin.working();
        rig.exits(Exit::Code(1));
        rig.last_turn().outcome
    });
    assert_eq!(outcomes, [None, Some(Outcome::Cancellation)]);
    let states = told(PlantedBug::ForgetTheUnknown, |begin| {
        let mut rig = begin.working();
        rig.exits(Exit::Code(1));
        rig.state_of("m1")
    });
    assert_eq!(states, [SubmissionState::Unknown, SubmissionState::HandedOver]);
    let spawned = told(PlantedBug::ResendAfterCrash, |begin| {
        let mut rig = begin.working();
        rig.exits(Exit::Code(1));
        rig.spawns.len()
    });
    assert_eq!(spawned, [1, 2]);
}

#[test]
fn a_ladder_that_is_not_climbed_rung_by_rung_shows() {
    let closed = told(PlantedBug::EofNeverSent, |begin| {
        let mut rig = begin.ready();
        rig.close();
        rig.stdin_closed
    });
    assert_eq!(closed, [true, false]);
    let closed = told(PlantedBug::EofAtThePress, |begin| {
        let mut rig = begin.working();
        rig.stop(None);
        rig.stdin_closed
    });
    assert_eq!(closed, [false, true]);
    let signals = told(PlantedBug::KillAtTheResponse, |begin| {
        let mut rig = begin.working();
        let prompt = rig.expect("session/prompt");
        rig.stop(None);
        rig.reply(&prompt, cancelled());
        rig.signals()
    });
    assert_eq!(signals, [vec![], vec![Signal::Kill]]);
    let signals = told(PlantedBug::ForceBeforeItsWindow, |begin| {
        let mut rig = begin.ready();
        rig.close();
        rig.pass_ms(500);
        rig.signals()
    });
    assert_eq!(signals, [vec![], vec![Signal::Term]]);
}

#[test]
fn what_is_not_proven_is_taken_for_gone() {
    let spawned = told(PlantedBug::GiveUpReadsAsGone, |begin| {
        let mut rig = begin.working();
        rig.stop(None);
        rig.pass_ms(10_000);
        rig.send("m2", "two");
        rig.spawns.len()
    });
    assert_eq!(spawned, [1, 2]);
    let spawned = told(PlantedBug::SpawnBeforeProof, |begin| {
        let mut rig = begin.working();
        rig.send("m2", "two");
        rig.exit_seen(Exit::Code(1));
        rig.streams_end();
        rig.spawns.len()
    });
    assert_eq!(spawned, [1, 2]);
    let claims = told(PlantedBug::ReleaseTheLeaseEarly, |begin| {
        let mut rig = begin.ready();
        rig.close();
        rig.session.record().lease.claim
    });
    assert_eq!(claims, [Claim::Live, Claim::Released]);
}

#[test]
fn a_turn_is_ended_or_opened_by_what_comes_late() {
    let states = told(PlantedBug::TakeASecondAnswer, |begin| {
        let mut rig = begin.working();
        let first = rig.expect("session/prompt");
        rig.reply(&first, json!({"stopReason": "end_turn"}));
        rig.send("m2", "two");
        rig.reply(&first, cancelled());
        rig.last_turn().state
    });
    assert_eq!(states, [TurnState::Running, TurnState::Interrupted]);
    let turns = told(PlantedBug::LateTextReopens, |begin| {
        let mut rig = begin.ready();
        rig.pass_ms(200);
        rig.chunk("one more thing");
        rig.turns().len()
    });
    assert_eq!(turns, [1, 2]);
    let tools = told(PlantedBug::LeaveToolsRunning, |begin| {
        let mut rig = begin.working();
        rig.tool("t1", "in_progress");
        rig.reply_prompt(json!({"stopReason": "end_turn"}));
        rig.items().into_iter().find_map(|i| match i.body {
            ItemBody::Tool(tool) => Some(tool.status),
            _ => None,
        })
    });
    assert_eq!(tools, [Some(ToolStatus::Failed), Some(ToolStatus::Running)]);
}

#[test]
fn a_stop_waits_wrongly_or_says_too_much() {
    let cancels = told(PlantedBug::CancelTwice, |begin| {
        let mut rig = begin.working();
        rig.stop(None);
        rig.stop(None);
        calls(&rig, "session/cancel")
    });
    assert_eq!(cancels, [1, 2]);
    let cancels = told(PlantedBug::CancelTwice, |begin| {
        let mut rig = begin.working();
        rig.send_as("m2", "two", SendMode::Steer);
        rig.send_as("m3", "three", SendMode::Steer);
        calls(&rig, "session/cancel")
    });
    assert_eq!(cancels, [1, 2]);
    let closed = told(PlantedBug::NoStopGrace, |begin| {
        let mut rig = begin.working();
        rig.stop(None);
        rig.pass_ms(60_000);
        rig.stdin_closed
    });
    assert_eq!(closed, [true, false]);
    let closed = told(PlantedBug::GraceRestarts, |begin| {
        let mut rig = begin.working();
        rig.stop(None);
        rig.pass_ms(3_000);
        rig.stop(None);
        rig.pass_ms(1_500);
        rig.stdin_closed
    });
    assert_eq!(closed, [true, false]);
    let at_barrier = |mut rig: super::rig::Rig| {
        rig.send("m1", "hello");
        rig.handshake_with(json!({"sessionCapabilities": {"close": {}}}));
        let prompt = rig.expect("session/prompt");
        rig.stop(None);
        rig.reply(&prompt, json!({"stopReason": "cancelled"}));
        rig
    };
    let asked = told(PlantedBug::BarrierForgotten, |begin| {
        calls(&at_barrier(begin.fresh()), "session/close")
    });
    assert_eq!(asked, [1, 0]);
    let closed = told(PlantedBug::BarrierUnbounded, |begin| {
        let mut rig = at_barrier(begin.fresh());
        rig.pass_ms(60_000);
        rig.stdin_closed
    });
    assert_eq!(closed, [true, false]);
    let refused = told(PlantedBug::RefuseAStopUnsaved, |begin| {
        let mut rig = begin.working();
        rig.commits = false;
        rig.chunk("more");
        rig.pass_ms(20);
        rig.refuse_all();
        let call = rig.stop(None);
        matches!(rig.answers.get(&call), Some(Answer::Stopped(Err(_))))
    });
    assert_eq!(refused, [false, true]);
}

#[test]
fn a_stop_claims_what_it_did_not_stop() {
    let outcomes = told(PlantedBug::OverwriteTheVerdict, |begin| {
        let mut rig = begin.working();
        let prompt = rig.expect("session/prompt");
        rig.stop(None);
        rig.reply(&prompt, json!({"stopReason": "end_turn"}));
        rig.last_turn().outcome
    });
    assert_eq!(outcomes, [Some(Outcome::Success), Some(Outcome::Cancellation)]);
    let outcomes = told(PlantedBug::BindAStopToTheNextTurn, |begin| {
        let mut rig = begin.working();
        let prompt = rig.expect("session/prompt");
        rig.stop(None);
        rig.expect("session/cancel");
        rig.reply(&prompt, cancelled());
        rig.exits(Exit::Code(0));
        rig.send("m2", "two");
        rig.handshake();
        rig.exits(Exit::Code(1));
        rig.last_turn().outcome
    });
    assert_eq!(outcomes, [None, Some(Outcome::Cancellation)]);
    let outcomes = told(PlantedBug::StopClaimsAnEarlierExit, |begin| {
        let mut rig = begin.working();
        rig.exit_seen(Exit::Code(1));
        rig.pass_ms(5);
        rig.close();
        rig.streams_end();
        rig.last_turn().outcome
    });
    assert_eq!(outcomes, [None, Some(Outcome::Cancellation)]);
}

#[test]
fn a_message_is_lost_at_a_stop_or_runs_in_spite_of_it() {
    let spawned = told(PlantedBug::RunWhatAStopWithdrew, |begin| {
        let mut rig = begin.working();
        rig.send("m2", "two");
        rig.stop(None);
        rig.reply_prompt(cancelled());
        rig.exits(Exit::Code(0));
        rig.spawns.len()
    });
    assert_eq!(spawned, [1, 2]);
    let spawned = told(PlantedBug::SwallowAnOvertakenSend, |begin| {
        let mut rig = begin.dispatching();
        rig.stop(None);
        rig.commits = true;
        rig.commit_all();
        rig.exits(Exit::Code(0));
        rig.spawns.len()
    });
    assert_eq!(spawned, [2, 1]);
    let states = told(PlantedBug::SwallowASendAtClose, |begin| {
        let mut rig = begin.working();
        rig.send("m2", "two");
        rig.close();
        rig.exits(Exit::Code(0));
        rig.state_of("m2")
    });
    assert_eq!(states, [SubmissionState::Rejected, SubmissionState::Queued]);
    let prompted = told(PlantedBug::DeliverIntoAStoppingChild, |begin| {
        let mut rig = begin.working();
        rig.stop(None);
        rig.send("m2", "two");
        rig.reply_prompt(cancelled());
        (calls(&rig, "session/prompt"), rig.spawns.len(), rig.stdin_closed)
    });
    assert_eq!(prompted, [(0, 1, true), (1, 1, false)]);
}

#[test]
fn a_message_goes_or_counts_before_it_may() {
    let prompted =
        told(PlantedBug::ActBeforePersist, |begin| calls(&begin.dispatching(), "session/prompt"));
    assert_eq!(prompted, [0, 1]);
    let answered = told(PlantedBug::AnswerBeforeDurable, |begin| {
        let mut rig = begin.fresh();
        rig.commits = false;
        let call = rig.send("m1", "hello");
        let answered = rig.answers.contains_key(&call);
        rig.commit_all();
        answered
    });
    assert_eq!(answered, [false, true]);
    let states = told(PlantedBug::AcceptAtTheWrite, |begin| {
        let mut rig = begin.working();
        rig.exits(Exit::Code(1));
        rig.state_of("m1")
    });
    assert_eq!(states, [SubmissionState::Unknown, SubmissionState::Accepted]);
    let refused = told(PlantedBug::DropTheFenceCheck, |begin| {
        begin.ready().session.refuses_fence(Some(Fence(0))).is_some()
    });
    assert_eq!(refused, [true, false]);
}

#[test]
fn a_restart_leaves_messages_to_be_delivered() {
    let spawned = told(PlantedBug::ResendOnRestore, |begin| {
        let mut rig = begin.dispatching();
        rig.mints = false;
        rig.stop(None);
        rig.commits = true;
        rig.commit_all();
        rig.exits(Exit::Code(0));
        begin.restart(&mut rig);
        rig.spawns.len()
    });
    assert_eq!(spawned, [1, 2]);
    let spawned = told(PlantedBug::ForgetQueuedOnRestore, |begin| {
        let mut rig = begin.ready();
        rig.exits(Exit::Code(0));
        rig.mints = false;
        rig.send("m2", "two");
        begin.restart(&mut rig);
        rig.spawns.len()
    });
    assert_eq!(spawned, [1, 2]);
}

#[test]
fn a_question_is_shown_forgotten_or_answered_twice() {
    let shown = told(PlantedBug::CardUnderAStop, |begin| {
        let mut rig = begin.working();
        rig.stop(None);
        ask(&mut rig, 0);
        cards(&rig).len()
    });
    assert_eq!(shown, [0, 1]);
    let replied = told(PlantedBug::ForgetAPermissionAtStop, |begin| {
        let mut rig = begin.working();
        let prompt = rig.expect("session/prompt");
        ask(&mut rig, 7);
        rig.stop(None);
        rig.reply(&prompt, cancelled());
        replies(&rig, 7)
    });
    assert_eq!(replied, [1, 0]);
    let replied = told(PlantedBug::AnswerAPermissionTwice, |begin| {
        let mut rig = begin.working();
        ask(&mut rig, 7);
        let answer = cards(&rig).pop().expect("a card");
        rig.commits = false;
        rig.answer(answer);
        rig.stop(None);
        rig.commit_all();
        replies(&rig, 7)
    });
    assert_eq!(replied, [1, 2]);
}

#[test]
fn the_store_or_the_feed_is_told_wrongly() {
    let waits = told(PlantedBug::LoseRowsOnRefusal, |begin| {
        let mut rig = begin.working();
        rig.commits = false;
        rig.chunk("more");
        rig.pass_ms(20);
        rig.refuse_all();
        rig.pass_ms(250);
        !rig.units.is_empty()
    });
    assert_eq!(waits, [true, false]);
    let statuses = told(PlantedBug::PublishBeforeDurable, |begin| {
        let mut rig = begin.ready();
        rig.commits = false;
        rig.send("m2", "two");
        rig.summary().status
    });
    assert_eq!(statuses, [Some(Status::Idle), Some(Status::Working)]);
    let followed = told(PlantedBug::BatchWithoutRevision, |begin| {
        let rig = begin.ready();
        rig.items() == rig.session.snapshot().items
    });
    assert_eq!(followed, [true, false], "whoever folds the feed comes to the snapshot");
    let statuses = told(PlantedBug::SummaryNotRepublished, |begin| begin.ready().summary().status);
    assert_eq!(statuses, [Some(Status::Idle), Some(Status::Working)]);
}

#[test]
fn every_bug_of_a_session_has_its_story_here() {
    let here = include_str!("planted.rs");
    let host = include_str!("../../host/tests/machine.rs");
    let feed = include_str!("../../driver/tests/feed.rs");
    let stop = include_str!("planted_stop.rs");
    for bug in PlantedBug::ALL {
        let named = format!("PlantedBug::{bug:?}");
        let told = [here, host, feed].iter().any(|text| text.contains(&named));
        // Those of Stop are a table.
        assert!(told || stop.contains(&format!("{bug:?},")), "{bug:?} has no story");
    }
}
