//! Steps of a script, in short.

use moored_fake_agents::Signal;
use moored_fake_agents::script::step::{
    Delay, DropReply, EchoUser, Exit, Fork, FrameOf, Freeze, Later, Noise, Permission, Reply, Say,
    Split, Stderr, Step, Think, ToolCall, ToolUpdate, Update, Withdraw,
};
use serde_json::{Map, Value, json};

use super::dice::Dice;
use super::feature::{Feature, Features};

pub(super) fn delay(ms: u64) -> Step {
    Step::Delay(Delay { ms })
}

pub(super) fn say(text: &str) -> Step {
    Step::Say(Say { text: text.to_owned() })
}

pub(super) fn think(text: &str) -> Step {
    Step::Think(Think { text: text.to_owned() })
}

pub(super) fn tool_call(id: &str, status: &str) -> Step {
    Step::ToolCall(ToolCall {
        id: id.to_owned(),
        title: "$ sleep 30".to_owned(),
        kind: "execute".to_owned(),
        status: status.to_owned(),
        extra: Map::new(),
    })
}

pub(super) fn tool_update(id: &str, status: &str) -> Step {
    let text = Some("some output".to_owned());
    Step::ToolUpdate(ToolUpdate {
        id: id.to_owned(),
        status: status.to_owned(),
        text,
        extra: Map::new(),
    })
}

pub(super) fn update(update: Value) -> Step {
    Step::Update(Update { update, session: None })
}

pub(super) fn permission(tool: &str, options: Option<Vec<Value>>, id: Option<Value>) -> Permission {
    Permission {
        tool: tool.to_owned(),
        title: "touch approved.txt".to_owned(),
        options,
        id,
        wait: true,
        on_answer: std::iter::once(("*".to_owned(), vec![say("so be it")])).collect(),
    }
}

pub(super) fn withdraw() -> Step {
    Step::Withdraw(Withdraw {})
}

pub(super) fn reply() -> Step {
    Step::Reply(Reply::default())
}

pub(super) fn reply_because(reason: Value) -> Step {
    Step::Reply(Reply { stop_reason: Some(reason), ..Reply::default() })
}

pub(super) fn reply_error(code: i64, message: &str) -> Step {
    let error = Some(json!({ "code": code, "message": message }));
    Step::Reply(Reply { error, ..Reply::default() })
}

pub(super) fn drop_reply() -> Step {
    Step::DropReply(DropReply {})
}

pub(super) fn echo() -> Step {
    Step::EchoUser(EchoUser {})
}

pub(super) fn later(after_ms: u64, steps: Vec<Step>) -> Step {
    Step::Later(Later { after_ms, steps })
}

pub(super) fn freeze() -> Step {
    Step::Freeze(Freeze {})
}

pub(super) fn split(at: Vec<usize>, gap_ms: u64) -> Step {
    Step::Split(Split { at, gap_ms })
}

pub(super) fn big_text(bytes: u64) -> Step {
    Step::FrameOf(FrameOf { bytes, newline: true })
}

pub(super) fn noise(text: &str, newline: bool) -> Step {
    Step::Noise(Noise { text: Some(text.to_owned()), hex: None, newline })
}

pub(super) fn stderr(bytes: u64) -> Step {
    Step::Stderr(Stderr { text: Some("warning: so it goes".to_owned()), bytes })
}

/// It exits or dies.
pub(super) fn fall(dice: &mut Dice, on: Features) -> Step {
    if on.has(Feature::DiesBySignal) && dice.in_16(8) {
        let signal = dice.pick(&[Signal::Abrt, Signal::Kill, Signal::Segv, Signal::Term]);
        return Step::Die(moored_fake_agents::script::step::Die { signal });
    }
    Step::Exit(Exit { code: dice.pick(&[0, 0, 1, 1, 137]) })
}

/// It starts a process that holds its stdout, and resists.
pub(super) fn fork_that_holds_stdout() -> Step {
    use moored_fake_agents::Group;
    Step::Fork(Fork { group: Group::Same, lives_ms: None, holds_stdout: true, ignores_term: true })
}

/// It starts a process.
pub(super) fn fork(dice: &mut Dice, on: Features) -> Step {
    use moored_fake_agents::Group;
    let mut perhaps = |feature| on.has(feature) && dice.in_16(8);
    let away = perhaps(Feature::ForksAway);
    let (holds_stdout, ignores_term) =
        (perhaps(Feature::ForksHoldStdout), perhaps(Feature::ForksIgnoreTerm));
    let group = if away { Group::OwnSession } else { Group::Same };
    let lives_ms = dice.in_16(8).then(|| dice.magnitude(10, 20_000));
    Step::Fork(Fork { group, lives_ms, holds_stdout, ignores_term })
}
