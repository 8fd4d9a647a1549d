//! The sweep: the same report for any number of threads and of parts; failures that outlive their seeds; runs that go
//! otherwise the second time.
#![expect(clippy::disallowed_methods, reason = "a player that must wait for other threads")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use moored_scenarios::sweep::{
    AHEAD_MAX, DETERMINISM, Extent, FAILURES_TOLD_MAX, HowEnded, Jobs, MarkKind, MergeError,
    Player, SEEDS_DEFAULT, Shard, Simulator, Subject, SweepPlan, SweepReport, junit, keep, merge,
    read_report, sweep,
};
use moored_scenarios::{Document, Playable, builtin};
use moored_sim::KernelKind;
use moored_sim::marks::WorldMarks;
use moored_sim::play::{Playing, Run};

fn document(name: &str) -> Document {
    builtin().into_iter().find(|d| d.name == name).expect("it is built in")
}

/// A document that expects what does not come.
fn wrong() -> Document {
    let mut wrong = document("echo");
    wrong.name = "wrong".to_owned();
    wrong.expect.journal = vec!["no such line".to_owned()];
    wrong
}

fn plan(documents: Vec<Document>, seeds: u64) -> SweepPlan {
    let documents = documents.into_iter().map(|d| Subject::Document(Arc::new(d)));
    SweepPlan {
        regressions: Vec::new(),
        subjects: documents.chain([Subject::Generated]).collect(),
        extent: Extent::Named,
        seeds: 0..seeds,
        kernel: None,
        shard: Shard::WHOLE,
        checked_one_in: 16,
        quiet_runs: None,
        build: "test".to_owned(),
    }
}

fn swept(plan: SweepPlan, threads: usize) -> SweepReport {
    sweep(&Jobs::new(plan), threads, &Simulator::default(), &|_| true)
}

#[test]
fn a_report_is_the_same_for_any_number_of_threads() {
    let one = swept(plan(vec![document("echo"), wrong()], 12), 1);
    assert_eq!(one, swept(plan(vec![document("echo"), wrong()], 12), 4));
    assert_eq!(one.ended, HowEnded::Done);
    assert_eq!(one.runs(), 12 * (2 * KernelKind::available().len() as u64 + 1));
    assert_eq!(one.failed(), 12 * KernelKind::available().len() as u64);
    assert_eq!(one.failures.len(), FAILURES_TOLD_MAX * KernelKind::available().len());
    assert!(one.checked > 0 && one.transitions.is_exact());
    let other = swept(plan(vec![document("echo"), wrong()], 13), 2);
    assert_ne!(one.hash(), other.hash());
    let met = one.marks_of(MarkKind::Library).filter(|mark| mark.runs > 0).count();
    assert!(met > 5, "{met} marks");
    let left = one.marks.iter().find(|mark| mark.name == "left-on-eof").expect("it is a mark");
    assert!(left.runs > 1 && left.first.is_some(), "{left:?}");
    assert!(!one.is_full() && !one.missing().is_empty(), "a narrowed sweep only reports");
}

