//! What must survive on the wire: one row a shape, with the events it gives and the tolerances it
//! uses.
mod wire_support;

use moored::wire::{Quirk, Quirks};
use wire_support::{read, say, update};

/// A shape, its line, its events, and its quirks by name.
struct Row {
    shape: &'static str,
    line: String,
    events: Vec<&'static str>,
    quirks: Vec<Quirk>,
}

fn row(
    shape: &'static str,
    line: impl Into<String>,
    events: &[&'static str],
    quirks: &[Quirk],
) -> Row {
    Row { shape, line: line.into(), events: events.to_vec(), quirks: quirks.to_vec() }
}

fn check(rows: &[Row]) {
    for Row { shape, line, events, quirks } in rows {
        let (got, decoder) = read(format!("{line}\n").as_bytes());
        let got: Vec<String> = got.iter().map(say).collect();
        assert_eq!(&got, events, "{shape}");
        let used: Vec<Quirk> = decoder.quirks().iter().map(|(quirk, _)| quirk).collect();
        assert_eq!(&used, quirks, "{shape}");
        assert_eq!(decoder.buffered(), 0, "{shape}");
    }
}

#[test]
fn updates_of_every_shape_stay_in_order_and_raw_where_unknown() {
    check(&[
        row(
            "unknown sessionUpdate",
            update(r#"{"sessionUpdate":"mood_update","mood": 3}"#),
            &[r#"update in s: unknown "mood_update" {"sessionUpdate":"mood_update","mood": 3}"#],
            &[],
        ),
        row(
            "update without a kind",
            update(r#"{"mood":3}"#),
            &[r#"update in s: unknown "" {"mood":3}"#],
            &[],
        ),
        row(
            "unknown content type",
            update(r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"hologram","x":1}}"#),
            &[r#"update in s: Agent content {"type":"hologram","x":1}"#],
            &[],
        ),
        row(
            "content that is a bare text",
            update(r#"{"sessionUpdate":"agent_thought_chunk","content":"hm"}"#),
            &[r#"update in s: Thought content "hm""#],
            &[],
        ),
        row(
            "chunk without content",
            update(r#"{"sessionUpdate":"agent_message_chunk"}"#),
            &["defect: the agent sent a session update without content"],
            &[],
        ),
        row(
            "update: null",
            update("null"),
            &["defect: the agent sent a session update without content"],
            &[],
        ),
        row(
            "session/update without parameters",
            r#"{"jsonrpc":"2.0","method":"session/update"}"#,
            &[
                "defect: the agent sent an update without a session id",
                "defect: the agent sent a session update without content",
            ],
            &[],
        ),
        row(
            "numeric sessionId: its digits are the id",
            update(r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t"}}"#)
                .replace(r#""s""#, "5"),
            &["Agent in 5 of -: t"],
            &[Quirk::NumericSessionId],
        ),
        row(
            "missing sessionId: the text is kept, and whose it is, is the caller's question",
            update(r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t"}}"#)
                .replace(r#""sessionId":"s","#, ""),
            &[
                "defect: the agent sent an update without a session id",
                r#"update in -: Agent content {"type":"text","text":"t"}"#,
            ],
            &[],
        ),
        row(
            "fractional token counts",
            update(r#"{"sessionUpdate":"usage_update","used":1234.9,"size":1e5}"#),
            &["update in s: UsageUpdate { used: Some(1234), size: Some(100000) }"],
            &[Quirk::FractionalCount],
        ),
        row(
            "negative and missing token counts",
            update(r#"{"sessionUpdate":"usage_update","used":-1}"#),
            &["update in s: UsageUpdate { used: None, size: None }"],
            &[],
        ),
        row(
            "duplicate keys: the last one counts",
            update(
                r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"a","text":"b"}}"#,
            ),
            &["User in s of -: b"],
            &[Quirk::DuplicateKey],
        ),
        row(
            "lone surrogate escape",
            update(
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\ud83d\n\ud83d\ude00"}}"#,
            ),
            &["Agent in s of -: a\u{fffd}\n\u{1f600}"],
            &[Quirk::LoneSurrogate],
        ),
        row(
            "lone surrogate escape in a raw update: other parsers must be able to read it",
            update(r#"{"sessionUpdate":"x","t":"\udc00\\udc00"}"#),
            &[r#"update in s: unknown "x" {"sessionUpdate":"x","t":"\ufffd\\udc00"}"#],
            &[Quirk::LoneSurrogate],
        ),
        row(
            "the other kinds",
            [
                update(r#"{"sessionUpdate":"session_info_update","title":"T","updatedAt":"now"}"#),
                update(r#"{"sessionUpdate":"plan","entries":[{"content":"one"},{"content":"two"}]}"#),
                update(
                    r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"go"}]}"#,
                ),
                update(r#"{"sessionUpdate":"current_mode_update","currentModeId":"plan"}"#),
            ]
            .join("\n"),
            &[
                r#"update in s: info Some("T") Some("now")"#,
                "update in s: plan one, two",
                "update in s: commands go",
                r#"update in s: CurrentMode { mode_id: Some("plan") }"#,
            ],
            &[],
        ),
    ]);
}

#[test]
fn tools_and_permissions_of_every_shape() {
    check(&[
        row(
            "tool call without title",
            update(r#"{"sessionUpdate":"tool_call","toolCallId":"c","kind":"read"}"#),
            &[r#"update in s: tool Some("c") None Some(Read) None"#],
            &[],
        ),
        row(
            "tool update without id",
            update(r#"{"sessionUpdate":"tool_call_update","status":"completed"}"#),
            &[
                "defect: the agent sent a tool update without a tool call id",
                "update in s: tool change None None Some(Completed)",
            ],
            &[],
        ),
        row(
            "unknown tool kind and status",
            update(
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","kind":"dream","status":"stuck"}"#,
            ),
            &[
                r#"update in s: tool change Some("c") Some(Unknown("dream")) Some(Unknown("stuck"))"#,
            ],
            &[],
        ),
        row(
            "wrong-typed tool title",
            update(r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":{}}"#),
            &[r#"update in s: tool Some("c") None None None"#],
            &[Quirk::WrongTypedMember],
        ),
        row(
            "empty permission options",
            r#"{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c"},"options":[]}}"#,
            &[r#"permission 0 for Some("c"): "#],
            &[],
        ),
        row(
            "unknown permission option kind",
            r#"{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"z","name":"Zed","kind":"maybe"}]}}"#,
            &[r#"permission 0 for Some("c"): y=AllowOnce z=Unknown("maybe")"#],
            &[],
        ),
        row(
            "permission without parameters",
            r#"{"jsonrpc":"2.0","id":"u-1","method":"session/request_permission"}"#,
            &[r#"request "u-1" session/request_permission"#],
            &[],
        ),
    ]);
}

#[test]
fn a_reply_to_one_of_our_ids_always_settles_it() {
    check(&[
        row(
            "result",
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#,
            &[r#"reply 7 result {"a":1}"#],
            &[],
        ),
        row(
            "null result",
            r#"{"jsonrpc":"2.0","id":7,"result":null}"#,
            &["reply 7 result null"],
            &[],
        ),
        row(
            "no result: agents drop what is undefined",
            r#"{"jsonrpc":"2.0","id":7}"#,
            &["reply 7 result null"],
            &[Quirk::MissingResult],
        ),
        row(
            "error: null beside a result",
            r#"{"id":7,"result":{},"error":null}"#,
            &["reply 7 result {}"],
            &[Quirk::MissingJsonrpc, Quirk::NullErrorBesideResult],
        ),
        row(
            "result and error together: the failure counts",
            r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":-32603,"message":"m"}}"#,
            &[
                "defect: the agent answered with a result and an error together",
                r#"reply 7 error -32603 "m" -"#,
            ],
            &[],
        ),
        row(
            "result: null beside an error",
            r#"{"jsonrpc":"2.0","id":7,"result":null,"error":{"code":1,"message":"m","data":{"details":"d"}}}"#,
            &[r#"reply 7 error 1 "m" {"details":"d"}"#],
            &[Quirk::NullResultBesideError],
        ),
        row(
            "an error given as a text",
            r#"{"jsonrpc":"2.0","id":7,"error":"boom"}"#,
            &[r#"reply 7 error -32603 "boom" -"#],
            &[Quirk::ErrorAsText],
        ),
        row(
            "an error code outside 32 bits",
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":99999999999,"message":"m"}}"#,
            &[r#"reply 7 error 99999999999 "m" -"#],
            &[Quirk::CodeOutOfRange],
        ),
        row(
            "an error with neither code nor message",
            r#"{"jsonrpc":"2.0","id":7,"error":{}}"#,
            &[r#"reply 7 error -32603 "" -"#],
            &[Quirk::ErrorWithoutCode, Quirk::ErrorWithoutMessage],
        ),
        row(
            "an error of no usable type",
            r#"{"jsonrpc":"2.0","id":7,"error":[1]}"#,
            &["reply 7 undecodable"],
            &[],
        ),
        row(
            "text id",
            r#"{"jsonrpc":"2.0","id":"7","result":1}"#,
            &["reply 7 result 1"],
            &[Quirk::TextId],
        ),
        row(
            "float id",
            r#"{"jsonrpc":"2.0","id":7.0,"result":1}"#,
            &["reply 7 result 1"],
            &[Quirk::FloatId],
        ),
        row(
            "an id of nobody's",
            r#"{"jsonrpc":"2.0","id":7.5,"result":1}"#,
            &["defect: the agent answered an id that this host never issued"],
            &[],
        ),
        row(
            "a reply that carries its method",
            r#"{"jsonrpc":"2.0","id":7,"method":"session/prompt","result":1}"#,
            &["reply 7 result 1"],
            &[Quirk::MethodInReply],
        ),
        row(
            "an error without id, as some answer notifications",
            r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"m"}}"#,
            &["defect: the agent reported an error without naming a request"],
            &[],
        ),
        row(
            "an error with a null id, as some answer a parse error",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
            &["defect: the agent reported an error without naming a request"],
            &[],
        ),
        row(
            "a broken reply",
            r#"{"jsonrpc":"2.0","id":7,"result":{"stopReason":}}"#,
            &["defect: the agent sent a frame of 49 bytes that is no JSON", "reply 7 undecodable"],
            &[],
        ),
        row(
            "a reply with raw control characters",
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"x\":\"\u{1b}[0m\"}}",
            &["defect: the agent sent a frame of 46 bytes that is no JSON", "reply 7 undecodable"],
            &[],
        ),
        row(
            "nesting 200, the id behind it",
            format!(
                r#"{{"jsonrpc":"2.0","result":{}{},"id":7}}"#,
                "[".repeat(200),
                "]".repeat(200)
            ),
            &[
                "defect: the agent sent a frame nested deeper than 128 levels",
                "reply 7 undecodable",
            ],
            &[],
        ),
    ]);
}

#[test]
fn requests_and_notifications_of_every_shape() {
    check(&[
        row(
            "two id spaces: the agent counts from 0 as well",
            r#"{"jsonrpc":"2.0","id":0,"method":"fs/read_text_file","params":{}}"#,
            &["request 0 fs/read_text_file"],
            &[],
        ),
        row(
            "float id, echoed as it came",
            r#"{"jsonrpc":"2.0","id":7.50,"method":"m"}"#,
            &["request 7.50 m"],
            &[],
        ),
        row(
            "escaped text id, echoed as it came",
            r#"{"jsonrpc":"2.0","id":"\u0041","method":"m"}"#,
            &[r#"request "\u0041" m"#],
            &[],
        ),
        row(
            "null id",
            r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
            &["defect: the agent sent a request whose id is null"],
            &[],
        ),
        row(
            "an id that is an object",
            r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#,
            &["defect: the agent sent a request id that cannot be answered"],
            &[],
        ),
        row(
            "null parameters",
            r#"{"jsonrpc":"2.0","method":"$/note","params":null}"#,
            &["notification $/note: -"],
            &[Quirk::NullParams],
        ),
        row(
            "another JSON-RPC",
            r#"{"jsonrpc":"1.0","method":"$/note","params":[1]}"#,
            &["notification $/note: [1]"],
            &[Quirk::OddJsonrpc],
        ),
        row(
            "a method that is no text, with an id: the agent waits for an answer",
            r#"{"jsonrpc":"2.0","id":3,"method":4}"#,
            &["invalid request 3: -32600"],
            &[],
        ),
        row(
            "nesting 200 in a request: it is answered all the same",
            format!(
                r#"{{"jsonrpc":"2.0","id":3,"method":"m","params":{}{}}}"#,
                "[".repeat(200),
                "]".repeat(200)
            ),
            &[
                "defect: the agent sent a frame nested deeper than 128 levels",
                "invalid request 3: -32600",
            ],
            &[],
        ),
        row(
            "nesting 128, the frame included, is read",
            format!(
                r#"{{"jsonrpc":"2.0","id":3,"method":"m","params":{}{}}}"#,
                "[".repeat(127),
                "]".repeat(127)
            ),
            &["request 3 m"],
            &[],
        ),
        row(
            "a batch is refused, but leaves nobody waiting",
            r#"[{"jsonrpc":"2.0","id":7,"result":{}},{"jsonrpc":"2.0","id":3,"method":"m"},{"jsonrpc":"2.0","method":"n"}]"#,
            &[
                "defect: the agent sent a batch of 3 frames, which the protocol does not have",
                "reply 7 undecodable",
                "invalid request 3: -32600",
            ],
            &[],
        ),
    ]);
}

#[test]
fn noise_is_an_event_and_never_an_answer() {
    check(&[
        row("blank line", "", &["noise Blank: "], &[]),
        row("white space", "  \t", &["noise Blank: "], &[]),
        row("banner", "Welcome to agent 1.0", &["noise NotJson: Welcome to agent 1.0"], &[]),
        row("log line in brackets", "[INFO] up", &["noise NotJson: [INFO] up"], &[]),
        row(
            "terminal escapes",
            "\u{1b}[32mready\u{1b}[0m",
            &["noise NotJson: \u{1b}[32mready\u{1b}[0m"],
            &[],
        ),
        row("scalar", "42", &["noise NoObject: 42"], &[]),
        row("array of scalars", "[1,2]", &["noise NoObject: [1,2]"], &[]),
        row(
            "object without shape",
            r#"{"level":"info"}"#,
            &[r#"noise NoEnvelope: {"level":"info"}"#],
            &[],
        ),
        row("object with a bare id", r#"{"id":7}"#, &[r#"noise NoEnvelope: {"id":7}"#], &[]),
        row(
            "a broken request is noise to answer, and a defect",
            r#"{"jsonrpc":"2.0","id":3,"method":"m","params":{]}"#,
            &["defect: the agent sent a frame of 49 bytes that is no JSON"],
            &[],
        ),
        row("a broken object of no protocol", "{hello}", &["noise NotJson: {hello}"], &[]),
    ]);
}

#[test]
fn lines_with_odd_edges_are_read() {
    let chunk =
        update(r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t"}}"#);
    check(&[
        row("BOM", format!("\u{feff}{chunk}"), &["Agent in s of -: t"], &[Quirk::ByteOrderMark]),
        row("CRLF", format!("{chunk}\r"), &["Agent in s of -: t"], &[Quirk::CarriageReturn]),
        row(
            "two objects on one line are two frames",
            format!(r#"{chunk}{{"jsonrpc":"2.0","id":7,"result":{{}}}}"#),
            &["Agent in s of -: t", "reply 7 result {}"],
            &[Quirk::JoinedFrames],
        ),
        row(
            "words behind an object",
            format!("{chunk} done"),
            &["Agent in s of -: t", "noise NotJson: done"],
            &[Quirk::JoinedFrames],
        ),
    ]);
}

#[test]
fn invalid_utf8_is_reported_and_the_line_delivered() {
    let chunk =
        update(r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a?b"}}"#);
    let mut bytes = chunk.into_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b'?').unwrap();
    bytes[at] = 0xff;
    bytes.push(b'\n');
    let (events, _) = read(&bytes);
    let said: Vec<String> = events.iter().map(say).collect();
    assert_eq!(
        said,
        ["defect: the agent sent bytes that are not UTF-8", "Agent in s of -: a\u{fffd}b"]
    );
}

#[test]
fn the_end_of_the_stream_completes_a_whole_line_and_reports_half_a_one() {
    let whole = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
    let (events, decoder) = read(whole.as_bytes());
    assert_eq!(events.iter().map(say).collect::<Vec<_>>(), ["reply 7 result {}"]);
    assert_eq!(decoder.quirks().count(Quirk::LastLineUnterminated), 1);

    // Half an answer is no answer: the end of the child settles the request, not this.
    let (events, _) = read(&whole.as_bytes()[..34]);
    assert_eq!(
        events.iter().map(say).collect::<Vec<_>>(),
        ["defect: the agent's output ended 34 bytes into a frame"]
    );

    let (events, decoder) = read(b"");
    assert_eq!((events.len(), decoder.quirks()), (0, &Quirks::default()));
}

#[test]
fn each_use_of_a_tolerance_is_counted() {
    let (_, decoder) = read(b"{\"id\":1,\"result\":1}\n{\"id\":\"2\",\"result\":1}\r\n");
    assert_eq!(decoder.quirks().count(Quirk::MissingJsonrpc), 2);
    assert_eq!(decoder.quirks().count(Quirk::TextId), 1);
    assert_eq!(decoder.quirks().count(Quirk::CarriageReturn), 1);
    assert_eq!(decoder.quirks().count(Quirk::ByteOrderMark), 0);
}
