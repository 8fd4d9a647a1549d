//! Rows, the fold over them, and a client's copy: however batches overlap, they converge.

mod property_support;

use moored::failure::{FailureCode, FailureFact};
use moored::ids::{EpochId, Fence, ItemKey, MessageId};
use moored::journal::{
    Batch, DispatchRow, DispatchState, Fold, ItemBody, ItemRow, Mark, MessageBody, Mutation, Role,
    Row, RowKind, SendMode, Snapshot, StatusBody, StreamedText, Timeline, Tone, Touched,
    place_text,
};
use proptest::prelude::*;

use property_support::kept;

const KEPT: &str = "tests/proptest-regressions/journal_fold.txt";

/// What a row is made from: small numbers, so that items meet again.
#[derive(Clone, Debug)]
enum Seed {
    Message(u8, String),
    Text(u8, String),
    Status(u8),
    Remove(u8),
    Context(u64),
    Submit(u8),
    Dispatch(u8, u8),
    Batch(u8, Vec<(u8, bool)>),
}

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    let words = "[a-z\u{e9}\u{1f600} ]{0,6}";
    let seed = prop_oneof![
        1 => (0..4_u8, words).prop_map(|(i, t)| Seed::Message(i, t)),
        4 => (0..4_u8, words).prop_map(|(i, t)| Seed::Text(i, t)),
        1 => (4..7_u8).prop_map(Seed::Status),
        1 => (0..7_u8).prop_map(Seed::Remove),
        1 => (0..50_u64).prop_map(Seed::Context),
        1 => (0..3_u8).prop_map(Seed::Submit),
        1 => (0..3_u8, 0..4_u8).prop_map(|(m, s)| Seed::Dispatch(m, s)),
        1 => (0..3_u8, prop::collection::vec((4..7_u8, any::<bool>()), 1..4))
            .prop_map(|(n, m)| Seed::Batch(n, m)),
    ];
    prop::collection::vec(seed, 1..40)
}

fn item(n: u8) -> ItemKey {
    ItemKey(format!("item:{n}"))
}

fn status(fold: &Fold, n: u8) -> ItemRow {
    let body = StatusBody { tone: Tone::Info, text: format!("line {n}"), fact: None };
    let revision = fold.next_revision(&item(n));
    ItemRow { item: item(n), revision, scope: None, body: ItemBody::Status(body) }
}

fn kind(fold: &Fold, seed: &Seed) -> Option<RowKind> {
    Some(match seed {
        Seed::Message(n, text) => {
            // A text only ever grows.
            if fold.item(&item(*n)).is_some() {
                return None;
            }
            let body =
                MessageBody { role: Role::Agent, text: text.clone(), cut: None, late: false };
            let revision = fold.next_revision(&item(*n));
            let body = ItemBody::Message(body);
            RowKind::Item(ItemRow { item: item(*n), revision, scope: None, body })
        }
        Seed::Text(n, text) => {
            let at = fold.item(&item(*n))?.text_bytes;
            let revision = fold.next_revision(&item(*n));
            let text = StreamedText(text.clone());
            RowKind::Text { item: item(*n), revision, at, text, cut: None }
        }
        Seed::Status(n) => RowKind::Item(status(fold, *n)),
        Seed::Remove(n) => {
            RowKind::Tombstone { item: item(*n), revision: fold.next_revision(&item(*n)) }
        }
        Seed::Context(used) => RowKind::Mark { mark: Mark::Context { used: *used, size: 100 } },
        Seed::Submit(m) => RowKind::Submission {
            message_id: MessageId(format!("m{m}")),
            fingerprint: format!("print {m}"),
            text: StreamedText(format!("words {m}")),
            mode: SendMode::AfterTurn,
            requested_ms: 1_000 + u64::from(*m),
        },
        Seed::Dispatch(m, state) => RowKind::Dispatch(dispatch(*m, *state)),
        Seed::Batch(n, parts) => {
            let mut scratch = fold.clone();
            let mut mutations = Vec::new();
            for (part, remove) in parts {
                let mutation = if *remove {
                    let revision = scratch.next_revision(&item(*part));
                    Mutation::Tombstone { item: item(*part), revision }
                } else {
                    Mutation::Item(status(&scratch, *part))
                };
                let seq = scratch.cursor().seq + 1;
                let kind = RowKind::Batch {
                    settlement: format!("scratch {seq}"),
                    mutations: vec![mutation.clone()],
                };
                scratch.apply(&row(seq, kind), &mut Touched::default());
                mutations.push(mutation);
            }
            RowKind::Batch { settlement: format!("settled {n}"), mutations }
        }
    })
}

