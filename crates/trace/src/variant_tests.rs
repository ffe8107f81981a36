//! Traces as programs write them, from a file with the requests of each.

use crate::formats::TraceFormat;
use crate::record::TraceRecord;
use crate::tests::{detected, read_all, reader};

#[test]
fn variants_that_programs_write_are_read() {
    let (_head, cases) = include_str!("variants.txt").split_once("\n\n").unwrap();
    let mut count = 0;
    for case in cases.trim_end().split("\n\n") {
        let (text, expected) = case.split_once("\n! ").unwrap();
        let (name, requests) = expected.split_once(' ').unwrap();
        assert_eq!(detected(text.as_bytes()).as_deref(), Ok(name), "{text}");
        let format = TraceFormat::by_name(name).unwrap();
        let records = read_all(reader(text.as_bytes(), format, None, 1)).unwrap();
        let request = |TraceRecord { op, offset, length, .. }: TraceRecord| {
            format!("{}{offset}+{length}", ["R", "W", "D", "F"][op as usize])
        };
        let found: Vec<_> = records.into_iter().map(request).collect();
        assert_eq!(found.join(" "), requests, "{text}");
        count += 1;
    }
    assert!(count >= 10, "{count} cases");
}
