//! What a witness knows of the run so far, and how it tells a fact in a timeline.

use std::collections::{BTreeMap, BTreeSet};

use moored::driver::WatchFrame;
use moored::ids::{MessageId, SessionId};
use moored::platform::{Exit, Mono, ProcessIdentity, Report};
use moored::status::StatusFrame;

use super::line::{Shape, same_id};
use super::seen::{ChildNo, HostNo, Seen};
use crate::timeline::{Entry, Lane};
use crate::world::Sig;

/// A child, as far as it was seen.
#[derive(Clone, Debug)]
pub struct Child {
    /// Whose.
    pub session: SessionId,
    /// Which host asked for it.
    pub host: HostNo,
    /// Its spawn token.
    pub token: String,
    /// Its root, once it was started.
    pub root: Option<ProcessIdentity>,
    /// Its supervisor, where it has one.
    pub supervisor: Option<ProcessIdentity>,
    /// Living processes that carry its token, the supervisor not among them.
    pub living: BTreeSet<ProcessIdentity>,
    /// How its root ended.
    pub exit: Option<Exit>,
    /// Its host was told of that end.
    pub told: bool,
    /// Its host was told that nobody is left who could prove its end.
    pub lost: bool,
    /// Ids of prompts it has read and not answered yet: a second answer is none.
    pub prompts: BTreeSet<String>,
    /// Ids of everything its host has asked it.
    pub asked: BTreeSet<String>,
}

/// What is known so far.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Every child, by its number.
    pub children: Vec<Child>,
    tokens: BTreeMap<String, ChildNo>,
    processes: BTreeMap<ProcessIdentity, ChildNo>,
    /// Hosts that are open.
    pub hosts: BTreeSet<HostNo>,
    /// Messages whose send was refused, and the name it was refused by.
    pub refused: BTreeMap<MessageId, String>,
    /// What agents leave running is left on purpose (decision D21).
    pub leaves_background: bool,
    /// The faults are over.
    pub healed: bool,
}

impl Facts {
    /// The child that carries a token.
    pub fn child_of_token(&self, token: &str) -> Option<ChildNo> {
        self.tokens.get(token).copied()
    }

    /// The child a process belongs to.
    pub fn child_of(&self, process: &ProcessIdentity) -> Option<ChildNo> {
        self.processes.get(process).copied()
    }

    /// Whether a process is the root of a child's tree, dead or alive.
    pub fn is_root(&self, process: &ProcessIdentity) -> bool {
        self.child_of(process)
            .is_some_and(|child| self.children[child].root.as_ref() == Some(process))
    }

    /// Whether no child of the same session was asked for behind this one.
    pub fn is_the_newest(&self, child: ChildNo) -> bool {
        let session = &self.children[child].session;
        self.children.iter().rposition(|other| other.session == *session) == Some(child)
    }

    /// The newest child whose root lives.
    pub fn newest_living(&self) -> Option<ChildNo> {
        self.children.iter().rposition(|child| child.root.is_some() && child.exit.is_none())
    }

    /// Whether any root lives.
    pub fn has_live_child(&self) -> bool {
        self.newest_living().is_some()
    }

    /// Whether the end of a session's newest child can no longer be proven to `host`: its supervisor was lost, or it is
    /// another host's.
    pub fn is_unprovable(&self, session: &SessionId, host: Option<HostNo>) -> bool {
        let newest = self.children.iter().rev().find(|child| child.session == *session);
        // What an earlier host was told may have died with it.
        newest.is_some_and(|child| (child.lost && !child.told) || Some(child.host) != host)
    }

    pub(crate) fn learn(&mut self, seen: &Seen<'_>) {
        match seen {
            Seen::Spawning { child, host, session, token } => {
                debug_assert_eq!(*child, self.children.len(), "children are counted as they come");
                self.tokens.insert((*token).to_owned(), *child);
                self.children.push(Child {
                    session: (*session).clone(),
                    host: *host,
                    token: (*token).to_owned(),
                    root: None,
                    supervisor: None,
                    living: BTreeSet::new(),
                    exit: None,
                    told: false,
                    lost: false,
                    prompts: BTreeSet::new(),
                    asked: BTreeSet::new(),
                });
            }
            Seen::ProcessStarted { identity, token: Some(token), root, name } => {
                let Some(no) = self.child_of_token(token) else { return };
                let child = &mut self.children[no];
                self.processes.insert((*identity).clone(), no);
                if *root {
                    child.root = Some((*identity).clone());
                } else if *name == crate::world::SUPERVISOR {
                    child.supervisor = Some((*identity).clone());
                    return;
                }
                child.living.insert((*identity).clone());
            }
            Seen::ProcessEnded { identity, exit } => {
                let Some(no) = self.child_of(identity) else { return };
                let child = &mut self.children[no];
                child.living.remove(*identity);
                if child.root.as_ref() == Some(*identity) {
                    child.exit = Some(**exit);
                }
            }
            Seen::HostWrote { child, line } if line.is_request() => {
                if let (Some(child), Some(id)) = (self.children.get_mut(*child), line.id) {
                    child.asked.insert(id.to_owned());
                }
            }
            Seen::AgentRead { child, line } if line.method() == Some("session/prompt") => {
                if let (Some(child), Some(id)) = (self.children.get_mut(*child), line.id) {
                    child.prompts.insert(id.to_owned());
                }
            }
            Seen::AgentWrote { child, line, answers_prompt: true } => {
                if let (Some(child), Some(id)) = (self.children.get_mut(*child), line.id) {
                    child.prompts.retain(|asked| !same_id(asked, id));
                }
            }
            Seen::Reported { child, report } => {
                let Some(child) = self.children.get_mut(*child) else { return };
                // A host that is gone is told nothing.
                let hears = self.hosts.contains(&child.host);
                child.told |= hears && matches!(report, Report::Exited { .. });
                child.lost |= **report == Report::SupervisorLost;
            }
            Seen::HostOpened { host } => {
                self.hosts.insert(*host);
            }
            Seen::HostCrashed { host } | Seen::HostEnded { host, .. } => {
                self.hosts.remove(host);
            }
            Seen::Answered { refused: Some(name), message: Some(message), .. } => {
                self.refused.insert((*message).clone(), (*name).to_owned());
            }
            Seen::Healed => self.healed = true,
            _ => {}
        }
    }

