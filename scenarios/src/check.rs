//! What a document must keep beyond its schema.

use moored::agent::AgentDefinition;
use moored::session::ladder::Profile;

use crate::document::{Act, Action, AgentSource, Document, Trigger};

/// The field and what is wrong with it.
type Fault = (String, String);

/// Checks names, the persona, the definition, and what parity asks for (decision D36).
pub(crate) fn check(document: &Document) -> Result<(), Fault> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if document.name.is_empty() || !document.name.chars().all(plain) {
        return fault("name", "a name is lower-case words joined by hyphens");
    }
    if let AgentSource::Persona(name) = &document.agent
        && moored_fake_agents::persona(name).is_none()
    {
        let known: Vec<_> = moored_fake_agents::PERSONAS.iter().map(|p| p.name).collect();
        return fault(
            "agent.persona",
            &format!("there is no persona {name}; there are {}", known.join(", ")),
        );
    }
    definition(document, Vec::new()).map_err(|words| ("definition".to_owned(), words))?;
    let unnumbered = |test: &String| {
        let number = test.strip_prefix("FR-").or_else(|| test.strip_prefix('T'));
        number.is_none_or(|n| n.len() != 2 || n.bytes().any(|b| !b.is_ascii_digit()))
    };
    if let Some(index) = document.tests.iter().position(unnumbered) {
        return fault(
            &format!("tests[{index}]"),
            "a test is named by its number, T27, and a report by its own, FR-05",
        );
    }
    let unnamed = |a: &Action| matches!(&a.act, Act::Send { id, .. } if id.is_empty());
    if let Some(index) = document.actions.iter().position(unnamed) {
        return fault(&format!("actions[{index}].id"), "a message has an id");
    }
    if document.parity {
        if document.simulation_only {
            return fault("simulation_only", "parity is held natively too");
        }
        if document.profile != Profile::Posix {
            return fault("profile", "parity is held on posix only");
        }
        let timed =
            document.actions.iter().position(|a| matches!(a.when, Some(Trigger::AfterMs(_))));
        if let Some(index) = timed {
            return fault(&format!("actions[{index}].when"), "parity allows only causal triggers");
        }
    }
    Ok(())
}

/// The agent's definition: the generic one with the document's fields.
pub(crate) fn definition(
    document: &Document,
    command: Vec<String>,
) -> Result<AgentDefinition, String> {
    let generic =
        serde_json::to_value(AgentDefinition::generic(command)).map_err(|e| e.to_string())?;
    let serde_json::Value::Object(mut fields) = generic else {
        return Err("a definition is an object".to_owned());
    };
    for (name, value) in &document.definition {
        if name == "command" {
            return Err("the command is the scenario's own".to_owned());
        }
        fields.insert(name.clone(), value.clone());
    }
    serde_json::from_value(serde_json::Value::Object(fields)).map_err(|e| e.to_string())
}

fn fault(path: &str, words: &str) -> Result<(), Fault> {
    Err((path.to_owned(), words.to_owned()))
}
