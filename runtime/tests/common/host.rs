//! A host over the little world and a disk that survives it.

use std::sync::Arc;

use moored::agent::AgentDefinition;
use moored::driver::{Host, HostConfig, Watch, WatchFrame};
use moored::host::{CallContext, NewSession, Send};
use moored::ids::{CallerId, SessionId};
use moored::journal::{ItemBody, SendMode, Snapshot, TurnBody, TurnState};
use moored::platform::Platform;
use moored::store::memory::{MemoryDisk, MemoryStore, NoFaults, StoreFaults};

use super::World;

/// A disk, and the world it is in.
#[derive(Clone, Default)]
pub struct Place {
    pub world: World,
    pub disk: MemoryDisk,
}

impl Place {
    pub async fn open(&self) -> Host {
        self.open_with(HostConfig::default(), Arc::new(NoFaults)).await
    }

    pub async fn open_with(&self, config: HostConfig, faults: Arc<dyn StoreFaults>) -> Host {
        let (store, writer) = MemoryStore::open(&self.disk, "a host", faults).expect("a free disk");
        self.world.spawn_task("store", writer);
        let platform = Arc::new(self.world.clone());
        Host::open_on(platform, Arc::new(store), config).await.expect("a host opens")
    }

    /// A host with one session, named.
    pub async fn with_session(&self, id: &str) -> (Host, SessionId) {
        let host = self.open().await;
        let session = create(&host, id, &["agent"]).await;
        (host, session)
    }
}

pub async fn create(host: &Host, id: &str, argv: &[&str]) -> SessionId {
    let command = argv.iter().map(|s| (*s).to_owned()).collect();
    let new = NewSession {
        id: id.into(),
        agent: AgentDefinition::generic(command),
        workspace: "/work".to_owned(),
    };
    host.create(new, person(host)).await.expect("a session is made");
    id.into()
}

/// A person's next operation.
pub fn person(host: &Host) -> CallContext {
    host.call_context(CallerId::from("a person"))
}

pub fn message(id: &str, text: &str) -> Send {
    Send { message_id: id.into(), text: text.to_owned(), mode: SendMode::AfterTurn }
}

/// The turns of a timeline, in order.
pub fn turns(snapshot: &Snapshot) -> Vec<TurnBody> {
    let turn = |body: &ItemBody| match body {
        ItemBody::Turn(turn) => Some(turn.clone()),
        _ => None,
    };
    snapshot.items.iter().filter_map(|item| turn(&item.body)).collect()
}

/// What the agent said, all of it.
pub fn said(snapshot: &Snapshot) -> String {
    let said = |body: &ItemBody| match body {
        ItemBody::Message(message) => Some(message.text.clone()),
        _ => None,
    };
    snapshot.items.iter().filter_map(|item| said(&item.body)).collect()
}

/// Waits until a session has `count` turns and none of them runs.
pub async fn settled(host: &Host, session: &SessionId, count: usize) -> Snapshot {
    let mut watch = host.watch(session);
    while let Some(frame) = watch.next().await {
        assert_ne!(frame, WatchFrame::End, "the session ended before its turns did");
        let snapshot = host.snapshot(session).await.expect("the session is there");
        let turns = turns(&snapshot);
        if turns.len() == count && turns.iter().all(|turn| turn.state != TurnState::Running) {
            return snapshot;
        }
    }
    unreachable!("a watch ends with its end");
}

/// Waits until the agents of a world have been given so many prompts.
pub async fn prompted(place: &Place, count: usize) {
    while place.world.seen.lock().unwrap().prompts.len() < count {
        place.world.pass_ms(10).await;
    }
}

/// Everything that is left of a watch.
pub async fn rest(watch: &mut Watch) -> Vec<WatchFrame> {
    let mut frames = Vec::new();
    while let Some(frame) = watch.next().await {
        frames.push(frame);
    }
    frames
}
