//! `moored ps`: the sessions of a store, as far as its journal tells.

use moored::journal::{Outcome, RowFault};
use moored::session::record::SessionRecord;
use moored::status::{Status, Summary, SummaryInput, summary};
use moored::store::UnreadableRecord;
use serde::Serialize;

use crate::args::Ps;
use crate::error::Verdict;
use crate::stored::{self, Stored};
use crate::words::one_line;
use crate::{output, store_dir};

const WORKSPACE_CHARS_MAX: usize = 60;

/// One session.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    summary: Summary,
    closed: bool,
    rows: usize,
    /// Why not all of its journal can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

/// The answer of `--json`.
#[derive(Serialize)]
struct Listing {
    store: String,
    sessions: Vec<Listed>,
    unreadable: Vec<Unreadable>,
}

#[derive(Serialize)]
struct Unreadable {
    session: String,
    what: String,
}

/// Lists the sessions of a store.
pub fn run(options: &Ps) -> anyhow::Result<Verdict> {
    let directory = store_dir::find(options.store.as_deref())?;
    let stored = Stored::open(&directory)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let listing = runtime.block_on(list(&stored, directory.display().to_string()))?;
    match options.json {
        true => output::print_json(&listing)?,
        false => output::print(&shown(&listing))?,
    };
    let whole = listing.unreadable.is_empty() && listing.sessions.iter().all(|s| s.fault.is_none());
    Ok(if whole { Verdict::Holds } else { Verdict::Failed })
}

async fn list(stored: &Stored, store: String) -> anyhow::Result<Listing> {
    let image = stored.image().await?;
    let mut sessions = Vec::new();
    for record in &image.records {
        let rows = stored.rows(&record.session).await?;
        let fault = rows.fault.as_ref().map(RowFault::to_string);
        sessions.push(listed(record, &stored::fold(&rows.rows), rows.rows.len(), fault));
    }
    // The newest last, where a person at a terminal looks first.
    sessions.sort_by_key(|session| session.summary.updated_at);
    let unreadable = image.unreadable.into_iter().map(unreadable).collect();
    Ok(Listing { store, sessions, unreadable })
}

fn unreadable(record: UnreadableRecord) -> Unreadable {
    Unreadable { session: record.session.0, what: record.what }
}

fn listed(
    record: &SessionRecord,
    fold: &moored::journal::Fold,
    rows: usize,
    fault: Option<String>,
) -> Listed {
    // Of a child only its host knows; the journal alone is read here.
    let input = SummaryInput {
        record,
        fold,
        child: None,
        storage: None,
        status_started_at: None,
        stopping: false,
        held: &[],
    };
    Listed { summary: summary(&input), closed: record.closed, rows, fault }
}

fn shown(listing: &Listing) -> String {
    if listing.sessions.is_empty() && listing.unreadable.is_empty() {
        return format!("no sessions in {}\n", listing.store);
    }
    let head = ["SESSION", "STATUS", "OUTCOME", "AGENT", "UPDATED", "ROWS", "WORKSPACE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for session in &listing.sessions {
        let summary = &session.summary;
        rows.push(vec![
            summary.session_id.0.clone(),
            standing(session).to_owned(),
            summary.turn_outcome.map_or("-", outcome_word).to_owned(),
            one_line(&summary.agent, WORKSPACE_CHARS_MAX),
            utc(summary.updated_at),
            session.rows.to_string(),
            one_line(&summary.workspace_id, WORKSPACE_CHARS_MAX),
        ]);
    }
    let mut text = output::table(&rows);
    for session in &listing.sessions {
        if let Some(fault) = &session.fault {
            text.push_str(&format!("{}: {fault}\n", session.summary.session_id));
        }
    }
    for unreadable in &listing.unreadable {
        let Unreadable { session, what } = unreadable;
        text.push_str(&format!("{session}: its record cannot be read ({what})\n"));
    }
    text
}

fn standing(session: &Listed) -> &'static str {
    match session.summary.status {
        _ if session.fault.is_some() => "damaged",
        _ if session.closed => "closed",
        None => "new",
        Some(Status::Working) => "working",
        Some(Status::Attention) => "attention",
        Some(Status::Idle) => "idle",
        Some(_) => "?",
    }
}

/// An outcome as a person reads it.
pub fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Success => "success",
        Outcome::Failure => "failure",
        Outcome::Cancellation => "cancellation",
        Outcome::Superseded => "superseded",
        Outcome::Interruption => "interruption",
        Outcome::Unconfirmed => "unconfirmed",
        _ => "?",
    }
}

/// A wall time as `2026-01-31 23:59:59Z`.
fn utc(wall_ms: u64) -> String {
    let seconds = wall_ms / 1_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// The date so many days after 1970-01-01, by eras of 400 years that begin on a first of March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00Z");
        assert_eq!(utc(951_827_696_000), "2000-02-29 12:34:56Z");
        assert_eq!(utc(1_767_225_599_999), "2025-12-31 23:59:59Z");
        assert_eq!(utc(4_107_542_400_000), "2100-03-01 00:00:00Z");
    }
}
