//! A host as its embedder meets it: conversations, retries, order, restarts, the end.

mod common;

use common::host::*;
use moored::coverage::CoverageMark;
use moored::failure::RefusalCode;
use moored::host::Stop;
use moored::ids::Fence;
use moored::journal::{Outcome, RootProof, SubmissionState, TurnState};

#[test]
fn a_conversation_is_held_and_closed() {
    let place = Place::default();
    place.world.tell(async {
        let (host, session) = place.with_session("s").await;
        assert_eq!(
            place.world.seen.lock().unwrap().starts,
            0,
            "nothing but a send starts an agent"
        );
        host.send(&session, message("m", "say hello"), person(&host)).await.unwrap();
        let snapshot = settled(&host, &session, 1).await;
        assert_eq!(said(&snapshot), "hello");
        assert_eq!(turns(&snapshot)[0].outcome, Some(Outcome::Success));

        let mut watch = host.watch(&session);
        let ended = host.close(&session, person(&host)).await.unwrap();
        assert_eq!(ended.root, RootProof::Exited);
        rest(&mut watch).await;
        assert_eq!(watch.next().await, None);
        let refused = host.snapshot(&session).await.unwrap_err();
        assert_eq!(refused.code, RefusalCode::SessionClosed);
        assert!(host.statuses().await.unwrap().is_empty(), "its row went with it (rule 8.1.9)");
        host.shutdown().await.unwrap();
    });
    assert_eq!(place.world.seen.lock().unwrap().exits, 1);
    assert!(place.world.seen.lock().unwrap().signals.is_empty(), "it left on its own");
}

#[test]
fn a_send_whose_future_is_dropped_is_neither_undone_nor_done_twice() {
    let place = Place::default();
    place.world.tell(async {
        let (host, session) = place.with_session("s").await;
        let context = person(&host);
        drop(host.send(&session, message("m", "say once"), context.clone()));
        let again = host.send(&session, message("m", "say once"), context.clone()).await.unwrap();
        assert_eq!(again.message_id, "m".into());
        settled(&host, &session, 1).await;
        let late = host.send(&session, message("m", "say once"), context).await.unwrap();
        assert_eq!(late, again, "a replay gives the same answer");
        host.shutdown().await.unwrap();
    });
    assert_eq!(place.world.seen.lock().unwrap().prompts, ["say once"]);
}

#[test]
fn what_the_host_and_its_sessions_meet_is_told_once() {
    let place = Place::default();
    place.world.tell(async {
        let (host, session) = place.with_session("s").await;
        let context = person(&host);
        for _ in 0..3 {
            host.send(&session, message("m", "say hi"), context.clone()).await.unwrap();
        }
        settled(&host, &session, 1).await;
        for _ in 0..3 {
            let mut stale = person(&host);
            stale.expected_fence = Some(Fence(9));
            host.stop(&session, Stop::default(), stale).await.unwrap_err();
        }
        host.shutdown().await.unwrap();
    });
    let met = place.world.met.lock().unwrap().clone();
    assert_eq!(
        met,
        [CoverageMark::OperationReplayed, CoverageMark::FenceStale, CoverageMark::LeftOnEof]
    );
}

#[test]
fn a_stop_stops_the_send_that_was_made_before_it() {
    let place = Place::default();
    place.world.tell(async {
        let (host, session) = place.with_session("s").await;
        let sent = host.send(&session, message("m", "hold"), person(&host));
        let stopped = host.stop(&session, Stop::default(), person(&host));
        sent.await.unwrap();
        stopped.await.unwrap();
        place.world.pass_ms(60_000).await;
        let snapshot = host.snapshot(&session).await.unwrap();
        assert!(turns(&snapshot).iter().all(|turn| turn.state != TurnState::Running));
        assert_ne!(snapshot.submissions[0].state, SubmissionState::Queued);
        host.shutdown().await.unwrap();
    });
    assert!(place.world.seen.lock().unwrap().prompts.is_empty(), "it never reached the agent");
}

#[test]
fn a_running_turn_is_stopped_once() {
    let place = Place::default();
    place.world.tell(async {
        let (host, session) = place.with_session("s").await;
        host.send(&session, message("m", "hold"), person(&host)).await.unwrap();
        prompted(&place, 1).await;
        let press = person(&host);
        let first = host.stop(&session, Stop::default(), press.clone());
        let twice = host.stop(&session, Stop::default(), press.clone());
        assert!(first.await.unwrap().cancelled);
        assert!(!twice.await.unwrap().cancelled, "rule 3.1.3");
        let snapshot = settled(&host, &session, 1).await;
        assert_eq!(turns(&snapshot)[0].outcome, Some(Outcome::Cancellation));
        assert!(!host.stop(&session, Stop::default(), press).await.unwrap().cancelled);
        host.shutdown().await.unwrap();
    });
    assert_eq!(place.world.seen.lock().unwrap().cancels, 1);
}

