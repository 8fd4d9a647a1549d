//! The machine's clocks, its sleep, and its random bytes.

use moored::platform::{BoxFuture, Mono};

use super::World;

impl World {
    /// Wall time, which steps and runs on while the machine is suspended.
    pub fn wall_ms(&self) -> u64 {
        let offset_ms = self.lock().wall_offset_ms;
        let steady_ms = self.options().wall_start_ms + self.kernel.now().as_ms();
        steady_ms.saturating_add_signed(offset_ms)
    }

    /// Somebody sets the wall clock.
    pub fn step_wall_clock(&self, by_ms: i64) {
        self.lock().wall_offset_ms += by_ms;
        self.note("clock.step", format_args!("{by_ms}"));
    }

    /// The machine was suspended. Nothing in it ran and the kernel's time is the time it ran, which is what the
    /// library's monotonic clock counts (decision D7): all that shows of it is the wall clock.
    pub fn suspend(&self, for_ms: u32) {
        self.lock().wall_offset_ms += i64::from(for_ms);
        self.note("clock.suspend", format_args!("{for_ms}"));
    }

    /// A timer of a process: never early, sometimes late.
    pub(crate) fn timer(&self, at: Mono) -> BoxFuture<()> {
        let late_us = self.kernel.choose("clock.late_us", self.options().timer_late_us_max);
        self.kernel.sleep_until(Mono(at.0.saturating_add(late_us)))
    }

    /// Sixteen bytes that no earlier call gave: half drawn, half counted, so that they stay distinct when every draw
    /// is benign.
    pub(crate) fn entropy(&self) -> [u8; 16] {
        let drawn = self.kernel.choose("entropy.word", u64::MAX);
        let mut state = self.lock();
        state.entropy_blocks += 1;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&drawn.to_be_bytes());
        bytes[8..].copy_from_slice(&state.entropy_blocks.to_be_bytes());
        bytes
    }
}
