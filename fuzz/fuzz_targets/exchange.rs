//! Runs the oracle of the same name, which plain tests run over the stored seeds, too.

#![no_main]

#[path = "../../crates/callweave/tests/oracles/mod.rs"]
mod oracles;

libfuzzer_sys::fuzz_target!(|input: &[u8]| oracles::exchange::check(input));
