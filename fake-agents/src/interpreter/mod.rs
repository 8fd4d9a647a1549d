//! The interpreter: plays a script on a body.
//!
//! Everything an agent does at a time is a *strand*: the steps of a turn, of a request, of a reaction to a cancel or a
//! signal. One step of one strand is performed at a time, the strand that has been due longest first, and before each
//! step everything that has arrived is looked at: signals first, then input, then room in the outputs, then the
//! clock. So a delay, a wait for the host's answer and a write into a full pipe can all be broken off, and two runs in
//! which the same things arrive at the same steps are the same run.

mod defaults;
mod inputs;
mod lines;
mod outputs;
mod perform;
mod replies;
mod sessions;
mod strand;

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use serde_json::Value;

use self::defaults::Defaults;
use self::lines::Lines;
use self::outputs::Outputs;
use self::sessions::Session;
use self::strand::{Answers, Cue, Errand, Hold, Kind, Seen, Strand};
use crate::body::{Body, End, Out, Signal};
use crate::script::step::{Event, Step};
use crate::script::{Obey, Script, SignIn};

pub use self::lines::LINE_BYTES_MAX;
pub use self::sessions::{HOME_VARIABLE, PROFILE_VARIABLE};

/// The most lists of steps at a time. With half of them in use no further line is taken from the input; what a
/// script's own `later` would start beyond all of them is not started.
pub const STRANDS_MAX: usize = 256;

/// The most prompts that wait for a running turn; one more is refused as if the agent were busy.
pub const PROMPTS_QUEUED_MAX: usize = 64;

/// The most requests of the agent's own whose answers are still awaited; beyond it the oldest is forgotten.
const ASKED_MAX: usize = 256;

const READ_BYTES: usize = 16 * 1024;

/// Plays `script` on `body` until the process ends.
pub async fn run<B: Body>(script: &Script, body: &mut B) -> End {
    let mut agent = Agent::new(script, Defaults::all(), body);
    agent.start().await;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        agent.finish_turn();
        agent.release_holds();
        if let Some(end) = agent.end {
            return end;
        }
        if agent.take_input().await {
            continue;
        }
        match agent.next_happening(&mut buffer).await {
            Happening::Broken(out) => agent.on_broken(out),
            Happening::Due => agent.step().await,
            Happening::Read(0) => agent.lines.end(),
            Happening::Read(count) => agent.lines.push(&buffer[..count]),
            Happening::Signal(signal) => agent.on_signal(signal),
            Happening::Written => {}
        }
    }
}

enum Happening {
    Broken(Out),
    Due,
    Read(usize),
    Signal(Signal),
    Written,
}

/// A prompt the agent works on.
struct OpenTurn {
    cue: Cue,
    began_ms: u64,
    cancelled: bool,
    /// Answered, or forgotten on purpose.
    over: bool,
}

/// A request of the agent's own.
struct Asked<'s> {
    id: Value,
    cue: Cue,
    /// A strand waits for the answer; if that strand is gone, so is what the answer leads to.
    waited_for: bool,
    answers: Answers<'s>,
}

struct Agent<'s, 'b, B> {
    body: &'b mut B,
    script: &'s Script,
    defaults: &'s Defaults,
    end: Option<End>,

    // what comes in
    lines: Lines,
    reading: bool,
    eof: bool,
    seen: Seen,

    // what goes out
    outputs: Outputs,
    requests_sent: u64,
    asked: VecDeque<Asked<'s>>,

    // what is being done
    strands: Vec<Strand<'s>>,
    orders: u64,
    turn: Option<OpenTurn>,
    turns: u64,
    previous: Option<Cue>,
    queue: VecDeque<Cue>,
    poison: Option<&'s [Step]>,
    /// A cancel without a turn lies in wait, as the script's `stale` says.
    stale_cancel: bool,
    idles_done: Vec<u32>,

    // what is kept
    home: Option<String>,
    life: u64,
    signed_in: bool,
    sessions: BTreeMap<String, Session>,
    session: Option<String>,
    sessions_made: u64,
    /// What the turn at hand has said so far.
    said: String,
    child: Option<u32>,
}

impl<'s, 'b, B: Body> Agent<'s, 'b, B> {
    fn new(script: &'s Script, defaults: &'s Defaults, body: &'b mut B) -> Agent<'s, 'b, B> {
        Agent {
            body,
            script,
            defaults,
            end: None,
            lines: Lines::default(),
            reading: true,
            eof: false,
            seen: Seen::default(),
            outputs: Outputs::default(),
            requests_sent: 0,
            asked: VecDeque::new(),
            strands: Vec::new(),
            orders: 0,
            turn: None,
            turns: 0,
            previous: None,
            queue: VecDeque::new(),
            poison: None,
            stale_cancel: false,
            idles_done: vec![0; script.on.idle.len()],
            home: None,
            life: 0,
            signed_in: script.agent.sign_in == SignIn::NotNeeded,
            sessions: BTreeMap::new(),
            session: None,
            sessions_made: 0,
            said: String::new(),
            child: None,
        }
    }

