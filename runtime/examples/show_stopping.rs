//! Reads the frames of a status stream, one JSON text a line, and prints what a client shows of each session.

use std::io::BufRead;
use std::sync::Arc;

use moored::journal::SubmissionView;
use moored::status::{
    DisplayStatus, DrawnSend, Placement, Press, Summaries, Summary, contact_lost, fold, held,
    placement, steer_enabled, stop_enabled,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut statuses = Summaries::default();
    for line in std::io::stdin().lock().lines() {
        let next = fold(Arc::clone(&statuses), serde_json::from_str(&line?)?);
        // The same object says that there is nothing to draw.
        if !Arc::ptr_eq(&next, &statuses) {
            print(&next);
        }
        statuses = next;
    }
    // The stream broke off: what only the host could know is dropped, and every row stays.
    print(&contact_lost(statuses));
    Ok(())
}

fn print(statuses: &Summaries) {
    // This device has no Stop button, and draws no messages.
    let drawn = statuses.values().flat_map(|summary| draw(summary, Press::default(), &[]));
    drawn.for_each(|line| println!("{line}"));
}

/// A message, and what this device showed when it was sent here; `None` for another device's.
struct Message(SubmissionView, Option<DisplayStatus>);

/// The live line, and behind it the messages that were sent behind the Stop. `press` is this device's own.
fn draw(summary: &Summary, press: Press, messages: &[Message]) -> Vec<String> {
    let shown = summary.display_status(press);
    let line = match shown {
        DisplayStatus::Stopping => "Stopping...",
        DisplayStatus::Working => summary.tool_name.as_deref().unwrap_or("Working"),
        DisplayStatus::NotWorking => "",
    };
    let stop = if stop_enabled(press) { "[Stop]" } else { "" };
    let steer = if steer_enabled(shown) { "[Steer]" } else { "" };
    let behind = messages.iter().filter(|Message(submission, sent_while)| {
        let held = held(submission, summary);
        let (sent_while, state) = (*sent_while, Some(submission.state));
        placement(shown, DrawnSend { sent_while, state, held }) == Placement::AfterStopping
    });
    let live = format!("{} {line} {stop}{steer}", summary.session_id);
    [live].into_iter().chain(behind.map(|m| m.0.message_id.to_string())).collect()
}
