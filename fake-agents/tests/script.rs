//! The language as a document: its schema, its errors, its defaults.

use std::path::Path;

use moored_fake_agents::script::step::STEP_BYTES_MAX;
use moored_fake_agents::{PERSONAS, Script, ScriptError};
use serde_json::Value;

fn error(text: &str) -> ScriptError {
    text.parse::<Script>().expect_err(text)
}

#[test]
fn an_error_names_the_field_and_the_line() {
    let cases = [
        ("{\n  \"seed\": -1\n}", 2, 11, "seed", "invalid value"),
        ("{\n  \"sead\": 1\n}", 2, 11, "sead", "unknown field `sead`"),
        ("{ \"seed\": 1,, }", 1, 13, "", "key must be a string"),
        (
            "{\n \"turns\": [\n  {\"steps\": [\n   {\"do\": \"delay\", \"ms\": \"x\"}]}]}",
            4,
            26,
            "turns[0].steps[0].ms",
            "invalid type",
        ),
        (
            "{\n \"turns\": [ {\"steps\": [\n   {\"do\": \"say\"}]}]}",
            3,
            4,
            "turns[0].steps[0]",
            "missing field `text`",
        ),
        (
            "{\"turns\": [{\"steps\": [{\"do\": \"reply\"},\n {\"do\": \"repply\"}]}]}",
            2,
            2,
            "turns[0].steps[1]",
            "unknown variant `repply`",
        ),
        (
            "{\"turns\": [{\"steps\": [{\"ms\": 1}]}]}",
            1,
            23,
            "turns[0].steps[0]",
            "missing field `do`",
        ),
        (
            "{\"on\": {\"eof\": {\"steps\": [{\"do\": \"repeat\", \"times\": 2, \"steps\": [\n{\"do\": \"exit\"},\n{\"do\": \"exit\",\n\"kode\": 1}]}]}}}",
            4,
            9,
            "on.eof.steps[0].steps[1].kode",
            "unknown field `kode`",
        ),
        (
            "{\"on\": {\"requests\": {\"session/new\": [{\"do\": \"noise\",\n\"hex\": \"abc\"}]}}}",
            2,
            8,
            "on.requests.session/new[0].hex",
            "pairs of hexadecimal digits",
        ),
    ];
    for (text, line, column, path, message) in cases {
        let error = error(text);
        assert_eq!(
            (error.line, error.column, error.path.as_str()),
            (line, column, path),
            "{error}"
        );
        assert!(error.message.contains(message), "{error}");
        assert!(!error.to_string().contains('\u{1}'), "{error}");
    }
    let sentence = error("{\n  \"seed\": true\n}").to_string();
    assert!(
        sentence.starts_with("the script is wrong at line 2, column 11 (seed): "),
        "{sentence}"
    );
}

#[test]
fn a_step_of_more_bytes_than_the_limit_is_refused() {
    for bytes in [STEP_BYTES_MAX, STEP_BYTES_MAX + 1] {
        let text =
            format!(r#"{{"turns": [{{"steps": [{{"do": "frame_of", "bytes": {bytes}}}]}}]}}"#);
        assert_eq!(text.parse::<Script>().is_ok(), bytes <= STEP_BYTES_MAX);
    }
}

#[test]
fn a_script_is_written_as_it_was_read() {
    for known in PERSONAS {
        let script: Script = known.document.parse().unwrap();
        let text = serde_json::to_string(&script).unwrap();
        assert_eq!(text.parse::<Script>().unwrap(), script, "{}", known.name);
    }
    let nulls = r#"{"turns": [{"steps": [{"do": "reply", "result": null, "error": null}]}]}"#;
    let script: Script = nulls.parse().unwrap();
    assert_eq!(serde_json::to_string(&script).unwrap().parse::<Script>().unwrap(), script);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the schema is a file of the repository")]
fn the_schema_in_the_docs_is_the_schema_of_the_language() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/agent-script.schema.json");
    let schema = format!("{:#}\n", Script::json_schema());
    if std::env::var_os("MOORED_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == schema,
        "docs/agent-script.schema.json is stale: run the test with MOORED_UPDATE_DOCS=1"
    );
}

#[test]
fn the_schema_takes_every_persona_and_refuses_what_the_reader_refuses() {
    let validator = jsonschema::validator_for(&Script::json_schema()).unwrap();
    for known in PERSONAS {
        let document: Value = serde_json::from_str(known.document).unwrap();
        let errors: Vec<_> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", known.name);
    }
    for wrong in [
        r#"{ "sead": 1 }"#,
        r#"{ "turns": [{ "steps": [{ "do": "say" }] }] }"#,
        r#"{ "turns": [{ "steps": [{ "do": "exit", "kode": 1 }] }] }"#,
        r#"{ "turns": [{ "steps": [{ "do": "nothing" }] }] }"#,
    ] {
        assert!(wrong.parse::<Script>().is_err(), "{wrong}");
        assert!(!validator.is_valid(&serde_json::from_str(wrong).unwrap()), "{wrong}");
    }
}

/// Every script in the guide is a script, and it names all there is.
#[test]
#[expect(clippy::disallowed_methods, reason = "the guide is a file of the repository")]
fn the_guide_is_right_and_complete() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/agent-script.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let scripts: Vec<&str> = guide
        .split("```json\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect();
    assert!(scripts.len() >= 5);
    for script in scripts {
        script.parse::<Script>().unwrap_or_else(|error| panic!("{error} in\n{script}"));
    }
    for step in moored_fake_agents::script::step::STEP_NAMES {
        assert!(guide.contains(&format!("`{step}`")), "the step {step} is not in the guide");
    }
    for known in PERSONAS {
        assert!(guide.contains(&format!("`{}`", known.name)), "{} is not in the guide", known.name);
    }
}
