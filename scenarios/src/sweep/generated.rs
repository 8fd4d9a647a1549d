//! What a seed of the generator makes.

use moored_sim::scenario::Scenario;

/// The scenario of a seed.
pub fn generate(seed: u64) -> Scenario {
    stand_in::generate(seed)
}

mod stand_in {
    use moored::journal::SendMode;
    use moored_sim::draws::Source;
    use moored_sim::kernel::KernelKind;
    use moored_sim::scenario::{
        Act, Action, EventKind, Fault, NamedTurn, PlannedFault, Scenario, Trigger,
    };

    pub fn generate(seed: u64) -> Scenario {
        let mut scenario = Scenario::quiet(&format!("generated-{seed}"), seed);
        let kernels = KernelKind::available();
        let pick = usize::try_from(seed % 7).unwrap_or_default();
        scenario.options.kernel = kernels.get(pick).copied().unwrap_or_default();
        scenario.options.madsim_seed = seed;
        let text = "hello".to_owned();
        scenario.actions.push(Action {
            when: Trigger::at_start(),
            act: Act::Send { session: 0, message: 1, text, mode: SendMode::AfterTurn },
        });
        if seed.is_multiple_of(2) {
            scenario.actions.push(Action {
                when: Trigger::after(EventKind::PromptRead, 1),
                act: Act::Stop { session: 0, turn: NamedTurn::None },
            });
        }
        let fault = match seed % 5 {
            0 => Fault::HostCrash { restart_ms: 500 },
            1 => Fault::AgentKilled,
            2 => Fault::StoreRefuses { commits: 2 },
            _ => return scenario,
        };
        let when = Trigger::after(EventKind::PromptRead, 1);
        scenario.faults.push(PlannedFault { when, fault });
        scenario.source = Source::seed(seed);
        scenario
    }
}
