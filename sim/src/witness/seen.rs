//! Facts.

use moored::driver::WatchFrame;
use moored::ids::{Fence, MessageId, SessionId};
use moored::journal::{ItemBody, Mutation, Resolution, Row, RowKind, TurnState};
use moored::platform::{Exit, Order, ProcessIdentity, Report};
use moored::status::StatusFrame;
use moored::store::{Refusal, Unit};

use super::line::{Line, Shape};
use super::telling::Facts;
use crate::marks::WorldMark;
use crate::scenario::{Act, EventKind, Fault};
use crate::world::{Sig, Stream};

/// The children of a run in the order in which they were asked for, from 0.
pub type ChildNo = usize;
/// The hosts of a run in the order in which they were opened, from 0.
pub type HostNo = usize;

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// An agent read a line.
    AgentRead {
        /// Which.
        child: ChildNo,
        /// What.
        line: &'a Line<'a>,
    },
    /// An agent closed one of its streams.
    AgentClosed {
        /// Which agent.
        child: ChildNo,
        /// Which stream.
        stream: Stream,
    },
    /// An agent wrote a line.
    AgentWrote {
        /// Which.
        child: ChildNo,
        /// What.
        line: &'a Line<'a>,
        /// It answers a prompt.
        answers_prompt: bool,
    },
    /// A client's call is posted.
    Called {
        /// Its number.
        call: usize,
        /// On which host.
        host: HostNo,
        /// What.
        act: &'a Act,
        /// The session.
        session: &'a SessionId,
        /// Whether it repeats an earlier call under the same operation id.
        again: bool,
        /// The fence it expects its session to stand at.
        expects: Option<Fence>,
    },
    /// A client's call is answered.
    Answered {
        /// Its number.
        call: usize,
        /// With what: the refusal's published name, if it was refused.
        refused: Option<&'a str>,
        /// The message a send was about.
        message: Option<&'a MessageId>,
        /// The session.
        session: &'a SessionId,
    },
    /// A client folded a frame of a session.
    Fed {
        /// Which.
        client: usize,
        /// The session.
        session: &'a SessionId,
        /// The host it came from.
        host: HostNo,
        /// What.
        frame: &'a WatchFrame,
    },
    /// A client was told a status.
    Told {
        /// Which.
        client: usize,
        /// The host it came from.
        host: HostNo,
        /// What.
        frame: &'a StatusFrame,
    },
    /// A fault strikes.
    Struck {
        /// Which.
        fault: &'a Fault,
        /// Whether there was anything to strike.
        hit: bool,
    },
    /// The faults are over, and agents that start from here on behave.
    Healed,
    /// A host is open.
    HostOpened {
        /// Which.
        host: HostNo,
    },
    /// A host cannot be opened.
    HostRefused {
        /// Why.
        reason: &'a str,
    },
    /// A host crashed.
    HostCrashed {
        /// Which.
        host: HostNo,
    },
    /// A host ended as it was asked to.
    HostEnded {
        /// Which.
        host: HostNo,
        /// How many sessions have an agent whose end is not proven.
        unproven: usize,
    },
    /// The host does something: an effect of a session's machine, in its short form.
    Did {
        /// Which host.
        host: HostNo,
        /// What.
        what: &'a str,
    },
    /// The host ordered something of a supervisor.
    Ordered {
        /// Of which child.
        child: ChildNo,
        /// What.
        order: &'a Order,
    },
    /// A supervisor reported.
    Reported {
        /// Of which child.
        child: ChildNo,
        /// What.
        report: &'a Report,
    },
    /// A child was asked for.
    Spawning {
        /// Which it will be.
        child: ChildNo,
        /// By which host.
        host: HostNo,
        /// For which session.
        session: &'a SessionId,
        /// Its token.
        token: &'a str,
    },
    /// It could not be started.
    SpawnFailed {
        /// Which.
        child: ChildNo,
        /// Why.
        reason: &'a str,
    },
    /// The host wrote a line to an agent.
    HostWrote {
        /// Which.
        child: ChildNo,
        /// What.
        line: &'a Line<'a>,
    },
    /// The host closed an agent's stdin.
    StdinClosed {
        /// Which.
        child: ChildNo,
        /// Because the host is gone.
        by_crash: bool,
        /// Nobody reads it any more.
        broken: bool,
    },
    /// A process is there.
    ProcessStarted {
        /// Who.
        identity: &'a ProcessIdentity,
        /// Its name.
        name: &'a str,
        /// The spawn token it carries.
        token: Option<&'a str>,
        /// It is what its supervisor started, or what a job was made for.
        root: bool,
    },
    /// A process is gone.
    ProcessEnded {
        /// Who.
        identity: &'a ProcessIdentity,
        /// How.
        exit: &'a Exit,
    },
    /// Somebody sent a signal.
    SignalSent {
        /// To whom.
        target: &'a ProcessIdentity,
        /// Which.
        sig: Sig,
        /// It was a fault of the world and not the library's doing.
        fault: bool,
    },
    /// A unit was handed to the store.
    Submitted {
        /// By which host.
        host: HostNo,
        /// What.
        unit: &'a Unit,
    },
    /// A unit is about to be stored, in the same step.
    Stored {
        /// Of which host.
        host: HostNo,
        /// What.
        unit: &'a Unit,
    },
    /// The host was told that a unit is durable, or that it was not taken.
    UnitAnswered {
        /// Which host.
        host: HostNo,
        /// Whose unit.
        session: &'a SessionId,
        /// Its last row.
        last_seq: u64,
        /// Why it was not taken.
        refusal: Option<&'a Refusal>,
    },
}

