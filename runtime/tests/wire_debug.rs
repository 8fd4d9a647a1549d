//! `Debug` of nothing on the wire prints what a person or an agent wrote.
mod wire_support;

use moored::wire::answer::{Initialize, PromptAnswer, SessionOpened};
use moored::wire::{Findings, PromptBlock, ReplyOutcome};
use wire_support::{read, update};

const SECRET: &str = "tell-nobody";

#[test]
fn events_and_the_decoder_print_shapes_and_lengths() {
    let lines = [
        update(r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"SECRET"}}"#),
        update(r#"{"sessionUpdate":"user_message_chunk","content":{"type":"image","data":"SECRET"}}"#),
        update(
            r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"SECRET","rawInput":{"a":"SECRET"},"rawOutput":"SECRET","content":["SECRET"],"locations":["SECRET"]}"#,
        ),
        update(r#"{"sessionUpdate":"plan","entries":[{"content":"SECRET"}]}"#),
        update(r#"{"sessionUpdate":"session_info_update","title":"SECRET"}"#),
        update(
            r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"SECRET","description":"SECRET","input":{"hint":"SECRET"}}]}"#,
        ),
        update(r#"{"sessionUpdate":"config_option_update","configOptions":["SECRET"]}"#),
        update(r#"{"sessionUpdate":"unheard_of","x":"SECRET"}"#),
        r#"{"jsonrpc":"2.0","id":1,"result":{"text":"SECRET"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"SECRET","data":"SECRET"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"error":"SECRET","result":"SECRET"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"result":{"text":"SECRET}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"toolCall":{"title":"SECRET"},"options":[{"optionId":"a","name":"SECRET"}]}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"$/note","params":["SECRET"]}"#.to_owned(),
        r#"[{"SECRET":"SECRET"}]"#.to_owned(),
        r#"{"level":"SECRET"}"#.to_owned(),
        "SECRET\r".to_owned(),
        "{\"jsonrpc\":\"SECRET".to_owned(),
    ];
    let bytes = lines.join("\n").replace("SECRET", SECRET);
    let (events, decoder) = read(bytes.as_bytes());
    assert!(events.len() > lines.len(), "some lines also give a defect");
    let printed = format!("{events:#?} {decoder:?}");
    assert!(!printed.contains(SECRET), "{printed}");
    assert!(printed.contains("<11 bytes>"), "lengths are printed: {printed}");
    assert!(decoder.noise_tail().any(|line| line == SECRET.as_bytes()), "the noise itself is kept");

    // Half a line is held by the decoder and printed by nobody.
    let mut decoder = decoder;
    decoder.push(SECRET.as_bytes(), &mut |_| {});
    assert!(!format!("{decoder:?}").contains(SECRET));
}

#[test]
fn prompts_and_answers_print_shapes_and_lengths() {
    let block = PromptBlock::text(SECRET);
    assert_eq!(format!("{block:?}"), "Text(<11 bytes>)");
    let mut findings = Findings::default();
    let result =
        format!(r#"{{"stopReason":"{SECRET}","configOptions":["{SECRET}"],"agentInfo":null}}"#);
    let printed = format!(
        "{:?} {:?} {:?} {findings:?}",
        PromptAnswer::decode(&result, &mut findings.clone()),
        SessionOpened::decode(&result, "session/new", &mut findings.clone()),
        Initialize::decode(&result, &mut findings),
    );
    assert!(!printed.contains(SECRET), "{printed}");
    let outcome = ReplyOutcome::Error { code: 1, message: SECRET.into(), data: None };
    assert!(!format!("{outcome:?}").contains(SECRET));
}
