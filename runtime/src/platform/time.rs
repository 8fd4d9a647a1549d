//! Time as the core sees it: a parameter.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Platform;

/// Monotonic time in microseconds since the platform's own start; suspended time is not counted.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Mono(pub u64);

impl Mono {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);

    /// `ms` milliseconds after the start of the clock.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000)
    }

    /// This time and `ms` milliseconds.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000)))
    }

    /// Whole milliseconds since the start of the clock.
    pub const fn as_ms(self) -> u64 {
        self.0 / 1_000
    }

    /// The time from `earlier` to this one, zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// The two readings a step of a machine is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// Decides timers and windows.
    pub mono: Mono,
    /// Displayed and stored, never decided by.
    pub wall_ms: u64,
}

/// The future did not finish in its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// Resolves after `ms` milliseconds.
pub fn sleep_ms(platform: &dyn Platform, ms: u64) -> super::BoxFuture<()> {
    platform.sleep_until(platform.now().plus_ms(ms))
}

/// The future first, then the clock: a future that is ready never reads as elapsed.
pub async fn timeout<F: Future>(
    platform: &dyn Platform,
    ms: u64,
    future: F,
) -> Result<F::Output, Elapsed> {
    let mut sleep = sleep_ms(platform, ms);
    let mut future = pin!(future);
    std::future::poll_fn(move |cx| {
        if let Poll::Ready(value) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(value));
        }
        sleep.as_mut().poll(cx).map(|()| Err(Elapsed))
    })
    .await
}
