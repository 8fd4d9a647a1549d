//! Waiting for the first of several things in a written order.
//!
//! `tokio::select!` draws its first branch from a per-thread generator that no seed controls. [`select!`](crate::select)
//! polls its branches as they are written: stop, exit, cancel, timer, data.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Which of two futures was ready first, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raced<A, B> {
    /// The first one; also when both were ready.
    First(A),
    /// The second one.
    Second(B),
}

/// Waits for the first of two futures and drops the other. Each time, `first` is asked before `second`.
pub async fn race<A: Future, B: Future>(first: A, second: B) -> Raced<A::Output, B::Output> {
    let mut first = pin!(first);
    let mut second = pin!(second);
    poll_fn(|cx| {
        if let Poll::Ready(output) = first.as_mut().poll(cx) {
            return Poll::Ready(Raced::First(output));
        }
        second.as_mut().poll(cx).map(Raced::Second)
    })
    .await
}

/// The future where `condition` holds, and one that is never ready where it does not.
pub async fn when<F: Future>(condition: bool, future: F) -> F::Output {
    match condition {
        true => future.await,
        false => pending().await,
    }
}

/// Waits for the first of several futures, asked in written order, and drops the others before its branch runs:
/// `select! { pattern = future => expression, ... }`. Patterns must match whatever comes. A future that is followed by
/// `, if condition` is asked only where that holds.
#[macro_export]
macro_rules! select {
    (@future $future:expr;) => { $future };
    (@future $future:expr; $condition:expr) => { $crate::platform::when($condition, $future) };
    (@race { $($first:tt)* }) => { $crate::select!(@future $($first)*) };
    (@race { $($first:tt)* } $($rest:tt)+) => {
        $crate::platform::race(
            $crate::select!(@future $($first)*),
            $crate::select!(@race $($rest)+),
        )
    };
    (@take $raced:ident, $pattern:pat => $branch:expr) => {
        match $raced { $pattern => $branch }
    };
    (@take $raced:ident, $pattern:pat => $branch:expr, $($rest:tt)+) => {
        match $raced {
            $crate::platform::Raced::First($pattern) => $branch,
            $crate::platform::Raced::Second(raced) => $crate::select!(@take raced, $($rest)+),
        }
    };
    ($($pattern:pat = $future:expr $(, if $condition:expr)? => $branch:expr),+ $(,)?) => {{
        let raced = $crate::select!(@race $({ $future; $($condition)? })+).await;
        $crate::select!(@take raced, $($pattern => $branch),+)
    }};
}
