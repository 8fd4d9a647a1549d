//! What is known about each agent: its packages, its program, its configuration. Data, one place
//! for each agent.

use std::fmt;
use std::path::Path;

/// The agents the suites know.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// `codex-acp` of Zed: one native process, the cheapest real agent.
    CodexAcp,
    /// Gemini CLI.
    Gemini,
    /// Oh My Pi.
    Omp,
}

/// Whether an agent asks before it uses a tool.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Approval {
    /// It asks.
    Ask,
    /// It does not.
    #[default]
    Never,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::CodexAcp, Self::Gemini, Self::Omp];

    /// What people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CodexAcp => "codex-acp",
            Self::Gemini => "gemini",
            Self::Omp => "omp",
        }
    }

    /// The environment variable that may name its program.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Self::CodexAcp => "MOORED_CODEX_ACP",
            Self::Gemini => "MOORED_GEMINI",
            Self::Omp => "MOORED_OMP",
        }
    }

    /// Its folder in the cache. The version is part of the name, so that a new version is a new
    /// folder.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::CodexAcp => "codex-acp-0.16.0",
            Self::Gemini => "gemini-0.61.0",
            Self::Omp => "omp-18.2.3",
        }
    }

    /// Its npm packages, pinned: what is measured about an agent is measured about a version.
    pub(super) fn packages(self) -> &'static [&'static str] {
        match self {
            Self::CodexAcp => &["@zed-industries/codex-acp@0.16.0"],
            Self::Gemini => &["@google/gemini-cli@0.61.0"],
            // omp is a bun script; later omp versions miss a dependency there.
            Self::Omp => &["@oh-my-pi/pi-coding-agent@18.2.3", "bun@1.4.5"],
        }
    }

    /// Its program below the folder.
    pub(super) fn program(self) -> String {
        match self {
            // The native program, not the Node script in front of it: that would be a second
            // process to follow.
            Self::CodexAcp => {
                format!("node_modules/@zed-industries/codex-acp-{}/bin/codex-acp", platform())
            }
            Self::Gemini => "node_modules/@google/gemini-cli/bundle/gemini.js".to_owned(),
            Self::Omp => "node_modules/.bin/omp".to_owned(),
        }
    }

    /// The command line that makes it speak ACP.
    pub(super) fn argv(self, program: &str, approval: Approval) -> Vec<String> {
        let asks = approval == Approval::Ask;
        let words: &[&str] = match self {
            Self::CodexAcp => &[program],
            Self::Gemini => {
                let mode = if asks { "default" } else { "yolo" };
                &["node", program, "--acp", "--model", "gemini-2.5-flash", "--approval-mode", mode]
            }
            Self::Omp => {
                let mode = if asks { "always-ask" } else { "yolo" };
                &[program, "acp", "--model", "stub/stub", "--approval-mode", mode]
            }
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// Its own environment variables.
    pub(super) fn environment(self, home: &Path, port: u16) -> Vec<(&'static str, String)> {
        let below = |path: &str| home.join(path).display().to_string();
        match self {
            Self::CodexAcp => vec![
                ("CODEX_HOME", below(".codex")),
                ("NO_BROWSER", "1".to_owned()),
                ("STUB_KEY", "sk-stub".to_owned()),
            ],
            Self::Gemini => vec![
                ("GEMINI_API_KEY", "sk-stub".to_owned()),
                ("GEMINI_CLI_NO_RELAUNCH", "true".to_owned()),
                ("GEMINI_TELEMETRY_ENABLED", "false".to_owned()),
                ("GOOGLE_GEMINI_BASE_URL", format!("http://127.0.0.1:{port}")),
            ],
            // Both, or a profile named in a dotenv file moves the sessions elsewhere.
            Self::Omp => vec![
                ("OMP_PROFILE", "default".to_owned()),
                ("PI_CODING_AGENT_DIR", below(".omp/agent")),
            ],
        }
    }

    /// Its configuration files below the home, and what they say.
    pub(super) fn configuration(
        self,
        port: u16,
        approval: Approval,
    ) -> Vec<(&'static str, String)> {
        match self {
            Self::CodexAcp => vec![(".codex/config.toml", codex_configuration(port, approval))],
            Self::Gemini => vec![(".gemini/settings.json", GEMINI_CONFIGURATION.to_owned())],
            Self::Omp => vec![
                (".omp/agent/config.yml", OMP_CONFIGURATION.to_owned()),
                (".omp/agent/models.yml", omp_models(port)),
            ],
        }
    }

    /// Where its session files are, below the home; they lie at any depth there.
    pub(super) fn sessions(self) -> &'static str {
        match self {
            Self::CodexAcp => ".codex/sessions",
            Self::Gemini => ".gemini/tmp",
            Self::Omp => ".omp/agent/sessions",
        }
    }
}

/// This platform, as npm packages name it.
fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let processor = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        "x86_64" => "x64",
        other => other,
    };
    format!("{system}-{processor}")
}

fn codex_configuration(port: u16, approval: Approval) -> String {
    let (policy, mode) = match approval {
        Approval::Ask => ("on-request", "workspace-write"),
        Approval::Never => ("never", "danger-full-access"),
    };
    format!(
        r#"model = "stub"
model_provider = "stub"
approval_policy = "{policy}"
sandbox_mode = "{mode}"
check_for_update_on_startup = false
[model_providers.stub]
name = "stub"
base_url = "http://127.0.0.1:{port}/v1"
env_key = "STUB_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
[analytics]
enabled = false
"#
    )
}

fn omp_models(port: u16) -> String {
    format!(
        "providers:
  stub:
    baseUrl: http://127.0.0.1:{port}/v1
    apiKey: sk-stub
    api: openai-completions
    models:
      - id: stub
        name: Stub
        contextWindow: 100000
        maxTokens: 4096
"
    )
}

/// omp looks for model servers on their usual loopback ports; one that the user runs is not ours
/// to find.
const OMP_CONFIGURATION: &str = "disabledProviders: [litellm, llama.cpp, lm-studio, ollama, vllm]
";

const GEMINI_CONFIGURATION: &str = r#"{
 "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
 "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
 "privacy": {"usageStatisticsEnabled": false}}
"#;
