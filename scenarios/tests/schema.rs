//! The language as a document: its schema, and the errors of documents that are wrong.

mod common;

use moored_scenarios::{Document, builtin};
use serde_json::Value;

use common::{documents_folder, hold_file, read};

#[test]
fn the_schema_is_as_it_is_stored() {
    let schema = serde_json::to_string_pretty(&Document::json_schema()).expect("it is JSON");
    hold_file("../docs/scenario.schema.json", &(schema + "\n"), "MOORED_UPDATE_DOCS");
}

#[test]
fn every_document_is_valid_against_the_stored_schema() {
    let schema: Value = serde_json::from_str(&read("../docs/scenario.schema.json")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is one");
    for name in documents_folder() {
        let text = read(&format!("documents/{name}.json"));
        let document: Value = serde_json::from_str(&text).expect("it is JSON");
        let errors: Vec<_> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
        assert_eq!(errors, [""; 0], "{name}");
    }
    let odd = serde_json::json!({"name": "x", "agent": {"persona": "echo"}, "actions": [{"do": "close", "wen": {}}]});
    assert!(!validator.is_valid(&odd), "an unknown field of an action is refused");
}

#[test]
fn a_document_reads_back_as_it_was_written() {
    for document in builtin() {
        let text = serde_json::to_string_pretty(&document).expect("a document is JSON");
        assert_eq!(Document::parse(&text, "again"), Ok(document));
    }
}

/// A document around these actions.
fn acting(actions: &str) -> String {
    format!(
        "{{ \"name\": \"x\",\n\"agent\": {{ \"persona\": \"echo\" }},\n\"actions\": [\n{actions}\n] }}"
    )
}

#[test]
fn an_error_names_the_field_and_the_line() {
    let send = r#"{ "do": "send", "id": "m1", "text": "x" }"#;
    let cases = [
        ("{ \"name\": \"x\",,".to_owned(), 1, "", "key must be a string"),
        ("{ \"name\": \"x\",\n\"actions\": [] }".to_owned(), 1, "", "missing field `agent`"),
        ("{\n\"nam\": \"x\" }".to_owned(), 2, "nam", "unknown field `nam`"),
        (acting("").replace("\"x\"", "\"No Name\""), 1, "name", "lower-case words"),
        (
            acting("").replace("\"actions\"", "\"tests\": [\"T27\",\n\"FR-5\"], \"actions\""),
            4,
            "tests[1]",
            "by its own, FR-05",
        ),
        (
            acting("{ \"do\": \"fault\", \"fault\": \"lunch\" }"),
            4,
            "actions[0].fault",
            "unknown variant `lunch`",
        ),
        (acting("").replace("echo", "ecco"), 2, "agent.persona", "there is no persona ecco"),
        (acting("").replace("persona", "person"), 2, "agent", "unknown variant `person`"),
        (
            acting(&format!("{send},\n{{ \"do\": \"jump\" }}")),
            5,
            "actions[1]",
            "unknown action `jump`",
        ),
        (
            acting(&format!("{send},\n{{ \"when\": {{}} }}")),
            5,
            "actions[1].when",
            "expected map with a single key",
        ),
        (
            acting(&format!("{send},\n{{ \"do\": \"close\", \"wen\": 1 }}")),
            5,
            "actions[1].wen",
            "unknown field `wen`",
        ),
        (
            acting("{ \"do\": \"send\", \"id\": \"\", \"text\": \"x\" }"),
            4,
            "actions[0].id",
            "a message has an id",
        ),
        (acting(&format!("{send},\n{{ \"id\": \"m1\" }}")), 5, "actions[1]", "missing field `do`"),
        (
            acting("{ \"do\": \"send\",\n\"id\": 7, \"text\": \"x\" }"),
            5,
            "actions[0].id",
            "expected a string",
        ),
        (
            acting("{ \"do\": \"wait\",\n\"when\": {\n\"event\": \"lunch\" } }"),
            6,
            "actions[0].when.event",
            "unknown variant `lunch`",
        ),
        (
            acting("{ \"do\": \"close\", \"when\": { \"after_ms\": 5 } }")
                .replace("\"actions\"", "\"parity\": true, \"actions\""),
            4,
            "actions[0].when",
            "parity allows only causal triggers",
        ),
        (
            acting("")
                .replace("\"actions\"", "\"parity\": true, \"profile\": \"win32\",\n\"actions\""),
            3,
            "profile",
            "posix only",
        ),
        (
            acting("").replace(
                "\"actions\"",
                "\"parity\": true,\n\"simulation_only\": true, \"actions\"",
            ),
            4,
            "simulation_only",
            "natively",
        ),
        (
            acting("")
                .replace("\"actions\"", "\"definition\": {\n\"reopen\": \"never\" }, \"actions\""),
            3,
            "definition",
            "unknown variant `never`",
        ),
        (
            acting("").replace("\"actions\"", "\"definition\": { \"command\": [] }, \"actions\""),
            3,
            "definition",
            "the scenario's own",
        ),
        (
            acting("").replace("\"actions\"", "\"expect\": {\n\"survivors\": -1 }, \"actions\""),
            4,
            "expect.survivors",
            "invalid value",
        ),
        (
            acting("").replace(
                "{ \"persona\": \"echo\" }",
                "{ \"script\": { \"turns\": [{ \"steps\": [\n{ \"do\": \"say\" }] }] } }",
            ),
            3,
            "agent.script.turns[0].steps[0]",
            "missing field `text`",
        ),
    ];
    let mut wrong = Vec::new();
    for (text, line, path, words) in cases {
        let error = Document::parse(&text, "wrong.json").expect_err(&text);
        let sentence = error.to_string();
        let found = (error.line, error.path.as_str(), error.message.contains(words));
        let is_one_line = !sentence.contains(['\n', '\u{1}']);
        if found != (line, path, true) || !is_one_line || !sentence.starts_with("wrong.json:") {
            wrong.push(format!("{sentence:?} is not about {path:?} on line {line}: {words}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn the_page_holds_documents_and_names_every_word() {
    let page = read("../docs/scenario.md");
    let examples: Vec<_> = page
        .split("```json\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let document = Document::parse(example, "docs/scenario.md").expect("it is a document");
        let run = moored_scenarios::SimulatedRun::default();
        let played = moored_scenarios::play_simulated(&document, &run).expect("it can be played");
        assert_eq!(played.failures, [""; 0], "{}", document.name);
    }
    let schema = Document::json_schema();
    let fields = |of: &Value| -> Vec<String> {
        of["properties"].as_object().expect("an object").keys().cloned().collect()
    };
    let words = fields(&schema).into_iter().chain(fields(&schema["$defs"]["Expectations"]));
    for word in words.filter(|w| w != "$schema") {
        assert!(page.contains(&format!("| `{word}`")), "the page tells of {word}");
    }
}
