//! The search: breadth-first, level by level, a level cut into batches that all threads share.
//!
//! Of every state its digest is kept, and of every node only its parent and its step: a state that is not at hand is
//! made again from its way. As many worlds of the next level as fit are kept whole.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::world::{Watch, World};
use super::{Explored, Explorer, Progress, Step, Transition, Violation};

/// States expanded between two merges.
const BATCH_STATES: usize = 1_024;
/// Worlds of the next level that are kept whole.
const WORLDS_KEPT_MAX: usize = 100_000;

/// The way to a state.
struct Node {
    parent: u32,
    step: Step,
}

/// A state that is to be expanded.
struct Open {
    node: u32,
    world: Option<Box<World>>,
}

/// What one thread made of its share of a batch: each state's node with what it leads to.
type Part = (Vec<(u32, Expansion)>, BTreeSet<Transition>);

/// What one state leads to.
#[derive(Default)]
struct Expansion {
    found: Vec<Found>,
    violation: Option<(Step, String)>,
}

struct Found {
    step: Step,
    digest: u128,
    /// Absent when the digest was known already.
    world: Option<Box<World>>,
}

struct Search<'a> {
    explorer: &'a Explorer,
    jobs: usize,
    /// The first is the start, which has no parent.
    nodes: Vec<Node>,
    known: BTreeSet<u128>,
    explored: Explored,
}

