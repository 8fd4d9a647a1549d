use super::*;
use crate::journal::{Cursor, Outcome};

fn summary(session: &str) -> Summary {
    Summary {
        session_id: session.into(),
        workspace_id: "/w".to_owned(),
        agent: "agent".to_owned(),
        status: Some(Status::Working),
        host_execution_owned: true,
        host_execution_phase: None,
        host_execution_child: None,
        latest_prompt: None,
        tool_name: None,
        last_assistant_message: None,
        turn_outcome: None,
        stopping: false,
        held: Vec::new(),
        storage: None,
        conversation_name: None,
        updated_at: 1,
        status_started_at: Some(1),
        cursor: Cursor::default(),
    }
}

#[test]
fn a_summary_is_told_once_and_again_only_when_it_reads_otherwise() {
    let mut statuses = Statuses::default();
    assert!(statuses.publish(summary("a")));
    assert!(!statuses.publish(summary("a")), "equal projections are not sent again");
    let ticked =
        Summary { updated_at: 9, cursor: Cursor { seq: 9, ..Cursor::default() }, ..summary("a") };
    assert!(!statuses.publish(ticked.clone()), "a tick while working tells nobody");
    assert_eq!(statuses.all(), [ticked], "and the next snapshot carries it");
    assert!(statuses.publish(Summary { stopping: true, ..summary("a") }));
    let holding = Summary { stopping: true, held: vec!["m1".into()], ..summary("a") };
    assert!(statuses.publish(holding.clone()));
    assert!(!statuses.publish(holding), "the same list is no news");
    let verdict = Summary {
        status: Some(Status::Idle),
        turn_outcome: Some(Outcome::Success),
        ..summary("a")
    };
    assert!(statuses.publish(verdict));
}

#[test]
fn a_newcomer_waits_until_every_session_was_projected_or_is_gone() {
    let mut statuses = Statuses::default();
    statuses.subscribe(1, ["a".into(), "b".into(), "c".into()].into());
    statuses.subscribe(2, BTreeSet::new());
    assert_eq!(statuses.poll_joined(), Some(2), "an empty host has nothing to wait for");
    statuses.handle_projected(1, &"a".into());
    statuses.handle_projected(2, &"b".into());
    assert_eq!(statuses.poll_joined(), None);
    statuses.handle_projected(1, &"b".into());
    assert_eq!(statuses.poll_joined(), None);
    statuses.handle_gone(&"c".into());
    assert_eq!(statuses.poll_joined(), Some(1));
    assert_eq!(statuses.poll_joined(), None, "it joins once");
}

#[test]
fn a_lost_session_does_not_look_working_for_ever() {
    let mut statuses = Statuses::default();
    assert_eq!(statuses.revoke(&"a".into()), None, "nothing is known of it");
    let holding = Summary { stopping: true, held: vec!["m1".into()], ..summary("a") };
    let _ = statuses.publish(holding);
    let told = statuses.revoke(&"a".into()).expect("it changed");
    assert!(!told.stopping && !told.host_execution_owned && told.held.is_empty());
    assert_eq!(told.status, Some(Status::Idle));
    assert_eq!(statuses.revoke(&"a".into()), None, "and is told once");
    statuses.remove(&"a".into());
    assert!(statuses.all().is_empty());
}
