use super::*;

/// `omp` with its folder given.
fn omp() -> AgentDefinition {
    let omp = AgentDefinition::builtin("omp").expect("it is shipped");
    omp.with("agent_dir", "/home/me/.omp/agent").expect("it asks for that")
}

fn refused(document: &str) -> (usize, String, String) {
    match AgentDefinition::parse(document).expect_err(document) {
        DefinitionError::Invalid { line, field, reason } => (line, field, reason),
        other => panic!("{other}"),
    }
}

#[test]
fn every_shipped_definition_is_read_under_its_own_name() {
    let names: Vec<_> = AgentDefinition::builtin_names().collect();
    assert_eq!(names, ["omp"]);
    for name in names {
        assert_eq!(AgentDefinition::builtin(name).expect(name).name, name);
    }
    assert_eq!(AgentDefinition::builtin("OMP"), None);
}

#[test]
fn a_definition_survives_being_written_and_read() {
    let written = serde_json::to_string_pretty(&omp()).expect("it is JSON");
    assert_eq!(AgentDefinition::parse(&written), Ok(omp()));
    let generic = AgentDefinition::generic(vec!["agent".to_owned(), "--acp".to_owned()]);
    let written = serde_json::to_string(&generic).expect("it is JSON");
    assert_eq!(AgentDefinition::parse(&written), Ok(generic));
}