pub(super) fn explore(
    explorer: &Explorer,
    jobs: usize,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Explored {
    let mut search = Search {
        explorer,
        jobs,
        nodes: vec![Node { parent: 0, step: Step::Durable }],
        known: BTreeSet::new(),
        explored: Explored {
            states: 1,
            transitions: 0,
            merges: 0,
            ends: 0,
            depth: 0,
            closed: false,
            cut_short: false,
            seen: BTreeSet::new(),
            violation: None,
        },
    };
    match first(explorer) {
        Ok(world) => search.run(world, watch),
        Err(what) => {
            search.explored.violation = Some(Violation { what, steps: vec![], lines: vec![] });
        }
    }
    search.explored
}

/// The state all ways begin at.
fn first(explorer: &Explorer) -> Result<World, String> {
    caught(|| World::new(explorer.bounds))
}

impl Search<'_> {
    fn run(&mut self, world: World, watch: &mut dyn FnMut(Progress) -> bool) {
        self.known.insert(world.digest());
        let mut level = vec![Open { node: 0, world: Some(Box::new(world)) }];
        for depth in 0..self.explorer.depth {
            let Some(next) = self.expand_level(depth, level, watch) else {
                return;
            };
            if next.is_empty() {
                self.explored.closed = true;
                return;
            }
            self.explored.depth = depth + 1;
            level = next;
        }
    }

    /// The next level; none if the exploration has ended here.
    fn expand_level(
        &mut self,
        depth: usize,
        mut level: Vec<Open>,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Option<Vec<Open>> {
        let mut next = Vec::new();
        let (mut kept, mut expanded) = (0, 0);
        let frontier = level.len();
        while !level.is_empty() {
            let rest = level.split_off(level.len().min(BATCH_STATES));
            let batch = std::mem::replace(&mut level, rest);
            expanded += batch.len();
            for (node, expansion) in self.expand_batch(batch) {
                self.merge(node, expansion, &mut next, &mut kept);
                if self.explored.violation.is_some() {
                    return None;
                }
            }
            let states = self.explored.states;
            if !watch(Progress { depth, expanded, frontier, states }) {
                self.explored.cut_short = true;
                return None;
            }
        }
        Some(next)
    }

    fn merge(&mut self, parent: u32, expansion: Expansion, next: &mut Vec<Open>, kept: &mut usize) {
        if let Some((step, what)) = expansion.violation {
            let mut steps = self.way(parent);
            steps.push(step);
            let lines = told(self.explorer, &steps);
            self.explored.violation = Some(Violation { what, steps, lines });
            return;
        }
        self.explored.transitions += expansion.found.len() as u64;
        self.explored.ends += u64::from(expansion.found.is_empty());
        for Found { step, digest, world } in expansion.found {
            if !self.known.insert(digest) {
                self.explored.merges += 1;
                continue;
            }
            self.explored.states += 1;
            #[expect(clippy::cast_possible_truncation, reason = "memory ends before")]
            let node = self.nodes.len() as u32;
            self.nodes.push(Node { parent, step });
            let world = world.filter(|_| *kept < WORLDS_KEPT_MAX);
            *kept += usize::from(world.is_some());
            next.push(Open { node, world });
        }
    }

    /// In the order of the batch, whatever the number of threads.
    fn expand_batch(&mut self, mut batch: Vec<Open>) -> Vec<(u32, Expansion)> {
        let share = batch.len().div_ceil(self.jobs).max(1);
        let mut shares = Vec::with_capacity(self.jobs);
        while batch.len() > share {
            shares.push(batch.split_off(batch.len() - share));
        }
        let search = &*self;
        let work = |part: Vec<Open>| {
            let mut watch = Watch::default();
            let expand = |open: Open| (open.node, search.expand(open, &mut watch));
            let expansions: Vec<_> = part.into_iter().map(expand).collect();
            (expansions, watch.transitions)
        };
        let parts: Vec<Part> = std::thread::scope(|scope| {
            let others: Vec<_> =
                shares.into_iter().rev().map(|part| scope.spawn(|| work(part))).collect();
            let mine = work(batch);
            let joined = others.into_iter().filter_map(|thread| thread.join().ok());
            std::iter::once(mine).chain(joined).collect()
        });
        let mut expansions = Vec::new();
        for (part, transitions) in parts {
            expansions.extend(part);
            self.explored.seen.extend(transitions);
        }
        expansions
    }

    fn expand(&self, open: Open, watch: &mut Watch) -> Expansion {
        let world = match open.world {
            Some(world) => world,
            None => match self.make(open.node) {
                Ok(world) => Box::new(world),
                Err(what) => {
                    return Expansion { found: vec![], violation: Some((Step::Timer, what)) };
                }
            },
        };
        let mut expansion = Expansion::default();
        for step in Step::ALL.into_iter().filter(|step| world.is_enabled(*step)) {
            let mut next = world.clone();
            let taken = caught(|| next.take(step, watch).map(|()| next.digest()));
            match taken {
                Ok(digest) => {
                    let world = (!self.known.contains(&digest)).then_some(next);
                    expansion.found.push(Found { step, digest, world });
                }
                Err(what) => {
                    expansion.violation = Some((step, what));
                    return expansion;
                }
            }
        }
        expansion
    }

    /// The steps to a node.
    fn way(&self, node: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut at = node;
        while at != 0
            && let Some(node) = self.nodes.get(at as usize)
        {
            steps.push(node.step);
            at = node.parent;
        }
        steps.reverse();
        steps
    }

    /// A world that was not kept.
    fn make(&self, node: u32) -> Result<World, String> {
        caught(|| {
            let mut world = World::new(self.explorer.bounds)?;
            let mut watch = Watch::default();
            self.way(node).into_iter().try_for_each(|step| world.take(step, &mut watch))?;
            Ok(world)
        })
    }
}

/// The way in words, with what the machine asked for at each step.
pub(super) fn told(explorer: &Explorer, steps: &[Step]) -> Vec<String> {
    let Ok(mut world) = first(explorer) else {
        return Vec::new();
    };
    let line = |step: &Step| {
        let mut watch = Watch { effects: Some(Vec::new()), ..Watch::default() };
        // The last one fails: that is what is told.
        let _ = caught(|| world.take(*step, &mut watch));
        match watch.effects.unwrap_or_default().join("; ") {
            effects if effects.is_empty() => step.to_string(),
            effects => format!("{step}  [{effects}]"),
        }
    };
    steps.iter().map(line).collect()
}

/// A panic of the core is a violation like any other.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(text.unwrap_or_else(|| "the core has panicked".to_owned()))
    })
}
