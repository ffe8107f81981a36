//! No pasted text makes the detector panic, and an array that it finds has a sound file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_host::detect::{detect_all, pasted_machine};

fuzz_target!(|bytes: &[u8]| {
    let machine = pasted_machine(&String::from_utf8_lossy(bytes));
    for array in detect_all(&machine).into_iter().flatten() {
        let text = array.array_file();
        assert!(ArrayFile::parse(&text, "fuzz.toml").is_ok(), "{text}");
    }
});
