//! Conversations at a real terminal: Stop, what was written meanwhile, and how the terminal is left.

#![expect(clippy::disallowed_types, reason = "a harness of real processes")]

mod common;
mod pty;

use common::{MOORED, Place, interrupt, signal, until};
use pty::{CTRL_C, CTRL_D, CTRL_U, CTRL_Z, STOPPING, Terminal};
use serde_json::{Value, json};

/// Says that it works and never ends by itself, whatever it is told; a prompt with `finish` in it is answered.
fn deaf() -> Value {
    json!({
        "on": { "cancel": { "obey": "never" } },
        "turns": [
            { "when": { "contains": "finish" },
              "steps": [{ "do": "say", "text": "all finished" }, { "do": "reply" }] },
            { "steps": [{ "do": "say", "text": "working on it" }] },
        ],
    })
}

/// A conversation whose agent works on `work`, and does not hear of a Stop.
fn at_work(place: &Place) -> Terminal {
    let mut terminal = Terminal::chat_with(place, deaf());
    terminal.until_line(">");
    terminal.press("work\r");
    terminal.until_shows("working on it");
    terminal.until_shows("Working for ");
    terminal
}

fn leave(mut terminal: Terminal) -> Terminal {
    terminal.press(CTRL_D);
    assert_eq!(terminal.end(), Some(0));
    terminal
}

fn journal(place: &Place) -> String {
    place.run(&["journal", &place.only_session()]).out
}

/// These come in this order.
#[track_caller]
fn assert_order(text: &str, words: &[&str]) {
    let mut rest = text;
    for word in words {
        let at = rest.find(word).unwrap_or_else(|| panic!("{word:?} is not next in {rest:?}"));
        rest = &rest[at + word.len()..];
    }
}

#[test]
fn ctrl_c_while_a_turn_runs_is_a_stop() {
    let place = Place::new();
    let mut terminal = at_work(&place);
    terminal.press(CTRL_C);
    terminal.until_shows("[turn] Interrupted after ");
    // The agent never answers: what is shown before the end does not wait for it.
    let shown = [STOPPING, "[note] Cancellation requested.", "[turn] Interrupted after "];
    assert_order(terminal.written(), &shown);
    assert!(!terminal.screen().contains(STOPPING), "{}", terminal.screen());
    let (_, since) = terminal.written().split_once(STOPPING).expect("it was shown");
    assert!(!since.contains("Working for "), "it does not flicker: {since}");
    let said =
        ["> work\nworking on it\n", "[note] Cancellation requested.\n", "[turn] Interrupted"];
    assert_order(&terminal.screen(), &said);
    leave(terminal);
    assert!(journal(&place).contains("a person's Stop reaches turn"));
}

#[test]
fn sigint_is_a_stop_too() {
    let place = Place::new();
    let mut terminal = at_work(&place);
    interrupt(&terminal.chat);
    terminal.until_written(STOPPING);
    terminal.until_shows("[turn] Interrupted after ");
    leave(terminal);
}

#[test]
fn a_line_sent_while_stopping_is_held_and_runs_after_the_stop() {
    let place = Place::new();
    let mut terminal = at_work(&place);
    terminal.press("please finish");
    terminal.until_line("> please finish");
    // In one go, so that no time passes between the press and the line.
    terminal.press(&format!("{CTRL_C}\r"));
    terminal.until_shows("all finished");
    let shown = [STOPPING, "runs after the stop: please finish", "[turn] Interrupted after "];
    assert_order(terminal.written(), &shown);
    // Once it runs it has its place behind the end of the stopped turn.
    let rows = ["[turn] Interrupted after ", "\n> please finish\nall finished"];
    assert_order(&terminal.screen(), &rows);
    leave(terminal);
    let journal = journal(&place);
    assert_eq!(journal.matches("agent started as process").count(), 2, "{journal}");
    let sessions = place.sessions();
    assert_eq!(sessions[0]["turnOutcome"], "success", "{sessions:?}");
}

