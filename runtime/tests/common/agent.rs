//! An agent that does what its prompts say: `say WORDS`, `flood N`, `hold` (until cancelled).

use moored::platform::{BoxFuture, Platform, Reader, Writer, sleep_ms};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::World;

/// What all agents of a world saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub starts: usize,
    pub prompts: Vec<String>,
    pub cancels: usize,
    pub signals: Vec<i32>,
    pub exits: usize,
}

struct Agent {
    world: World,
    stdout: Writer,
    held: Option<Value>,
    /// How long it takes to leave once its stdin has ended.
    leaves_after_ms: u64,
}

/// One agent's life, from its arguments on.
pub fn live(
    world: World,
    argv: Vec<String>,
    stdin: Reader,
    stdout: Writer,
    mut stderr: Writer,
) -> BoxFuture<i32> {
    Box::pin(async move {
        world.seen.lock().unwrap().starts += 1;
        let leaves_after_ms = argv.get(1).and_then(|ms| ms.parse().ok()).unwrap_or(0);
        let _ = stderr.write_all(b"an agent complains\n").await;
        let mut agent = Agent { world: world.clone(), stdout, held: None, leaves_after_ms };
        let mut lines = BufReader::new(stdin).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let frame: Value = serde_json::from_str(&line).expect("the host writes JSON");
            agent.handle(frame).await;
        }
        sleep_ms(&world as &dyn Platform, agent.leaves_after_ms).await;
        world.seen.lock().unwrap().exits += 1;
        0
    })
}

impl Agent {
    async fn handle(&mut self, frame: Value) {
        let id = frame["id"].clone();
        match frame["method"].as_str() {
            Some("initialize") => {
                let result = json!({
                    "protocolVersion": 1,
                    "agentCapabilities": { "loadSession": true },
                    "agentInfo": { "name": "agent", "version": "1.0.0" },
                });
                self.answer(id, result).await;
            }
            Some("session/new") => self.answer(id, json!({ "sessionId": "theirs" })).await,
            Some("session/prompt") => self.prompt(id, &frame).await,
            Some("session/cancel") => {
                self.world.seen.lock().unwrap().cancels += 1;
                if let Some(held) = self.held.take() {
                    self.answer(held, json!({ "stopReason": "cancelled" })).await;
                }
            }
            Some(_) if !id.is_null() => self.answer(id, json!({})).await,
            _ => {}
        }
    }

    async fn prompt(&mut self, id: Value, frame: &Value) {
        let text = frame["params"]["prompt"][0]["text"].as_str().unwrap_or_default().to_owned();
        self.world.seen.lock().unwrap().prompts.push(text.clone());
        match text.split_once(' ') {
            Some(("say", words)) => self.say(words).await,
            Some(("flood", count)) => {
                for n in 0..count.parse().expect("a number of chunks") {
                    self.say(&format!("{n} ")).await;
                    // Longer than text is held together for one row.
                    sleep_ms(&self.world as &dyn Platform, 20).await;
                }
            }
            _ => {
                self.held = Some(id);
                return;
            }
        }
        self.answer(id, json!({ "stopReason": "end_turn" })).await;
    }

    async fn say(&mut self, words: &str) {
        let update = json!({
            "sessionUpdate": "agent_message_chunk",
            "content": { "type": "text", "text": words },
        });
        let params = json!({ "sessionId": "theirs", "update": update });
        self.write(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })).await;
    }

    async fn answer(&mut self, id: Value, result: Value) {
        self.write(json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
    }

    async fn write(&mut self, frame: Value) {
        let line = format!("{frame}\n");
        let _ = self.stdout.write_all(line.as_bytes()).await;
    }
}
