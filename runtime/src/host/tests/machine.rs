use super::*;
use crate::agent::AgentDefinition;
use crate::host::{OPERATIONS_PER_CALLER_MAX, Send, Stop};
use crate::ids::CallerId;
use crate::journal::{SendMode, SubmissionState};
use crate::platform::Mono;
use crate::session::{Accepted, StopAnswer};
use crate::store::{LedgerEntry, UnreadableRecord};

const NOW: Moment = Moment { mono: Mono::ZERO, wall_ms: 1_700_000_000_000 };

/// A host, and callers that ask it under operation ids of their choice.
struct Story {
    host: HostMachine,
    last_call: u64,
}

impl Story {
    fn new() -> Self {
        Self::over(StoreImage::default())
    }

    fn over(image: StoreImage) -> Self {
        let (host, _) = HostMachine::restore(image, 8, NOW);
        Self { host, last_call: 0 }
    }

    fn with_session(id: &str) -> Self {
        let mut story = Self::new();
        let call = story.ask(900, id, create(id));
        story.host.poll_effect().expect("a session is made");
        story.answer(call, Answer::Created(Ok(())));
        story.reply(call);
        story
    }

    fn ask(&mut self, op: usize, session: &str, command: Command) -> CallId {
        self.ask_with(context(op), session, command)
    }

    fn ask_with(&mut self, context: CallContext, session: &str, command: Command) -> CallId {
        self.last_call += 1;
        let call = CallId(self.last_call);
        let incoming = Incoming { call, session: session.into(), context, command };
        self.host.call(NOW, incoming);
        self.host.invariants();
        call
    }

    fn answer(&mut self, call: CallId, answer: Answer) {
        self.host.handle_answer(call, answer);
        self.host.invariants();
    }

    /// The one effect that is there: a command for a session.
    fn delivered(&mut self) -> Command {
        let Some(HostEffect::Deliver { command, .. }) = self.host.poll_effect() else {
            panic!("nothing was handed to a session");
        };
        self.rests();
        command
    }

    /// The next effect: the answer to `call`.
    fn reply(&mut self, call: CallId) -> Answer {
        match self.host.poll_effect() {
            Some(HostEffect::Reply { call: answered, answer }) if answered == call => answer,
            other => panic!("{call:?} was not answered, but {other:?}"),
        }
    }

    fn refusal(&mut self, call: CallId) -> RefusalCode {
        match self.reply(call) {
            Answer::Created(Err(r)) => r.code,
            Answer::Sent(Err(r)) => r.code,
            Answer::Stopped(Err(r)) => r.code,
            Answer::Answered(Err(r)) => r.code,
            Answer::Closed(Err(r)) => r.code,
            other => panic!("{call:?} was not refused, but {other:?}"),
        }
    }

    fn rests(&mut self) {
        assert_eq!(self.host.poll_effect(), None, "nothing else was asked for");
    }
}

fn context(op: usize) -> CallContext {
    CallContext {
        op: OperationId(format!("{:013}-{op:032x}", NOW.wall_ms)),
        caller: CallerId::from("a person"),
        expected_fence: None,
        fingerprint: None,
    }
}

fn new(id: &str) -> NewSession {
    NewSession {
        id: id.into(),
        agent: AgentDefinition::generic(vec!["agent".to_owned()]),
        workspace: "/work".to_owned(),
    }
}

fn create(id: &str) -> Command {
    Command::Create { new: Box::new(new(id)), epoch: "e".into() }
}

fn send(text: &str) -> Command {
    Command::Send(Send { message_id: "m".into(), text: text.to_owned(), mode: SendMode::AfterTurn })
}

fn stop() -> Command {
    Command::Stop(Stop { turn: Some("t".into()) })
}

fn accepted() -> Answer {
    Answer::Sent(Ok(Accepted {
        message_id: "m".into(),
        state: SubmissionState::Queued,
        fence: Fence(3),
    }))
}

fn stopped(cancelled: bool) -> Answer {
    Answer::Stopped(Ok(StopAnswer { turn: Some("t".into()), cancelled }))
}

#[test]
fn a_send_is_handed_over_once_and_its_retry_gets_the_same_answer() {
    let mut story = Story::with_session("s");
    let first = story.ask(1, "s", send("hi"));
    assert_eq!(story.delivered(), send("hi"));
    // The caller lost its connection and asks again while the first still runs.
    let joined = story.ask(1, "s", send("hi"));
    story.rests();
    story.answer(first, accepted());
    assert_eq!(story.reply(joined), accepted());
    assert_eq!(story.reply(first), accepted());
    let late = story.ask(1, "s", send("hi"));
    assert_eq!(story.reply(late), accepted());
    story.rests();
}

