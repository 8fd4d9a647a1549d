//! Triggers: at an event, and at a known edge behind it.

use super::dice::Dice;
use crate::scenario::{Delay, Edge, EventKind, Trigger};

/// An event, how many of its kind a run has about, and how often it is chosen.
pub(super) type Moment = (EventKind, u64, u32);

use EventKind as Kind;

/// Anything may happen at these: where the library decides something, or something reaches it.
pub(super) const ANY: &[Moment] = &[
    (Kind::AgentAnswered, 3, 6),
    (Kind::AgentAsked, 2, 2),
    (Kind::AgentReplied, 4, 2),
    (Kind::AgentUpdated, 8, 4),
    (Kind::CallAnswered, 3, 2),
    (Kind::CallMade, 4, 5),
    (Kind::CancelRead, 2, 3),
    (Kind::CancelWritten, 2, 6),
    (Kind::CloseWritten, 2, 3),
    (Kind::ClientFed, 12, 1),
    (Kind::HostCrashed, 1, 1),
    (Kind::HostOpened, 2, 2),
    (Kind::InitializeWritten, 2, 2),
    (Kind::PermissionRaised, 2, 3),
    (Kind::ProcessEnded, 2, 4),
    (Kind::ProcessStarted, 2, 4),
    (Kind::PromptRead, 3, 7),
    (Kind::PromptWritten, 3, 4),
    (Kind::ReplyWritten, 2, 2),
    (Kind::SessionWritten, 2, 3),
    (Kind::SignalSent, 2, 3),
    (Kind::StatusSeen, 6, 1),
    (Kind::StdinClosed, 2, 5),
    (Kind::TurnEnded, 3, 5),
    (Kind::TurnStarted, 3, 3),
    (Kind::UnitAnswered, 14, 4),
    (Kind::UnitStored, 14, 4),
    (Kind::UnitSubmitted, 14, 5),
];

/// When a host falls over messages: one is on the wire, and perhaps more are queued.
pub(super) const WITH_MESSAGES: &[Moment] = &[
    (Kind::PromptWritten, 3, 6),
    (Kind::PromptRead, 3, 6),
    (Kind::CallAnswered, 3, 6),
    (Kind::CallMade, 3, 2),
];

/// Windows that may open with an event.
const fn edges(kind: EventKind) -> &'static [Edge] {
    match kind {
        Kind::AgentAnswered | Kind::TurnEnded => &[Edge::LateUpdate],
        Kind::AgentUpdated => &[Edge::AgentTurnQuiet, Edge::TextFlush],
        Kind::CancelRead | Kind::CancelWritten => &[Edge::StopGrace],
        Kind::CloseWritten => &[Edge::CloseBarrier],
        Kind::ProcessEnded => &[Edge::StdoutEof],
        Kind::SignalSent => &[Edge::TermGrace, Edge::KillWait],
        Kind::StdinClosed => &[Edge::EofGrace, Edge::EofGraceWin32],
        Kind::UnitAnswered | Kind::UnitSubmitted => &[Edge::StoreRetry],
        _ => &[],
    }
}

/// How far from an edge things may be.
const EDGE_US: u64 = 5_000;
const DELAY_US_MAX: u64 = 60_000_000;

/// One of these moments.
pub(super) fn at(dice: &mut Dice, moments: &[Moment]) -> Trigger {
    let total: u32 = moments.iter().map(|m| m.2).sum();
    let mut left = dice.below(u64::from(total.max(1)));
    let mut chosen = moments[0];
    for moment in moments {
        if left < u64::from(moment.2) {
            chosen = *moment;
            break;
        }
        left -= u64::from(moment.2);
    }
    let (kind, most, _) = chosen;
    // The first ones are likelier: most runs have no more.
    let upper = dice.between(1, most);
    let nth = u32::try_from(dice.between(1, upper)).unwrap_or(1);
    Trigger::after(kind, nth).then(delay(dice, kind))
}

/// What an event leads to.
const fn effect(kind: EventKind) -> EventKind {
    match kind {
        Kind::AgentAnswered => Kind::TurnEnded,
        Kind::AgentAsked => Kind::PermissionRaised,
        Kind::CallMade => Kind::CallAnswered,
        Kind::CancelWritten => Kind::CancelRead,
        Kind::PromptWritten => Kind::PromptRead,
        Kind::StdinClosed => Kind::ProcessEnded,
        Kind::UnitSubmitted => Kind::UnitAnswered,
        other => other,
    }
}

/// At the same moment, or right behind it.
pub(super) fn together(dice: &mut Dice, other: Trigger) -> Trigger {
    match dice.below(5) {
        0 => other,
        1 => Trigger { event: other.event.map(effect), then: Delay::None, ..other },
        2 => together_at(other, dice.between(1, 4_000)),
        _ => together_at(other, dice.magnitude(1_000, 400_000)),
    }
}

/// Right behind it, or within a while.
pub(super) fn behind(dice: &mut Dice, other: Trigger, most_us: u64) -> Trigger {
    let us = if dice.in_16(4) { 0 } else { dice.magnitude(100, most_us) };
    together_at(other, us)
}

fn together_at(other: Trigger, us: u64) -> Trigger {
    other.then(if us == 0 { other.then } else { Delay::Us(other.then.as_us() + us) })
}

/// With the submission of a unit; gives when that unit is answered.
pub(super) fn answered(dice: &mut Dice, when: &mut Trigger) -> Trigger {
    let nth = u32::try_from(dice.between(2, 10)).unwrap_or(2);
    *when = Trigger::after(Kind::UnitSubmitted, nth);
    Trigger::after(Kind::UnitAnswered, nth)
}

/// Mostly none, else a moment, an edge or a while.
fn delay(dice: &mut Dice, kind: EventKind) -> Delay {
    let edges = edges(kind);
    match dice.below(16) {
        // What it had written is still on its way.
        0..=5 if matches!(kind, Kind::ProcessEnded) => Delay::Us(dice.magnitude(500, 1_000_000)),
        0..=8 => Delay::None,
        9..=10 => Delay::Us(dice.between(1, 3_000)),
        11..=13 if !edges.is_empty() => {
            let edge = dice.pick(edges);
            let us = i64::try_from(dice.below(2 * EDGE_US + 1)).unwrap_or(0);
            Delay::Edge { edge, us: us - i64::try_from(EDGE_US).unwrap_or(0) }
        }
        11..=13 => Delay::Us(dice.magnitude(1_000, 50_000)),
        _ => Delay::Us(dice.magnitude(1_000, DELAY_US_MAX)),
    }
}
