//! The smallest host: `embed STATE_DIR PROMPT AGENT [ARGS...]` holds one turn with an agent and says how it ended.

use std::io::Write;

use moored::agent::AgentDefinition;
use moored::driver::{Host, HostConfig, NativeHost, Watch, WatchFrame};
use moored::host::{NewSession, Send};
use moored::journal::{ItemBody, SendMode, TurnState};
use moored::platform::native::SupervisorProgram;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    moored::supervisor::run_if_asked();
    let mut arguments = std::env::args().skip(1);
    let state_dir = arguments.next().ok_or("usage: embed STATE_DIR PROMPT AGENT [ARGS...]")?.into();
    let text = arguments.next().ok_or("there is no prompt")?;
    let agent = AgentDefinition::generic(arguments.collect());
    let (supervisor, config) = (SupervisorProgram::ThisExecutable, HostConfig::default());
    let native = NativeHost { state_dir, supervisor, config };
    tokio::runtime::Builder::new_current_thread().build()?.block_on(converse(native, agent, text))
}

async fn converse(native: NativeHost, agent: AgentDefinition, text: String) -> Result<(), Failure> {
    let workspace = std::path::absolute(&native.state_dir)?.display().to_string();
    let host = Host::open(native).await?;
    let caller = || host.call_context("embed".into());
    let session = moored::ids::SessionId(host.mint_id("session"));
    host.create(NewSession { id: session.clone(), agent, workspace }, caller()).await?;
    let mut watch = host.watch(&session);
    let message_id = host.mint_id("message").into();
    host.send(&session, Send { message_id, text, mode: SendMode::AfterTurn }, caller()).await?;
    print_turn(&mut watch).await?;
    println!("\n{:?}", host.close(&session, caller()).await?);
    Ok(host.shutdown().await?)
}

/// Prints what the agent says until its turn is over, or its message is refused.
async fn print_turn(watch: &mut Watch) -> Result<(), Failure> {
    let mut over = false;
    while !over && let Some(frame) = watch.next().await {
        let (items, texts, submissions) = match frame {
            WatchFrame::Snapshot(whole) => (whole.items, Vec::new(), whole.submissions),
            WatchFrame::Batch(changed) => (changed.items, changed.texts, changed.submissions),
            _ => break,
        };
        if let Some(fact) = submissions.iter().find_map(|s| s.fact.as_ref()) {
            return Err(fact.sentence().into());
        }
        for item in &items {
            if let ItemBody::Message(message) = &item.body {
                print!("{}", message.text);
            }
            over |= matches!(&item.body, ItemBody::Turn(t) if t.state != TurnState::Running);
        }
        texts.iter().for_each(|growth| print!("{}", growth.text.0));
        std::io::stdout().flush()?;
    }
    Ok(())
}