#[test]
fn a_digest_that_differs_is_refused_before_the_ledger_hears_of_it() {
    let mut story = Story::with_session("s");
    let told = CallContext { fingerprint: Some("other".to_owned()), ..context(1) };
    let call = story.ask_with(told, "s", send("hi"));
    assert_eq!(story.refusal(call), RefusalCode::OperationConflict);
    // The id is still free, and a caller that digests as the host does is let in.
    let fingerprint = Some(send("hi").fingerprint(&"s".into()));
    story.ask_with(CallContext { fingerprint, ..context(1) }, "s", send("hi"));
    story.delivered();
}

#[test]
fn an_id_used_for_something_else_is_refused() {
    let mut story = Story::with_session("s");
    let first = story.ask(1, "s", send("hi"));
    story.delivered();
    for command in [send("ho"), stop(), Command::Close] {
        let call = story.ask(1, "s", command);
        assert_eq!(story.refusal(call), RefusalCode::OperationConflict);
    }
    story.answer(first, accepted());
}

#[test]
fn the_ledger_is_asked_before_the_session_so_a_retry_replays_after_the_close() {
    let mut story = Story::with_session("s");
    let first = story.ask(1, "s", send("hi"));
    story.delivered();
    story.answer(first, accepted());
    story.reply(first);
    story.host.handle_ended(&"s".into(), SessionEnd::Closed);
    let retry = story.ask(1, "s", send("hi"));
    assert_eq!(story.reply(retry), accepted());
    let fresh = story.ask(2, "s", send("hi"));
    assert_eq!(story.refusal(fresh), RefusalCode::SessionClosed);
    let nowhere = story.ask(3, "t", send("hi"));
    assert_eq!(story.refusal(nowhere), RefusalCode::SessionUnknown);
}