    async fn start(&mut self) {
        let on = &self.script.on;
        let signals =
            [(Signal::Hup, &on.sighup), (Signal::Int, &on.sigint), (Signal::Term, &on.sigterm)];
        for (signal, reaction) in signals {
            if reaction.obey != Obey::ByDying {
                self.body.handle_signal(signal);
            }
        }
        self.open_home().await;
        let steps = self.script.on.start.as_deref().unwrap_or_default();
        let delay_ms = self.script.agent.start_delay_ms;
        if delay_ms > 0 || !steps.is_empty() {
            let strand = Strand::new(Kind::Start, Cue::default(), steps);
            self.begin(strand, delay_ms);
        }
    }

    /// Adds a strand that goes on in `after_ms`. With no room for it, it does not begin.
    fn begin(&mut self, mut strand: Strand<'s>, after_ms: u64) {
        if self.strands.len() >= STRANDS_MAX {
            return;
        }
        strand.seen = self.seen;
        strand.due_ms = (after_ms > 0).then(|| self.body.now_ms() + after_ms);
        strand.order = self.next_order();
        self.strands.push(strand);
    }

    fn next_order(&mut self) -> u64 {
        self.orders += 1;
        self.orders
    }

    /// Takes one line, or notices the end of the input. False: there is nothing to take.
    async fn take_input(&mut self) -> bool {
        let starting = self.strands.iter().any(|strand| strand.kind == Kind::Start);
        if starting || !self.reading || self.strands.len() >= STRANDS_MAX / 2 {
            return false;
        }
        if let Some(line) = self.lines.next() {
            self.on_line(&line).await;
            return true;
        }
        if self.lines.is_over() && !self.eof {
            self.on_eof();
            return true;
        }
        false
    }

