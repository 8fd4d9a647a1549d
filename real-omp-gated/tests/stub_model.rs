//! The stub model server over real sockets: each API's wording, each way to break, and what is left
//! when it stops.

#![expect(clippy::unwrap_used, reason = "a test program")]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use moored_real_omp_gated::StubModel;
use moored_real_omp_gated::stub_model::{CONNECTIONS_MAX, Outcome};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const GEMINI: &str = "/v1beta/models/stub:streamGenerateContent?alt=sse";

/// The request of one API that carries this prompt and offers a shell.
fn body(target: &str, prompt: &str) -> Value {
    let shell =
        json!({"name": "shell", "parameters": {"properties": {"command": {"type": "string"}}}});
    match target {
        CHAT => json!({"stream": true, "messages": [{"role": "user", "content": prompt}],
            "tools": [{"function": shell}]}),
        RESPONSES => {
            json!({"stream": true, "tools": [shell],
            "input": [{"role": "user", "content": prompt}]})
        }
        _ => json!({"contents": [{"role": "user", "parts": [{"text": prompt}]}],
            "tools": [{"functionDeclarations": [shell]}]}),
    }
}

fn post(model: &StubModel, target: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, model.port)).unwrap();
    let body = body.to_string();
    let head = format!("POST {target} HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    stream
}

/// Everything the stub answers; it closes the connection because we close our side.
fn answer(model: &StubModel, target: &str, body: &Value) -> String {
    let mut stream = post(model, target, body);
    // Up to the end of the body: an early half-close would look like a client that went away.
    let mut text = String::new();
    let mut reader = BufReader::new(&mut stream);
    while !text.ends_with("\r\n0\r\n\r\n") {
        if reader.read_line(&mut text).unwrap() == 0 {
            break;
        }
    }
    text
}

/// The events' bodies of a streamed answer to this prompt.
fn events(model: &StubModel, target: &str, prompt: &str) -> Vec<String> {
    let answer = answer(model, target, &body(target, prompt));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    answer.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
}

/// The values at a JSON pointer, over all events that have a text there.
fn texts(events: &[String], pointer: &str) -> String {
    let values = events.iter().filter_map(|event| serde_json::from_str::<Value>(event).ok());
    values.filter_map(|value| value.pointer(pointer)?.as_str().map(str::to_owned)).collect()
}

#[test]
fn each_api_streams_the_same_words() {
    let model = StubModel::start().unwrap();
    let prompt = "[[stub:slow chunks=3 delay_ms=1 word=w]]";
    let chat = events(&model, CHAT, prompt);
    assert_eq!(texts(&chat, "/choices/0/delta/content"), "w0 w1 w2 ");
    assert_eq!(texts(&chat, "/choices/0/finish_reason"), "stop");
    assert_eq!(chat.last().unwrap(), "[DONE]");
    let responses = events(&model, RESPONSES, prompt);
    assert_eq!(texts(&responses, "/delta"), "w0 w1 w2 ");
    assert_eq!(texts(&responses, "/response/output/0/content/0/text"), "w0 w1 w2 ");
    assert!(texts(&responses, "/type").ends_with("response.completed"));
    let gemini = events(&model, GEMINI, prompt);
    assert_eq!(texts(&gemini, "/candidates/0/content/parts/0/text"), "w0 w1 w2 ");
    assert_eq!(texts(&gemini, "/candidates/0/finishReason"), "STOP");
}

