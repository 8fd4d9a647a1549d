//! The supervisor as a process of the world: `moored`'s own pure machine, with the table's rows for eyes.

use moored::platform::{Order, ProcessIdentity, Report, Survivor};
use moored::session::ladder::LadderPolicy;
use moored::supervisor::core::{Act, Supervisor};
use tokio::sync::{mpsc, oneshot};

use super::first::{First, first, if_some};
use super::{ProcessHandle, ProcessRow};

/// What a supervisor was started for.
pub(super) struct Errand {
    pub policy: LadderPolicy,
    pub agent: oneshot::Receiver<ProcessIdentity>,
    /// Ends with the host.
    pub control: mpsc::Receiver<Order>,
    pub reports: mpsc::Sender<Report>,
}

/// The body of a supervisor. It exits with 0 once the tree is proven gone or was left on purpose, else with 1 (rule
/// 1.7.4).
pub(super) async fn run(me: ProcessHandle, mut errand: Errand) -> i32 {
    let Ok(agent) = (&mut errand.agent).await else { return 1 };
    let mut machine = Supervisor::new(errand.policy.clone());
    let mut host_there = true;
    let children = {
        let state = me.world.lock();
        state.lives.get(&me.pid()).map(|life| life.children.clone())
    };
    let Some(children) = children else { return 1 };
    let mut seen = 0;
    loop {
        while let Some(act) = machine.poll_act() {
            if let Act::Quit { proven } = act {
                return i32::from(!proven);
            }
            carry_out(&me, &agent, &errand, &mut machine, act).await;
        }
        let deadline = machine.poll_deadline();
        let news = first(
            children.wait_for(|dead| *dead != seen),
            if_some(host_there.then(|| errand.control.recv())),
            if_some(deadline.map(|at| me.world.timer(at))),
        );
        match news.await {
            First::One(dead) => {
                seen = dead;
                me.pause("process.supervisor_us", me.world.options().supervisor_us_max).await;
                let reaped = me.world.reap(me.pid());
                // By identity: a descendant may have got the number of a root that was reaped.
                for (_, exit) in reaped.iter().filter(|(dead, _)| *dead == agent) {
                    machine.handle_root_exit(me.now(), *exit);
                }
            }
            First::Two(Some(order)) => machine.handle_order(me.now(), order),
            First::Two(None) => {
                host_there = false;
                machine.handle_host_gone(me.now());
            }
            First::Three(()) => machine.handle_deadline(me.now()),
        }
    }
}

async fn carry_out(
    me: &ProcessHandle,
    agent: &ProcessIdentity,
    errand: &Errand,
    machine: &mut Supervisor,
    act: Act,
) {
    me.pause("process.supervisor_us", me.world.options().supervisor_us_max).await;
    match act {
        Act::SignalGroup(signal) => {
            let sent = me.world.signal_group(agent.pid, signal.into());
            machine.handle_signalled(signal, sent.is_ok());
        }
        Act::SignalTree(signal) => {
            for row in below(me) {
                // One that has gone meanwhile, or refuses, is seen by the next scan.
                let _ = me.world.signal(row.identity.pid, signal.into());
            }
        }
        Act::Scan => {
            let living = below(me).into_iter().filter(|row| row.identity != *agent);
            let living = living.map(|row| Survivor { pid: row.identity.pid, name: row.name });
            machine.handle_tree(me.now(), living.collect());
        }
        Act::Report(report) => {
            // A host that is gone reads no reports.
            let _ = errand.reports.send(report).await;
        }
        Act::Quit { .. } => {}
    }
}

fn below(me: &ProcessHandle) -> Vec<ProcessRow> {
    me.world.lock().table.living_below(me.pid()).into_iter().cloned().collect()
}
