//! The sweep: scenarios over seeds, on every core and on as many machines as there are.
//!
//! A [`SweepPlan`] says what is swept; its [`Jobs`] are a numbered list of runs, of which a [`Shard`] makes its part.
//! [`sweep()`] makes them on threads and adds them up in their order, so that the [`SweepReport`] is the same for any
//! number of threads; [`merge()`] makes one report of the parts'. A failure becomes a file by [`keep()`].

mod distinct;
mod generated;
mod junit;
mod keep;
mod merge;
mod plan;
mod report;
mod shard;
mod tally;
mod work;

pub use distinct::Distinct;
pub use generated::generate;
pub use junit::junit;
pub use keep::{FAILURES_KEPT_MAX, Kept, keep};
pub use merge::{MergeError, merge, read_report};
pub use plan::{
    CHECKED_ONE_IN, DOCUMENT_STRIDE, Extent, GENERATED, Job, Jobs, REGRESSIONS, Regression,
    SEEDS_DEFAULT, Subject, SweepPlan, generated, seeded,
};
pub use report::{
    First, HowEnded, MarkKind, MarkRow, REPORT_VERSION, SweepFailure, SweepReport, SweepRow, Swept,
};
pub use shard::{SHARDS_MAX, SHARDS_VARIABLE, Shard, ShardError};
pub use tally::{FAILURES_TOLD_MAX, ORDERS_KEPT_MAX, TRANSITIONS_KEPT_MAX};
pub use work::{
    AHEAD_MAX, DETERMINISM, Player, Progress, Simulator, UNPLAYABLE, first_divergence, sweep,
};
