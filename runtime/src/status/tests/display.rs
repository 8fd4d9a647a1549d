//! Whole tables: each function over everything it can be given.

use super::{STATUSES, summary};
use crate::journal::{SendMode, SubmissionState, SubmissionView};
use crate::status::*;

const SHOWN: [DisplayStatus; 3] =
    [DisplayStatus::NotWorking, DisplayStatus::Working, DisplayStatus::Stopping];
const STATES: [SubmissionState; 5] = [
    SubmissionState::Queued,
    SubmissionState::HandedOver,
    SubmissionState::Accepted,
    SubmissionState::Rejected,
    SubmissionState::Unknown,
];

fn pressed() -> Press {
    let mut press = Press::default();
    press.begin();
    press
}

fn presses() -> [Press; 2] {
    [Press::default(), pressed()]
}

fn submission(message: &str, state: SubmissionState) -> SubmissionView {
    SubmissionView {
        message_id: message.into(),
        state,
        mode: SendMode::AfterTurn,
        requested_ms: 1,
        handed_over_ms: None,
        seq: 1,
        fact: None,
        reason: None,
        recovered: false,
    }
}

#[test]
fn only_what_works_reads_stopping_by_the_hosts_word_or_the_own_press() {
    use DisplayStatus::{NotWorking, Stopping, Working};
    // By status, then: neither, own press, host, both.
    let table = [
        (None, [NotWorking; 4]),
        (Some(Status::Attention), [NotWorking; 4]),
        (Some(Status::Idle), [NotWorking; 4]),
        (Some(Status::Working), [Working, Stopping, Stopping, Stopping]),
    ];
    assert_eq!(table.len(), STATUSES.len());
    for (status, expected) in table {
        let mut expected = expected.into_iter();
        for stopping in [false, true] {
            for press in presses() {
                let shown = display_status(status, stopping, press);
                let case = (status, stopping, press);
                assert_eq!(Some(shown), expected.next(), "{case:?}");
                assert_eq!(summary(status, stopping, &[]).display_status(press), shown, "{case:?}");
            }
        }
    }
}

#[test]
fn only_the_own_request_holds_the_stop_button() {
    for status in STATUSES {
        for stopping in [false, true] {
            let shown = display_status(status, stopping, Press::default());
            assert!(stop_enabled(Press::default()), "{status:?} {stopping} reads {shown:?}");
            assert!(!stop_enabled(pressed()), "{status:?} {stopping}");
        }
    }
}

#[test]
fn a_press_lasts_from_the_click_to_the_answer() {
    let mut press = Press::default();
    assert!(!press.is_in_flight());
    press.begin();
    press.begin();
    assert!(press.is_in_flight());
    press.end();
    assert!(!press.is_in_flight(), "answered or failed, it is over at once");
    press.end();
    assert_eq!(press, Press::default());
}

#[test]
fn a_steer_is_there_unless_it_reads_stopping() {
    let there: Vec<_> = SHOWN.into_iter().filter(|shown| steer_enabled(*shown)).collect();
    assert_eq!(there, [DisplayStatus::NotWorking, DisplayStatus::Working]);
}

#[test]
fn a_message_is_held_while_it_waits_and_its_host_lists_it_behind_a_stop() {
    for state in STATES {
        for stopping in [false, true] {
            for listed in [&[][..], &["other"], &["other", "m1"]] {
                let waits = [SubmissionState::Queued, SubmissionState::HandedOver].contains(&state);
                let expected =
                    (waits && stopping && listed.contains(&"m1")).then_some(Held::Stopping);
                let summary = summary(Some(Status::Working), stopping, listed);
                let case = (state, stopping, listed);
                assert_eq!(held(&submission("m1", state), &summary), expected, "{case:?}");
            }
        }
    }
    assert_eq!(serde_json::to_value(Held::Stopping).expect("it is JSON"), "stopping");
}

#[test]
fn only_what_was_sent_while_it_read_stopping_and_still_waits_is_drawn_after_the_line() {
    use DisplayStatus::Stopping;
    let mut after = Vec::new();
    let senders = SHOWN.map(Some).into_iter().chain([None]);
    for (display, sent_while) in
        senders.flat_map(|sent_while| SHOWN.map(|display| (display, sent_while)))
    {
        for state in STATES.map(Some).into_iter().chain([None]) {
            for held in [None, Some(Held::Stopping)] {
                let send = DrawnSend { sent_while, state, held };
                if placement(display, send) == Placement::AfterStopping {
                    after.push((display, sent_while, state, held));
                }
            }
        }
    }
    let queued = Some(SubmissionState::Queued);
    let held = Some(Held::Stopping);
    let expected = [
        // Sent here behind the line: at once, and whether or not the host says why it waits (rule 4.8.1).
        (Stopping, Some(Stopping), queued, None),
        (Stopping, Some(Stopping), queued, held),
        (Stopping, Some(Stopping), None, None),
        (Stopping, Some(Stopping), None, held),
        // Sent by another device: by the host's word.
        (Stopping, None, queued, held),
        (Stopping, None, None, held),
    ];
    assert_eq!(after, expected);
}

#[test]
fn t52_with_a_host_that_never_says_stopping_the_press_alone_shows_it_until_the_answer() {
    let says = summary(Some(Status::Working), false, &[]);
    let mut press = Press::default();
    let mut shown = vec![says.display_status(press)];
    press.begin();
    shown.push(says.display_status(press));
    assert!(!stop_enabled(press) && !steer_enabled(says.display_status(press)));
    // Sent behind the press: after the line, although that host lists nothing.
    let sent = DrawnSend { sent_while: Some(says.display_status(press)), ..DrawnSend::default() };
    assert_eq!(placement(says.display_status(press), sent), Placement::AfterStopping);
    press.end();
    shown.push(says.display_status(press));
    assert!(stop_enabled(press) && steer_enabled(says.display_status(press)));
    assert_eq!(placement(says.display_status(press), sent), Placement::AsPublished);
    shown.push(summary(Some(Status::Idle), false, &[]).display_status(press));
    use DisplayStatus::{NotWorking, Stopping, Working};
    assert_eq!(shown, [Working, Stopping, Working, NotWorking]);
}

#[test]
fn a_message_is_drawn_after_the_line_until_it_is_handed_over_and_one_sent_just_before_stays() {
    let says = summary(Some(Status::Working), true, &["just before", "behind"]);
    let shown = says.display_status(Press::default());
    let at = |message: &str, sent_while, state| {
        let held = held(&submission(message, state), &says);
        placement(shown, DrawnSend { sent_while, state: Some(state), held })
    };
    let working = Some(DisplayStatus::Working);
    let stopping = Some(DisplayStatus::Stopping);
    assert_eq!(at("just before", working, SubmissionState::Queued), Placement::AsPublished);
    // On every other device too, once its handover is on disk (decision D24).
    assert_eq!(at("just before", None, SubmissionState::HandedOver), Placement::AsPublished);
    assert_eq!(at("behind", stopping, SubmissionState::Queued), Placement::AfterStopping);
    assert_eq!(at("behind", None, SubmissionState::Queued), Placement::AfterStopping);
    assert_eq!(at("behind", stopping, SubmissionState::HandedOver), Placement::AsPublished);
}

#[test]
fn t54_attention_outranks_a_stop_on_every_surface() {
    // Only a summary of another host's making says both (rule 4.1.1).
    let says = summary(Some(Status::Attention), true, &["m1"]);
    for press in presses() {
        assert_eq!(says.display_status(press), DisplayStatus::NotWorking);
        assert!(steer_enabled(says.display_status(press)));
    }
}
