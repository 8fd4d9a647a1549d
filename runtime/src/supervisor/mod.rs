//! The supervisor: a small process of ours between the host and one agent. It is the reaper of everything the agent
//! starts, obeys the host's ladder, and runs the same ladder by itself once the host is gone.

pub mod core;
