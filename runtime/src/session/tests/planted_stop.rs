//! The planted bugs of Stop, and for each a story that holds without it and fails with it.
//!
//! A story is a test of its own wherever it is told, so that what shows a rule is written once. `docs/stop-rules.md` says
//! which rule each of them is about.

use super::rig::{holds, policy};
use super::{evict, held, stop, stop_event, stop_matrix, stop_note, unconfirmed};
use crate::host::Statuses;
use crate::planted::PlantedBug::{self, *};
use crate::status::Status;

/// What shows each bug.
const STORIES: &[(PlantedBug, fn())] = &[
    // What it reaches, and its event.
    (ClaimWhatWasNotStopped, stop::t33_nothing_to_stop_stops_nothing),
    (LeaveAStartingChild, stop::a_stop_while_starting_withdraws_what_is_queued_and_ends_the_child),
    (
        HandoverIsNoWork,
        stop::a_stop_that_overtakes_the_dispatch_row_holds_the_message_back_and_it_runs_later,
    ),
    (TakeALateStop, stop::t34_a_stop_that_names_an_ended_turn_leaves_the_running_one_alone),
    (RefuseAStopOfTheOpening, stop_event::a_stop_between_two_turns_stops_what_is_in_flight),
    (KeepTheStoppedChild, stop::t27_a_stop_cancels_waits_for_the_answer_and_ends_the_child_on_eof),
    (
        EventWithoutItsTurn,
        stop_event::the_event_of_a_stop_says_whose_it_is_when_and_what_it_stopped,
    ),
    (NameAStaleTurn, stop_event::a_stop_between_two_turns_stops_what_is_in_flight),
    (RecordARepeat, stop_event::a_second_press_on_the_same_turn_writes_nothing),
    (
        DeferToAnOldStop,
        stop_event::a_persons_stop_of_an_earlier_turn_holds_no_event_of_the_host_back,
    ),
    (EvictWithoutAnEvent, evict::t43_a_turn_that_the_host_cuts_is_nobodys_cancellation),
    // Its settle, and whose the turn's end is.
    (NamedStopSettles, stop_event::a_stop_that_named_its_turn_reads_stopping_on_that_turn_only),
    (
        FailedEndKeepsSettling,
        unconfirmed::t39_a_turn_behind_a_failed_stop_keeps_a_verdict_of_its_own,
    ),
    (SettleBindsNothing, stop_event::a_turn_that_ends_while_a_stop_settles_is_what_it_stopped),
    (FailedOnIsBound, unconfirmed::t39_a_turn_behind_a_failed_stop_keeps_a_verdict_of_its_own),
    (
        ForgetTheFirstPress,
        stop_matrix::the_first_press_keeps_its_turn_when_a_second_one_withdraws_a_message,
    ),
    (
        RepeatDoesNotReopen,
        stop_event::a_press_behind_a_failed_one_takes_the_turn_that_opened_meanwhile,
    ),
    (
        LeaveTheCutUnclaimed,
        stop::t28_an_unanswered_cancel_waits_4000_ms_and_the_turn_ends_cancelled_at_the_exit,
    ),
    (HostStopReadsAsAPersons, evict::t43_a_turn_that_the_host_cuts_is_nobodys_cancellation),
    (OpenSettleClaimsNothing, stop_event::a_turn_that_ends_while_a_stop_settles_is_what_it_stopped),
    (GiveUpEndsTheTurn, stop_matrix::the_stop_matrix),
    // What the agent is asked, and what it says meanwhile.
    (
        WindDownWithoutACancel,
        stop::t27_a_stop_cancels_waits_for_the_answer_and_ends_the_child_on_eof,
    ),
    (DropWordsUnderAStop, stop::t47_what_a_stopped_agent_says_behind_its_turn_opens_none),
    (
        StopReadsAsADeath,
        stop::t28_an_unanswered_cancel_waits_4000_ms_and_the_turn_ends_cancelled_at_the_exit,
    ),
    (StoppedChildOpensATurn, stop::t47_what_a_stopped_agent_says_behind_its_turn_opens_none),
    // Its note.
    (DoubtAtThePress, stop_note::the_note_is_keyed_and_scoped_by_the_turn_that_was_stopped),
    (KeyTheNoteByThePress, stop_note::the_note_is_keyed_and_scoped_by_the_turn_that_was_stopped),
    (NoteWithoutItsTurn, stop_note::the_note_is_keyed_and_scoped_by_the_turn_that_was_stopped),
    (NoteForWhatNeverRan, stop::a_stop_while_starting_withdraws_what_is_queued_and_ends_the_child),
    (NeverDoubtTheNote, stop_matrix::the_stop_matrix),
    (
        LeaveTheOldNote,
        unconfirmed::t38_a_note_that_was_written_before_the_turn_moves_to_it_in_one_batch,
    ),
    (
        NeverCorrectTheNote,
        stop_note::t37_a_note_reads_taken_to_everybody_once_its_turn_was_interrupted_after_all,
    ),
    (CorrectEveryNote, stop_note::t37_a_note_stays_in_doubt_while_nothing_says_that_its_turn_was_interrupted),
    (
        NoteStaysBehindItsTurn,
        stop_note::t37_a_note_reads_taken_to_everybody_once_its_turn_was_interrupted_after_all,
    ),
    // Pressed again, failed, or meant for nothing.
    (UnconfirmedEndsStopping, stop_matrix::the_stop_matrix),
    (PressWithoutARetry, stop_event::a_press_on_an_unproven_end_runs_it_again),
    (SettleOutlivesItsChild, stop_event::t41_a_stop_that_stopped_no_turn_ends_with_its_child),
    (SecondStopKeepsTheHeld, held::a_second_stop_withdraws_what_the_first_one_held_back),
    (WithdrawAsAFault, stop::a_stop_while_starting_withdraws_what_is_queued_and_ends_the_child),
    // Closes, and the host's own stops.
    (CloseReadsAsTheHosts, evict::t43_a_close_is_a_persons_and_does_carry_the_cancellation),
    (
        EvictionOfNothingIsRecorded,
        evict::a_child_at_rest_is_let_go_without_an_event_and_the_next_message_starts_another,
    ),
    (HostStopTakesThePersonsAway, evict::t44_no_event_of_the_host_takes_a_persons_stop_away),
    (QuitIsRecorded, evict::a_host_that_quits_writes_no_event),
    (EvictionWaitsForTheStore, stop_event::an_eviction_reaches_the_agent_while_the_store_refuses),
    (CloseWithoutASettle, stop_matrix::the_stop_matrix),
    // "Stopping...", and what is published.
    (StoppingAtRest, stop_matrix::the_stop_matrix),
    (StoppingOnAnyTurn, stop_event::a_stop_that_named_its_turn_reads_stopping_on_that_turn_only),
    (LookAtTheFirstTurn, stop_event::the_turn_that_runs_now_is_the_newest_one),
    (EvictReadsStopping, evict::t43_a_turn_that_the_host_cuts_is_nobodys_cancellation),
    (StoppingHidesAQuestion, held::t54_a_question_outranks_a_stop),
    (StoppingFromTheJournal, stop_event::nothing_reads_stopping_behind_a_restart),
    (DeriveEveryTime, held::t53_nothing_is_derived_again_while_nothing_changed),
    (DateByActivity, held::t51_a_change_of_stopping_alone_is_sent_again_and_every_list_sees_it),
    (
        WholePromptInTheSummary,
        stop_event::a_summary_quotes_no_more_of_a_prompt_than_its_bound,
    ),
    (StoppingIsNoNews, held::t51_a_change_of_stopping_alone_is_sent_again_and_every_list_sees_it),
    (
        SettleEdgeUnpublished,
        unconfirmed::t48_an_edge_of_the_settle_writes_no_row_publishes_once_and_wakes_what_is_held,
    ),
    (WelcomeBeforeProjecting, a_newcomer_hears_nothing_before_every_session_was_projected_again),
    (ForgetTheIdle, a_summary_stays_when_its_child_is_gone),
    (LetGoKeepsStopping, a_session_that_is_let_go_reads_stopping_no_more),
    (
        HoldForEver,
        stop::the_next_send_waits_for_the_old_child_and_runs_on_the_resumed_session_at_a_higher_fence,
    ),
    (
        HideTheHeld,
        held::a_message_sent_behind_a_stop_is_listed_until_the_stopped_turn_has_ended,
    ),
];

