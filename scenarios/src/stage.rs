//! The stage: plays a document through the library's `Host`, on whatever platform and store it is given.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use moored::coverage::CoverageMarks;
use moored::driver::{Host, HostConfig, OpenError, WatchFrame};
use moored::host::{NewSession, Send, Stop};
use moored::ids::{CallerId, MessageId, OperationId, SessionId, TurnKey};
use moored::journal::{Batch, ChildRow, Row, RowKind, Snapshot};
use moored::platform::{ChildIdentity, SharedPlatform, Task, Watched, sleep_ms, spawn, timeout};
use moored::session::Policy;
use moored::status::{ChildPhase, Status, StatusFrame};
use moored::store::{SharedStore, StoreError};

use crate::canonical::canonical;
use crate::document::{Act, Action, Document, Fault, Trigger};
use crate::expect;
use crate::faults::Faults;
use crate::tap::{TappedPlatform, Wire};
use crate::view::{View, agent_text, all_text, has_happened, is_at_rest, oldest_permission};

/// The one session of a scenario.
pub(crate) const SESSION: &str = "s1";
/// How long any trigger is waited for.
const TRIGGER_MS_MAX: u64 = 60_000;

/// What a run left.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Played {
    /// What a simulated and a native run agree on.
    pub canonical: String,
    /// The stored journal.
    pub rows: Vec<Row>,
    /// Methods the host wrote, in order; replies are `reply`.
    pub wire: Vec<String>,
    /// Frames the host wrote, in order.
    pub frames: Vec<String>,
    /// Entries of the agent's session files, a word or two each.
    pub saved: Vec<String>,
    /// The session's statuses, in order.
    pub statuses: Vec<Status>,
    /// Where the child stood, in order.
    pub phases: Vec<ChildPhase>,
    /// The statuses with what reads Stopping told apart, in order.
    pub edges: Vec<String>,
    /// The wordings of Stop notes, in order.
    pub notes: Vec<String>,
    /// Published names of what was refused, in order.
    pub refused: Vec<String>,
    /// Whether each Stop stopped something, in the order of the answers.
    pub stops: Vec<bool>,
    /// How many ends of a host could not prove the agent's.
    pub unproven: usize,
    /// What a client was fed, in the order it came.
    pub feed: Vec<Fed>,
    /// How many children were asked for.
    pub starts: u64,
    /// What does not hold: empty when everything does.
    pub failures: Vec<String>,
    /// Milliseconds the run took on its own clock.
    pub took_ms: u64,
    /// The library's rare branches that were met.
    pub met: CoverageMarks,
    /// The trace's hash, of a simulated run.
    pub trace_hash: Option<u64>,
    /// The hash of the order of events alone, of a simulated run.
    pub order_hash: Option<u64>,
    /// Lines of the trace, where they were asked for.
    pub trace: Vec<String>,
}

/// Something that a client was fed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fed {
    /// What one commit changed.
    Batch(Box<Batch>),
    /// The whole timeline.
    Snapshot(Box<Snapshot>),
    /// A frame of the status stream.
    Status(StatusFrame),
}

/// Everything that was fed, over all hosts of a run.
type Feed = Arc<Mutex<Vec<Fed>>>;

/// Why a document cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// The simulation cannot be run.
    #[error("{0}")]
    Run(#[from] moored_sim::kernel::RunError),
    /// The host does not open.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// The store does not open.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The operating system refuses.
    #[error("the scenario cannot be set up ({0})")]
    Setup(String),
    /// The document cannot be played in this way.
    #[error("{0}")]
    Unplayable(String),
}

/// Reads the session files of an agent.
pub(crate) type SavedFiles = Box<dyn Fn() -> Vec<String> + std::marker::Send + Sync>;

fn saved(files: &(dyn Fn() -> Vec<String> + std::marker::Send + Sync)) -> Vec<String> {
    files().iter().flat_map(|file| expect::entries(file)).collect()
}

/// Does to the processes of a child what is not the host's doing; tells why it cannot be done.
pub(crate) type Strike =
    Box<dyn Fn(&ChildIdentity, Fault) -> Result<(), String> + std::marker::Send + Sync>;

/// Hears what a person does.
pub(crate) type Tell = Box<dyn Fn(&Act) + std::marker::Send + Sync>;

/// Where a document is played.
pub(crate) struct Stage {
    pub(crate) document: Document,
    pub(crate) platform: SharedPlatform,
    pub(crate) store: SharedStore,
    /// Program and arguments of the agent.
    pub(crate) command: Vec<String>,
    pub(crate) workspace: String,
    /// The agent's home.
    pub(crate) home: String,
    /// The agent's session files as they are now, in the order of their names.
    pub(crate) saved: SavedFiles,
    /// What is wrong with the machine.
    pub(crate) faults: Arc<Faults>,
    /// Somebody does this to a child's processes.
    pub(crate) strike: Strike,
    /// Told of each press and close as it is made.
    pub(crate) tell: Tell,
}

