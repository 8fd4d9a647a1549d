//! Coverage marks: the rare branches of the rules, named, so that a search can say which of them it has met.
//!
//! A mark stands where its rule is applied. A machine remembers which marks it has met and nothing else of them: what was
//! met is no part of its state, decides nothing and is not restored. The driver hands new marks on through
//! [`Platform::met`](crate::platform::Platform::met), which is free in production.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

macro_rules! marks {
    ($($variant:ident, $rule:literal, $name:literal, $sentence:literal;)+) => {
        /// A branch of a rule that a run may meet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum CoverageMark {
            $(#[doc = concat!("Met when ", $sentence, " (", $rule, ").")] $variant,)+
        }

        impl CoverageMark {
            /// All of them, in the order of the chapters they come from.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Where its rule is written: a number of the rulebook, or `D` and the number of a decision.
            pub const fn rule(self) -> &'static str {
                match self { $(Self::$variant => $rule,)+ }
            }

            /// Its name in machine output.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What has happened, for a person.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)+ }
            }
        }
    };
}

marks! {
    // Starting.
    HandshakeRefused, "1.4.1", "handshake-refused", "an agent refused a request of its handshake";
    VersionMismatched, "1.3.2", "version-mismatched", "an agent spoke another version of the protocol";
    ReleaseUnsupported, "1.2.6", "release-unsupported", "an agent's release was not a supported one";
    SignedIn, "1.3.3", "signed-in", "a session request was repeated after a sign-in";
    SignInMissing, "1.3.3", "sign-in-missing", "a start failed because nobody was signed in";
    ExitedInInitialize, "1.4.6", "exited-in-initialize", "an agent left before it answered initialize";
    ExitedInHandshake, "1.4.5", "exited-in-handshake", "an agent left by itself between initialize and ready";
    NeverStarted, "1.1.5", "never-started", "a start ended without a process";
    SpawnOvertaken, "1.2.3", "spawn-overtaken", "a child was ended before it was spawned";
    SpawnedWhileEnding, "1.2.3", "spawned-while-ending", "a process came up for a child that was to end";
    ReadyOvertaken, "1.3.7", "ready-overtaken", "a handle link became durable after its child was to end";
    StartFailedForOne, "5.3.4", "start-failed-for-one", "a start failed, and another queued message got a start of its own";
    EarlyFramesKept, "1.2.8", "early-frames-kept", "frames came before the session was ready and were taken once it was";
    Resumed, "7.2.2", "resumed", "an agent's session was reopened by session/resume";
    Loaded, "7.2.2", "loaded", "an agent's session was reopened by session/load";
    ReopenLost, "7.3.1", "reopen-lost", "an agent's session could not be reopened, and a new one stands in for it";
    ForkRefused, "7.1.3", "fork-refused", "a reopened session answered under another id";
    ReplayIgnored, "7.2.5", "replay-ignored", "what an agent repeated while it reopened made no rows";

    // Losing contact, and leaving.
    StdoutEndedFirst, "1.5.1", "stdout-ended-first", "stdout ended while the root lived";
    ConnectionBroken, "1.5.2", "connection-broken", "a connection broke, and the turn that ran was unverifiable";
    BreakProven, "1.5.3", "break-proven", "a proven exit revised an unverifiable turn";
    WriteFailed, "D34", "write-failed", "a write failed while the root lived";
    SupervisorLost, "1.1.4", "supervisor-lost", "a supervisor was lost before it had proven the root's end";
    LeftIdle, "2.7", "left-idle", "an agent left by itself with nothing running";
    CutByExit, "1.5.4", "cut-by-exit", "an agent left by itself with a turn running";
    CleanExitMidTurn, "1.5.4", "clean-exit-mid-turn", "an agent left with code 0 and its turn unanswered";
    AnsweredAfterExit, "2.7.2", "answered-after-exit", "a prompt's answer was read after the exit was seen";
    LeftUnknown, "5.2.3", "left-unknown", "a message was on the wire when its child ended, and is unknown";
    ReadingPaused, "1.5.8", "reading-paused", "an agent was not read on because the store refused or lagged";
    ReadingResumed, "1.5.8", "reading-resumed", "an agent was read on after a pause";
    ReadThroughEnd, "D8", "read-through-end", "an ending agent was read on while the store refused";

    // The ladder.
    LeftOnEof, "1.6.3", "left-on-eof", "an agent left inside its EOF window and was never signalled";
    LeftAfterTerm, "1.6.1", "left-after-term", "an agent left after SIGTERM";
    LeftAfterKill, "1.6.1", "left-after-kill", "an agent left after SIGKILL";
    EndUnproven, "1.6.8", "end-unproven", "every window passed without a proof of the root's end";
    EndRetried, "1.6.8", "end-retried", "an unproven end was tried again in full";
    ProvenAtLast, "1.6.8", "proven-at-last", "a root was seen to end after its end had been given up";
    TreeResisted, "D33", "tree-resisted", "a swept tree was not empty";
    SweepRetried, "D33", "sweep-retried", "a tree that was not empty was swept again";
    SurvivorsEnded, "D21", "survivors-ended", "processes that outlived their agent were ended";
    BackgroundLeft, "D21", "background-left", "what an agent left running was left running";
    StdoutHeldOpen, "D21", "stdout-held-open", "somebody held an agent's stdout open after its tree was swept";

    // Turns.
    CancelledUnasked, "2.2.1", "cancelled-unasked", "an agent answered cancelled though nobody had asked it to";
    AnsweredFailure, "2.2.1", "answered-failure", "an agent ended a turn for a reason that is a failure";
    UnknownVerdict, "2.2.2", "unknown-verdict", "an agent gave no reason, or an unknown one, for a turn's end";
    PromptFailed, "2.2.4", "prompt-failed", "an agent answered a prompt with an error";
    PromptUndecodable, "2.2.5", "prompt-undecodable", "an agent's answer to a prompt did not parse";
    SignedOutInPrompt, "1.3.3a", "signed-out-in-prompt", "an agent said in an error that nobody is signed in";
    AgentTurnOpened, "2.1.6", "agent-turn-opened", "an agent began a turn by itself";
    AgentTurnQuiet, "D4", "agent-turn-quiet", "quiet ended a turn that an agent had begun";
    AgentTurnKept, "D4", "agent-turn-kept", "an open call kept a quiet turn of the agent's own running";
    AgentTurnSuperseded, "2.1.7", "agent-turn-superseded", "a prompt took the place of a turn that an agent had begun";
    ToolCut, "2.3.2", "tool-cut", "a call still ran when its turn ended";
    LateToolMarked, "D3", "late-tool-marked", "a late change of a finished turn's call was taken and marked";
    LateToolDropped, "D3", "late-tool-dropped", "a late change of a cut turn's call was dropped";
    LateTextJoined, "D3", "late-text-joined", "text right behind an answer joined the turn that had ended";
    ReplyDuplicated, "D9", "reply-duplicated", "an agent answered a request that was settled";
    PromptEchoed, "5.10.6", "prompt-echoed", "an agent repeated the prompt, and it made no second bubble";
    TextByTime, "D31", "text-by-time", "streamed text was stored because it had waited long enough";
    TextBySize, "D31", "text-by-size", "streamed text was stored because enough of it had come";

    // Stop and close.
    StopWhileStarting, "3.2.1", "stop-while-starting", "a Stop ended a child that was starting";
    StopInterrupted, "3.2.1", "stop-interrupted", "a Stop interrupted a working child";
    StopJoinedEnd, "3.2.1", "stop-joined-end", "a Stop met a child that was ending already";
    StopOfNothing, "3.2.1", "stop-of-nothing", "a Stop found nothing to stop";
    StopLate, "3.2.4", "stop-late", "a Stop named a turn that was over";
    StopRepeated, "3.3.3", "stop-repeated", "a person pressed Stop again before what the first press stopped had ended";
    StopFailed, "3.4.5", "stop-failed", "a Stop settled without a proof of the child's end";
    WrittenOff, "1.5.2", "written-off", "an end could not be proven, and nobody is left who could prove it";
    StopOfOpening, "3.2.4", "stop-of-opening", "a Stop named a turn whose row was still to come";
    StopUnrecorded, "5.10.5", "stop-unrecorded", "a Stop was answered without a row of it";
    StopWhileNotSaved, "3.1.2", "stop-while-not-saved", "a Stop reached the agent while the store refused";
    QueuedWithdrawn, "3.1.1", "queued-withdrawn", "a Stop withdrew a queued message";
    CancelSuppressed, "D14", "cancel-suppressed", "a second cancel of one prompt was not written";
    AgentTurnCancelled, "3.5.1", "agent-turn-cancelled", "a turn that the agent had begun was cancelled";
    StopGraceExpired, "3.5.2", "stop-grace-expired", "a turn had not left when its grace passed";
    WoundDown, "3.5.2", "wound-down", "a turn left inside its grace, and the ladder began";
    StopGraceCut, "D14", "stop-grace-cut", "a second Stop ended the wait for an answer to the cancel";
    BarrierAnswered, "D13", "barrier-answered", "an agent answered session/close, and its stdin was closed then";
    EvictEndedWork, "3.10.1", "evict-ended-work", "the host let a child go that worked";
    EvictAtRest, "3.10.3", "evict-at-rest", "the host let a child go that was at rest";
    EvictJoinedEnd, "3.10.3", "evict-joined-end", "the host let a child go that was ending already";
    LateWordsDropped, "3.5.7", "late-words-dropped", "an agent that was stopped went on once its turn was over, and no turn opened for it";
    StdinCut, "1.6.1", "stdin-cut", "an agent that did not read was offered EOF with frames still queued for it";
    AbortPersisted, "D28", "abort-persisted", "a cut turn's abort was found in the agent's session file";
    AbortNotPersisted, "D28", "abort-not-persisted", "a cut turn's abort was not in the agent's session file";
    AbortUnknown, "D28", "abort-unknown", "nobody could say whether a cut turn's abort reached the agent's disk";
    DeliveryUnproven, "D20", "delivery-unproven", "the message of a cut turn was not in the agent's session file";
    BarrierExpired, "D13", "barrier-expired", "an agent had its time to answer session/close, and did not";
    BarrierCut, "D14", "barrier-cut", "a third Stop ended the wait for an answer to session/close";
    BarrierLeft, "D13", "barrier-left", "an agent left, or ended its stdout, with session/close unanswered";
    ExitInWindDown, "1.8.1", "exit-in-wind-down", "an agent left while its turn was being wound down";
    CloseJoinedEnd, "1.8.8", "close-joined-end", "a close met a child that was ending already";
    CutMadeCancellation, "3.4.7", "cut-made-cancellation", "a turn that was cut under a Stop became a cancellation";
    VerdictUnderStop, "2.4.1", "verdict-under-stop", "an agent's own word for a turn's end stood under a Stop";
    ExitBeforeStop, "3.4.8", "exit-before-stop", "an exit was seen before the Stop, and stayed news";

    // Sending.
    SteerCut, "2.5.1", "steer-cut", "a steer cut the running prompt";
    SteerWentFirst, "2.5.1", "steer-went-first", "a steer went before a message that was sent earlier";
    SendReplayed, "5.2.1", "send-replayed", "a message that was known was answered as it stood";
    MessageIdReused, "5.2.4", "message-id-reused", "another text came under the id of a message";
    SendNotSaved, "5.10.5", "send-not-saved", "a send was refused because it could not be saved";
    SendAtEnd, "5.3.7", "send-at-end", "a send was refused because the session is closed or quits";
    SendWaitedForEnd, "5.4.2", "send-waited-for-end", "a message waited behind a child that was ending";
    HandoverOvertaken, "D24", "handover-overtaken", "an end overtook the handover of a message, which was held back";
    LeftBeforePrompt, "5.3.3", "left-before-prompt", "an agent left by itself before the message it was started for was written to it";
    HeldDelivered, "D24", "held-delivered", "a message that was held back went out";
    HeldRejected, "D24", "held-rejected", "a message that was held back was rejected because no child would come";
    HeldWithdrawn, "3.8.1", "held-withdrawn", "a second Stop withdrew a message that was held back";
    QueuedAbandoned, "3.9.2", "queued-abandoned", "a close or a quit abandoned a queued message";
    OwnedElsewhere, "6.13.6", "owned-elsewhere", "a message was refused because an earlier host's child may live";

    // Permissions.
    PermissionRaised, "9.1.1", "permission-raised", "an agent's question was put to a person";
    PermissionUnasked, "9.1.2", "permission-unasked", "an agent's question was cancelled without being shown";
    PermissionByAccess, "9.1.3", "permission-by-access", "an agent's question was answered by the session's access";
    PermissionOptionless, "9.1.1", "permission-optionless", "an agent asked without offering an option";
    RequestRefused, "9.1.4", "request-refused", "an agent's request was refused by an error";
    RequestIdReused, "6.3.2", "request-id-reused", "an agent used the id of an answered question again";
    PermissionAnswered, "9.3.1", "permission-answered", "a person chose an option";
    PermissionDismissed, "9.4.5", "permission-dismissed", "a person dismissed a question";
    PermissionLost, "9.3.2", "permission-lost", "an answer came for a question that was settled";
    PermissionWithdrawn, "9.4.1", "permission-withdrawn", "an open question was withdrawn by a Stop, a close or a steer";
    PermissionClaimed, "9.4.1", "permission-claimed", "an answer on its way to the disk was not withdrawn";
    PermissionOutlived, "2.3.4", "permission-outlived", "a question was still open when its turn ended";
    PermissionTakenBack, "9.5.1", "permission-taken-back", "an agent took its question back";

    // The store.
    StoreRefused, "1.5.8", "store-refused", "the store refused a unit";
    StoreHealed, "1.5.8", "store-healed", "a unit became durable after a refusal";
    PlannedWhileRefused, "D8", "planned-while-refused", "a unit was planned while the store refused";
    RetryDelayed, "D8", "retry-delayed", "a retry waited for the answers to what was submitted behind";
    StoreLost, "1.5.7", "store-lost", "the store was lost for good";

    // Restarting.
    RestoredUnknown, "6.11.1", "restored-unknown", "a message was handed over when its host died";
    RestoredRejected, "6.11.1", "restored-rejected", "a message was queued when its host died";
    RestoredUnverifiable, "6.11.2", "restored-unverifiable", "a turn ran when its host died, and nothing proves its end";
    RestoredOwned, "6.13.6", "restored-owned", "a session came back with a child that may live";

    // The host.
    FenceStale, "5.10.2", "fence-stale", "a call expected a fence that has passed";
    OperationReplayed, "5.10.2", "operation-replayed", "a settled operation was asked again and answered as before";
    OperationJoined, "5.10.2", "operation-joined", "a running operation was asked again and shared its answer";
    OperationConflicted, "5.10.2", "operation-conflicted", "an operation's id came back with another call";
    OperationExpired, "5.10.3", "operation-expired", "an operation was too old, or too far ahead, to begin";
    DigestMismatched, "5.10.2", "digest-mismatched", "a call came with a digest that is not its own";
    CallWhileQuitting, "1.8.5", "call-while-quitting", "a call was refused because the host quits";
    CallToNobody, "5.1.1", "call-to-nobody", "a call named a session that is closed, unknown or unreadable";
    QuitUnproven, "1.8.5", "quit-unproven", "a host quit without the proof of a child's end";
}

