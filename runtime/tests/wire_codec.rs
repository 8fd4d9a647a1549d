//! The wire both ways: whatever a person writes is one line that reads back, whatever an agent offers arrives as it was
//! offered, and no bytes at all end the decoder.

mod property_support;
mod wire_support;

use moored::wire::{Event, PermissionOutcome, PromptBlock, RequestId, encode, fuzz};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use property_support::kept;
use wire_support::{read, update};

const KEPT: &str = "tests/proptest-regressions/wire_codec.txt";

/// Any text, of any letters.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[\"\\\\/\u{0}-\u{1f}\u{7f}\u{2028}\u{2029}\u{feff}{}]{0,12}"]
}

/// The tokens that agents name their requests by.
fn id_tokens() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|id| id.to_string()),
        texts().prop_map(|id| Value::from(id).to_string()),
        "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,4})?([eE][+-]?[0-9]{1,3})?",
    ]
}

/// One frame of ours, as JSON; it must be one line, and nothing in it may surprise our own decoder.
fn frame(bytes: &[u8]) -> Value {
    let text = std::str::from_utf8(bytes).expect("frames are text");
    assert_eq!(text.find(['\n', '\r']), Some(text.len() - 1), "one line break, at the end");
    let (events, decoder) = read(bytes);
    let odd = |event: &Event<'_>| matches!(event, Event::Defect(_) | Event::Noise { .. });
    assert!(!events.iter().any(odd), "{events:?}");
    assert_eq!((events.len(), decoder.frames()), (1, 1));
    serde_json::from_str(text).expect("frames are JSON")
}

/// Frames as agents write them, each in one line.
fn agent_line() -> impl Strategy<Value = Vec<u8>> {
    let chunk = texts().prop_map(|text| {
        let text = Value::from(text);
        update(&format!(
            r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":{text}}}}}"#
        ))
    });
    let line = prop_oneof![
        chunk,
        (id_tokens(), texts()).prop_map(|(id, title)| {
            let params = json!({ "toolCall": { "toolCallId": "c", "title": title }, "options": [] });
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{params}}}"#
            )
        }),
        (any::<u8>(), texts())
            .prop_map(|(id, said)| json!({ "id": id, "result": { "a": [said] } }).to_string()),
        (any::<u8>(), texts()).prop_map(|(id, said)| {
            json!({ "id": id, "error": { "code": -32000, "message": said } }).to_string()
        }),
    ];
    line.prop_map(|line| format!("{line}\n").into_bytes())
}

