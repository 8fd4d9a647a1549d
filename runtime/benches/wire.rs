//! The hot shape, from bytes to event, against the official types reading the same frame in the
//! same run.
#![allow(missing_docs, reason = "criterion's macros make the public items")]
use std::hint::black_box;

use agent_client_protocol_schema::v1::{JsonRpcMessage, Notification, SessionNotification};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use moored::wire::{Decoder, Event, Limits};

fn frame(text: &str) -> String {
    format!(
        concat!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"#,
            r#""0198f3a2-7c1e-7d4b-9a55-3f2e1d0c9b8a","update":{{"sessionUpdate":"#,
            r#""agent_message_chunk","content":{{"type":"text","text":"{}"}}}}}}}}"#
        ),
        text
    )
}

fn tool_frame() -> String {
    let output = "line of output\\n".repeat(250);
    format!(
        concat!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"#,
            r#""sessionUpdate":"tool_call_update","toolCallId":"call_1","status":"in_progress","#,
            r#""content":[{{"type":"content","content":{{"type":"text","text":"{}"}}}}]}}}}}}"#
        ),
        output
    )
}

fn compare(criterion: &mut Criterion, name: &str, frame: &str) {
    let line = format!("{frame}\n");
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes(line.len() as u64));
    group.bench_function("moored, bytes to event", |bencher| {
        let mut decoder = Decoder::new(Limits::default());
        bencher.iter(|| {
            decoder.push(black_box(line.as_bytes()), &mut |event: Event<'_>| {
                black_box(&event);
            });
        });
    });
    group.bench_function("moored, cut in two reads", |bencher| {
        let mut decoder = Decoder::new(Limits::default());
        let (head, tail) = line.as_bytes().split_at(line.len() / 2);
        bencher.iter(|| {
            decoder.push(black_box(head), &mut |event: Event<'_>| drop(black_box(event)));
            decoder.push(black_box(tail), &mut |event: Event<'_>| {
                black_box(&event);
            });
        });
    });
    group.bench_function("official types, serde only", |bencher| {
        bencher.iter(|| {
            let message: JsonRpcMessage<Notification<SessionNotification>> =
                serde_json::from_slice(black_box(frame.as_bytes())).expect("the frame is legal");
            black_box(message)
        });
    });
    group.finish();
}

fn wire(criterion: &mut Criterion) {
    let text = "a".repeat(215 - frame("").len());
    assert_eq!(frame(&text).len(), 215);
    compare(criterion, "text chunk of 215 bytes", &frame(&text));
    compare(criterion, "text chunk with escapes", &frame("a line\\nand \\\"another\\\" one"));
    compare(criterion, "tool update of 4 KB", &tool_frame());
}

criterion_group!(benches, wire);
criterion_main!(benches);
