//! What a host does about faults, its own included, and where its limits are.

mod common;

use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::host::*;
use moored::driver::{CALLS_KEPT_FOR_STOPS, Host, HostConfig, HostLimits, OpenError, WatchFrame};
use moored::failure::RefusalCode;
use moored::host::Stop;
use moored::platform::BoxFuture;
use moored::session::ladder::LadderPolicy;
use moored::store::memory::{CommitVerdict, MemoryStore, NoFaults, StoreFaults};
use moored::store::{RetryReason, Unit};

#[test]
fn a_fault_of_our_own_costs_one_session_and_no_other() {
    let place = Place::default();
    place.world.tell(async {
        let (host, lost) = place.with_session("lost").await;
        let kept = create(&host, "kept", &["agent"]).await;
        let mut watch = host.watch(&lost);
        watch.next().await.expect("the whole comes first");
        let (context, later) = (person(&host), person(&host));
        place.world.entropy_fails.store(true, Ordering::Relaxed);
        // The agent's start needs fresh ids, and the session's task falls over them.
        let _ = host.send(&lost, message("m", "say hello"), context).await;
        let refused = loop {
            match host.send(&lost, message("n", "say hello"), later.clone()).await {
                Ok(_) => place.world.pass_ms(10).await,
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused.code, RefusalCode::SessionClosed);
        assert_eq!(rest(&mut watch).await.last(), Some(&WatchFrame::End));
        place.world.entropy_fails.store(false, Ordering::Relaxed);
        host.send(&kept, message("m", "say hello"), person(&host)).await.unwrap();
        settled(&host, &kept, 1).await;
        let statuses = host.statuses().await.unwrap();
        assert!(statuses.iter().all(|s| s.session_id != lost || !s.stopping));
        host.shutdown().await.expect("what is lost is not waited for");
    });
}

#[test]
fn an_agent_that_does_not_start_ends_in_words_and_the_session_goes_on() {
    let place = Place::default();
    place.world.tell(async {
        let host = place.open().await;
        let session = create(&host, "s", &["no such program"]).await;
        host.send(&session, message("m", "say hello"), person(&host)).await.unwrap();
        place.world.pass_ms(1_000).await;
        let snapshot = host.snapshot(&session).await.unwrap();
        assert!(snapshot.submissions[0].fact.is_some(), "the message says why");
        host.close(&session, person(&host)).await.unwrap();
        host.shutdown().await.unwrap();
    });
}

/// A disk that refuses for as long as it is told to.
#[derive(Default)]
struct Stubborn(AtomicBool);

impl StoreFaults for Stubborn {
    fn before_commit(&self, _: &[&Unit]) -> BoxFuture<CommitVerdict> {
        Box::pin(ready(match self.0.load(Ordering::Relaxed) {
            true => CommitVerdict::Refuse(RetryReason::Full),
            false => CommitVerdict::Commit,
        }))
    }
}

#[test]
fn a_store_that_refuses_while_a_turn_streams_loses_nothing() {
    let place = Place::default();
    place.world.tell(async {
        let faults = Arc::new(Stubborn::default());
        let host = place.open_with(HostConfig::default(), faults.clone()).await;
        let session = create(&host, "s", &["agent"]).await;
        host.send(&session, message("m", "flood 100"), person(&host)).await.unwrap();
        prompted(&place, 1).await;
        place.world.pass_ms(100).await;
        faults.0.store(true, Ordering::Relaxed);
        place.world.pass_ms(10_000).await;
        let during = host.statuses().await.unwrap();
        assert!(during[0].storage.is_some(), "it says that nothing is saved");
        faults.0.store(false, Ordering::Relaxed);
        let whole: String = (0..100).map(|n| format!("{n} ")).collect();
        assert_eq!(said(&settled(&host, &session, 1).await), whole);
        host.shutdown().await.unwrap();
    });
}

/// A disk that never answers.
struct Silent;

impl StoreFaults for Silent {
    fn before_commit(&self, _: &[&Unit]) -> BoxFuture<CommitVerdict> {
        Box::pin(pending())
    }
}

#[test]
fn calls_beyond_the_limit_are_refused_and_a_stop_still_finds_room() {
    let place = Place::default();
    let calls_max = CALLS_KEPT_FOR_STOPS + 3;
    place.world.tell(async {
        let limits = HostLimits { calls_max, ..HostLimits::default() };
        let config = HostConfig { limits, ..HostConfig::default() };
        let host = place.open_with(config, Arc::new(Silent)).await;
        // Nobody is answered: the disk is silent.
        let mut waiting = Vec::new();
        for n in 0..3 {
            let new = moored::host::NewSession {
                id: format!("s{n}").into(),
                agent: moored::agent::AgentDefinition::generic(vec!["agent".to_owned()]),
                workspace: "/work".to_owned(),
            };
            waiting.push(host.create(new, person(&host)));
            place.world.pass_ms(1).await;
        }
        let session = "s0".into();
        let refused =
            host.send(&session, message("m", "say hello"), person(&host)).await.unwrap_err();
        assert_eq!(refused.code, RefusalCode::QueueFull);
        for _ in 0..CALLS_KEPT_FOR_STOPS {
            // A Stop is taken; when it is answered is the session's own affair.
            let stop = host.stop(&session, Stop::default(), person(&host));
            let answered = moored::platform::timeout(&place.world, 1, stop).await;
            assert!(!matches!(answered, Ok(Err(r)) if r.code == RefusalCode::QueueFull));
        }
        drop(waiting);
    });
}

#[test]
fn posted_calls_are_bounded_before_any_of_them_is_heard() {
    let place = Place::default();
    place.world.tell(async {
        let limits = HostLimits { calls_max: CALLS_KEPT_FOR_STOPS + 2, ..HostLimits::default() };
        let config = HostConfig { limits, ..HostConfig::default() };
        let host = place.open_with(config, Arc::new(NoFaults)).await;
        let send = |n: usize| {
            host.send(&"s".into(), message(&format!("m{n}"), "say hello"), person(&host))
        };
        let posted: Vec<_> = (0..3).map(send).collect();
        let mut codes = Vec::new();
        for answer in posted {
            codes.push(answer.await.unwrap_err().code);
        }
        use RefusalCode::{QueueFull, SessionUnknown};
        assert_eq!(codes, [SessionUnknown, SessionUnknown, QueueFull]);
        host.shutdown().await.unwrap();
    });
}

#[test]
fn a_policy_that_gives_a_child_too_little_time_opens_no_host() {
    let place = Place::default();
    let opened = |config: HostConfig| {
        let (store, _) = MemoryStore::open(&place.disk, "a host", Arc::new(NoFaults)).unwrap();
        let platform = Arc::new(place.world.clone());
        place.world.tell(Host::open_on(platform, Arc::new(store), config))
    };
    let mut config = HostConfig::default();
    config.policy.ladder = LadderPolicy { term_grace_ms: 2_999, ..config.policy.ladder };
    let error = opened(config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the policy cannot be used: term_grace_ms is 2999, and may not be shorter than 3000"
    );
    let limits = HostLimits { calls_max: CALLS_KEPT_FOR_STOPS, ..HostLimits::default() };
    let error = opened(HostConfig { limits, ..HostConfig::default() }).unwrap_err();
    assert!(matches!(error, OpenError::Limit { name: "calls_max", .. }));
}
