//! The row of one session in a list of agents (rule 4.7): the summary in the words of agent rows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Status, Summary};
use crate::journal::Outcome;

/// What an agent does, in the words of rows (rule 4.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentState {
    /// `working`.
    Working,
    /// `attention`: a person is asked something.
    Blocked,
    /// `idle`.
    Done,
}

/// The session's main agent, before any work of its children's is folded in (rule 4.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MainAgent {
    /// What it does.
    pub state: AgentState,
    /// How its last request ended; only while `done`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// When the state began, wall time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_started_at: Option<u64>,
    /// A Stop is ending what it does (rule 4.7.1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopping: bool,
}

/// The row's main agent; `None` where there is no row, since there never was a request (rule 4.2.3).
pub fn main_agent(summary: &Summary) -> Option<MainAgent> {
    let state = match summary.status? {
        Status::Working => AgentState::Working,
        Status::Attention => AgentState::Blocked,
        Status::Idle => AgentState::Done,
    };
    Some(MainAgent {
        state,
        outcome: summary.turn_outcome.filter(|_| state == AgentState::Done),
        state_started_at: summary.status_started_at,
        stopping: summary.stopping && state == AgentState::Working,
    })
}