/// What a call is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answered {
    Done,
    /// A message waits under this id.
    Sent(MessageId),
    /// Whether a Stop stopped something.
    Stopped(bool),
}

type Answer = Task<Result<Answered, String>>;

struct Open {
    host: Host,
    feed: Feed,
    view: Watched<View>,
    feeds: [Task<()>; 2],
}

struct Play {
    stage: Stage,
    tapped: SharedPlatform,
    wire: Arc<Wire>,
    config: HostConfig,
    feed: Feed,
    refused: Vec<String>,
    stops: Vec<bool>,
    failures: Vec<String>,
    answers: Vec<Answer>,
    /// Ends of a host that could not prove the agent's.
    unproven: usize,
    /// The operations of presses that have a name.
    operations: BTreeMap<String, OperationId>,
}

/// Plays the document to its end.
pub(crate) async fn play(stage: Stage) -> Result<Played, PlayError> {
    let counts = |a: &Action| matches!(a.when, Some(Trigger::Updates(_)));
    let wire = Arc::new(Wire::new(stage.document.actions.iter().any(counts)));
    let refuses = |a: &Action| a.act == Act::Fault { fault: Fault::SignalsRefused };
    let meddled = stage.document.actions.iter().any(refuses).then(|| Arc::clone(&stage.faults));
    let platform = Arc::clone(&stage.platform);
    let tapped: SharedPlatform =
        Arc::new(TappedPlatform::new(platform, Arc::clone(&wire), meddled));
    let mut policy = Policy::stock(stage.document.profile);
    policy.ladder.keep_background = stage.document.keep_background;
    let config = HostConfig { policy, check_invariants: true, ..HostConfig::default() };
    let began = stage.platform.now();
    let play = Play {
        stage,
        tapped,
        wire,
        config,
        feed: Feed::default(),
        refused: Vec::new(),
        stops: Vec::new(),
        failures: Vec::new(),
        answers: Vec::new(),
        unproven: 0,
        operations: BTreeMap::new(),
    };
    play.run(began).await
}

impl Play {
    async fn run(mut self, began: moored::platform::Mono) -> Result<Played, PlayError> {
        let mut open = self.open().await?;
        self.create(&open.host).await?;
        open.watch(self.stage.platform.as_ref());
        for (index, action) in self.stage.document.actions.clone().into_iter().enumerate() {
            if !self.wait(&open, index, action.when.as_ref()).await {
                break;
            }
            if action.act == Act::Reopen {
                self.shut(&open).await;
                open = self.open().await?;
                open.watch(self.stage.platform.as_ref());
                continue;
            }
            match action.act {
                Act::Fault { fault } => self.strike(fault).await?,
                _ => self.act(&open, &action).await,
            }
        }
        for answer in std::mem::take(&mut self.answers) {
            self.take_answer(&open, answer).await;
        }
        if self.failures.is_empty() {
            self.until(&open, "the session's rest", is_at_rest).await;
        }
        self.shut(&open).await;
        let view = open.view.get();
        self.finish(began, view).await
    }

    async fn finish(self, began: moored::platform::Mono, view: View) -> Result<Played, PlayError> {
        let stored = self.stage.store.rows(SessionId::from(SESSION)).await?;
        let mut played = Played {
            canonical: canonical(&stored.rows),
            rows: stored.rows,
            wire: self.wire.methods(),
            frames: self.wire.written(),
            saved: saved(self.stage.saved.as_ref()),
            statuses: view.statuses,
            phases: view.phases,
            edges: view.edges,
            notes: view.notes,
            unproven: self.unproven,
            refused: self.refused,
            stops: self.stops,
            feed: fed(&self.feed).clone(),
            starts: self.wire.starts(),
            failures: self.failures,
            took_ms: u64::try_from(self.stage.platform.now().since(began).as_millis())
                .unwrap_or(u64::MAX),
            met: self.wire.met(),
            trace_hash: None,
            order_hash: None,
            trace: Vec::new(),
        };
        if let Some(fault) = stored.fault {
            played.failures.push(format!("the journal does not read whole: {fault}"));
        }
        let unmet = expect::unmet(&self.stage.document.expect, &played);
        played.failures.extend(unmet);
        Ok(played)
    }

