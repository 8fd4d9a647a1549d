//! Answers decoded on demand: what real agents send, and every shape that must not break the host.
use moored::wire::answer::{
    Capabilities, Initialize, PromptAnswer, SessionOpened, StopReason, Usage, VersionAnswer, words,
};
use moored::wire::{Defect, Findings, Quirk};

fn initialize(result: &str) -> (Initialize, Findings) {
    let mut findings = Findings::default();
    (Initialize::decode(result, &mut findings), findings)
}

fn prompt(result: &str) -> (PromptAnswer, Findings) {
    let mut findings = Findings::default();
    (PromptAnswer::decode(result, &mut findings), findings)
}

#[test]
fn the_answer_of_a_real_agent() {
    let (answer, findings) = initialize(
        r#"{"protocolVersion":1,"agentInfo":{"name":"oh-my-pi","title":"Oh My Pi","version":"18.2.3"},
        "authMethods":[{"id":"agent","name":"Use existing local credentials"},{"id":"t","type":"terminal"}],
        "agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http":true,"sse":true},
        "promptCapabilities":{"embeddedContext":true,"image":true},
        "sessionCapabilities":{"list":{},"fork":{},"resume":{},"close":{}}}}"#,
    );
    assert_eq!(findings, Findings::default());
    assert_eq!(answer.protocol_version, VersionAnswer::Accepted);
    assert_eq!(answer.agent_name.as_deref(), Some("oh-my-pi"));
    assert_eq!(answer.agent_version.as_deref(), Some("18.2.3"));
    let methods: Vec<_> =
        answer.auth_methods.iter().map(|method| (&*method.id, method.terminal)).collect();
    assert_eq!(methods, [("agent", false), ("t", true)]);
    let expected = Capabilities {
        load_session: true,
        resume: true,
        close: true,
        list: true,
        fork: true,
        prompt_image: true,
        prompt_audio: false,
        prompt_embedded_context: true,
    };
    assert_eq!(answer.capabilities, expected);
}

