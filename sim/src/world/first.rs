//! The first of several futures to finish, polled in written order, so that a tie is decided by the page.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Which of them it was.
pub(super) enum First<A, B, C> {
    One(A),
    Two(B),
    Three(C),
}

/// Waits for the first of three; the others are dropped.
pub(super) async fn first<A: Future, B: Future, C: Future>(
    one: A,
    two: B,
    three: C,
) -> First<A::Output, B::Output, C::Output> {
    let (mut one, mut two, mut three) = (pin!(one), pin!(two), pin!(three));
    poll_fn(|cx| {
        if let Poll::Ready(value) = one.as_mut().poll(cx) {
            return Poll::Ready(First::One(value));
        }
        if let Poll::Ready(value) = two.as_mut().poll(cx) {
            return Poll::Ready(First::Two(value));
        }
        three.as_mut().poll(cx).map(First::Three)
    })
    .await
}

/// The future, or nothing ever.
pub(super) async fn if_some<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
