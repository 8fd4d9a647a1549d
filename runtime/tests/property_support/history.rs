//! Valid histories: what is drawn is an intent, and the rows are what a session would write of it (revisions that rise,
//! offsets that fit, sequence numbers without a hole). Numbers are small, so that items meet again.

use moored::failure::FailureFact;
use moored::ids::{EpochId, Fence, ItemKey, MessageId, OperationId, TurnKey};
use moored::journal::{
    Batch, ChildRow, Cut, DispatchRow, DispatchState, EpochReason, Fold, ItemBody, ItemRow, Mark,
    Mutation, Row, RowKind, SendMode, Snapshot, StopEvent, StopReason, StreamedText, Touched,
    UnknownReason,
};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::bodies::{child, cut, fact, message, whole_item, words};

/// What a row is made from.
#[derive(Clone, Debug)]
enum Intent {
    Batch(u8, Vec<Part>),
    Child(ChildRow),
    Context(u64, u64),
    Grow(u8, String, Option<Cut>),
    Message(u8, ItemBody),
    Part(Part),
    Stop(StopEvent),
    Submit(u8, String, SendMode),
    UnknownMark,
}

/// What may stand alone or in a batch.
#[derive(Clone, Debug)]
enum Part {
    Dispatch(DispatchRow),
    Put(ItemKey, ItemBody, Option<TurnKey>),
    Remove(u8),
}

#[derive(Clone, Debug)]
struct Step {
    intent: Intent,
    recovered: bool,
    /// The wall clock steps both ways.
    at_ms: u64,
}

fn turn_key() -> impl Strategy<Value = Option<TurnKey>> {
    option::of((0..3_u8).prop_map(|n| TurnKey(format!("turn-{n}"))))
}

fn message_id(n: u8) -> MessageId {
    MessageId(format!("m{n}"))
}

fn dispatch() -> impl Strategy<Value = DispatchRow> {
    use DispatchState::{Accepted, HandedOver, Rejected, Unknown};
    use UnknownReason::{HostRestarted, ProviderClosed, ProviderExited, WriteUnconfirmed};
    let state = select(&[HandedOver, HandedOver, Accepted, Rejected, Unknown][..]);
    let reason = select(&[HostRestarted, ProviderClosed, ProviderExited, WriteUnconfirmed][..]);
    (0..4_u8, state, turn_key(), fact(), reason).prop_map(|(n, state, scope, fact, reason)| {
        let told = matches!(state, Rejected | Unknown);
        let fact: Option<FailureFact> = told.then_some(fact);
        let reason = (state == Unknown).then_some(reason);
        DispatchRow { message_id: message_id(n), state, scope, fact, reason }
    })
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        4 => (whole_item(), turn_key()).prop_map(|((key, body), scope)| Part::Put(key, body, scope)),
        2 => dispatch().prop_map(Part::Dispatch),
        1 => (0..9_u8).prop_map(Part::Remove),
    ]
}

