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
