//! No array file makes the reader panic, and what it accepts has a chunk map or a reason for none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mirrorball_disk::array_file::ArrayFile;

fuzz_target!(|text: &str| {
    if let Ok(array) = ArrayFile::parse(text, "fuzz.toml") {
        let _ = array.spec.chunk_map();
    }
});
