//! What a well-behaved agent does: the steps behind everything a script leaves out.

use std::sync::LazyLock;

use serde_json::json;

use crate::script::Moment;
use crate::script::step::{Entry, Event, Exit, Persist, Reply, Say, Settle, Step, WaitFor};

pub(super) struct Defaults {
    pub(super) bootstrap: Vec<Step>,
    pub(super) broken_stdout: Vec<Step>,
    pub(super) cancel: Vec<Step>,
    pub(super) cancel_as_request: Vec<Step>,
    pub(super) close: Vec<Step>,
    pub(super) echo: Vec<Step>,
    pub(super) eof: Vec<Step>,
    pub(super) not_signed_in: Vec<Step>,
    pub(super) refused_busy: Vec<Step>,
    pub(super) reply: Vec<Step>,
    pub(super) sighup: Vec<Step>,
    pub(super) sigint: Vec<Step>,
    pub(super) sigterm: Vec<Step>,
}

impl Defaults {
    /// All of them, made once.
    pub(super) fn all() -> &'static Defaults {
        static ALL: LazyLock<Defaults> = LazyLock::new(Defaults::new);
        &ALL
    }

    fn new() -> Defaults {
        Defaults {
            bootstrap: Vec::new(),
            broken_stdout: vec![exit(1)],
            // omp answers first and writes the aborted entry right after.
            cancel: vec![Step::Reply(Reply {
                stop_reason: Some(json!("cancelled")),
                persist: Some(Moment::After),
                ..Reply::default()
            })],
            cancel_as_request: vec![Step::Settle(Settle {}), reply()],
            close: vec![
                Step::Settle(Settle {}),
                Step::WaitFor(WaitFor { event: Event::Settled, timeout_ms: None }),
                session_exit("dispose", "normal"),
                reply(),
            ],
            echo: vec![Step::Say(Say { text: "${prompt}".into() }), reply()],
            eof: vec![Step::Settle(Settle {}), session_exit("manual", "normal"), exit(0)],
            not_signed_in: vec![refusal(-32000, "Authentication required")],
            refused_busy: vec![refusal(-32603, "A prompt is already running")],
            reply: vec![reply()],
            sighup: vec![Step::Settle(Settle {}), session_exit("sighup", "signal"), exit(129)],
            sigint: vec![Step::Settle(Settle {}), session_exit("sigint", "signal"), exit(130)],
            sigterm: vec![Step::Settle(Settle {}), session_exit("sigterm", "signal"), exit(143)],
        }
    }
}

fn reply() -> Step {
    Step::Reply(Reply::default())
}

fn refusal(code: i64, message: &str) -> Step {
    Step::Reply(Reply {
        error: Some(json!({ "code": code, "message": message })),
        persist: Some(Moment::Never),
        ..Reply::default()
    })
}

fn exit(code: i32) -> Step {
    Step::Exit(Exit { code })
}

fn session_exit(reason: &str, kind: &str) -> Step {
    Step::Persist(Persist {
        entry: Entry::SessionExit,
        value: json!(null),
        reason: Some(reason.into()),
        kind: Some(kind.into()),
    })
}
