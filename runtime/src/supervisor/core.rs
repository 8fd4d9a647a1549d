//! What a supervisor decides: pure, and the same in a real process and in the simulated world.
//!
//! While the host lives, the supervisor obeys it. Once the control pipe ends, the host is gone, and with it the host's
//! ends of the agent's pipes: the agent has its EOF, and the supervisor runs the ladder from there with the policy
//! given at the spawn (rules 1.7.3, 1.7.7), ends what is left of the tree and exits.

use crate::platform::{Exit, Mono, Order, Report, Signal, Survivor};
use crate::session::ladder::{EndedHow, Ladder, LadderPolicy, Rung};

/// How often the children are counted while they are being ended (rule 1.7.3).
pub const TREE_POLL_MS: u64 = 25;
/// Survivors that are named in a report; more are ended all the same.
pub const SURVIVORS_NAMED_MAX: usize = 64;

/// What the process around this machine must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Signal the agent's process group.
    SignalGroup(Signal),
    /// Signal every living descendant.
    SignalTree(Signal),
    /// Look which descendants live (a zombie does not) and call `handle_tree`.
    Scan,
    /// Tell the host.
    Report(Report),
    /// The work is done.
    Quit {
        /// Whether the tree is proven gone or was left on purpose (rule 1.7.4).
        proven: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Sweep {
    Idle,
    /// Counting once, for a sweep that leaves what it finds.
    Counting,
    Terminating {
        until: Mono,
    },
    Killing {
        until: Mono,
    },
}

/// One agent's supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supervisor {
    policy: LadderPolicy,
    root: Option<Exit>,
    /// The host's control pipe has ended.
    alone: bool,
    ladder: Option<Ladder>,
    sweep: Sweep,
    next_scan: Option<Mono>,
    survivors: Vec<Survivor>,
    quit: bool,
    acts: std::collections::VecDeque<Act>,
}

impl Supervisor {
    /// For an agent that has just been started.
    pub fn new(policy: LadderPolicy) -> Self {
        Self {
            policy,
            root: None,
            alone: false,
            ladder: None,
            sweep: Sweep::Idle,
            next_scan: None,
            survivors: Vec::new(),
            quit: false,
            acts: Default::default(),
        }
    }

    /// What to do next.
    pub fn poll_act(&mut self) -> Option<Act> {
        self.acts.pop_front()
    }

    /// When to call `handle_deadline`.
    pub fn poll_deadline(&self) -> Option<Mono> {
        let ladder =
            self.ladder.as_ref().filter(|_| self.root.is_none()).and_then(Ladder::deadline);
        let sweep = match self.sweep {
            Sweep::Terminating { until } | Sweep::Killing { until } => Some(until),
            Sweep::Idle | Sweep::Counting => None,
        };
        [ladder, sweep, self.next_scan].into_iter().flatten().min()
    }

    /// An order of the host's.
    pub fn handle_order(&mut self, now: Mono, order: Order) {
        match order {
            // A reaped root's group may be another's by now: only the tree is signalled after that.
            Order::Signal { signal } if self.root.is_none() => {
                self.acts.push_back(Act::SignalGroup(signal));
            }
            Order::Signal { signal } => {
                self.acts.push_back(Act::Report(Report::Signalled { signal, delivered: false }));
            }
            // Nothing is left behind by an agent that is still there; every order has its answer.
            Order::Sweep { .. } if self.root.is_none() => {
                let survivors = Vec::new();
                self.acts.push_back(Act::Report(Report::Swept { empty: false, survivors }));
            }
            Order::Sweep { leave } => self.begin_sweep(now, leave),
            // A host that gives up an agent it could not end leaves it to this process.
            Order::Release if self.root.is_none() => self.handle_host_gone(now),
            Order::Release => self.finish(true),
        }
    }

    /// A signal to the group was sent, or could not be.
    pub fn handle_signalled(&mut self, signal: Signal, delivered: bool) {
        if !self.alone {
            self.acts.push_back(Act::Report(Report::Signalled { signal, delivered }));
        }
    }

    /// This process was asked to end: the group gets its SIGTERM at once, whoever else still lives (rule 1.7.3).
    pub fn handle_termination(&mut self, now: Mono) {
        if self.quit || self.root.is_some() {
            return;
        }
        if self.ladder.as_ref().is_some_and(|l| l.ended_how() != EndedHow::OnEof) {
            return;
        }
        let at_once = LadderPolicy { eof_grace_ms: 0, ..self.policy.clone() };
        self.ladder = Some(Ladder::begin(at_once, now).0);
        self.handle_deadline(now);
    }

