//! Clients that somebody could really write, each with one rule of the shared pieces broken (rules 4.5, 4.6), and the
//! story that tells each from the library's own. No session carries these bugs: what is wrong is what a client does.

use std::sync::Arc;

use super::summary;
use crate::journal::SubmissionState;
use crate::status::*;

/// What a client takes from the library.
struct Client {
    fold: fn(Summaries, StatusFrame) -> Summaries,
    contact_lost: fn(Summaries) -> Summaries,
    display_status: fn(Option<Status>, bool, Press) -> DisplayStatus,
    stop_enabled: fn(Press) -> bool,
    steer_enabled: fn(DisplayStatus) -> bool,
    placement: fn(DisplayStatus, DrawnSend) -> Placement,
}

const LIBRARY: Client =
    Client { fold, contact_lost, display_status, stop_enabled, steer_enabled, placement };

/// A wrong client: the rule it breaks, its name, what it does, and the story that it fails.
type Wrong = (&'static str, &'static str, Client, fn(&Client));

fn wrong_clients() -> Vec<Wrong> {
    vec![
        (
            "4.5.1",
            "snapshot-replaces-the-list",
            Client { fold: snapshot_replaces, ..LIBRARY },
            no_row_flickers_while_a_host_restarts,
        ),
        (
            "4.5.1",
            "end-clears-the-list",
            Client { fold: end_clears, ..LIBRARY },
            no_row_flickers_while_a_host_restarts,
        ),
        (
            "4.5.2",
            "contact-lost-keeps-stopping",
            Client { contact_lost: |held| held, ..LIBRARY },
            lost_contact_is_no_exit_and_no_stop,
        ),
        (
            "4.5.2",
            "contact-lost-reads-as-an-exit",
            Client { contact_lost: lost_reads_idle, ..LIBRARY },
            lost_contact_is_no_exit_and_no_stop,
        ),
        (
            "4.5.2",
            "contact-lost-draws-again",
            Client { contact_lost: |held| Arc::new((*contact_lost(held)).clone()), ..LIBRARY },
            lost_contact_is_no_exit_and_no_stop,
        ),
        (
            "4.6.1",
            "press-shows-nothing",
            Client {
                display_status: |status, stopping, _| {
                    display_status(status, stopping, Press::default())
                },
                ..LIBRARY
            },
            what_works_reads_stopping_by_either_word,
        ),
        (
            "4.6.1",
            "press-shows-at-rest",
            Client { display_status: press_shows_at_rest, ..LIBRARY },
            what_works_reads_stopping_by_either_word,
        ),
        (
            "4.6.2",
            "press-holds-no-button",
            Client { stop_enabled: |_| true, ..LIBRARY },
            only_the_own_press_holds_the_button,
        ),
        (
            "4.6.3",
            "steer-into-a-stop",
            Client { steer_enabled: |_| true, ..LIBRARY },
            nobody_steers_into_what_is_ending,
        ),
        (
            "4.6.4",
            "held-is-drawn-before-the-line",
            Client { placement: |_, _| Placement::AsPublished, ..LIBRARY },
            what_is_sent_behind_the_line_is_drawn_behind_it,
        ),
        (
            "4.6.4",
            "everything-waits-behind-the-line",
            Client { placement: |_, _| Placement::AfterStopping, ..LIBRARY },
            what_is_sent_behind_the_line_is_drawn_behind_it,
        ),
        (
            "4.6.5",
            "list-misses-stopping",
            Client { fold: misses_stopping, ..LIBRARY },
            a_list_notices_stopping_alone,
        ),
    ]
}

#[test]
fn every_wrong_client_fails_its_story_and_the_librarys_pieces_fail_none() {
    for (rule, name, wrong, story) in wrong_clients() {
        story(&LIBRARY);
        let noticed = std::panic::catch_unwind(|| story(&wrong)).is_err();
        assert!(noticed, "{name} breaks rule {rule}, and its story does not notice");
    }
}

fn one(summary: Summary) -> StatusFrame {
    StatusFrame::Status { summary: Box::new(summary) }
}

