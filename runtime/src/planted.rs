//! Planted bugs: single rules broken on purpose, so that whoever searches for bugs can be measured.
//!
//! Only the cargo feature `planted-bugs` lets a [`Policy`](crate::session::Policy) carry one; without it every switch is
//! the constant `false` and what stands behind it is not compiled in. Each is a bug that somebody could really write, and
//! is seen from outside: in the journal's rows, on the wire, in signals, in the feed or in the store.

macro_rules! bugs {
    ($($variant:ident, $rule:literal, $name:literal, $sentence:literal;)+) => {
        /// A rule that is broken on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum PlantedBug {
            $(#[doc = concat!("With it, ", $sentence, " (", $rule, ").")] $variant,)+
        }

        #[cfg(feature = "planted-bugs")]
        impl PlantedBug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The rule it breaks.
            pub const fn rule(self) -> &'static str {
                match self { $(Self::$variant => $rule,)+ }
            }

            /// Its name in machine output.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What goes wrong, for a person.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)+ }
            }
        }
    };
}

bugs! {
    // Starting.
    SpawnBeforeReservation, "6.13.5", "spawn-before-reservation", "a child is spawned before its reservation is durable";
    ReuseTheFence, "6.13.5", "reuse-the-fence", "the next child runs under the fence of the last one";
    ForgetTheNewHandle, "7.1.1", "forget-the-new-handle", "a new agent session that stands in for a lost one is not recorded";
    RowsFromReplay, "7.2.5", "rows-from-replay", "what an agent repeats while it loads a session becomes rows again";

    // Losing contact, and leaving.
    StdoutEndReadsAsBreak, "1.5.1", "stdout-end-reads-as-break", "the end of stdout alone breaks the connection";
    BreakReadsAsDeath, "1.5.2", "break-reads-as-death", "a broken connection ends the turn as if the exit were proven";
    StuckWorking, "2.7", "stuck-working", "a turn that its child's death cut is never ended";
    EndedTwice, "2.3.8", "ended-twice", "a turn that has ended is ended again at its child's exit";
    TwoErrorRows, "2.7.1", "two-error-rows", "a break and the exit behind it write an error row each";
    SettleBeforeReadingOn, "2.7.2", "settle-before-reading-on", "an exit is settled before what the agent had written is read";
    CancellationWithoutAPerson, "3.4.9", "cancellation-without-a-person", "a turn that an unasked exit cut becomes a cancellation";
    ForgetTheUnknown, "5.2.3", "forget-the-unknown", "a message that was on the wire at its child's end stays handed over";
    ReadingNeverResumed, "1.5.8", "reading-never-resumed", "an agent whose reading was paused is never read on";

    // The ladder.
    EofNeverSent, "1.6.1", "eof-never-sent", "the ladder begins without stdin EOF";
    EofAtThePress, "3.5.2", "eof-at-the-press", "stdin is closed at the Stop, before the agent can answer the cancel";
    KillAtTheResponse, "1.9.1", "kill-at-the-response", "an agent that answered its cancel is killed at once";
    ForceBeforeItsWindow, "1.6.1", "force-before-its-window", "SIGTERM comes when half the EOF window has passed";
    GiveUpReadsAsGone, "1.2.2", "give-up-reads-as-gone", "a child that outlived every window counts as gone";
    SpawnBeforeProof, "D33", "spawn-before-proof", "the next child starts before the last one's tree is proven gone";
    ReleaseTheLeaseEarly, "6.12.1", "release-the-lease-early", "the lease is released when the ladder begins";

    // Turns.
    TakeASecondAnswer, "D9", "take-a-second-answer", "a second answer to a settled prompt ends the running one";
    LateTextReopens, "D3", "late-text-reopens", "text right behind a turn's answer opens another turn";
    LeaveToolsRunning, "2.3.2", "leave-tools-running", "a call still reads running when its turn has ended";

    // Stop and close.
    CancelTwice, "D14", "cancel-twice", "a second Stop cancels the same prompt again";
    NoStopGrace, "3.5.2", "no-stop-grace", "a Stop waits for ever for an agent that does not answer";
    GraceRestarts, "1.8.2", "grace-restarts", "a second Stop begins the grace anew";
    BarrierForgotten, "D13", "barrier-forgotten", "stdin is closed at once although the agent offers to save its session first";
    BarrierUnbounded, "D13", "barrier-unbounded", "an agent that never answers session/close is waited for without end";
    OverwriteTheVerdict, "2.4.1", "overwrite-the-verdict", "a turn that the agent ended by its own word under a Stop becomes a cancellation";
    BindAStopToTheNextTurn, "3.4.1", "bind-a-stop-to-the-next-turn", "a Stop claims a turn that began after it";
    StopClaimsAnEarlierExit, "3.4.8", "stop-claims-an-earlier-exit", "an exit that was seen before the Stop becomes a cancellation";
    RefuseAStopUnsaved, "3.1.2", "refuse-a-stop-unsaved", "a Stop is refused while the store refuses";
    RunAStopAgain, "3.1.3", "run-a-stop-again", "a Stop that is asked again under its operation id stops again";
    RunWhatAStopWithdrew, "3.1.1", "run-what-a-stop-withdrew", "a message that was queued at the Stop still runs";
    SwallowAnOvertakenSend, "D24", "swallow-an-overtaken-send", "a message whose handover a Stop overtook never goes out and never ends";
    SwallowASendAtClose, "3.9.2", "swallow-a-send-at-close", "a message that was queued at the close stays queued for ever";
    DeliverIntoAStoppingChild, "5.4.2", "deliver-into-a-stopping-child", "a message is handed to the child that a Stop is ending";

    // Stop: what it reaches, and its event.
    ClaimWhatWasNotStopped, "3.1.4", "claim-what-was-not-stopped", "a Stop that stopped nothing says that it did";
    LeaveAStartingChild, "3.2.1", "leave-a-starting-child", "a Stop lets a child that is starting start on";
    HandoverIsNoWork, "3.2.2", "handover-is-no-work", "a message that is being handed over is nothing to stop";
    TakeALateStop, "3.2.4", "take-a-late-stop", "a Stop that names a turn which is over stops the running one";
    RefuseAStopOfTheOpening, "3.2.5", "refuse-a-stop-of-the-opening", "a Stop that names a turn whose message is being handed over stops nothing";
    KeepTheStoppedChild, "3.2.6", "keep-the-stopped-child", "a child that answered its cancel is kept for the next message";
    EventWithoutItsTurn, "3.3.1", "event-without-its-turn", "the event of a Stop does not say which turn it stopped";
    NameAStaleTurn, "3.3.2", "name-a-stale-turn", "the event of a Stop names the turn before the one that is opening";
    RecordARepeat, "3.3.3", "record-a-repeat", "a second press on the same turn writes a second event";
    DeferToAnOldStop, "3.3.4", "defer-to-an-old-stop", "the host's stop defers to a person's Stop of an earlier turn";
    EvictWithoutAnEvent, "3.3.5", "evict-without-an-event", "a host's stop that ends work writes no event";

    // Stop: its settle, and whose the turn's end is.
    NamedStopSettles, "3.4.2", "named-stop-settles", "a Stop that named its turn settles like one that did not";
    FailedEndKeepsSettling, "3.4.3", "failed-end-keeps-settling", "a Stop whose end is not proven goes on settling";
    SettleBindsNothing, "3.4.4", "settle-binds-nothing", "the turn that ended under an open settle is not bound to it";
    FailedOnIsBound, "3.4.5", "failed-on-is-bound", "what a failed Stop is shown on counts as what it stopped";
    ForgetTheFirstPress, "3.4.6", "forget-the-first-press", "a second press forgets which turn the first one stopped, and when";
    RepeatDoesNotReopen, "3.4.6", "repeat-does-not-reopen", "a second press does not open the settle of a failed Stop again";
    LeaveTheCutUnclaimed, "3.4.7", "leave-the-cut-unclaimed", "a turn that a person's Stop cut is nobody's cancellation";
    HostStopReadsAsAPersons, "3.4.9", "host-stop-reads-as-a-persons", "a turn that the host cut becomes a person's cancellation";
    OpenSettleClaimsNothing, "3.4.10", "open-settle-claims-nothing", "a turn that ends while a Stop settles is nobody's cancellation";
    GiveUpEndsTheTurn, "3.4.11", "give-up-ends-the-turn", "a Stop whose end is not proven ends the turn by itself";

    // Stop: what the agent is asked, and what it says meanwhile.
    WindDownWithoutACancel, "3.5.1", "wind-down-without-a-cancel", "a Stop waits for the turn's end and never cancels it";
    DropWordsUnderAStop, "3.5.5", "drop-words-under-a-stop", "what the agent says between the Stop and its turn's end is not kept";
    StopReadsAsADeath, "3.5.6", "stop-reads-as-a-death", "the exit that a Stop asked for writes an error row";
    StoppedChildOpensATurn, "3.5.7", "stopped-child-opens-a-turn", "a child that a Stop is ending opens another turn";

    // Stop: its note.
    DoubtAtThePress, "3.6.1", "doubt-at-the-press", "the note says at the press already that the Stop was not confirmed";
    KeyTheNoteByThePress, "3.6.2", "key-the-note-by-the-press", "the note of a running turn is keyed by the press";
    NoteWithoutItsTurn, "3.6.3", "note-without-its-turn", "the note stands in no turn's scope";
    NoteForWhatNeverRan, "3.6.4", "note-for-what-never-ran", "a Stop of a start leaves a note";
    NeverDoubtTheNote, "3.6.5", "never-doubt-the-note", "the note is not revised when the end of the process fails";
    LeaveTheOldNote, "3.6.5", "leave-the-old-note", "a note that moves to its turn leaves the old one behind";
    NeverCorrectTheNote, "3.6.6", "never-correct-the-note", "an unconfirmed note reads unconfirmed also when its turn turned out interrupted";
    CorrectEveryNote, "3.6.6", "correct-every-note", "an unconfirmed note reads taken whatever became of its turn";
    NoteStaysBehindItsTurn, "3.6.7", "note-stays-behind-its-turn", "the batch with a turn's interrupted end does not carry its note";

    // Stop: pressed again, failed, or meant for nothing.
    UnconfirmedEndsStopping, "3.7.1", "unconfirmed-ends-stopping", "a Stop whose end is not proven reads stopping no more";
    PressWithoutARetry, "3.7.2", "press-without-a-retry", "a press on an end that is not proven does not run it again";
    SettleOutlivesItsChild, "3.7.6", "settle-outlives-its-child", "a Stop that stopped nothing goes on settling when its child is gone";
    SecondStopKeepsTheHeld, "3.8.1", "second-stop-keeps-the-held", "a second Stop does not withdraw what the first one held back";
    WithdrawAsAFault, "3.8.2", "withdraw-as-a-fault", "a message that a Stop withdrew reads as the host's fault";

    // Closes, and the host's own stops.
    CloseReadsAsTheHosts, "3.9.1", "close-reads-as-the-hosts", "the event of a person's close says that the host stopped";
    EvictionOfNothingIsRecorded, "3.10.1", "eviction-of-nothing-is-recorded", "a host's stop that ends no work writes an event";
    HostStopTakesThePersonsAway, "3.10.2", "host-stop-takes-the-persons-away", "a host's stop writes its event over the person's Stop that decides the turn";
    QuitIsRecorded, "3.10.3", "quit-is-recorded", "a host that quits writes an event";
    EvictionWaitsForTheStore, "3.10.4", "eviction-waits-for-the-store", "a host's stop is refused while the store refuses";
    CloseWithoutASettle, "3.10.5", "close-without-a-settle", "a person's close does not settle";

    // "Stopping...", and what is published.
    StoppingAtRest, "4.1.1", "stopping-at-rest", "a session that does not work reads stopping";
    StoppingOnAnyTurn, "4.1.2", "stopping-on-any-turn", "a Stop that named a turn reads stopping although that turn never ran";
    LookAtTheFirstTurn, "4.1.3", "look-at-the-first-turn", "the first turn decides whether what a Stop stopped still runs";
    EvictReadsStopping, "4.1.4", "evict-reads-stopping", "the host's own stop reads stopping";
    StoppingHidesAQuestion, "4.1.5", "stopping-hides-a-question", "a session that asks a person something reads stopping";
    StoppingFromTheJournal, "4.1.6", "stopping-from-the-journal", "the latest Stop on disk reads stopping after the host restarted";
    DeriveEveryTime, "4.1.7", "derive-every-time", "a summary is derived again although nothing changed";
    DateByActivity, "4.3.1", "date-by-activity", "every row dates the status anew";
    WholePromptInTheSummary, "4.3.2", "whole-prompt-in-the-summary", "a summary carries the whole of the newest prompt";
    StoppingIsNoNews, "4.4.2", "stopping-is-no-news", "a summary that changes in stopping alone is not sent";
    SettleEdgeUnpublished, "4.4.3", "settle-edge-unpublished", "an edge of a Stop's settle is published only with the next row";
    WelcomeBeforeProjecting, "4.4.4", "welcome-before-projecting", "a newcomer is given what is retained before the sessions are projected again";
    GoneSubscriberSilencesTheRest, "4.4.5", "gone-subscriber-silences-the-rest", "a subscriber that is gone costs those behind it a frame";
    ForgetTheIdle, "4.4.6", "forget-the-idle", "a session without a child is dropped from what is retained";
    LetGoKeepsStopping, "4.4.7", "let-go-keeps-stopping", "a session that the host let go of still reads stopping";
    HoldForEver, "5.4.1", "hold-for-ever", "a message that was sent behind a Stop never goes out";
    HideTheHeld, "5.4.1", "hide-the-held", "a message that waits behind a Stop is not listed as held";

    // Sending.
    ActBeforePersist, "5.1.2", "act-before-persist", "a prompt goes out before its dispatch row is durable";
    AnswerBeforeDurable, "5.1.1", "answer-before-durable", "a send is acknowledged before its row is durable";
    AcceptAtTheWrite, "2.1.1", "accept-at-the-write", "a message counts as accepted when its frame is written";
    ResendAfterCrash, "5.2.1", "resend-after-crash", "a message that was on the wire at an unasked exit goes out again";
    ResendOnRestore, "6.11.1", "resend-on-restore", "a message that was handed over when its host died is still to be delivered";
    ForgetQueuedOnRestore, "6.11.1", "forget-queued-on-restore", "a message that was queued when its host died is not rejected";
    DropTheFenceCheck, "5.10.2", "drop-the-fence-check", "a call that expects a fence that has passed is carried out";

    // Permissions.
    CardUnderAStop, "3.5.4", "card-under-a-stop", "a question that an agent asks under a Stop is put to a person";
    ForgetAPermissionAtStop, "9.4.1", "forget-a-permission-at-stop", "a question that is open at a Stop is never answered";
    AnswerAPermissionTwice, "9.3.1", "answer-a-permission-twice", "an answer on its way to the disk is withdrawn by a Stop as well";

    // The store and the feed.
    LoseRowsOnRefusal, "1.5.8", "lose-rows-on-refusal", "what the store refuses is dropped";
    PublishBeforeDurable, "6.5.1", "publish-before-durable", "a status is published before the rows it rests on are durable";
    BatchWithoutRevision, "6.7.2", "batch-without-revision", "an item that changed goes to watchers under its first revision";
    SummaryNotRepublished, "4.4.1", "summary-not-republished", "a status is published only when the child changes, not when the journal does";
}

#[cfg(feature = "planted-bugs")]
impl PlantedBug {
    /// The bug of a name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|bug| bug.name() == name)
    }
}

#[cfg(all(test, feature = "planted-bugs"))]
mod tests {
    use std::collections::BTreeSet;

    use super::PlantedBug;
    use crate::coverage::tests::kebab;

    #[test]
    fn every_bug_has_a_name_of_its_own_a_rule_and_a_sentence() {
        let names: BTreeSet<_> = PlantedBug::ALL.iter().map(|b| b.name()).collect();
        let sentences: BTreeSet<_> = PlantedBug::ALL.iter().map(|b| b.sentence()).collect();
        assert_eq!((names.len(), sentences.len()), (PlantedBug::ALL.len(), PlantedBug::ALL.len()));
        for bug in PlantedBug::ALL {
            assert_eq!(bug.name(), kebab(&format!("{bug:?}")));
            assert!(bug.rule().starts_with(|c: char| c.is_ascii_digit() || c == 'D'), "{bug:?}");
            assert_eq!(PlantedBug::named(bug.name()), Some(*bug));
        }
        assert_eq!(PlantedBug::named("no-such-bug"), None);
    }
}
