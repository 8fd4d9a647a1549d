//! Whole lifecycles a CPU second, under simulation: `cargo bench -p moored-scenarios --bench lifecycle`.
//!
//! CPU seconds, not wall time: the machines that run this are shared. The first column is the figure; the ratio between
//! kernels of one run holds where absolute rates do not.
#![expect(clippy::print_stdout, reason = "the figures are what a bench prints")]

use moored_scenarios::{Document, SimulatedRun, play_simulated};
use moored_sim::KernelKind;
use moored_sim::kernel::run_thread;
use rustix::time::{ClockId, clock_gettime};

/// As the command has it: a run is mostly small allocations that live for one step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: u64 = 400;

fn main() {
    // As a sweep makes them: many on one thread.
    let measured = run_thread().spawn(measure).map(std::thread::JoinHandle::join);
    assert!(matches!(measured, Ok(Ok(()))), "the bench has its thread, and ends");
}

fn measure() {
    let document = Document::parse(include_str!("lifecycle.json"), "lifecycle.json")
        .unwrap_or_else(|error| panic!("{error}"));
    println!(
        "{:<16} {:>16} {:>18} {:>22}",
        "kernel", "lifecycles/CPU s", "CPU us/lifecycle", "simulated s/CPU s"
    );
    for kernel in KernelKind::available() {
        let began = cpu_us();
        let mut virtual_ms = 0;
        for seed in 0..RUNS {
            let run = SimulatedRun {
                seed: Some(seed),
                kernel: *kernel,
                in_place: true,
                ..SimulatedRun::default()
            };
            let played = play_simulated(&document, &run).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(played.failures, Vec::<String>::new(), "seed {seed}");
            virtual_ms += played.took_ms;
        }
        let us = (cpu_us() - began) as f64;
        let rate = RUNS as f64 / us * 1e6;
        let simulated = virtual_ms as f64 / 1e3 / us * 1e6;
        println!(
            "{:<16} {rate:>16.0} {:>18.0} {simulated:>22.0}",
            kernel.to_string(),
            us / RUNS as f64
        );
    }
}

fn cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000
}
