//! Bodies of items and facts of children, of every kind there is.

use moored::failure::{FailureCode, FailureFact};
use moored::ids::{Generation, ItemKey, TurnKey};
use moored::journal::{
    AbortPersisted, ApprovalBody, ApprovalOption, ChildRow, Cut, EndedAs, ItemBody, MessageBody,
    Outcome, Payload, RawBody, Resolution, Role, RootProof, StatusBody, TokenUsage, Tone, ToolBody,
    ToolStatus, TreeProof, TurnBody, TurnState,
};
use moored::platform::{ChildIdentity, Exit, ProcessIdentity, ProofKind, Survivor};
use moored::session::ladder::EndedHow;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// What persons and agents write: line breaks, quotes, escapes, and letters of one to four bytes.
pub fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z\u{e9}\u{4e2d}\u{1f600} ]{0,6}",
        1 => "[\"\\\\\n\r\t\u{0}\u{2028}{}:,]{0,6}",
        1 => ".{0,4}",
    ]
}

pub fn cut() -> impl Strategy<Value = Cut> {
    (any::<u64>(), option::of("[0-9a-f]{8}")).prop_map(|(bytes, sha256)| Cut { bytes, sha256 })
}

pub fn fact() -> impl Strategy<Value = FailureFact> {
    (select(FailureCode::ALL), option::of(words()))
        .prop_map(|(code, detail)| FailureFact { code, detail })
}

/// Of a payload, which does not tell itself to `Debug`: its head and its cut.
fn payload() -> impl Strategy<Value = (String, Option<Cut>)> {
    (words(), option::of(cut()))
}

fn payload_of((head, cut): (String, Option<Cut>)) -> Payload {
    Payload { head, cut }
}

/// A message that streams; later rows let it grow.
pub fn message() -> impl Strategy<Value = ItemBody> {
    let role = select(&[Role::Agent, Role::Thought, Role::User][..]);
    (role, words(), any::<bool>()).prop_map(|(role, text, late)| {
        ItemBody::Message(MessageBody { role, text, cut: None, late })
    })
}

fn turn(n: u8) -> impl Strategy<Value = ItemBody> {
    let state = select(
        &[
            TurnState::Running,
            TurnState::Completed,
            TurnState::Interrupted,
            TurnState::Unverifiable,
        ][..],
    );
    let outcome = select(
        &[Outcome::Success, Outcome::Failure, Outcome::Cancellation, Outcome::Superseded][..],
    );
    let usage = option::of(any::<(u64, u64, u64)>());
    let marks = any::<(bool, bool)>();
    (state, option::of(outcome), option::of(words()), usage, marks).prop_map(
        move |(state, outcome, stop_reason, usage, (under_stop, delivery_unproven))| {
            ItemBody::Turn(TurnBody {
                turn: TurnKey(format!("turn-{n}")),
                state,
                outcome,
                user_item: n.is_multiple_of(2).then(|| ItemKey(format!("user:m{n}"))),
                started_ms: 1_000 + u64::from(n),
                requested_ms: n.is_multiple_of(2).then_some(900),
                completed_ms: (state == TurnState::Completed).then_some(2_000),
                stop_reason,
                under_stop,
                delivery_unproven,
                usage: usage.map(|(input, output, total)| TokenUsage { input, output, total }),
            })
        },
    )
}

fn tool(n: u8) -> impl Strategy<Value = ItemBody> {
    let status = select(&[ToolStatus::Running, ToolStatus::Completed, ToolStatus::Failed][..]);
    let ended_as = option::of(select(&[EndedAs::Interrupted, EndedAs::Unverifiable][..]));
    let given = (option::of(payload()), option::of(payload()));
    (words(), option::of(words()), status, ended_as, given, any::<bool>()).prop_map(
        move |(title, tool_kind, status, ended_as, (input, output), late)| {
            ItemBody::Tool(ToolBody {
                tool_call_id: format!("call-{n}"),
                title,
                tool_kind,
                status,
                ended_as,
                input: input.map(payload_of),
                output: output.map(payload_of),
                late,
            })
        },
    )
}

