//! The child on record: one at a time, addressed by fence and generation together (rule 1.1.1).

use std::collections::{BTreeMap, VecDeque};

use super::barrier::BarrierState;
use super::ladder::{EndedHow, Ladder};
use super::machine::Session;
use super::turn::{EndedTurn, OpenTurn};
use crate::failure::FailureFact;
use crate::ids::{AgentSessionId, Fence, Generation, ItemKey, MessageId, SpawnToken};
use crate::journal::{EndedAnswer, StopReason};
use crate::limits::STDERR_TAIL_CHARS_MAX;
use crate::platform::{ChildIdentity, Exit, Moment, Mono, Survivor};
use crate::status::{ChildPhase, ChildRef};
use crate::wire;

/// Where a start stands (rule 1.2.1).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) enum Phase {
    /// The lease is reserved, before the spawn.
    Reserving,
    /// The platform was asked for a process.
    Spawning,
    /// The process exists, and its identity is on its way to the disk.
    Recording,
    /// `initialize` is unanswered.
    Initializing,
    /// `authenticate` is unanswered.
    Authenticating,
    /// `session/new`, `session/resume` or `session/load` is unanswered.
    Opening(Opening),
    /// The handle link is on its way to the disk.
    Linking,
    /// It takes prompts.
    Ready,
}

/// How the agent's session is opened (rule 7.2.2).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) enum Opening {
    /// `session/new`, in place of one that could not be reopened if `lost` is given.
    New {
        /// What is lost (rule 7.3).
        lost: Option<AgentSessionId>,
    },
    /// `session/resume`.
    Resume(AgentSessionId),
    /// `session/load`.
    Load(AgentSessionId),
}

/// A request of ours that is unanswered.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) enum Asked {
    /// `initialize`.
    Initialize,
    /// `authenticate`.
    Authenticate,
    /// `session/new`, `session/resume`, `session/load`.
    Open,
    /// `session/prompt`.
    Prompt(MessageId),
    /// `session/close`.
    Close,
}

/// A permission request of the agent's that is unanswered.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Ask {
    /// Its item.
    pub(super) item: ItemKey,
    /// A person's answer is on its way to the disk (rule 9.3.1).
    pub(super) claimed: bool,
}

/// The host's prompt that runs: one on the wire a session (decision D22).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Prompt {
    pub(super) message: MessageId,
    /// An event of its turn, or its answer, was seen (decision D32).
    pub(super) accepted: bool,
    /// When `session/cancel` was written; one for each prompt (decision D14).
    pub(super) cancelled: Option<Mono>,
}

/// Why a child ends (rule 1.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) enum Cause {
    /// It left by itself.
    Exit,
    /// Its start failed.
    AttachFailed,
    /// The connection broke, or the store was lost.
    Broken,
    /// The host asked for it.
    Asked(StopReason),
}

impl Ending {
    /// At its beginning: nothing was asked of the child yet.
    pub(super) fn new(cause: Cause) -> Self {
        Self { cause, barrier: BarrierState::default(), turn_left: false, ladder: None }
    }
}

impl Cause {
    pub(super) fn is_requested(self) -> bool {
        matches!(self, Self::Asked(_))
    }
}

/// A child that is ending.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Ending {
    pub(super) cause: Cause,
    pub(super) barrier: BarrierState,
    /// It was asked for, and a turn of it has ended since: nothing that it says opens another (rule 3.5.7).
    pub(super) turn_left: bool,
    /// Absent while a turn is being wound down (rule 1.8.1), and at the barrier behind it (decision D13).
    pub(super) ladder: Option<Ladder>,
}

/// What is known of the root's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct RootEnd {
    pub(super) exit: Exit,
    pub(super) how: EndedHow,
    /// When the host saw it: turns that it cut end then (rule 1.5.4).
    pub(super) seen: Moment,
}

/// How far the tree's end is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) enum Tree {
    /// The root lives, or nobody was asked yet.
    Unswept,
    /// The supervisor is sweeping.
    Sweeping,
    /// Swept.
    Swept { empty: bool, survivors: Vec<Survivor> },
}

