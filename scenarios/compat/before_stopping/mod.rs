//! A client from before `stopping` was published, frozen: it reads summaries without it, and shows what it always showed.
//! It is compiled in tests only and names nothing of today's library. Its samples are what a host of its time sent.
//!
//! Do not change it: what it shows, a client that was not updated shows.

#![allow(dead_code, missing_docs, reason = "a whole reader is kept, not only what a test calls")]

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub session_id: String,
    pub workspace_id: String,
    pub agent: String,
    #[serde(default)]
    pub status: Option<Status>,
    #[serde(default)]
    pub host_execution_owned: bool,
    #[serde(default)]
    pub latest_prompt: Option<String>,
    #[serde(default)]
    pub tool_name: Option<String>,
    #[serde(default)]
    pub last_assistant_message: Option<String>,
    #[serde(default)]
    pub turn_outcome: Option<String>,
    pub updated_at: u64,
    #[serde(default)]
    pub status_started_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Working,
    Attention,
    Idle,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StatusFrame {
    Snapshot { summaries: Vec<Summary> },
    Status { summary: Box<Summary> },
    End,
}

pub type Summaries = BTreeMap<String, Summary>;

pub fn fold(held: &mut Summaries, frame: StatusFrame) {
    let changed = match frame {
        StatusFrame::Snapshot { summaries } => summaries,
        StatusFrame::Status { summary } => vec![*summary],
        StatusFrame::End => Vec::new(),
    };
    held.extend(changed.into_iter().map(|s| (s.session_id.clone(), s)));
}

/// The word of a row.
pub fn shows(summary: &Summary) -> &'static str {
    match summary.status {
        None => "New",
        Some(Status::Working) => "Working",
        Some(Status::Attention) => "Needs you",
        Some(Status::Idle) => "Done",
    }
}
