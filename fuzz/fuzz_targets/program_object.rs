//! No object makes the host panic or hang: it is refused, or each of its calls ends.
//!
//! Put objects of `mirrorball program build` into `corpus/program_object` before the first run.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mirrorball_core::policies::PolicyProgram;
use mirrorball_program::Loader;
use mirrorball_program::check::try_reads;
use std::cell::OnceCell;

thread_local! {
    /// An engine takes a millisecond to make.
    static LOADER: OnceCell<Option<Loader>> = const { OnceCell::new() };
}

fuzz_target!(|object: &[u8]| {
    LOADER.with(|loader| {
        let Some(loader) = loader.get_or_init(|| Loader::new().ok()) else { return };
        let Ok(program) = loader.load_program(object) else { return };
        let values: Vec<u64> = program.parameters().iter().map(|it| it.default).collect();
        let _ = try_reads(&program, &values, 4);
    });
});
