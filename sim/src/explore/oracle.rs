//! What must hold in every world, beside the machine's own invariants.

use moored::ids::{Generation, MessageId};
use moored::journal::{
    ChildRow, DispatchState, ItemBody, Outcome, RowKind, SubmissionState, TurnState, turn_item,
};
use moored::limits::STDOUT_DRAIN_MS;
use moored::platform::{Mono, Signal};
use moored::session::ChildStands;
use moored::session::ladder::{POSIX_EOF_GRACE_MS, POSIX_TERM_GRACE_MS};
use moored::status::{Status, Summary};
use moored::store::Unit;

use super::Step;
use super::agent::{Agent, Asked, Stands};
use super::world::{Verdict, World, message};

/// `stopping` is published only while there is something to stop.
pub(super) fn published(summary: &Summary) -> Verdict {
    let works = matches!(summary.status, Some(Status::Working | Status::Attention));
    check(!summary.stopping || works, || "stopping is published and nothing works".to_owned())
}

/// Nothing is accepted that a crash could lose (rule 5.1.1).
pub(super) fn may_accept(world: &World, accepted: &MessageId) -> Verdict {
    let is_stored = world.stored.iter().any(
        |row| matches!(&row.kind, RowKind::Submission { message_id, .. } if message_id == accepted),
    );
    check(is_stored, || format!("{accepted} is accepted before it is durable"))
}

/// One child at a time, and none over one that may live (invariant 1).
pub(super) fn may_spawn(world: &World) -> Verdict {
    let around = &world.around;
    check(around.agent.is_none(), || "a child is spawned beside another".to_owned())?;
    check(!around.orphan, || "a child is spawned over one of an earlier host".to_owned())
}

/// A child is forgotten when nothing is left of it.
pub(super) fn may_forget(world: &World, generation: &Generation) -> Verdict {
    let agent = world.around.agent.as_ref().filter(|a| a.generation == *generation);
    check(agent.is_none_or(|a| a.swept.is_some()), || {
        "a child is forgotten that may live".to_owned()
    })
}

/// The unit writes what ends with a child.
pub(super) fn settles(unit: &Unit) -> bool {
    unit.rows.iter().any(|row| matches!(row.kind, RowKind::Child(ChildRow::Exited { .. })))
}

/// Nothing is settled before what the agent had written is read to its end, or somebody else holds its stdout open.
pub(super) fn may_settle(agent: &Agent, now: Mono) -> Verdict {
    let held = agent.swept.is_some_and(|swept| now >= swept.plus_ms(STDOUT_DRAIN_MS));
    check(!agent.pipes_open || held, || {
        "a child's end is written before its stdout is read to its end".to_owned()
    })
}

/// No force before its window (rule 1.6.1).
pub(super) fn may_signal(agent: &Agent, signal: Signal, now: Mono) -> Verdict {
    let (from, window_ms) = match signal {
        Signal::Term => (agent.eof, POSIX_EOF_GRACE_MS),
        Signal::Kill => (agent.term, POSIX_TERM_GRACE_MS),
    };
    let waited = from.is_some_and(|from| now >= from.plus_ms(window_ms));
    check(waited, || format!("{signal:?} is ordered before its window has passed"))?;
    check(agent.stands == Stands::Alive, || format!("{signal:?} is ordered behind the exit"))
}

/// A message reaches agents once, and only behind its dispatch row (invariants 3 and 4).
pub(super) fn may_prompt(world: &World, number: u8) -> Verdict {
    let id = message(number);
    let again = world.around.prompted & 1 << number != 0;
    check(!again, || format!("{id} is given to an agent a second time"))?;
    let is_stored = world.stored.iter().any(|row| {
        matches!(&row.kind, RowKind::Dispatch(d)
            if d.message_id == id && d.state == DispatchState::HandedOver)
    });
    check(is_stored, || format!("{id} is given to the agent before its dispatch row is durable"))
}