/// Words of a set.
const WORDS: usize = 3;

const _: () = assert!(CoverageMark::ALL.len() <= WORDS * 64, "every mark has its bit");

/// A set of marks. Serializes as the list of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoverageMarks([u64; WORDS]);

impl CoverageMarks {
    /// Without any.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// Every mark there is.
    pub fn all() -> Self {
        CoverageMark::ALL.iter().copied().collect()
    }

    /// Adds a mark.
    pub fn insert(&mut self, mark: CoverageMark) {
        self.0[mark as usize / 64] |= 1 << (mark as usize % 64);
    }

    /// Whether a mark is in it.
    pub fn contains(&self, mark: CoverageMark) -> bool {
        self.0[mark as usize / 64] & (1 << (mark as usize % 64)) != 0
    }

    /// What is in either.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// What is in this one and not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// The marks, in the order of [`CoverageMark::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = CoverageMark> + use<> {
        let set = *self;
        CoverageMark::ALL.iter().copied().filter(move |mark| set.contains(*mark))
    }
}

impl CoverageMark {
    /// The mark of a name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|mark| mark.name() == name)
    }
}

impl FromIterator<CoverageMark> for CoverageMarks {
    fn from_iter<I: IntoIterator<Item = CoverageMark>>(marks: I) -> Self {
        let mut set = Self::EMPTY;
        marks.into_iter().for_each(|mark| set.insert(mark));
        set
    }
}