impl Seen<'_> {
    /// What triggers may hang on in it.
    pub(super) fn kinds(&self, facts: &Facts) -> impl Iterator<Item = EventKind> {
        use EventKind as Kind;
        let mut rows = Vec::new();
        let one = match self {
            Self::AgentRead { line, .. } => match line.method() {
                Some("session/prompt") => Some(Kind::PromptRead),
                Some("session/cancel") => Some(Kind::CancelRead),
                _ => None,
            },
            Self::AgentWrote { answers_prompt: true, .. } => Some(Kind::AgentAnswered),
            Self::AgentWrote { line, .. } => match line.shape {
                Shape::Answer => Some(Kind::AgentReplied),
                Shape::Call("session/update") => Some(Kind::AgentUpdated),
                Shape::Call(_) if line.is_request() => Some(Kind::AgentAsked),
                Shape::Call(_) | Shape::Noise => None,
            },
            Self::Called { .. } => Some(Kind::CallMade),
            Self::Answered { .. } => Some(Kind::CallAnswered),
            Self::Fed { .. } => Some(Kind::ClientFed),
            Self::Told { .. } => Some(Kind::StatusSeen),
            Self::HostOpened { .. } => Some(Kind::HostOpened),
            Self::HostCrashed { .. } => Some(Kind::HostCrashed),
            Self::HostWrote { line, .. } => match line.shape {
                Shape::Answer => Some(Kind::ReplyWritten),
                Shape::Call("session/prompt") => Some(Kind::PromptWritten),
                Shape::Call("session/cancel") => Some(Kind::CancelWritten),
                Shape::Call("session/close") => Some(Kind::CloseWritten),
                Shape::Call("initialize") => Some(Kind::InitializeWritten),
                Shape::Call("session/new" | "session/load" | "session/resume") => {
                    Some(Kind::SessionWritten)
                }
                Shape::Call(_) | Shape::Noise => None,
            },
            Self::StdinClosed { .. } => Some(Kind::StdinClosed),
            Self::ProcessStarted { root: true, .. } => Some(Kind::ProcessStarted),
            Self::ProcessEnded { identity, .. } if facts.is_root(identity) => {
                Some(Kind::ProcessEnded)
            }
            Self::SignalSent { fault: false, .. } => Some(Kind::SignalSent),
            Self::Submitted { .. } => Some(Kind::UnitSubmitted),
            Self::Stored { unit, .. } => {
                unit.rows.iter().for_each(|row| row_kinds(row, &mut rows));
                Some(Kind::UnitStored)
            }
            Self::UnitAnswered { .. } => Some(Kind::UnitAnswered),
            _ => None,
        };
        one.into_iter().chain(rows)
    }

    /// The coverage mark of the world it meets.
    pub(super) fn mark(&self, facts: &Facts) -> Option<WorldMark> {
        use WorldMark as Mark;
        Some(match self {
            Self::HostCrashed { .. } if facts.has_live_child() => Mark::HostCrashedOverLiveAgent,
            Self::HostCrashed { .. } => Mark::HostCrashedAtRest,
            Self::HostRefused { .. } => Mark::SecondHostRefused,
            Self::SpawnFailed { .. } => Mark::SpawnFailed,
            Self::UnitAnswered { refusal: Some(Refusal::Closed { .. }), .. } => Mark::StoreClosed,
            Self::UnitAnswered { refusal: Some(Refusal::Retry { .. }), .. } => Mark::StoreRefused,
            Self::Answered { refused: Some(_), .. } => Mark::CallRefused,
            Self::Called { again: true, .. } => Mark::CallRepeated,
            Self::StdinClosed { by_crash: true, .. } => Mark::StdinClosedByCrash,
            Self::Reported { report: Report::SupervisorLost, .. } => Mark::SupervisorLost,
            Self::Reported { report: Report::Signalled { delivered: false, .. }, .. } => {
                Mark::SignalNotDelivered
            }
            Self::Reported { report: Report::Swept { survivors, .. }, .. }
                if !survivors.is_empty() =>
            {
                Mark::SurvivorsFound
            }
            Self::HostEnded { unproven: 1.., .. } => Mark::HostEndedUnproven,
            Self::Struck { fault: Fault::Suspend { .. }, .. } => Mark::Suspended,
            Self::Struck { fault: Fault::ClockStep { ms: ..0 }, .. } => Mark::WallClockStepBack,
            _ => return None,
        })
    }
}

