//! The page on the journal is the format: its examples are rows, every kind has one, its tables are the tables.

use std::collections::BTreeSet;

use moored::journal::{Row, RowFault};

const PAGE: &str = include_str!("../../docs/journal.md");

fn examples() -> impl Iterator<Item = &'static str> {
    PAGE.lines().filter(|line| line.starts_with("{\"v\""))
}

#[test]
fn every_example_reads_and_is_written_as_it_stands() {
    assert!(examples().count() > 15);
    for example in examples() {
        let row = Row::parse(example).unwrap_or_else(|fault| panic!("{fault}: {example}"));
        assert_eq!(row.to_text(), example);
    }
}

#[test]
fn every_kind_and_every_type_has_an_example() {
    let schema = schemars::schema_for!(Row).to_value();
    let body = &schema["$defs"]["ItemBody"]["oneOf"];
    for (variants, field) in [
        (&schema["oneOf"], "kind"),
        (body, "type"),
        (&schema["$defs"]["Mutation"]["oneOf"], "do"),
        (&schema["$defs"]["ChildRow"]["oneOf"], "child"),
    ] {
        let variants = variants.as_array().expect("a choice of variants");
        let named: BTreeSet<&str> = variants
            .iter()
            .map(|v| v["properties"][field]["const"].as_str().expect("a name"))
            .collect();
        assert!(named.len() > 2, "{field}: {named:?}");
        for name in named {
            let example = format!("\"{field}\":\"{name}\"");
            assert!(examples().any(|line| line.contains(&example)), "no example of {example}");
        }
    }
}

#[test]
fn a_word_of_a_newer_build_is_told_from_damage() {
    let mark = examples().find(|line| line.contains("\"mark\":\"context\"")).expect("an example");
    assert!(Row::parse(&mark.replace("context", "mood")).is_ok(), "an unknown mark is a mark");
    let newer = Row::parse(&mark.replace("{\"v\":1", "{\"v\":2"));
    assert!(matches!(newer, Err(RowFault::Newer { .. })));
    let newer = Row::parse(&mark.replace("\"kind\":\"mark\"", "\"kind\":\"hologram\""));
    assert!(matches!(newer, Err(RowFault::Newer { .. })));
    let damaged = Row::parse(&mark.replace("\"seq\":17", "\"seq\":-17"));
    assert!(matches!(damaged, Err(RowFault::Damaged { .. })));
}

#[test]
fn the_tables_of_the_page_are_the_tables() {
    assert!(PAGE.contains(include_str!("../src/store/sqlite/tables.sql")));
}
