//! The fold every client uses over the status stream (rule 4.5), and what counts as news (rule 4.4.2).

mod property_support;

use std::sync::Arc;

use moored::ids::{EpochId, Fence, Generation, MessageId, SessionId};
use moored::journal::Cursor;
use moored::status::{
    ChildPhase, ChildRef, Status, StatusFrame, Summaries, Summary, contact_lost, fold,
    reads_the_same,
};
use proptest::prelude::*;

use property_support::kept;

const KEPT: &str = "tests/proptest-regressions/status_fold.txt";

fn summary(session: u8, seq: u64, status: Option<Status>, owned: bool, stopping: bool) -> Summary {
    Summary {
        session_id: SessionId(format!("s{session}")),
        workspace_id: "/work".to_owned(),
        agent: "agent".to_owned(),
        status,
        host_execution_owned: owned,
        host_execution_phase: owned.then_some(ChildPhase::Ready),
        host_execution_child: owned
            .then(|| ChildRef { generation: Generation::from("g"), fence: Fence(1) }),
        latest_prompt: None,
        tool_name: None,
        last_assistant_message: None,
        turn_outcome: None,
        stopping,
        held: if stopping { vec![MessageId(format!("m{seq}"))] } else { Vec::new() },
        storage: None,
        conversation_name: None,
        updated_at: seq,
        status_started_at: None,
        cursor: Cursor { epoch: EpochId::from("e1"), seq },
    }
}

fn frames() -> impl Strategy<Value = Vec<StatusFrame>> {
    let status = prop_oneof![
        Just(None),
        Just(Some(Status::Working)),
        Just(Some(Status::Idle)),
        Just(Some(Status::Attention))
    ];
    let one = (0..4_u8, 0..5_u64, status, any::<bool>(), any::<bool>())
        .prop_map(|(s, seq, status, owned, stopping)| summary(s, seq, status, owned, stopping));
    let frame = prop_oneof![
        one.clone().prop_map(|s| StatusFrame::Status { summary: Box::new(s) }),
        prop::collection::vec(one, 0..4).prop_map(snapshot),
        Just(StatusFrame::End),
    ];
    prop::collection::vec(frame, 0..20)
}

/// A snapshot holds each session once.
fn snapshot(summaries: Vec<Summary>) -> StatusFrame {
    let by_session: std::collections::BTreeMap<_, _> =
        summaries.into_iter().map(|s| (s.session_id.clone(), s)).collect();
    StatusFrame::Snapshot { summaries: by_session.into_values().collect() }
}

fn held(frames: &[StatusFrame]) -> Summaries {
    frames.iter().cloned().fold(Summaries::default(), fold)
}

