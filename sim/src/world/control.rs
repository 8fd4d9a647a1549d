//! A supervised start, and the control pipe between a host and its supervisor.

use std::future::pending;
use std::sync::Arc;

use moored::platform::{
    ChildIdentity, ChildSpec, ORDERS_MAX, Order, ProcessIdentity, ProofKind, Report, Watched,
};
use moored::session::ladder::{LadderPolicy, POSIX_TERM_GRACE_MS, SUPERVISOR_ANSWER_MS};
use tokio::sync::{mpsc, oneshot};

use super::first::{First, first};
use super::process::{StartedWith, start};
use super::supervisor::{Errand, run};
use super::{Newborn, Program, ReadEnd, SUPERVISOR, SharedWorld, Sig, Tag, WriteEnd};

/// Reports that may wait on either end of the control pipe; a supervisor whose host reads none waits with the next.
pub const REPORTS_MAX: usize = 64;

/// An agent's three streams, its own ends.
pub(crate) struct AgentEnds {
    pub stdin: ReadEnd,
    pub stdout: WriteEnd,
    pub stderr: WriteEnd,
}

/// What a host holds of a started child, besides its pipe ends.
pub(crate) struct Started {
    pub identity: ChildIdentity,
    pub orders: mpsc::Sender<Order>,
    pub reports: mpsc::Receiver<Report>,
}

/// Who starts a child.
pub(crate) struct Starter {
    pub host: ProcessIdentity,
    /// Becomes true when the host crashes.
    pub crashed: Watched<bool>,
}

/// How many orders were forwarded that want an answer, and how many answers came.
#[derive(Clone, Copy, Default)]
struct Answers {
    asked: u64,
    answered: u64,
    /// The host has let go, or is gone: nobody waits for anything.
    over: bool,
}

struct ControlPipe {
    world: SharedWorld,
    supervisor: ProcessIdentity,
    policy: LadderPolicy,
    answers: Watched<Answers>,
    to_host: mpsc::Sender<Report>,
}

/// The agent's row as its starter makes it.
pub(super) fn agent_newborn(parent: u32, spec: &ChildSpec, ends: AgentEnds) -> Newborn {
    let name = spec.argv.first().map_or("", |program| program.as_str());
    let name = name.rsplit('/').next().unwrap_or_default();
    Newborn {
        token: Some(spec.token.as_str().to_owned()),
        root: true,
        stdin: Some(ends.stdin),
        stdout: Some(ends.stdout),
        stderr: Some(ends.stderr),
        ..Newborn::new(parent, name)
    }
}

/// Starts a supervisor and the agent under it. Both are there when this returns, and so is the pipe: a host that dies
/// in the next step leaves a supervisor that knows what to do.
pub(crate) fn supervised(
    world: &SharedWorld,
    starter: &Starter,
    spec: &ChildSpec,
    with: StartedWith,
    program: Program,
    ends: AgentEnds,
) -> Started {
    let (agent_sender, agent) = oneshot::channel();
    let (control, from_host) = mpsc::channel(ORDERS_MAX);
    let (report, reports) = mpsc::channel(REPORTS_MAX);
    let errand = Errand { policy: spec.ladder.clone(), agent, control: from_host, reports: report };
    let newborn = Newborn {
        subreaper: true,
        token: Some(spec.token.as_str().to_owned()),
        ..Newborn::new(starter.host.pid, SUPERVISOR)
    };
    let supervisor = start(world, newborn, Arc::default(), |me| Box::pin(run(me, errand)));
    let newborn =
        Newborn { session: Some(supervisor.pid), ..agent_newborn(supervisor.pid, spec, ends) };
    let root = start(world, newborn, Arc::new(with), |process| program(process));
    // The supervisor has not run yet: its end of the channel is there.
    let _ = agent_sender.send(root.clone());

    let (orders, from_driver) = mpsc::channel(ORDERS_MAX);
    let (to_host, to_driver) = mpsc::channel(REPORTS_MAX);
    let pipe = Arc::new(ControlPipe {
        world: Arc::clone(world),
        supervisor: supervisor.clone(),
        policy: spec.ladder.clone(),
        answers: Watched::new(Answers::default()),
        to_host,
    });
    let kernel = world.kernel();
    let crashed = starter.crashed.clone();
    kernel.spawn(
        "control pipe down",
        Box::pin(Arc::clone(&pipe).carry_orders(crashed, from_driver, control)),
    );
    kernel.spawn("control pipe up", Box::pin(pipe.carry_reports(reports)));
    Started {
        identity: ChildIdentity {
            root,
            supervisor: Some(supervisor),
            boot: world.boot(),
            proof: ProofKind::Subreaper,
        },
        orders,
        reports: to_driver,
    }
}