#[test]
fn a_caller_that_has_not_seen_the_current_fence_is_told_which_it_is() {
    let place = Place::default();
    place.world.tell(async {
        let (host, session) = place.with_session("s").await;
        host.send(&session, message("m", "say hello"), person(&host)).await.unwrap();
        let current = settled(&host, &session, 1).await.fence;
        let stale = moored::host::CallContext {
            expected_fence: Some(Fence(current.0 + 7)),
            ..person(&host)
        };
        let refused = host.send(&session, message("n", "say no"), stale.clone()).await.unwrap_err();
        assert_eq!(refused.code, RefusalCode::CheckpointStale);
        assert_eq!(refused.current_fence, Some(current));
        // Nothing was done, so it may be asked again with what was learnt.
        let fresh = moored::host::CallContext { expected_fence: Some(current), ..stale };
        host.send(&session, message("n", "say no"), fresh).await.unwrap();
        host.shutdown().await.unwrap();
    });
}

#[test]
fn a_restarted_host_shows_the_same_timeline_and_replays_the_same_answers() {
    let place = Place::default();
    place.world.tell(async {
        let (host, session) = place.with_session("s").await;
        let context = person(&host);
        let sent = host.send(&session, message("m", "say hello"), context.clone()).await.unwrap();
        settled(&host, &session, 1).await;
        let closed = create(&host, "closed", &["agent"]).await;
        host.close(&closed, person(&host)).await.unwrap();
        let before = host.snapshot(&session).await.unwrap();
        host.shutdown().await.unwrap();

        let host = place.open().await;
        let after = host.snapshot(&session).await.unwrap();
        assert_eq!(said(&after), said(&before));
        assert_eq!(turns(&after), turns(&before));
        assert_eq!(host.send(&session, message("m", "say hello"), context).await.unwrap(), sent);
        let refused = host.snapshot(&closed).await.unwrap_err();
        assert_eq!(refused.code, RefusalCode::SessionClosed);
        let starts = place.world.seen.lock().unwrap().starts;
        assert_eq!(starts, 1, "opening starts no agent (rule 7.6.2)");
        host.send(&session, message("n", "say again"), person(&host)).await.unwrap();
        settled(&host, &session, 2).await;
        host.shutdown().await.unwrap();
    });
    assert_eq!(place.world.seen.lock().unwrap().prompts, ["say hello", "say again"]);
}

#[test]
fn a_shutdown_ends_all_children_at_the_same_time_and_refuses_what_comes_after() {
    let place = Place::default();
    let ended_ms = place.world.tell(async {
        let host = place.open().await;
        for n in 0..4 {
            // Each takes most of its EOF window to leave.
            let session = create(&host, &format!("s{n}"), &["agent", "900"]).await;
            host.send(&session, message("m", "say hello"), person(&host)).await.unwrap();
            settled(&host, &session, 1).await;
        }
        let before = place.world.now_ms();
        let other = host.clone();
        host.shutdown().await.unwrap();
        let took_ms = place.world.now_ms() - before;
        other.shutdown().await.expect("asked again, it answers again");
        let refused =
            other.send(&"s0".into(), message("n", "say no"), person(&other)).await.unwrap_err();
        assert_eq!(refused.code, RefusalCode::Quitting);
        assert_eq!(other.watch(&"s0".into()).next().await, Some(moored::driver::WatchFrame::End));
        took_ms
    });
    let seen = place.world.seen.lock().unwrap();
    assert_eq!((seen.exits, seen.signals.len()), (4, 0), "all left inside their windows");
    assert!(ended_ms < 2 * 900, "one after the other they would have taken four times 900 ms");
}

#[test]
fn dropping_the_last_handle_ends_everything_too() {
    let place = Place::default();
    place.world.tell(async {
        let (host, session) = place.with_session("s").await;
        host.send(&session, message("m", "hold"), person(&host)).await.unwrap();
        prompted(&place, 1).await;
        drop(host);
        place.world.pass_ms(60_000).await;
    });
    assert_eq!(place.world.seen.lock().unwrap().exits, 1);
    assert_eq!(place.world.tasks(), 0, "no task is left");
}
