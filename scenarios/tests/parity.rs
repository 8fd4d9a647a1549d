//! Documents with `parity`: a simulated and a native run leave equal canonical journals (decision D36).
#![cfg(feature = "native")]

mod common;

use moored_scenarios::{SimulatedRun, play_simulated};

use common::{document, together};

fn agrees(name: &'static str) {
    let document = document(name);
    let simulated = play_simulated(&document, &SimulatedRun::default()).expect("it can be played");
    let native = together::played(NAMES, name).expect("it can be played");
    assert_eq!(native.failures, [""; 0], "{}", native.canonical);
    assert_eq!(simulated.failures, [""; 0], "{}", simulated.canonical);
    assert_eq!(native.canonical, simulated.canonical, "native and simulated");
}

macro_rules! each_agrees {
    (parity { $($ident:ident = $name:literal,)* } $($rest:tt)*) => {
        const NAMES: &[&str] = &[$($name,)*];

        mod each {
            $(#[test] fn $ident() { super::agrees($name); })*
        }
    };
}
moored_scenarios::each_document!(each_agrees);
