//! Streamed text on its way to the disk: one session, its machine, and SQLite, nothing acknowledged before it is durable.
#![allow(missing_docs, reason = "criterion's macros make the public items")]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock")]

#[path = "support/mod.rs"]
mod support;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use moored::platform::{BoxFuture, Moment, Mono};
use moored::session::{Effect, Ticket};
use moored::store::sqlite::SqliteStore;
use moored::store::{Refusal, Store, Unit};
use support::{Working, chunk_line};

const CHUNKS: u64 = 100_000;
/// The machine lets its driver read no further beyond this many.
const IN_FLIGHT: usize = moored::limits::APPENDS_IN_FLIGHT_MAX;

type Waiting = VecDeque<(Ticket, BoxFuture<Result<(), Refusal>>)>;

/// Streams chunks into a session whose store is `store`, until all of them are durable.
fn stream(runtime: &tokio::runtime::Runtime, store: &SqliteStore, chunks: u64) -> (Duration, u64) {
    let mut working = Working::new(|unit: Unit| {
        runtime.block_on(store.submit(unit)).expect("the start is stored");
    });
    let mut waiting = Waiting::new();
    let mut units = 0;
    let lines = [chunk_line("agent_message_chunk"), chunk_line("agent_thought_chunk")];
    let start = Instant::now();
    let mut step = |working: &mut Working, waiting: &mut Waiting, all: bool| {
        let now = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        working.now = Moment { mono: Mono::from_ms(1_000 + now), wall_ms: 1_000 + now };
        if all || working.session.poll_deadline().is_some_and(|at| at <= working.now.mono) {
            if all {
                working.now.mono = working.now.mono.plus_ms(moored::limits::TEXT_COALESCE_MS);
            }
            working.session.handle_deadline(working.now);
        }
        loop {
            while let Some(effect) = working.session.poll_effect() {
                if let Effect::Append { ticket, unit } = effect {
                    units += 1;
                    waiting.push_back((ticket, store.submit(*unit)));
                }
            }
            if waiting.is_empty() || (!all && waiting.len() < IN_FLIGHT) {
                break;
            }
            let (ticket, answer) = waiting.pop_front().expect("something waits");
            runtime.block_on(answer).expect("it is stored");
            working.session.handle_durable(working.now, ticket);
        }
    };
    for chunk in 0..chunks {
        // A new text begins before the bound of one, so that every chunk is kept.
        let line = &lines[usize::from((chunk / 10_000) % 2 == 1)];
        working.session.handle_stdout(working.now, &working.generation, line);
        step(&mut working, &mut waiting, false);
    }
    step(&mut working, &mut waiting, true);
    assert!(waiting.is_empty(), "everything is durable");
    let took = start.elapsed();
    let kept: u64 = working.session.journal().timeline().map(|(_, item)| item.text_bytes).sum();
    let text = lines[0].iter().rev().skip_while(|b| **b != b'a').take_while(|b| **b == b'a');
    assert_eq!(kept, chunks * text.count() as u64, "all text is in the durable journal");
    (took, units)
}

fn journaled(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let mut group = criterion.benchmark_group("streamed to SQLite");
    group.sample_size(10);
    group.throughput(Throughput::Elements(CHUNKS));
    group.bench_function("100 000 chunks of 215 bytes, one session", |bencher| {
        bencher.iter_custom(|times| {
            let mut spent = Duration::ZERO;
            for _ in 0..times {
                let directory = tempfile::tempdir().expect("a folder");
                let store = SqliteStore::open(&directory.path().join("state")).expect("it opens");
                let (took, units) = stream(&runtime, &store, CHUNKS);
                assert!(units > 100, "text was stored in {units} units");
                spent += took;
            }
            spent
        });
    });
    group.finish();
}

criterion_group!(benches, journaled);
criterion_main!(benches);
