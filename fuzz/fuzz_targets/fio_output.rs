//! No output of fio makes the importer panic, and what it accepts is a sound record.
//! What follows a zero byte is a log that comes with it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mirrorball_lab::experiment::import::ImportLabels;
use mirrorball_lab::experiment::import::fio::{Log, cell};

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let result = parts.next().unwrap_or_default();
    let log = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let logs = [Log::new("fuzz_lat.1.log", log).expect("the name is that of a log")];
    let about = ImportLabels {
        array: "fuzz".to_owned(),
        array_text: String::new(),
        policy: "fuzz".to_owned(),
        job: None,
    };
    if let Ok(record) = cell(result, &logs, &about) {
        assert_eq!(record.damage(), None);
    }
});