#[test]
fn versions() {
    for (version, expected, defects) in [
        (r#""protocolVersion":1"#, VersionAnswer::Accepted, vec![]),
        (r#""protocolVersion":"1""#, VersionAnswer::Accepted, vec![Defect::VersionAsText]),
        (r#""protocolVersion":"2""#, VersionAnswer::Other(2), vec![Defect::VersionAsText]),
        (r#""protocolVersion":0"#, VersionAnswer::Other(0), vec![]),
        (r#""protocolVersion":2,"info":{"name":"x"}"#, VersionAnswer::Other(2), vec![]),
        (r#""protocolVersion":null"#, VersionAnswer::Missing, vec![]),
        (r#""protocolVersion":{}"#, VersionAnswer::Unreadable, vec![]),
        (r#""protocolVersion":1.5"#, VersionAnswer::Unreadable, vec![]),
        ("", VersionAnswer::Missing, vec![]),
    ] {
        let (answer, findings) = initialize(&format!("{{{version}}}"));
        assert_eq!((answer.protocol_version, findings.defects), (expected, defects), "{version}");
    }
    let (answer, findings) = initialize("null");
    assert_eq!(answer.protocol_version, VersionAnswer::Missing);
    assert_eq!(findings.defects, [Defect::WrongTypedAnswer { method: "initialize" }]);
}

#[test]
fn a_capability_of_the_wrong_type_is_not_offered() {
    // Rule 7.2.3: `loadSession === true` exactly; resume is there and not null.
    let load = |value: &str| {
        let (answer, findings) = initialize(&format!(
            r#"{{"protocolVersion":1,"agentCapabilities":{{"loadSession":{value}}}}}"#
        ));
        (answer.capabilities.load_session, findings.defects.len())
    };
    assert_eq!(load("true"), (true, 0));
    assert_eq!(load("false"), (false, 0));
    assert_eq!(load("null"), (false, 0));
    assert_eq!(load(r#""true""#), (false, 1));
    assert_eq!(load("1"), (false, 1));
    assert_eq!(load("{}"), (false, 1));

    let resume = |value: &str| {
        let (answer, findings) = initialize(&format!(
            r#"{{"agentCapabilities":{{"sessionCapabilities":{{"resume":{value}}}}}}}"#
        ));
        (answer.capabilities.resume, findings.defects)
    };
    let defect = || vec![Defect::WrongTypedCapability { name: "resume" }];
    assert_eq!(resume("{}"), (true, vec![]));
    assert_eq!(resume("null"), (false, vec![]));
    assert_eq!(resume("true"), (false, defect()));
    assert_eq!(resume("[]"), (false, defect()));

    for capabilities in ["7", r#"{"sessionCapabilities":"all"}"#] {
        let (answer, findings) = initialize(&format!(r#"{{"agentCapabilities":{capabilities}}}"#));
        assert_eq!((answer.capabilities, findings.defects.len()), (Capabilities::default(), 1));
    }
}

#[test]
fn opened_sessions() {
    let open = |result: &str| {
        let mut findings = Findings::default();
        let opened = SessionOpened::decode(result, "session/new", &mut findings);
        (opened, findings)
    };
    let (opened, findings) = open(r#"{"sessionId":"s","configOptions":[{"id":"m"}],"modes":null}"#);
    assert_eq!(opened.session_id.as_deref(), Some("s"));
    assert_eq!(opened.config_options.unwrap().as_str(), r#"[{"id":"m"}]"#);
    assert_eq!((opened.modes, findings), (None, Findings::default()));

    // Null is what load and resume may answer, and is success.
    assert_eq!(open("null"), (SessionOpened::default(), Findings::default()));
    let (opened, findings) = open("{}");
    assert_eq!((opened.session_id, findings.defects.len()), (None, 0), "result without sessionId");
    let (opened, findings) = open(r#"{"sessionId":5}"#);
    assert_eq!(opened.session_id.as_deref(), Some("5"));
    assert_eq!(findings.quirks.count(Quirk::NumericSessionId), 1);
    let (opened, findings) = open(r#"{"sessionId":{}}"#);
    assert_eq!((opened.session_id, findings.quirks.count(Quirk::WrongTypedMember)), (None, 1));
    let (_, findings) = open("true");
    assert_eq!(findings.defects, [Defect::WrongTypedAnswer { method: "session/new" }]);
}

#[test]
fn stop_reasons_are_known_by_their_exact_word() {
    let reason = |word: &str| prompt(&format!(r#"{{"stopReason":{word}}}"#)).0.stop_reason;
    assert_eq!(reason(r#""end_turn""#), StopReason::EndTurn);
    assert_eq!(reason(r#""cancelled""#), StopReason::Cancelled);
    assert_eq!(reason(r#""refusal""#), StopReason::Refusal);
    assert_eq!(reason(r#""max_tokens""#), StopReason::MaxTokens);
    assert_eq!(reason(r#""max_turn_requests""#), StopReason::MaxTurnRequests);
    assert_eq!(reason(r#""error""#), StopReason::Error);
    assert_eq!(reason(r#""rate_limit""#), StopReason::RateLimit);
    for word in ["canceled", "interrupted", "END_TURN", ""] {
        assert_eq!(reason(&format!("\"{word}\"")), StopReason::Other(word.to_owned()));
    }
    assert_eq!(reason("null"), StopReason::Missing);
    assert_eq!(reason("3"), StopReason::Missing);
    assert_eq!(prompt("{}").0.stop_reason, StopReason::Missing);

    let (answer, findings) = prompt(r#""done""#);
    assert_eq!(answer.stop_reason, StopReason::Missing);
    assert_eq!(findings.defects, [Defect::WrongTypedAnswer { method: "session/prompt" }]);
}

#[test]
fn usage_keeps_what_is_a_count() {
    let (answer, findings) = prompt(
        r#"{"stopReason":"end_turn","usage":{"inputTokens":20.5,"outputTokens":10,"totalTokens":"30","thoughtTokens":null}}"#,
    );
    let expected = Usage { input: Some(20), output: Some(10), ..Usage::default() };
    assert_eq!(answer.usage, Some(expected));
    assert!(!expected.is_all_zero());
    assert_eq!(findings.quirks.count(Quirk::FractionalCount), 1);
    let (answer, _) =
        prompt(r#"{"stopReason":"cancelled","usage":{"inputTokens":0,"outputTokens":0}}"#);
    assert!(answer.usage.unwrap().is_all_zero());
    assert_eq!(prompt(r#"{"stopReason":"cancelled","usage":[]}"#).0.usage, None);
}

#[test]
fn an_error_in_words_for_a_person() {
    // Rule 2.2.7.
    assert_eq!(words("m", None), "m");
    assert_eq!(words("m", Some(r#""d""#)), "d");
    assert_eq!(words("m", Some(r#"{"details":"d\n"}"#)), "d\n");
    assert_eq!(words("m", Some(r#"{"details":{"secret":1}}"#)), "m");
    assert_eq!(words("m", Some(r#"["d"]"#)), "m");
    assert_eq!(words("m", Some(r#""""#)), "m");
    let long = "\u{e9}".repeat(600);
    assert_eq!(words(&long, None), "\u{e9}".repeat(512), "cut by characters, not inside one");
}
