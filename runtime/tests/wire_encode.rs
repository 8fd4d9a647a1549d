//! Every frame the host writes is one line that the official types of the protocol read.
use agent_client_protocol_schema::v1::{
    AuthenticateRequest, CancelNotification, CloseSessionRequest, InitializeRequest,
    JsonRpcMessage, LoadSessionRequest, NewSessionRequest, Notification, PromptRequest, Request,
    RequestId as OfficialId, RequestPermissionOutcome, RequestPermissionResponse, Response,
    ResumeSessionRequest, SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use moored::wire::{PermissionOutcome, PromptBlock, RequestId, encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

fn line(frame: Vec<u8>) -> String {
    let text = String::from_utf8(frame).expect("frames are text");
    assert_eq!(text.find('\n'), Some(text.len() - 1), "one newline, at the end");
    text
}

/// The parameters as the official type reads them, after the envelope was checked.
fn request<P: DeserializeOwned>(frame: Vec<u8>, id: u64, method: &str) -> P {
    let text = line(frame);
    let message: JsonRpcMessage<Request<P>> =
        serde_json::from_str(&text).expect("the official type reads it");
    let request = message.into_inner();
    assert_eq!(request.id, OfficialId::Number(id as i64));
    assert_eq!(&*request.method, method);
    request.params.expect("every request has parameters")
}

#[test]
fn initialize_offers_version_one_and_no_capability() {
    let frame = encode::initialize(1).unwrap();
    let expected = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"#,
        r#""clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false},"#,
        r#""clientInfo":{"name":"moored","version":""#,
        env!("CARGO_PKG_VERSION"),
        "\"}}}\n"
    );
    assert_eq!(line(frame.clone()), expected);
    let params: InitializeRequest = request(frame, 1, "initialize");
    assert_eq!(params.protocol_version, 1.into());
    assert!(!params.client_capabilities.terminal);
}

#[test]
fn session_requests() {
    let new: NewSessionRequest = request(encode::session_new(2, "/w").unwrap(), 2, "session/new");
    assert_eq!((new.cwd.to_str(), new.mcp_servers.len()), (Some("/w"), 0));
    let load: LoadSessionRequest =
        request(encode::session_load(3, "s\"\n", "/w").unwrap(), 3, "session/load");
    assert_eq!((&*load.session_id.0, load.mcp_servers.len()), ("s\"\n", 0));
    let resume: ResumeSessionRequest =
        request(encode::session_resume(4, "s", "/w").unwrap(), 4, "session/resume");
    assert_eq!((&*resume.session_id.0, resume.cwd.to_str()), ("s", Some("/w")));
    let close: CloseSessionRequest =
        request(encode::session_close(5, "s").unwrap(), 5, "session/close");
    assert_eq!(&*close.session_id.0, "s");
    let mode: SetSessionModeRequest =
        request(encode::set_mode(6, "s", "plan").unwrap(), 6, "session/set_mode");
    assert_eq!(&*mode.mode_id.0, "plan");
    let option: SetSessionConfigOptionRequest = request(
        encode::set_config_option(7, "s", "model", "m").unwrap(),
        7,
        "session/set_config_option",
    );
    assert_eq!(&*option.config_id.0, "model");
    let sign_in: AuthenticateRequest =
        request(encode::authenticate(8, "agent").unwrap(), 8, "authenticate");
    assert_eq!(&*sign_in.method_id.0, "agent");
}

#[test]
fn a_prompt_of_several_lines_is_one_line_on_the_wire() {
    let text = "first\nsecond\r\n\u{2028}\"quoted\" \u{1f600}\u{0}";
    let frame = encode::session_prompt(9, "s", &[PromptBlock::text(text)]).unwrap();
    let params: PromptRequest = request(frame, 9, "session/prompt");
    let block = serde_json::to_value(&params.prompt[0]).unwrap();
    assert_eq!(block["text"], text);
}

#[test]
fn cancel_is_a_notification() {
    let text = line(encode::session_cancel("s").unwrap());
    let message: JsonRpcMessage<Notification<CancelNotification>> =
        serde_json::from_str(&text).unwrap();
    let cancel = message.into_inner();
    assert_eq!(&*cancel.method, "session/cancel");
    assert_eq!(&*cancel.params.unwrap().session_id.0, "s");
    assert!(!text.contains("\"id\""), "a cancel with an id is another thing to some agents");
}

#[test]
fn replies_echo_the_id_exactly_as_it_came() {
    for token in
        ["0", "-3", "\"7f-a\"", "7.50", "1e3", "-0", "\"\\u0041\\n\"", "123456789012345678901"]
    {
        let id = RequestId::parse(token).unwrap();
        let text = line(encode::reply_error(&id, -32601, "method \"x\"\nnot found").unwrap());
        assert!(
            text.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{token},"error":{{"#)),
            "{text}"
        );
        let text = line(encode::reply_result(&id, &()).unwrap());
        assert_eq!(text, format!("{{\"jsonrpc\":\"2.0\",\"id\":{token},\"result\":null}}\n"));
    }
    assert!(RequestId::parse("null").is_err());
    assert!(RequestId::parse("{}").is_err());
    assert!(RequestId::parse("7 8").is_err());
    // A text that never was a token is escaped.
    let text = line(encode::reply_result(&RequestId::Text("a\"\n".to_owned()), &1).unwrap());
    assert_eq!(text, "{\"jsonrpc\":\"2.0\",\"id\":\"a\\\"\\n\",\"result\":1}\n");
}

#[test]
fn the_two_answers_to_a_permission_request() {
    let id = RequestId::Number(0);
    let outcome = |outcome| {
        let text = line(encode::permission_outcome(&id, &outcome).unwrap());
        let message: JsonRpcMessage<Response<RequestPermissionResponse>> =
            serde_json::from_str(&text).unwrap();
        match message.into_inner() {
            Response::Result { id: OfficialId::Number(0), result } => result.outcome,
            other => panic!("no result for id 0: {other:?}"),
        }
    };
    assert!(matches!(outcome(PermissionOutcome::Cancelled), RequestPermissionOutcome::Cancelled));
    match outcome(PermissionOutcome::Selected("allow_once".to_owned())) {
        RequestPermissionOutcome::Selected(selected) => {
            assert_eq!(&*selected.option_id.0, "allow_once")
        }
        other => panic!("another outcome: {other:?}"),
    }
}

#[test]
fn a_raw_result_of_several_lines_is_written_on_one() {
    let raw: &serde_json::value::RawValue = Deserialize::deserialize(
        &mut serde_json::Deserializer::from_str("{\n \"a\":\r\n \"x\\ny\"}"),
    )
    .unwrap();
    let text = line(encode::reply_result(&RequestId::Number(1), &raw).unwrap());
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["result"]["a"], "x\ny");
}