    async fn open(&self) -> Result<Open, PlayError> {
        let host = Host::open_on(
            Arc::clone(&self.tapped),
            Arc::clone(&self.stage.store),
            self.config.clone(),
        )
        .await?;
        Ok(Open::new(host, self.stage.platform.as_ref(), Arc::clone(&self.feed)))
    }

    async fn create(&self, host: &Host) -> Result<(), PlayError> {
        let mut agent = crate::check::definition(&self.stage.document, self.stage.command.clone())
            .map_err(PlayError::Unplayable)?;
        let home = moored_fake_agents::HOME_VARIABLE.to_owned();
        agent.pin_env.entry(home).or_insert_with(|| self.stage.home.clone());
        let new = NewSession {
            id: SessionId::from(SESSION),
            agent,
            workspace: self.stage.workspace.clone(),
        };
        let context = host.call_context(caller());
        host.create(new, context).await.map_err(|r| PlayError::Unplayable(r.sentence))
    }

    /// Ends the host as an embedder does. An end that is not proven is a failure of the run.
    async fn shut(&mut self, open: &Open) {
        if let Err(unproven) = open.host.shutdown().await {
            self.unproven += 1;
            if self.stage.document.expect.unproven.is_none() {
                self.failures.push(unproven.to_string());
            }
        }
        open.feeds.iter().for_each(|feed| feed.abort_handle().abort());
    }

    async fn wait(&mut self, open: &Open, index: usize, when: Option<&Trigger>) -> bool {
        let words = format!("what action {index} waits for ({when:?})");
        match when {
            None => true,
            Some(Trigger::AfterMs(ms)) => {
                sleep_ms(self.stage.platform.as_ref(), *ms).await;
                true
            }
            Some(Trigger::Event(event)) => {
                let event = *event;
                self.until(open, &words, move |v| has_happened(v, event)).await
            }
            Some(Trigger::Text(text)) => {
                let text = text.clone();
                self.until(open, &words, move |v| agent_text(&v.timeline).contains(&text)).await
            }
            Some(Trigger::Updates(n)) => self.until_updates(open, &words, *n).await,
        }
    }

    async fn until(&mut self, open: &Open, words: &str, holds: impl Fn(&View) -> bool) -> bool {
        let platform = self.stage.platform.as_ref();
        let waited = timeout(platform, TRIGGER_MS_MAX, open.view.until(|v| holds(v))).await;
        if waited.is_err() {
            self.failures.push(format!("{words} did not come within {TRIGGER_MS_MAX} ms"));
        }
        waited.is_ok()
    }

    async fn until_updates(&mut self, open: &Open, words: &str, n: u64) -> bool {
        let wire = Arc::clone(&self.wire);
        let read = async {
            loop {
                let changed = wire.changed();
                if let Some(bytes) = wire.text_bytes_of(n) {
                    return bytes;
                }
                // Somebody may have notified between the look and the wait: look again soon.
                let _ = timeout(self.stage.platform.as_ref(), 5, changed).await;
            }
        };
        match timeout(self.stage.platform.as_ref(), TRIGGER_MS_MAX, read).await {
            Ok(bytes) => self.until(open, words, move |v| all_text(&v.timeline) >= bytes).await,
            Err(_) => {
                self.failures.push(format!("{words} did not come within {TRIGGER_MS_MAX} ms"));
                false
            }
        }
    }

    async fn act(&mut self, open: &Open, action: &Action) {
        let host = &open.host;
        let session = SessionId::from(SESSION);
        let mut context = host.call_context(caller());
        (self.stage.tell)(&action.act);
        // Calls are posted when they are made, also those nobody waits for.
        let platform = self.stage.platform.as_ref();
        let answer = match &action.act {
            Act::Send { id, text, mode } => {
                let send = Send {
                    message_id: MessageId::from(id.as_str()),
                    text: text.clone(),
                    mode: *mode,
                };
                let message = send.message_id.clone();
                let sent = host.send(&session, send, context);
                spawn(platform, "send", async move {
                    sent.await.map(|_| Answered::Sent(message)).map_err(name)
                })
            }
            Act::Stop { turn, op } => {
                if let Some(name) = op {
                    let first = self.operations.entry(name.clone()).or_insert(context.op);
                    context.op = first.clone();
                }
                let stopped =
                    host.stop(&session, Stop { turn: turn.as_deref().map(TurnKey::from) }, context);
                spawn(platform, "stop", async move {
                    stopped.await.map(|s| Answered::Stopped(s.cancelled)).map_err(name)
                })
            }
            Act::Answer { option } => {
                let oldest = |view: &View| oldest_permission(&view.timeline, option.clone());
                let Some(answer) = open.view.look(oldest) else {
                    self.refused.push("no_permission_pending".to_owned());
                    return;
                };
                let answered = host.answer(&session, answer, context);
                spawn(platform, "answer", async move {
                    answered.await.map(|_| Answered::Done).map_err(name)
                })
            }
            Act::Close => {
                let closed = host.close(&session, context);
                spawn(platform, "close", async move {
                    closed.await.map(|_| Answered::Done).map_err(name)
                })
            }
            Act::Evict => {
                let evicted = host.evict(&session, context);
                spawn(platform, "evict", async move {
                    evicted.await.map(|_| Answered::Done).map_err(name)
                })
            }
            Act::Fault { .. } | Act::Reopen | Act::Wait => return,
        };
        if action.unanswered {
            self.answers.push(answer);
        } else {
            self.take_answer(open, answer).await;
        }
    }