#[test]
fn every_story_of_a_planted_bug_of_stop_holds_without_it_and_fails_with_it() {
    let breaks = |(_, story): &&(PlantedBug, fn())| !holds(None, *story);
    let misses = |(bug, story): &&(PlantedBug, fn())| holds(Some(*bug), *story);
    let name = |(bug, _): &(PlantedBug, fn())| bug.name();
    let broken: Vec<_> = STORIES.iter().filter(breaks).map(name).collect();
    assert_eq!(broken, [""; 0], "their stories do not even hold without them");
    let missed: Vec<_> = STORIES.iter().filter(misses).map(name).collect();
    assert_eq!(missed, [""; 0], "their stories do not notice them");
}

#[test]
fn every_planted_bug_of_stop_has_a_story() {
    // Those from before this table tell theirs elsewhere; that they do is held there.
    let elsewhere = [
        include_str!("planted.rs"),
        include_str!("../../host/tests/machine.rs"),
        include_str!("../../driver/tests/feed.rs"),
    ];
    for bug in PlantedBug::ALL.iter().filter(|bug| is_about_stop(bug.rule())) {
        let told = STORIES.iter().any(|(told, _)| told == bug)
            || elsewhere.iter().any(|text| text.contains(&format!("PlantedBug::{bug:?}")));
        assert!(told, "{bug:?} has no story");
    }
}

/// The sections of `docs/stop-rules.md`.
fn is_about_stop(rule: &str) -> bool {
    ["3.", "4.1.", "4.3.", "4.4.", "5.4."].iter().any(|section| rule.starts_with(section))
}

/// What is retained of a session that works, on a host of the story's policy.
fn retained() -> (Statuses, crate::status::Summary) {
    let rig = super::rig::Rig::working("hello");
    let mut statuses = Statuses::default().planting(&policy());
    let summary = rig.summary().clone();
    assert!(statuses.publish(summary.clone()));
    (statuses, summary)
}

fn a_newcomer_hears_nothing_before_every_session_was_projected_again() {
    let (mut statuses, summary) = retained();
    statuses.subscribe(1, [summary.session_id.clone()].into());
    assert_eq!(statuses.poll_joined(), None, "rule 4.4.4");
    statuses.handle_projected(1, &summary.session_id);
    assert_eq!(statuses.poll_joined(), Some(1));
}

fn a_summary_stays_when_its_child_is_gone() {
    let (mut statuses, summary) = retained();
    let mut idle = summary;
    idle.host_execution_owned = false;
    idle.status = Some(Status::Idle);
    assert!(statuses.publish(idle.clone()));
    assert_eq!(statuses.all(), [idle], "an idle session is still idle (rule 4.4.6)");
}

fn a_session_that_is_let_go_reads_stopping_no_more() {
    let (mut statuses, mut summary) = retained();
    summary.stopping = true;
    assert!(statuses.publish(summary.clone()));
    let told = statuses.revoke(&summary.session_id).expect("it changed");
    assert!(!told.stopping && !told.host_execution_owned, "rule 4.4.7");
}