    /// The id under which the host asked what an agent answers with `id`.
    pub(super) fn asked_as(&self, child: ChildNo, id: Option<&str>) -> Option<String> {
        let (asked, id) = (&self.children.get(child)?.asked, id?);
        let exactly = asked.get(id);
        exactly.or_else(|| asked.iter().find(|asked| same_id(asked, id))).cloned()
    }

    /// Whether a frame with this id answers a prompt of the child's.
    pub fn answers_prompt(&self, child: ChildNo, id: Option<&str>) -> bool {
        let prompts = self.children.get(child).map(|c| &c.prompts);
        id.is_some_and(|id| prompts.is_some_and(|p| p.iter().any(|asked| same_id(asked, id))))
    }

    fn name(&self, process: &ProcessIdentity) -> String {
        let tag = crate::world::tag(process.pid);
        match self.child_of(process) {
            Some(no) => format!("{tag} of child {no}"),
            None => tag,
        }
    }

    /// How a fact is told in a timeline; some are too small to be told.
    pub(super) fn entry(&self, at: Mono, seen: &Seen<'_>) -> Option<Entry> {
        let (lane, kind, words) = self.tell(seen)?;
        let detail = detail(seen);
        let link = link(seen).and_then(|n| u32::try_from(n).ok());
        Some(Entry { at, lane, kind: kind.into(), words, detail, link })
    }