#[test]
fn a_second_ctrl_c_gives_the_held_message_back() {
    let place = Place::new();
    let mut terminal = at_work(&place);
    terminal.press("please finish");
    terminal.until_line("> please finish");
    terminal.press(&format!("{CTRL_C}\r{CTRL_C}"));
    terminal.until_written("runs after the stop: please finish");
    terminal.until_line("> please finish");
    terminal.until_shows("[turn] Interrupted after ");
    assert!(!terminal.screen().contains("all finished"), "{}", terminal.screen());
    // It is edited and sent again.
    terminal.press(" it now\r");
    terminal.until_shows("\n> please finish it now\nall finished");
    leave(terminal);
    let journal = journal(&place);
    assert_eq!(journal.matches("a person's Stop reaches turn").count(), 2, "{journal}");
}

#[test]
fn a_stop_before_the_host_has_the_message_gives_it_back() {
    let place = Place::new();
    let mut terminal = Terminal::chat_with(&place, deaf());
    terminal.until_line(">");
    terminal.press(&format!("not yet, finish\r{CTRL_C}"));
    let told = "[turn] the message was withdrawn before the agent had it; it is back on the line";
    terminal.until_shows(told);
    terminal.until_line("> not yet, finish");
    assert!(!terminal.screen().contains("all finished"), "{}", terminal.screen());
    terminal.press("\r");
    terminal.until_shows("all finished");
    leave(terminal);
}

#[test]
fn a_stop_before_the_agent_has_the_message_gives_it_back() {
    let place = Place::new();
    // It never begins to read.
    let mut terminal =
        Terminal::chat_with(&place, json!({ "agent": { "start_delay_ms": 3_600_000 } }));
    terminal.until_line(">");
    terminal.press("hello\r");
    terminal.until_shows("waits for the agent: hello");
    terminal.press(CTRL_C);
    terminal.until_line("> hello");
    terminal.press(CTRL_U);
    leave(terminal);
}

#[test]
fn a_message_that_waits_for_its_turn_comes_back_from_a_stop_before_what_was_written_since() {
    let place = Place::new();
    let mut terminal = at_work(&place);
    terminal.press("first\r");
    terminal.until_shows("runs after this turn: first");
    terminal.press("second\r");
    terminal.until_shows("runs after this turn: second");
    terminal.press(&format!("third{CTRL_C}"));
    terminal.until_line("  third");
    terminal.until("all are back", |t| t.screen().ends_with("> first\n  second\n  third"));
    terminal.until_shows("[turn] Interrupted after ");
    terminal.press("\r");
    terminal.until_shows("> first\n  second\n  third\nworking on it");
    leave(terminal);
}

