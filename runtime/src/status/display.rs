//! What a client shows of a session, by functions that every surface shares (rule 4.6). Nothing here is stored or sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Status, Summary};
use crate::journal::{SubmissionState, SubmissionView};

/// What one session reads as, on every surface alike (rule 4.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DisplayStatus {
    /// Nothing runs, or a person is asked something: the summary's own status says which (rule 4.1.5).
    NotWorking,
    /// It works.
    Working,
    /// It works, and a Stop is ending that: "Stopping..." in place of the last tool line, with the spinner of working
    /// (rule 4.6.3).
    Stopping,
}

/// This device's own Stop request: from the click until the host has answered it or it has failed (rule 4.6.2). It is
/// memory of one device and one session; it is never sent and never stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Press {
    in_flight: bool,
}

impl Press {
    /// The person pressed Stop, and the request is on its way.
    pub fn begin(&mut self) {
        self.in_flight = true;
    }

    /// The host answered, or the request failed; what the host says counts again.
    pub fn end(&mut self) {
        self.in_flight = false;
    }

    /// The request is unanswered.
    pub fn is_in_flight(self) -> bool {
        self.in_flight
    }
}

/// What a session reads as (rule 4.6.1): its published `status`, whether the host publishes it as `stopping`, and this
/// device's own press. With a host that never says `stopping` the press alone shows it (rule 4.8.1).
pub fn display_status(status: Option<Status>, stopping: bool, press: Press) -> DisplayStatus {
    match status {
        Some(Status::Working) if stopping || press.is_in_flight() => DisplayStatus::Stopping,
        Some(Status::Working) => DisplayStatus::Working,
        _ => DisplayStatus::NotWorking,
    }
}

impl Summary {
    /// What the session reads as on the device whose own press is `press` (rule 4.6.1).
    pub fn display_status(&self, press: Press) -> DisplayStatus {
        display_status(self.status, self.stopping, press)
    }
}

/// Whether the Stop button may be pressed: only this device's own unanswered request holds it (rule 4.6.2). A Stop of
/// somebody else's does not, nor does what the session reads as: pressing again is how a person insists (rule 3.7.2).
pub fn stop_enabled(press: Press) -> bool {
    !press.is_in_flight()
}

/// Whether a card's Steer and its shortcut are there: not while the session reads stopping, since the turn to steer into
/// is ending (rule 4.6.3). Deleting and editing a card stay.
pub fn steer_enabled(display: DisplayStatus) -> bool {
    display != DisplayStatus::Stopping
}

/// Why the host holds a message back (decision D27).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Held {
    /// A Stop is ending the turn before it: it goes out as its own turn after that (rule 5.4.1).
    Stopping,
}

/// Whether the session's host holds a message back, and why. Summary and history travel apart, so it takes both: a message
/// that the history knows to be settled is held no more, whatever an older summary lists.
pub fn held(submission: &SubmissionView, summary: &Summary) -> Option<Held> {
    // Handed over on disk, and its frame held back, is waiting still (decision D24).
    let waits = matches!(submission.state, SubmissionState::Queued | SubmissionState::HandedOver);
    let listed = summary.stopping && summary.held.contains(&submission.message_id);
    (waits && listed).then_some(Held::Stopping)
}

/// What a device knows of a message that it draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrawnSend {
    /// What this device showed when the person sent it here. `None` for a message of another device, or of this one before
    /// it was started anew.
    pub sent_while: Option<DisplayStatus>,
    /// Where the host says it stands; `None` until the host has answered.
    pub state: Option<SubmissionState>,
    /// Whether the host holds it back, as [`held`] says.
    pub held: Option<Held>,
}

/// Where a message is drawn (rule 4.6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Where its item stands in the timeline; a message the host has not answered for yet comes last there, and before the
    /// line.
    AsPublished,
    /// After the "Stopping..." line.
    AfterStopping,
}

/// Where a message is drawn while the session reads as `display` (rule 4.6.4). One that was sent while it read stopping
/// comes after that line until it is handed over. One sent just before the Stop stays where the host puts it: the device
/// that sent it knows by itself, and any other takes the host's word for it.
pub fn placement(display: DisplayStatus, send: DrawnSend) -> Placement {
    let waits = matches!(send.state, None | Some(SubmissionState::Queued));
    let sent_behind = match send.sent_while {
        Some(shown) => shown == DisplayStatus::Stopping,
        None => send.held == Some(Held::Stopping),
    };
    if display == DisplayStatus::Stopping && waits && sent_behind {
        Placement::AfterStopping
    } else {
        Placement::AsPublished
    }
}