proptest! {
    #![proptest_config(kept(KEPT, 256))]

    #[test]
    fn the_newest_frame_of_a_session_stands_and_no_session_is_lost(frames in frames()) {
        let held = held(&frames);
        let mut newest = std::collections::BTreeMap::new();
        for frame in &frames {
            match frame {
                StatusFrame::Snapshot { summaries } => {
                    newest.extend(summaries.iter().map(|s| (s.session_id.clone(), s.clone())));
                }
                StatusFrame::Status { summary } => {
                    newest.insert(summary.session_id.clone(), (**summary).clone());
                }
                _ => {}
            }
        }
        prop_assert_eq!(&*held, &newest);
    }

    #[test]
    fn a_frame_that_comes_twice_in_a_row_is_folded_once(frames in frames()) {
        let mut once = Summaries::default();
        for frame in frames {
            once = fold(once, frame.clone());
            let twice = fold(Arc::clone(&once), frame);
            prop_assert!(Arc::ptr_eq(&once, &twice), "the same object stays");
        }
    }

    #[test]
    fn sessions_do_not_meet_so_their_frames_come_in_any_order(
        frames in frames(), by in prop::collection::vec(any::<prop::sample::Index>(), 20),
    ) {
        // Any order that keeps each session's own.
        let mut queues: Vec<std::collections::VecDeque<_>> = (0..4_u8).map(|session| {
            let of = SessionId(format!("s{session}"));
            one_by_one(&frames).into_iter().filter(|s| s.session_id == of).collect()
        }).collect();
        let mut mixed = Summaries::default();
        let mut by = by.into_iter().cycle();
        loop {
            let waiting: Vec<_> = (0..4).filter(|n| !queues[*n].is_empty()).collect();
            let (false, Some(by)) = (waiting.is_empty(), by.next()) else { break };
            let next = queues[waiting[by.index(waiting.len())]].pop_front();
            let summary = Box::new(next.expect("it waits"));
            mixed = fold(mixed, StatusFrame::Status { summary });
        }
        prop_assert_eq!(mixed, held(&frames));
    }

    #[test]
    fn a_frame_that_says_nothing_new_keeps_the_same_object(frames in frames()) {
        let held = held(&frames);
        let again = StatusFrame::Snapshot { summaries: held.values().cloned().collect() };
        for frame in [again, StatusFrame::Snapshot { summaries: vec![] }, StatusFrame::End] {
            prop_assert!(Arc::ptr_eq(&fold(Arc::clone(&held), frame), &held));
        }
    }

    #[test]
    fn lost_contact_drops_only_what_the_host_alone_can_know(frames in frames()) {
        let held = held(&frames);
        let lost = contact_lost(Arc::clone(&held));
        for (before, after) in held.values().zip(lost.values()) {
            let kept = Summary {
                host_execution_owned: false,
                host_execution_phase: None,
                host_execution_child: None,
                stopping: false,
                held: Vec::new(),
                ..before.clone()
            };
            prop_assert_eq!(after, &kept);
        }
        prop_assert_eq!(held.len(), lost.len());
        prop_assert!(Arc::ptr_eq(&contact_lost(Arc::clone(&lost)), &lost), "once is enough");
    }
}

/// Every summary that frames carry, in order.
fn one_by_one(frames: &[StatusFrame]) -> Vec<Summary> {
    let of = |frame: &StatusFrame| match frame {
        StatusFrame::Snapshot { summaries } => summaries.clone(),
        StatusFrame::Status { summary } => vec![(**summary).clone()],
        _ => Vec::new(),
    };
    frames.iter().flat_map(of).collect()
}

#[test]
fn t49_a_client_that_loses_its_host_forgets_what_the_host_alone_knew() {
    let stopping = Summary {
        latest_prompt: Some("go".to_owned()),
        tool_name: Some("make".to_owned()),
        status_started_at: Some(3),
        ..summary(1, 5, Some(Status::Working), true, true)
    };
    let elsewhere = summary(2, 1, Some(Status::Idle), false, false);
    let held = held(&[snapshot(vec![stopping.clone(), elsewhere.clone()])]);
    let json = |held: &Summaries| serde_json::to_value(&held[&stopping.session_id]).unwrap();
    let before = json(&held);

    let lost = contact_lost(Arc::clone(&held));
    // As a client reads it: these five fields are gone, and nothing else has changed (rule 4.5.2).
    let mut kept = before.clone();
    for gone in
        ["hostExecutionOwned", "hostExecutionPhase", "hostExecutionChild", "stopping", "held"]
    {
        assert!(kept.as_object_mut().unwrap().remove(gone).is_some(), "{gone} was there");
    }
    assert_eq!(json(&lost), kept);
    assert_eq!(
        lost[&stopping.session_id].status,
        Some(Status::Working),
        "losing contact is no exit"
    );
    assert_eq!(lost[&elsewhere.session_id], elsewhere);
    assert_eq!(json(&held), before, "whoever still draws the old object draws what it said");

    let quiet = contact_lost(Arc::clone(&lost));
    assert!(Arc::ptr_eq(&quiet, &lost), "nothing changes: the same object, and nothing is drawn");

    // Back in contact, the host's own word counts.
    let again = fold(lost, snapshot(vec![stopping.clone(), elsewhere]));
    assert_eq!(json(&again), before);
}

