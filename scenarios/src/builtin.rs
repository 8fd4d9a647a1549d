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
                frozen = "frozen",
                id_as_a_string = "id-as-a-string",
                ignores_eof = "ignores-eof",
                late_persister = "late-persister",
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
                t27_stop = "t27-stop",
                t33_nothing_to_stop = "t33-nothing-to-stop",
                t46_end_turn_after_cancel = "t46-end-turn-after-cancel",
                two_sends = "two-sends",
                unknown_updates = "unknown-updates",
            }
            natively {
                late_text = "late-text",
                late_update_of_a_completed_call = "late-update-of-a-completed-call",
                oversize_frame = "oversize-frame",
                permission_answered_twice = "permission-answered-twice",
                stderr_flood = "stderr-flood",
                stops_with_a_permission_pending = "stops-with-a-permission-pending",
                t04_no_way_to_sign_in = "t04-no-way-to-sign-in",
                t04_sign_in_in_vain = "t04-sign-in-in-vain",
                t12_win32_leaves_on_eof = "t12-win32-leaves-on-eof",
                t13_win32_ignores_eof = "t13-win32-ignores-eof",
                t22_calls_of_a_stopped_turn = "t22-calls-of-a-stopped-turn",
                t24_late_update_of_a_cut_call = "t24-late-update-of-a-cut-call",
                t26_usage_opens_no_turn = "t26-usage-opens-no-turn",
                t28_cancel_ignored = "t28-cancel-ignored",
                t34_late_stop = "t34-late-stop",
                two_stops = "two-stops",
            }
            simulated {
                barrier_never_answered = "barrier-never-answered",
                barrier_off = "barrier-off",
                barrier_slow_abort_win32 = "barrier-slow-abort-win32",
                barrier_slow_abort = "barrier-slow-abort",
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
