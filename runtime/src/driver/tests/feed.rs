use super::*;

fn next<T>(tap: &Tap<T>) -> Poll<Option<T>> {
    tap.poll_next(&mut Context::from_waker(Waker::noop()))
}

fn wanted<T>(feed: &Feed<T>) -> bool {
    feed.poll_wanted(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn frames_come_in_order_and_the_end_after_them() {
    let (feed, tap) = feed(4);
    assert!(feed.push(1) && feed.push(2));
    drop(feed);
    assert_eq!(
        [next(&tap), next(&tap), next(&tap)],
        [Poll::Ready(Some(1)), Poll::Ready(Some(2)), Poll::Ready(None)]
    );
}

#[test]
fn a_full_queue_lags_until_its_subscriber_comes_and_is_given_the_whole() {
    let (feed, tap) = feed(2);
    for frame in 1..=5 {
        assert!(feed.push(frame), "a slow subscriber refuses nothing");
    }
    assert!(!wanted(&feed), "nobody has come yet");
    assert_eq!(next(&tap), Poll::Pending, "what it held is older than what it missed");
    assert!(wanted(&feed));
    assert!(feed.push_snapshot(50));
    assert!(!wanted(&feed));
    assert!(feed.push(6));
    assert_eq!(
        [next(&tap), next(&tap), next(&tap)],
        [Poll::Ready(Some(50)), Poll::Ready(Some(6)), Poll::Pending]
    );
}

#[test]
fn a_dropped_subscriber_is_found_at_the_next_frame() {
    let (feed, tap) = feed(2);
    assert!(!feed.is_dropped());
    drop(tap);
    assert!(feed.is_dropped() && !feed.push(1) && !feed.push_snapshot(2));
}

#[test]
fn a_lagging_feed_that_ends_reads_its_end() {
    let (feed, tap) = feed(1);
    feed.push(1);
    feed.push(2);
    drop(feed);
    assert_eq!(next(&tap), Poll::Ready(None));
}

/// Rule 4.4.5, and the planted bug of it.
#[test]
fn a_subscriber_that_is_gone_costs_no_other_its_frame() {
    let told = |silences: bool| {
        let (first, gone, last) = (feed(2), feed(2), feed(2));
        drop(gone.1);
        let mut feeds = vec![first.0, gone.0, last.0];
        broadcast(&mut feeds, &1, silences);
        assert_eq!(feeds.len(), 2, "whoever is gone is let go of");
        [next(&first.1), next(&last.1)]
    };
    assert_eq!(told(false), [Poll::Ready(Some(1)), Poll::Ready(Some(1))]);
    // What `PlantedBug::GoneSubscriberSilencesTheRest` makes of it.
    assert_eq!(told(true), [Poll::Ready(Some(1)), Poll::Pending]);
}
