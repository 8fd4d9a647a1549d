//! Documents with `parity`: a simulated and a native run leave equal canonical journals (decision D36).
#![cfg(feature = "native")]

mod common;

use moored_scenarios::{SimulatedRun, play_native, play_simulated};

use common::{document, native_run};

fn agrees(name: &str) {
    let document = document(name);
    let simulated = play_simulated(&document, &SimulatedRun::default()).expect("it can be played");
    let native = play_native(&document, &native_run()).expect("it can be played");
    assert_eq!(native.failures, [""; 0], "{}", native.canonical);
    assert_eq!(simulated.failures, [""; 0], "{}", simulated.canonical);
    assert_eq!(native.canonical, simulated.canonical, "native and simulated");
}

macro_rules! each_agrees {
    (parity { $($ident:ident = $name:literal,)* } $($rest:tt)*) => {
        mod each {
            $(#[test] fn $ident() { super::agrees($name); })*
        }
    };
}
moored_scenarios::each_document!(each_agrees);