    /// Waits for the next thing to happen, in the order of the module's first paragraph.
    async fn next_happening(&mut self, buffer: &mut [u8]) -> Happening {
        let starting = self.strands.iter().any(|strand| strand.kind == Kind::Start);
        let room = self.strands.len() < STRANDS_MAX / 2;
        let reads = self.reading && !self.lines.has_ended() && !starting && room;
        let due_ms = self.next_due().map(|(at_ms, _)| at_ms);
        poll_fn(|cx| {
            if let Poll::Ready(signal) = self.body.poll_signal(cx) {
                return Poll::Ready(Happening::Signal(signal));
            }
            if reads && let Poll::Ready(read) = self.body.poll_read(cx, buffer) {
                // A broken input is an ended one.
                return Poll::Ready(Happening::Read(read.unwrap_or(0)));
            }
            let now_ms = self.body.now_ms();
            let mut wake_ms = due_ms;
            if let Some(piece) = self.outputs.front() {
                if piece.not_before_ms > now_ms {
                    wake_ms =
                        Some(wake_ms.map_or(piece.not_before_ms, |at| at.min(piece.not_before_ms)));
                } else if let Poll::Ready(written) =
                    self.body.poll_write(cx, piece.out, piece.bytes())
                {
                    return Poll::Ready(self.outputs.written(written, now_ms));
                }
            }
            match wake_ms {
                Some(at_ms) if self.body.poll_alarm(cx, at_ms).is_ready() => {
                    Poll::Ready(Happening::Due)
                }
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// When a strand can go on next, and which one.
    fn next_due(&self) -> Option<(u64, usize)> {
        let blocked = !self.outputs.is_empty();
        let now_ms = self.body.now_ms();
        let mut candidates: Vec<(u64, u64, usize)> = Vec::new();
        for (index, strand) in self.strands.iter().enumerate() {
            if blocked && !runs_while_blocked(strand) {
                continue;
            }
            match (&strand.hold, strand.due_ms) {
                (Some(_), None) => {}
                (_, due) => candidates.push((due.unwrap_or(now_ms), strand.order, index)),
            }
        }
        candidates.into_iter().min().map(|(at_ms, _, index)| (at_ms, index))
    }

    /// Performs the next step of the strand that is due.
    async fn step(&mut self) {
        let now_ms = self.body.now_ms();
        let Some((at_ms, index)) = self.next_due() else { return };
        if at_ms > now_ms {
            return; // a piece of output was due, not a strand
        }
        let mut strand = self.strands.remove(index);
        strand.due_ms = None;
        strand.hold = None;
        strand.turn_page(now_ms);
        let waits_again = strand.due_ms.is_some();
        if !waits_again {
            if let Some(errand) = strand.errand.take() {
                self.run_errand(&mut strand, errand).await;
            } else if let Some(step) = strand.take_step() {
                self.perform(&mut strand, step).await;
            }
            strand.turn_page(self.body.now_ms());
        }
        if !strand.is_finished() {
            strand.order = self.next_order();
            self.strands.push(strand);
        }
    }

    async fn run_errand(&mut self, strand: &mut Strand<'s>, errand: Errand) {
        match errand {
            Errand::BeginIdle(index) => {
                self.idles_done[index] += 1;
                strand.kind = Kind::Background;
            }
            Errand::BeginTurn => {
                if self.script.store.persist_user {
                    self.persist_user(&strand.cue).await;
                }
            }
            Errand::BreakOff(turn) => {
                if self.open_turn().is_some_and(|open| open.cue.turn == turn) {
                    self.strands.retain(|other| other.kind != Kind::Turn);
                    strand.kind = Kind::Tail;
                } else {
                    *strand = Strand::new(Kind::Background, Cue::default(), &[]);
                }
            }
            Errand::PersistAnswer(stop_reason) => {
                self.persist_answer(&strand.cue, &stop_reason).await;
            }
            Errand::PersistHeader => self.persist_header(&strand.cue).await,
            Errand::Replay => {
                let cue = strand.cue.clone();
                strand.opened = false;
                self.replay(strand, &cue).await;
                strand.opened = true;
            }
        }
    }

    /// The turn that is not answered yet.
    fn open_turn(&self) -> Option<&OpenTurn> {
        self.turn.as_ref().filter(|turn| !turn.over)
    }

    fn is_settled(&self) -> bool {
        !self.strands.iter().any(|strand| strand.kind.belongs_to_turn())
    }

    /// A turn is done with when it is answered and its last step is performed. Then the next prompt has its turn.
    fn finish_turn(&mut self) {
        if self.turn.as_ref().is_some_and(|turn| turn.over) && self.is_settled() {
            self.previous = self.turn.take().map(|turn| turn.cue);
            self.arm_idle();
        }
        if self.turn.is_none()
            && let Some(cue) = self.queue.pop_front()
        {
            self.begin_turn(cue);
        }
    }

    fn release_holds(&mut self) {
        let settled = self.is_settled();
        let turn_over = settled && self.open_turn().is_none();
        let (seen, eof) = (self.seen, self.eof);
        for strand in &mut self.strands {
            let Some(Hold::Event(event)) = &strand.hold else { continue };
            let happened = match event {
                Event::Cancel => seen.cancels > strand.seen.cancels,
                Event::Eof => eof,
                Event::Prompt => seen.prompts > strand.seen.prompts,
                Event::Settled => settled || strand.kind.belongs_to_turn(),
                Event::Signal => seen.signals > strand.seen.signals,
                Event::TurnOver => turn_over,
            };
            if happened {
                strand.hold = None;
                strand.due_ms = None;
            }
        }
    }

    /// Breaks the open turn off and does what this agent does on a cancel in its place.
    fn settle_turn(&mut self) {
        let Some(open) = self.open_turn() else { return };
        let cue = open.cue.clone();
        if self.strands.iter().any(|strand| strand.kind == Kind::Tail) {
            return; // it is being settled
        }
        self.strands.retain(|strand| !matches!(strand.kind, Kind::Turn | Kind::Cancel));
        let steps = self.script.on.cancel.steps.as_deref().unwrap_or(&self.defaults.cancel);
        self.begin(Strand::new(Kind::Tail, cue, steps), 0);
    }

    fn on_broken(&mut self, out: Out) {
        self.outputs.give_up(out);
        if out == Out::Stdout {
            let steps =
                self.script.on.broken_stdout.as_deref().unwrap_or(&self.defaults.broken_stdout);
            let cue = self.cue_at_hand();
            self.begin(Strand::new(Kind::Reaction, cue, steps), 0);
        }
    }

    /// What a reaction is about: the open turn, or else just the session.
    fn cue_at_hand(&self) -> Cue {
        match self.open_turn() {
            Some(turn) => turn.cue.clone(),
            None => Cue { session: self.session.clone(), ..Cue::default() },
        }
    }
}

/// A signal's handler does not wait for a full pipe, as long as it writes nothing itself.
fn runs_while_blocked(strand: &Strand<'_>) -> bool {
    matches!(strand.kind, Kind::Signal(_)) && strand.peek().is_none_or(|step| !step.writes_output())
}

impl Outputs {
    fn written(&mut self, written: io::Result<usize>, now_ms: u64) -> Happening {
        let Some(out) = self.front().map(|piece| piece.out) else { return Happening::Written };
        match written {
            Ok(count) => {
                self.advance(count, now_ms);
                Happening::Written
            }
            Err(_) => Happening::Broken(out),
        }
    }
}
