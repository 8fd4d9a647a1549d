//! Cursors: they rise within an epoch, and what belongs to another epoch is not mixed in (rule 6.6.2).

mod property_support;

use moored::ids::EpochId;
use moored::journal::{Batch, Cursor, Mark, Position, Row, RowKind, Snapshot, Timeline};
use proptest::prelude::*;
use proptest::sample::Index;

use property_support::history::{histories, row, told, whole};
use property_support::kept;

const KEPT: &str = "tests/proptest-regressions/journal_cursors.txt";

/// The same history in another epoch.
fn moved(rows: &[Row], epoch: &str) -> Vec<Row> {
    rows.iter().map(|row| Row { epoch: EpochId::from(epoch), ..row.clone() }).collect()
}

/// What a client may be given of a history.
fn given(rows: &[Row], from: Index, to: Index) -> (Batch, Snapshot) {
    let to = 1 + to.index(rows.len());
    (told(rows, from.index(to), to), whole(rows, to))
}

#[test]
fn the_first_batch_a_client_hears_names_its_epoch() {
    let rows = [Row { epoch: "epoch-9".into(), ..row(1, RowKind::Mark { mark: Mark::Unknown }) }];
    let mut client = Timeline::default();
    client.apply_batch(told(&rows, 0, 1));
    assert_eq!(client.cursor(), &Cursor { epoch: "epoch-9".into(), seq: 1 });
}

proptest! {
    #![proptest_config(kept(KEPT, 200))]

    #[test]
    fn a_cursor_never_goes_back_within_its_epoch(
        rows in histories(), given_at in prop::collection::vec((any::<Index>(), any::<Index>(), any::<bool>()), 1..12),
    ) {
        let mut client = Timeline::default();
        let mut newest = 0;
        for (from, to, is_whole) in given_at {
            let (batch, snapshot) = given(&rows, from, to);
            newest = newest.max(batch.cursor.seq);
            if is_whole { client.apply_snapshot(snapshot) } else { client.apply_batch(batch) }
            prop_assert_eq!(client.cursor().seq, newest);
            prop_assert_eq!(&client.cursor().epoch, &rows[0].epoch);
        }
    }

    #[test]
    fn a_snapshot_of_another_epoch_replaces_everything(before in histories(), after in histories()) {
        let after = moved(&after, "epoch-2");
        let mut client = Timeline::default();
        client.apply_snapshot(whole(&before, before.len()));
        client.apply_snapshot(whole(&after, after.len()));
        let mut fresh = Timeline::default();
        fresh.apply_snapshot(whole(&after, after.len()));
        prop_assert_eq!(client.items(), fresh.items());
        prop_assert_eq!(client.submissions(), fresh.submissions());
        prop_assert_eq!((client.cursor(), client.fence()), (fresh.cursor(), fresh.fence()));
        prop_assert_eq!(client.context(), fresh.context());
    }

    /// Rule 6.6.2: an epoch change invalidates every cursor. A batch that was under way means nothing after it.
    #[test]
    fn a_batch_of_another_epoch_changes_nothing(
        before in histories(), after in histories(), from in any::<Index>(), to in any::<Index>(),
    ) {
        let after = moved(&after, "epoch-2");
        let mut client = Timeline::default();
        client.apply_snapshot(whole(&before, 1 + to.index(before.len())));
        for (left, live) in [(&after, &before), (&before, &after)] {
            client.apply_snapshot(whole(live, live.len()));
            let settled = client.clone();
            client.apply_batch(given(left, from, to).0);
            prop_assert_eq!(&client, &settled);
        }
    }

    #[test]
    fn cursors_are_ordered_by_their_rows_and_read_back(a in any::<u64>(), b in any::<u64>(), epoch in ".{0,8}") {
        let at = |seq| Cursor { epoch: EpochId(epoch.clone()), seq };
        prop_assert_eq!(at(a).cmp(&at(b)), a.cmp(&b));
        let text = serde_json::to_string(&at(a)).expect("a cursor is JSON");
        prop_assert_eq!(serde_json::from_str::<Cursor>(&text).expect("it reads back"), at(a));
        let place = |seq, index| Position { seq, index };
        prop_assert!(place(a, u32::MAX) < place(a.saturating_add(1), 0) || a == u64::MAX);
    }
}