    fn tell(&self, seen: &Seen<'_>) -> Option<(Lane, &'static str, String)> {
        Some(match seen {
            Seen::Called { call, act, again, .. } => {
                let again = if *again { " (again)" } else { "" };
                (Lane::User, "call", format!("#{call} {act}{again}"))
            }
            Seen::Answered { call, refused: None, .. } => {
                (Lane::User, "answer", format!("#{call} is answered"))
            }
            Seen::Answered { call, refused: Some(name), .. } => {
                (Lane::User, "refusal", format!("#{call} is refused: {name}"))
            }
            Seen::Struck { fault, hit } => {
                let missed = if *hit { "" } else { " (nothing to strike)" };
                (Lane::Host, "fault", format!("FAULT {fault}{missed}"))
            }
            Seen::Healed => (Lane::Host, "healed", "the faults are over".to_owned()),
            Seen::HostOpened { host } => (Lane::Host, "open", format!("host {host} is open")),
            Seen::HostRefused { reason } => (Lane::Host, "refused", (*reason).to_owned()),
            Seen::HostCrashed { host } => (Lane::Host, "crash", format!("host {host} crashed")),
            Seen::HostEnded { host, unproven: 0 } => {
                (Lane::Host, "end", format!("host {host} ended"))
            }
            Seen::HostEnded { host, unproven } => {
                (Lane::Host, "end", format!("host {host} ended, {unproven} ends unproven"))
            }
            Seen::Did { host, what } => {
                let told = if self.hosts.len() > 1 {
                    format!("host {host}: {what}")
                } else {
                    (*what).to_owned()
                };
                (Lane::Host, "effect", told)
            }
            Seen::Ordered { order, .. } => (Lane::Process, "order", format!("order {order:?}")),
            Seen::Reported { report, .. } => {
                (Lane::Process, "report", format!("report {report:?}"))
            }
            Seen::Spawning { child, session, .. } => {
                (Lane::Process, "spawn", format!("child {child} of {session} is asked for"))
            }
            Seen::SpawnFailed { child, reason } => {
                (Lane::Process, "spawn-failed", format!("child {child}: {reason}"))
            }
            Seen::HostWrote { child, line } => {
                (Lane::Wire, "to-agent", format!("to {child}: {}", shape(line.shape, line.id)))
            }
            Seen::AgentWrote { child, line, .. } => {
                (Lane::Wire, "from-agent", format!("from {child}: {}", shape(line.shape, line.id)))
            }
            Seen::AgentRead { child, line } => {
                (Lane::Agent, "read", format!("{child} reads {}", shape(line.shape, line.id)))
            }
            Seen::AgentClosed { child, stream } => {
                (Lane::Agent, "close", format!("{child} closes its {stream:?}"))
            }
            Seen::StdinClosed { child, by_crash, .. } => {
                let why = if *by_crash { " (the host is gone)" } else { "" };
                (Lane::Wire, "eof", format!("stdin of {child} is closed{why}"))
            }
            Seen::ProcessStarted { identity, name, .. } => {
                (Lane::Process, "start", format!("{name} starts as {}", self.name(identity)))
            }
            Seen::ProcessEnded { identity, exit } => {
                (Lane::Process, "exit", format!("{} is gone: {exit:?}", self.name(identity)))
            }
            Seen::SignalSent { target, sig, fault } => {
                let who = if *fault { "somebody sends" } else { "sent" };
                (
                    Lane::Process,
                    "signal",
                    format!("{who} {} to {}", sig_name(*sig), self.name(target)),
                )
            }
            Seen::Submitted { unit, .. } => {
                (Lane::Store, "submitted", format!("{} rows of {}", unit.rows.len(), unit.session))
            }
            Seen::Stored { unit, .. } => {
                let last = unit.rows.last().map_or(0, |row| row.seq);
                (Lane::Store, "stored", format!("{} to row {last}", unit.session))
            }
            Seen::UnitAnswered { session, last_seq, refusal: None, .. } => {
                (Lane::Store, "answered", format!("{session} to row {last_seq} is durable"))
            }
            Seen::UnitAnswered { session, refusal: Some(refusal), .. } => {
                (Lane::Store, "refused", format!("{session}: {refusal:?}"))
            }
            Seen::Fed { client, session, frame, .. } => {
                let what = match frame {
                    WatchFrame::Snapshot(s) => {
                        format!("the whole of {session} to {}", s.cursor.seq)
                    }
                    WatchFrame::Batch(b) => format!("{session} to {}", b.cursor.seq),
                    _ => format!("the end of {session}"),
                };
                (Lane::Client, "fed", format!("client {client} gets {what}"))
            }
            Seen::Told { client, frame: StatusFrame::Status { summary }, .. } => {
                let stopping = if summary.stopping { ", stopping" } else { "" };
                let status = summary.status.map_or("none".to_owned(), |s| format!("{s:?}"));
                (
                    Lane::Feed,
                    "status",
                    format!("to {client}: {} {status}{stopping}", summary.session_id),
                )
            }
            Seen::Told { client, frame, .. } => {
                let what = match frame {
                    StatusFrame::Snapshot { summaries } => {
                        format!("all {} statuses", summaries.len())
                    }
                    _ => "the end".to_owned(),
                };
                (Lane::Feed, "status", format!("to {client}: {what}"))
            }
        })
    }
}

fn shape(shape: Shape<'_>, id: Option<&str>) -> String {
    let what = match shape {
        Shape::Call(method) => method,
        Shape::Answer => "answer",
        Shape::Noise => "noise",
    };
    id.map_or_else(|| what.to_owned(), |id| format!("{what} {id}"))
}

fn sig_name(sig: Sig) -> &'static str {
    match sig {
        Sig::Abrt => "ABRT",
        Sig::Cont => "CONT",
        Sig::Hup => "HUP",
        Sig::Int => "INT",
        Sig::Kill => "KILL",
        Sig::Segv => "SEGV",
        Sig::Stop => "STOP",
        Sig::Term => "TERM",
    }
}

/// The whole of it, for a reader who points at it.
fn detail(seen: &Seen<'_>) -> String {
    let json = |value: Result<String, serde_json::Error>| value.unwrap_or_default();
    match seen {
        Seen::HostWrote { line, .. }
        | Seen::AgentWrote { line, .. }
        | Seen::AgentRead { line, .. } => String::from_utf8_lossy(line.bytes).into_owned(),
        Seen::Submitted { unit, .. } | Seen::Stored { unit, .. } => {
            let rows: Vec<String> = unit.rows.iter().map(moored::journal::Row::to_text).collect();
            rows.join("\n")
        }
        Seen::Fed { frame: WatchFrame::Batch(batch), .. } => json(serde_json::to_string(batch)),
        Seen::Fed { frame: WatchFrame::Snapshot(whole), .. } => json(serde_json::to_string(whole)),
        Seen::Told { frame, .. } => json(serde_json::to_string(frame)),
        _ => String::new(),
    }
}

/// Events of one cause share a number: those of one child.
fn link(seen: &Seen<'_>) -> Option<usize> {
    match seen {
        Seen::AgentRead { child, .. }
        | Seen::AgentClosed { child, .. }
        | Seen::AgentWrote { child, .. }
        | Seen::HostWrote { child, .. }
        | Seen::StdinClosed { child, .. }
        | Seen::Spawning { child, .. }
        | Seen::SpawnFailed { child, .. }
        | Seen::Ordered { child, .. }
        | Seen::Reported { child, .. } => Some(*child),
        _ => None,
    }
}