#[test]
fn each_api_words_a_tool_call() {
    let model = StubModel::start().unwrap();
    let prompt = "[[stub:bash command=true]]";
    let chat = events(&model, CHAT, prompt);
    assert_eq!(texts(&chat, "/choices/0/delta/tool_calls/0/function/name"), "shell");
    assert_eq!(
        texts(&chat, "/choices/0/delta/tool_calls/0/function/arguments"),
        r#"{"command":"true"}"#
    );
    assert_eq!(texts(&chat, "/choices/0/finish_reason"), "tool_calls");
    let responses = events(&model, RESPONSES, prompt);
    assert_eq!(texts(&responses, "/response/output/0/arguments"), r#"{"command":"true"}"#);
    let gemini = events(&model, GEMINI, prompt);
    assert_eq!(texts(&gemini, "/candidates/0/content/parts/0/functionCall/args/command"), "true");
}

#[test]
fn each_api_words_thoughts_and_the_special_endings() {
    let model = StubModel::start().unwrap();
    let think = "[[stub:think chunks=2 delay_ms=1 text=so]]";
    assert_eq!(
        texts(&events(&model, CHAT, think), "/choices/0/delta/reasoning_content"),
        "step0 step1 "
    );
    let responses = events(&model, RESPONSES, think);
    assert_eq!(texts(&responses, "/response/output/0/summary/0/text"), "step0 step1 ");
    assert_eq!(texts(&responses, "/response/output/1/content/0/text"), "so");
    let gemini = events(&model, GEMINI, think);
    assert_eq!(texts(&gemini, "/candidates/0/content/parts/0/text"), "step0 step1 so");

    let endings = [
        ("[[stub:length]]", "length", "max_output_tokens", "MAX_TOKENS"),
        ("[[stub:content_filter]]", "content_filter", "content_filter", "SAFETY"),
        ("[[stub:refusal text=no]]", "content_filter", "", "PROHIBITED_CONTENT"),
    ];
    for (prompt, chat, responses, gemini) in endings {
        assert_eq!(texts(&events(&model, CHAT, prompt), "/choices/0/finish_reason"), chat);
        let reason = "/response/incomplete_details/reason";
        assert_eq!(texts(&events(&model, RESPONSES, prompt), reason), responses);
        assert_eq!(texts(&events(&model, GEMINI, prompt), "/candidates/0/finishReason"), gemini);
    }
    let refused = events(&model, RESPONSES, "[[stub:refusal text=no]]");
    assert_eq!(texts(&refused, "/response/output/0/content/0/refusal"), "no");
}

#[test]
fn a_request_without_a_stream_gets_one_value() {
    let model = StubModel::start().unwrap();
    let value = |target: &str, prompt: &str| {
        let mut body = body(target, prompt);
        body["stream"] = json!(false);
        let mut stream = post(&model, target, &body);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        serde_json::from_str::<Value>(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let whole = "/v1beta/models/stub:generateContent";
    assert_eq!(value(CHAT, "x")["choices"][0]["message"]["content"], "hello there");
    assert_eq!(value(CHAT, "[[stub:bash]]")["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(value(RESPONSES, "x")["output"][0]["content"][0]["text"], "hello there");
    assert_eq!(value(whole, "x")["candidates"][0]["content"]["parts"][0]["text"], "hello there");
}

#[test]
fn the_same_request_gets_the_same_bytes() {
    for target in [CHAT, RESPONSES, GEMINI] {
        let run = || {
            answer(
                &StubModel::start().unwrap(),
                target,
                &body(target, "[[stub:bash words=2 delay_ms=1]]"),
            )
        };
        assert_eq!(run(), run());
    }
}

#[test]
fn http_errors_carry_status_message_and_retry_after() {
    let model = StubModel::start().unwrap();
    let prompt = "[[stub:http status=429 retry_after=7 message=later times=1]]";
    let mut stream = post(&model, CHAT, &body(CHAT, prompt));
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut refused = String::new();
    stream.read_to_string(&mut refused).unwrap();
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    assert!(refused.contains("retry-after: 7\r\n") && refused.contains("later"), "{refused}");
    assert_eq!(texts(&events(&model, CHAT, prompt), "/choices/0/delta/content"), "hello there");
    let outcomes: Vec<_> = model.requests().iter().map(|request| request.outcome).collect();
    assert_eq!(outcomes[0], Some(Outcome::Refused { status: 429 }));
}

#[test]
fn a_dropped_stream_is_a_reset_after_its_words() {
    let model = StubModel::start().unwrap();
    let mut stream = post(&model, CHAT, &body(CHAT, "[[stub:drop after=2]]"));
    let mut bytes = Vec::new();
    let error = stream.read_to_end(&mut bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("word1 ") && !text.contains("finish_reason\":\"stop"), "{text}");
}

#[test]
fn an_early_end_and_a_broken_event_are_what_they_say() {
    let model = StubModel::start().unwrap();
    let early = events(&model, CHAT, "[[stub:eof after=2]]");
    assert_eq!(texts(&early, "/choices/0/delta/content"), "word0 word1 ");
    assert_eq!(texts(&early, "/choices/0/finish_reason"), "");
    for target in [CHAT, RESPONSES, GEMINI] {
        let broken = events(&model, target, "[[stub:malformed after=1]]");
        assert!(serde_json::from_str::<Value>(broken.last().unwrap()).is_err(), "{target}");
    }
    let garbage = post(&model, CHAT, &body(CHAT, "[[stub:garbage]]"));
    let mut status = String::new();
    BufReader::new(garbage).read_line(&mut status).unwrap();
    assert!(status.starts_with("HTTP/1.1 200 "), "{status}");
}

#[test]
fn a_client_that_goes_away_ends_a_hang() {
    let model = StubModel::start().unwrap();
    let hanging = post(&model, CHAT, &body(CHAT, "[[stub:hang]]"));
    let outcome = || model.requests().first().map(|request| request.outcome);
    while outcome().is_none() {
        std::thread::yield_now();
    }
    assert_eq!(outcome(), Some(None), "the request is there and not answered");
    drop(hanging);
    while outcome() == Some(None) {
        std::thread::yield_now();
    }
    assert_eq!(outcome(), Some(Some(Outcome::ClientGone)));
}

#[test]
fn a_misspelt_marker_fails_loudly() {
    let model = StubModel::start().unwrap();
    let mut reader = BufReader::new(post(&model, CHAT, &body(CHAT, "[[stub:txet]]")));
    let mut status = String::new();
    reader.read_line(&mut status).unwrap();
    assert!(status.starts_with("HTTP/1.1 400 "), "{status}");
}

#[test]
fn the_stub_is_a_model_and_no_proxy() {
    let model = StubModel::start().unwrap();
    for (request, status) in [
        ("GET /v1/models HTTP/1.1\r\n\r\n", "200"),
        ("CONNECT example.org:443 HTTP/1.1\r\n\r\n", "403"),
        ("GET http://example.org/ HTTP/1.1\r\n\r\n", "403"),
    ] {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, model.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert!(line.contains(status), "{request}: {line}");
    }
    assert_eq!(model.requests().len(), 3);
}

#[test]
fn connections_have_a_limit() {
    let model = StubModel::start().unwrap();
    // A hang each, and the log says when each has its thread.
    let open: Vec<TcpStream> =
        (0..CONNECTIONS_MAX).map(|_| post(&model, CHAT, &body(CHAT, "[[stub:hang]]"))).collect();
    while model.requests().len() < CONNECTIONS_MAX {
        std::thread::yield_now();
    }
    let mut extra = TcpStream::connect((Ipv4Addr::LOCALHOST, model.port)).unwrap();
    assert_eq!(extra.read(&mut [0]).unwrap(), 0, "closed unanswered");
    drop(open);
}

#[test]
fn a_stopped_stub_leaves_no_port_and_no_thread() {
    let model = StubModel::start().unwrap();
    let port = model.port;
    let mut hanging = post(&model, CHAT, &body(CHAT, "[[stub:hang]]"));
    let mut idle = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    while model.requests().is_empty() {
        std::thread::yield_now();
    }
    assert!(threads(port) >= 2);
    drop(model);
    assert_eq!(threads(port), 0);
    for stream in [&mut hanging, &mut idle] {
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "the connection is over");
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
}

/// The threads of the stub on this port: their names tell.
#[expect(clippy::disallowed_methods, reason = "looks at this process's own threads")]
fn threads(port: u16) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.trim() == format!("stub-{port}")).count()
}