proptest! {
    #![proptest_config(kept(KEPT, 200))]

    #[test]
    fn a_prompt_of_any_text_reads_back(id in any::<u64>(), session in texts(), parts in prop::collection::vec(texts(), 1..4)) {
        let blocks: Vec<_> = parts.iter().map(PromptBlock::text).collect();
        let sent = frame(&encode::session_prompt(id, &session, &blocks).expect("it fits"));
        let prompt: Vec<Value> =
            parts.iter().map(|text| json!({ "type": "text", "text": text })).collect();
        prop_assert_eq!(&sent["id"], &json!(id));
        prop_assert_eq!(&sent["params"], &json!({ "sessionId": session, "prompt": prompt }));
    }

    #[test]
    fn names_and_values_of_any_text_read_back(id in any::<u64>(), session in texts(), name in texts(), value in texts()) {
        let sent = frame(&encode::set_config_option(id, &session, &name, &value).expect("it fits"));
        prop_assert_eq!(&sent["params"], &json!({ "sessionId": session, "configId": name, "value": value }));
        let sent = frame(&encode::set_mode(id, &session, &name).expect("it fits"));
        prop_assert_eq!(&sent["params"], &json!({ "sessionId": session, "modeId": name }));
        let sent = frame(&encode::session_resume(id, &session, &value).expect("it fits"));
        prop_assert_eq!(&sent["params"]["cwd"], &json!(value));
        let sent = frame(&encode::session_cancel(&session).expect("it fits"));
        prop_assert_eq!(&sent["params"], &json!({ "sessionId": session }));
    }

    /// The token of an id comes back to the byte: in the event, and in the answer.
    #[test]
    fn an_agents_id_is_echoed_as_it_came(token in id_tokens()) {
        let asked = format!(r#"{{"jsonrpc":"2.0","id":{token},"method":"m"}}"#);
        let (events, _) = read(format!("{asked}\n").as_bytes());
        let [Event::Request { id, .. }] = &events[..] else {
            return Err(TestCaseError::fail(format!("no request: {events:?}")));
        };
        prop_assert_eq!(&RequestId::parse(&token), &Ok(id.clone()));
        prop_assert_eq!(id.to_string(), &*token);
        let answer = encode::reply_error(id, -32601, "no such method").expect("it fits");
        let answer = String::from_utf8(answer).expect("frames are text");
        let echo = format!(r#"{{"jsonrpc":"2.0","id":{token},"#);
        prop_assert!(answer.starts_with(&echo));
    }

    #[test]
    fn options_arrive_as_they_were_offered_and_the_choice_goes_back(
        session in texts(), offered in prop::collection::vec((texts(), texts(), texts()), 1..5), chosen in any::<Index>(),
    ) {
        let options: Vec<Value> = offered
            .iter()
            .map(|(id, name, kind)| json!({ "optionId": id, "name": name, "kind": kind }))
            .collect();
        let params = json!({ "sessionId": session, "toolCall": { "toolCallId": "c" }, "options": options });
        let asked = json!({
            "jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params
        });
        let (events, _) = read(format!("{asked}\n").as_bytes());
        let [Event::Request { id, typed: Some(typed), .. }] = &events[..] else {
            return Err(TestCaseError::fail(format!("no typed request: {events:?}")));
        };
        let arrived: Vec<_> =
            typed.options.iter().map(|o| (o.id.clone(), o.name.clone(), o.kind.word())).collect();
        prop_assert_eq!(arrived, &offered[..]);
        let choice = &typed.options[chosen.index(offered.len())].id;
        let outcome = PermissionOutcome::Selected(choice.clone());
        let sent = encode::permission_outcome(id, &outcome).expect("it fits");
        let sent: Value = serde_json::from_slice(&sent).expect("frames are JSON");
        prop_assert_eq!(&sent["result"]["outcome"], &json!({ "outcome": "selected", "optionId": choice }));
    }

    #[test]
    fn a_chunk_of_any_text_arrives_as_that_text(sent in texts(), name in texts()) {
        let content = json!({ "type": "text", "text": sent });
        let chunk = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
        let params = json!({ "sessionId": name, "update": chunk });
        let line = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
        let (events, _) = read(format!("{line}\n").as_bytes());
        let [Event::TextChunk { session, text, .. }] = &events[..] else {
            return Err(TestCaseError::fail(format!("no chunk: {events:?}")));
        };
        prop_assert_eq!((&**session, &**text), (&*name, &*sent));
    }

    /// [`fuzz::chunked`] holds the decoder's contract; its first two bytes choose the cuts and the longest line.
    #[test]
    fn hostile_bytes_never_end_the_decoder(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz::chunked(&bytes);
    }

    #[test]
    fn hostile_json_never_ends_the_decoder(
        cuts in any::<[u8; 2]>(),
        tokens in prop::collection::vec(select(&[
            "{", "}", "[", "]", ",", ":", "\n", "\r", " ", "\"", "\\", "\\u", "d83d", "\"id\"", "\"method\"", "\"result\"",
            "\"error\"", "\"params\"", "\"jsonrpc\":\"2.0\"", "\"session/update\"", "null", "7", "-0", "1e999", "\"7\"",
            "\u{feff}", "\u{e9}", "{\"id\":1,\"result\":", "\"update\":{\"sessionUpdate\":",
        ][..]), 0..60),
    ) {
        fuzz::chunked(&[&cuts[..], tokens.concat().as_bytes()].concat());
    }

    #[test]
    fn damaged_frames_never_end_the_decoder_nor_depend_on_the_cuts(
        cuts in any::<[u8; 2]>(),
        lines in prop::collection::vec(agent_line(), 1..5),
        bites in prop::collection::vec((any::<Index>(), 0..4_usize, prop::collection::vec(any::<u8>(), 0..3)), 0..5),
    ) {
        let mut bytes = lines.concat();
        for (from, length, other) in bites {
            let from = from.index(bytes.len() + 1);
            let to = bytes.len().min(from + length);
            bytes.splice(from..to, other);
        }
        fuzz::chunked(&[&cuts[..], &bytes].concat());
    }
}
