//! What subscribers see: one snapshot first, then every change, and nobody pays for a slow one.

mod common;

use std::sync::Arc;

use common::host::*;
use moored::driver::{HostConfig, HostLimits, StatusStream, WatchFrame};
use moored::status::{Status, StatusFrame, Summary};
use moored::store::memory::NoFaults;

fn narrow() -> HostConfig {
    let limits = HostLimits { watch_frames_max: 3, status_frames_max: 2, ..HostLimits::default() };
    HostConfig { limits, ..HostConfig::default() }
}

#[test]
fn a_watch_begins_with_the_whole_and_goes_on_with_what_changes() {
    let place = Place::default();
    place.world.tell(async {
        let (host, session) = place.with_session("s").await;
        let mut watch = host.watch(&session);
        assert!(matches!(watch.next().await, Some(WatchFrame::Snapshot(_))));
        host.send(&session, message("m", "say hello"), person(&host)).await.unwrap();
        let last = settled(&host, &session, 1).await;
        host.shutdown().await.unwrap();
        let frames = rest(&mut watch).await;
        let cursors: Vec<_> = frames
            .iter()
            .filter_map(|frame| match frame {
                WatchFrame::Snapshot(snapshot) => Some(snapshot.cursor.clone()),
                WatchFrame::Batch(batch) => Some(batch.cursor.clone()),
                _ => None,
            })
            .collect();
        assert!(cursors.is_sorted(), "frames come in the order of the journal");
        assert!(cursors.contains(&last.cursor));
        let anew = frames.iter().filter(|f| matches!(f, WatchFrame::Snapshot(_))).count();
        assert!(anew >= 1, "the attach moved the fence (rule 6.9.3)");
        assert_eq!(frames.last(), Some(&WatchFrame::End));
    });
}

#[test]
fn a_slow_watcher_misses_frames_gets_the_whole_instead_and_holds_nobody_up() {
    let place = Place::default();
    place.world.tell(async {
        let host = place.open_with(narrow(), Arc::new(NoFaults)).await;
        let session = create(&host, "s", &["agent"]).await;
        let mut slow = host.watch(&session);
        let dropped = host.watch(&session);
        host.send(&session, message("m", "flood 40"), person(&host)).await.unwrap();
        drop(dropped);
        let last = settled(&host, &session, 1).await;
        // What it was given before it lagged is gone: the whole is all it needs.
        let Some(WatchFrame::Snapshot(whole)) = slow.next().await else {
            panic!("a watcher that lagged is given the whole");
        };
        assert_eq!(whole.cursor, last.cursor);
        assert_eq!(said(&whole), said(&last));
        host.shutdown().await.unwrap();
    });
}

#[test]
fn a_watch_of_nothing_ends() {
    let place = Place::default();
    place.world.tell(async {
        let host = place.open().await;
        let mut watch = host.watch(&"nobody".into());
        assert_eq!(watch.next().await, Some(WatchFrame::End));
        assert_eq!(watch.next().await, None);
        host.shutdown().await.unwrap();
    });
}

async fn next_summary(stream: &mut StatusStream) -> Summary {
    match stream.next().await {
        Some(StatusFrame::Status { summary }) => *summary,
        other => panic!("a change was awaited, not {other:?}"),
    }
}

#[test]
fn the_status_stream_begins_with_all_tells_each_change_and_ends_with_the_host() {
    let place = Place::default();
    place.world.tell(async {
        let (host, session) = place.with_session("s").await;
        let mut stream = host.subscribe();
        let Some(StatusFrame::Snapshot { summaries }) = stream.next().await else {
            panic!("a stream begins with all");
        };
        assert_eq!(summaries.len(), 1);
        assert_eq!(summaries[0].session_id, session);
        host.send(&session, message("m", "say hello"), person(&host)).await.unwrap();
        let mut last = summaries[0].clone();
        let mut statuses = Vec::new();
        while statuses.last() != Some(&Some(Status::Idle)) {
            let summary = next_summary(&mut stream).await;
            assert!(!moored::status::reads_the_same(&last, &summary), "equal ones are not sent");
            statuses.push(summary.status);
            last = summary;
        }
        assert!(statuses.contains(&Some(Status::Working)));
        host.shutdown().await.unwrap();
        let mut end = stream.next().await;
        while let Some(StatusFrame::Status { .. }) = end {
            end = stream.next().await;
        }
        assert_eq!(end, Some(StatusFrame::End));
        assert_eq!(stream.next().await, None);
    });
}

#[test]
fn a_restarted_host_publishes_what_it_restored_without_any_ownership() {
    let place = Place::default();
    place.world.tell(async {
        let (host, session) = place.with_session("s").await;
        host.send(&session, message("m", "say hello"), person(&host)).await.unwrap();
        settled(&host, &session, 1).await;
        host.shutdown().await.unwrap();
        let host = place.open().await;
        let Some(StatusFrame::Snapshot { summaries }) = host.subscribe().next().await else {
            panic!("a stream begins with all");
        };
        assert_eq!(summaries.len(), 1);
        let summary = &summaries[0];
        assert_eq!(summary.status, Some(Status::Idle));
        assert!(!summary.host_execution_owned && !summary.stopping, "rule 7.6.4");
        host.shutdown().await.unwrap();
    });
}

#[test]
fn a_slow_status_subscriber_is_given_all_of_them_again() {
    let place = Place::default();
    place.world.tell(async {
        let host = place.open_with(narrow(), Arc::new(NoFaults)).await;
        let mut slow = host.subscribe();
        for n in 0..3 {
            let session = create(&host, &format!("s{n}"), &["agent"]).await;
            host.send(&session, message("m", "say hello"), person(&host)).await.unwrap();
            settled(&host, &session, 1).await;
        }
        let Some(StatusFrame::Snapshot { summaries }) = slow.next().await else {
            panic!("a subscriber that lagged is given all");
        };
        assert_eq!(summaries.len(), 3);
        host.shutdown().await.unwrap();
    });
}
