//! The witness: sees everything that happens in a run, wherever it happens.
//!
//! It counts what triggers hang on, shows each fact to the oracles the moment it happens, and keeps a timeline when it is
//! asked to. Nothing in the library knows of it: it stands at the seams (platform, store, wire, process table, feed).

mod line;
mod seen;
mod telling;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use moored::coverage::{CoverageMark, CoverageMarks};
use moored::ids::{MessageId, SessionId};
use moored::platform::{Mono, Order, ProcessIdentity, Report, Watched};

use crate::kernel::SharedKernel;
use crate::marks::{WorldMark, WorldMarks};
use crate::oracles::{Oracle, Rest, Verdict, Violation};
use crate::scenario::EventKind;
use crate::timeline::Entry;

pub use line::{Line, Shape, same_id};
pub use seen::{ChildNo, HostNo, Seen};
pub use telling::{Child, Facts};

/// The witness, as everything in a run holds it.
pub type SharedWitness = Arc<Witness>;

/// Entries of a kept timeline; a run that makes more goes on without keeping them.
pub const ENTRIES_KEPT_MAX: usize = 50_000;

struct State {
    seen: u64,
    counts: BTreeMap<EventKind, u32>,
    waiting: Vec<(EventKind, u32, Watched<bool>)>,
    oracles: Vec<Box<dyn Oracle>>,
    violation: Option<(Violation, Option<usize>)>,
    keeps: bool,
    entries: Vec<Entry>,
    met: CoverageMarks,
    world: WorldMarks,
    facts: telling::Facts,
    transitions: BTreeSet<u64>,
}

/// Sees a run.
pub struct Witness {
    kernel: SharedKernel,
    state: Mutex<State>,
}

/// What a witness has at the end of a run.
#[derive(Clone, Debug, Default)]
pub struct Testimony {
    /// The first oracle that did not hold.
    pub violation: Option<Violation>,
    /// Where in the timeline that was.
    pub violation_entry: Option<usize>,
    /// Everything that happened, if it was kept.
    pub entries: Vec<Entry>,
    /// The library's rare branches that were met.
    pub met: CoverageMarks,
    /// The world's own.
    pub world: WorldMarks,
    /// The session machine's transitions that were seen, by their digests.
    pub transitions: BTreeSet<u64>,
}