fn approval(n: u8) -> impl Strategy<Value = ItemBody> {
    let option = (words(), words(), option::of(words()))
        .prop_map(|(id, label, kind)| ApprovalOption { id, label, kind });
    let resolution =
        select(&[Resolution::Pending, Resolution::Resolved, Resolution::Cancelled][..]);
    (words(), prop::collection::vec(option, 0..3), resolution, option::of(words())).prop_map(
        move |(title, options, resolution, selected)| {
            ItemBody::Approval(ApprovalBody {
                title,
                tool_call_id: n.is_multiple_of(2).then(|| format!("call-{n}")),
                options,
                resolution,
                resolved_by: selected.as_ref().map(|_| "a person".to_owned()),
                resolved_ms: selected.as_ref().map(|_| 3_000),
                selected,
            })
        },
    )
}

fn status() -> impl Strategy<Value = ItemBody> {
    let tone = select(&[Tone::Info, Tone::Warning, Tone::Error][..]);
    (tone, words(), option::of(fact()))
        .prop_map(|(tone, text, fact)| ItemBody::Status(StatusBody { tone, text, fact }))
}

/// Something kept as it was sent, as a plan or as an update of an unknown kind.
fn raw(body: fn(RawBody) -> ItemBody) -> impl Strategy<Value = ItemBody> {
    (words(), payload())
        .prop_map(move |(kind, payload)| body(RawBody { kind, payload: payload_of(payload) }))
}

/// An item that is written whole each time. Its key says its kind, which an item never changes.
pub fn whole_item() -> impl Strategy<Value = (ItemKey, ItemBody)> {
    let one = |kind: &str, n: u8| ItemKey(format!("{kind}:{n}"));
    (0..3_u8).prop_flat_map(move |n| {
        prop_oneof![
            3 => turn(n).prop_map(move |body| (one("turn", n), body)),
            3 => tool(n).prop_map(move |body| (one("tool", n), body)),
            2 => approval(n).prop_map(move |body| (one("approval", n), body)),
            2 => status().prop_map(move |body| (one("status", n), body)),
            1 => raw(ItemBody::Plan).prop_map(move |body| (one("plan", n), body)),
            1 => raw(ItemBody::Raw).prop_map(move |body| (one("raw", n), body)),
        ]
    })
}

fn process() -> impl Strategy<Value = ProcessIdentity> {
    any::<(u32, u64)>().prop_map(|(pid, start)| ProcessIdentity { pid, start })
}

fn proof() -> impl Strategy<Value = ProofKind> {
    use ProofKind::{Cgroup, GroupSnapshot, Job, Subreaper};
    select(&[Subreaper, Cgroup, GroupSnapshot, Job][..])
}

pub fn identity() -> impl Strategy<Value = ChildIdentity> {
    (process(), option::of(process()), words(), proof())
        .prop_map(|(root, supervisor, boot, proof)| ChildIdentity { root, supervisor, boot, proof })
}

pub fn child() -> impl Strategy<Value = ChildRow> {
    use EndedHow::{AfterKill, AfterTerm, ByItself, NeverStarted, OnEof};
    let generation = (0..3_u8).prop_map(|n| Generation(format!("generation-{n}")));
    let exit = prop_oneof![any::<i32>().prop_map(Exit::Code), any::<i32>().prop_map(Exit::Signal)];
    let how = select(&[OnEof, AfterTerm, AfterKill, ByItself, NeverStarted][..]);
    let root = select(&[RootProof::Exited, RootProof::Unproven][..]);
    let tree = select(&[TreeProof::Gone, TreeProof::Left, TreeProof::Unproven][..]);
    let survivor = (any::<u32>(), words()).prop_map(|(pid, name)| Survivor { pid, name });
    let survivors = prop::collection::vec(survivor, 0..3);
    let persisted = select(vec![AbortPersisted::Yes, AbortPersisted::No, AbortPersisted::Unknown]);
    prop_oneof![
        (generation.clone(), identity())
            .prop_map(|(generation, identity)| ChildRow::Started { generation, identity }),
        (generation.clone(), how, option::of(exit), any::<bool>()).prop_map(
            |(generation, how, exit, requested)| ChildRow::Exited {
                generation,
                how,
                exit,
                requested
            }
        ),
        (generation, root, tree, proof(), survivors, option::of(persisted)).prop_map(
            |(generation, root, tree, proof, survivors, abort_persisted)| ChildRow::Settled {
                generation,
                root,
                tree,
                proof,
                survivors,
                abort_persisted
            }
        ),
    ]
}
