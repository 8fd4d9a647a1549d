//! What a run may have in it: a closed list, each line switched on or off for the whole run.

use std::collections::BTreeSet;

use super::dice::{Dice, Stream};

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident: $text:literal, $odds:literal;)*) => {
        /// Something a run may have in it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Feature {
            $($(#[$doc])* $name,)*
        }

        impl Feature {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name, as a scenario's options tell it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// In how many of 16 runs it is on.
            pub const fn odds(self) -> u64 {
                match self { $(Self::$name => $odds,)* }
            }
        }
    };
}

features! {
    // Persons.
    /// More messages than one.
    MoreMessages: "more_messages", 10;
    /// A long conversation.
    ManyMessages: "many_messages", 3;
    /// Messages that cut the running turn.
    Steers: "steers", 5;
    /// Stops.
    Stops: "stops", 10;
    /// More Stops than one.
    MoreStops: "more_stops", 6;
    /// Stops that name a turn.
    NamedStops: "named_stops", 5;
    /// The session is closed.
    Closes: "closes", 4;
    /// Calls that are made again.
    RepeatedCalls: "repeated_calls", 4;
    /// A message that is sent again.
    RepeatedMessages: "repeated_messages", 3;
    /// Another text under a message's id.
    OtherTexts: "other_texts", 3;

    /// Things happen at the same moment.
    Together: "together", 8;

    // The agent's turns.
    /// Turns take seconds to minutes.
    LongTurns: "long_turns", 14;
    /// Tool calls.
    Tools: "tools", 9;
    /// Questions to a person.
    Permissions: "permissions", 7;
    /// Questions with odd options.
    OddOptions: "odd_options", 3;
    /// Questions that are taken back.
    WithdrawnQuestions: "withdrawn_questions", 3;
    /// Ids of requests that are used again.
    ReusedIds: "reused_ids", 3;
    /// Text behind an answer.
    LateText: "late_text", 4;
    /// News of a call behind an answer.
    LateTools: "late_tools", 4;
    /// A cancelled turn ends as if it had not been.
    EndsAfterCancel: "ends_after_cancel", 4;
    /// A prompt is never answered.
    NeverAnswers: "never_answers", 3;
    /// A cancel takes its time.
    SlowCancels: "slow_cancels", 4;
    /// A cancel right behind its prompt is lost.
    LostCancels: "lost_cancels", 3;
    /// A cancel hits what comes after it.
    StaleCancels: "stale_cancels", 2;
    /// Errors for answers.
    ErrorAnswers: "error_answers", 3;
    /// Errors that say nobody is signed in.
    SignedOutAnswers: "signed_out_answers", 2;
    /// Other stop reasons.
    OddReasons: "odd_reasons", 4;
    /// Answers that do not parse.
    BadAnswers: "bad_answers", 3;
    /// Answers that come twice.
    DoubleAnswers: "double_answers", 4;
    /// Answers whose id comes back in another form.
    OddIds: "odd_ids", 2;
    /// `cancelled` though nobody asked.
    UnaskedCancels: "unasked_cancels", 3;
    /// The prompt is repeated.
    Echoes: "echoes", 3;
    /// Frames in pieces.
    SplitFrames: "split_frames", 3;
    /// Noise on stdout.
    Noise: "noise", 3;
    /// Words on stderr, and floods of them.
    Stderr: "stderr", 3;
    /// Texts beyond one row.
    BigTexts: "big_texts", 2;
    /// Updates nobody knows.
    OddUpdates: "odd_updates", 4;
    /// Turns that the agent begins.
    AgentTurns: "agent_turns", 5;
    /// Requests nobody knows.
    OddRequests: "odd_requests", 3;
    /// The agent stops to read.
    StopsReading: "stops_reading", 2;
    /// The agent closes its stdout and lives on.
    ClosesStdout: "closes_stdout", 2;
    /// The agent closes its stdin and lives on.
    ClosesStdin: "closes_stdin", 2;
    /// A prompt that meets a running turn is not queued.
    BusyAgents: "busy_agents", 2;

    // The agent's falls.
    /// It falls at its start.
    FallsAtStart: "falls_at_start", 1;
    /// It falls in `initialize`.
    FallsInInitialize: "falls_in_initialize", 1;
    /// It falls in `session/new`.
    FallsInSession: "falls_in_session", 1;
    /// It falls in a turn.
    FallsInTurns: "falls_in_turns", 5;
    /// It falls at a cancel.
    FallsAtCancel: "falls_at_cancel", 3;
    /// It falls behind an answer, or with nothing to do.
    FallsIdle: "falls_idle", 3;
    /// It falls by signals too.
    DiesBySignal: "dies_by_signal", 8;

    // The agent's start.
    /// It takes its time.
    SlowStart: "slow_start", 4;
    /// It asks for a sign-in.
    SignIn: "sign_in", 2;
    /// It cannot reopen its sessions.
    NoReopen: "no_reopen", 3;
    /// It speaks another version.
    OtherVersion: "other_version", 1;
    /// It is no supported release.
    OtherRelease: "other_release", 1;
    /// It refuses a request of the handshake.
    RefusedStart: "refused_start", 1;
    /// It speaks before its session is ready.
    EarlyFrames: "early_frames", 3;
    /// It repeats what was said when it reopens a session.
    Replays: "replays", 5;
    /// It loses its sessions.
    LostSessions: "lost_sessions", 3;
    /// It reopens a session under another id.
    OtherSession: "other_session", 2;

    // The agent's end.
    /// It does not leave on EOF.
    IgnoresEof: "ignores_eof", 5;
    /// It takes its time on EOF.
    SlowAtEof: "slow_at_eof", 4;
    /// It falls on EOF.
    FallsAtEof: "falls_at_eof", 2;
    /// It does not leave on SIGTERM.
    IgnoresTerm: "ignores_term", 6;
    /// It freezes.
    Freezes: "freezes", 2;
    /// It starts processes.
    Forks: "forks", 4;
    /// They have sessions of their own.
    ForksAway: "forks_away", 8;
    /// They hold its stdout.
    ForksHoldStdout: "forks_hold_stdout", 8;
    /// They ignore SIGTERM.
    ForksIgnoreTerm: "forks_ignore_term", 8;

    // What goes wrong.
    /// The agent is killed.
    AgentKilled: "agent_killed", 4;
    /// The agent is frozen.
    AgentFrozen: "agent_frozen", 3;
    /// The wall clock is set.
    ClockSteps: "clock_steps", 3;
    /// The host crashes.
    HostCrashes: "host_crashes", 5;
    /// The host is ended and opened again.
    HostRestarts: "host_restarts", 4;
    /// The host crashes at a commit.
    CommitCrashes: "commit_crashes", 3;
    /// The machine loses its power.
    PowerLosses: "power_losses", 2;
    /// Another host opens the store.
    SecondHosts: "second_hosts", 3;
    /// The store refuses.
    StoreRefuses: "store_refuses", 6;
    /// The store is closed for good.
    StoreCloses: "store_closes", 2;
    /// The store stalls.
    StoreStalls: "store_stalls", 5;
    /// The store answers late.
    StoreLate: "store_late", 4;
    /// The supervisor is killed.
    SupervisorKilled: "supervisor_killed", 3;
    /// The machine is suspended.
    Suspends: "suspends", 3;
    /// More faults than two.
    ManyFaults: "many_faults", 2;

    // The machine and the host.
    /// The machine is of the win32 kind.
    Win32: "win32", 3;
    /// Signals are refused.
    SignalsRefused: "signals_refused", 2;
    /// Forks are refused.
    ForksRefused: "forks_refused", 2;
    /// Start times cannot be read.
    StartsUnreadable: "starts_unreadable", 2;
    /// Supervisors cannot be started.
    SupervisorsRefused: "supervisors_refused", 2;
    /// Process numbers are given again at once.
    PidsReused: "pids_reused", 4;
    /// Pipes are slow.
    SlowPipes: "slow_pipes", 3;
    /// Timers are late.
    LateTimers: "late_timers", 3;
    /// Disks are slow.
    SlowDisks: "slow_disks", 3;
    /// Starts, exits and signals are slow.
    SlowProcesses: "slow_processes", 3;
    /// What an agent leaves running is left.
    KeepBackground: "keep_background", 2;
    /// The definition lengthens the EOF window.
    LongEofGrace: "long_eof_grace", 2;
    /// The definition answers questions.
    AllowOnce: "allow_once", 2;
    /// The definition reopens by `session/resume`.
    ByResume: "by_resume", 8;
    /// More sessions than one.
    MoreSessions: "more_sessions", 3;
    /// More clients than one.
    MoreClients: "more_clients", 6;
    /// Clients leave.
    ClientsLeave: "clients_leave", 3;
    /// Clients pause.
    ClientsPause: "clients_pause", 3;
    /// Clients load history late.
    ClientsLoadLate: "clients_load_late", 3;
    /// Few frames wait for a client.
    SmallWatches: "small_watches", 3;

    // The kernel.
    /// madsim's own scheduler.
    Madsim: "madsim", 1;
    /// The tape inside madsim.
    TapeInMadsim: "tape_in_madsim", 1;
    /// Few preemptions, in odd places.
    Pct: "pct", 2;
    /// First come, first served.
    Fifo: "fifo", 1;

    // Situations that the rest makes too rarely.
    /// Stop is pressed again while an agent that does not answer has its grace.
    PressedInGrace: "pressed_in_grace", 2;
    /// Stop is pressed while an agent that fell is not settled: what it started holds its stdout.
    PressedBehindFall: "pressed_behind_fall", 2;
    /// A Stop is asked again under its operation id when the next message is with the agent.
    StopAskedAgain: "stop_asked_again", 3;

    // Around a handover and an end; behind all others, whose draws they leave as they were.
    /// It falls right behind the answer that makes its session ready.
    FallsWhenReady: "falls_when_ready", 1;
    /// A Stop is pressed while a message is handed over.
    StopsAtHandover: "stops_at_handover", 4;
    /// Nothing is said before a turn's answer.
    SilentTurns: "silent_turns", 3;
    /// It leaves for nothing but SIGKILL, which may be late, and may take longer to die than anybody waits.
    Resists: "resists", 3;
    /// A commit takes longer than an end with all its windows.
    LongStalls: "long_stalls", 2;
    /// The ends of stdout and stderr are read late, in any order.
    LateEnds: "late_ends", 3;

    // Around the barrier.
    /// The answer to `session/close` takes its time, or never comes.
    SlowCloses: "slow_closes", 4;
    /// `session/close` is not offered.
    NoClose: "no_close", 5;
    /// Stop is pressed again and again while an agent saves.
    PressedAtBarrier: "pressed_at_barrier", 2;
    /// The host lets a child go.
    Evictions: "evictions", 5;

    // The agent's own disk.
    /// The definition says how the agent's session file is read.
    FileKnown: "file_known", 2;
    /// The agent does not keep what it is told before it answers.
    ForgetsPrompts: "forgets_prompts", 5;
}

