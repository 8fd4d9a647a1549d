//! Pages that are generated, and pages that quote: each is as the code is. `MOORED_UPDATE_DOCS=1` writes them anew.

#![expect(clippy::disallowed_methods, reason = "the pages are files of the repository")]

use std::path::{Path, PathBuf};

use moored::agent::AgentDefinition;
use moored::failure::{FailureCode, RefusalCode};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page(path: &str) -> String {
    let page = repository().join(path);
    std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A page that is written by the code, whole.
fn holds(path: &str, generated: &str) {
    let file = repository().join(path);
    if std::env::var_os("MOORED_UPDATE_DOCS").is_some() {
        std::fs::write(&file, generated).expect("a page can be written");
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == generated, "{path} is stale: run the test with MOORED_UPDATE_DOCS=1");
}

/// What a page quotes of a language, block by block.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let blocks = page.split(fence.as_str()).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap_or_default()).collect()
}

#[test]
fn the_page_of_failures_tells_every_code() {
    let mut text = FAILURES_HEAD.to_owned();
    for &code in FailureCode::ALL {
        let again = if code.may_send_again() { "yes" } else { "no" };
        let (name, sentence, remedy) = (wire_name(code), code.sentence(), code.remedy());
        text += &format!("| `{name}` | {sentence} | {remedy} | {again} |\n");
    }
    text += REFUSALS_HEAD;
    for code in RefusalCode::ALL {
        let sentence = code.sentence();
        let parts = sentence.split_once("; ");
        let (what, remedy) = parts.expect("a refusal says what happened; and what to do");
        let (what, remedy) = (as_sentence(what), as_sentence(remedy));
        text += &format!("| `{}` | {what} | {remedy} |\n", code.name());
    }
    assert!(!text.contains("|  |"), "every cell says something");
    holds("docs/failures.md", &text);
}

#[test]
fn a_code_is_published_under_one_name() {
    for code in RefusalCode::ALL {
        assert_eq!(wire_name(*code), code.name());
    }
}

fn wire_name(code: impl serde::Serialize) -> String {
    match serde_json::to_value(code).expect("a code is JSON") {
        serde_json::Value::String(name) => name,
        other => panic!("{other} is no name"),
    }
}

/// Lower-case halves of an error's text, as sentences of a page.
fn as_sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().expect("a sentence says something");
    format!("{}{}.", first.to_uppercase(), chars.as_str())
}

#[test]
fn the_schema_of_definitions_is_the_readers_own() {
    holds("docs/agent-definition.schema.json", &format!("{:#}\n", AgentDefinition::json_schema()));
}

#[test]
fn the_schema_takes_what_the_reader_takes_and_refuses_what_it_refuses() {
    let schema = jsonschema::validator_for(&AgentDefinition::json_schema()).expect("it is one");
    let takes =
        |document: &str| schema.is_valid(&serde_json::from_str(document).expect("it is JSON"));
    for name in AgentDefinition::builtin_names() {
        assert!(takes(&page(&format!("runtime/src/agent/definitions/{name}.json"))), "{name}");
    }
    assert!(takes(r#"{"name": "a"}"#) && AgentDefinition::parse(r#"{"name": "a"}"#).is_ok());
    for wrong in [
        r#"{"command": ["a"]}"#,
        r#"{"name": "a", "comand": ["a"]}"#,
        r#"{"name": "a", "reopen": "again"}"#,
        r#"{"name": "a", "eof_grace_ms": -1}"#,
        r#"{"name": "a", "versions": {"from": "1.0"}}"#,
        r#"{"name": "a", "versions": {"from": "v1.0.0"}}"#,
        r#"{"name": "a", "versions": {"from": "1.0.0+1"}}"#,
        r#"{"name": "a", "values": {"v": {"kind": "path"}}}"#,
        r#"{"name": "a", "session_file": {"glob": "*"}}"#,
    ] {
        assert!(AgentDefinition::parse(wrong).is_err(), "{wrong}");
        assert!(!takes(wrong), "{wrong}");
    }
}

#[test]
fn every_definition_in_the_guide_is_one_and_every_field_is_told() {
    let guide = page("docs/agent-definition.md");
    let definitions = blocks(&guide, "json");
    assert!(definitions.len() >= 2, "the guide teaches by example");
    for definition in definitions {
        AgentDefinition::parse(definition).unwrap_or_else(|e| panic!("{e} in\n{definition}"));
    }
    let schema = AgentDefinition::json_schema();
    let fields = |of: &serde_json::Value| -> Vec<String> {
        of["properties"].as_object().expect("an object").keys().cloned().collect()
    };
    let inner = [
        "PinnedValue",
        "SupportedVersions",
        "SessionFile",
        "SessionFileHeader",
        "VerdictReader",
        "Drift",
    ];
    let inner = inner.into_iter().flat_map(|name| fields(&schema["$defs"][name]));
    for field in fields(&schema).into_iter().chain(inner) {
        assert!(guide.contains(&format!("`{field}`")), "{field} is not in the guide");
    }
}

#[test]
fn the_readme_quotes_the_smallest_host_as_it_is() {
    let example = page("runtime/examples/embed.rs");
    assert!(example.lines().count() <= 60, "the smallest host fits a screen");
    for quoting in ["README.md", "docs/embedding.md"] {
        let quoted = page(quoting);
        assert!(
            blocks(&quoted, "rust").contains(&example.as_str()),
            "{quoting} does not quote runtime/examples/embed.rs as it is"
        );
    }
}

#[test]
fn the_guide_quotes_what_a_client_shows_as_it_is() {
    let example = page("runtime/examples/show_stopping.rs");
    let guide = page("docs/embedding.md");
    assert!(
        blocks(&guide, "rust").contains(&example.as_str()),
        "docs/embedding.md does not quote runtime/examples/show_stopping.rs as it is"
    );
}

#[test]
fn the_readme_opens_with_its_two_commands() {
    let readme = page("README.md");
    let first = blocks(&readme, "sh");
    let first = first.first().expect("there are commands").lines().collect::<Vec<_>>();
    let commands: Vec<&str> =
        first.iter().map(|l| l.split(" #").next().unwrap_or(l).trim()).collect();
    assert_eq!(commands, ["cargo run --release -- sweep", "cargo test --workspace"]);
}

#[test]
fn no_page_links_to_what_is_not_there() {
    let pages = ["README.md", "CONTRIBUTING.md"].map(str::to_owned).into_iter();
    let docs = std::fs::read_dir(repository().join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let docs = docs.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    for path in pages.chain(docs) {
        let folder = repository().join(&path).parent().expect("it is in a folder").to_path_buf();
        for link in page(&path).split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            assert!(folder.join(target).exists(), "{path} links to {target}, which is not there");
        }
    }
}

const FAILURES_HEAD: &str = "\
# Failures

Generated from `moored::failure`; a test fails when this page is stale (`MOORED_UPDATE_DOCS=1 cargo test -p moored
--test docs_pages` writes it anew).

## Why a message or a start failed

A failure is published with its code, its sentence, and the agent's own words where they are meant for a person. The
last column says whether the same text may be sent again, under a new message id: *yes* means that it is proven not to
have reached the agent.

| Code | What happened | What to do | May it be sent again? |
|---|---|---|---|
";

const REFUSALS_HEAD: &str = "
## Why a call was refused

A refused call has changed nothing. Its name is what programs compare; the sentence may be sharper than the one here.

| Name | What happened | What to do |
|---|---|---|
";
