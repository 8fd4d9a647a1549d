//! What several suites play.

use moored_sim::scenario::Fault;

/// Every kind of fault, in the sizes that matter.
pub fn faults() -> Vec<Fault> {
    vec![
        Fault::AgentKilled,
        Fault::AgentFrozen { ms: None },
        Fault::AgentFrozen { ms: Some(200) },
        Fault::AgentFrozen { ms: Some(2_000) },
        Fault::ClockStep { ms: -86_400_000 },
        Fault::HostCrash { restart_ms: 10 },
        Fault::HostCrash { restart_ms: 7_000 },
        Fault::HostRestart { restart_ms: 10 },
        Fault::CrashAtCommit { stored: true, restart_ms: 10 },
        Fault::CrashAtCommit { stored: false, restart_ms: 10 },
        Fault::PowerLoss { restart_ms: 10 },
        Fault::SecondHost { lock_lost: false },
        Fault::SecondHost { lock_lost: true },
        Fault::StoreRefuses { commits: 3 },
        Fault::StoreCloses,
        Fault::StoreStalls { ms: 900 },
        Fault::StoreAnswersLate { ms: 900 },
        Fault::SupervisorKilled,
        Fault::Suspend { ms: 7_200_000 },
    ]
}
