//! The same story with agents that are less known: what the host promises of any agent, and what was seen of these.

use moored::failure::FailureCode;
use moored::journal::{
    ChildRow, ItemBody, Outcome, RootProof, STOP_NOTE, Snapshot, ToolStatus, TreeProof, TurnBody,
    TurnState,
};
use moored::platform::Exit;
use moored::session::ladder::EndedHow;
use moored_real_omp_gated::stub_model::Role;
use moored_real_omp_gated::{Kind, RealAgent};

use super::latency::Stages;
use super::moment::Moment;
use super::story::{others_of, tree_of};
use crate::hosted::processes::{self, ProcessIdentity};
use crate::hosted::{Hosted, said};

/// Stops the agent so many times in one session.
pub fn tell(agent: &RealAgent, moment: Moment, stops: usize) -> Vec<Stages> {
    let mut hosted = Hosted::open(agent);
    let stop = |nth| OneStop { kind: agent.kind(), moment, nth }.tell(&mut hosted);
    let stages = (1..=stops).map(stop).collect();
    let closed = hosted.close();
    assert_eq!((closed.root, closed.tree), (RootProof::Exited, TreeProof::Gone));
    hosted.shut_down();
    stages
}

struct OneStop {
    kind: Kind,
    moment: Moment,
    nth: usize,
}

impl OneStop {
    fn tell(&self, hosted: &mut Hosted) -> Stages {
        let (word, turn) = (format!("apple-{:02}", self.nth), 2 * self.nth - 1);
        hosted.send(&self.moment.prompt(&word));
        self.moment.reach(hosted, turn, &word);
        let tree = tree_of(hosted);
        let pressed = hosted.now();
        assert!(hosted.stop().cancelled, "there was a turn to stop");
        self.assert_cut(hosted, turn);
        self.assert_gone(hosted, &tree);
        let running = others_of(hosted);
        assert!(running.is_empty(), "after the proof: {running:?}");
        // gemini 0.61.0 names a session's file by the minute, and destroys it when it is reopened in the minute it was
        // made in.
        let is_patient = self.nth.is_multiple_of(2);
        if self.kind == Kind::Gemini && is_patient {
            let minute = hosted.minute();
            hosted.until("the minute is over", |hosted| hosted.minute() > minute);
        }
        let lost = losses(&hosted.snapshot());
        let next_word = format!("pear-{:02}", self.nth);
        let next = hosted.turn(turn + 1, &format!("{next_word} [[stub:recall word={word}]]"));
        let lost = losses(&hosted.snapshot()) - lost;
        if self.kind != Kind::Gemini || is_patient {
            assert_eq!(lost, 0, "the session was not reopened");
        }
        self.assert_next(hosted, &next, &word, lost);
        Stages::of(&hosted.edge, self.nth, pressed)
    }

    fn assert_cut(&self, hosted: &mut Hosted, turn: usize) {
        let turn = hosted.settled(turn);
        assert_eq!(
            (turn.state, turn.outcome, turn.under_stop, turn.stop_reason.as_deref()),
            (TurnState::Interrupted, Some(Outcome::Cancellation), true, Some("cancelled"))
        );
        let snapshot = hosted.snapshot();
        let count = |is: &dyn Fn(&ItemBody) -> bool| {
            snapshot.items.iter().filter(|item| is(&item.body)).count()
        };
        let notes = count(&|body| matches!(body, ItemBody::Status(line) if line.text == STOP_NOTE));
        assert_eq!(notes, self.nth, "one note for each Stop");
        let open =
            count(&|body| matches!(body, ItemBody::Tool(t) if t.status == ToolStatus::Running));
        assert_eq!(open, 0, "tools at work in a turn that is over");
    }

    fn assert_gone(&self, hosted: &Hosted, tree: &[ProcessIdentity]) {
        let ended = 3 * self.nth;
        hosted.until("the child's end is on record", |hosted| hosted.children().len() >= ended);
        let running: Vec<_> =
            tree.iter().filter(|process| processes::is_running(process)).collect();
        assert!(running.is_empty(), "proven gone, and running: {running:?}");
        let children = hosted.children();
        let [
            ChildRow::Started { .. },
            ChildRow::Exited { how, exit: Some(exit), requested: true, .. },
            ChildRow::Settled { root: RootProof::Exited, tree: TreeProof::Gone, .. },
        ] = &children[ended - 3..ended]
        else {
            panic!("not started, exited and settled as asked: {children:?}")
        };
        match self.kind {
            // 0.16.0 does not leave at the end of its input.
            Kind::CodexAcp => assert_ne!(*how, EndedHow::OnEof),
            Kind::Gemini | Kind::Omp => {
                assert_eq!((*how, *exit), (EndedHow::OnEof, Exit::Code(0)));
            }
        }
    }

    /// The next turn runs; its model is sent what came before, unless the host has said that the agent does not know it.
    fn assert_next(&self, hosted: &Hosted, next: &TurnBody, word: &str, lost: usize) {
        assert_eq!((next.state, next.outcome), (TurnState::Completed, Some(Outcome::Success)));
        assert!(lost <= 1, "said once");
        // gemini 0.61.0 takes the message of a turn that was cut while it spoke out of its file again.
        let takes_back = self.kind == Kind::Gemini && self.moment == Moment::Stream;
        let is_known = lost == 0 && !takes_back;
        let said = said(&hosted.snapshot(), next);
        let known = format!("{}-{word}", if is_known { "yes" } else { "no" });
        assert!(said.ends_with(&known), "{said:?}, not {known}");
        let next_word = format!("pear-{:02}", self.nth);
        let requests = hosted.model.requests();
        let asked = requests.iter().rev().find(|request| request.saw(&next_word));
        let entries = &asked.expect("the model was asked").entries;
        let by_user = |words: &str| {
            entries.iter().position(|e| e.role == Role::User && e.text.contains(words))
        };
        let stopped = by_user(&format!("remember {word}"));
        assert_eq!(stopped.is_some(), is_known, "{entries:?}");
        if let Some(at) = stopped.filter(|_| self.moment == Moment::Tool) {
            let ended = entries[at..].iter().any(|entry| entry.role == Role::Tool);
            assert!(ended, "the call that was cut has a result: {entries:?}");
        }
        if lost == 0 && self.nth > 1 {
            let earlier = by_user(&format!("pear-{:02} ", self.nth - 1));
            assert!(earlier.is_some(), "it is another session: {entries:?}");
        }
    }
}

/// How often the host has said that an earlier session could not be reopened.
fn losses(snapshot: &Snapshot) -> usize {
    let is_loss = |body: &ItemBody| match body {
        ItemBody::Status(line) => {
            line.fact.as_ref().is_some_and(|fact| fact.code == FailureCode::NotRestored)
        }
        _ => false,
    };
    snapshot.items.iter().filter(|item| is_loss(&item.body)).count()
}