    /// The control pipe ended: the host is gone.
    pub fn handle_host_gone(&mut self, now: Mono) {
        if self.alone || self.quit {
            return;
        }
        self.alone = true;
        if self.root.is_some() {
            self.begin_sweep(now, self.policy.keep_background);
        } else if self.ladder.is_none() {
            // The host's end of the agent's stdin went with the host: this is the EOF.
            let (ladder, _close_stdin) = Ladder::begin(self.policy.clone(), now);
            self.ladder = Some(ladder);
        }
    }

    /// The root was reaped.
    pub fn handle_root_exit(&mut self, now: Mono, exit: Exit) {
        debug_assert!(self.root.is_none(), "a root is reaped once");
        self.root = Some(exit);
        self.ladder = None;
        if self.alone {
            self.begin_sweep(now, self.policy.keep_background);
        } else {
            self.acts.push_back(Act::Report(Report::Exited { exit }));
        }
    }

    /// The answer to [`Act::Scan`]: who lives, without the root.
    pub fn handle_tree(&mut self, now: Mono, living: Vec<Survivor>) {
        for survivor in &living {
            let has_room = self.survivors.len() < SURVIVORS_NAMED_MAX;
            // One that became another program meanwhile is still one, under its newest name.
            match self.survivors.iter_mut().find(|s| s.pid == survivor.pid) {
                Some(known) => known.name.clone_from(&survivor.name),
                None if has_room => self.survivors.push(survivor.clone()),
                None => {}
            }
        }
        match self.sweep {
            Sweep::Idle => {}
            Sweep::Counting => self.swept(living.is_empty()),
            Sweep::Terminating { .. } | Sweep::Killing { .. } if living.is_empty() => {
                self.swept(true)
            }
            Sweep::Terminating { .. } if self.next_scan.is_none() => {
                // The first count found somebody.
                self.acts.push_back(Act::SignalTree(Signal::Term));
                self.next_scan = Some(now.plus_ms(TREE_POLL_MS));
            }
            Sweep::Terminating { .. } => self.next_scan = Some(now.plus_ms(TREE_POLL_MS)),
            Sweep::Killing { .. } => {
                // Killed parents hand over children that no signal has reached yet.
                self.acts.push_back(Act::SignalTree(Signal::Kill));
                self.next_scan = Some(now.plus_ms(TREE_POLL_MS));
            }
        }
    }

    /// Time has passed.
    pub fn handle_deadline(&mut self, now: Mono) {
        if self.root.is_none()
            && let Some(rung) = self.ladder.as_mut().and_then(|l| l.handle_deadline(now))
        {
            match rung {
                Rung::Signal(signal) => self.acts.push_back(Act::SignalGroup(signal)),
                Rung::GiveUp if self.alone => self.finish(false),
                // The host lives and runs its own ladder.
                Rung::GiveUp => self.ladder = None,
                Rung::CloseStdin => {}
            }
        }
        match self.sweep {
            Sweep::Terminating { until } if now >= until => {
                self.sweep = Sweep::Killing { until: now.plus_ms(self.policy.kill_wait_ms) };
                self.acts.push_back(Act::SignalTree(Signal::Kill));
                self.next_scan = Some(now.plus_ms(TREE_POLL_MS));
            }
            Sweep::Killing { until } if now >= until => self.swept(false),
            _ => {}
        }
        if self.next_scan.is_some_and(|at| now >= at) {
            // Asked again by the answer.
            self.next_scan = Some(now.plus_ms(TREE_POLL_MS));
            self.acts.push_back(Act::Scan);
        }
    }

    /// Whether [`Act::Quit`] was given.
    pub fn is_done(&self) -> bool {
        self.quit
    }

    fn begin_sweep(&mut self, now: Mono, leave: bool) {
        if self.root.is_none() || self.sweep != Sweep::Idle {
            return;
        }
        self.survivors.clear();
        self.next_scan = None;
        self.sweep = if leave {
            Sweep::Counting
        } else {
            // Decision D21: the stock TERM window, whatever the profile.
            let window_ms =
                self.policy.term_grace_ms.max(crate::session::ladder::POSIX_TERM_GRACE_MS);
            Sweep::Terminating { until: now.plus_ms(window_ms) }
        };
        self.acts.push_back(Act::Scan);
    }