fn no_row_flickers_while_a_host_restarts(client: &Client) {
    let held = (client.fold)(Summaries::default(), one(summary(Some(Status::Working), true, &[])));
    let held = (client.fold)(held, StatusFrame::End);
    let held = (client.fold)(held, StatusFrame::Snapshot { summaries: vec![] });
    assert_eq!(held.len(), 1);
}

fn lost_contact_is_no_exit_and_no_stop(client: &Client) {
    let held = fold(Summaries::default(), one(summary(Some(Status::Working), true, &["m1"])));
    let lost = (client.contact_lost)(held);
    let left = lost.values().next().expect("the row stays");
    assert!(!left.stopping && !left.host_execution_owned);
    assert_eq!(left.status, Some(Status::Working));
    let again = (client.contact_lost)(Arc::clone(&lost));
    assert!(Arc::ptr_eq(&again, &lost), "nothing changes: the same object");
}

fn pressed() -> Press {
    let mut press = Press::default();
    press.begin();
    press
}

fn what_works_reads_stopping_by_either_word(client: &Client) {
    let (rest, work) = (Some(Status::Idle), Some(Status::Working));
    let shown = |status, stopping, press| (client.display_status)(status, stopping, press);
    assert_eq!(shown(work, true, Press::default()), DisplayStatus::Stopping);
    assert_eq!(shown(work, false, pressed()), DisplayStatus::Stopping);
    assert_eq!(shown(work, false, Press::default()), DisplayStatus::Working);
    assert_eq!(shown(rest, false, pressed()), DisplayStatus::NotWorking);
}

fn only_the_own_press_holds_the_button(client: &Client) {
    assert!((client.stop_enabled)(Press::default()) && !(client.stop_enabled)(pressed()));
}

fn nobody_steers_into_what_is_ending(client: &Client) {
    assert!((client.steer_enabled)(DisplayStatus::Working));
    assert!(!(client.steer_enabled)(DisplayStatus::Stopping));
}

fn what_is_sent_behind_the_line_is_drawn_behind_it(client: &Client) {
    let sent = |while_shown| DrawnSend {
        sent_while: Some(while_shown),
        state: Some(SubmissionState::Queued),
        held: None,
    };
    let place = |shown, send| (client.placement)(shown, send);
    let behind = sent(DisplayStatus::Stopping);
    assert_eq!(place(DisplayStatus::Stopping, behind), Placement::AfterStopping);
    assert_eq!(place(DisplayStatus::Working, behind), Placement::AsPublished);
    let before = sent(DisplayStatus::Working);
    assert_eq!(place(DisplayStatus::Stopping, before), Placement::AsPublished);
}

fn a_list_notices_stopping_alone(client: &Client) {
    let held = (client.fold)(Summaries::default(), one(summary(Some(Status::Working), false, &[])));
    let next = (client.fold)(held, one(summary(Some(Status::Working), true, &[])));
    assert!(next.values().all(|row| row.stopping));
}

fn snapshot_replaces(held: Summaries, frame: StatusFrame) -> Summaries {
    match frame {
        StatusFrame::Snapshot { .. } => fold(Summaries::default(), frame),
        frame => fold(held, frame),
    }
}

fn end_clears(held: Summaries, frame: StatusFrame) -> Summaries {
    match frame {
        StatusFrame::End => Summaries::default(),
        frame => fold(held, frame),
    }
}

fn lost_reads_idle(held: Summaries) -> Summaries {
    let mut rows = (*contact_lost(held)).clone();
    rows.values_mut().for_each(|row| row.status = Some(Status::Idle));
    Arc::new(rows)
}

fn press_shows_at_rest(status: Option<Status>, stopping: bool, press: Press) -> DisplayStatus {
    match press.is_in_flight() {
        true => DisplayStatus::Stopping,
        false => display_status(status, stopping, press),
    }
}

fn misses_stopping(held: Summaries, frame: StatusFrame) -> Summaries {
    match &frame {
        StatusFrame::Status { summary }
            if held.get(&summary.session_id).is_some_and(|row| row.status == summary.status) =>
        {
            held
        }
        _ => fold(held, frame),
    }
}