    /// Something goes wrong, or is right again.
    async fn strike(&mut self, fault: Fault) -> Result<(), PlayError> {
        if self.stage.faults.set(fault) {
            return Ok(());
        }
        let stored = self.stage.store.rows(SessionId::from(SESSION)).await?;
        let newest = stored.rows.iter().rev().find_map(|row| match &row.kind {
            RowKind::Child(ChildRow::Started { identity, .. }) => Some(identity),
            _ => None,
        });
        let struck = match newest {
            Some(identity) => (self.stage.strike)(identity, fault),
            None => Err("there is no child yet".to_owned()),
        };
        if let Err(words) = struck {
            self.failures.push(format!("{fault:?} cannot be done: {words}"));
        }
        Ok(())
    }

    async fn take_answer(&mut self, open: &Open, answer: Answer) {
        match timeout(self.stage.platform.as_ref(), TRIGGER_MS_MAX, answer).await {
            Ok(Ok(Ok(Answered::Done))) => {}
            Ok(Ok(Ok(Answered::Stopped(stopped)))) => self.stops.push(stopped),
            Ok(Ok(Ok(Answered::Sent(message)))) => {
                // What waits for the newest message must not look at an older one: the feed may lag behind the answer.
                let words = format!("the message {message} to be in the feed");
                self.until(open, &words, move |v| v.timeline.submission(&message).is_some()).await;
            }
            Ok(Ok(Err(refused))) => self.refused.push(refused),
            Ok(Err(fault)) => self.failures.push(fault.to_string()),
            Err(_) => {
                self.failures.push(format!("a call was not answered within {TRIGGER_MS_MAX} ms"))
            }
        }
    }
}

impl Open {
    fn new(host: Host, platform: &dyn moored::platform::Platform, feed: Feed) -> Self {
        let view = Watched::new(View::default());
        let (mut statuses, seen, kept) = (host.subscribe(), view.clone(), Arc::clone(&feed));
        let summaries = spawn(platform, "statuses", async move {
            while let Some(frame) = statuses.next().await {
                fed(&kept).push(Fed::Status(frame.clone()));
                let summary = match frame {
                    StatusFrame::Snapshot { summaries } => summaries.into_iter().next(),
                    StatusFrame::Status { summary } => Some(*summary),
                    _ => return,
                };
                seen.update(|v| v.take_summary(summary));
            }
        });
        let idle = spawn(platform, "no timeline yet", async {});
        Self { host, feed, view, feeds: [summaries, idle] }
    }

    /// Watches the session's timeline; it must exist by now.
    fn watch(&mut self, platform: &dyn moored::platform::Platform) {
        let mut watch = self.host.watch(&SessionId::from(SESSION));
        let (seen, kept) = (self.view.clone(), Arc::clone(&self.feed));
        self.feeds[1] = spawn(platform, "timeline", async move {
            while let Some(frame) = watch.next().await {
                match frame {
                    WatchFrame::Snapshot(snapshot) => {
                        fed(&kept).push(Fed::Snapshot(Box::new(snapshot.clone())));
                        seen.update(|v| {
                            v.timeline.apply_snapshot(snapshot);
                            v.take_notes();
                        });
                    }
                    WatchFrame::Batch(batch) => {
                        fed(&kept).push(Fed::Batch(Box::new(batch.clone())));
                        seen.update(|v| {
                            v.timeline.apply_batch(batch);
                            v.take_notes();
                        });
                    }
                    _ => return,
                }
            }
        });
    }
}

fn fed(feed: &Feed) -> MutexGuard<'_, Vec<Fed>> {
    feed.lock().unwrap_or_else(PoisonError::into_inner)
}

fn caller() -> CallerId {
    CallerId::from("scenario")
}

fn name(refused: moored::failure::RefusedOperation) -> String {
    refused.code.name().to_owned()
}
