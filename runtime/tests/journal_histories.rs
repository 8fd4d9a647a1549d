//! The fold over any valid history: it can be taken up anywhere, what is indexed is what is there, and nothing is said
//! twice.

mod property_support;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use moored::ids::{EpochId, ItemKey, MessageId};
use moored::journal::{
    Fold, ItemBody, Resolution, Row, RowKind, Snapshot, SubmissionState, ToolStatus, Touched,
    TurnState,
};
use proptest::prelude::*;
use proptest::sample::Index;

use property_support::history::{folded, histories, row, whole};
use property_support::kept;

const KEPT: &str = "tests/proptest-regressions/journal_histories.txt";

/// The items of a kind that are in a state.
fn items(snapshot: &Snapshot, is: impl Fn(&ItemBody) -> bool) -> BTreeSet<&ItemKey> {
    snapshot.items.iter().filter(|item| is(&item.body)).map(|item| &item.item).collect()
}

/// The messages in a state.
fn messages(snapshot: &Snapshot, state: SubmissionState) -> BTreeSet<&MessageId> {
    let of_state = snapshot.submissions.iter().filter(|s| s.state == state);
    of_state.map(|s| &s.message_id).collect()
}

proptest! {
    #![proptest_config(kept(KEPT, 256))]

    #[test]
    fn the_plan_taken_up_from_the_durable_fold_at_any_row_is_the_plan(
        rows in histories(), at in any::<Index>(),
    ) {
        let (before, after) = rows.split_at(at.index(rows.len() + 1));
        let mut taken_up = folded(before).planning_copy();
        let mut from_the_start = Fold::planning();
        for row in before {
            from_the_start.apply(row, &mut Touched::unheard());
        }
        prop_assert_eq!(&taken_up, &from_the_start);
        for row in after {
            taken_up.apply(row, &mut Touched::default());
        }
        prop_assert_eq!(taken_up, folded(&rows).planning_copy());
    }

    #[test]
    fn making_a_planning_copy_leaves_the_durable_fold_as_it_was(rows in histories()) {
        let mut fold = folded(&rows);
        let before = fold.clone();
        fold.planning_copy();
        prop_assert_eq!(fold, before);
    }

    #[test]
    fn a_timeline_holds_each_item_once_and_in_one_order(rows in histories()) {
        let Snapshot { items, .. } = whole(&rows, rows.len());
        prop_assert!(items.windows(2).all(|pair| pair[0].position < pair[1].position));
        let keys: BTreeSet<_> = items.iter().map(|item| &item.item).collect();
        prop_assert_eq!(keys.len(), items.len());
    }

    #[test]
    fn what_the_fold_keeps_at_hand_is_what_its_items_say(rows in histories()) {
        let fold = folded(&rows);
        let all = fold.snapshot();
        let running = |body: &ItemBody| matches!(body, ItemBody::Turn(t) if t.state == TurnState::Running);
        prop_assert!(fold.running_turns().eq(items(&all, running)));
        let at_work = |body: &ItemBody| matches!(body, ItemBody::Tool(t) if t.status == ToolStatus::Running);
        prop_assert!(fold.running_tools().eq(items(&all, at_work)));
        let asked = |body: &ItemBody| {
            matches!(body, ItemBody::Approval(a) if a.resolution == Resolution::Pending)
        };
        prop_assert!(fold.pending_approvals().eq(items(&all, asked)));
        let queued: BTreeSet<_> = fold.queued().collect();
        prop_assert_eq!(queued, messages(&all, SubmissionState::Queued));
        prop_assert!(fold.outstanding().eq(messages(&all, SubmissionState::HandedOver)));
    }

    /// Rules 6.4.2 and 6.5.4: what was said already comes again under a new number when a caller retries.
    #[test]
    fn what_was_said_already_changes_nothing_when_it_is_said_again(
        rows in histories(), again in any::<Index>(),
    ) {
        let mut fold = folded(&rows);
        let before = fold.snapshot();
        // A dispatch is judged by the state it finds, a mark and a child's fact are new facts.
        let sayable = |row: &&Row| {
            !matches!(
                row.kind,
                RowKind::Dispatch(_) | RowKind::Mark { .. } | RowKind::Child(_) | RowKind::Epoch { .. }
            )
        };
        let sayable: Vec<&Row> = rows.iter().filter(sayable).collect();
        if sayable.is_empty() {
            return Ok(());
        }
        let kind = sayable[again.index(sayable.len())].kind.clone();
        let mut touched = Touched::default();
        fold.apply(&row(before.cursor.seq + 1, kind), &mut touched);
        prop_assert!(touched.is_empty());
        let after = fold.snapshot();
        prop_assert_eq!(after.items, before.items);
        prop_assert_eq!(after.submissions, before.submissions);
    }
}

/// Whether a fold takes a row. Rows come in order is our own rule, so breaking it is an assertion.
fn takes(rows: &[Row], next: &Row) -> bool {
    let mut fold = folded(rows);
    catch_unwind(AssertUnwindSafe(|| fold.apply(next, &mut Touched::unheard()))).is_ok()
}

#[test]
#[cfg(debug_assertions)]
fn a_row_twice_and_a_row_after_a_hole_are_refused() {
    let mark = |seq| row(seq, RowKind::Mark { mark: moored::journal::Mark::Unknown });
    let rows = [mark(1), mark(2), mark(3)];
    assert!(takes(&rows, &mark(4)));
    for wrong in [1, 2, 3, 5] {
        assert!(!takes(&rows, &mark(wrong)), "row {wrong} after row 3");
    }
    let first = Row { epoch: EpochId::from("epoch-2"), ..mark(1) };
    assert!(takes(&rows, &first), "another epoch counts from 1");
}
