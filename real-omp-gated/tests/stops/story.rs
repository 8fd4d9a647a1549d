//! One session that is stopped again and again at the same moment, and what must hold after each Stop.
//!
//! A Stop ends the agent, and the message behind it is answered by the next one, which is stopped in its turn: so each
//! Stop costs one start, and all but the first meet a session that was reopened.

use moored::agent::Barrier;
use moored::journal::{
    AbortPersisted, ChildRow, EndedAnswer, EndedAs, ItemBody, Outcome, Resolution, RootProof,
    STOP_NOTE, Snapshot, ToolStatus, TreeProof, TurnBody, TurnState,
};
use moored::platform::Exit;
use moored::session::ladder::{EndedHow, Profile};
use moored::session::record::HandleOrigin;
use moored_real_omp_gated::RealAgent;
use moored_real_omp_gated::stub_model::{self, Role};

use super::latency::Stages;
use super::moment::Moment;
use crate::hosted::processes::{self, ProcessIdentity};
use crate::hosted::session_file::Entry;
use crate::hosted::{self, Hosted, Setup, said};

/// Under which windows the agent ends, and whether it is asked to save first.
#[derive(Clone, Copy, Debug)]
pub struct Arm {
    pub profile: Profile,
    pub barrier: Barrier,
}

/// What the agent has on its disk of a turn that was cut.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kept {
    /// The user's message, for a tool turn the failed result, the aborted answer, and how the agent left.
    All,
    /// What was there at the press: the agent was killed.
    UntilThePress,
    /// All of it, or not even the user's message.
    AllOrNothing,
    /// At least what was there at the press: it was killed while it left.
    Some,
}

impl Arm {
    pub const ALL: [Self; 4] = [
        Self { profile: Profile::Posix, barrier: Barrier::WhereOffered },
        Self { profile: Profile::Posix, barrier: Barrier::Off },
        Self { profile: Profile::Win32, barrier: Barrier::WhereOffered },
        Self { profile: Profile::Win32, barrier: Barrier::Off },
    ];

    pub fn name(self) -> &'static str {
        match (self.profile, self.barrier) {
            (Profile::Posix, Barrier::Off) => "posix, no barrier",
            (Profile::Posix, _) => "posix, barrier",
            (Profile::Win32, Barrier::Off) => "win32, no barrier",
            (Profile::Win32, _) => "win32, barrier",
        }
    }

    /// The definition that is shipped has an EOF window of its own. It is measured under `posix`; under `win32` it is
    /// the bare 1 500 ms that are.
    fn setup(self) -> Setup {
        let definition = match self.profile {
            Profile::Posix => hosted::shipped,
            Profile::Win32 => hosted::shipped_with_stock_windows,
        };
        Setup { definition, barrier: self.barrier, profile: self.profile }
    }

    /// How the definition says that the agent ends.
    fn ends(self, moment: Moment) -> (EndedHow, Exit) {
        let killed = (EndedHow::AfterKill, Exit::Signal(9));
        match moment {
            // It keeps SIGTERM pending.
            Moment::Frozen => killed,
            // 5.1 s for its abort, and 1 500 ms to leave (decision D13).
            Moment::Resisting if self.profile == Profile::Win32 && self.barrier == Barrier::Off => {
                killed
            }
            _ => (EndedHow::OnEof, Exit::Code(0)),
        }
    }

    fn kept(self, moment: Moment) -> Kept {
        match (moment, self.ends(moment).0) {
            (Moment::AtOnce, _) => Kept::AllOrNothing,
            (_, EndedHow::OnEof) => Kept::All,
            _ => Kept::UntilThePress,
        }
    }
}

/// What a story has measured.
#[derive(Debug, Default)]
pub struct Told {
    pub stages: Vec<Stages>,
    /// Stops after which the agent did not know of the message it was stopped in.
    pub messages_lost: usize,
    /// Stops after which the agent had not left within the 1 500 ms of win32, which the machine's load decides.
    pub left_late: usize,
}

