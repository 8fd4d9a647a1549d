//! An agent built on the official connection crate: the least of one that a host can hold a whole life with.
//!
//! It says back what it is told, a word a chunk. Told `ask`, it asks for a permission first and says what was chosen;
//! told `wait`, it works until it is cancelled. It leaves at the end of its input.

use std::sync::Arc;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, ContentChunk, InitializeRequest, InitializeResponse,
    NewSessionRequest, NewSessionResponse, PermissionOption, PermissionOptionKind, PromptRequest,
    PromptResponse, RequestPermissionOutcome, RequestPermissionRequest, SessionId,
    SessionNotification, SessionUpdate, StopReason, ToolCallUpdate, ToolCallUpdateFields,
};
use agent_client_protocol::{Agent, Client, Result, Stdio};
use tokio::sync::Notify;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    Ok(runtime.block_on(serve())?)
}

async fn serve() -> Result<()> {
    let cancelled = Arc::new(Notify::new());
    let cancel = cancelled.clone();
    Agent
        .v1()
        .on_receive_request(
            async move |initialize: InitializeRequest, responder, _connection| {
                responder.respond(InitializeResponse::new(initialize.protocol_version))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |_new: NewSessionRequest, responder, _connection| {
                responder.respond(NewSessionResponse::new("official-1"))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |prompt: PromptRequest, responder, connection: ConnectionTo<Client>| {
                let turn = Turn {
                    session: prompt.session_id.clone(),
                    connection: connection.clone(),
                    cancelled: cancelled.clone(),
                };
                // Beside the dispatch loop: a turn waits for messages that come through it.
                connection.spawn(async move {
                    let stop_reason = turn.play(&text_of(&prompt)).await?;
                    responder.respond(PromptResponse::new(stop_reason))
                })
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |_cancel: CancelNotification, _connection| {
                cancel.notify_one();
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_to(Stdio::new())
        .await
}

struct Turn {
    session: SessionId,
    connection: ConnectionTo<Client>,
    cancelled: Arc<Notify>,
}

impl Turn {
    async fn play(&self, text: &str) -> Result<StopReason> {
        match text {
            "ask" => self.ask().await,
            "wait" => {
                self.say("waiting")?;
                self.cancelled.notified().await;
                Ok(StopReason::Cancelled)
            }
            text => {
                text.split_inclusive(' ').try_for_each(|word| self.say(word))?;
                Ok(StopReason::EndTurn)
            }
        }
    }

    async fn ask(&self) -> Result<StopReason> {
        let options = vec![
            PermissionOption::new("yes", "Go on", PermissionOptionKind::AllowOnce),
            PermissionOption::new("no", "Do not", PermissionOptionKind::RejectOnce),
        ];
        let fields = ToolCallUpdateFields::new().title("touch a file".to_owned());
        let call = ToolCallUpdate::new("call-1", fields);
        let request = RequestPermissionRequest::new(self.session.clone(), call, options);
        let answer = self.connection.send_request(request).block_task().await?;
        match answer.outcome {
            RequestPermissionOutcome::Selected(selected) => {
                self.say(&format!("chosen: {}", selected.option_id))?;
                Ok(StopReason::EndTurn)
            }
            _ => Ok(StopReason::Cancelled),
        }
    }

    fn say(&self, text: &str) -> Result<()> {
        let chunk = ContentChunk::new(ContentBlock::from(text.to_owned()));
        let update = SessionUpdate::AgentMessageChunk(chunk);
        self.connection.send_notification(SessionNotification::new(self.session.clone(), update))
    }
}

fn text_of(prompt: &PromptRequest) -> String {
    let text = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => text.text.clone(),
        _ => String::new(),
    };
    prompt.prompt.iter().map(text).collect()
}
