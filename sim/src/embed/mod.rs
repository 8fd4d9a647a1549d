//! Simulation in an embedder's own tests: a builder for runs, with the embedder's own code in them, and
//! `#[moored_sim::test]` around it.
//!
//! ```
//! use moored_sim::embed::Simulation;
//! use moored_sim::play::Sim;
//! use moored_sim::scenario::{EventKind, Fault, Trigger};
//!
//! fn a_crash_is_told() -> Simulation {
//!     Simulation::new("a-crash-is-told")
//!         .persona("late-persister")
//!         .fault(Trigger::after(EventKind::PromptRead, 1), Fault::HostCrash { restart_ms: 100 })
//!         .drive(|sim: Sim| async move {
//!             sim.send(0, "m1", "hello").await;
//!         })
//! }
//! let run = a_crash_is_told().play_seed(7)?;
//! assert!(run.holds(), "{:?}", run.violation);
//! # Ok::<(), moored_sim::kernel::RunError>(())
//! ```

mod test;

use std::sync::Arc;

use moored::platform::BoxFuture;
use moored::session::ladder::Profile;
use moored_fake_agents::Script;

use crate::draws::Source;
use crate::generate::{Shape, generate_with};
use crate::kernel::RunError;
use crate::oracles::{self, Oracle};
use crate::play::{Callback, Hooks, Playing, Run, Sim, play_with};
use crate::scenario::{Act, Action, Fault, NamedTurn, PlannedFault, Scenario, Trigger};
use crate::world::WorldOptions;

pub use test::{SEED_VARIABLE, SEEDS_VARIABLE, Test, run_test};

type Check = Arc<dyn Fn(&Run) -> Result<(), String> + Send + Sync>;
type Oracles = Arc<dyn Fn() -> Vec<Box<dyn Oracle>> + Send + Sync>;

/// What an embedder's test plays over seeds.
#[derive(Clone)]
pub struct Simulation {
    base: Scenario,
    swarm: Option<Shape>,
    hooks: Hooks,
    checks: Vec<Check>,
    oracles: Option<Oracles>,
}

impl From<Scenario> for Simulation {
    fn from(base: Scenario) -> Self {
        Self { base, swarm: None, hooks: Hooks::default(), checks: Vec::new(), oracles: None }
    }
}

impl Simulation {
    /// A run in which nothing is done and nothing goes wrong yet; its agent echoes.
    pub fn new(name: &str) -> Self {
        Self::from(Scenario::quiet(name, 0))
    }

    /// A test's own code, over whatever the generator makes go wrong.
    pub fn driven_over_faults<F>(drive: impl Fn(Sim) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::new("driven").with_faults(Shape::default()).drive(drive)
    }

    /// The agent.
    #[must_use]
    pub fn agent(mut self, script: Script) -> Self {
        self.base.script = script;
        self
    }

    /// The agent, by the name of a ready-made script.
    ///
    /// # Panics
    ///
    /// When there is no persona of that name.
    #[must_use]
    pub fn persona(self, name: &str) -> Self {
        let script = moored_fake_agents::persona(name);
        self.agent(script.unwrap_or_else(|| panic!("there is no persona {name}")))
    }

    /// Whose windows end a child.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.base.options.world = match profile {
            Profile::Posix => WorldOptions::default(),
            Profile::Win32 => WorldOptions::win32(),
        };
        self
    }

    /// How many sessions there are.
    #[must_use]
    pub fn sessions(mut self, sessions: usize) -> Self {
        self.base.options.sessions = sessions;
        self
    }

    /// Somebody does something once a trigger fires.
    #[must_use]
    pub fn act(mut self, when: Trigger, act: Act) -> Self {
        self.base.actions.push(Action { when, act });
        self
    }

    /// A message of that number is sent to the first session.
    #[must_use]
    pub fn send(self, when: Trigger, message: u32, text: &str) -> Self {
        let mode = moored::journal::SendMode::AfterTurn;
        self.act(when, Act::Send { session: 0, message, text: text.to_owned(), mode })
    }

    /// Stop is pressed on the first session.
    #[must_use]
    pub fn stop(self, when: Trigger) -> Self {
        self.act(when, Act::Stop { session: 0, turn: NamedTurn::None })
    }

    /// Something goes wrong once a trigger fires.
    #[must_use]
    pub fn fault(mut self, when: Trigger, fault: Fault) -> Self {
        self.base.faults.push(PlannedFault { when, fault });
        self
    }

    /// Each seed adds faults, and a machine and a store that stray, as the generator makes them.
    #[must_use]
    pub fn with_faults(mut self, shape: Shape) -> Self {
        self.swarm = Some(shape);
        self
    }

    /// The embedder's own code, run once from the beginning, outside every host's process: it survives crashes, and its
    /// panic fails the run.
    #[must_use]
    pub fn drive<F>(mut self, drive: impl Fn(Sim) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.hooks.drives.push(callback(drive));
        self
    }

    /// The embedder's own code, run inside each host's process once it is open, and gone with it: what an application
    /// does around its host.
    #[must_use]
    pub fn on_host<F>(mut self, on_host: impl Fn(Sim) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.hooks.on_host.push(callback(on_host));
        self
    }

    /// Looks at every run once it is over.
    #[must_use]
    pub fn check(
        mut self,
        check: impl Fn(&Run) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.checks.push(Arc::new(check));
        self
    }

    /// Oracles of the embedder's own, beside all others.
    #[must_use]
    pub fn oracles(
        mut self,
        oracles: impl Fn() -> Vec<Box<dyn Oracle>> + Send + Sync + 'static,
    ) -> Self {
        self.oracles = Some(Arc::new(oracles));
        self
    }

    /// The value that a seed makes of it.
    pub fn scenario(&self, seed: u64) -> Scenario {
        let mut scenario = self.base.clone();
        if let Some(shape) = &self.swarm {
            let drawn = generate_with(seed, shape);
            scenario.faults.extend(drawn.faults);
            let sessions = scenario.options.sessions;
            let world = scenario.options.world.profile;
            scenario.options = drawn.options;
            scenario.options.sessions = sessions;
            scenario.options.world.profile = world;
        }
        scenario.source = Source::seed(seed);
        scenario.options.madsim_seed = seed;
        scenario
    }

    /// Plays what a seed makes of it.
    pub fn play_seed(&self, seed: u64) -> Result<Run, RunError> {
        self.play(&self.scenario(seed), false)
    }

    /// Plays a value with this simulation's own code around it.
    pub fn play(&self, scenario: &Scenario, timeline: bool) -> Result<Run, RunError> {
        let playing = Playing { timeline, hooks: self.hooks.clone(), ..Playing::default() };
        let mut all = oracles::all();
        all.extend(self.oracles.iter().flat_map(|own| own()));
        let mut run = play_with(scenario, &playing, all)?;
        for check in &self.checks {
            if run.violation.is_none()
                && let Err(words) = check(&run)
            {
                run.violation = Some(oracles::Violation {
                    oracle: crate::play::TEST_ORACLE.into(),
                    rule: "the test's own".into(),
                    words,
                    at: moored::platform::Mono::from_ms(run.virtual_ms),
                });
            }
        }
        Ok(run)
    }
}

fn callback<F>(code: impl Fn(Sim) -> F + Send + Sync + 'static) -> Callback
where
    F: Future<Output = ()> + Send + 'static,
{
    Arc::new(move |sim| -> BoxFuture<()> { Box::pin(code(sim)) })
}
