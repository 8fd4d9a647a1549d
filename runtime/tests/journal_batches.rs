//! Batches and snapshots (rule 6.7.2, decision D26): however a history is split, and whatever comes twice, late or
//! overlapping, a client that heard of every row holds what the host holds.

mod property_support;

use moored::ids::{EpochId, Fence, ItemKey};
use moored::journal::{
    Batch, Cursor, ItemBody, ItemView, Position, Row, Snapshot, StatusBody, Timeline, Tone,
};
use proptest::prelude::*;
use proptest::sample::Index;

use property_support::history::{EPOCH, folded, histories, told, whole};
use property_support::kept;

const KEPT: &str = "tests/proptest-regressions/journal_batches.txt";

/// One thing a client takes. Places are drawn wide, and mean whatever there is when it is their turn.
#[derive(Clone, Debug)]
enum Delivery {
    /// The rows from one the client has, or the first it lacks, to any later one.
    Batch { from: Index, to: Index },
    /// Rows it has already.
    LateBatch { from: Index, to: Index },
    /// The whole as of any row.
    Snapshot { of: Index },
}

fn deliveries() -> impl Strategy<Value = Vec<Delivery>> {
    let places = || (any::<Index>(), any::<Index>());
    let one = prop_oneof![
        3 => places().prop_map(|(from, to)| Delivery::Batch { from, to }),
        2 => places().prop_map(|(from, to)| Delivery::LateBatch { from, to }),
        1 => any::<Index>().prop_map(|of| Delivery::Snapshot { of }),
    ];
    prop::collection::vec(one, 0..12)
}

/// A client and how many rows it has heard of.
#[derive(Default)]
struct Client {
    timeline: Timeline,
    heard: usize,
}

impl Client {
    fn take(&mut self, rows: &[Row], delivery: &Delivery) {
        let upto = |index: &Index, last: usize| index.index(last + 1);
        match delivery {
            Delivery::Batch { from, to } => {
                let from = upto(from, self.heard);
                // A commit has a row.
                let to = (from + upto(to, rows.len() - from)).max(1);
                self.timeline.apply_batch(told(rows, from, to));
                self.heard = self.heard.max(to);
            }
            Delivery::LateBatch { from, to } => {
                let from = upto(from, self.heard);
                let to = from + upto(to, self.heard - from);
                if to > 0 {
                    self.timeline.apply_batch(told(rows, from, to));
                }
            }
            Delivery::Snapshot { of } => {
                let of = 1 + of.index(rows.len());
                self.timeline.apply_snapshot(whole(rows, of));
                self.heard = self.heard.max(of);
            }
        }
    }

    /// Whether it holds what the fold of the rows it heard of holds.
    fn has_converged(&self, rows: &[Row]) -> Result<(), TestCaseError> {
        let fold = folded(&rows[..self.heard]);
        let Snapshot { cursor, fence, items, submissions, context } = fold.snapshot();
        let held: Vec<ItemView> = self.timeline.items().into_iter().cloned().collect();
        prop_assert_eq!(held, items);
        let held: Vec<_> = self.timeline.submissions().into_iter().cloned().collect();
        prop_assert_eq!(held, submissions);
        prop_assert_eq!(self.timeline.context(), context);
        prop_assert_eq!(self.timeline.fence(), fence);
        prop_assert_eq!(self.timeline.cursor(), &cursor);
        Ok(())
    }
}

proptest! {
    #![proptest_config(kept(KEPT, 400))]

    #[test]
    fn a_client_holds_at_every_moment_what_it_has_heard_of(
        rows in histories(), deliveries in deliveries(),
    ) {
        let mut client = Client::default();
        for delivery in &deliveries {
            client.take(&rows, delivery);
            client.has_converged(&rows)?;
        }
        client.timeline.apply_batch(told(&rows, client.heard, rows.len()));
        client.heard = rows.len();
        client.has_converged(&rows)?;
    }

    #[test]
    fn any_split_of_a_history_tells_the_same(
        rows in histories(), sizes in prop::collection::vec(1..9_usize, 1..9),
    ) {
        let mut client = Client::default();
        for size in sizes.iter().cycle() {
            let to = rows.len().min(client.heard + size);
            client.timeline.apply_batch(told(&rows, client.heard, to));
            client.heard = to;
            if to == rows.len() { break; }
        }
        client.has_converged(&rows)?;
    }

    #[test]
    fn a_catch_up_in_one_batch_stands_for_a_snapshot(rows in histories(), of in any::<Index>()) {
        let of = of.index(rows.len() + 1);
        let mut client = Client::default();
        client.timeline.apply_snapshot(whole(&rows, of));
        client.timeline.apply_batch(told(&rows, of, rows.len()));
        client.heard = rows.len();
        client.has_converged(&rows)?;
    }

    /// What clients of another process fold is what was read from text.
    #[test]
    fn batches_and_snapshots_read_back_as_they_were_sent(rows in histories(), from in any::<Index>()) {
        let batch = told(&rows, from.index(rows.len() + 1), rows.len());
        let text = serde_json::to_string(&batch).expect("a batch is JSON");
        prop_assert_eq!(serde_json::from_str::<Batch>(&text).expect("it reads back"), batch);
        let snapshot = whole(&rows, rows.len());
        let text = serde_json::to_string(&snapshot).expect("a snapshot is JSON");
        prop_assert_eq!(serde_json::from_str::<Snapshot>(&text).expect("it reads back"), snapshot);
    }

    /// Decision D26: a corrected note keeps its revision, and a late older page must not win over it.
    #[test]
    fn at_equal_revision_the_later_as_of_wins_in_any_order(
        copies in prop::collection::vec((1..4_u64, 1..9_u64), 1..12),
    ) {
        let mut timeline = Timeline::default();
        for (revision, as_of) in &copies {
            timeline.apply_batch(batch_of(*as_of, note(*revision, *as_of)));
        }
        let (revision, as_of) = copies.iter().max().expect("there is one");
        let held = timeline.item(&ItemKey::from("note")).expect("it is there");
        prop_assert_eq!(held, &note(*revision, *as_of));
    }
}

/// A note as it read at some row.
fn note(revision: u64, as_of: u64) -> ItemView {
    let text = format!("as of {as_of}");
    ItemView {
        item: "note".into(),
        revision,
        position: Position { seq: 1, index: 0 },
        scope: None,
        observed_ms: 1,
        body: ItemBody::Status(StatusBody { tone: Tone::Info, text, fact: None }),
    }
}

fn batch_of(seq: u64, item: ItemView) -> Batch {
    let cursor = Cursor { epoch: EpochId::from(EPOCH), seq };
    Batch { cursor, fence: Fence(1), items: vec![item], ..Batch::default() }
}
