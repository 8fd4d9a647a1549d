//! What a document expects, held against what a run left.

use moored::journal::{ChildRow, Fold, ItemBody, Mark, Row, RowKind, Touched};
use moored::session::ladder::EndedHow;

use crate::canonical::mark_words;
use crate::document::Expectations;
use crate::stage::Played;

/// Every expectation that is not met, in words.
pub(crate) fn unmet(expect: &Expectations, played: &Played) -> Vec<String> {
    let mut unmet = Vec::new();
    let lines: Vec<_> = played.canonical.lines().collect();
    let mut rest = lines.iter();
    for wanted in &expect.journal {
        if !rest.any(|line| line.starts_with(wanted.as_str())) {
            unmet.push(format!(
                "the journal has no line that starts with {wanted:?} (in this place)"
            ));
            break;
        }
    }
    for unwanted in &expect.journal_without {
        if let Some(line) = lines.iter().find(|l| l.contains(unwanted.as_str())) {
            unmet.push(format!("the journal has {line:?}, which contains {unwanted:?}"));
        }
    }
    let mut rest = played.statuses.iter();
    if !expect.statuses.iter().all(|wanted| rest.any(|s| s == wanted)) {
        unmet.push(format!("the statuses were {:?}, not {:?}", played.statuses, expect.statuses));
    }
    let mut rest = played.phases.iter();
    if !expect.phases.iter().all(|wanted| rest.any(|p| p == wanted)) {
        unmet.push(format!("the child was {:?}, not {:?}", played.phases, expect.phases));
    }
    if let Some(least) = expect.lasts_at_least_ms.filter(|ms| played.took_ms < *ms) {
        unmet.push(format!("the run took {} ms, less than {least}", played.took_ms));
    }
    let mut rest = played.saved.iter();
    if !expect.saved.iter().all(|wanted| rest.any(|entry| entry.starts_with(wanted.as_str()))) {
        unmet.push(format!("the agent saved {:?}, not {:?}", played.saved, expect.saved));
    }
    for unwanted in &expect.saved_without {
        if let Some(entry) = played.saved.iter().find(|e| e.contains(unwanted.as_str())) {
            unmet.push(format!("the agent saved {entry:?}, which contains {unwanted:?}"));
        }
    }
    compare("the Stops stopped", expect.stops.as_ref(), &played.stops, &mut unmet);
    compare("the host wrote", expect.wire.as_ref(), &played.wire, &mut unmet);
    compare("the refusals were", expect.refused.as_ref(), &played.refused, &mut unmet);
    compare("the children ended", expect.ends.as_ref(), &ends(&played.rows), &mut unmet);
    compare("a client was shown", expect.edges.as_ref(), &played.edges, &mut unmet);
    compare("the notes read", expect.notes.as_ref(), &played.notes, &mut unmet);
    let (stops, context) = marks(&played.rows);
    compare("the Stop events are", expect.stop_events.as_ref(), &stops, &mut unmet);
    compare("the context read", expect.context.as_ref(), &context, &mut unmet);
    compare("the turns used", expect.usage.as_ref(), &usage(&played.rows), &mut unmet);
    compare("unproven ends:", expect.unproven.as_ref(), &played.unproven, &mut unmet);
    compare("the survivors were", expect.survivors.as_ref(), &survivors(&played.rows), &mut unmet);
    unmet
}

/// Processes of the agent that are left, against what is allowed.
pub(crate) fn left(expect: &Expectations, names: &[String]) -> Option<String> {
    let allowed = expect.left.unwrap_or(0);
    (names.len() != allowed).then(|| {
        format!("processes of the agent are left: {} ({allowed} may be)", names.join(", "))
    })
}

/// The Stop events and the readings of the context ring.
fn marks(rows: &[Row]) -> (Vec<String>, Vec<String>) {
    let (mut stops, mut context) = (Vec::new(), Vec::new());
    for row in rows {
        match &row.kind {
            RowKind::Mark { mark: mark @ Mark::Stop(_) } => stops.push(mark_words(mark)),
            RowKind::Mark { mark: Mark::Context { used, size } } => {
                context.push(format!("{used} of {size}"));
            }
            _ => {}
        }
    }
    (stops, context)
}

fn usage(rows: &[Row]) -> Vec<Option<u64>> {
    let mut fold = Fold::new();
    rows.iter().for_each(|row| fold.apply(row, &mut Touched::default()));
    let used = |item: &moored::journal::Item| match &item.body {
        ItemBody::Turn(turn) => Some(turn.usage.as_ref().map(|usage| usage.total)),
        _ => None,
    };
    let mut turns: Vec<_> =
        fold.timeline().filter_map(|(_, item)| Some((item.position, used(item)?))).collect();
    turns.sort_by_key(|(position, _)| *position);
    turns.into_iter().map(|(_, used)| used).collect()
}

/// The entries of a session file of a scripted agent, a word or two each.
pub(crate) fn entries(file: &str) -> impl Iterator<Item = String> {
    file.lines().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let words = match line["type"].as_str()? {
            "custom" => ["custom", line["customType"].as_str()?],
            "message" => {
                let message = &line["message"];
                [message["role"].as_str()?, message["stopReason"].as_str().unwrap_or_default()]
            }
            kind => [kind, ""],
        };
        Some(words.join(" ").trim_end().to_owned())
    })
}

fn compare<T: PartialEq + std::fmt::Debug>(
    words: &str,
    wanted: Option<&T>,
    found: &T,
    unmet: &mut Vec<String>,
) {
    if let Some(wanted) = wanted.filter(|w| *w != found) {
        unmet.push(format!("{words} {found:?}, not {wanted:?}"));
    }
}

fn ends(rows: &[Row]) -> Vec<EndedHow> {
    let how = |row: &Row| match &row.kind {
        RowKind::Child(ChildRow::Exited { how, .. }) => Some(*how),
        _ => None,
    };
    rows.iter().filter_map(how).collect()
}

fn survivors(rows: &[Row]) -> usize {
    let count = |row: &Row| match &row.kind {
        RowKind::Child(ChildRow::Settled { survivors, .. }) => survivors.len(),
        _ => 0,
    };
    rows.iter().map(count).sum()
}
