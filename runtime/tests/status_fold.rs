//! The fold every client uses over the status stream (rule 4.5), and what counts as news (rule 4.4.2).

mod property_support;

use std::sync::Arc;

use moored::ids::{EpochId, Fence, Generation, SessionId};
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
        held: Vec::new(),
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
                ..before.clone()
            };
            prop_assert_eq!(after, &kept);
        }
        prop_assert_eq!(held.len(), lost.len());
        prop_assert!(Arc::ptr_eq(&contact_lost(Arc::clone(&lost)), &lost), "once is enough");
    }
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
