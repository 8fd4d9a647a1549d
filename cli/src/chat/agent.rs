//! Which agent is talked to: a command line, a definition, or a scripted persona run as a real process.

#![expect(
    clippy::disallowed_methods,
    reason = "a binary reads the file it is given, and knows where it is itself"
)]

use std::path::Path;

use anyhow::{Context, bail};
use moored::agent::AgentDefinition;

use crate::args::Chat;
use crate::fake_agent;
use crate::words::clause;

/// Who is talked to when nobody is named.
const PERSONA_DEFAULT: &str = "echo";
/// Where the scripted agents keep their own sessions, inside the state directory.
const PERSONA_HOME: &str = "fake-agents";

/// The agent, ready to be pinned in a session.
pub fn choose(options: &Chat, store: &Path) -> anyhow::Result<AgentDefinition> {
    let Some(named) = &options.agent else {
        return match options.command.is_empty() {
            true => persona(options.persona.as_deref().unwrap_or(PERSONA_DEFAULT), store),
            false => Ok(generic(options.command.clone())),
        };
    };
    let mut agent = definition(named)?;
    for (name, value) in &options.values {
        agent = agent.with(name, value.as_str())?;
    }
    if let Some((name, asked)) = agent.values.iter().find(|(_, asked)| asked.value.is_none()) {
        let about = clause(&asked.about);
        bail!(
            "the agent definition {named} asks for {name}; give it with --value {name}=... ({about})"
        );
    }
    if !options.command.is_empty() {
        agent.command.clone_from(&options.command);
    }
    if agent.command.is_empty() {
        bail!("the agent definition {named} names no command; give one after --");
    }
    Ok(agent)
}

/// Any command line runs with the default definition; lists show the program's name.
fn generic(command: Vec<String>) -> AgentDefinition {
    let program = command.first().map(Path::new).and_then(Path::file_name);
    let name = program.map(|name| name.to_string_lossy().into_owned());
    let agent = AgentDefinition::generic(command);
    AgentDefinition { name: name.unwrap_or_else(|| agent.name.clone()), ..agent }
}

fn definition(named: &str) -> anyhow::Result<AgentDefinition> {
    if let Some(built_in) = AgentDefinition::builtin(named) {
        return Ok(built_in);
    }
    let text = match std::fs::read_to_string(named) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let names: Vec<&str> = AgentDefinition::builtin_names().collect();
            bail!(
                "there is no agent definition {named}, built-in ({}) or as a JSON file; \
                 name another, or give the agent's command after --",
                names.join(", ")
            )
        }
        Err(error) => bail!("the agent definition {named} cannot be read ({error}); name another"),
    };
    AgentDefinition::parse(&text).with_context(|| format!("correct {named}"))
}

/// This very program, as a scripted agent. It keeps its sessions in the store, so that a Stop can be survived.
fn persona(name: &str, store: &Path) -> anyhow::Result<AgentDefinition> {
    if moored_fake_agents::persona(name).is_none() {
        let names: Vec<&str> = moored_fake_agents::PERSONAS.iter().map(|p| p.name).collect();
        bail!("there is no persona {name}; there are {}", names.join(", "));
    }
    let program = std::env::current_exe().context("this program cannot find itself")?;
    let text = |path: &Path| path.to_str().map(str::to_owned);
    let (Some(program), Some(home)) = (text(&program), text(&store.join(PERSONA_HOME))) else {
        bail!("the store's name is not UTF-8; choose another with --store DIR");
    };
    let command = [program.as_str(), fake_agent::WORD, "--persona", name];
    let mut agent = AgentDefinition::generic(command.map(str::to_owned).to_vec());
    agent.name = name.to_owned();
    agent.pin_env.insert(moored_fake_agents::HOME_VARIABLE.to_owned(), home);
    Ok(agent)
}
