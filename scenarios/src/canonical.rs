//! The canonical journal: what a simulated and a native run of one scenario must agree on (decision D36).
//!
//! The durable fold in the order of positions: items with their final bodies, turns, sends, permission outcomes, notes,
//! and the ends of children. Times, process numbers, ids and tokens are left out or replaced by their ordinal of first
//! appearance; so are row counts, sequence and revision numbers.

use std::collections::BTreeMap;

use moored::digest_hex;
use moored::ids::{Generation, ItemKey};
use moored::journal::{ChildRow, Fold, Item, ItemBody, Payload, Row, RowKind, Touched, TurnBody};
use moored::platform::Exit;
use serde::Serialize;

/// Text longer than this is told by its length and digest.
const TEXT_SHOWN_BYTES_MAX: usize = 160;

/// The canonical journal of `rows`, a line an entry.
pub fn canonical(rows: &[Row]) -> String {
    let mut fold = Fold::new();
    let mut touched = Touched::default();
    let mut lines: BTreeMap<(u64, u32), String> = BTreeMap::new();
    let mut children: BTreeMap<Generation, usize> = BTreeMap::new();
    for row in rows {
        fold.apply(row, &mut touched);
        if let RowKind::Child(child) = &row.kind {
            let next = children.len() + 1;
            let ordinal = *children.entry(generation(child).clone()).or_insert(next);
            lines.insert((row.seq, u32::MAX), child_line(ordinal, child));
        }
    }
    for (key, item) in fold.timeline() {
        lines.insert((item.position.seq, item.position.index), item_line(&fold, key, item));
    }
    lines.into_values().map(|line| line + "\n").collect()
}

/// Every row on a line of its own, readable: an offset in milliseconds, the fence, and what it says.
pub fn journal_lines(rows: &[Row]) -> String {
    let start = rows.first().map_or(0, |r| r.at_ms);
    let mut names = Ordinals::default();
    let line = |row: &Row| {
        let text = names_replaced(&mut names, &row_words(row));
        format!("{:>6} ms  f{}  {text}\n", row.at_ms.saturating_sub(start), row.fence)
    };
    rows.iter().map(line).collect()
}

fn generation(child: &ChildRow) -> &Generation {
    match child {
        ChildRow::Started { generation, .. }
        | ChildRow::Exited { generation, .. }
        | ChildRow::Settled { generation, .. } => generation,
        _ => unreachable!("this build writes no other child row"),
    }
}

fn child_line(ordinal: usize, child: &ChildRow) -> String {
    match child {
        ChildRow::Started { .. } => format!("child {ordinal} started"),
        ChildRow::Exited { how, exit, requested, .. } => {
            let asked = if *requested { "asked" } else { "by itself" };
            format!("child {ordinal} ended {} {asked} {}", word(how), exit_words(*exit))
        }
        ChildRow::Settled { root, tree, survivors, abort_persisted, .. } => {
            let mut left: Vec<_> = survivors.iter().map(|s| s.name.as_str()).collect();
            left.sort_unstable();
            let left =
                if left.is_empty() { String::new() } else { format!(" ended {}", left.join(" ")) };
            let kept = abort_persisted
                .map(|persisted| format!(" abort persisted {}", word(&persisted)))
                .unwrap_or_default();
            format!("child {ordinal} settled root {} tree {}{left}{kept}", word(root), word(tree))
        }
        _ => unreachable!("this build writes no other child row"),
    }
}

fn exit_words(exit: Option<Exit>) -> String {
    match exit {
        Some(Exit::Code(code)) => format!("code {code}"),
        Some(Exit::Signal(signal)) => format!("signal {signal}"),
        None => "unseen".to_owned(),
    }
}

fn item_line(fold: &Fold, key: &ItemKey, item: &Item) -> String {
    match &item.body {
        ItemBody::Turn(turn) => turn_line(turn),
        ItemBody::User(user) => {
            let state = fold.submission(&user.message_id).map(|s| {
                let fact =
                    s.view.fact.as_ref().map(|f| format!(" {}", word(&f.code))).unwrap_or_default();
                let reason =
                    s.view.reason.as_ref().map(|r| format!(" {}", word(r))).unwrap_or_default();
                format!("{}{fact}{reason}", word(&s.view.state))
            });
            format!("user {} {} {}", user.message_id, state.unwrap_or_default(), shown(&user.text))
        }
        ItemBody::Message(message) => {
            let late = if message.late { " late" } else { "" };
            let cut = message
                .cut
                .as_ref()
                .map(|c| format!(" cut of {} bytes", c.bytes))
                .unwrap_or_default();
            format!("text {}{late}{cut} {}", word(&message.role), shown(&message.text))
        }
        ItemBody::Tool(tool) => {
            let ended = tool.ended_as.as_ref().map(|e| format!(" {}", word(e))).unwrap_or_default();
            let late = if tool.late { " late" } else { "" };
            let output =
                tool.output.as_ref().map(|o| format!(" -> {}", payload(o))).unwrap_or_default();
            format!(
                "tool {} {}{ended}{late} {}{output}",
                tool.tool_call_id,
                word(&tool.status),
                shown(&tool.title)
            )
        }
        ItemBody::Plan(plan) => format!("plan {}", payload(&plan.payload)),
        ItemBody::Approval(approval) => {
            let chosen = approval.selected.as_deref().unwrap_or("nothing");
            format!("permission {} {chosen} {}", word(&approval.resolution), shown(&approval.title))
        }
        ItemBody::Status(status) => {
            let fact =
                status.fact.as_ref().map(|f| format!(" {}", word(&f.code))).unwrap_or_default();
            format!("line {}{fact} {}", word(&status.tone), shown(&status.text))
        }
        ItemBody::Raw(raw) => format!("raw {} {}", raw.kind, payload(&raw.payload)),
        _ => format!("item {key}"),
    }
}

