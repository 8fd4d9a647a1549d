//! The win32 way: a job object instead of a supervisor. No signals, no groups, no new parents.
//!
//! The child is created suspended, put into a job without breakaway, and resumed. The keeper of the job is part of the
//! host's own process; it runs the same pure machine as a supervisor does, with the job's active processes for a tree.
//! The job ends its processes when its last handle is closed, which a host's crash does.

use std::future::pending;
use std::sync::Arc;

use moored::platform::{
    ChildIdentity, ChildSpec, Exit, ORDERS_MAX, Order, ProcessIdentity, ProofKind, Report, Signal,
    Survivor, Watched,
};
use moored::supervisor::core::{Act, Supervisor};
use tokio::sync::mpsc;

use super::control::{AgentEnds, REPORTS_MAX, Started, Starter, agent_newborn};
use super::first::{First, first, if_some};
use super::process::{StartedWith, start};
use super::{Newborn, ProcessRow, Program, SharedWorld, Sig, Tag};
use crate::witness::Seen;

/// A tree kill is given up after this (rule 1.6.4).
pub const TREE_KILL_MS_MAX: u64 = 5_000;
/// What a terminated process reads as its exit.
const TERMINATED: Exit = Exit::Code(1);

struct Keeper {
    world: SharedWorld,
    job: u32,
    root: ProcessIdentity,
    reports: mpsc::Sender<Report>,
}

/// Starts an agent in a job of its own.
pub(crate) fn in_a_job(
    world: &SharedWorld,
    starter: &Starter,
    spec: &ChildSpec,
    with: StartedWith,
    program: Program,
    ends: AgentEnds,
) -> Started {
    let job = {
        let mut state = world.lock();
        state.next_job += 1;
        state.next_job
    };
    let newborn = Newborn { job: Some(job), ..agent_newborn(starter.host.pid, spec, ends) };
    let root = start(world, newborn, Arc::new(with), |process| program(process));
    let (orders, from_driver) = mpsc::channel(ORDERS_MAX);
    let (reports, to_driver) = mpsc::channel(REPORTS_MAX);
    let keeper = Keeper { world: Arc::clone(world), job, root: root.clone(), reports };
    let machine = Supervisor::new(spec.ladder.clone());
    let crashed = starter.crashed.clone();
    world.kernel().spawn("job keeper", Box::pin(keeper.run(machine, crashed, from_driver)));
    Started {
        identity: ChildIdentity {
            root,
            supervisor: None,
            boot: world.boot(),
            proof: ProofKind::Job,
        },
        orders,
        reports: to_driver,
    }
}

impl Keeper {
    async fn run(
        self,
        mut machine: Supervisor,
        crashed: Watched<bool>,
        mut orders: mpsc::Receiver<Order>,
    ) {
        let kernel = Arc::clone(self.world.kernel());
        let exit = self.world.exit_of(&self.root);
        let (mut root_there, mut host_there) = (exit.is_some(), true);
        loop {
            while let Some(act) = machine.poll_act() {
                if let Act::Quit { .. } = act {
                    return;
                }
                self.carry_out(&mut machine, act).await;
            }
            let deadline = machine.poll_deadline();
            let news = first(
                if_some(exit.as_ref().filter(|_| root_there).map(ended)),
                if_some(host_there.then(|| orders.recv())),
                if_some(deadline.map(|at| self.world.timer(at))),
            );
            match first(crashed.wait_for(|crashed| *crashed), news, pending::<()>()).await {
                First::One(_) => {
                    // The operating system ends them with the last handle, and gives nothing up.
                    terminate(&self.world, self.job, GivesUp::Never).await;
                    return;
                }
                First::Two(First::One(exit)) => {
                    root_there = false;
                    machine.handle_root_exit(kernel.now(), exit);
                }
                First::Two(First::Two(Some(order))) => {
                    if let Some(witness) = self.world.witness() {
                        witness.ordered(&self.root, &order);
                    }
                    machine.handle_order(kernel.now(), order);
                }
                First::Two(First::Two(None)) => {
                    host_there = false;
                    machine.handle_host_gone(kernel.now());
                }
                First::Two(First::Three(())) => machine.handle_deadline(kernel.now()),
                First::Three(()) => {}
            }
        }
    }

    async fn carry_out(&self, machine: &mut Supervisor, act: Act) {
        let kernel = self.world.kernel();
        let us = kernel.choose("process.supervisor_us", self.world.options().supervisor_us_max);
        kernel.sleep_us(us).await;
        match act {
            Act::SignalGroup(Signal::Kill) => {
                let world = Arc::clone(&self.world);
                let job = self.job;
                // The call does not wait for the kill, whose result proves nothing (rule 1.6.4).
                kernel.spawn(
                    "tree kill",
                    Box::pin(async move { terminate(&world, job, GivesUp::AtItsCap).await }),
                );
                machine.handle_signalled(Signal::Kill, true);
            }
            Act::SignalGroup(Signal::Term) => machine.handle_signalled(Signal::Term, false),
            Act::SignalTree(Signal::Kill) => self.terminate().await,
            Act::SignalTree(Signal::Term) | Act::Quit { .. } => {}
            Act::Scan => {
                let active = active(&self.world, self.job).into_iter();
                let others = active.filter(|row| row.identity != self.root);
                let living = others.map(|row| Survivor { pid: row.identity.pid, name: row.name });
                machine.handle_tree(kernel.now(), living.collect());
            }
            Act::Report(report) => {
                self.world.note("report", format_args!("{report:?}"));
                if let Some(witness) = self.world.witness() {
                    witness.reported(&self.root, &report);
                }
                // A host that is gone reads no reports.
                let _ = self.reports.send(report).await;
            }
        }
    }

    async fn terminate(&self) {
        terminate(&self.world, self.job, GivesUp::AtItsCap).await;
    }
}

async fn ended(exit: &Watched<Option<Exit>>) -> Exit {
    exit.wait_for(Option::is_some).await.unwrap_or(TERMINATED)
}

/// The job's active processes.
fn active(world: &SharedWorld, job: u32) -> Vec<ProcessRow> {
    let mine = |row: &&ProcessRow| row.job == Some(job) && row.is_alive();
    world.lock().table.rows().filter(mine).cloned().collect()
}

/// Whether an end of a job can be given up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GivesUp {
    /// The keeper waits no longer.
    AtItsCap,
    /// Nobody waits for it.
    Never,
}

/// Ends every active process of the job, slowly; past the cap it may be given up, and ends nobody.
async fn terminate(world: &SharedWorld, job: u32, gives_up: GivesUp) {
    let kernel = world.kernel();
    let takes_us = kernel.choose("process.tree_kill_us", world.options().tree_kill_us_max);
    let cap_us = TREE_KILL_MS_MAX * 1_000;
    kernel.sleep_us(takes_us.min(cap_us)).await;
    let given_up = takes_us >= cap_us && gives_up == GivesUp::AtItsCap;
    world.note("job.terminate", format_args!("{job} given up {given_up}"));
    if given_up {
        return;
    }
    for row in active(world, job) {
        world.note("job.member", format_args!("{}", Tag(row.identity.pid)));
        world.see(&Seen::SignalSent { target: &row.identity, sig: Sig::Kill, fault: false });
        let us = kernel.choose("process.death_us", world.options().death_us_max);
        world.begin_death(&row.identity, TERMINATED, us);
    }
}
