//! What of a cut turn reached the agent's own disk (decisions D20, D28).

use serde_json::json;

use super::rig::{AGENT_SESSION, Rig};
use crate::agent::AgentDefinition;
use crate::journal::{AbortPersisted, ChildRow, Outcome, RowKind, SendMode, TurnState};
use crate::limits::SESSION_FILE_READ_MS;
use crate::platform::{Exit, FileTail};

fn omp() -> Rig {
    let omp = AgentDefinition::builtin("omp").expect("it is shipped");
    let mut omp = omp.with("agent_dir", "/store").expect("it asks for it");
    omp.versions = None;
    Rig::with_agent(omp)
}

/// Somebody stopped the turn that `hello` opened; omp has left, and its file is to be read.
fn left() -> Rig {
    let mut rig = omp();
    rig.send("m1", "hello");
    rig.handshake();
    let prompt = rig.expect("session/prompt");
    rig.stop(None);
    rig.expect("session/cancel");
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert!(rig.looks.is_empty(), "its file may still grow");
    rig.ends(Exit::Code(0));
    rig
}

fn settled(rig: &Rig) -> Vec<Option<AbortPersisted>> {
    let rows = rig.stored.iter().filter_map(|row| match &row.kind {
        RowKind::Child(ChildRow::Settled { abort_persisted, .. }) => Some(*abort_persisted),
        _ => None,
    });
    rows.collect()
}

fn user(text: &str) -> String {
    json!({"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": text}]}})
        .to_string()
}

fn aborted() -> String {
    json!({"type": "message", "message": {"role": "assistant", "stopReason": "aborted"}})
        .to_string()
}

fn file(lines: &[String]) -> FileTail {
    FileTail::Read { bytes: lines.join("\n").into_bytes(), whole: true }
}

#[test]
fn the_end_row_of_a_stopped_turns_agent_says_whether_its_abort_is_on_disk() {
    use AbortPersisted::{No, Unknown, Yes};
    let table = [
        (file(&[user("hello"), aborted()]), Yes, false),
        (file(&[user("hello")]), No, false),
        (file(&[]), No, true),
        // It may be kept elsewhere.
        (FileTail::Missing, Unknown, false),
        (FileTail::Unreadable, Unknown, false),
        (file(&[user("somebody else's"), aborted()]), Unknown, false),
    ];
    for (tail, persisted, unproven) in table {
        let mut rig = left();
        assert!(rig.looks[0].matches(&format!("/store/sessions/ws/1_{AGENT_SESSION}.jsonl")));
        rig.swept(true);
        assert_eq!(settled(&rig), [], "the row waits for the file");
        rig.file_tail(&tail);
        assert_eq!(settled(&rig), [Some(persisted)], "{tail:?}");
        let turn = rig.last_turn();
        assert_eq!(turn.delivery_unproven, unproven, "{tail:?}");
        // How it ended stands (rule 2.3.8).
        let verdict = (turn.state, turn.outcome);
        assert_eq!(verdict, (TurnState::Interrupted, Some(Outcome::Cancellation)));
        rig.send("m2", "next");
        rig.expect("initialize");
    }
}

#[test]
fn a_file_that_is_not_read_in_time_holds_nobody_up() {
    let mut rig = left();
    rig.swept(true);
    rig.send("m2", "next");
    rig.pass_ms(SESSION_FILE_READ_MS - 1);
    assert!(rig.frames.is_empty(), "the next start waits for the end row (decision D33)");
    rig.pass_ms(1);
    assert_eq!(settled(&rig), [Some(AbortPersisted::Unknown)]);
    rig.expect("initialize");
    // It comes after all, and finds nobody who waits.
    rig.file_tail(&file(&[]));
    assert_eq!(settled(&rig).len(), 1);
}

#[test]
fn nothing_is_read_where_nothing_was_cut_or_nobody_asked_for_it() {
    let mut idle = Rig::ready();
    idle.close();
    idle.exits(Exit::Code(0));
    assert!(idle.looks.is_empty());
    assert_eq!(settled(&idle), [None]);
    let mut crashed = Rig::working("hello");
    crashed.exits(Exit::Code(1));
    assert!(crashed.looks.is_empty());
    assert_eq!(settled(&crashed), [None]);
}

/// Ends the agent whose turn runs, stopped, with that in its file; the next message starts another.
fn stopped(rig: &mut Rig, tail: &FileTail) -> Option<AbortPersisted> {
    let prompt = rig.expect("session/prompt");
    rig.stop(None);
    rig.expect("session/cancel");
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    rig.exits(Exit::Code(0));
    rig.file_tail(tail);
    settled(rig).last().copied().flatten()
}

#[test]
fn a_message_that_no_agent_saw_says_nothing_of_the_one_behind_it() {
    let mut rig = omp();
    rig.send("m1", "withdrawn");
    rig.expect("initialize");
    // Withdrawn while its agent starts.
    rig.stop(None);
    rig.exits(Exit::Code(0));
    rig.send("m2", "go");
    rig.handshake();
    assert_eq!(stopped(&mut rig, &file(&[])), Some(AbortPersisted::No));
    assert!(rig.last_turn().delivery_unproven);
}

#[test]
fn words_that_an_earlier_message_had_are_never_taken_for_the_later_ones() {
    use AbortPersisted::{No, Unknown, Yes};
    for (between, words, kept) in [("other", "go", Unknown), ("go", "other", Unknown)] {
        let mut rig = omp();
        rig.send("m1", "go");
        rig.handshake();
        let first = file(&[user("go"), aborted()]);
        assert_eq!(stopped(&mut rig, &first), Some(Yes));
        rig.send("m2", between);
        rig.handshake();
        // The agent loses this one whatever it says.
        let lost = if between == "go" { Unknown } else { No };
        assert_eq!(stopped(&mut rig, &first), Some(lost));
        rig.send("m3", words);
        rig.handshake();
        // The newest record in the file is the first message's.
        let seen = stopped(&mut rig, &first);
        let wanted = if words == "go" { kept } else { No };
        assert_eq!(seen, Some(wanted), "{between} {words}");
    }
}

#[test]
fn a_steer_that_overtook_a_message_reached_the_agent_before_it() {
    let mut rig = omp();
    rig.send("m1", "first");
    rig.handshake();
    let first = rig.expect("session/prompt");
    rig.send("m2", "go");
    rig.send_as("m3", "go", SendMode::Steer);
    rig.expect("session/cancel");
    rig.reply(&first, json!({"stopReason": "cancelled"}));
    rig.reply_prompt(json!({"stopReason": "end_turn"}));
    // What is in the file may be the steer's.
    let tail = file(&[user("first"), user("go"), aborted()]);
    assert_eq!(stopped(&mut rig, &tail), Some(AbortPersisted::Unknown));
}

#[test]
fn an_id_that_leads_anywhere_is_not_looked_for() {
    let mut rig = omp();
    rig.send("m1", "go");
    let initialize = rig.expect("initialize");
    rig.reply(&initialize, json!({"protocolVersion": 1, "agentCapabilities": {}}));
    let open = rig.expect("session/new");
    rig.reply(&open, json!({"sessionId": "../../etc/passwd"}));
    let prompt = rig.expect("session/prompt");
    rig.stop(None);
    rig.expect("session/cancel");
    rig.reply(&prompt, json!({"stopReason": "cancelled"}));
    rig.exits(Exit::Code(0));
    assert!(rig.looks.is_empty());
    assert_eq!(settled(&rig), [Some(AbortPersisted::Unknown)]);
}