#[test]
fn a_press_that_comes_too_late_closes_nothing() {
    let place = Place::new();
    let mut terminal = at_work(&place);
    terminal.press(CTRL_C);
    terminal.until_shows("[turn] Interrupted after ");
    terminal.until_line(">");
    terminal.press(CTRL_C);
    terminal.until_shows("[note] nothing runs any more; Ctrl-C again closes the session");
    terminal.press(CTRL_C);
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn ctrl_c_at_rest_clears_the_line_and_leaves_an_empty_one() {
    let place = Place::new();
    let mut terminal = Terminal::chat(&place, &[]);
    terminal.until_line(">");
    terminal.press("a thought");
    terminal.until_line("> a thought");
    terminal.press(CTRL_C);
    terminal.until_line(">");
    // The Up key has it still.
    terminal.press("\u{1b}[A");
    terminal.until_line("> a thought");
    terminal.press(&format!("{CTRL_C}{CTRL_C}"));
    assert_eq!(terminal.end(), Some(0));
    assert_eq!(place.sessions()[0]["closed"], true);
}

#[test]
fn ctrl_d_leaves_at_rest() {
    let place = Place::new();
    let mut terminal = Terminal::chat(&place, &[]);
    terminal.until_line(">");
    assert!(terminal.is_raw());
    terminal.press("hello\r");
    terminal.until_shows("> hello\nhello\n");
    leave(terminal);
    let sessions = place.sessions();
    assert_eq!(
        (&sessions[0]["closed"], &sessions[0]["latestPrompt"]),
        (&true.into(), &"hello".into())
    );
}

#[test]
fn ctrl_d_leaves_in_the_middle_of_a_turn_and_says_what_was_not_sent() {
    let place = Place::new();
    let mut terminal = at_work(&place);
    terminal.press("later\r");
    terminal.until_shows("runs after this turn: later");
    let terminal = leave(terminal);
    let shown = ["[note] not sent: later", "[turn] left before the turn's end", "[end] the agent "];
    assert_order(&terminal.screen(), &shown);
    assert_eq!(place.sessions()[0]["turnOutcome"], "cancellation");
}

#[test]
fn sigterm_and_sighup_end_the_session_and_its_agent() {
    for name in ["TERM", "HUP"] {
        let place = Place::new();
        let mut terminal = at_work(&place);
        let agents = place.processes();
        assert!(agents.len() > 1, "the program and its agent: {agents:?}");
        signal(&terminal.chat, name);
        assert_eq!(terminal.end(), Some(0), "{name}");
        until("none of them is left", || place.processes().is_empty());
        assert_eq!(place.sessions()[0]["closed"], true, "{name}");
    }
}

#[test]
fn a_terminal_that_is_closed_ends_the_session_and_its_agent() {
    let place = Place::new();
    let mut terminal = at_work(&place);
    terminal.close();
    assert_eq!(terminal.end(), Some(0));
    until("nobody is left", || place.processes().is_empty());
    assert_eq!(place.sessions()[0]["closed"], true);
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_takes_it_back() {
    let place = Place::new();
    let mut terminal = Terminal::chat(&place, &[]);
    terminal.until_line(">");
    terminal.press("half a th");
    terminal.until_line("> half a th");
    terminal.press(CTRL_Z);
    until("it is stopped", || terminal.is_stopped());
    assert!(!terminal.is_raw());
    signal(&terminal.chat, "CONT");
    terminal.until("it goes on", |terminal| terminal.is_raw());
    terminal.press("ought\r");
    terminal.until_shows("> half a thought\nhalf a thought\n");
    leave(terminal);
}

#[test]
fn an_error_gives_the_terminal_back() {
    let place = Place::new();
    let mut terminal = Terminal::chat(&place, &["--", "/bin/false"]);
    terminal.until_line(">");
    terminal.press("hello\r");
    assert_eq!(terminal.end(), Some(2));
    assert!(terminal.screen().contains("moored: the agent did not start"), "{}", terminal.screen());
}

#[test]
fn no_question_is_shown_once_stop_was_pressed() {
    let place = Place::new();
    let asks = json!({
        "on": { "cancel": { "steps": [
            { "do": "permission", "tool": "c2", "title": "touch second.txt" },
            { "do": "reply", "stop_reason": "cancelled" },
        ] } },
        "turns": [{ "steps": [
            { "do": "tool_call", "id": "c1" },
            { "do": "tool_call", "id": "c2" },
            { "do": "permission", "tool": "c1", "title": "touch first.txt" },
        ] }],
    });
    let mut terminal = Terminal::chat_with(&place, asks);
    terminal.until_line(">");
    terminal.press("work\r");
    terminal.until_shows("[question] touch first.txt? 1 Allow once");
    terminal.until_line("?");
    terminal.press(CTRL_C);
    terminal.until_shows("[question] touch first.txt: withdrawn");
    terminal.until_shows("[turn] Interrupted after ");
    terminal.until_line(">");
    assert!(!terminal.written().contains("second.txt"), "{}", terminal.written());
    leave(terminal);
}

#[test]
fn a_question_is_answered_at_the_terminal_and_takes_no_message_for_an_answer() {
    let place = Place::new();
    let asks = json!({ "turns": [{ "steps": [
        { "do": "tool_call", "id": "c1" },
        { "do": "permission", "tool": "c1", "on_answer": {
            "*": [{ "do": "say", "text": "did it" }, { "do": "reply" }] } },
    ] }] });
    let mut terminal = Terminal::chat_with(&place, asks);
    terminal.until_line(">");
    terminal.press("go\r");
    terminal.until_line("?");
    terminal.press("my next thought\r");
    terminal.until_shows("answer with a number from 0 to 4");
    terminal.until_line("? my next thought");
    terminal.press(&format!("{CTRL_U}1\r"));
    terminal.until_shows("did it");
    terminal.until_line(">");
    leave(terminal);
}

#[test]
fn a_message_is_edited_as_on_any_other_line() {
    let place = Place::new();
    let mut terminal = Terminal::chat(&place, &[]);
    terminal.until_line(">");
    terminal.press(&format!("wrong{CTRL_U}{}", "\u{4e2d}\u{e9}\u{20ac}\u{1f642}\u{7f}\u{7f}x"));
    terminal.until_line("> \u{4e2d}\u{e9}x");
    // To the start, over one wide character, and a letter before the next.
    terminal.press("\u{1}\u{1b}[Cy");
    terminal.until_line("> \u{4e2d}y\u{e9}x");
    terminal.press("\r");
    terminal.until_shows("> \u{4e2d}y\u{e9}x\n\u{4e2d}y\u{e9}x\n");
    leave(terminal);
}

#[test]
fn a_paste_is_one_message_whatever_lines_it_has() {
    let place = Place::new();
    let mut terminal = Terminal::chat(&place, &[]);
    terminal.until_line(">");
    terminal.press("see: \u{1b}[200~one\rtwo\r\rthree\u{3}\u{1b}[201~");
    terminal.until("it is shown", |t| t.screen().ends_with("> see: one\n  two\n\n  three"));
    terminal.press("\r");
    terminal.until_shows("see: one\ntwo\n\nthree\n");
    leave(terminal);
    assert_eq!(place.sessions()[0]["latestPrompt"], "see: one\ntwo\n\nthree");
}

#[test]
fn the_written_line_stays_below_a_flood() {
    let place = Place::new();
    let floods = json!({ "turns": [{ "steps": [
        { "do": "repeat", "times": 2_000, "steps": [{ "do": "say", "text": "word${n} " }] },
        { "do": "repeat", "times": 3, "steps": [{ "do": "say", "text": "\nline ${n}" }] },
        { "do": "reply" },
    ] }] });
    let mut terminal = Terminal::chat_with(&place, floods);
    terminal.until_line(">");
    terminal.press("go\rmy next thought");
    let end = "word2000\nline 1\nline 2\nline 3\n> my next thought";
    terminal.until("it is at rest", |terminal| terminal.screen().ends_with(end));
    let screen = terminal.screen();
    assert_eq!(screen.matches("my next thought").count(), 1, "{screen}");
    // Rows that the terminal has broken are one line, as they were said.
    let flood = screen.lines().next().unwrap_or_default();
    let words: Vec<String> = (1_950..=2_000).map(|n| format!("word{n}")).collect();
    assert!(flood.ends_with(&words.join(" ")), "{screen}");
    terminal.press(CTRL_U);
    leave(terminal);
}

#[test]
fn a_terminal_that_can_do_nothing_has_its_own_line() {
    let place = Place::new();
    let mut command = place.moored(&["chat"]);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::open(command);
    terminal.until_line(">");
    assert!(!terminal.is_raw());
    terminal.press("hello\r");
    terminal.until_shows("> hello\nhello\n");
    leave(terminal);
}

#[test]
fn leaving_while_nothing_can_be_saved_says_so_and_what_became_of_the_agent() {
    let place = Place::new();
    let words = "word ".repeat(400);
    let script = json!({
        "turns": [{ "steps": [
            { "do": "say", "text": "working on it" },
            { "do": "repeat", "times": 4000, "every_ms": 5, "steps": [{ "do": "say", "text": words }] },
        ] }],
        "store": { "home": place.file_name("agent-home") },
    });
    let agent = place.file("agent.json", &script.to_string());
    let chat = format!("chat -- {MOORED} fake-agent --script {agent}");
    // A file may not grow past this: a disk that fills up while the agent talks.
    let limited = format!("trap '' XFSZ; ulimit -f 400; exec {MOORED} {chat}");
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", &limited]).current_dir(place.workspace());
    command.env("MOORED_STORE", place.store()).env("TERM", "xterm-256color");
    let mut terminal = Terminal::open(command);
    terminal.until_line(">");
    terminal.press("work\r");
    terminal.until_written("[warning] nothing is saved now");
    terminal.press(CTRL_C);
    terminal.until_written(STOPPING);
    terminal.press(CTRL_D);
    assert_eq!(terminal.end(), Some(2));
    let told = [
        "[end] the agent ",
        "no Stop and no end",
        "moored: the store ",
        "cannot be written; free some space",
    ];
    // A line of the terminal ends where its window does.
    let written = terminal.written().replace(['\r', '\n'], "");
    assert_order(&written, &told);
}
