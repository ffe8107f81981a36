//! Traces as programs write them, from a file with the requests of each.

use crate::formats::TraceFormat;
use crate::record::TraceRecord;
use crate::tests::{TestFile, detected, read_all, reader};

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
fn what_has_no_requests_is_named() {
    for (text, expected) in [
        ("time_us;op;offset;size\n1;R;0;4096\n", "the columns are separated by `;`"),
        ("time_us\top\toffset\tsize\n1\tR\t0\t4096\n", "the columns are separated by tabs"),
        (
            " swapper 0 [001] 10.002357: block:block_rq_complete: 8,16 R () 54 + 8 [0]\n",
            "the trace has the ends of requests, and not their starts",
        ),
    ] {
        let error = detected(text.as_bytes()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

/// Found by a trial: in units of 100 ns, 1,000 requests/s since 1970 became 10,000.
#[test]
fn times_since_1970_are_not_taken_for_units_of_100_ns() {
    let row =
        |header: &str, time: &str| detected(format!("{header}\n{time},R,0,4096\n").as_bytes());
    let plain = "timestamp,op,offset,size";
    for (time, unit) in [
        ("1650000000", "s"),
        ("1650000000123", "ms"),
        ("1650000000123456", "us"),
        ("1650000000123456789", "ns"),
    ] {
        let error = row(plain, time).unwrap_err();
        let expected = format!("but in {unit} since 1970: write a header that names the column");
        assert!(error.contains(&expected), "{error}");
        let named = plain.replace("timestamp", &format!("timestamp_{unit}"));
        assert_eq!(row(&named, time).as_deref(), Ok("msr"));
    }
    assert_eq!(row("timestamp_100ns,op,offset,size", "1650000000").as_deref(), Ok("msr"));
    for time in ["0", "128166372010810581", "999999999"] {
        assert_eq!(row(plain, time).as_deref(), Ok("msr"), "{time}");
    }
}

#[test]
fn absurd_rates_and_lost_events_are_noted() {
    let rows: Vec<String> = (0..200).map(|ms| format!("{ms} 0 {ms} 8 1\n")).collect();
    let summary = TestFile::new("millis", &rows.concat()).summary(None).unwrap();
    let expected = "note: 1005025126 requests/s are more than arrays serve: is the unit";
    assert!(summary.describe().contains(expected), "{}", summary.describe());
    for (name, line, count) in [
        ("tracefs", "CPU:1 [LOST 4096 EVENTS]", 4096),
        ("trace-cmd", "CPU:1 [4096 EVENTS DROPPED]", 4096),
        ("uncounted", "CPU:1 [EVENTS DROPPED]", 1),
        ("perf", "fio 7 [001] 10.5: PERF_RECORD_LOST lost 17", 17),
        ("nothing", "CPU:1 is idle", 0),
    ] {
        let request = "fio-7 [001] d..1. 1.5: block_bio_queue: 8,16 R 54 + 8 [fio]\n";
        let text = format!("{request}{line}\n{request}");
        let summary = TestFile::new(name, &text).summary(None).unwrap();
        assert_eq!((summary.lost, summary.total()), (count, 2), "{name}");
        let note = format!("note: {count} events were lost where it was recorded");
        assert_eq!(summary.describe().contains(&note), count > 0, "{name}");
    }
}

/// Found by a trial: a write to md was three.
#[test]
fn requests_that_pass_through_a_stack_of_devices_count_once() {
    let event = |name: &str, rest: &str| format!("fio-7 [001] 1.5: {name}: {rest}\n");
    let mut text = event("block_bio_queue", "9,0 W 64 + 8 [fio]");
    for disk in ["8,16", "8,32"] {
        text += &event("block_bio_remap", &format!("{disk} W 2112 + 8 <- (9,0) 64"));
        text += &event("block_bio_queue", &format!("{disk} W 2112 + 8 [fio]"));
    }
    let queued = "9,0 0 1 0.0 7 Q W 64 + 8 [fio]\n8,16 0 2 0.1 7 A W 2112 + 8 <- (9,0) 64\n\
                  8,16 0 3 0.2 7 Q W 2112 + 8 [fio]\n";
    for (name, text) in [("stack", &text[..]), ("blkparse-stack", queued)] {
        let file = TestFile::new(name, text);
        let error = file.summary(None).unwrap_err();
        let expected = "the requests of device 9,0 again as those of device 8,16, on which it lies";
        assert!(error.contains(expected) && error.contains("--device 9,0, or"), "{error}");
        assert_eq!(file.summary(Some("9,0")).unwrap().requests, [0, 1, 0, 0]);
    }
    // A partition has no requests of its own behind its disk.
    let text = event("block_bio_queue", "8,16 W 64 + 8 [fio]")
        + &event("block_bio_remap", "8,16 W 64 + 8 <- (8,17) 0");
    assert_eq!(TestFile::new("part", &text).summary(None).unwrap().total(), 1);
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