/// Stops omp so many times in one session.
pub fn tell(agent: &RealAgent, moment: Moment, arm: Arm, stops: usize) -> Told {
    let agent = agent.clone().with_approval(moment.approval());
    let mut omp = Hosted::open_as(&agent, &arm.setup());
    let mut told = Told::default();
    for nth in 1..=stops {
        let stop = OneStop { moment, arm, nth };
        stop.tell(&mut omp, &mut told);
    }
    let gone =
        EndedAnswer { how: Some(EndedHow::OnEof), root: RootProof::Exited, tree: TreeProof::Gone };
    assert_eq!(omp.close(), gone);
    let left = omp.shut_down();
    assert_eq!(left.children().len(), 3 * (stops + 1), "started, exited and settled, each");
    let handles = &left.record.handles;
    let mut origins = handles.iter().map(|link| link.origin);
    assert_eq!(origins.next(), Some(HandleOrigin::Created));
    assert!(origins.all(|origin| origin == HandleOrigin::Resumed), "{handles:?}");
    assert!(handles.iter().all(|link| link.agent_session == handles[0].agent_session));
    told
}

/// The `nth` Stop of a session, with the message before it and the one behind it.
struct OneStop {
    moment: Moment,
    arm: Arm,
    nth: usize,
}

impl OneStop {
    /// What is said in the turn that is cut.
    fn word(&self) -> String {
        format!("apple-{:02}", self.nth)
    }

    /// What is said in the next one.
    fn next_word(&self) -> String {
        format!("pear-{:02}", self.nth)
    }

    /// The turn that is cut is an odd one of the session.
    fn turn(&self) -> usize {
        2 * self.nth - 1
    }

    fn tell(&self, omp: &mut Hosted, told: &mut Told) {
        let word = self.word();
        omp.send(&self.moment.prompt(&word));
        self.moment.reach(omp, self.turn(), &word);
        let tree = tree_of(omp);
        let pressed = omp.now();
        assert!(omp.stop().cancelled, "there was a turn to stop");
        self.assert_cut(omp);
        // Sent when all is over, or right behind the Stop: the host waits by itself.
        if self.nth % 2 == 1 {
            self.assert_gone(omp, &tree);
            let running = others_of(omp);
            assert!(running.is_empty(), "after the proof: {running:?}");
        }
        let next = format!("{} [[stub:recall word={word}]]", self.next_word());
        let next = omp.turn(self.turn() + 1, &next);
        let left_late = self.assert_gone(omp, &tree);
        let kept = match (left_late, self.arm.barrier) {
            (true, Barrier::Off) => Kept::Some,
            // What the barrier has saved no kill takes back.
            _ => self.arm.kept(self.moment),
        };
        let lost = self.assert_file(&omp.entries(), kept);
        self.assert_looked_up(omp, lost, kept);
        self.assert_next(omp, &next, lost, kept);
        told.stages.push(Stages::of(&omp.edge, self.nth, pressed));
        told.messages_lost += usize::from(lost);
        told.left_late += usize::from(left_late);
    }

    /// The host's own timeline: a cancellation under this Stop, and nothing of the turn is left open.
    fn assert_cut(&self, omp: &mut Hosted) {
        let turn = omp.settled(self.turn());
        assert_eq!(
            (turn.state, turn.outcome, turn.under_stop),
            (TurnState::Interrupted, Some(Outcome::Cancellation), true)
        );
        // A frozen agent says nothing.
        let said = (self.moment != Moment::Frozen).then_some("cancelled");
        assert_eq!(turn.stop_reason.as_deref(), said);
        let snapshot = omp.snapshot();
        self.assert_settled(&snapshot, &turn);
        let note =
            |body: &ItemBody| matches!(body, ItemBody::Status(line) if line.text == STOP_NOTE);
        let notes = snapshot.items.iter().filter(|item| note(&item.body)).count();
        assert_eq!(notes, self.nth, "one note for each Stop");
    }

