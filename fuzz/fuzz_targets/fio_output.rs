//! No output of fio makes the importer panic, and what it accepts is a sound record.
//! What follows a zero byte is a log that comes with it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mirrorball_lab::experiment::import::ImportLabels;
use mirrorball_lab::experiment::import::fio::{Log, cell};

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let result = parts.next().unwrap_or_default();
    let path = std::env::temp_dir().join(format!("fuzz-{}_lat.1.log", std::process::id()));
    std::fs::write(&path, parts.next().unwrap_or_default()).expect("the folder is writable");
    let Ok(log) = Log::open(&path) else { return };
    let about = ImportLabels {
        array: "fuzz".to_owned(),
        array_text: String::new(),
        policy: "fuzz".to_owned(),
        job: None,
    };
    if let Ok(record) = cell(result, &[log], &about) {
        assert_eq!(record.damage(), None);
    }
});