/// The last of the agent's stderr; `Debug` tells its length only.
#[derive(Clone, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct StderrTail(String);

impl std::fmt::Debug for StderrTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({} bytes)", self.0.len())
    }
}

/// One child.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Child {
    pub(super) generation: Generation,
    pub(super) fence: Fence,
    pub(super) token: SpawnToken,
    pub(super) phase: Phase,
    /// The message this start is for: it alone is failed by the start's failure (rule 5.3.4).
    pub(super) start_for: Option<MessageId>,
    pub(super) identity: Option<ChildIdentity>,
    pub(super) reading: bool,
    #[serde(serialize_with = "super::digest::by_hash")]
    pub(super) decoder: wire::Decoder,
    #[serde(serialize_with = "super::digest::by_hash")]
    pub(super) writes: wire::write_queue::WriteQueue,
    pub(super) asked: BTreeMap<u64, Asked>,
    pub(super) next_request: u64,
    /// `initialize` was answered: from here on a message may have reached the agent (rule 1.4.6).
    pub(super) answered: bool,
    #[serde(serialize_with = "super::digest::by_hash")]
    pub(super) capabilities: wire::answer::Capabilities,
    pub(super) auth_method: Option<String>,
    pub(super) authenticated: bool,
    pub(super) agent_session: Option<AgentSessionId>,
    /// It was loaded, and no prompt has been written since: what it says of the conversation is replay (rule 7.2.5).
    pub(super) replaying: bool,
    /// Frames of a session the host does not know yet (rule 1.2.8).
    #[serde(serialize_with = "super::digest::by_hash")]
    pub(super) early: VecDeque<wire::Event<'static>>,
    pub(super) asks: BTreeMap<wire::RequestId, Ask>,
    pub(super) prompt: Option<Prompt>,
    /// A prompt that waits for its dispatch row.
    pub(super) dispatching: Option<MessageId>,
    pub(super) turn: Option<OpenTurn>,
    pub(super) ended: VecDeque<EndedTurn>,
    pub(super) agent_turns: u64,
    pub(super) stderr: StderrTail,
    /// It does not read, and even the reserve of its write queue is full.
    pub(super) stuck: bool,
    /// A write failed: its stdin was gone before the host closed it.
    pub(super) stdin_broken: bool,
    pub(super) stdout_ended: bool,
    /// Contact was lost: nothing more that it says is taken (rule 1.5.2).
    pub(super) cut_off: bool,
    /// Nothing of its last words is still on its way.
    pub(super) stderr_ended: bool,
    pub(super) failure: Option<FailureFact>,
    pub(super) ending: Option<Ending>,
    pub(super) root: Option<RootEnd>,
    pub(super) exit_recorded: bool,
    /// Its end is told, and on its way to the disk: what a close that comes now is answered with.
    pub(super) over: Option<EndedAnswer>,
    pub(super) tree: Tree,
    /// Nobody is left who could sweep it.
    pub(super) supervisor_lost: bool,
    /// What of its cut turn is in its session file.
    pub(super) look: super::persisted::Look,
    pub(super) defects: super::defects::Defects,
}

impl Child {
    pub(super) fn reserved(
        generation: Generation,
        fence: Fence,
        token: SpawnToken,
        start_for: Option<MessageId>,
    ) -> Self {
        Self {
            generation,
            fence,
            token,
            phase: Phase::Reserving,
            start_for,
            identity: None,
            reading: true,
            decoder: wire::Decoder::new(wire::Limits::default()),
            writes: wire::write_queue::WriteQueue::default(),
            asked: BTreeMap::new(),
            next_request: 0,
            answered: false,
            capabilities: wire::answer::Capabilities::default(),
            auth_method: None,
            authenticated: false,
            agent_session: None,
            replaying: false,
            early: VecDeque::new(),
            asks: BTreeMap::new(),
            prompt: None,
            dispatching: None,
            turn: None,
            ended: VecDeque::new(),
            agent_turns: 0,
            stderr: StderrTail::default(),
            stuck: false,
            stdin_broken: false,
            stdout_ended: false,
            cut_off: false,
            stderr_ended: false,
            failure: None,
            ending: None,
            root: None,
            exit_recorded: false,
            over: None,
            tree: Tree::Unswept,
            supervisor_lost: false,
            look: super::persisted::Look::default(),
            defects: super::defects::Defects::default(),
        }
    }