fn turn_line(turn: &TurnBody) -> String {
    let outcome = turn.outcome.as_ref().map_or_else(|| "without outcome".to_owned(), word);
    let said = turn.stop_reason.as_deref().map(|r| format!(" said {r}")).unwrap_or_default();
    let stop = if turn.under_stop { " under stop" } else { "" };
    let doubt = if turn.delivery_unproven { " delivery unproven" } else { "" };
    format!("turn {} {} {outcome}{said}{stop}{doubt}", turn.turn, word(&turn.state))
}

fn row_words(row: &Row) -> String {
    match &row.kind {
        RowKind::Item(item) => {
            format!("item {} r{} {}", item.item, item.revision, body_words(&item.body))
        }
        RowKind::Text { item, revision, at, text, cut } => {
            let cut =
                cut.as_ref().map(|c| format!(" cut of {} bytes", c.bytes)).unwrap_or_default();
            format!("text {item} r{revision} @{at} {}{cut}", shown(&text.0))
        }
        RowKind::Tombstone { item, revision } => format!("gone {item} r{revision}"),
        RowKind::Batch { settlement, mutations } => {
            let inside: Vec<_> = mutations.iter().map(mutation_words).collect();
            format!("batch {settlement}: {}", inside.join("; "))
        }
        RowKind::Dispatch(dispatch) => dispatch_words(dispatch),
        RowKind::Submission { message_id, text, .. } => {
            format!("submission {message_id} {}", shown(&text.0))
        }
        RowKind::Child(child) => match child {
            ChildRow::Started { .. } => "child started".to_owned(),
            other => child_line(0, other).replacen("child 0", "child", 1),
        },
        RowKind::Epoch { reason, .. } => format!("epoch {}", word(reason)),
        RowKind::Mark { mark } => format!("mark {}", mark_words(mark)),
        other => format!("{other:?}"),
    }
}

pub(crate) fn mark_words(mark: &moored::journal::Mark) -> String {
    match mark {
        moored::journal::Mark::Stop(stop) => {
            let turn = stop.turn.as_ref().map(|t| format!(" {t}")).unwrap_or_default();
            format!("{}{turn}", word(&stop.reason))
        }
        moored::journal::Mark::Context { used, size } => format!("context {used} of {size}"),
        _ => "unknown".to_owned(),
    }
}

fn mutation_words(mutation: &moored::journal::Mutation) -> String {
    match mutation {
        moored::journal::Mutation::Item(item) => {
            format!("{} r{} {}", item.item, item.revision, body_words(&item.body))
        }
        moored::journal::Mutation::Tombstone { item, revision } => {
            format!("gone {item} r{revision}")
        }
        moored::journal::Mutation::Dispatch(dispatch) => dispatch_words(dispatch),
        other => format!("{other:?}"),
    }
}

fn dispatch_words(dispatch: &moored::journal::DispatchRow) -> String {
    let fact = dispatch.fact.as_ref().map(|f| format!(" {}", word(&f.code))).unwrap_or_default();
    let reason = dispatch.reason.as_ref().map(|r| format!(" {}", word(r))).unwrap_or_default();
    format!("dispatch {} {}{fact}{reason}", dispatch.message_id, word(&dispatch.state))
}

fn body_words(body: &ItemBody) -> String {
    match body {
        ItemBody::Turn(turn) => turn_line(turn),
        ItemBody::Message(m) => format!("{} {}", word(&m.role), shown(&m.text)),
        ItemBody::Tool(t) => {
            let ended = t.ended_as.as_ref().map(|e| format!(" {}", word(e))).unwrap_or_default();
            let late = if t.late { " late" } else { "" };
            format!("{}{ended}{late} {}", word(&t.status), shown(&t.title))
        }
        ItemBody::Approval(a) => format!("{} {}", word(&a.resolution), shown(&a.title)),
        ItemBody::Status(s) => format!("{} {}", word(&s.tone), shown(&s.text)),
        ItemBody::Plan(p) => payload(&p.payload),
        ItemBody::Raw(r) => format!("{} {}", r.kind, payload(&r.payload)),
        ItemBody::User(u) => shown(&u.text),
        other => format!("{other:?}"),
    }
}

/// Names of a run, replaced by their ordinal of first appearance.
#[derive(Default)]
struct Ordinals(BTreeMap<String, usize>);

/// Replaces runs of 32 hexadecimal digits, which is what minted ids look like.
fn names_replaced(names: &mut Ordinals, text: &str) -> String {
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let mut out = String::new();
    let mut run = String::new();
    for c in text.chars().chain(std::iter::once('\0')) {
        if is_hex(c) {
            run.push(c);
            continue;
        }
        if run.len() == 32 {
            let next = names.0.len() + 1;
            let ordinal = *names.0.entry(std::mem::take(&mut run)).or_insert(next);
            out.push_str(&format!("<{ordinal}>"));
        } else {
            out.push_str(&std::mem::take(&mut run));
        }
        if c != '\0' {
            out.push(c);
        }
    }
    out
}

fn payload(payload: &Payload) -> String {
    let cut =
        payload.cut.as_ref().map(|c| format!(" cut of {} bytes", c.bytes)).unwrap_or_default();
    format!("{}{cut}", shown(&payload.head))
}

fn shown(text: &str) -> String {
    if text.len() <= TEXT_SHOWN_BYTES_MAX {
        return serde_json::Value::from(text).to_string();
    }
    let digest = digest_hex(text.as_bytes());
    format!("({} bytes, sha256 {})", text.len(), &digest[..16])
}

/// The word a value has on the wire.
fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => "?".to_owned(),
    }
}