fn stop() -> impl Strategy<Value = StopEvent> {
    use StopReason::{Evict, HostStop, UserClose, UserStop};
    let reason = select(&[UserStop, UserClose, HostStop, Evict][..]);
    (0..9_u8, reason, turn_key(), any::<bool>()).prop_map(|(n, reason, turn, named)| StopEvent {
        op: OperationId(format!("op-{n}")),
        reason,
        turn,
        named,
        at_ms: 5_000,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let mode = select(&[SendMode::AfterTurn, SendMode::Steer][..]);
    let intent = prop_oneof![
        3 => (0..3_u8, message()).prop_map(|(n, body)| Intent::Message(n, body)),
        6 => (0..3_u8, words(), option::weighted(0.1, cut()))
            .prop_map(|(n, text, cut)| Intent::Grow(n, text, cut)),
        8 => part().prop_map(Intent::Part),
        3 => (0..4_u8, words(), mode).prop_map(|(n, text, mode)| Intent::Submit(n, text, mode)),
        2 => (0..6_u8, prop::collection::vec(part(), 0..4)).prop_map(|(n, p)| Intent::Batch(n, p)),
        1 => stop().prop_map(Intent::Stop),
        1 => any::<(u64, u64)>().prop_map(|(used, size)| Intent::Context(used, size)),
        1 => Just(Intent::UnknownMark),
        1 => child().prop_map(Intent::Child),
    ];
    (intent, any::<bool>(), 0..5_000_u64).prop_map(|(intent, recovered, at_ms)| Step {
        intent,
        recovered,
        at_ms,
    })
}

/// The item of each small number.
fn any_item(n: u8) -> ItemKey {
    let kind = ["message", "message", "message", "turn", "tool", "approval", "status", "plan"];
    kind.get(usize::from(n))
        .map_or_else(|| ItemKey("user:m0".to_owned()), |kind| ItemKey(format!("{kind}:{}", n % 3)))
}

/// What a part comes to while `fold` stands.
fn mutation(fold: &Fold, part: &Part) -> Mutation {
    match part {
        Part::Dispatch(dispatch) => Mutation::Dispatch(dispatch.clone()),
        Part::Put(key, body, scope) => Mutation::Item(ItemRow {
            item: key.clone(),
            revision: fold.next_revision(key),
            scope: scope.clone(),
            body: body.clone(),
        }),
        Part::Remove(n) => {
            let item = any_item(*n);
            Mutation::Tombstone { revision: fold.next_revision(&item), item }
        }
    }
}

fn alone(mutation: Mutation) -> RowKind {
    match mutation {
        Mutation::Dispatch(dispatch) => RowKind::Dispatch(dispatch),
        Mutation::Item(item) => RowKind::Item(item),
        Mutation::Tombstone { item, revision } => RowKind::Tombstone { item, revision },
        _ => unreachable!("a part is one of these"),
    }
}

/// The row an intent comes to; none where it cannot be now.
fn kind(fold: &Fold, intent: &Intent) -> Option<RowKind> {
    Some(match intent {
        Intent::Batch(n, parts) => {
            let mut scratch = fold.clone();
            let mut mutations = Vec::new();
            for part in parts {
                let next = mutation(&scratch, part);
                let seq = scratch.cursor().seq + 1;
                scratch.apply(&row(seq, alone(next.clone())), &mut Touched::unheard());
                mutations.push(next);
            }
            // Small on purpose: a settlement is planned once more after a crash (rule 6.5.4).
            RowKind::Batch { settlement: format!("settlement-{n}"), mutations }
        }
        Intent::Child(child) => RowKind::Child(child.clone()),
        Intent::Context(used, size) => {
            RowKind::Mark { mark: Mark::Context { used: *used, size: *size } }
        }
        Intent::Grow(n, text, cut) => {
            let item = ItemKey(format!("message:{n}"));
            let at = fold.item(&item)?.text_bytes;
            let revision = fold.next_revision(&item);
            let text = StreamedText(text.clone());
            RowKind::Text { item, revision, at, text, cut: cut.clone() }
        }
        Intent::Message(n, body) => {
            let item = ItemKey(format!("message:{n}"));
            // A text only ever grows.
            if fold.item(&item).is_some() {
                return None;
            }
            let revision = fold.next_revision(&item);
            RowKind::Item(ItemRow { item, revision, scope: None, body: body.clone() })
        }
        Intent::Part(part) => alone(mutation(fold, part)),
        Intent::Stop(stop) => RowKind::Mark { mark: Mark::Stop(stop.clone()) },
        Intent::Submit(n, text, mode) => RowKind::Submission {
            message_id: message_id(*n),
            fingerprint: format!("digest of {n}"),
            text: StreamedText(text.clone()),
            mode: *mode,
            requested_ms: 1_000 + u64::from(*n / 2),
        },
        Intent::UnknownMark => RowKind::Mark { mark: Mark::Unknown },
    })
}

/// The epoch of every history here.
pub const EPOCH: &str = "epoch-1";

/// A row of [`EPOCH`] under fence 1.
pub fn row(seq: u64, kind: RowKind) -> Row {
    let epoch = EpochId::from(EPOCH);
    Row { v: 1, epoch, seq, fence: Fence(1), at_ms: 1_000 + seq, recovered: false, kind }
}

fn rows(steps: &[Step]) -> Vec<Row> {
    let first = RowKind::Epoch { session: "s".into(), reason: EpochReason::Created };
    let mut rows = vec![row(1, first)];
    let mut fold = Fold::new();
    fold.apply(&rows[0], &mut Touched::unheard());
    for step in steps {
        let Some(kind) = kind(&fold, &step.intent) else { continue };
        let starts = matches!(kind, RowKind::Child(ChildRow::Started { .. }));
        let fence = if starts { fold.fence().next() } else { fold.fence() };
        let seq = fold.cursor().seq + 1;
        let (recovered, at_ms) = (step.recovered, step.at_ms);
        let row = Row { fence, recovered, at_ms, ..row(seq, kind) };
        fold.apply(&row, &mut Touched::unheard());
        rows.push(row);
    }
    rows
}

/// Histories of up to 40 rows, each from the first row of its epoch.
pub fn histories() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(step(), 0..40).prop_map(|steps| rows(&steps))
}

/// The fold of some rows.
pub fn folded(rows: &[Row]) -> Fold {
    let mut fold = Fold::new();
    rows.iter().for_each(|row| fold.apply(row, &mut Touched::unheard()));
    fold
}

/// What a client is told of the rows after the first `from`, as one commit that ends with row `to`.
pub fn told(rows: &[Row], from: usize, to: usize) -> Batch {
    let mut fold = folded(&rows[..from]);
    let mut touched = Touched::default();
    rows[from..to].iter().for_each(|row| fold.apply(row, &mut touched));
    fold.batch(touched)
}

/// The whole timeline as of row `to`.
pub fn whole(rows: &[Row], to: usize) -> Snapshot {
    folded(&rows[..to]).snapshot()
}