#[test]
fn merged_parts_are_the_unsharded_sweep() {
    let whole = swept(plan(vec![document("echo"), wrong()], 10), 2);
    let part = |index| {
        let shard = Shard::new(index, 3).expect("a part");
        let part = swept(SweepPlan { shard, ..plan(vec![document("echo"), wrong()], 10) }, 2);
        let text = serde_json::to_string(&part).expect("a report is JSON");
        let name = format!("part-{index}");
        (name.clone(), read_report(&name, &text).expect("it reads back"))
    };
    let parts = vec![part(3), part(1), part(2)];
    assert!(parts.iter().all(|(_, part)| part.runs() < whole.runs() && !part.is_full()));
    assert_eq!(merge(parts.clone()), Ok(whole));
    let missing = merge(parts[..2].to_vec()).expect_err("part 2 is not there");
    assert_eq!(missing.to_string(), "of 3 parts 2 is missing; run them, and merge again");
    let twice = [&parts[..], &parts[..1]].concat();
    assert!(matches!(merge(twice), Err(MergeError::Duplicate { .. })));
    assert_eq!(merge(Vec::new()), Err(MergeError::Nothing));
    let shard = Shard::new(2, 3).expect("a part");
    let other = swept(SweepPlan { shard, ..plan(vec![document("echo"), wrong()], 11) }, 2);
    let mixed = vec![parts[0].clone(), parts[1].clone(), ("other".to_owned(), other)];
    let told = merge(mixed).expect_err("it has other seeds").to_string();
    assert!(told.contains("different sweeps") && told.contains("options"), "{told}");
    let other = swept(SweepPlan { shard, ..plan(vec![document("echo")], 10) }, 2);
    let mixed = vec![parts[0].clone(), parts[1].clone(), ("other".to_owned(), other)];
    let told = merge(mixed).expect_err("it has other scenarios").to_string();
    assert!(told.contains("scenarios differ"), "{told}");
    assert!(read_report("x", "{}").is_err() && read_report("x", "{\"v\":9}").is_err());
}

#[test]
fn a_failure_becomes_a_file_that_fails_again_by_itself() {
    let jobs = Jobs::new(plan(vec![wrong()], 1));
    let report = sweep(&jobs, 2, &Simulator::default(), &|_| true);
    assert!(!report.holds());
    for failure in &report.failures {
        let facts = vec![("seed".to_owned(), failure.seed.to_string())];
        let kept = keep(&jobs, &Simulator::default(), failure, facts).expect("it can be kept");
        assert!(kept.fails_again, "{failure:?}");
        assert!(kept.name.starts_with("wrong-"), "{}", kept.name);
        assert!(kept.timeline.to_text().contains("no such line"));
        assert!(kept.timeline.entries.len() > 20);
    }
    let xml = junit(&report, |failure| format!("replay {} & see", failure.seed));
    assert!(xml.contains("<testcase classname=\"moored.sweep\" name=\"wrong on tape\">"), "{xml}");
    assert!(xml.contains("replay 0 &amp; see") && xml.contains("name=\"generated\"/>"), "{xml}");
}

#[test]
fn a_sweep_ends_once_nothing_new_is_seen_for_any_number_of_threads() {
    let quiet = |threads| {
        let mut plan = plan(vec![document("echo")], 1_000_000);
        plan.kernel = Some(KernelKind::Tape);
        plan.subjects.truncate(1);
        plan.quiet_runs = Some(10);
        swept(plan, threads)
    };
    let one = quiet(1);
    assert_eq!(one.ended, HowEnded::Quiet);
    assert!(one.runs() > 10, "{}", one.runs());
    assert_eq!(one, quiet(3));
}

#[test]
fn a_sweep_that_is_ended_has_done_the_beginning_of_its_list() {
    let jobs = Jobs::new(plan(vec![document("echo")], 1_000));
    let report = sweep(&jobs, 3, &Simulator::default(), &|progress| progress.done < 20);
    assert_eq!(report.ended, HowEnded::Time);
    let runs: Vec<u64> = report.rows.iter().map(|row| row.runs).collect();
    assert!(runs.iter().max().expect("rows") - runs.iter().min().expect("rows") <= 1, "{runs:?}");
}

#[test]
fn a_full_sweep_fails_by_the_names_of_marks_that_it_never_met() {
    let mut everything = plan(Vec::new(), SEEDS_DEFAULT);
    everything.extent = Extent::Everything;
    everything.checked_one_in = 0;
    let nothing_met = |_: &Playable, _: &Playing| Ok(run_of(1, WorldMarks::default()));
    let report = sweep(&Jobs::new(everything.clone()), 2, &Fake(nothing_met), &|_| true);
    assert!(report.is_full() && !report.holds() && report.failed() == 0);
    assert!(report.missing().iter().any(|mark| mark.name == "stop-late"));
    let xml = junit(&report, |_| String::new());
    assert!(xml.contains("never met: ") && xml.contains("failures=\"1\""), "{xml}");
    everything.seeds = 0..SEEDS_DEFAULT - 1;
    let report = sweep(&Jobs::new(everything), 2, &Fake(nothing_met), &|_| true);
    assert!(report.holds(), "fewer seeds only report");
}

