//! The conformance suite of processes, in the simulated arm.

use std::collections::BTreeMap;
use std::sync::Arc;

use moored::ids::SpawnToken;
use moored::platform::{ChildSpec, ProcessIdentity, SharedPlatform};
use moored::session::ladder::LadderPolicy;
use moored_sim::conformance::{self, Arm, BODIES, Needs, Purpose};
use moored_sim::kernel::{self, KernelKind, RunOptions};
use moored_sim::{SimPlatform, World, WorldOptions};

struct Simulated(SimPlatform);

impl Arm for Simulated {
    fn platform(&self) -> SharedPlatform {
        Arc::new(self.0.clone())
    }

    fn spec(&self, purpose: Purpose) -> ChildSpec {
        ChildSpec {
            argv: vec![purpose.as_str().to_owned()],
            cwd: "/work".to_owned(),
            set_env: Vec::new(),
            drop_env: vec!["DROPPED".to_owned()],
            token: SpawnToken::from("a-token"),
            ladder: LadderPolicy::stock(self.0.world().options().profile),
        }
    }

    fn is_alive(&self, identity: &ProcessIdentity) -> bool {
        self.0.world().is_alive(identity)
    }
}

fn with_environment(options: WorldOptions) -> WorldOptions {
    let variables = [("KEPT", "kept"), ("DROPPED", "dropped")];
    let host_environment: BTreeMap<_, _> =
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    WorldOptions { host_environment, ..options }
}

/// Runs the bodies a machine can run, each in a world of its own, and checks that none leaves a process behind.
fn run_suite(run: RunOptions, options: WorldOptions) {
    for body in BODIES {
        if body.needs == Needs::Signals && options.is_win32() {
            continue;
        }
        let (run, options) = (run.clone(), with_environment(options.clone()));
        let named = format!("{} on {} from {:?}", body.name, run.kernel, run.source);
        let outcome = kernel::run(run, move |kernel| {
            Box::pin(async move {
                let world = World::new(kernel, options, conformance::programs());
                let arm = Simulated(SimPlatform::start(&world, "host"));
                (body.run)(&arm).await;
                // A released supervisor needs a moment to be gone.
                moored::platform::sleep_ms(&arm.0, 1_000).await;
                world.processes().into_iter().map(|row| row.name).collect::<Vec<_>>()
            })
        });
        let outcome = outcome.expect("the build has the kernel");
        let moored_sim::kernel::Ended::Finished(left) = outcome.ended else {
            panic!("{named}: {:?}", outcome.ended);
        };
        assert_eq!(left, ["init", "host"], "{named}");
    }
}

#[test]
fn the_world_in_which_nothing_strays_behaves_as_processes_do() {
    run_suite(RunOptions::benign(), WorldOptions::default());
}

#[test]
fn every_kernel_of_the_build_behaves_as_processes_do() {
    for kernel in KernelKind::available() {
        for seed in 0..20 {
            run_suite(RunOptions::seed(*kernel, seed), WorldOptions::default());
        }
    }
}

#[test]
fn a_win32_machine_behaves_as_far_as_it_can() {
    for kernel in KernelKind::available() {
        for seed in 0..10 {
            run_suite(RunOptions::seed(*kernel, seed), WorldOptions::win32());
        }
    }
}
