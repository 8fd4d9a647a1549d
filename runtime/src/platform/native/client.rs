//! The host's side of the conversation with one supervisor: orders out, reports in, and a clock on every order.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::child::{Control, SupervisorProcess};
use super::lost;
use crate::platform::{ORDERS_MAX, Order, ProcessIdentity, Report};
use crate::session::ladder::{LadderPolicy, SUPERVISOR_ANSWER_MS};
use crate::supervisor::wire::{Answer, Request, line};

/// Reports that may wait for the driver; past it the supervisor's wait in its socket.
pub(super) const REPORTS_MAX: usize = 2 * ORDERS_MAX;

/// A host that looks at a clock this much after it ran out was held up itself.
const HELD_UP_MS: u64 = 100;

/// How a conversation ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// The driver released the child, or dropped it: its supervisor knows what to do.
    LetGo,
    /// The supervisor is gone, or speaks nonsense.
    Gone,
    /// The supervisor did not take an order in time (rule 1.6.6).
    Silent,
}

/// What may happen next in a conversation.
enum Next {
    Answer(io::Result<Answer>),
    Order(Option<Order>),
    Late,
}

/// One child's client.
pub(super) struct Client {
    control: Control,
    supervisor: SupervisorProcess,
    root: ProcessIdentity,
    policy: LadderPolicy,
    orders: mpsc::Receiver<Order>,
    reports: mpsc::Sender<Report>,
    /// When each order that was not yet taken must have been, oldest first.
    untaken: VecDeque<Instant>,
    root_exited: bool,
    released: bool,
    orders_ended: bool,
}

impl Client {
    pub(super) fn new(
        control: Control,
        supervisor: SupervisorProcess,
        root: ProcessIdentity,
        policy: LadderPolicy,
        orders: mpsc::Receiver<Order>,
        reports: mpsc::Sender<Report>,
    ) -> Self {
        Self {
            control,
            supervisor,
            root,
            policy,
            orders,
            reports,
            untaken: VecDeque::new(),
            root_exited: false,
            released: false,
            orders_ended: false,
        }
    }

    /// Until the supervisor is gone and reaped.
    pub(super) async fn run(mut self) {
        let ended = self.talk().await;
        let Self { control, mut supervisor, root, policy, reports, root_exited, released, .. } =
            self;
        let root = (!root_exited).then_some(&root);
        match ended {
            Ended::LetGo => {}
            Ended::Gone if lost::is_gone(&mut supervisor).await => lost::end_orphan(root, &policy),
            Ended::Gone | Ended::Silent => {
                lost::end_frozen(&supervisor, root, &policy).await;
            }
        }
        if ended != Ended::LetGo && !released {
            let _ = reports.send(Report::SupervisorLost).await;
        }
        drop(reports);
        // To a supervisor that lives this is the host's end: it closes the child by itself, and begins here.
        drop(control);
        lost::see_off(supervisor, root, &policy).await;
    }

    async fn talk(&mut self) -> Ended {
        loop {
            let ended = match self.next().await {
                Next::Answer(Ok(answer)) => self.hear(answer).await,
                Next::Answer(Err(_)) => Some(self.hung_up()),
                Next::Order(Some(order)) => self.tell(order).await,
                // The driver's last word was the release: it is heard, or found not to be.
                Next::Order(None) if self.released => {
                    self.orders_ended = true;
                    None
                }
                Next::Order(None) => Some(Ended::LetGo),
                Next::Late => self.judge_late(),
            };
            if let Some(ended) = ended {
                return ended;
            }
        }
    }

    /// Answers before orders, and both before the clock: what is there in time is never late.
    async fn next(&mut self) -> Next {
        let late = self.untaken.front().copied();
        let mut answer = pin!(self.control.read());
        let mut order = pin!(self.orders.recv());
        let mut late = pin!(at(late));
        let ended = self.orders_ended;
        poll_fn(move |cx| {
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(Next::Answer(answer));
            }
            if !ended && let Poll::Ready(order) = order.as_mut().poll(cx) {
                return Poll::Ready(Next::Order(order));
            }
            late.as_mut().poll(cx).map(|()| Next::Late)
        })
        .await
    }

    /// A host that was itself held up, by a driver that did not read or a machine that did not run it, finds the clock
    /// run out and the answer there: then it is not late. With no answer there, whoever was held up for longer than a
    /// blink judges nobody by that clock, for what held it up may have held up the supervisor too: the clock starts again.
    fn judge_late(&mut self) -> Option<Ended> {
        let now = Instant::now();
        let held_up = Duration::from_millis(HELD_UP_MS);
        match self.control.look() {
            Ok(true) => None,
            Ok(false) if self.untaken.front().is_some_and(|until| now > *until + held_up) => {
                let until = now + Duration::from_millis(SUPERVISOR_ANSWER_MS);
                self.untaken.iter_mut().for_each(|at| *at = until);
                None
            }
            Ok(false) => Some(Ended::Silent),
            Err(_) => Some(self.hung_up()),
        }
    }

    fn hung_up(&self) -> Ended {
        if self.released { Ended::LetGo } else { Ended::Gone }
    }

    async fn hear(&mut self, answer: Answer) -> Option<Ended> {
        let report = match answer {
            Answer::Taken => {
                self.untaken.pop_front();
                return None;
            }
            Answer::Report(report) => report,
            Answer::Hello { .. } | Answer::Spawned { .. } | Answer::Refused(_) => {
                return Some(Ended::Gone);
            }
        };
        self.root_exited |= matches!(report, Report::Exited { .. });
        // A driver that no longer listens has dropped the child.
        self.reports.send(report).await.is_err().then_some(Ended::LetGo)
    }

    async fn tell(&mut self, order: Order) -> Option<Ended> {
        self.released |= order == Order::Release;
        let until = Instant::now() + Duration::from_millis(SUPERVISOR_ANSWER_MS);
        self.untaken.push_back(until);
        let message = line(&Request::Order(order));
        let written = self.control.write(&message);
        match timeout(Duration::from_millis(SUPERVISOR_ANSWER_MS), written).await {
            // One that cannot be written to is gone; what it still said is read before its end.
            Ok(_) => None,
            Err(_) => Some(Ended::Silent),
        }
    }
}

async fn at(late: Option<Instant>) {
    match late {
        Some(late) => sleep_until(late).await,
        None => std::future::pending().await,
    }
}
