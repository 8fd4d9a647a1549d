//! What clients make of a summary.

mod display;
mod row;
mod wrong;

use super::{Status, Summary};
use crate::journal::Cursor;

const STATUSES: [Option<Status>; 4] =
    [None, Some(Status::Working), Some(Status::Attention), Some(Status::Idle)];

fn summary(status: Option<Status>, stopping: bool, held: &[&str]) -> Summary {
    Summary {
        session_id: "s1".into(),
        workspace_id: "/work".to_owned(),
        agent: "agent".to_owned(),
        status,
        host_execution_owned: true,
        host_execution_phase: None,
        host_execution_child: None,
        latest_prompt: None,
        tool_name: None,
        last_assistant_message: None,
        turn_outcome: None,
        stopping,
        held: held.iter().map(|m| (*m).into()).collect(),
        storage: None,
        conversation_name: None,
        updated_at: 1,
        status_started_at: Some(1),
        cursor: Cursor::default(),
    }
}