#[test]
fn t49_either_of_what_a_host_alone_knows_is_enough() {
    let owned = summary(1, 1, Some(Status::Idle), true, false);
    let stopping =
        Summary { held: Vec::new(), ..summary(1, 1, Some(Status::Working), false, true) };
    let holding = Summary { stopping: false, ..summary(1, 1, Some(Status::Working), false, true) };
    for knows in [owned, stopping, holding] {
        let held = held(&[snapshot(vec![knows])]);
        let lost = contact_lost(Arc::clone(&held));
        assert!(!Arc::ptr_eq(&lost, &held));
        let left = lost.values().next().unwrap();
        assert!(!left.host_execution_owned && !left.stopping && left.held.is_empty());
    }
}

#[test]
fn t50_a_restarting_hosts_empty_first_snapshot_keeps_every_row() {
    let rows = vec![
        summary(1, 5, Some(Status::Working), true, true),
        summary(2, 2, Some(Status::Idle), false, false),
    ];
    let held = held(&[snapshot(rows.clone())]);
    // The host goes, and comes back before it has read its journals (rule 4.5.1).
    let lost = contact_lost(fold(Arc::clone(&held), StatusFrame::End));
    let back = fold(Arc::clone(&lost), snapshot(vec![]));
    assert!(Arc::ptr_eq(&back, &lost), "no row flickers");
    assert_eq!(back.len(), rows.len());
    // Its first real word replaces one row, and leaves the other.
    let restored = summary(1, 6, Some(Status::Idle), false, false);
    let next = fold(back, StatusFrame::Status { summary: Box::new(restored.clone()) });
    assert_eq!(next[&restored.session_id], restored);
    assert_eq!(next[&rows[1].session_id], rows[1]);
}

#[test]
fn what_a_stop_holds_back_is_news_by_itself() {
    let before = summary(1, 1, Some(Status::Working), true, true);
    let after = Summary { held: Vec::new(), ..before.clone() };
    assert!(!reads_the_same(&before, &after), "rule 4.4.2");
    let held = held(&[snapshot(vec![before])]);
    let next = fold(Arc::clone(&held), StatusFrame::Status { summary: Box::new(after) });
    assert!(!Arc::ptr_eq(&held, &next), "a list notices it");
}

#[test]
fn an_empty_list_is_not_written() {
    let written =
        serde_json::to_string(&summary(1, 1, Some(Status::Working), true, false)).unwrap();
    assert!(!written.contains("held") && !written.contains("stopping"), "{written}");
    let written = serde_json::to_string(&summary(1, 1, Some(Status::Working), true, true)).unwrap();
    assert!(written.contains(r#""stopping":true,"held":["m1"]"#), "{written}");
}

#[test]
fn a_tick_is_news_only_while_idle_with_no_start() {
    for (status, started, news) in [
        (Some(Status::Working), None, false),
        (Some(Status::Working), Some(5), false),
        (Some(Status::Attention), None, false),
        (Some(Status::Idle), Some(5), false),
        (Some(Status::Idle), None, true),
    ] {
        let before = Summary { status_started_at: started, ..summary(1, 1, status, false, false) };
        let after = Summary { updated_at: 9, ..before.clone() };
        assert_eq!(!reads_the_same(&before, &after), news, "{status:?} since {started:?}");
        let moved =
            Summary { cursor: Cursor { epoch: EpochId::from("e2"), seq: 7 }, ..before.clone() };
        assert!(reads_the_same(&before, &moved), "a cursor alone is no news");
        let stopping = Summary { stopping: true, ..before.clone() };
        assert!(!reads_the_same(&before, &stopping), "stopping is");
    }
}