    fn assert_settled(&self, snapshot: &Snapshot, turn: &TurnBody) {
        let of_turn = snapshot.items.iter().filter(|item| item.scope.as_ref() == Some(&turn.turn));
        let (mut cut, mut asked, mut mine) = (0, 0, 0);
        for item in of_turn {
            match &item.body {
                ItemBody::Tool(tool) if tool.ended_as == Some(EndedAs::Interrupted) => {
                    assert_eq!(tool.status, ToolStatus::Failed);
                    cut += 1;
                }
                // The host's `cancelled` for the request is read before the cancel, and now and then omp finds the time
                // to report the call itself.
                ItemBody::Tool(tool) if self.moment == Moment::Permission => {
                    assert_eq!(tool.status, ToolStatus::Failed);
                    cut += 1;
                }
                ItemBody::Tool(tool) => assert_ne!(tool.status, ToolStatus::Running),
                ItemBody::Approval(approval) => {
                    assert_eq!(approval.resolution, Resolution::Cancelled);
                    asked += 1;
                }
                _ => {}
            }
        }
        for item in &snapshot.items {
            mine += usize::from(
                matches!(&item.body, ItemBody::User(user) if user.text.contains(&format!("remember {}", self.word()))),
            );
        }
        assert_eq!(cut, usize::from(self.moment.cuts_a_tool()), "tools that were cut");
        assert_eq!(asked, usize::from(self.moment == Moment::Permission), "permissions asked");
        assert_eq!(mine, 1, "the journal keeps what the person said (decision D20)");
    }

    /// The journal's word on the child, and the kernel's. Whether it was killed because it left late.
    fn assert_gone(&self, omp: &Hosted, tree: &[ProcessIdentity]) -> bool {
        let ended = 3 * self.nth;
        omp.until("the child's end is on record", |omp| omp.children().len() >= ended);
        let running: Vec<_> =
            tree.iter().filter(|process| processes::is_running(process)).collect();
        assert!(running.is_empty(), "proven gone, and running: {running:?}");
        let children = omp.children();
        let [
            ChildRow::Started { .. },
            ChildRow::Exited { how, exit: Some(exit), requested: true, .. },
            ChildRow::Settled { root: RootProof::Exited, tree: TreeProof::Gone, survivors, .. },
        ] = &children[ended - 3..ended]
        else {
            panic!("not started, exited and settled as asked: {children:?}")
        };
        let wanted = self.arm.ends(self.moment);
        let left_late = self.arm.profile == Profile::Win32
            && wanted.0 == EndedHow::OnEof
            && *how == EndedHow::AfterKill;
        if !left_late {
            assert_eq!((*how, *exit), wanted, "{survivors:?}");
        }
        if *how == EndedHow::OnEof {
            assert!(survivors.is_empty(), "{survivors:?}");
        }
        left_late
    }

    /// What the agent has written down of the turn that was cut; whether not even the message is there.
    fn assert_file(&self, entries: &[Entry], kept: Kept) -> bool {
        let said =
            |words: &str| entries.iter().position(|entry| entry.is_by("user") && entry.says(words));
        let next = said(&self.next_word()).expect("the next message is in the file");
        let Some(message) = said(&format!("remember {}", self.word())) else {
            assert_eq!(self.moment, Moment::AtOnce, "{entries:?}");
            return true;
        };
        assert!(message < next, "{entries:?}");
        let turn = &entries[message..next];
        let names: Vec<_> = turn.iter().map(ToString::to_string).collect();
        let count = |name: &str| names.iter().filter(|found| *found == name).count();
        if kept == Kept::Some {
            return false;
        }
        let kept = usize::from(kept != Kept::UntilThePress);
        assert_eq!(count("assistant[aborted]"), kept, "{names:?}");
        assert_eq!(count("session_exit"), kept, "{names:?}");
        let cut = usize::from(self.moment.cuts_a_tool());
        assert_eq!(count("toolResult[failed]"), cut * kept, "{names:?}");
        let calls = cut + usize::from(self.moment == Moment::SecondTool);
        assert_eq!(count("assistant[toolUse]"), calls, "{names:?}");
        // Neither a signal nor a crash: the end of input, or what omp calls a disposal, at `session/close` and once its
        // own patience of 5 s with an abort is over.
        let disposed = self.arm.barrier != Barrier::Off || self.moment == Moment::Resisting;
        let exits: Vec<_> = turn.iter().filter_map(Entry::exit).collect();
        let wanted = if disposed { "dispose/normal" } else { "manual/normal" };
        assert!(exits.iter().all(|exit| exit == wanted), "{exits:?}, not {wanted}");
        false
    }