fn dispatch(m: u8, state: u8) -> DispatchRow {
    let (state, fact) = match state {
        0 => (DispatchState::HandedOver, None),
        1 => (DispatchState::Accepted, None),
        2 => (DispatchState::Rejected, Some(FailureFact::new(FailureCode::Cancelled))),
        _ => (DispatchState::Unknown, None),
    };
    DispatchRow { message_id: MessageId(format!("m{m}")), state, scope: None, fact, reason: None }
}

fn row(seq: u64, kind: RowKind) -> Row {
    let epoch = EpochId::from("e1");
    Row {
        v: 1,
        epoch,
        seq,
        fence: Fence(1),
        at_ms: 1_000 + seq,
        recovered: seq.is_multiple_of(7),
        kind,
    }
}

/// The rows of `seeds`, the batch of each commit, the snapshot after each, and the fold at the end.
fn history(seeds: &[Seed], rows_a_commit: usize) -> (Vec<Row>, Vec<Batch>, Vec<Snapshot>, Fold) {
    let mut fold = Fold::new();
    let (mut rows, mut batches, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
    let mut touched = Touched::default();
    for seed in seeds {
        let Some(kind) = kind(&fold, seed) else {
            continue;
        };
        let row = row(fold.cursor().seq + 1, kind);
        fold.apply(&row, &mut touched);
        rows.push(row);
        if rows.len() % rows_a_commit == 0 {
            batches.push(fold.batch(std::mem::take(&mut touched)));
            snapshots.push(fold.snapshot());
        }
    }
    batches.push(fold.batch(touched));
    snapshots.push(fold.snapshot());
    (rows, batches, snapshots, fold)
}

fn assert_converged(client: &Timeline, fold: &Fold) {
    let whole = fold.snapshot();
    let items: Vec<_> = client.items().into_iter().cloned().collect();
    assert_eq!(items, whole.items);
    let submissions: Vec<_> = client.submissions().into_iter().cloned().collect();
    assert_eq!(submissions, whole.submissions);
    assert_eq!(client.context(), whole.context);
    assert_eq!(client.cursor(), &whole.cursor);
}

proptest! {
    #![proptest_config(kept(KEPT, 256))]

    #[test]
    fn batches_converge_however_often_each_comes_again(
        seeds in seeds(), commit in 1..4_usize, again in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let (_, batches, _, fold) = history(&seeds, commit);
        let mut client = Timeline::default();
        let mut again = again.into_iter();
        for (at, batch) in batches.iter().enumerate() {
            client.apply_batch(batch.clone());
            // Any batch that came before comes once more, late.
            if let Some(late) = again.next() {
                client.apply_batch(batches[late.index(at + 1)].clone());
            }
        }
        assert_converged(&client, &fold);
    }

    #[test]
    fn a_snapshot_in_the_middle_stands_for_everything_before_it(
        seeds in seeds(), commit in 1..4_usize, missed in any::<prop::sample::Index>(), until in any::<prop::sample::Index>(),
        late in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let (_, batches, snapshots, fold) = history(&seeds, commit);
        let until = until.index(snapshots.len());
        let missed = missed.index(until + 1);
        let mut client = Timeline::default();
        for batch in &batches[..missed] {
            client.apply_batch(batch.clone());
        }
        client.apply_snapshot(snapshots[until].clone());
        for late in late {
            client.apply_batch(batches[late.index(until + 1)].clone());
        }
        // A feed goes on from the snapshot, and may overlap it.
        for batch in &batches[missed..] {
            client.apply_batch(batch.clone());
        }
        assert_converged(&client, &fold);
    }

    #[test]
    fn rows_read_back_are_the_rows_that_were_written(seeds in seeds()) {
        let (rows, _, _, fold) = history(&seeds, 1);
        let mut restored = Fold::new();
        let mut touched = Touched::unheard();
        let mut planning = Fold::planning();
        for row in &rows {
            planning.apply(row, &mut touched);
            let read = Row::parse(&row.to_text()).expect("a row of ours");
            prop_assert_eq!(&read, row);
            restored.apply(&read, &mut touched);
        }
        prop_assert_eq!(&restored, &fold);
        prop_assert_eq!(restored.planning_copy(), planning);
        prop_assert!(touched.is_empty());
    }

    #[test]
    fn the_order_of_fields_and_fields_of_a_newer_build_change_nothing(seeds in seeds(), first in any::<bool>()) {
        let (rows, _, _, _) = history(&seeds, 1);
        for row in rows {
            let value: serde_json::Value = serde_json::from_str(&row.to_text()).expect("JSON");
            let serde_json::Value::Object(fields) = value else { panic!("a row is an object") };
            let mut parts: Vec<String> = fields
                .iter()
                .map(|(k, v)| format!("{}:{v}", serde_json::Value::from(k.as_str())))
                .collect();
            let place = if first { 0 } else { parts.len() };
            parts.insert(place, r#""of_a_newer_build":{"deep":[1,2]}"#.to_owned());
            if !first {
                parts.reverse();
            }
            prop_assert_eq!(Row::parse(&format!("{{{}}}", parts.join(","))), Ok(row));
        }
    }

    #[test]
    fn text_placed_twice_or_in_overlapping_pieces_is_the_text(
        text in "[a-z\u{e9}\u{1f600}]{0,24}", cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut whole = String::new();
        let bounds: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        for cut in cuts {
            let to = bounds[cut.index(bounds.len())];
            let from = bounds.iter().copied().rfind(|b| *b <= whole.len().min(to)).unwrap_or(0);
            place_text(&mut whole, from as u64, &text[from..to.max(from)]);
            place_text(&mut whole, 0, &text[..to]);
        }
        place_text(&mut whole, 0, &text);
        prop_assert_eq!(whole, text);
    }
}

#[test]
fn a_mark_of_a_newer_build_folds_as_nothing() {
    let text = r#"{"v":1,"epoch":"e1","seq":1,"fence":1,"at_ms":5,"kind":"mark","mark":{"mark":"of_a_newer_build","x":1}}"#;
    let row = Row::parse(text).expect("an unknown mark is no damage");
    let mut fold = Fold::new();
    let mut touched = Touched::default();
    fold.apply(&row, &mut touched);
    assert!(touched.is_empty());
    assert!(fold.snapshot().items.is_empty());
}

#[test]
fn a_late_tombstone_brings_nothing_back() {
    let mut fold = Fold::new();
    let mut touched = Touched::default();
    for (seq, revision) in [(1, 5), (2, 3)] {
        fold.apply(&row(seq, RowKind::Tombstone { item: item(1), revision }), &mut touched);
    }
    assert_eq!(fold.next_revision(&item(1)), 6);
}

#[test]
fn a_growth_that_comes_before_its_text_waits_for_it() {
    let (_, batches, _, fold) = history(
        &[
            Seed::Message(0, "a".to_owned()),
            Seed::Text(0, "b".to_owned()),
            Seed::Text(0, "c".to_owned()),
        ],
        1,
    );
    let mut client = Timeline::default();
    client.apply_batch(batches[0].clone());
    client.apply_batch(batches[2].clone());
    client.apply_batch(batches[1].clone());
    client.apply_batch(batches[2].clone());
    assert_converged(&client, &fold);
}