/// One `session/cancel` a prompt (decision D14).
pub(super) fn cancelled(agent: Option<&mut Agent>) -> Verdict {
    let Some(agent) = agent else {
        return Ok(());
    };
    // One that crosses the answer is the agent's to ignore.
    let again = agent.asked.is_some() && std::mem::replace(&mut agent.cancelled, true);
    check(!again, || "a prompt is cancelled twice".to_owned())
}

/// What was accepted survives a crash (invariant 2).
pub(super) fn after_restart(world: &World) -> Verdict {
    each(world.around.accepted, |number| {
        let known = world.session.journal().submission(&message(number)).is_some();
        check(known, || format!("m{number} was accepted, and the crash has lost it"))
    })
}

/// After every step.
pub(super) fn after_step(world: &World) -> Verdict {
    each(world.around.prompted, |number| delivered(world, number))?;
    if Step::ALL.iter().any(|step| world.is_owed(*step)) {
        return Ok(());
    }
    at_rest(world)
}

/// A message that an agent has seen is not called undelivered, and its turn is called cancelled only if the agent said
/// so or a Stop meant it (rule 3.4.7).
fn delivered(world: &World, number: u8) -> Verdict {
    let journal = world.session.journal();
    let id = message(number);
    let state = journal.submission(&id).map(|s| s.view.state);
    let undelivered = matches!(state, Some(SubmissionState::Rejected | SubmissionState::Queued));
    check(!undelivered, || format!("{id} is called undelivered, and an agent has it"))?;
    let key = turn_item(&moored::ids::TurnKey(moored::ids::key(&["prompt", id.as_str()])));
    let Some(ItemBody::Turn(turn)) = journal.item(&key).map(|item| &item.body) else {
        return Ok(());
    };
    let bit = 1 << number;
    let stopped = world.around.stopped & bit != 0;
    let said = world.around.answered_cancelled & bit != 0;
    let cancelled = turn.outcome == Some(Outcome::Cancellation);
    check(!cancelled || stopped || said, || {
        format!("the turn of {id} is called cancelled, and no Stop meant it")
    })?;
    let cut = turn.state == TurnState::Interrupted;
    // A crash may have come before the Stop was on disk, and a later Stop takes the place of an earlier one.
    let latest = !world.around.crashed && !world.around.stopped_behind_exit;
    check(!(cut && stopped && latest) || cancelled, || {
        format!("the turn of {id} was stopped, and is not called cancelled")
    })
}

/// Nothing will happen by itself any more: everybody has an answer, and what waits waits for something named.
fn at_rest(world: &World) -> Verdict {
    let around = &world.around;
    check(around.open_calls.is_empty(), || {
        format!("call {} is never answered", around.open_calls.first().map_or(0, |c| c.0))
    })?;
    let session = &world.session;
    let phase = session.phase();
    let agent = around.agent.as_ref();
    let asked = agent.and_then(|a| a.asked);
    if matches!(asked, Some(Asked::Prompt { .. })) && phase.child == ChildStands::Ready {
        // It waits for the agent's answer.
        return Ok(());
    }
    if session.is_unproven() {
        // It waits for the root's exit, or for somebody to ask again.
        let journal = session.journal();
        return check(journal.queued().next().is_none(), || {
            "a message waits behind an end that nobody proves".to_owned()
        });
    }
    let idle = matches!(phase.child, ChildStands::None | ChildStands::Ready);
    check(idle, || format!("it is left {phase}, and nothing will happen"))?;
    check(!phase.turn, || "a turn is left running".to_owned())?;
    let journal = session.journal();
    check(journal.queued().next().is_none(), || "a message is left queued".to_owned())?;
    check(journal.outstanding().next().is_none(), || "a message is left handed over".to_owned())
}

fn each(bits: u8, check: impl Fn(u8) -> Verdict) -> Verdict {
    (0..8).filter(|number| bits & 1 << number != 0).try_for_each(check)
}

fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise()) }
}