    /// What the host itself found in that file once the agent had left (decisions D20, D28).
    fn assert_looked_up(&self, omp: &mut Hosted, lost: bool, kept: Kept) {
        let children = omp.children();
        let ChildRow::Settled { abort_persisted, .. } = &children[3 * self.nth - 1] else {
            panic!("not settled: {children:?}")
        };
        let turn = omp.settled(self.turn());
        // With nothing of its first turn to keep, omp may not have made the file yet: nothing is proven then.
        let untold = lost && *abort_persisted == Some(AbortPersisted::Unknown);
        assert_eq!(turn.delivery_unproven, lost && !untold);
        if untold {
            return;
        }
        let wanted = match kept {
            _ if lost => AbortPersisted::No,
            Kept::UntilThePress => AbortPersisted::No,
            // Killed by the load of the machine: whatever the file has.
            Kept::Some => return,
            _ => AbortPersisted::Yes,
        };
        assert_eq!(*abort_persisted, Some(wanted), "{children:?}");
    }

    /// The next turn: in the same session, and the model is sent what came before.
    fn assert_next(&self, omp: &Hosted, next: &TurnBody, lost: bool, kept: Kept) {
        let snapshot = omp.snapshot();
        assert_eq!((next.state, next.outcome), (TurnState::Completed, Some(Outcome::Success)));
        let known = if lost { "no" } else { "yes" };
        assert_eq!(said(&snapshot, next), format!("{known}-{}", self.word()));
        let (word, next_word) = (format!("remember {}", self.word()), self.next_word());
        let asked = omp.model.requests().into_iter().rev().find(|asked| asked.saw(&next_word));
        let entries = asked.expect("the model was asked").entries;
        let by_user = |entry: &stub_model::Entry| entry.role == Role::User;
        let Some(message) = entries.iter().position(|e| by_user(e) && e.text.contains(&word))
        else {
            assert!(lost, "the model is not sent the stopped message: {entries:?}");
            return;
        };
        let after = &entries[message + 1..];
        let turn = &after[..after.iter().position(by_user).expect("the next message")];
        let failed = |entry: &stub_model::Entry| {
            entry.role == Role::Tool && FAILURES.iter().any(|words| entry.text.contains(words))
        };
        let has_call = self.moment.cuts_a_tool() && kept == Kept::All;
        if kept != Kept::Some {
            assert_eq!(
                turn.iter().filter(|entry| failed(entry)).count(),
                usize::from(has_call),
                "{turn:?}"
            );
            assert_eq!(turn.last().is_some_and(failed), has_call, "{turn:?}");
        }
        // After a reload nothing of a cut answer is left.
        assert!(turn.iter().all(|entry| !entry.text.contains("w3 ")), "{turn:?}");
    }
}

/// What runs of the agent, and something does.
pub fn tree_of(hosted: &Hosted) -> Vec<ProcessIdentity> {
    let tree = others_of(hosted);
    assert!(!tree.is_empty(), "or its end would prove nothing");
    tree
}

/// What runs of the agent; the supervisor is ours, and leaves by itself.
pub fn others_of(hosted: &Hosted) -> Vec<ProcessIdentity> {
    let children = hosted.children();
    let supervisor = |child: &ChildRow| match child {
        ChildRow::Started { identity, .. } => identity.supervisor.clone(),
        _ => None,
    };
    let supervisors: Vec<_> = children.iter().filter_map(supervisor).collect();
    let mut processes = hosted.processes();
    processes.retain(|process| !supervisors.contains(process));
    processes
}

/// omp's words for a tool that was cut.
const FAILURES: [&str; 3] =
    ["Command aborted", "Permission request cancelled", "Python kernel shutdown"];
