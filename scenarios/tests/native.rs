//! Documents without `parity`, with real processes: against their own expectations.
#![cfg(feature = "native")]

mod common;

use moored_scenarios::{PlayError, play_native};

use common::{document, native_run};

fn holds(name: &str) {
    let played = play_native(&document(name), &native_run()).expect("it can be played");
    assert_eq!(played.failures, [""; 0], "{}", played.canonical);
}

macro_rules! each_holds {
    (parity { $($p:ident = $pn:literal,)* } natively { $($ident:ident = $name:literal,)* } $($rest:tt)*) => {
        mod each {
            $(#[test] fn $ident() { super::holds($name); })*
        }
    };
}
moored_scenarios::each_document!(each_holds);

#[test]
fn the_windows_of_win32_are_refused_unless_the_document_allows_them() {
    let mut refused = document("t13-win32-ignores-eof");
    refused.win32_natively = false;
    let Err(PlayError::Unplayable(words)) = play_native(&refused, &native_run()) else {
        panic!("this system has no such windows");
    };
    assert!(words.contains("\"win32_natively\""), "{words}");
}

#[test]
fn a_document_for_simulation_alone_is_refused() {
    let Err(PlayError::Unplayable(words)) =
        play_native(&document("t02-no-handshake"), &native_run())
    else {
        panic!("nobody waits for half an hour");
    };
    assert!(words.contains("\"simulation_only\""), "{words}");
}

#[test]
fn a_program_that_is_no_supervisor_is_refused_in_a_sentence() {
    let mut run = native_run();
    run.supervisor =
        moored::platform::native::SupervisorProgram::Program("/no/such/supervisor".into());
    let Err(PlayError::Setup(words)) = play_native(&document("echo"), &run) else {
        panic!("there is no supervisor");
    };
    assert!(words.contains("/no/such/supervisor"), "{words}");
}