#[test]
fn a_stop_asked_again_never_stops_again() {
    let mut story = Story::with_session("s");
    let first = story.ask(1, "s", stop());
    assert_eq!(story.delivered(), stop());
    let joined = story.ask(1, "s", stop());
    story.rests();
    story.answer(first, stopped(true));
    assert_eq!(story.reply(joined), stopped(false));
    assert_eq!(story.reply(first), stopped(true));
    let late = story.ask(1, "s", stop());
    assert_eq!(story.reply(late), stopped(false));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_planted_bug_lets_a_stop_that_is_asked_again_stop_again() {
    use crate::session::Policy;
    let sound = Policy::default();
    let planted = Policy::default().planting(PlantedBug::RunAStopAgain);
    for (policy, runs_again) in [(sound, false), (planted, true)] {
        let mut story = Story::with_session("s");
        story.host = story.host.planting(&policy);
        let first = story.ask(1, "s", stop());
        story.delivered();
        story.answer(first, stopped(true));
        story.reply(first);
        story.ask(1, "s", stop());
        let effect = story.host.poll_effect();
        assert_eq!(matches!(effect, Some(HostEffect::Deliver { .. })), runs_again);
    }
}

#[test]
fn what_the_host_meets_has_a_mark() {
    let mut story = Story::with_session("s");
    let first = story.ask(1, "s", send("hi"));
    story.delivered();
    assert!(story.host.met().is_empty());
    story.ask(1, "s", send("hi"));
    story.answer(first, accepted());
    story.ask(1, "s", send("hi"));
    story.ask(1, "s", send("ho"));
    let told = CallContext { fingerprint: Some("other".to_owned()), ..context(2) };
    story.ask_with(told, "s", send("hi"));
    story.ask(3, "t", send("hi"));
    story.host.quit();
    story.ask(4, "s", send("hi"));
    let met: Vec<_> = story.host.met().iter().collect();
    assert_eq!(
        met,
        [
            CoverageMark::OperationReplayed,
            CoverageMark::OperationJoined,
            CoverageMark::OperationConflicted,
            CoverageMark::DigestMismatched,
            CoverageMark::CallWhileQuitting,
            CoverageMark::CallToNobody,
        ]
    );
}

#[test]
fn a_stop_that_finds_no_room_in_the_ledger_runs_without_a_row() {
    let mut story = Story::with_session("s");
    for op in 1..OPERATIONS_PER_CALLER_MAX {
        let call = story.ask(op, "s", send("hi"));
        story.delivered();
        story.answer(call, accepted());
        story.reply(call);
    }
    let refused = story.ask(9_000, "s", send("hi"));
    assert_eq!(story.refusal(refused), RefusalCode::LedgerFull);
    let first = story.ask(9_001, "s", stop());
    assert_eq!(story.delivered(), stop(), "rule 5.10.5");
    // It is remembered while it runs all the same.
    let joined = story.ask(9_001, "s", stop());
    let other = story.ask(9_001, "s", Command::Stop(Stop { turn: None }));
    assert_eq!(story.refusal(other), RefusalCode::OperationConflict);
    story.answer(first, stopped(true));
    assert_eq!(story.reply(joined), stopped(false));
    assert_eq!(story.reply(first), stopped(true));
}

#[test]
fn a_refusal_of_the_moment_is_forgotten_and_a_refusal_of_the_call_is_not() {
    let mut story = Story::with_session("s");
    let refused = |code| Answer::Sent(Err(RefusedOperation::new(code)));
    let call = story.ask(1, "s", send("hi"));
    story.delivered();
    story.answer(call, refused(RefusalCode::CheckpointStale));
    assert_eq!(story.refusal(call), RefusalCode::CheckpointStale);
    let retry = story.ask(1, "s", send("hi"));
    story.delivered();
    story.answer(retry, refused(RefusalCode::MessageIdReused));
    story.reply(retry);
    let again = story.ask(1, "s", send("hi"));
    assert_eq!(story.refusal(again), RefusalCode::MessageIdReused);
    story.rests();
}

#[test]
fn what_the_last_host_left_pending_runs_again_unless_it_is_a_stop() {
    let entry = |op: usize, command: &Command| LedgerEntry {
        op: context(op).op,
        caller: "a person".into(),
        session: "s".into(),
        fingerprint: command.fingerprint(&"s".into()),
        recorded_ms: NOW.wall_ms,
        outcome: LedgerOutcome::Pending,
    };
    let record = record_of(new("s"), "e".into(), NOW);
    let ledger = vec![entry(1, &send("hi")), entry(2, &stop()), entry(3, &create("s"))];
    let image = StoreImage { records: vec![record], ledger, ..StoreImage::default() };
    let mut story = Story::over(image);
    let pressed = story.ask(2, "s", stop());
    assert_eq!(story.reply(pressed), stopped(false), "rule 3.1.3");
    let made = story.ask(3, "s", create("s"));
    assert_eq!(story.reply(made), Answer::Created(Ok(())), "the session is here");
    story.ask(1, "s", send("hi"));
    assert_eq!(story.delivered(), send("hi"));
}

#[test]
fn a_session_is_made_once_and_only_of_what_can_be_used() {
    let mut story = Story::with_session("s");
    let taken = story.ask(1, "s", create("s"));
    assert_eq!(story.refusal(taken), RefusalCode::SessionExists);
    let unusable = [
        NewSession { id: "".into(), ..new("x") },
        NewSession { id: "x".repeat(SESSION_ID_BYTES_MAX + 1).into(), ..new("x") },
        NewSession { workspace: "relative".to_owned(), ..new("x") },
        NewSession { agent: AgentDefinition::generic(vec![]), ..new("x") },
        // Its pinned folder was not given.
        NewSession { agent: AgentDefinition::builtin("omp").expect("it is shipped"), ..new("x") },
    ];
    for (n, new) in unusable.into_iter().enumerate() {
        let id = new.id.to_string();
        let command = Command::Create { new: Box::new(new), epoch: "e".into() };
        let call = story.ask(10 + n, &id, command);
        assert_eq!(story.refusal(call), RefusalCode::SessionInvalid, "{n}");
    }
    for n in 1..8 {
        story.ask(20 + n, &format!("s{n}"), create(&format!("s{n}")));
        story.host.poll_effect().expect("there is room");
    }
    let one_too_many = story.ask(30, "s8", create("s8"));
    assert_eq!(story.refusal(one_too_many), RefusalCode::QueueFull);
    // A creation that fails frees its place and its name.
    story.host.handle_ended(&"s1".into(), SessionEnd::NotCreated);
    story.host.poll_effect().expect("its caller is told");
    story.ask(31, "s1", create("s1"));
    assert!(matches!(story.host.poll_effect(), Some(HostEffect::Create { .. })));
}

#[test]
fn whoever_waits_for_a_session_that_is_lost_is_told() {
    let mut story = Story::with_session("s");
    let first = story.ask(1, "s", send("hi"));
    story.delivered();
    let joined = story.ask(1, "s", send("hi"));
    story.host.handle_ended(&"s".into(), SessionEnd::Failed);
    assert_eq!(story.refusal(joined), RefusalCode::SessionClosed);
    assert_eq!(story.refusal(first), RefusalCode::SessionClosed);
    assert_eq!(story.host.standing(&"s".into()), Some(Standing::Failed));
    story.answer(first, accepted());
    story.rests();
}

#[test]
fn a_quitting_host_takes_nothing_new_and_still_stops_closes_and_replays() {
    let mut story = Story::with_session("s");
    let sent = story.ask(1, "s", send("hi"));
    story.delivered();
    story.answer(sent, accepted());
    story.reply(sent);
    story.host.quit();
    story.host.quit();
    assert_eq!(story.host.poll_effect(), Some(HostEffect::EndChildren));
    story.rests();
    for (op, command) in [(2, send("ho")), (3, create("t"))] {
        let call = story.ask(op, if op == 2 { "s" } else { "t" }, command);
        assert_eq!(story.refusal(call), RefusalCode::Quitting);
    }
    let replay = story.ask(1, "s", send("hi"));
    assert_eq!(story.reply(replay), accepted());
    story.ask(4, "s", stop());
    assert_eq!(story.delivered(), stop());
    let closing = story.ask(5, "s", Command::Close);
    assert_eq!(story.delivered(), Command::Close);
    story.host.handle_ended(&"s".into(), SessionEnd::AtRest);
    story.host.poll_effect().expect("the Stop's caller is told");
    assert_eq!(story.refusal(closing), RefusalCode::Quitting);
}

#[test]
fn a_session_that_was_being_closed_when_its_host_died_is_settled_and_takes_no_calls() {
    let lease = Lease { claim: Claim::Live, ..Lease::default() };
    let closing = SessionRecord { closed: true, lease, ..record_of(new("s"), "e".into(), NOW) };
    let image = StoreImage { records: vec![closing.clone()], ..StoreImage::default() };
    let (host, restored) = HostMachine::restore(image, 8, NOW);
    assert_eq!(restored, [closing]);
    let mut story = Story { host, last_call: 0 };
    let call = story.ask(1, "s", send("hi"));
    assert_eq!(story.refusal(call), RefusalCode::SessionClosed);
    story.host.handle_ended(&"s".into(), SessionEnd::Closed);
    let call = story.ask(2, "s", send("hi"));
    assert_eq!(story.refusal(call), RefusalCode::SessionClosed);
}

#[test]
fn sessions_that_were_closed_are_not_restored_and_keep_their_names() {
    let closed = SessionRecord { closed: true, ..record_of(new("s"), "e".into(), NOW) };
    let open = record_of(new("t"), "e".into(), NOW);
    let unreadable = UnreadableRecord { session: "u".into(), what: "version 9".to_owned() };
    let image = StoreImage {
        records: vec![closed, open.clone()],
        unreadable: vec![unreadable],
        ..StoreImage::default()
    };
    let (host, restored) = HostMachine::restore(image, 8, NOW);
    assert_eq!(restored, [open]);
    let mut story = Story { host, last_call: 0 };
    let call = story.ask(1, "s", create("s"));
    assert_eq!(story.refusal(call), RefusalCode::SessionExists);
    let call = story.ask(2, "s", send("hi"));
    assert_eq!(story.refusal(call), RefusalCode::SessionClosed);
    let call = story.ask(3, "u", send("hi"));
    assert_eq!(story.refusal(call), RefusalCode::ReadOnly);
    let call = story.ask(4, "u", create("u"));
    assert_eq!(story.refusal(call), RefusalCode::SessionExists);
}

#[test]
fn a_session_whose_close_was_cut_short_is_restored_once_more_to_be_settled() {
    let mut record = SessionRecord { closed: true, ..record_of(new("s"), "e".into(), NOW) };
    record.lease.claim = Claim::Live;
    let image = StoreImage { records: vec![record.clone()], ..StoreImage::default() };
    let (host, restored) = HostMachine::restore(image, 8, NOW);
    assert_eq!(restored, [record]);
    let mut story = Story { host, last_call: 0 };
    story.host.handle_ended(&"s".into(), SessionEnd::Closed);
    let call = story.ask(1, "s", send("hi"));
    assert_eq!(story.refusal(call), RefusalCode::SessionClosed);
}