    fn swept(&mut self, empty: bool) {
        let left = self.sweep == Sweep::Counting;
        self.sweep = Sweep::Idle;
        self.next_scan = None;
        let survivors = std::mem::take(&mut self.survivors);
        if self.alone {
            self.finish(empty || left);
        } else {
            self.acts.push_back(Act::Report(Report::Swept { empty, survivors }));
        }
    }

    fn finish(&mut self, proven: bool) {
        if !self.quit {
            self.quit = true;
            self.acts.push_back(Act::Quit { proven });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::ladder::Profile;

    fn supervisor() -> Supervisor {
        Supervisor::new(LadderPolicy::stock(Profile::Posix))
    }

    fn acts(s: &mut Supervisor) -> Vec<Act> {
        std::iter::from_fn(|| s.poll_act()).collect()
    }

    fn survivor(pid: u32) -> Survivor {
        Survivor { pid, name: "sleep".to_owned() }
    }

    #[test]
    fn when_the_host_dies_the_agent_gets_its_eof_window_then_term_then_kill() {
        let mut s = supervisor();
        s.handle_host_gone(Mono::ZERO);
        assert_eq!(acts(&mut s), [], "the host's death was the EOF");
        assert_eq!(s.poll_deadline(), Some(Mono::from_ms(1_000)));
        s.handle_deadline(Mono::from_ms(1_000));
        assert_eq!(acts(&mut s), [Act::SignalGroup(Signal::Term)]);
        s.handle_deadline(Mono::from_ms(4_000));
        assert_eq!(acts(&mut s), [Act::SignalGroup(Signal::Kill)]);
        s.handle_root_exit(Mono::from_ms(4_010), Exit::Signal(9));
        assert_eq!(acts(&mut s), [Act::Scan]);
        s.handle_tree(Mono::from_ms(4_010), vec![]);
        assert_eq!(acts(&mut s), [Act::Quit { proven: true }]);
    }

    #[test]
    fn a_sweep_terms_then_kills_what_the_agent_left_and_names_it() {
        let mut s = supervisor();
        s.handle_root_exit(Mono::ZERO, Exit::Code(0));
        assert_eq!(acts(&mut s), [Act::Report(Report::Exited { exit: Exit::Code(0) })]);
        s.handle_order(Mono::ZERO, Order::Sweep { leave: false });
        assert_eq!(acts(&mut s), [Act::Scan]);
        s.handle_tree(Mono::ZERO, vec![survivor(7)]);
        assert_eq!(acts(&mut s), [Act::SignalTree(Signal::Term)]);
        s.handle_deadline(Mono::from_ms(3_000));
        assert_eq!(acts(&mut s), [Act::SignalTree(Signal::Kill)]);
        s.handle_deadline(Mono::from_ms(3_025));
        assert_eq!(acts(&mut s), [Act::Scan]);
        s.handle_tree(Mono::from_ms(3_025), vec![]);
        let swept = Report::Swept { empty: true, survivors: vec![survivor(7)] };
        assert_eq!(acts(&mut s), [Act::Report(swept)]);
        s.handle_order(Mono::from_ms(3_030), Order::Release);
        assert_eq!(acts(&mut s), [Act::Quit { proven: true }]);
    }

    #[test]
    fn what_resists_the_kill_is_reported_as_not_empty_and_can_be_swept_again() {
        let mut s = supervisor();
        s.handle_root_exit(Mono::ZERO, Exit::Code(0));
        s.handle_order(Mono::ZERO, Order::Sweep { leave: false });
        s.handle_tree(Mono::ZERO, vec![survivor(7)]);
        s.handle_deadline(Mono::from_ms(3_000));
        acts(&mut s);
        s.handle_deadline(Mono::from_ms(4_500));
        let swept = Report::Swept { empty: false, survivors: vec![survivor(7)] };
        assert_eq!(acts(&mut s), [Act::Report(swept)]);
        s.handle_order(Mono::from_ms(5_000), Order::Sweep { leave: false });
        assert_eq!(acts(&mut s), [Act::Scan]);
    }

    #[test]
    fn a_survivor_that_becomes_another_program_is_named_once() {
        let mut s = supervisor();
        s.handle_root_exit(Mono::ZERO, Exit::Code(0));
        s.handle_order(Mono::ZERO, Order::Sweep { leave: false });
        s.handle_tree(Mono::ZERO, vec![Survivor { pid: 7, name: "sh".to_owned() }]);
        s.handle_tree(Mono::ZERO, vec![Survivor { pid: 7, name: "sleep".to_owned() }]);
        acts(&mut s);
        s.handle_tree(Mono::ZERO, vec![]);
        let survivors = vec![Survivor { pid: 7, name: "sleep".to_owned() }];
        assert_eq!(acts(&mut s), [Act::Report(Report::Swept { empty: true, survivors })]);
    }

    #[test]
    fn keeping_the_background_counts_and_ends_nobody() {
        let mut s = supervisor();
        s.handle_root_exit(Mono::ZERO, Exit::Code(0));
        acts(&mut s);
        s.handle_order(Mono::ZERO, Order::Sweep { leave: true });
        assert_eq!(acts(&mut s), [Act::Scan]);
        s.handle_tree(Mono::ZERO, vec![survivor(9)]);
        let swept = Report::Swept { empty: false, survivors: vec![survivor(9)] };
        assert_eq!(acts(&mut s), [Act::Report(swept)]);
    }

    #[test]
    fn a_sweep_while_the_agent_lives_is_answered_and_ends_nobody() {
        let mut s = supervisor();
        s.handle_order(Mono::ZERO, Order::Sweep { leave: false });
        let told = Report::Swept { empty: false, survivors: vec![] };
        assert_eq!(acts(&mut s), [Act::Report(told)]);
    }

    #[test]
    fn a_living_agent_is_never_released_into_the_open() {
        let mut s = supervisor();
        s.handle_order(Mono::ZERO, Order::Release);
        assert_eq!(acts(&mut s), []);
        s.handle_deadline(Mono::from_ms(1_000));
        assert_eq!(acts(&mut s), [Act::SignalGroup(Signal::Term)]);
        s.handle_deadline(Mono::from_ms(4_000));
        assert_eq!(acts(&mut s), [Act::SignalGroup(Signal::Kill)]);
        s.handle_deadline(Mono::from_ms(5_500));
        assert_eq!(acts(&mut s), [Act::Quit { proven: false }]);
    }

    #[test]
    fn a_supervisor_asked_to_end_terms_the_group_at_once_and_goes_on_obeying_its_host() {
        let mut s = supervisor();
        s.handle_termination(Mono::ZERO);
        assert_eq!(acts(&mut s), [Act::SignalGroup(Signal::Term)]);
        s.handle_termination(Mono::from_ms(10));
        s.handle_host_gone(Mono::from_ms(20));
        assert_eq!(acts(&mut s), [], "the ladder that runs is neither restarted nor set back");
        s.handle_deadline(Mono::from_ms(3_000));
        assert_eq!(acts(&mut s), [Act::SignalGroup(Signal::Kill)]);

        let mut s = supervisor();
        s.handle_termination(Mono::ZERO);
        s.handle_deadline(Mono::from_ms(3_000));
        s.handle_deadline(Mono::from_ms(4_500));
        acts(&mut s);
        assert!(!s.is_done(), "the host lives, so this process stays for it");
        s.handle_root_exit(Mono::from_ms(4_600), Exit::Signal(9));
        assert_eq!(acts(&mut s), [Act::Report(Report::Exited { exit: Exit::Signal(9) })]);
    }

    #[test]
    fn a_reaped_root_is_never_signalled() {
        let mut s = supervisor();
        s.handle_root_exit(Mono::ZERO, Exit::Code(0));
        acts(&mut s);
        s.handle_order(Mono::ZERO, Order::Signal { signal: Signal::Kill });
        let told = Report::Signalled { signal: Signal::Kill, delivered: false };
        assert_eq!(acts(&mut s), [Act::Report(told)]);
    }

    #[test]
    fn the_names_in_a_report_are_bounded() {
        let mut s = supervisor();
        s.handle_root_exit(Mono::ZERO, Exit::Code(0));
        acts(&mut s);
        s.handle_order(Mono::ZERO, Order::Sweep { leave: true });
        acts(&mut s);
        s.handle_tree(Mono::ZERO, (1..=100).map(survivor).collect());
        let Some(Act::Report(Report::Swept { survivors, .. })) = s.poll_act() else {
            panic!("a sweep is answered");
        };
        assert_eq!(survivors.len(), SURVIVORS_NAMED_MAX);
    }
}
