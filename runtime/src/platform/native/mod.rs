//! The layer on tokio and the operating system.