    /// A process exists, or existed.
    pub(super) fn has_process(&self) -> bool {
        self.identity.is_some()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready && self.ending.is_none()
    }

    /// Unless it was asked to end and the turn that it had is over (rule 3.5.7).
    pub(super) fn may_open_a_turn(&self) -> bool {
        !self.ending.as_ref().is_some_and(|e| e.turn_left)
    }

    /// A person's answer to one of its questions is on its way to the disk, and from there to it.
    pub(super) fn owes_an_answer(&self) -> bool {
        self.asks.values().any(|ask| ask.claimed)
    }

    pub(super) fn is_in_ladder(&self) -> bool {
        self.root.is_some() || self.ending.as_ref().is_some_and(|e| e.ladder.is_some())
    }

    /// Every window has passed, and the root was not seen to end.
    pub(super) fn gave_up(&self) -> bool {
        self.root.is_none()
            && self.ending.as_ref().and_then(|e| e.ladder.as_ref()).is_some_and(Ladder::gave_up)
    }

    /// The root is gone, and somebody it left cannot be ended. What was left on purpose is no resistance (decision D21).
    pub(super) fn tree_resists(&self) -> bool {
        self.exit_recorded
            && self.over.is_none()
            && matches!(self.tree, Tree::Swept { empty: false, .. })
    }

    pub(super) fn is_requested(&self) -> bool {
        self.ending.as_ref().is_some_and(|e| e.cause.is_requested())
    }

    /// As it is published: from its recorded identity on (rule 1.2.1 i).
    pub(super) fn published(&self) -> Option<(ChildRef, ChildPhase)> {
        let phase = self.published_phase()?;
        Some((ChildRef { generation: self.generation.clone(), fence: self.fence }, phase))
    }

    pub(super) fn published_phase(&self) -> Option<ChildPhase> {
        match self.phase {
            Phase::Reserving | Phase::Spawning | Phase::Recording => None,
            Phase::Ready => Some(ChildPhase::Ready),
            _ => Some(ChildPhase::Starting),
        }
    }

    /// Keeps the last of stderr (rule 1.5.9).
    pub(super) fn keep_stderr(&mut self, bytes: &[u8]) {
        let tail = &mut self.stderr.0;
        tail.push_str(&String::from_utf8_lossy(bytes));
        let chars = tail.chars().count();
        if chars > STDERR_TAIL_CHARS_MAX {
            let cut = tail.char_indices().nth(chars - STDERR_TAIL_CHARS_MAX).map_or(0, |(i, _)| i);
            tail.drain(..cut);
        }
    }

    /// The agent's last words, for a person: the end of its stderr.
    pub(super) fn last_words(&self) -> Option<String> {
        let lines: Vec<_> = self.stderr.0.lines().filter(|l| !l.trim().is_empty()).collect();
        let last = lines.len().saturating_sub(LAST_WORDS_LINES_MAX);
        let words = lines[last..].join("\n");
        (!words.is_empty()).then_some(words)
    }

    pub(super) fn next_request(&mut self, asked: Asked) -> u64 {
        // Ids are ours: a counter per child, never random (`docs/architecture.md`, "The wire").
        let id = self.next_request;
        self.next_request += 1;
        self.asked.insert(id, asked);
        id
    }
}

/// Lines of stderr quoted to a person.
const LAST_WORDS_LINES_MAX: usize = 10;

impl Session {
    /// The child of `generation`, if it is the one on record: a report about any other has no effect (rule 1.1.1).
    pub(super) fn child_of(&mut self, generation: &Generation) -> Option<&mut Child> {
        self.child.as_mut().filter(|c| c.generation == *generation)
    }
}
