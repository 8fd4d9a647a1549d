//! The journals of the run in which nothing strays, for a person to read: one line a row.

mod common;

use moored_scenarios::canonical::journal_lines;
use moored_scenarios::{SimulatedRun, play_simulated};

use common::document;

fn reads_as_recorded(name: &str) {
    let played =
        play_simulated(&document(name), &SimulatedRun::default()).expect("it can be played");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description(document(name).about);
    settings.bind(|| insta::assert_snapshot!(name, journal_lines(&played.rows)));
}

macro_rules! each_reads {
    ($($how:ident { $($ident:ident = $name:literal,)* })*) => {
        mod each {
            $($(#[test] fn $ident() { super::reads_as_recorded($name); })*)*
        }
    };
}
moored_scenarios::each_document!(each_reads);
