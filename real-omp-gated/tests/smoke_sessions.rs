//! Each agent once through its life under a host of the library: start, prompt, settle, close; and
//! a Stop with what comes after it.
//!
//! The whole way is real: the host, its journal, its supervisor process, the agent and its files.
//! Only the model is a stub. An agent that is not installed is skipped with one line on stderr.

mod hosted;

use hosted::{Hosted, Left, said, turns};
use moored::journal::{
    ChildRow, EndedAnswer, ItemBody, Outcome, RootProof, SubmissionState, TreeProof, TurnState,
};
use moored::platform::Exit;
use moored::session::STOP_NOTE;
use moored::session::ladder::EndedHow;
use moored::session::record::HandleOrigin;
use moored_real_omp_gated::{Kind, RealAgent};

const ON_EOF: EndedAnswer =
    EndedAnswer { how: Some(EndedHow::OnEof), root: RootProof::Exited, tree: TreeProof::Gone };

#[test]
fn omp_lives_and_leaves_at_the_end_of_its_input_with_a_complete_session_file() {
    let Some(agent) = RealAgent::or_skip(Kind::Omp) else { return };
    let mut omp = Hosted::open(&agent);
    one_turn(&mut omp);
    assert_eq!(omp.close(), ON_EOF);

    let entries: Vec<_> = omp.entries().iter().map(ToString::to_string).collect();
    assert!(
        entries.ends_with(&["user".to_owned(), "assistant".to_owned(), "session_exit".to_owned()]),
        "{entries:?}"
    );
    assert_eq!(ends(&omp.shut_down()), [(EndedHow::OnEof, Some(Exit::Code(0)))]);
}

#[test]
fn omp_is_stopped_while_it_speaks_and_goes_on_in_a_new_child() {
    let Some(agent) = RealAgent::or_skip(Kind::Omp) else { return };
    let mut omp = Hosted::open(&agent);
    omp.send("remember apple [[stub:slow chunks=5000 delay_ms=20 word=w]]");
    omp.when(|seen| turns(seen).first().is_some_and(|turn| said(seen, turn).contains("w3 ")));
    assert!(omp.stop().cancelled);

    let stopped = omp.settled(1);
    assert_eq!(
        (stopped.state, stopped.outcome, stopped.under_stop, stopped.stop_reason.as_deref()),
        (TurnState::Interrupted, Some(Outcome::Cancellation), true, Some("cancelled"))
    );
    // Sent at once: the host starts the next child only when the first is gone.
    let next = omp.turn(2, "pear [[stub:recall word=apple]]");
    let snapshot = omp.snapshot();
    assert_eq!((next.state, next.outcome), (TurnState::Completed, Some(Outcome::Success)));
    assert_eq!(said(&snapshot, &next), "yes-apple");
    let note = |body: &ItemBody| matches!(body, ItemBody::Status(line) if line.text == STOP_NOTE);
    assert_eq!(snapshot.items.iter().filter(|item| note(&item.body)).count(), 1);
    assert_eq!(omp.close(), ON_EOF);

    let asked: Vec<_> =
        omp.model.requests().into_iter().filter(|asked| asked.saw("pear")).collect();
    assert!(
        !asked.is_empty() && asked.iter().all(|asked| asked.saw("remember apple")),
        "{asked:?}"
    );
    let entries: Vec<_> = omp.entries().iter().map(ToString::to_string).collect();
    let told = ["user", "assistant[aborted]", "session_exit", "user", "assistant", "session_exit"];
    let told_in_order: Vec<_> =
        entries.iter().filter(|entry| told.contains(&entry.as_str())).collect();
    assert_eq!(told_in_order, told, "{entries:?}");

    let left = omp.shut_down();
    let on_eof = (EndedHow::OnEof, Some(Exit::Code(0)));
    assert_eq!(ends(&left), [on_eof, on_eof]);
    let handles = &left.record.handles;
    let origins: Vec<_> = handles.iter().map(|link| link.origin).collect();
    assert_eq!(origins, [HandleOrigin::Created, HandleOrigin::Resumed]);
    assert_eq!(handles[0].agent_session, handles[1].agent_session);
}

#[test]
fn codex_acp_outlives_the_end_of_its_input_and_is_ended_by_the_ladder() {
    let Some(agent) = RealAgent::or_skip(Kind::CodexAcp) else { return };
    let mut codex = Hosted::open(&agent);
    one_turn(&mut codex);

    let closed = codex.close();
    assert_eq!((closed.root, closed.tree), (RootProof::Exited, TreeProof::Gone));
    let how = closed.how.unwrap();
    assert!(matches!(how, EndedHow::AfterTerm | EndedHow::AfterKill), "{how:?}");
    let ended = ends(&codex.shut_down());
    // A program may answer SIGTERM with an exit of its own; SIGKILL it cannot answer.
    assert_eq!((ended.len(), ended[0].0), (1, how));
    assert_eq!(ended[0].1 == Some(Exit::Signal(9)), how == EndedHow::AfterKill, "{ended:?}");
    assert!(!codex.sandbox.session_files().unwrap().is_empty());
}

#[test]
fn gemini_lives_and_leaves_at_the_end_of_its_input() {
    let Some(agent) = RealAgent::or_skip(Kind::Gemini) else { return };
    let mut gemini = Hosted::open(&agent);
    one_turn(&mut gemini);
    assert_eq!(gemini.close(), ON_EOF);
    assert_eq!(ends(&gemini.shut_down()), [(EndedHow::OnEof, Some(Exit::Code(0)))]);
}

/// One prompt and its answer: completed, with success, with the words of the model.
fn one_turn(hosted: &mut Hosted) {
    let turn = hosted.turn(1, "[[stub:text text=moored]] please");
    assert_eq!(
        (turn.state, turn.outcome, turn.under_stop, turn.stop_reason.as_deref()),
        (TurnState::Completed, Some(Outcome::Success), false, Some("end_turn"))
    );
    let snapshot = hosted.snapshot();
    // codex-acp first warns, in its own voice, that it does not know the model.
    assert!(said(&snapshot, &turn).ends_with("moored"), "{:?}", said(&snapshot, &turn));
    assert_eq!(turns(&snapshot).len(), 1);
    assert_eq!(snapshot.submissions.len(), 1);
    assert_eq!(snapshot.submissions[0].state, SubmissionState::Accepted);
    assert!(hosted.model.requests().iter().any(|request| request.saw("please")));
    // Or the search for what is left at the end would prove nothing.
    assert!(!hosted.processes().is_empty());
}

/// How each child ended by the journal alone: asked for, its root seen to exit, its tree gone, and
/// nothing ended by the sweep.
fn ends(left: &Left) -> Vec<(EndedHow, Option<Exit>)> {
    let children = left.children();
    let told = |child: &[ChildRow]| {
        let [
            ChildRow::Started { .. },
            ChildRow::Exited { how, exit, requested: true, .. },
            ChildRow::Settled { root: RootProof::Exited, tree: TreeProof::Gone, survivors, .. },
        ] = child
        else {
            panic!("not started, exited and settled as asked: {child:?}")
        };
        assert!(survivors.is_empty(), "{survivors:?}");
        (*how, *exit)
    };
    children.chunks(3).map(told).collect()
}
