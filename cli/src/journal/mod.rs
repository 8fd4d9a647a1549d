//! `moored journal SESSION`: what happened in a session, one line a row, times as offsets from the first row.

use moored::journal::Row;
use moored::session::record::SessionRecord;
use serde::Serialize;

use crate::args::Journal;
use crate::error::{Verdict, say};
use crate::stored::Stored;
use crate::{output, store_dir};

pub mod line;

/// The answer of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    record: &'a SessionRecord,
    rows: &'a [Row],
    /// Why the rows are not all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

/// Prints a journal.
pub fn run(options: &Journal) -> anyhow::Result<Verdict> {
    let stored = Stored::open(&store_dir::find(options.store.as_deref())?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (record, stored) = runtime.block_on(async {
        let record = stored.session(&options.session).await?;
        let rows = stored.rows(&record.session).await?;
        anyhow::Ok((record, rows))
    })?;
    let rows = stored.rows.as_slice();
    let fault = stored.fault.map(|fault| fault.to_string());
    if options.json {
        output::print_json(&Document { record: &record, rows, fault: fault.clone() })?;
    } else if options.raw {
        output::print(&rows.iter().map(|row| row.to_text() + "\n").collect::<String>())?;
    } else {
        output::print(&readable(rows))?;
    }
    match fault {
        None => Ok(Verdict::Holds),
        Some(fault) => {
            say(&format!("the journal of {} can be read no further: {fault}", record.session));
            Ok(Verdict::Failed)
        }
    }
}

/// A journal for a person.
pub fn readable(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    rows.iter().map(|row| line::of(row, first.at_ms) + "\n").collect()
}
