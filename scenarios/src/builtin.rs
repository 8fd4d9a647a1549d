//! The documents of this repository.

use crate::document::Document;

/// Calls a macro with every document of this repository, by how it is played: `parity` in both modes with equal canonical
/// journals, `natively` in both against its expectations, `simulated` in simulation alone. A test holds the list to the
/// documents' own fields.
#[doc(hidden)]
#[macro_export]
macro_rules! each_document {
    ($then:ident) => {
        $then! {
            parity {
                abort_on_disk = "abort-on-disk",
                asks_what_is_not_offered = "asks-what-is-not-offered",
                closes_mid_turn = "closes-mid-turn",
                closes_while_starting = "closes-while-starting",
                crasher = "crasher",
                echo = "echo",
                eof_mid_line = "eof-mid-line",
                error_null = "error-null",
                flooder = "flooder",
                fr_02_usage_of_zeros = "fr-02-usage-of-zeros",
                fr_03_late_answer_in_the_next_turn = "fr-03-late-answer-in-the-next-turn",
                fr_03_two_answers_to_a_stopped_prompt = "fr-03-two-answers-to-a-stopped-prompt",
                fr_04_cancel_is_replied_to = "fr-04-cancel-is-replied-to",
                fr_07_cancel_too_late = "fr-07-cancel-too-late",
                fr_08_three_clicks = "fr-08-three-clicks",
                fr_11_answers_nothing = "fr-11-answers-nothing",
                fr_15_every_turn_cancelled = "fr-15-every-turn-cancelled",
                fr_17_exits_when_cancelled = "fr-17-exits-when-cancelled",
                fr_22_exits_before_a_word = "fr-22-exits-before-a-word",
                fr_22_exits_before_its_answer = "fr-22-exits-before-its-answer",
                fr_26_one_owner_of_the_turn = "fr-26-one-owner-of-the-turn",
                fr_29_worker_behind_a_dead_launcher = "fr-29-worker-behind-a-dead-launcher",
                fr_29_worker_behind_its_launcher = "fr-29-worker-behind-its-launcher",
                fr_33_one_tree_at_a_time = "fr-33-one-tree-at-a-time",
                fr_35_held_in_order = "fr-35-held-in-order",
                fr_35_tool_at_work = "fr-35-tool-at-work",
                frozen_before_the_press = "frozen-before-the-press",
                frozen_supervisor_before_the_press = "frozen-supervisor-before-the-press",
                frozen = "frozen",
                id_as_a_string = "id-as-a-string",
                ignores_eof = "ignores-eof",
                keep_background = "keep-background",
                late_persister = "late-persister",
                lie_cancelled_though_finished = "lie-cancelled-though-finished",
                lie_error_behind_the_cancel = "lie-error-behind-the-cancel",
                lie_loses_every_cancel = "lie-loses-every-cancel",
                lie_usage_of_the_turn_before = "lie-usage-of-the-turn-before",
                message_not_on_disk = "message-not-on-disk",
                missing_program = "missing-program",
                never_answers = "never-answers",
                noisy_stdout = "noisy-stdout",
                not_restored = "not-restored",
                odd_updates = "odd-updates",
                orphan_maker = "orphan-maker",
                permission_answered = "permission-answered",
                permission_by_access = "permission-by-access",
                permission_dismissed = "permission-dismissed",
                permission_of_no_option = "permission-of-no-option",
                refuser = "refuser",
                reopens_mid_turn = "reopens-mid-turn",
                reopens = "reopens",
                reply_twice = "reply-twice",
                same_id_twice = "same-id-twice",
                same_words_twice = "same-words-twice",
                send_after_close = "send-after-close",
                slow_starter = "slow-starter",
                split_frames = "split-frames",
                steer = "steer",
                stop_then_send = "stop-then-send",
                stops_while_starting = "stops-while-starting",
                t01_first_send = "t01-first-send",
                t03_other_version = "t03-other-version",
                t04_sign_in = "t04-sign-in",
                t05_dies_in_initialize = "t05-dies-in-initialize",
                t14_posix_ladder = "t14-posix-ladder",
                t15_persists_200_ms_late = "t15-persists-200-ms-late",
                t15_persists_28_ms_late = "t15-persists-28-ms-late",
                t15_persists_5_ms_late = "t15-persists-5-ms-late",
                t17_stop_ends_the_whole_tree = "t17-stop-ends-the-whole-tree",
                t18_two_closes = "t18-two-closes",
                t18_unproven_end_again = "t18-unproven-end-again",
                t19_cancelled = "t19-cancelled",
                t19_end_turn = "t19-end-turn",
                t19_max_tokens = "t19-max-tokens",
                t19_max_turn_requests = "t19-max-turn-requests",
                t19_refusal = "t19-refusal",
                t19_unknown_reason = "t19-unknown-reason",
                t20_error_answer = "t20-error-answer",
                t21_unreadable_answer = "t21-unreadable-answer",
                t22_calls_of_a_completed_turn = "t22-calls-of-a-completed-turn",
                t22_calls_of_a_lost_turn = "t22-calls-of-a-lost-turn",
                t23_call_ends_with_its_turn = "t23-call-ends-with-its-turn",
                t26_agent_turn = "t26-agent-turn",
                t27_stop_names_its_turn = "t27-stop-names-its-turn",
                t27_stop = "t27-stop",
                t31_held_message_withdrawn = "t31-held-message-withdrawn",
                t32_queued_behind_a_start = "t32-queued-behind-a-start",
                t32_queued_behind_an_ended_turn = "t32-queued-behind-an-ended-turn",
                t33_nothing_to_stop = "t33-nothing-to-stop",
                t34_stop_names_a_turn_to_come = "t34-stop-names-a-turn-to-come",
                t35_same_operation_much_later = "t35-same-operation-much-later",
                t35_same_operation_twice = "t35-same-operation-twice",
                t36_unconfirmed_then_pressed_again = "t36-unconfirmed-then-pressed-again",
                t37_unconfirmed_then_exits = "t37-unconfirmed-then-exits",
                t41_stop_that_stopped_no_turn = "t41-stop-that-stopped-no-turn",
                t43_close_abandons_what_waits = "t43-close-abandons-what-waits",
                t44_host_stops_too = "t44-host-stops-too",
                t43_evicted_mid_turn = "t43-evicted-mid-turn",
                t46_end_turn_after_cancel = "t46-end-turn-after-cancel",
                t54_asks_while_stopping = "t54-asks-while-stopping",
                two_sends = "two-sends",
                unknown_updates = "unknown-updates",
            }
            natively {
                first_row_refused = "first-row-refused",
                fr_04_cancel_is_an_error = "fr-04-cancel-is-an-error",
                fr_12_end_turn_behind_a_permission = "fr-12-end-turn-behind-a-permission",
                fr_31_ignores_everything = "fr-31-ignores-everything",
                fr_34_never_a_session = "fr-34-never-a-session",
                late_text = "late-text",
                late_update_of_a_completed_call = "late-update-of-a-completed-call",
                lie_loses_an_early_cancel = "lie-loses-an-early-cancel",
                lie_second_cancel_hits_the_next_turn = "lie-second-cancel-hits-the-next-turn",
                lie_waits_for_the_permission = "lie-waits-for-the-permission",
                oversize_frame = "oversize-frame",
                permission_answered_twice = "permission-answered-twice",
                refused_over_a_reopening = "refused-over-a-reopening",
                stderr_flood = "stderr-flood",
                stop_overtakes_a_send = "stop-overtakes-a-send",
                stops_with_a_permission_pending = "stops-with-a-permission-pending",
                t04_no_way_to_sign_in = "t04-no-way-to-sign-in",
                t04_sign_in_in_vain = "t04-sign-in-in-vain",
                t12_win32_leaves_on_eof = "t12-win32-leaves-on-eof",
                t13_win32_ignores_eof = "t13-win32-ignores-eof",
                t15_win32_persists_200_ms_late = "t15-win32-persists-200-ms-late",
                t22_calls_of_a_stopped_turn = "t22-calls-of-a-stopped-turn",
                t24_late_update_of_a_cut_call = "t24-late-update-of-a-cut-call",
                t26_usage_opens_no_turn = "t26-usage-opens-no-turn",
                t28_cancel_ignored = "t28-cancel-ignored",
                t29_full_pipe = "t29-full-pipe",
                t29_never_reads = "t29-never-reads",
                t29_reads_again = "t29-reads-again",
                t32_withdrawn_behind_an_ended_turn = "t32-withdrawn-behind-an-ended-turn",
                t34_late_stop = "t34-late-stop",
                t45_store_refuses_the_stop = "t45-store-refuses-the-stop",
                t47_background_work_of_a_stopped_agent = "t47-background-work-of-a-stopped-agent",
                t47_late_words_open_no_turn = "t47-late-words-open-no-turn",
                t84_asks_again_after_the_stop = "t84-asks-again-after-the-stop",
                t86_answer_being_committed = "t86-answer-being-committed",
                two_stops = "two-stops",
            }
            simulated {
                barrier_never_answered = "barrier-never-answered",
                barrier_off = "barrier-off",
                barrier_slow_abort_win32 = "barrier-slow-abort-win32",
                barrier_slow_abort = "barrier-slow-abort",
                fr_24_works_on_after_eof = "fr-24-works-on-after-eof",
                fr_25_failure_and_no_end = "fr-25-failure-and-no-end",
                no_barrier_slow_abort_win32 = "no-barrier-slow-abort-win32",
                t02_no_handshake = "t02-no-handshake",
            }
        }
    };
}

macro_rules! table {
    ($($how:ident { $($ident:ident = $name:literal,)* })*) => {
        const DOCUMENTS: &[(&str, &str)] =
            &[$($(($name, include_str!(concat!("../documents/", $name, ".json"))),)*)*];
    };
}

each_document!(table);

/// Every document of this repository, in the order of their names.
///
/// # Panics
///
/// If one of them does not parse, which a test would have found.
pub fn builtin() -> Vec<Document> {
    let mut documents: Vec<_> = DOCUMENTS.iter().map(|(name, text)| parsed(name, text)).collect();
    documents.sort_by(|a, b| a.name.cmp(&b.name));
    documents
}

fn parsed(name: &str, text: &str) -> Document {
    match Document::parse(text, name) {
        Ok(document) => document,
        Err(error) => panic!("{error}"),
    }
}