const _: () = assert!(Feature::ALL.len() <= 128, "a set of features is one word");

/// A set of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u128);

impl Features {
    /// None.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self::of(Feature::ALL);

    /// These.
    pub const fn of(features: &[Feature]) -> Self {
        let mut set = 0;
        let mut at = 0;
        while at < features.len() {
            set |= 1 << features[at] as u128;
            at += 1;
        }
        Self(set)
    }

    /// Whether one is on.
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & (1 << feature as u128) != 0
    }

    /// Whether any of these is on.
    pub const fn has_any(self, of: &[Feature]) -> bool {
        self.0 & Self::of(of).0 != 0
    }

    /// What is on in either.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is on in this one and not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Those that are on, in order.
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        Feature::ALL.iter().copied().filter(move |feature| self.has(*feature))
    }

    /// Their names.
    pub fn names(self) -> BTreeSet<String> {
        self.iter().map(|feature| feature.name().to_owned()).collect()
    }

    /// What a seed switches on. Every feature takes one draw, in the order of the list.
    pub(super) fn drawn(seed: u64) -> Self {
        let mut dice = Dice::new(seed, Stream::Features);
        let mut on = Self::NONE;
        for feature in Feature::ALL {
            if dice.in_16(feature.odds()) {
                on = on.with(Self::of(&[*feature]));
            }
        }
        on
    }
}
