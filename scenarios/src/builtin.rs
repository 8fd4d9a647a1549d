//! The documents of this repository.

use crate::document::Document;

macro_rules! documents {
    ($($name:literal,)*) => {
        const DOCUMENTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../documents/", $name, ".json"))),)*];
    };
}

documents! {
    "asks-what-is-not-offered",
    "closes-mid-turn",
    "closes-while-starting",
    "crasher",
    "echo",
    "eof-mid-line",
    "error-null",
    "flooder",
    "frozen",
    "id-as-a-string",
    "ignores-eof",
    "late-persister",
    "late-text",
    "late-update-of-a-completed-call",
    "missing-program",
    "never-answers",
    "noisy-stdout",
    "not-restored",
    "odd-updates",
    "orphan-maker",
    "oversize-frame",
    "permission-answered",
    "permission-answered-twice",
    "permission-by-access",
    "permission-dismissed",
    "permission-of-no-option",
    "refuser",
    "reopens",
    "reopens-mid-turn",
    "reply-twice",
    "same-id-twice",
    "send-after-close",
    "slow-starter",
    "split-frames",
    "stderr-flood",
    "steer",
    "stop-then-send",
    "stops-while-starting",
    "stops-with-a-permission-pending",
    "t01-first-send",
    "t02-no-handshake",
    "t03-other-version",
    "t04-no-way-to-sign-in",
    "t04-sign-in",
    "t04-sign-in-in-vain",
    "t05-dies-in-initialize",
    "t12-win32-leaves-on-eof",
    "t13-win32-ignores-eof",
    "t14-posix-ladder",
    "t19-cancelled",
    "t19-end-turn",
    "t19-max-tokens",
    "t19-max-turn-requests",
    "t19-refusal",
    "t19-unknown-reason",
    "t20-error-answer",
    "t21-unreadable-answer",
    "t22-calls-of-a-completed-turn",
    "t22-calls-of-a-lost-turn",
    "t22-calls-of-a-stopped-turn",
    "t23-call-ends-with-its-turn",
    "t24-late-update-of-a-cut-call",
    "t26-agent-turn",
    "t26-usage-opens-no-turn",
    "t27-stop",
    "t28-cancel-ignored",
    "t33-nothing-to-stop",
    "t34-late-stop",
    "t46-end-turn-after-cancel",
    "two-sends",
    "two-stops",
    "unknown-updates",
}

/// Every document of this repository, in the order of their names.
///
/// # Panics
///
/// If one of them does not parse, which a test would have found.
pub fn builtin() -> Vec<Document> {
    DOCUMENTS
        .iter()
        .map(|(name, text)| match Document::parse(text, name) {
            Ok(document) => document,
            Err(error) => panic!("{error}"),
        })
        .collect()
}
