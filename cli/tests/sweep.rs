//! Sweeps over processes: parts that are merged, failures that become files and regressions, and replays of them.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a harness of real processes"
)]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{MOORED, Place, Ran};
use moored_scenarios::sweep::{FAILURES_KEPT_MAX, FAILURES_TOLD_MAX};
use serde_json::Value;

/// Expects what does not come.
const WRONG: &str = r#"{
  "name": "wrong",
  "agent": { "persona": "echo" },
  "actions": [
    { "do": "send", "id": "m1", "text": "hello" },
    { "when": { "event": "turn_ended" }, "do": "close" }
  ],
  "expect": { "journal": ["turn prompt:m1 completed failure"] }
}"#;

/// A scenario whose agent's release is never taken: the message after the heal is not answered.
fn never_answered() -> String {
    let mut scenario = moored_sim::scenario::Scenario::quiet("never-answered", 7);
    let versions = serde_json::json!({ "from": "999.0.0" });
    scenario.options.definition = [("versions".to_owned(), versions)].into_iter().collect();
    scenario.to_text()
}

/// What a sweep of a failing scenario wrote: the place, and the file.
fn failed() -> (Place, String) {
    let place = Place::new();
    let file = place.file("never-answered.json", &never_answered());
    let ran = place.run(&["sweep", &file, "--seeds", "4..5"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    (place, "moored-failures/never-answered-4.json".to_owned())
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn a_failure_is_a_file_with_its_timeline_and_its_commands_for_its_owner_alone() {
    let (place, file) = failed();
    let ran = place.run(&["sweep", "../never-answered.json", "--seeds", "4..5"]);
    for line in [
        "  moored replay moored-failures/never-answered-4.json\n",
        "  moored shrink moored-failures/never-answered-4.json\n",
        "  timeline: moored-failures/never-answered-4.html\n",
    ] {
        assert!(ran.out.contains(line), "{ran:?}");
    }
    let path = place.workspace().join(&file);
    assert_eq!(mode(&place.workspace().join("moored-failures")), 0o700);
    for ending in ["json", "html", "txt"] {
        assert_eq!(mode(&path.with_extension(ending)), 0o600, "{ending}");
    }
    let failure: Value = serde_json::from_str(&std::fs::read_to_string(&path).expect("written"))
        .expect("a failure is JSON");
    assert_eq!((&failure["v"], &failure["found"]["seed"]), (&1.into(), &4.into()));
    assert_eq!(failure["run"]["scenario"]["source"]["from"], "replay");
    let text = std::fs::read_to_string(path.with_extension("txt")).expect("written");
    assert!(text.contains("!!!!!!!") && text.contains("moored replay moored-failures/"), "{text}");
    let page = std::fs::read_to_string(path.with_extension("html")).expect("written");
    assert!(page.contains("never-answered"));
}

#[test]
fn a_failure_file_is_replayed_without_its_seed_and_shown_in_every_form() {
    let (place, file) = failed();
    let ran = place.run(&["replay", &file]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.err.starts_with("moored: never-answered breaks "), "{ran:?}");
    let trace = place.run(&["replay", &file, "--trace"]).out;
    assert!(trace.lines().count() > 5, "{trace}");
    let text = place.run(&["replay", &file, "--text", "--html", "page.html"]).out;
    assert!(text.contains("broken: rule "), "{text}");
    assert!(place.workspace().join("page.html").exists());
    let document = place.json(&["replay", &file, "--json"]);
    assert_eq!(document["holds"], false);
    let again = place.json(&["replay", &file, "--times", "3", "--json"]);
    assert_eq!((&again["identical"], &again["times"]), (&true.into(), &3.into()));
    assert_eq!(again["trace_hash"], document["trace_hash"]);
    place.run(&["replay", &file, "--seed", "3"]).cannot_run(&["leave --seed"]);
}

#[test]
fn what_the_generator_makes_is_printed_replayed_and_is_the_same_as_its_value() {
    let place = Place::new();
    let by_seed = place.json(&["replay", "--seed", "6", "--json"]);
    assert_eq!(by_seed["holds"], true, "{by_seed}");
    let value = place.run(&["generate", "--seed", "6"]);
    assert_eq!(value.status, Some(0));
    let file = place.file("value.json", &value.out);
    let by_value = place.json(&["replay", &file, "--json"]);
    assert_eq!(by_value["trace_hash"], by_seed["trace_hash"]);
    let ran = place.run(&["replay", "--seed", "6", "--times", "4"]);
    assert!(ran.status == Some(0) && ran.out.starts_with("4 runs are identical: "), "{ran:?}");
    place.run(&["replay"]).cannot_run(&["--seed N"]);
    place.run(&["replay", "echo"]).cannot_run(&["--seed N"]);
}

#[test]
fn a_failure_becomes_a_regression_which_is_swept_first_until_it_is_mended() {
    let (place, file) = failed();
    let kept = place.json(&["keep", &file, "--json"]);
    let path = kept["kept"].as_str().expect("a path").to_owned();
    assert!(path.starts_with("scenarios/regressions/a-new-message-is-answered-"), "{path}");
    let fixed = place.run(&["keep", &file, "--fixed"]);
    assert_eq!(fixed.status, Some(1), "{fixed:?}");
    assert!(fixed.err.contains("it still breaks"), "{fixed:?}");
    // A sweep of everything looks into the project's folder, replays it before anything else, and writes it no new seed.
    let ran = place.run(&["sweep", "--seeds", "0..1", "--kernel", "tape"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let mut lines = ran.out.lines().skip(1);
    assert!(lines.next().is_some_and(|line| line.starts_with("regressions")), "{ran:?}");
    assert!(ran.out.contains(&format!("{path} fails again")), "{ran:?}");
    // Mended, it is kept as what holds.
    let text = std::fs::read_to_string(place.workspace().join(&path)).expect("kept");
    let mended = place.file("mended.json", &text.replace("999.0.0", "0.0.1"));
    let ran = place.run(&["keep", &mended]);
    assert!(ran.status == Some(1) && ran.err.contains("--fixed"), "{ran:?}");
    let ran = place.run(&["keep", &mended, "--fixed", "--into", "elsewhere"]);
    assert!(ran.status == Some(0) && ran.out.starts_with("kept as elsewhere/"), "{ran:?}");
    let value = place.file("value.json", &never_answered());
    place.run(&["keep", &value]).cannot_run(&["is no failure"]);
    place.run(&["keep", "nothing.json"]).cannot_run(&["nothing.json"]);
}

#[test]
fn what_fails_everywhere_is_written_and_printed_up_to_a_limit_and_counted_beyond_it() {
    let place = Place::new();
    let mut args = vec!["sweep".to_owned()];
    for n in 0..8 {
        args.push(place.file(
            &format!("wrong-{n}.json"),
            &WRONG.replace("\"wrong\"", &format!("\"wrong-{n}\"")),
        ));
    }
    args.extend(["--seeds", "0..9"].map(str::to_owned));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ran = place.run(&args);
    let kernels = moored_sim::KernelKind::available().len();
    let (failed, told) = (8 * kernels * 9, 8 * kernels * FAILURES_TOLD_MAX);
    let files = std::fs::read_dir(place.workspace().join("moored-failures")).expect("written");
    assert_eq!(files.count(), 3 * told.min(FAILURES_KEPT_MAX));
    if told > FAILURES_KEPT_MAX {
        let unwritten = told - FAILURES_KEPT_MAX;
        assert!(ran.err.contains(&format!("{unwritten} more failures are told and not written")));
    }
    assert!(
        ran.out.contains(&format!("\n{} more failed in the same rows\n", failed - 16)),
        "{ran:?}"
    );
    assert_eq!(ran.out.matches("  moored replay ").count(), 16);
}

#[test]
fn a_file_without_end_is_refused() {
    let place = Place::new();
    let path = place.file("long.json", "");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("it is there");
    file.set_len(256 * 1024 * 1024 + 1).expect("a hole");
    place.run(&["replay", &path]).cannot_run(&["long.json has 268435457 bytes"]);
}

/// The report of a sweep or of a merge, without what differs between machines: how long it took.
fn report(place: &Place, file: &str) -> Value {
    let text = std::fs::read_to_string(place.workspace().join(file)).expect("a report");
    let mut report: Value = serde_json::from_str(&text).expect("a report is JSON");
    report["wall_ms"] = 0.into();
    report
}

/// Options of the sweeps that are run in parts.
const SWEEP: &str = "../wrong.json echo generated --seeds 0..12";

/// Runs the parts by a shell command line, merges them, and holds the merged report to that of one process.
fn parts_are_the_whole(command: &mut Command, place: &Place, parts: usize) {
    place.file("wrong.json", WRONG);
    let ran = Ran::new(command.output().expect("it runs"));
    assert!(ran.err.is_empty(), "{ran:?}");
    let files: Vec<String> = (1..=parts).map(|n| format!("part-{n}.json")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let merged = [&["merge"][..], &files, &["--report", "merged.json", "--junit", "merged.xml"]];
    let merged = place.run(&merged.concat());
    assert_eq!(merged.status, Some(1), "{merged:?}");
    let sweep =
        [&["sweep"][..], &SWEEP.split(' ').collect::<Vec<_>>(), &["--report", "whole.json"]];
    assert_eq!(place.run(&sweep.concat()).status, Some(1));
    let (merged, whole) = (report(place, "merged.json"), report(place, "whole.json"));
    assert_eq!(merged, whole);
    let kernels = moored_sim::KernelKind::available().len() as u64;
    let runs: u64 =
        whole["rows"].as_array().expect("rows").iter().filter_map(|r| r["runs"].as_u64()).sum();
    assert_eq!(runs, 12 * (2 * kernels + 1));
    let xml = std::fs::read_to_string(place.workspace().join("merged.xml")).expect("written");
    assert!(xml.contains("moored replay moored-failures/wrong-tape-0.json"), "{xml}");
    place.run(&["merge", "part-1.json"]).cannot_run(&["of 4 parts 2, 3, 4 are missing"]);
    let doubled = ["merge", "part-1.json", "part-1.json"];
    place.run(&doubled).cannot_run(&["both part 1/4"]);
}

fn shell(place: &Place, line: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).current_dir(place.workspace()).env("MOORED", MOORED);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    shell
}

#[test]
fn shards_run_by_xargs_as_processes_of_their_own_are_merged_to_the_whole() {
    let place = Place::new();
    let part = format!("\"$MOORED\" sweep {SWEEP} --jobs 1 --shard {{}}/4 --report part-{{}}.json");
    let line = format!("seq 4 | xargs -P 2 -I {{}} sh -c '{part} >&- || test $? = 1'");
    parts_are_the_whole(&mut shell(&place, &line), &place, 4);
}

#[test]
fn shards_run_by_gnu_parallel_know_their_part_by_its_environment() {
    let found = Command::new("parallel").arg("--version").stdin(Stdio::null()).output();
    let is_gnu = |out: &[u8]| String::from_utf8_lossy(out).contains("GNU parallel");
    if !found.is_ok_and(|ran| is_gnu(&ran.stdout)) {
        eprintln!("skipped: shards_run_by_gnu_parallel, for there is no GNU parallel on PATH");
        return;
    }
    let place = Place::new();
    let part = format!("$MOORED sweep {SWEEP} --jobs 1 --shard auto --report part-{{}}.json");
    let line = format!("seq 4 | parallel --will-cite -j 2 '{part} || test $? = 1'");
    let mut command = shell(&place, &line);
    parts_are_the_whole(command.env("MOORED_SHARDS", "4"), &place, 4);
}

#[test]
fn a_part_is_understood_from_its_environment_or_refused_by_name() {
    let place = Place::new();
    let part = |variables: &[(&str, &str)]| {
        let args = ["sweep", "echo", "--seeds", "0..4", "--shard", "auto", "--json"];
        let mut command = place.moored(&args);
        command.envs(variables.iter().copied());
        Ran::new(command.output().expect("it runs"))
    };
    let ran = part(&[
        ("SLURM_ARRAY_TASK_ID", "3"),
        ("SLURM_ARRAY_TASK_MIN", "1"),
        ("SLURM_ARRAY_TASK_COUNT", "4"),
    ]);
    let document: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(document["shard"], "3/4");
    part(&[("JOB_COMPLETION_INDEX", "0")]).cannot_run(&["Kubernetes", "MOORED_SHARDS"]);
    part(&[]).cannot_run(&["--shard I/N"]);
    place.run(&["sweep", "--shard", "5/4"]).cannot_run(&["no part 5 of 4"]);
}

#[test]
fn every_run_can_be_made_twice_and_a_sweep_can_end_by_itself() {
    let place = Place::new();
    let args = ["sweep", "echo", "--kernel", "tape", "--json"];
    let twice = place.json(&[&args[..], &["--seeds", "0..5", "--check-determinism"]].concat());
    assert_eq!((&twice["checked"], &twice["holds"]), (&5.into(), &true.into()));
    let quiet = place.json(&[&args[..], &["--until-quiet", "5"]].concat());
    assert_eq!((&quiet["ended"], &quiet["cut_short"]), (&"quiet".into(), &true.into()));
    let timed = place.json(&[&args[..], &["--for", "1ms"]].concat());
    assert_eq!((&timed["ended"], &timed["holds"]), (&"time".into(), &true.into()));
    assert!(timed["marks"]["missing"].as_array().is_some_and(|names| !names.is_empty()));
}

#[test]
fn a_pipe_is_no_scenario_and_a_report_that_cannot_be_written_is_told() {
    let place = Place::new();
    let made = Command::new("mkfifo").arg(place.workspace().join("pipe")).status();
    assert!(made.expect("mkfifo runs").success());
    for args in [&["play", "pipe"][..], &["sweep", "pipe"], &["replay", "pipe"], &["keep", "pipe"]]
    {
        place.run(args).cannot_run(&["pipe is no regular file"]);
    }
    let args = ["sweep", "echo", "--seeds", "1", "--kernel", "tape", "--report", "no/such/file"];
    place.run(&args).cannot_run(&["no/such/file", "cannot be written"]);
    place.run(&["merge", "pipe"]).cannot_run(&["no regular file"]);
    let file = place.file("odd.json", "{\"v\": 7}");
    place.run(&["merge", &file]).cannot_run(&["odd.json is no report", "version 7"]);
}