fn row_kinds(row: &Row, kinds: &mut Vec<EventKind>) {
    let body = |body: &ItemBody, kinds: &mut Vec<EventKind>| match body {
        ItemBody::Turn(turn) if turn.state == TurnState::Running => {
            kinds.push(EventKind::TurnStarted);
        }
        ItemBody::Turn(_) => kinds.push(EventKind::TurnEnded),
        ItemBody::Approval(a) if a.resolution == Resolution::Pending => {
            kinds.push(EventKind::PermissionRaised);
        }
        _ => {}
    };
    match &row.kind {
        RowKind::Item(item) => body(&item.body, kinds),
        RowKind::Batch { mutations, .. } => {
            for mutation in mutations {
                if let Mutation::Item(item) = mutation {
                    body(&item.body, kinds);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What triggers hang on once these have happened, in order.
    fn kinds_of(seen: &[Seen<'_>]) -> Vec<EventKind> {
        let mut facts = Facts::default();
        let of = |seen: &Seen<'_>| {
            facts.learn(seen);
            seen.kinds(&facts).collect::<Vec<_>>()
        };
        seen.iter().flat_map(of).collect()
    }

    #[test]
    fn the_beginning_and_the_end_of_a_childs_root_set_things_off_and_no_other_process_does() {
        let session = SessionId::from("s1");
        let (root, other) =
            (ProcessIdentity { pid: 1, start: 1 }, ProcessIdentity { pid: 2, start: 1 });
        let (token, exit) = (Some("token"), Exit::Code(0));
        let started =
            |identity, root| Seen::ProcessStarted { identity, name: "agent", token, root };
        let seen = [
            Seen::Spawning { child: 0, host: 0, session: &session, token: "token" },
            started(&root, true),
            started(&other, false),
            Seen::ProcessEnded { identity: &other, exit: &exit },
            Seen::ProcessEnded { identity: &root, exit: &exit },
        ];
        assert_eq!(kinds_of(&seen), [EventKind::ProcessStarted, EventKind::ProcessEnded]);
    }
}
