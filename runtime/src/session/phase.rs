//! Where a session stands, coarsely: what two ways of trying it are compared by.

use super::Session;
use super::child::Cause;
use crate::journal::StopReason;

/// Where a session stands, coarsely. Cheap to read after every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionPhase {
    /// How far the child is.
    pub child: ChildStands,
    /// A turn runs.
    pub turn: bool,
    /// The child is being ended because a person pressed Stop or closed the session.
    pub stop: bool,
    /// Messages that wait for their handover.
    pub queued: Queued,
    /// A message was handed over, and is not settled.
    pub handed_over: bool,
    /// The store refuses, or is closed.
    pub refusing: bool,
}

/// How far a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChildStands {
    /// There is none.
    None,
    /// From its reservation to its handle link.
    Starting,
    /// It takes prompts.
    Ready,
    /// It is to end, or has ended and is not settled.
    Ending,
    /// Every window has passed without a proof of its end.
    Unproven,
}

/// How many messages wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Queued {
    /// None.
    None,
    /// One.
    One,
    /// Two or more.
    More,
}

impl Session {
    /// Where it stands, as planned.
    pub fn phase(&self) -> SessionPhase {
        let child = match &self.child {
            None => ChildStands::None,
            Some(_) if self.is_unproven() => ChildStands::Unproven,
            Some(child) if child.ending.is_some() || child.root.is_some() => ChildStands::Ending,
            Some(child) if child.is_ready() => ChildStands::Ready,
            Some(_) => ChildStands::Starting,
        };
        let cause = self.child.as_ref().and_then(|c| c.ending.as_ref()).map(|e| e.cause);
        let stops = |reason: StopReason| reason.is_a_persons();
        SessionPhase {
            child,
            turn: self.plan.running_turn().is_some(),
            stop: matches!(cause, Some(Cause::Asked(reason)) if stops(reason)),
            queued: match self.plan.queued().take(2).count() {
                0 => Queued::None,
                1 => Queued::One,
                _ => Queued::More,
            },
            handed_over: self.plan.outstanding().next().is_some(),
            refusing: self.appends.is_refusing() || self.appends.is_closed(),
        }
    }
}

impl SessionPhase {
    /// All of it in nine bits.
    pub const fn bits(self) -> u16 {
        self.child as u16
            | (self.queued as u16) << 3
            | (self.turn as u16) << 5
            | (self.stop as u16) << 6
            | (self.handed_over as u16) << 7
            | (self.refusing as u16) << 8
    }
}

impl std::fmt::Display for SessionPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.child {
            ChildStands::None => "none",
            ChildStands::Starting => "starting",
            ChildStands::Ready => "ready",
            ChildStands::Ending => "ending",
            ChildStands::Unproven => "unproven",
        })?;
        f.write_str(match self.queued {
            Queued::None => "",
            Queued::One => "+queued",
            Queued::More => "+queue",
        })?;
        let marks = [
            (self.handed_over, "+handed"),
            (self.turn, "+turn"),
            (self.stop, "+stop"),
            (self.refusing, "+refusing"),
        ];
        marks.into_iter().filter(|(on, _)| *on).try_for_each(|(_, word)| f.write_str(word))
    }
}
