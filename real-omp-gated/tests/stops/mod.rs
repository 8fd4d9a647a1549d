//! Stops against real agents: the moments, the stories, and what they measure.

pub mod latency;
pub mod moment;
pub mod others;
pub mod pool;
pub mod story;