impl Serialize for CoverageMarks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(CoverageMark::name))
    }
}

impl<'de> Deserialize<'de> for CoverageMarks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let mark = |name: &String| {
            CoverageMark::named(name)
                .ok_or_else(|| D::Error::custom(format!("there is no coverage mark {name}")))
        };
        names.iter().map(mark).collect()
    }
}

/// What a machine has met. No part of its state: two machines that differ in nothing else are equal, and it begins
/// empty wherever a machine begins.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met(CoverageMarks);

impl Met {
    /// A mark is met.
    pub(crate) fn sometimes(&mut self, mark: CoverageMark) {
        self.0.insert(mark);
    }

    pub(crate) fn marks(&self) -> CoverageMarks {
        self.0
    }
}

impl PartialEq for Met {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Met {}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_mark_has_a_name_of_its_own_a_rule_and_a_sentence() {
        let names: BTreeSet<_> = CoverageMark::ALL.iter().map(|m| m.name()).collect();
        let sentences: BTreeSet<_> = CoverageMark::ALL.iter().map(|m| m.sentence()).collect();
        assert_eq!(names.len(), CoverageMark::ALL.len());
        assert_eq!(sentences.len(), CoverageMark::ALL.len());
        for mark in CoverageMark::ALL {
            let kebab = kebab(&format!("{mark:?}"));
            assert_eq!(mark.name(), kebab);
            assert!(mark.rule().starts_with(|c: char| c.is_ascii_digit() || c == 'D'), "{mark:?}");
            assert!(mark.sentence().contains(' ') && !mark.sentence().ends_with('.'), "{mark:?}");
            assert_eq!(CoverageMark::named(mark.name()), Some(*mark));
        }
        assert_eq!(CoverageMark::named("no-such-mark"), None);
    }

