//! A whole session: what one chunk costs from its bytes to the feed, what a long journal costs, and what an idle one
//! holds. Ratios are against a reference measured in the same run.
#![allow(missing_docs, reason = "criterion's macros make the public items")]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock")]

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use moored::ids::{EpochId, ItemKey};
use moored::journal::{
    Fold, ItemBody, ItemRow, MessageBody, Role, Row, RowKind, StreamedText, Touched,
};
use moored::platform::{Moment, Mono};
use moored::session::{Effect, Policy, Session};
use moored::store::StoredRows;
use moored::wire::{Decoder, Event, Limits};
use support::{Working, chunk_line, operation, record};

/// One chunk through everything but the disk. The text starts anew before its bound, so that every chunk is kept.
fn chunk(criterion: &mut Criterion) {
    let line = chunk_line("agent_message_chunk");
    let mut group = criterion.benchmark_group("text chunk of 215 bytes");
    group.throughput(Throughput::Elements(1));
    group.bench_function("reference: bytes to event", |bencher| {
        let mut decoder = Decoder::new(Limits::default());
        bencher.iter(|| {
            decoder.push(black_box(&line), &mut |event: Event<'_>| {
                black_box(&event);
            });
        });
    });
    group.bench_function("whole session", |bencher| {
        bencher.iter_custom(|chunks| {
            let mut spent = Duration::ZERO;
            let mut left = chunks;
            while left > 0 {
                let mut working = Working::new(drop);
                let now = left.min(50_000);
                let start = Instant::now();
                for _ in 0..now {
                    working.session.handle_stdout(
                        working.now,
                        &working.generation,
                        black_box(&line),
                    );
                    working.settle();
                }
                spent += start.elapsed();
                assert!(working.commits > now / 400, "chunks were committed");
                left -= now;
            }
            spent
        });
    });
    group.finish();
}

/// A journal of `rows` rows: messages of ten rows each.
fn journal(rows: u64) -> Vec<Row> {
    let epoch = EpochId::from("e1");
    (1..=rows)
        .map(|seq| {
            let item = ItemKey(format!("text:1:{}", seq / 10));
            let text = "some words of an answer ".repeat(8);
            let kind = if seq % 10 == 0 || seq == 1 {
                let body = MessageBody { role: Role::Agent, text, cut: None, late: false };
                RowKind::Item(ItemRow {
                    item,
                    revision: 1,
                    scope: None,
                    body: ItemBody::Message(body),
                })
            } else {
                let (revision, at) = (seq % 10 + 1, (seq % 10) * text.len() as u64);
                RowKind::Text { item, revision, at, text: StreamedText(text), cut: None }
            };
            let fence = moored::ids::Fence(1);
            Row { v: 1, epoch: epoch.clone(), seq, fence, at_ms: seq, recovered: false, kind }
        })
        .collect()
}

fn restored(rows: Vec<Row>) -> Session {
    let now = Moment { mono: Mono::from_ms(1_000), wall_ms: 1_000 };
    let stored = StoredRows { epoch: Some(EpochId::from("e1")), rows, fault: None };
    Session::restore(Policy::default(), record(), stored, now)
}

fn long_journals(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a summary");
    for rows in [100, 100_000] {
        let session = restored(journal(rows));
        group.bench_function(format!("of {rows} rows"), |bencher| {
            bencher.iter(|| black_box(session.summary()));
        });
    }
    group.finish();

    let mut group = criterion.benchmark_group("100 000 rows");
    group.sample_size(10);
    let rows = journal(100_000);
    let texts: Vec<String> = rows.iter().map(Row::to_text).collect();
    group.bench_function("reference: serde_json to a Value", |bencher| {
        bencher.iter(|| {
            for text in &texts {
                let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
                black_box(value);
            }
        });
    });
    group.bench_function("read", |bencher| {
        bencher.iter(|| {
            for text in &texts {
                black_box(Row::parse(text).expect("a row"));
            }
        });
    });
    group.bench_function("fold", |bencher| {
        bencher.iter(|| {
            let mut fold = Fold::new();
            for row in &rows {
                fold.apply(row, &mut Touched::unheard());
            }
            fold
        });
    });
    group.bench_function("restore a session", |bencher| {
        bencher.iter_batched(|| rows.clone(), restored, BatchSize::PerIteration);
    });
    group.bench_function("read and restore", |bencher| {
        bencher
            .iter(|| restored(texts.iter().map(|text| Row::parse(text).expect("a row")).collect()));
    });
    let session = restored(rows);
    group.bench_function("newest 40 items", |bencher| {
        bencher.iter(|| {
            for (key, item) in session.journal().timeline().rev().take(40) {
                black_box((key.clone(), item.clone()));
            }
        });
    });
    group.bench_function("whole snapshot", |bencher| bencher.iter(|| session.snapshot()));
    group.finish();
}

fn idle(_: &mut Criterion) {
    let mut kept = None;
    let counted = allocation_counter::measure(|| {
        let now = Moment { mono: Mono::from_ms(1_000), wall_ms: 1_000 };
        let mut session = Session::create(Policy::default(), record(), operation(0), now);
        while let Some(effect) = session.poll_effect() {
            if let Effect::Append { ticket, .. } = effect {
                session.handle_durable(now, ticket);
            }
        }
        kept = Some(session);
    });
    let inline = u64::try_from(size_of::<Session>()).unwrap_or(u64::MAX);
    let bytes = u64::try_from(counted.bytes_current).unwrap_or(0) + inline;
    println!("an idle session without a child: {bytes} bytes (target: at most 16384)");
    drop(kept);
}

criterion_group!(benches, idle, chunk, long_journals);
criterion_main!(benches);
