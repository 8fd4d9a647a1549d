//! When a Stop is pressed: what the agent does then, and how a test sees that it does.

use std::fmt;

use moored::journal::{ChildRow, ItemBody, Resolution, Role, ToolStatus};
use moored_real_omp_gated::Approval;

use crate::hosted::{Hosted, processes, said, turns};

/// The moments.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Moment {
    /// The answer streams.
    Stream,
    /// A tool's process of its own runs. (`/bin/sleep`: a bare `sleep` is a builtin of omp.)
    Tool,
    /// The model has not said anything yet.
    BeforeFirstToken,
    /// The model thinks.
    Thinking,
    /// The second tool of a turn runs.
    SecondTool,
    /// The agent waits for a permission.
    Permission,
    /// A tool runs that resists its abort.
    Resisting,
    /// The answer streams, and the agent is frozen right before the press.
    Frozen,
    /// The prompt has just been written.
    AtOnce,
}

impl Moment {
    pub const ALL: [Self; 9] = [
        Self::Stream,
        Self::Tool,
        Self::BeforeFirstToken,
        Self::Thinking,
        Self::SecondTool,
        Self::Permission,
        Self::Resisting,
        Self::Frozen,
        Self::AtOnce,
    ];

    pub fn approval(self) -> Approval {
        if self == Self::Permission { Approval::Ask } else { Approval::Never }
    }

    /// Whether a tool is cut.
    pub fn cuts_a_tool(self) -> bool {
        matches!(self, Self::Tool | Self::SecondTool | Self::Permission | Self::Resisting)
    }

    /// What brings an agent to the moment; the word is to be known again.
    pub fn prompt(self, word: &str) -> String {
        let marker = match self {
            Self::Stream | Self::Frozen | Self::AtOnce => {
                "[[stub:slow chunks=5000 delay_ms=20 word=w]]".to_owned()
            }
            Self::Tool => r#"[[stub:bash command="/bin/sleep 30"]]"#.to_owned(),
            Self::BeforeFirstToken => "[[stub:hang]]".to_owned(),
            Self::Thinking => "[[stub:think chunks=5000 delay_ms=20]]".to_owned(),
            Self::SecondTool => format!(
                r#"[[stub:bash loops=2 command="/bin/sh -c 'test -e {word} && exec /bin/sleep 30; : > {word}'"]]"#
            ),
            Self::Permission => format!(r#"[[stub:bash command="touch {word}"]]"#),
            Self::Resisting => resisting(word),
        };
        format!("remember {word} {marker}")
    }

    /// Waits until the agent, in the `nth` turn, is there.
    pub fn reach(self, hosted: &mut Hosted, nth: usize, word: &str) {
        match self {
            Self::Stream => hear(hosted, nth, Role::Agent),
            Self::Thinking => hear(hosted, nth, Role::Thought),
            Self::Frozen => {
                hear(hosted, nth, Role::Agent);
                freeze(hosted);
            }
            Self::BeforeFirstToken => hosted.until("the model is asked", |hosted| {
                hosted.model.was_asked(|asked| asked.saw(word) && asked.outcome.is_none())
            }),
            Self::Tool | Self::SecondTool => hosted.until("the tool's process runs", sleeps),
            // The request comes before the call it is about.
            Self::Permission => {
                hosted.when(|seen| {
                    let has = |is: fn(&ItemBody) -> bool| seen.items.iter().any(|i| is(&i.body));
                    has(is_asked) && has(is_at_work)
                });
            }
            Self::Resisting => {
                let made = hosted.sandbox.workspace.join(word);
                hosted.until("the tool resists", |_| made.exists());
            }
            Self::AtOnce => hosted.until_at_once("the prompt is written", |hosted| {
                hosted.edge.wrote("session/prompt") == nth
            }),
        }
        if self == Self::SecondTool {
            assert!(hosted.sandbox.workspace.join(word).exists(), "the first tool has not run");
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Stream => "mid-stream",
            Self::Tool => "mid-tool",
            Self::BeforeFirstToken => "before the first token",
            Self::Thinking => "while thinking",
            Self::SecondTool => "in the second tool",
            Self::Permission => "permission pending",
            Self::Resisting => "tool resists its abort",
            Self::Frozen => "frozen before the press",
            Self::AtOnce => "right behind the prompt",
        })
    }
}

/// Python that swallows its interruption: omp gives it 5 s.
fn resisting(word: &str) -> String {
    let code = format!(
        "import time\nopen('{word}', 'w').close()\nwhile True:\n  try:\n    time.sleep(1)\n  except BaseException: pass"
    );
    let arguments = serde_json::json!({"language": "py", "code": code});
    format!("[[stub:tool name=eval args={arguments}]]")
}

fn is_asked(body: &ItemBody) -> bool {
    matches!(body, ItemBody::Approval(asked) if asked.resolution == Resolution::Pending)
}

fn is_at_work(body: &ItemBody) -> bool {
    matches!(body, ItemBody::Tool(tool) if tool.status == ToolStatus::Running)
}

/// Waits until some words have come.
fn hear(hosted: &mut Hosted, nth: usize, role: Role) {
    hosted.when(|seen| {
        let turns = turns(seen);
        let Some(turn) = turns.get(nth - 1) else { return false };
        match role {
            Role::Agent => said(seen, turn).contains("w3 "),
            _ => seen.items.iter().any(|item| {
                item.scope.as_ref() == Some(&turn.turn)
                    && matches!(&item.body, ItemBody::Message(m) if m.role == role)
            }),
        }
    });
}

fn sleeps(hosted: &Hosted) -> bool {
    let sleeps = |pid: u32| processes::arguments(pid) == ["/bin/sleep", "30"];
    hosted.processes().iter().any(|process| sleeps(process.pid))
}

/// Stops the agent's own process, as a debugger or a full disk would.
fn freeze(hosted: &Hosted) {
    let children = hosted.children();
    let Some(ChildRow::Started { identity, .. }) = children.last() else {
        panic!("no child lives: {children:?}")
    };
    processes::freeze(&identity.root);
}
