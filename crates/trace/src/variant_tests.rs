//! Traces as programs write them, from a file with the requests of each.

use crate::formats::TraceFormat;
use crate::record::TraceRecord;
use crate::tests::{detected, read_all, reader};

#[test]
fn headers_of_columns_say_what_is_lacking() {
    for (text, expected) in [
        (
            "when,Type,Offset,Size\n1,R,0,4096\n",
            "as msr: line 1: the header has no column Timestamp (or time, arrivaltime, ts)",
        ),
        (
            "\u{feff}Timestamp,Kind,LBA,Size\n1,R,0,4096\n",
            "the header has no column Type (or op, operation, iotype, rw, direction), nor Offset \
             (or byteoffset, sector)",
        ),
        (
            "Timestamp,Type,Sector,Offset,Size\n1,R,0,0,4096\n",
            "as msr: line 1: the columns Sector and Offset say the same",
        ),
        (
            "Timestamp_us,Type,Offset,Size,Latency\n1,R,0,4096,5\n",
            "line 1: the column Timestamp_us names its unit, and Latency does not",
        ),
        (
            "array,job,section,requests,policy,seed,iops\na,b,c,read,d,1,2\n",
            "the file has figures that `mirrorball report` wrote, and no requests",
        ),
        (
            "Timestamp,Type,Offset,Size\n0.5,R,0,4096\n",
            "line 2: the Timestamp `0.5` is not a whole number of 100 ns; for other units name the \
             column Timestamp_s, Timestamp_ms, Timestamp_us or Timestamp_ns",
        ),
    ] {
        let error = detected(text.as_bytes()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn times_have_the_unit_of_their_header() {
    let text = "timestamp_us,op,offset,size,latency_ms\n2.5,R,8192,4096,1.5\n3.5,R,0,512,2\n";
    let format = TraceFormat::by_name("msr").unwrap();
    let records = read_all(reader(text.as_bytes(), format, None, 1)).unwrap();
    let times = |it: &TraceRecord| (it.arrival.0, it.response.unwrap().0);
    let times: Vec<(u64, u64)> = records.iter().map(times).collect();
    assert_eq!(times, [(0, 1_500_000), (1_000, 2_000_000)]);
}

/// Requests of two disks in one file are not those of one.
#[test]
fn a_column_of_devices_divides_a_trace() {
    let text = "Device,Timestamp_us,Type,Offset,Size\nsda,1,R,0,4096\nsdb,2,R,0,4096\n";
    let format = TraceFormat::by_name("msr").unwrap();
    let records = read_all(reader(text.as_bytes(), format, Some("sdb"), 1)).unwrap();
    assert_eq!(records.len(), 1);
}

#[test]
fn units_are_those_of_the_header() {
    let format = TraceFormat::by_name("msr").unwrap();
    for (text, expected) in [
        ("128166372010810581,srv,0,Write,8192,4096,54086\n", format.units),
        ("ts,op,offset,size,latency\n1,R,0,4096,5\n", {
            "by its header: 100 ns, response in 100 ns; bytes"
        }),
        ("Time (s),op,sector,size_kb\n1,R,0,4\n", {
            "by its header: s; offsets in sectors of 512 bytes, sizes in KiB"
        }),
    ] {
        assert_eq!(format.units_of(text.as_bytes()), expected, "{text}");
    }
}

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
