//! What holds each rule of Stop: `docs/stop-rules.md` against the planted bugs, their stories and the tests by name.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::read;
use common::test_names::test_functions;

/// The sections, and how many rules each has; the matrix 3.12 is one.
const SECTIONS: [(&str, u32); 17] = [
    ("3.1", 4),
    ("3.2", 6),
    ("3.3", 5),
    ("3.4", 11),
    ("3.5", 8),
    ("3.6", 8),
    ("3.7", 7),
    ("3.8", 3),
    ("3.9", 2),
    ("3.10", 5),
    ("3.11", 4),
    ("3.12", 0),
    ("4.1", 7),
    ("4.3", 3),
    ("4.4", 8),
    ("4.5", 3),
    ("4.6", 5),
];
/// The last section: how a message is held while stopping.
const HOLD: (&str, u32) = ("5.4", 5);

const PLANTED: &str = "../runtime/src/planted.rs";
const STORIES: &str = "../runtime/src/session/tests/planted_stop.rs";
const WRONG_CLIENTS: &str = "../runtime/src/status/tests/wrong.rs";

/// A row of the page.
#[derive(Debug)]
struct Rule {
    number: String,
    /// Names of what breaks it.
    broken_by: Vec<String>,
    /// Why nothing does.
    reason: Option<String>,
    shown_by: Vec<String>,
}

#[test]
fn every_rule_of_stop_is_held_or_has_a_reason() {
    let (rules, stories) = (rules(&read("../docs/stop-rules.md")), stories(&read(STORIES)));
    let numbers: Vec<_> = rules.iter().map(|rule| rule.number.as_str()).collect();
    assert_eq!(numbers, expected_numbers(), "the page has each rule once, in order");
    let bugs = bugs(&read(PLANTED));
    let wrong = wrong_clients(&read(WRONG_CLIENTS));
    let tests: BTreeSet<_> = test_functions().into_iter().map(|(_, name)| name).collect();
    let is_story = |name: &str| stories.values().any(|story| story == name);
    for rule in &rules {
        let number = &rule.number;
        assert_eq!(
            rule.broken_by.is_empty(),
            rule.reason.is_some(),
            "{number}: a bug, or a reason"
        );
        assert!(
            rule.reason.as_ref().is_none_or(|reason| reason.len() >= 20),
            "{number}: the reason says nothing"
        );
        assert!(rule.reason.is_some() || !rule.shown_by.is_empty(), "{number} has no test");
        for bug in &rule.broken_by {
            let known = bugs.contains_key(bug) || wrong.get(bug).is_some_and(|r| r == number);
            assert!(known, "{number} names {bug}, which is planted nowhere");
        }
        for test in &rule.shown_by {
            assert!(
                tests.contains(test) || is_story(test),
                "{number} names {test}, which is no test"
            );
        }
    }
    for (bug, (of, variant)) in bugs.iter().filter(|(_, (of, _))| is_of_stop(of)) {
        let row = rules.iter().find(|rule| rule.number == *of);
        let row = row.unwrap_or_else(|| panic!("{bug} breaks {of}, which is no rule"));
        assert!(row.broken_by.contains(bug), "the row of {of} leaves {bug} out");
        if let Some(story) = stories.get(variant) {
            assert!(row.shown_by.contains(story), "the row of {of} leaves out {story}");
        }
    }
    for (name, of) in &wrong {
        let listed = rules.iter().any(|rule| rule.number == *of && rule.broken_by.contains(name));
        assert!(listed, "the row of {of} leaves {name} out");
    }
}

#[test]
fn a_row_without_anything_is_found_out() {
    let page = "| Rule | Says | Broken by | Shown by |\n|---|---|---|---|\n\
        | 3.1.1 | x | `a-bug`, `another` | `a_test` |\n| 3.1.2 | y | nothing: it only defines words | - |\n";
    let rows = rules(page);
    assert_eq!(rows[0].broken_by, ["a-bug", "another"]);
    assert_eq!(rows[0].shown_by, ["a_test"]);
    assert_eq!(rows[1].reason.as_deref(), Some("it only defines words"));
    assert!(rows[1].broken_by.is_empty() && rows[1].shown_by.is_empty());
    let planted = "    TwoWords, \"3.1.1\", \"two-words\", \"it breaks\";\n    /// A comment, \"with\" marks\n";
    let of = ("3.1.1".to_owned(), "TwoWords".to_owned());
    assert_eq!(bugs(planted), [("two-words".to_owned(), of)].into());
    let table = "const STORIES: &[(B, fn())] = &[\n (TwoWords, stop::a_test),\n (\n  Other,\n  b_test,\n ),\n];\n";
    let expected = [("TwoWords", "a_test"), ("Other", "b_test")];
    assert_eq!(stories(table), expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
}

fn expected_numbers() -> Vec<String> {
    let sections = SECTIONS.into_iter().chain([HOLD]);
    let of = |(section, count): (&str, u32)| match count {
        0 => vec![section.to_owned()],
        count => (1..=count).map(|n| format!("{section}.{n}")).collect(),
    };
    sections.flat_map(of).collect()
}

/// Whether a rule is one of the page's.
fn is_of_stop(rule: &str) -> bool {
    let in_section = |section: &str| rule.strip_prefix(section).is_some_and(|r| r.starts_with('.'));
    rule == "3.12" || SECTIONS.into_iter().chain([HOLD]).any(|(section, _)| in_section(section))
}

fn rules(page: &str) -> Vec<Rule> {
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Rule"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, _, broken_by, shown_by] = cells[..] else { panic!("four cells: {row}") };
        let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let reason = broken_by.strip_prefix("nothing: ").map(str::to_owned);
        let broken_by = if reason.is_some() { Vec::new() } else { names(broken_by) };
        Rule { number: number.to_owned(), broken_by, reason, shown_by: names(shown_by) }
    })
    .collect()
}

/// Planted bugs by name, with their rule and variant.
fn bugs(source: &str) -> BTreeMap<String, (String, String)> {
    let lines = source.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    lines
        .filter_map(|line| {
            let (variant, rest) = line.split_once(", \"")?;
            let mut parts = rest.split("\", \"");
            let (rule, name) = (parts.next()?, parts.next()?);
            let is_variant = variant.chars().all(|c| c.is_ascii_alphanumeric());
            is_variant.then(|| (name.to_owned(), (rule.to_owned(), variant.to_owned())))
        })
        .collect()
}

/// The stories of planted bugs, by variant.
fn stories(source: &str) -> BTreeMap<String, String> {
    let (_, table) = source.split_once("const STORIES").expect("the table is there");
    let (_, table) = table.split_once("&[\n").expect("it begins");
    let (table, _) = table.split_once("];").expect("it ends");
    let code = table.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = code.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect();
    let entries = code.split('(').skip(1).map(|entry| entry.trim_end_matches([',', ')']));
    let story = |entry: &str| {
        let (variant, path) = entry.split_once(',')?;
        let name = path.rsplit("::").next()?;
        Some((variant.to_owned(), name.to_owned()))
    };
    entries.filter_map(story).collect()
}

/// Wrong clients by name, with their rule.
fn wrong_clients(source: &str) -> BTreeMap<String, String> {
    let quoted = |line: &str| {
        let text = line.trim().strip_prefix('"')?.strip_suffix("\",")?;
        Some(text.to_owned())
    };
    let texts: Vec<_> = source.lines().map(quoted).collect();
    let pairs = texts.windows(2).filter_map(|pair| match pair {
        [Some(rule), Some(name)] => Some((name.clone(), rule.clone())),
        _ => None,
    });
    pairs.collect()
}