impl Witness {
    /// A witness with these oracles; it keeps a timeline if it is asked to.
    pub fn new(kernel: SharedKernel, oracles: Vec<Box<dyn Oracle>>, keeps: bool) -> SharedWitness {
        Arc::new(Self {
            kernel,
            state: Mutex::new(State {
                seen: 0,
                counts: BTreeMap::new(),
                waiting: Vec::new(),
                oracles,
                violation: None,
                keeps,
                entries: Vec::new(),
                met: CoverageMarks::default(),
                world: WorldMarks::default(),
                facts: telling::Facts::default(),
                transitions: BTreeSet::new(),
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Virtual time.
    pub fn now(&self) -> Mono {
        self.kernel.now()
    }

    /// Whether a timeline is kept: what only it needs is not made otherwise.
    pub fn keeps(&self) -> bool {
        self.lock().keeps
    }

    /// Something happened.
    pub fn see(&self, seen: &Seen<'_>) {
        let now = self.kernel.now();
        let mut woken = Vec::new();
        {
            let mut guard = self.lock();
            let state = &mut *guard;
            state.seen += 1;
            state.facts.learn(seen);
            if let Some(mark) = seen.mark(&state.facts) {
                state.world.insert(mark);
            }
            if state.keeps && state.entries.len() < ENTRIES_KEPT_MAX {
                state.entries.extend(state.facts.entry(now, seen));
            }
            for kind in seen.kinds(&state.facts) {
                let count = state.counts.entry(kind).or_default();
                *count += 1;
                let nth = *count;
                state.waiting.retain(|(wanted, n, fires)| {
                    let due = *wanted == kind && *n <= nth;
                    if due {
                        woken.push(fires.clone());
                    }
                    !due
                });
            }
            state.judge(now, |oracle, facts| oracle.see(now, seen, facts));
        }
        for fires in woken {
            fires.update(|fired| *fired = true);
        }
    }

    /// A rule that only a person of the world's own can see broken: what the run itself finds, such as a rest that does
    /// not come.
    pub fn accuse(&self, violation: Violation) {
        let mut state = self.lock();
        if state.violation.is_none() {
            state.broke(violation);
        }
    }

    /// A supervisor, or the root of a job, was ordered something.
    pub(crate) fn ordered(&self, whose: &ProcessIdentity, order: &Order) {
        let child = self.lock().facts.child_of(whose);
        if let Some(child) = child {
            self.see(&Seen::Ordered { child, order });
        }
    }

    /// A supervisor, or the keeper of a job, reported.
    pub(crate) fn reported(&self, whose: &ProcessIdentity, report: &Report) {
        let child = self.lock().facts.child_of(whose);
        if let Some(child) = child {
            self.see(&Seen::Reported { child, report });
        }
    }

    /// A child is asked for; gives its number.
    pub(crate) fn spawning(&self, host: HostNo, session: &SessionId, token: &str) -> ChildNo {
        let child = self.lock().facts.children.len();
        self.see(&Seen::Spawning { child, host, session, token });
        child
    }

    /// An agent read a line.
    pub(crate) fn agent_read(&self, child: ChildNo, bytes: &[u8]) {
        self.see(&Seen::AgentRead { child, line: &Line::read(bytes) });
    }

    /// An agent wrote a line.
    pub(crate) fn agent_wrote(&self, child: ChildNo, bytes: &[u8]) {
        let line = Line::read_agents(bytes);
        // An answer goes by the id that was asked, in whatever form the agent gives it back.
        let asked = match line.shape {
            Shape::Answer => self.lock().facts.asked_as(child, line.id),
            Shape::Call(_) | Shape::Noise => None,
        };
        let line = Line { id: asked.as_deref().or(line.id), ..line };
        let answers_prompt =
            line.shape == Shape::Answer && self.lock().facts.answers_prompt(child, line.id);
        self.see(&Seen::AgentWrote { child, line: &line, answers_prompt });
    }

    /// The child that carries a token.
    pub fn child_of_token(&self, token: &str) -> Option<ChildNo> {
        self.lock().facts.child_of_token(token)
    }

    /// The library met a rare branch.
    pub fn met(&self, mark: CoverageMark) {
        self.lock().met.insert(mark);
    }

    /// The world did.
    pub fn met_in_world(&self, mark: WorldMark) {
        self.lock().world.insert(mark);
    }

    /// A session machine made a transition, by its digest.
    pub fn transition(&self, key: u64) {
        self.lock().transitions.insert(key);
    }

    /// Resolves once `nth` events of a kind have happened.
    pub async fn after(&self, kind: EventKind, nth: u32) {
        let fires = {
            let mut state = self.lock();
            if state.counts.get(&kind).copied().unwrap_or(0) >= nth {
                return;
            }
            let fires = Watched::new(false);
            state.waiting.push((kind, nth, fires.clone()));
            fires
        };
        fires.wait_for(|fired| *fired).await;
    }

    /// How often an event of a kind has happened.
    pub fn count(&self, kind: EventKind) -> u32 {
        self.lock().counts.get(&kind).copied().unwrap_or(0)
    }

    /// Whether an oracle has been broken: the run need not go on.
    pub fn is_broken(&self) -> bool {
        self.lock().violation.is_some()
    }

    /// How many facts there were.
    pub fn seen(&self) -> u64 {
        self.lock().seen
    }

    /// Whether the faults are over.
    pub(crate) fn facts_healed(&self) -> bool {
        self.lock().facts.healed
    }

    /// What agents leave running is left on purpose.
    pub(crate) fn leaves_background(&self) {
        self.lock().facts.leaves_background = true;
    }

    /// The published name under which a message was refused, if it was.
    pub(crate) fn was_refused(&self, message: &MessageId) -> Option<String> {
        self.lock().facts.refused.get(message).cloned()
    }

    /// The run has come to rest: every oracle looks at the whole.
    pub(crate) fn at_rest(&self, rest: &Rest<'_>) {
        let now = self.kernel.now();
        self.lock().judge(now, |oracle, _| oracle.at_rest(rest));
    }

    /// What is known so far: the session a child belongs to, the newest living child, and the like. Nothing of the
    /// witness may be asked meanwhile.
    pub fn know<R>(&self, about: impl FnOnce(&Facts) -> R) -> R {
        about(&self.lock().facts)
    }

    /// All of it.
    pub fn facts(&self) -> telling::Facts {
        self.lock().facts.clone()
    }

    /// Everything it has.
    pub fn testify(&self) -> Testimony {
        let mut state = self.lock();
        let (violation, violation_entry) = state.violation.clone().unzip();
        Testimony {
            violation,
            violation_entry: violation_entry.flatten(),
            entries: std::mem::take(&mut state.entries),
            met: state.met,
            world: state.world,
            transitions: std::mem::take(&mut state.transitions),
        }
    }
}

impl State {
    /// Asks every oracle, until one is broken.
    fn judge(&mut self, now: Mono, ask: impl Fn(&mut dyn Oracle, &Facts) -> Verdict) {
        if self.violation.is_some() {
            return;
        }
        let Self { oracles, facts, .. } = self;
        let broken = oracles.iter_mut().find_map(|oracle| {
            let words = ask(oracle.as_mut(), facts).err()?;
            Some(Violation::of(oracle.as_ref(), words, now))
        });
        if let Some(violation) = broken {
            self.broke(violation);
        }
    }

    /// The first violation, at the newest entry of a kept timeline.
    fn broke(&mut self, violation: Violation) {
        let entry = self.entries.len().checked_sub(1).filter(|_| self.keeps);
        self.violation = Some((violation, entry));
    }
}
