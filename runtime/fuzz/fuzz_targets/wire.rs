//! Any bytes, cut anywhere: `cargo +nightly fuzz run wire`.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| moored::wire::fuzz::chunked(input));
