//! Faults: they strike what is there when their trigger fires, or nothing.

use std::sync::Arc;

use super::Stage;
use super::hosts::Hosts;
use crate::kernel::SharedKernel;
use crate::marks::WorldMark;
use crate::oracles::Violation;
use crate::scenario::Fault;
use crate::witness::{Seen, SharedWitness};
use crate::world::{SharedWorld, Sig};

#[derive(Clone)]
pub(super) struct Faults {
    kernel: SharedKernel,
    world: SharedWorld,
    witness: SharedWitness,
    hosts: Arc<Hosts>,
}

impl Faults {
    pub(super) fn new(stage: &Stage) -> Self {
        Self {
            kernel: Arc::clone(&stage.kernel),
            world: Arc::clone(&stage.world),
            witness: Arc::clone(&stage.witness),
            hosts: Arc::clone(&stage.hosts),
        }
    }

    /// A fault strikes now.
    pub(super) async fn strike(&self, fault: Fault) {
        let hit = |hit| self.witness.see(&Seen::Struck { fault: &fault, hit });
        match fault {
            Fault::AgentKilled => hit(self.signal_agent(Sig::Kill, WorldMark::AgentKilled)),
            Fault::AgentFrozen { ms } => {
                let frozen = self.signal_agent(Sig::Stop, WorldMark::AgentFrozen);
                hit(frozen);
                if let (true, Some(ms)) = (frozen, ms) {
                    self.kernel.sleep_us(ms * 1_000).await;
                    self.signal_agent(Sig::Cont, WorldMark::AgentFrozen);
                }
            }
            Fault::SupervisorKilled => hit(self.kill_supervisor()),
            Fault::ClockStep { ms } => {
                hit(true);
                self.world.step_wall_clock(ms);
            }
            Fault::Suspend { ms } => {
                hit(true);
                self.world.suspend(ms);
            }
            Fault::HostCrash { restart_ms } => {
                let crashed = self.hosts.count() > 0;
                hit(crashed);
                if crashed && self.hosts.crash() {
                    self.hosts.come_back(restart_ms).await;
                }
            }
            Fault::HostRestart { restart_ms } => {
                hit(self.hosts.count() > 0);
                if self.hosts.end().await == Some(true) {
                    self.witness.met_in_world(WorldMark::HostRestarted);
                }
                self.hosts.come_back(restart_ms).await;
            }
            Fault::PowerLoss { restart_ms } => {
                hit(true);
                while self.hosts.crash() {}
                self.world.lose_power();
                self.witness.met_in_world(WorldMark::PowerLost);
                self.hosts.come_back(restart_ms).await;
            }
            Fault::SecondHost { lock_lost } => self.second_host(lock_lost, hit).await,
            Fault::CrashAtCommit { stored, restart_ms } => {
                hit(true);
                self.hosts.faults.arm().crash = Some((stored, restart_ms));
            }
            Fault::StoreRefuses { commits } => {
                hit(true);
                self.hosts.faults.arm().refuses += commits;
            }
            Fault::StoreCloses => {
                hit(true);
                self.hosts.faults.arm().closes = true;
            }
            Fault::StoreStalls { ms } => {
                hit(true);
                self.hosts.faults.arm().stalls_ms = Some(ms);
            }
            Fault::StoreAnswersLate { ms } => {
                hit(true);
                self.hosts.faults.arm().answers_late_ms = Some(ms);
            }
        }
    }

    fn signal_agent(&self, sig: Sig, mark: WorldMark) -> bool {
        let newest = self
            .witness
            .know(|facts| facts.newest_living().and_then(|no| facts.children[no].root.clone()));
        let Some(root) = newest else { return false };
        self.witness.met_in_world(mark);
        self.world.strike(&root, sig);
        true
    }

    fn kill_supervisor(&self) -> bool {
        let facts = self.witness.facts();
        let supervisors = facts.children.iter().rev().filter_map(|child| child.supervisor.as_ref());
        let newest = { supervisors }.find(|supervisor| self.world.is_alive(supervisor));
        let Some(supervisor) = newest.cloned() else { return false };
        self.witness.met_in_world(WorldMark::SupervisorKilled);
        self.world.strike(&supervisor, Sig::Kill);
        true
    }

    async fn second_host(&self, lock_lost: bool, hit: impl Fn(bool)) {
        let lives = self.hosts.current().is_some();
        hit(lives);
        if !lives {
            return;
        }
        if lock_lost {
            self.hosts.disk.lose_lock();
        }
        let first = self.hosts.current().map(|current| current.no);
        let opened = self.hosts.open().await;
        if let Some(opened) = opened {
            self.witness.met_in_world(WorldMark::SecondHostOpened);
            // The first may have gone meanwhile, and left the store free.
            if !lock_lost && self.hosts.is_there(first) {
                self.witness.accuse(Violation {
                    oracle: "one-host-a-store".into(),
                    rule: "D35".into(),
                    words: format!("host {} opened a store that another host holds", opened.no),
                    at: self.kernel.now(),
                });
            }
        }
    }
}
