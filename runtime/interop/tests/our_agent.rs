//! Our scripted agent under a client built on the official connection crate.

#![expect(clippy::disallowed_methods, reason = "real processes, and a watchdog over them")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    ContentBlock, InitializeRequest, NewSessionRequest, PromptRequest, SessionNotification,
    SessionUpdate, StopReason,
};
use agent_client_protocol::{AcpAgent, AcpAgentConfig, Client};

/// A watchdog and no assertion.
const SILENCE_MAX: Duration = Duration::from_secs(60);

#[test]
fn the_echo_persona_ends_its_turn_and_has_said_the_prompt_back() {
    let workspace = tempfile::tempdir().unwrap();
    let program = AcpAgentConfig::new(env!("CARGO_BIN_EXE_interop-fake-agent"));
    let agent = AcpAgent::new(program.args(["--persona", "echo"]));
    let said = Arc::new(Mutex::new(String::new()));
    let heard = said.clone();
    let client = Client
        .v1()
        .on_receive_notification(
            async move |update: SessionNotification, _connection| {
                if let SessionUpdate::AgentMessageChunk(chunk) = update.update
                    && let ContentBlock::Text(text) = chunk.content
                {
                    heard.lock().unwrap().push_str(&text.text);
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_with(agent, async |connection| {
            let initialize = InitializeRequest::new(ProtocolVersion::V1);
            let initialized = connection.send_request(initialize).block_task().await?;
            let new = NewSessionRequest::new(workspace.path());
            let session = connection.send_request(new).block_task().await?.session_id;
            let prompt = PromptRequest::new(session, vec![ContentBlock::from("hello there")]);
            let ended = connection.send_request(prompt).block_task().await?;
            Ok((initialized.protocol_version, ended.stop_reason))
        });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let watched = runtime.block_on(async { tokio::time::timeout(SILENCE_MAX, client).await });
    let (version, stop_reason) = watched.expect("nothing has happened for too long").unwrap();
    assert_eq!((version, stop_reason), (ProtocolVersion::V1, StopReason::EndTurn));
    assert_eq!(said.lock().unwrap().as_str(), "hello there");
}
