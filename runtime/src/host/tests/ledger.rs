use super::*;

const NOW: u64 = 1_700_000_000_000;

fn op(at_ms: u64, n: usize) -> OperationId {
    OperationId(format!("{at_ms:013}-{n:032x}"))
}

fn operator(caller: &str, fingerprint: &str) -> Operator {
    Operator { caller: caller.into(), session: "s".into(), fingerprint: fingerprint.to_owned() }
}

fn succeeded() -> LedgerOutcome {
    LedgerOutcome::Succeeded("{}".to_owned())
}

#[test]
fn a_call_asked_twice_is_done_once_and_another_under_its_id_is_refused() {
    let mut ledger = Ledger::default();
    let id = op(NOW, 1);
    assert_eq!(ledger.admit(NOW, &id, operator("a", "f")), Ok(Admission::Run));
    assert_eq!(
        ledger.admit(NOW, &id, operator("a", "f")),
        Ok(Admission::Known(LedgerOutcome::Pending))
    );
    assert!(ledger.claim(&id, &LedgerOutcome::Pending, succeeded()));

    // Ids are global across callers: a reconnect under another name still replays (rule 5.10.4).
    assert_eq!(ledger.admit(NOW, &id, operator("b", "f")), Ok(Admission::Known(succeeded())));
    assert_eq!(ledger.admit(NOW, &id, operator("a", "g")), Err(RefusalCode::OperationConflict));
    let elsewhere = Operator { session: "t".into(), ..operator("a", "f") };
    assert_eq!(ledger.admit(NOW, &id, elsewhere), Err(RefusalCode::OperationConflict));
    ledger.invariants();
}

#[test]
fn a_claim_fails_when_the_row_has_moved() {
    let mut ledger = Ledger::default();
    let id = op(NOW, 1);
    assert!(!ledger.claim(&id, &LedgerOutcome::Pending, succeeded()), "there is no row");
    ledger.admit(NOW, &id, operator("a", "f")).unwrap();
    assert!(!ledger.claim(&id, &LedgerOutcome::Unknown, LedgerOutcome::Pending));
    assert!(ledger.claim(&id, &LedgerOutcome::Pending, succeeded()));
    assert!(!ledger.claim(&id, &LedgerOutcome::Pending, succeeded()), "it is claimed once");
}

#[test]
fn ids_are_taken_only_in_their_form_and_inside_their_window() {
    let mut ledger = Ledger::default();
    for bad in ["", "1", "1700000000000-xyz", "170000000000-0", "1700000000000"] {
        let refused = ledger.admit(NOW, &bad.into(), operator("a", "f"));
        assert_eq!(refused, Err(RefusalCode::OperationIdInvalid), "{bad}");
    }
    let upper = OperationId(format!("{NOW:013}-{}", "A".repeat(32)));
    assert_eq!(ledger.admit(NOW, &upper, operator("a", "f")), Err(RefusalCode::OperationIdInvalid));
    let window = [
        (NOW + OPERATION_SKEW_MS, Ok(Admission::Run)),
        (NOW + OPERATION_SKEW_MS + 1, Err(RefusalCode::OperationExpired)),
        (NOW - OPERATION_AGE_MS_MAX, Ok(Admission::Run)),
        (NOW - OPERATION_AGE_MS_MAX - 1, Err(RefusalCode::OperationExpired)),
    ];
    for (n, (at, expected)) in window.into_iter().enumerate() {
        assert_eq!(ledger.admit(NOW, &op(at, n), operator("a", "f")), expected, "{at}");
    }
    assert_eq!(ledger.len(), 2, "what is refused leaves no row");
}

#[test]
fn a_row_is_kept_until_nobody_may_ask_it_again_and_not_longer() {
    let mut ledger = Ledger::default();
    let id = op(NOW, 1);
    ledger.admit(NOW, &id, operator("a", "f")).unwrap();
    assert!(ledger.claim(&id, &LedgerOutcome::Pending, succeeded()));
    let last = NOW + OPERATION_AGE_MS_MAX + OPERATION_SKEW_MS;
    assert_eq!(ledger.admit(last, &id, operator("a", "f")), Ok(Admission::Known(succeeded())));
    // A tick later the row is gone, and the id is too old to run again.
    assert_eq!(ledger.admit(last + 1, &id, operator("a", "f")), Err(RefusalCode::OperationExpired));
    assert!(ledger.is_empty());
    ledger.invariants();
}

#[test]
fn a_pending_row_outlives_its_expiry() {
    let mut ledger = Ledger::default();
    let id = op(NOW, 1);
    ledger.admit(NOW, &id, operator("a", "f")).unwrap();
    let later = NOW + 3 * OPERATION_AGE_MS_MAX;
    assert_eq!(
        ledger.admit(later, &id, operator("a", "f")),
        Ok(Admission::Known(LedgerOutcome::Pending))
    );
}

#[test]
fn a_full_ledger_refuses_and_evicts_nothing() {
    let mut ledger = Ledger::default();
    let mut n = 0;
    let mut fill = |ledger: &mut Ledger, caller: &str| {
        for _ in 0..OPERATIONS_PER_CALLER_MAX {
            n += 1;
            assert_eq!(ledger.admit(NOW, &op(NOW, n), operator(caller, "f")), Ok(Admission::Run));
        }
        n += 1;
        ledger.admit(NOW, &op(NOW, n), operator(caller, "f"))
    };
    assert_eq!(fill(&mut ledger, "0"), Err(RefusalCode::LedgerFull), "one caller's share");
    for caller in 1..OPERATIONS_MAX / OPERATIONS_PER_CALLER_MAX {
        fill(&mut ledger, &caller.to_string()).unwrap_err();
    }
    assert_eq!(ledger.len(), OPERATIONS_MAX);
    let newcomer = ledger.admit(NOW, &op(NOW, 0), operator("newcomer", "f"));
    assert_eq!(newcomer, Err(RefusalCode::LedgerFull), "everyone's share");
    assert_eq!(
        ledger.admit(NOW, &op(NOW, 1), operator("0", "f")),
        Ok(Admission::Known(LedgerOutcome::Pending)),
        "the oldest row is still there"
    );
    ledger.release(&op(NOW, 1));
    assert_eq!(ledger.admit(NOW, &op(NOW, 0), operator("newcomer", "f")), Ok(Admission::Run));
    ledger.invariants();
}

#[test]
fn what_was_pending_when_the_host_died_is_unknown() {
    let entry = |n, outcome| LedgerEntry {
        op: op(NOW, n),
        caller: "a".into(),
        session: "s".into(),
        fingerprint: "f".to_owned(),
        recorded_ms: NOW,
        outcome,
    };
    let stored = vec![entry(1, LedgerOutcome::Pending), entry(2, succeeded())];
    let ledger = Ledger::restore(stored.clone(), NOW + 1);
    assert_eq!(ledger.outcome(&op(NOW, 1)), Some(&LedgerOutcome::Unknown));
    assert_eq!(ledger.outcome(&op(NOW, 2)), Some(&succeeded()));
    ledger.invariants();
    assert!(Ledger::restore(stored, NOW + 3 * OPERATION_AGE_MS_MAX).is_empty());
}