    pub(crate) fn kebab(variant: &str) -> String {
        let mut name = String::new();
        for c in variant.chars() {
            if c.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(c.to_ascii_lowercase());
        }
        name
    }

    #[test]
    fn sets_are_joined_taken_apart_and_listed_in_order() {
        let (first, last) = (CoverageMark::HandshakeRefused, CoverageMark::QuitUnproven);
        let one: CoverageMarks = [last].into_iter().collect();
        let both = one.union([first].into_iter().collect());
        assert_eq!(both.iter().collect::<Vec<_>>(), [first, last]);
        assert_eq!(both.len(), 2);
        assert_eq!(both.without(one).iter().collect::<Vec<_>>(), [first]);
        assert!(both.without(both).is_empty() && !both.is_empty());
        assert!(both.contains(first) && !one.contains(first));
        assert_eq!(CoverageMarks::all().len(), CoverageMark::ALL.len());
        assert_eq!(CoverageMarks::all().iter().collect::<Vec<_>>(), CoverageMark::ALL);
    }

    #[test]
    fn a_set_travels_as_names() {
        let set: CoverageMarks =
            [CoverageMark::StopLate, CoverageMark::LeftOnEof].into_iter().collect();
        let text = serde_json::to_string(&set).expect("names are JSON");
        assert_eq!(text, r#"["left-on-eof","stop-late"]"#);
        assert_eq!(serde_json::from_str::<CoverageMarks>(&text).expect("it reads back"), set);
        let unknown = serde_json::from_str::<CoverageMarks>(r#"["stop-at-once"]"#);
        let error = unknown.expect_err("it is no mark").to_string();
        assert!(error.contains("there is no coverage mark stop-at-once"), "{error}");
    }
}
