//! One conversation with an agent, written once: `main.rs` holds it with a real process, `tests/simulated.rs` with a
//! simulated one.

use moored::agent::AgentDefinition;
use moored::driver::{Host, WatchFrame};
use moored::host::{NewSession, Send};
use moored::ids::SessionId;
use moored::journal::{EndedAnswer, ItemBody, SendMode, TurnState};

/// Whatever ends the program with a sentence.
pub type Failure = Box<dyn std::error::Error + std::marker::Send + Sync>;

/// Sends one message and returns what the agent said and how its process ended.
pub async fn converse(
    host: &Host,
    command: Vec<String>,
    workspace: &str,
    text: &str,
) -> Result<(String, EndedAnswer), Failure> {
    let context = || host.call_context("a stranger".into());
    let session = SessionId(host.mint_id("session"));
    let new = NewSession {
        id: session.clone(),
        agent: AgentDefinition::generic(command),
        workspace: workspace.to_owned(),
    };
    host.create(new, context()).await?;
    let mut watch = host.watch(&session);
    let send = Send {
        message_id: host.mint_id("message").into(),
        text: text.to_owned(),
        mode: SendMode::AfterTurn,
    };
    host.send(&session, send, context()).await?;
    while let Some(WatchFrame::Snapshot(_) | WatchFrame::Batch(_)) = watch.next().await {
        // Every frame comes after a commit; what is read here is on the disk.
        let snapshot = host.snapshot(&session).await?;
        if let Some(fact) = snapshot.submissions.iter().find_map(|s| s.fact.as_ref()) {
            return Err(fact.sentence().into());
        }
        let bodies = || snapshot.items.iter().map(|item| &item.body);
        let ended =
            |body: &ItemBody| matches!(body, ItemBody::Turn(t) if t.state != TurnState::Running);
        if bodies().any(ended) {
            let said = bodies().filter_map(|body| match body {
                ItemBody::Message(message) => Some(message.text.as_str()),
                _ => None,
            });
            let said = said.collect();
            return Ok((said, host.close(&session, context()).await?));
        }
    }
    Err("the session ended before its turn did".into())
}