/// A player of the test's own.
struct Fake<F>(F);

impl<F: Fn(&Playable, &Playing) -> Result<Run, String> + Sync> Player for Fake<F> {
    fn play(&self, run: &Playable, playing: &Playing) -> Result<Run, String> {
        self.0(run, playing)
    }
}

/// A run with one event.
fn run_of(event: u64, world: WorldMarks) -> Run {
    let mut trace = moored_sim::trace::Trace::new(moored_sim::trace::Keep::Lines);
    trace.note(moored::platform::Mono(1_000), "event", format_args!("{event}"));
    Run {
        violation: None,
        violation_entry: None,
        tape: Default::default(),
        trace,
        virtual_ms: 1,
        met: Default::default(),
        world,
        transitions: Default::default(),
        entries: Vec::new(),
    }
}

#[test]
fn a_run_that_goes_otherwise_the_second_time_is_a_failure_with_both_events() {
    let counter = AtomicU64::new(0);
    let stray = |_: &Playable, _: &Playing| {
        Ok(run_of(counter.fetch_add(1, Ordering::Relaxed), WorldMarks::default()))
    };
    let mut one = plan(Vec::new(), 1);
    one.checked_one_in = 1;
    let report = sweep(&Jobs::new(one.clone()), 1, &Fake(stray), &|_| true);
    assert_eq!((report.failed(), report.checked), (1, 1));
    let violation = &report.failures[0].violation;
    assert_eq!(violation.oracle, DETERMINISM);
    assert!(violation.words.contains("line 0:"), "{violation:?}");
    assert!(violation.words.contains("event 2 / ") && violation.words.contains("event 3"));
    one.checked_one_in = 0;
    assert!(sweep(&Jobs::new(one), 1, &Fake(stray), &|_| true).holds(), "nobody looked");
}

#[test]
fn a_run_that_cannot_be_made_fails() {
    let refuses = |_: &Playable, _: &Playing| Err("there is no thread".to_owned());
    let report = sweep(&Jobs::new(plan(Vec::new(), 2)), 1, &Fake(refuses), &|_| true);
    assert_eq!((report.failed(), report.failures[0].violation.words.as_str()), {
        (2, "there is no thread")
    });
}

#[test]
fn threads_wait_for_a_run_that_takes_long_once_they_are_far_ahead() {
    let (finished, most) = (AtomicU64::new(0), AtomicU64::new(0));
    let first = std::sync::atomic::AtomicBool::new(true);
    let slow = |_: &Playable, _: &Playing| {
        if first.swap(false, Ordering::Relaxed) {
            while finished.load(Ordering::Relaxed) < AHEAD_MAX as u64 {
                std::thread::yield_now();
            }
            // Whoever does not wait has time to show it.
            std::thread::sleep(std::time::Duration::from_millis(20));
            most.store(finished.load(Ordering::Relaxed), Ordering::Relaxed);
        } else {
            finished.fetch_add(1, Ordering::Relaxed);
        }
        Ok(run_of(1, WorldMarks::default()))
    };
    let mut many = plan(Vec::new(), 4 * AHEAD_MAX as u64);
    many.checked_one_in = 0;
    let report = sweep(&Jobs::new(many), 3, &Fake(slow), &|_| true);
    assert_eq!(report.runs(), 4 * AHEAD_MAX as u64);
    let most = most.load(Ordering::Relaxed);
    assert!(most <= AHEAD_MAX as u64 + 2, "{most} runs were ahead");
}
