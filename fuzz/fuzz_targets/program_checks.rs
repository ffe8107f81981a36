//! Checks of an object before it is compiled: nothing makes the host panic or hang.
//!
//! A run takes microseconds, while one of `program_object`, which compiles what is accepted, takes
//! milliseconds. Put objects of `mirrorball program build` into `corpus/program_checks` before the
//! first run. One input in four is cut short; the others are changed anywhere.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use mirrorball_core::rng::Rng;
use mirrorball_program::Loader;
use std::cell::OnceCell;

/// One in this number of inputs is truncated.
const TRUNCATED: u64 = 4;

thread_local! {
    /// An engine takes a millisecond to make.
    static LOADER: OnceCell<Option<Loader>> = const { OnceCell::new() };
}

fuzz_target!(|object: &[u8]| {
    LOADER.with(|loader| {
        let Some(loader) = loader.get_or_init(|| Loader::new().ok()) else { return };
        let _ = loader.check_object(object);
    });
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Rng::new(seed.into());
    if size > 1 && draw.below(TRUNCATED) == 0 {
        return draw.below(size as u64) as usize;
    }
    fuzzer_mutate(data, size, max_size)
});
