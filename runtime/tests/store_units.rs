//! What a unit is made of survives being text, and a store gives back what went in, however it was split into units.
#![expect(
    clippy::disallowed_methods,
    reason = "the store's writer is a task of the test's own runtime"
)]

mod property_support;
mod store_support;

use std::sync::Arc;

use moored::agent::AgentDefinition;
use moored::ids::{AgentSessionId, Fence, SpawnToken};
use moored::journal::Row;
use moored::session::record::{Claim, HandleLink, HandleOrigin, Lease, SessionRecord};
use moored::store::memory::{MemoryDisk, MemoryStore, NoFaults};
use moored::store::{LedgerEntry, LedgerOutcome, RecordChange, Store, Unit};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use property_support::bodies::{identity, words};
use property_support::history::{EPOCH, histories};
use property_support::kept;
use store_support::{drive, entry, sid, unit, with_entry};

const KEPT: &str = "tests/proptest-regressions/store_units.txt";

fn lease() -> impl Strategy<Value = Lease> {
    let claim = select(&[Claim::Released, Claim::Reserved, Claim::Live, Claim::Conflicted][..]);
    let token = option::of(words().prop_map(SpawnToken));
    (0..1_000_u64, claim, token, option::of(identity()), any::<(bool, bool)>()).prop_map(
        |(fence, claim, token, owner, (processless, settlement_owed))| Lease {
            fence: Fence(fence),
            claim,
            token,
            owner,
            processless,
            settlement_owed,
        },
    )
}

fn link() -> impl Strategy<Value = HandleLink> {
    let origin = select(&[HandleOrigin::Created, HandleOrigin::Resumed][..]);
    (words(), origin, 0..9_u64, option::of(words())).prop_map(
        |(agent_session, origin, fence, replaces)| HandleLink {
            agent_session: AgentSessionId(agent_session),
            origin,
            fence: Fence(fence),
            observed_ms: 1_000 + fence,
            replaces: replaces.map(AgentSessionId),
        },
    )
}

/// The first record of a session.
fn records() -> impl Strategy<Value = SessionRecord> {
    let argv = prop::collection::vec(words(), 1..3);
    let links = prop::collection::vec(link(), 0..4);
    (argv, words(), lease(), links, any::<bool>(), option::of(words())).prop_map(
        |(argv, workspace, lease, handles, closed, name)| SessionRecord {
            session: "s".into(),
            revision: 1,
            epoch: EPOCH.into(),
            created_ms: 1_000,
            agent: AgentDefinition::generic(argv),
            workspace,
            lease,
            handles,
            closed,
            name,
        },
    )
}

fn outcomes() -> impl Strategy<Value = LedgerOutcome> {
    prop_oneof![
        Just(LedgerOutcome::Pending),
        words().prop_map(LedgerOutcome::Succeeded),
        words().prop_map(LedgerOutcome::Failed),
        Just(LedgerOutcome::Unknown),
    ]
}

/// The rows in units of these sizes, the first of which makes the session.
fn units(rows: &[Row], sizes: &[usize], record: &SessionRecord) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut rest = rows;
    for size in sizes.iter().cycle() {
        let (rows, later) = rest.split_at((*size).min(rest.len()));
        units.push(Unit { fence: record.lease.fence, rows: rows.to_vec(), ..unit("s") });
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    units[0].record = Some(RecordChange { expected_revision: 0, record: record.clone() });
    units
}

proptest! {
    #![proptest_config(kept(KEPT, 150))]

    #[test]
    fn records_and_ledger_entries_read_back(record in records(), outcome in outcomes()) {
        let text = serde_json::to_string(&record).expect("a record is JSON");
        prop_assert_eq!(serde_json::from_str::<SessionRecord>(&text).expect("it reads back"), record);
        let parts = LedgerOutcome::from_parts(outcome.name(), outcome.answer().map(str::to_owned));
        prop_assert_eq!(&parts, &outcome);
        let entry = entry("s", "op", outcome);
        let text = serde_json::to_string(&entry).expect("an entry is JSON");
        prop_assert_eq!(serde_json::from_str::<LedgerEntry>(&text).expect("it reads back"), entry);
    }

    #[test]
    fn a_history_comes_back_however_it_was_split_into_units(
        rows in histories(), sizes in prop::collection::vec(1..9_usize, 1..6), record in records(), outcome in outcomes(),
    ) {
        let disk = MemoryDisk::default();
        let (store, writer) =
            MemoryStore::open(&disk, "host", Arc::new(NoFaults)).expect("nobody else has it");
        let mut units = units(&rows, &sizes, &record);
        let entry = entry("s", "1700000000000-0", outcome);
        let last = units.pop().expect("there is one");
        units.push(with_entry(last, entry.clone()));
        let (image, stored) = drive(async move {
            tokio::spawn(writer);
            for unit in units {
                store.submit(unit).await.expect("it is stored");
            }
            (store.load().await.expect("it reads"), store.rows(sid("s")).await.expect("they read"))
        });
        prop_assert_eq!(stored.rows, rows);
        prop_assert_eq!(stored.fault, None);
        prop_assert_eq!(image.records, vec![record]);
        prop_assert_eq!(image.ledger, vec![entry]);
        prop_assert_eq!(image.unreadable, vec![]);
    }
}
