//! `moored chat`: a conversation through the library's host, journaled, with whatever agent is named.
//!
//! The agent's words go to stdout; everything else (tools, questions, notes, the end) goes to stderr, so that a script
//! reads the answer and nothing but the answer.

mod agent;
mod composer;
mod conversation;
mod ending;
mod input;
mod keys;
mod live;
mod reading;
mod screen;
mod terminal;
mod wrap;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use moored::agent::AgentDefinition;
use moored::driver::{Host, HostConfig, NativeHost, OpenError};
use moored::host::NewSession;
use moored::ids::SessionId;
use moored::platform::native::SupervisorProgram;

use crate::args::Chat;
use crate::error::Verdict;
use crate::{store_dir, stored};
use conversation::{Conversation, TurnEnd};
use input::{Keyboard, Signals};
use screen::Screen;

/// Holds a conversation.
pub fn run(options: Chat) -> anyhow::Result<Verdict> {
    let store = store_dir::find(options.store.as_deref())?;
    let agent = agent::choose(&options, &store)?;
    let workspace = workspace(options.workspace.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let verdict = runtime.block_on(converse(options, store, agent, workspace));
    // A thread may be left that waits for a line of stdin: it is not waited for.
    runtime.shutdown_background();
    verdict
}

async fn converse(
    options: Chat,
    store: PathBuf,
    agent: AgentDefinition,
    workspace: String,
) -> anyhow::Result<Verdict> {
    // Before the host, so that no signal finds a host without its ear.
    let signals = Signals::listen()?;
    let supervisor = SupervisorProgram::ThisExecutable;
    let native = NativeHost { state_dir: store.clone(), supervisor, config: HostConfig::default() };
    let host = Host::open(native).await.map_err(refused)?;
    let screen = Screen::new(options.json);
    let new = NewSession { id: SessionId(host.mint_id("session")), agent, workspace };
    let mut conversation =
        Conversation::begin(&host, new, screen, Keyboard::default(), signals, &store).await?;
    let held = match options.prompt {
        Some(prompt) => hold_one(&mut conversation, prompt).await,
        None => hold_all(&mut conversation).await,
    };
    conversation.end(&store, held).await
}

/// One turn, for scripts.
async fn hold_one(conversation: &mut Conversation, prompt: String) -> anyhow::Result<Verdict> {
    let end = conversation.hold_turn(prompt).await?;
    let verdict = if end.is_success() { Verdict::Holds } else { Verdict::Failed };
    conversation.tell(&end);
    Ok(verdict)
}

/// Turns until a person closes. A turn that fails is part of a conversation, not its failure.
async fn hold_all(conversation: &mut Conversation) -> anyhow::Result<Verdict> {
    conversation.greet();
    if conversation.go_live() {
        return conversation.hold_at_terminal().await.map(|()| Verdict::Holds);
    }
    while let Some(text) = conversation.next_message().await {
        let end = conversation.hold_turn(text).await?;
        conversation.tell(&end);
        if end == TurnEnd::Left {
            break;
        }
    }
    Ok(Verdict::Holds)
}

fn refused(error: OpenError) -> anyhow::Error {
    match error {
        OpenError::Store(error) => stored::refused(error),
        error => error.into(),
    }
}

/// The folder the agent works in, as the exact string the session keeps.
fn workspace(asked: Option<&Path>) -> anyhow::Result<String> {
    let folder = std::path::absolute(asked.unwrap_or(Path::new(".")))
        .context("the current folder is gone; choose a workspace with --workspace DIR")?;
    let shown = folder.display();
    if !folder.is_dir() {
        bail!("there is no folder {shown} to work in; create it, or choose another --workspace");
    }
    match folder.to_str() {
        Some(text) => Ok(text.trim_end_matches("/.").to_owned()),
        None => bail!("the name of the folder {shown} is not UTF-8; choose another --workspace"),
    }
}
