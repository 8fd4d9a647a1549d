//! The host's machine: registry, operation ledger, host start, quit. Pure.

mod api;
mod command;
mod ledger;
mod machine;
mod statuses;

pub use api::*;
pub use command::{Command, outcome_of};
pub use ledger::{
    Admission, Ledger, OPERATION_AGE_MS_MAX, OPERATION_SKEW_MS, OPERATIONS_MAX,
    OPERATIONS_PER_CALLER_MAX, Operator,
};
pub use machine::{HostEffect, HostMachine, Incoming, SessionEnd, Standing};
pub use statuses::{Statuses, SubscriptionId};