#[test]
fn the_least_definition_is_the_generic_one() {
    let least = AgentDefinition::parse(r#"{"name": "agent", "command": ["a"]}"#);
    assert_eq!(least, Ok(AgentDefinition::generic(vec!["a".to_owned()])));
}

#[test]
fn an_error_names_the_field_and_the_line() {
    let cases = [
        ("{\n \"name\": 1\n}", 2, "name", "invalid type"),
        ("{\n \"name\": \"a\",\n \"comand\": []\n}", 3, "comand", "unknown field `comand`"),
        ("{\n \"command\": []\n}", 3, "", "missing field `name`"),
        (
            "{\"name\": \"a\",\n \"versions\": {\n \"from\": \"17.0\"}}",
            3,
            "versions.from",
            "major.minor.patch",
        ),
        (
            "{\"name\": \"a\",\n \"versions\": {\n \"from\": \"1.0.0-rc.1\"}}",
            3,
            "versions.from",
            "major.minor.patch",
        ),
        (
            "{\"name\": \"a\",\n\n \"verdict\": {\"last_matching\": {}, \"field\": \"f\",\n \"words\": {\"stop\": \"fine\"}}}",
            4,
            "verdict.words.stop",
            "unknown variant `fine`",
        ),
        (
            "{\"name\": \"a\",\n \"session_file\": {\"glob\": \"/{session}\", \"header\": {\"id\": \"id\"}}}",
            2,
            "session_file.header",
            "missing field `cwd`",
        ),
        (
            "{\"name\": \"a\",\n \"session_file\": {\n \"glob\": \"/x/**/{session}\"}}",
            3,
            "session_file.glob",
            "`**`",
        ),
        (
            "{\"name\": \"a\",\n \"session_file\": {\n \"glob\": \"{DRI}/{session}\", \"header\": {\"id\": \"i\", \"cwd\": \"c\"}}}",
            3,
            "session_file.glob",
            "DRI is no pinned variable",
        ),
        ("{\"name\": \"a\", \"command\": [\"x\",\n 2]}", 2, "command[1]", "invalid type"),
        ("{\"name\": \"a\",\n \"eof_grace_ms\": -1}", 2, "eof_grace_ms", "invalid value"),
        ("{\"name\": \"a\"}\n{}", 2, "", "trailing characters"),
        (
            "{\"name\": \"a\",\n \"values\": {\n  \"dir\": {\"about\": \"x\"}},\n \"pin_env\": {\"DIR\": \"{dri}\"}}",
            3,
            "values.dir",
            "no pinned variable has {dir}",
        ),
    ];
    for (document, line, field, reason) in cases {
        let (found_line, found_field, found_reason) = refused(document);
        assert_eq!((found_line, found_field.as_str()), (line, field), "{document}\n{found_reason}");
        assert!(found_reason.contains(reason), "{document}\n{found_reason}");
        assert!(!found_reason.contains(" at line "), "the line is told once: {found_reason}");
    }
    let error = AgentDefinition::parse("{\n \"name\": 1\n}").expect_err("a number is no name");
    assert!(error.to_string().starts_with("line 2 of the agent definition: name: invalid type"));
}

#[test]
fn a_definition_has_a_largest_size() {
    let long = |bytes: usize| {
        let least = r#"{"name": ""}"#;
        format!(r#"{{"name": "{}"}}"#, "a".repeat(bytes - least.len()))
    };
    assert!(AgentDefinition::parse(&long(DEFINITION_BYTES_MAX)).is_ok());
    let bytes = DEFINITION_BYTES_MAX + 1;
    assert_eq!(AgentDefinition::parse(&long(bytes)), Err(DefinitionError::TooLarge { bytes }));
}

#[test]
fn omp_is_pinned_by_both_of_its_variables() {
    let shipped = AgentDefinition::builtin("omp").expect("it is shipped");
    assert_eq!(shipped.missing_value(), Some("agent_dir"));
    let omp = omp();
    assert_eq!(omp.missing_value(), None);
    // One alone is not enough: a dotenv file can set the other (decision D15).
    let pinned = |name: &str| omp.pinned().get(name).cloned();
    assert_eq!(pinned("PI_CODING_AGENT_DIR").as_deref(), Some("/home/me/.omp/agent"));
    assert_eq!(pinned("OMP_PROFILE").as_deref(), Some("default"));
    let other = omp.clone().with("profile", "work").expect("it asks for that");
    assert_eq!(other.pinned().get("OMP_PROFILE").map(String::as_str), Some("work"));
}

#[test]
fn a_value_is_refused_that_nobody_asks_for_or_that_cannot_be_it() {
    let omp = AgentDefinition::builtin("omp").expect("it is shipped");
    let error = omp.clone().with("folder", "/x").expect_err("it asks for no folder");
    assert_eq!(error.to_string(), "omp asks for no value folder; it asks for: agent_dir, profile");
    let error = omp.clone().with("agent_dir", ".omp/agent").expect_err("it is relative");
    assert!(error.to_string().contains("agent_dir") && error.to_string().contains("absolute"));
    assert!(!error.to_string().contains(".omp"), "a value may be a secret");
    assert!(omp.with("agent_dir", "C:\\Users\\me\\agent").is_ok());
    let generic = AgentDefinition::generic(vec!["a".to_owned()]);
    let error = generic.with("x", "y").expect_err("it asks for nothing");
    assert_eq!(error.to_string(), "agent asks for no value x; it asks for: nothing");
}

#[test]
fn a_value_is_put_in_its_places_and_read_no_further() {
    let document = r#"{"name": "a",
        "values": {"one": {"about": "1"}, "two": {"about": "2", "value": "zwei"}},
        "pin_env": {"A": "{one}-{two}-{one}", "B": "{three} {", "C": "{\"json\": {two}}"}}"#;
    let definition = AgentDefinition::parse(document).and_then(|d| d.with("one", "{two}{"));
    let pinned = definition.expect("it is one").pinned();
    assert_eq!(pinned["A"], "{two}{-zwei-{two}{");
    assert_eq!(pinned["B"], "{three} {", "what is no value's place is text");
    assert_eq!(pinned["C"], "{\"json\": zwei}");
}

#[test]
fn a_definition_does_not_show_its_values() {
    let definition = omp().with("profile", "s3cret").expect("it asks for that");
    let shown = format!("{definition:?} {:?}", definition.values);
    assert!(!shown.contains("s3cret") && !shown.contains("/home/me"), "{shown}");
    assert!(shown.contains("OMP_PROFILE"));
}

#[test]
fn releases_are_compared_by_number_and_not_by_letter() {
    let from = |text: &str| SupportedVersions { from: text.to_owned(), pre_releases: false };
    let cases = [
        ("17.0.5", "17.0.5", true),
        ("17.0.5", "17.0.4", false),
        ("17.0.5", "17.0.10", true),
        ("17.0.5", "17.1.0", true),
        ("17.0.5", "18.0.0", true),
        ("17.0.5", "9.9.9", false),
        ("17.0.5", "v18.2.3", true),
        ("17.0.5", " 18.2.3 ", true),
        ("17.0.5", "18.2.3+build.7", true),
        // Newer, and yet no release.
        ("17.0.5", "18.0.0-rc.1", false),
        ("17.0.5", "17.0.5-rc.1", false),
        // What is no release is not supported.
        ("17.0.5", "", false),
        ("17.0.5", "18", false),
        ("17.0.5", "18.2", false),
        ("17.0.5", "18.2.3.4", false),
        ("17.0.5", "18.x.3", false),
        ("17.0.5", "-1.0.0", false),
        ("17.0.5", "99999999999999999999.0.0", false),
    ];
    for (first, found, supported) in cases {
        assert_eq!(from(first).supports(found), supported, "{first} and {found:?}");
    }
}

#[test]
fn pre_releases_are_supported_where_the_definition_says_so() {
    let mut versions = SupportedVersions { from: "2.0.0".to_owned(), pre_releases: true };
    assert!(versions.supports("2.1.0-beta.2"));
    assert!(!versions.supports("1.9.9-beta.2"));
    // Before its own release: 2.0.0-rc.1 is older than 2.0.0.
    assert!(!versions.supports("2.0.0-rc.1"));
    versions.pre_releases = false;
    assert!(!versions.supports("2.1.0-beta.2"));
    assert!(versions.supports("2.1.0"));
}
