//! The same conversation in a simulated world: any number of seeds, no process, no file, no flag.

use std::sync::Arc;

use embed_from_outside::converse;
use moored::driver::{Host, HostConfig};
use moored::platform::Platform;
use moored::store::memory::{MemoryDisk, MemoryStore, NoFaults};
use moored_sim::kernel::{self, KernelKind, RunOptions};
use moored_sim::{ProcessHandle, Programs, SimPlatform, World, WorldOptions};
use serde_json::{Value, json};

/// Reads lines and answers them until its stdin ends.
async fn agent(mut me: ProcessHandle) -> i32 {
    let mut input = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = std::future::poll_fn(|cx| me.poll_read(cx, &mut piece)).await.unwrap_or(0);
        if count == 0 {
            return 0;
        }
        input.extend_from_slice(&piece[..count]);
        while let Some(end) = input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = input.drain(..=end).collect();
            let frame: Value = serde_json::from_slice(&line).expect("the host writes JSON");
            for answer in answers(&frame) {
                say(&mut me, format!("{answer}\n").as_bytes()).await;
            }
        }
    }
}

fn answers(frame: &Value) -> Vec<Value> {
    let answer = |result: Value| json!({ "jsonrpc": "2.0", "id": frame["id"], "result": result });
    match frame["method"].as_str() {
        Some("initialize") => {
            vec![answer(json!({ "protocolVersion": 1, "agentCapabilities": {} }))]
        }
        Some("session/new") => vec![answer(json!({ "sessionId": "theirs" }))],
        Some("session/prompt") => {
            let text = &frame["params"]["prompt"][0]["text"];
            let content = json!({ "type": "text", "text": text });
            let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
            let params = json!({ "sessionId": "theirs", "update": update });
            vec![
                json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }),
                answer(json!({ "stopReason": "end_turn" })),
            ]
        }
        _ => vec![],
    }
}

async fn say(me: &mut ProcessHandle, mut bytes: &[u8]) {
    use moored_sim::world::Stream;
    while !bytes.is_empty() {
        let wrote = std::future::poll_fn(|cx| me.poll_write(cx, Stream::Stdout, bytes)).await;
        match wrote {
            Ok(count) => bytes = &bytes[count..],
            Err(_) => return,
        }
    }
}

/// One life of a host under a seed: what was said, and the fingerprint of everything that happened.
fn life(seed: u64) -> (String, String) {
    let outcome = kernel::run(RunOptions::seed(KernelKind::Tape, seed), |kernel| {
        Box::pin(async move {
            let programs = Programs::default().with("agent", agent);
            let world = World::new(kernel, WorldOptions::default(), programs);
            let platform = SimPlatform::start(&world, "host");
            let disk = MemoryDisk::new();
            let (store, writer) =
                MemoryStore::open(&disk, "the host", Arc::new(NoFaults)).expect("a new disk");
            platform.spawn_task("store", writer);
            let shared = Arc::new(platform.clone());
            let host = Host::open_on(shared, Arc::new(store), HostConfig::default()).await;
            let host = host.expect("a host opens");
            let (said, ended) =
                converse(&host, vec!["agent".to_owned()], "/work", "hello").await.expect("a turn");
            host.shutdown().await.expect("every agent is proven gone");
            format!("{said} {ended:?}")
        })
    });
    let outcome = outcome.expect("the tape kernel needs no flag");
    let hash = format!("{:?}", outcome.trace.hash());
    (outcome.finished(), hash)
}

#[test]
fn a_turn_ends_well_under_every_seed() {
    for seed in 0..50 {
        let (end, _) = life(seed);
        assert!(end.starts_with("hello"), "seed {seed}: {end}");
        assert!(end.contains("OnEof"), "seed {seed}: {end}");
    }
}

#[test]
fn a_seed_is_the_whole_story() {
    assert_eq!(life(7), life(7));
    let stories: std::collections::BTreeSet<_> = (0..50).map(|seed| life(seed).1).collect();
    assert!(stories.len() > 1, "seeds differ");
}