impl ControlPipe {
    /// Ends with either side of the pipe.
    async fn carry_orders(
        self: Arc<Self>,
        crashed: Watched<bool>,
        mut orders: mpsc::Receiver<Order>,
        to_supervisor: mpsc::Sender<Order>,
    ) {
        loop {
            let crash = crashed.wait_for(|crashed| *crashed);
            let order = match first(crash, orders.recv(), to_supervisor.closed()).await {
                First::Two(order) => order,
                First::One(_) | First::Three(()) => None,
            };
            self.late().await;
            let Some(order) = order else { break };
            self.world.note("order", format_args!("{order:?} to {}", Tag(self.supervisor.pid)));
            if let Some(witness) = self.world.witness() {
                witness.ordered(&self.supervisor, &order);
            }
            self.expect_answer(order);
            let crash = crashed.wait_for(|crashed| *crashed);
            match first(crash, to_supervisor.send(order), pending::<()>()).await {
                First::Two(Ok(())) => {}
                // A supervisor that is gone takes no orders; its loss is reported the other way.
                First::Two(Err(_)) | First::One(_) | First::Three(()) => break,
            }
        }
        self.answers.update(|answers| answers.over = true);
        self.world.note("control.ended", format_args!("{}", Tag(self.supervisor.pid)));
        // The sender goes here, and the supervisor reads the end of the pipe.
    }

    async fn carry_reports(self: Arc<Self>, mut reports: mpsc::Receiver<Report>) {
        while let Some(report) = reports.recv().await {
            self.late().await;
            self.answers.update(|answers| match report {
                Report::Signalled { .. } => answers.answered += 1,
                // A sweep under way is not begun again: its answer answers every order for one.
                Report::Swept { .. } => answers.answered = answers.asked,
                Report::Exited { .. } | Report::SupervisorLost => {}
            });
            self.report(report).await;
        }
        if !self.answers.get().over {
            self.late().await;
            self.report(Report::SupervisorLost).await;
        }
    }

    async fn report(&self, report: Report) {
        self.world.note("report", format_args!("{report:?}"));
        if let Some(witness) = self.world.witness() {
            witness.reported(&self.supervisor, &report);
        }
        // A host that is gone reads no reports.
        let _ = self.to_host.send(report).await;
    }

    async fn late(&self) {
        let kernel = self.world.kernel();
        let us = kernel.choose("process.control_us", self.world.options().control_us_max);
        kernel.sleep_us(us).await;
    }

    /// Rule 1.6.6 applies to a supervisor that does not answer in its time.
    fn expect_answer(self: &Arc<Self>, order: Order) {
        let sweep_ms =
            self.policy.term_grace_ms.max(POSIX_TERM_GRACE_MS) + self.policy.kill_wait_ms;
        let within_ms = match order {
            Order::Release => {
                self.answers.update(|answers| answers.over = true);
                return;
            }
            Order::Sweep { leave: false } => SUPERVISOR_ANSWER_MS + sweep_ms,
            Order::Signal { .. } | Order::Sweep { leave: true } => SUPERVISOR_ANSWER_MS,
        };
        let number = self.answers.update(|answers| {
            answers.asked += 1;
            answers.asked
        });
        let (pipe, kernel) = (Arc::clone(self), self.world.kernel());
        let answered = {
            let answers = self.answers.clone();
            async move {
                answers.wait_for(|a| a.over || a.answered >= number).await;
            }
        };
        let late = kernel.sleep_us(within_ms * 1_000);
        kernel.spawn(
            "supervisor answer",
            Box::pin(async move {
                if let First::Two(()) = first(answered, late, pending::<()>()).await {
                    pipe.force().await;
                }
            }),
        );
    }

    /// Rule 1.6.6: freeze the supervisor so that it cannot reap, kill the one group it started, then the supervisor. If
    /// the walk is not exact, kill nothing: the supervisor's own ladder still runs.
    async fn force(&self) {
        let (world, supervisor) = (&self.world, &self.supervisor);
        if !world.is_alive(supervisor) {
            return;
        }
        world.note("supervisor.unanswering", format_args!("{}", Tag(supervisor.pid)));
        let frozen = world.signal(supervisor.pid, Sig::Stop);
        self.late().await;
        let groups: Vec<u32> = {
            let state = world.lock();
            let leads = state.table.rows().filter(|row| {
                row.parent == supervisor.pid && row.group == row.identity.pid && row.is_alive()
            });
            leads.map(|row| row.group).collect()
        };
        let killed = match (frozen, &groups[..]) {
            (Ok(()), [group]) => world.signal_group(*group, Sig::Kill).is_ok(),
            _ => false,
        };
        self.late().await;
        if killed {
            // Its end is seen by the way of the reports, which tells the host.
            let _ = world.signal(supervisor.pid, Sig::Kill);
        } else {
            let _ = world.signal(supervisor.pid, Sig::Cont);
            self.answers.update(|answers| answers.over = true);
            self.report(Report::SupervisorLost).await;
        }
    }
}
