//! Every format reads its own example, detects it, and reports what is malformed.

use crate::bins::SizeCount;
use crate::formats::{FORMATS, TraceFormat};
use crate::reader::TraceReader;
use crate::record::{TraceOp, TraceRecord};
use crate::summary::TraceSummary;
use crate::trace_file::TraceFile;
use mirrorball_core::units::Nanos;
use std::io::Cursor;

/// A synthetic trace of each text format: a read of 4096 bytes at 8192, and 2 ms later a write of
/// 512 bytes at 1 MiB, of another device where there are several.
const EXAMPLES: [(&str, &str); 16] = [
    (
        "tracepoints",
        "# ========\n# perf version : 6.1\n\
         fio  77 [002]  51.000000: block:block_bio_queue: 8,0 R 16 + 8 [fio]\n\
         fio  77 [002]  51.000001: block:block_rq_issue: 8,0 R 4096 () 16 + 8 [fio]\n\
         swapper 0 [002]  51.000009: block:block_rq_complete: 8,0 R () 16 + 8 [0]\n\
         my job  78 [003]  51.002000:  1 block:block_bio_queue: 8,16 WS 2048 + 1 [my job]\n",
    ),
    (
        "tracepoints",
        "cpus=4\n fio-77 (   70) [002] 51.000000: block_rq_issue: 8,0 R 4096 () 16 + 8 be,0 [fio]\n\
         fio-77 [002] d..1 51.000900: block_rq_insert: 8,16 WS 512 () 2048 + 1 [fio]\n\
         fio-77 [002] d..1 51.002000: block_rq_issue: 8,16 WS 512 () 2048 + 1 [fio]\n",
    ),
    ("disksim", "0.000000 0 16 8 1\n2.000000 1 2048 1 0\n"),
    ("fiu", "89966180000000 5378 sh 16 8 R 6 0 4a\n89966182000000 77 jbd2 2048 1 W 6 1 90c1\n"),
    ("mqsim", "1000 0 16 8 1\n2001000 1 2048 1 0\n"),
    (
        "msr",
        "Size, Offset, Op, Time, Disk, Response_Time\n4096,8192,R,128166372003061629,1,700\n\
         512,1048576,W,128166372003081629,2,900\n",
    ),
    (
        "biosnoop",
        "Tracing block device I/O... Hit Ctrl-C to end.\n\
         TIME(s)     COMM           PID     DISK    T SECTOR     BYTES   LAT(ms)\n\
         0.002070 my app 7 sda RA 16 4096 2.07\n0.002090 jbd2/sda 8 sdb WS 2048 512 0.09\n",
    ),
    (
        "fio-v2",
        "fio version 2 iolog\nf add\nf open\nf read 8192 4096\nf wait 2000\nf wait 99\n\
                g write 1048576 512\nf close\n",
    ),
    (
        "fio-v3",
        "fio version 3 iolog\n5 f add\n9 f open\n20 f read 8192 4096\n\
                2020 g write 1048576 512\n2030 f close\n",
    ),
    (
        "blkparse",
        "  8,0    3        1     0.000000000   697  Q   R 16 + 8 [a b]\n\
                  8,0 3 2 0.000000100 697 G R 16 + 8 [a b]\n\
                  8,0 3 3 0.000000200 697 Q N 0 + 0 [a]\n\
                  8,16 3 4 0.002000000 697 Q WS 2048 + 1 [x]\n\
                  8,16 3 5 0.003000000 0 C WS 2048 + 1 [0]\n\
                  CPU0 (8,0):\n Reads Queued:           1,        4KiB\n\n\
                  Throughput (R/W): 0KiB/s / 0KiB/s\n",
    ),
    (
        "msr",
        "128166372003061629,src1,0,Read,8192,4096,700\r\n\
             128166372003081629,src1,1,Write,1048576,512,900\r\n",
    ),
    ("alibaba", "3,R,8192,4096,1577808144360767\n4,W,1048576,512,1577808144362767\n"),
    (
        "systor",
        "Timestamp,Response,IOType,LUN,Offset,Size\n\
                1455592980.000000000,0.000070,R,1,8192,4096\n\
                1455592980.001,,,1,0,0\n\
                1455592980.002000000,0.000090,W,2,1048576,512\n",
    ),
    ("spc", "0,16,4096,R,0.000000\n1,2048,512,w,0.002000,9\n"),
    (
        "biosnoop",
        "TIME(s)     COMM           PID    DISK      T SECTOR     BYTES  LAT(ms)\n\
                  0.002070 my app 7 sda R 16 4096 2.07\n\
                  0.002090 jbd2/sda 8 sdb W 2048 512 0.09\n",
    ),
    (
        "biosnoop",
        "TIME(s) COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)\n\
                  0.000070 a 7 sda R 16 4096 0.02 0.05\n\
                  0.002090 a 8 sdb W 2048 512 0.04 0.05\n",
    ),
];

pub(super) fn reader(
    text: &[u8],
    format: &TraceFormat,
    device: Option<&str>,
    seed: u64,
) -> TraceReader {
    TraceReader::new(Box::new(Cursor::new(text.to_vec())), "a.trace", format, device, seed)
}

pub(super) fn read_all(mut reader: TraceReader) -> Result<Vec<TraceRecord>, String> {
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().map_err(|error| error.to_string())? {
        records.push(record);
    }
    Ok(records)
}

fn read(text: &str, format: &str) -> Result<Vec<TraceRecord>, String> {
    read_all(reader(text.as_bytes(), TraceFormat::by_name(format).unwrap(), None, 1))
}

#[test]
fn the_nearest_format_and_compression_are_named() {
    let error = detected(b"8,0 1 1 0.0 410 Q W 16 + 8 [x]\n8,0 1 2 0.1 410 Q W sixteen + 8 [x]\n");
    let reason = error.unwrap_err();
    assert!(reason.contains("; as blkparse: line 2: "), "{reason}");
    for (head, name) in [
        (&[0x28, 0xb5, 0x2f, 0xfd, 0][..], "zstd"),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz"),
        (b"BZh91AY", "bzip2"),
        (&[0x1f, 0x8b, 8], "gzip"),
    ] {
        let error = detected(head).unwrap_err();
        assert!(error.starts_with(&format!("the trace is compressed with {name}")), "{error}");
    }
}

#[test]
fn disksim_is_not_taken_for_the_replayer_with_bytes() {
    assert_eq!(detected(b"0.5 0 8 8 1\n1.5 0 1024 512 1\n"), Ok("disksim"));
    let error = detected(b"0.5 0 4096 8192 1\n1.5 0 1024 512 0\n").unwrap_err();
    assert!(error.starts_with("the trace may be in any of disksim, replayer"), "{error}");
}

#[test]
fn traces_without_places_say_so() {
    let bpftrace =
        b"Attaching 4 probes...\nTIME(ms)     DISK    COMM     PID    LAT(ms)\n1 sda a 7 0.1\n";
    assert!(detected(bpftrace).unwrap_err().starts_with("biosnoop of bpftrace has no sectors"));
    let iosnoop = b"Tracing\nCOMM PID TYPE DEV BLOCK BYTES LATms\njava 3 RM 202,1 16 8192 0.28\n";
    assert!(detected(iosnoop).unwrap_err().starts_with("the requests of iosnoop have no times"));
}

pub(super) fn detected(head: &[u8]) -> Result<&'static str, String> {
    TraceFormat::detect(head).map(|format| format.name).map_err(|error| error.to_string())
}

#[test]
fn every_format_reads_its_example() {
    for (format, text) in EXAMPLES {
        let records = read(text, format).unwrap();
        let [first, second] = records[..] else { panic!("{format}: {records:?}") };
        let facts = |record: TraceRecord| (record.op, record.offset, record.length, record.device);
        assert_eq!(facts(first), (TraceOp::Read, 8192, 4096, 0), "{format}");
        assert_eq!(facts(second), (TraceOp::Write, 1 << 20, 512, 1), "{format}");
        let millis = [first.arrival, second.arrival];
        assert_eq!(millis, [Nanos::ZERO, Nanos::from_millis(2)], "{format}");
        let has_response = TraceFormat::by_name(format).unwrap().has_response;
        assert_eq!(second.response.is_some(), has_response, "{format}");
        if has_response {
            assert_eq!(second.response, Some(Nanos::from_micros(90)), "{format}");
        }
    }
}

#[test]
fn every_format_is_detected_by_its_content() {
    for (format, text) in EXAMPLES {
        assert_eq!(detected(text.as_bytes()), Ok(format));
    }
    assert_eq!(detected(b"1538323200,16,8,0,7\n1538323200,2048,1,1,7\n"), Ok("tencent"));
    assert_eq!(detected(&vscsi_v1(0x28, 3, 4096)), Ok("cloudphysics-v1"));
    assert_eq!(detected(&vscsi_v2(0x2a, 3, 4096)), Ok("cloudphysics-v2"));
}

#[test]
fn what_is_no_trace_is_not_detected() {
    let error = detected(b"[global]\nrw=read\n").unwrap_err();
    assert!(error.starts_with("the first lines are in no known trace format"), "{error}");
    assert!(error.contains("`mirrorball import trace --formats` lists them"), "{error}");
    assert!(detected(b"").unwrap_err().starts_with("the trace is empty"));
    assert!(detected(&[0x1f, 0x8b, 8, 0]).unwrap_err().contains("gunzip"));
    assert!(detected(b"fio version 3 iolog\n").unwrap_err().starts_with("the first lines"));
}

#[test]
fn a_malformed_line_is_an_error_with_its_place() {
    let cases = [
        ("fio-v2", "fio version 2 iolog\nf jump 0 1", "a.trace:2: the action `jump` is not an"),
        ("fio-v3", "fio version 2 iolog", "a.trace:1: the first line `fio version 2 iolog` is not"),
        ("fio-v3", "fio version 3 iolog\n1 f read 5", "a.trace:2: the length `` is not a whole"),
        ("fio-v3", "fio version 3 iolog\n1 f", "a.trace:2: the line has too few columns"),
        ("fio-v3", "fio version 3 iolog\n1 f read 0 0", "a.trace:2: the length is zero"),
        ("blkparse", "8,0 1 1 0.0 7 Q R 16 - 8", "a.trace:1: the column behind the sector `-`"),
        ("blkparse", "sda 1 1 0.0 7 Q R", "a.trace:1: the device `sda` is not a pair"),
        ("msr", "1,h,0,Read,0", "a.trace:1: the line has 5 of 7 columns separated by commas"),
        ("msr", "1,h,0,Reed,0,1,1", "a.trace:1: the Type `Reed` is not Read or Write"),
        ("msr", "999999999999999999,h,0,Read,0,1,1", "a.trace:1: the Timestamp 9999999999999999"),
        ("alibaba", "1,R,x,1,1", "a.trace:1: the offset `x` is not a whole number"),
        ("alibaba", "1,R,9223372036854775807,1,1", "a.trace:1: the request ends behind"),
        ("tencent", "1,1,1,2,1", "a.trace:1: the IOType `2` is not 0 or 1"),
        ("systor", "1.x,0,R,1,0,1", "a.trace:1: the Timestamp `1.x` is not a decimal number"),
        ("spc", "0,0,4096,R", "a.trace:1: the line has 4 of 5 columns separated by commas"),
        ("biosnoop", "0.1 a 1 sda R 0 1 1", "a.trace:1: the column `0.1` is not known"),
        (
            "biosnoop",
            "COMM PID TYPE DEV BLOCK BYTES LATms",
            "a.trace:1: the requests have no times",
        ),
        (
            "biosnoop",
            "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.1 1 sda R 0 512 1",
            "a.trace:2: the line has too few columns",
        ),
        (
            "biosnoop",
            "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n\
             1:1:1:1:1:1:1:1:1:1:1:1:1:0.0 a 1 sda R 0 512 1",
            "a.trace:2: the time `1:1:1:1:1:1:1:1:1:1:1:1:1:0.0` is not",
        ),
        (
            "biosnoop",
            "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n1:60:1.0 a 1 sda R 0 512 1",
            "a.trace:2: the time `1:60:1.0` is not",
        ),
    ];
    for (format, text, expected) in cases {
        let error = read(text, format).unwrap_err();
        assert!(error.starts_with(expected), "{format}: {error}");
        assert!(error.contains("\n  help: "), "{format}: {error}");
    }
}

#[test]
fn times_of_day_go_on_after_midnight() {
    let times = ["23:59:59.900", "00:00:00.100", "23:59:59.950", "00:00:01.100", "23:00:01.100"];
    let line = |time| format!("{time} a 1 sda R 16 512 0\n");
    let header = "TIMESTAMP COMM PID DISK T SECTOR BYTES LAT(ms)\n";
    let text = header.to_owned() + &times.map(line).concat();
    let seen: Vec<u64> =
        read(&text, "biosnoop").unwrap().iter().map(|it| it.arrival.0 / 1_000_000).collect();
    assert_eq!(seen, [0, 50, 200, 1_200, 82_801_200]);
}

/// Requests that were in flight when the trace began have no earlier action in it.
#[test]
fn a_trace_begun_under_load_has_its_earliest_action() {
    let lines = |action: &str| {
        let line = |number| format!("8,0 1 {number} 0.{number} 7 {action} W 16 + 8 [x]\n");
        (1..=9).map(line).collect::<String>()
    };
    let detected = |text: String| detected(text.as_bytes());
    assert_eq!(detected(lines("C") + &lines("D") + &lines("Q")), Ok("blkparse"));
    assert_eq!(detected(lines("C") + &lines("D")), Ok("blkparse-d"));
}

#[test]
fn control_characters_of_a_trace_are_escaped() {
    let error = read("1,\u{1b}[31m,0,1,1", "alibaba").unwrap_err();
    assert!(error.contains("`\\u{1b}[31m`"), "{error}");
}

#[test]
fn a_line_without_end_is_refused_in_bounded_memory() {
    let text = "1".repeat(1 << 20);
    let error = read(&text, "alibaba").unwrap_err();
    assert!(error.starts_with("a.trace:1: the line is longer than 128 KiB"), "{error}");
}

/// The buffer is refilled within lines: every request is read once, whole.
#[test]
fn requests_across_the_ends_of_the_buffer_are_whole() {
    let line = |index: u64| format!("{},R,{},4096,{}\n", index % 3, index * 8192, index);
    let text: String = (0..40_000).map(line).collect();
    let records = read(&text, "alibaba").unwrap();
    assert_eq!(records.len(), 40_000);
    for (index, record) in records.iter().enumerate() {
        let index = index as u64;
        assert_eq!((record.offset, record.arrival), (index * 8192, Nanos(index * 1_000)));
    }
}

#[test]
fn requests_slightly_out_of_order_are_sorted() {
    let records = read("1,R,0,512,30\n1,R,512,512,10\n1,R,1024,512,20\n", "alibaba").unwrap();
    let seen: Vec<_> = records.iter().map(|record| (record.arrival.0, record.offset)).collect();
    assert_eq!(seen, [(0, 512), (10_000, 1024), (20_000, 0)]);
}

#[test]
fn requests_far_out_of_order_arrive_with_their_predecessor_and_are_counted() {
    let mut text: String = (0..5_000).map(|time| format!("1,R,0,512,{}\n", 100 + time)).collect();
    text += "1,R,512,512,50\n";
    let mut reader = reader(text.as_bytes(), TraceFormat::by_name("alibaba").unwrap(), None, 1);
    let mut last = None;
    while let Some(record) = reader.next_record().unwrap() {
        assert!(last.is_none_or(|last: TraceRecord| last.arrival <= record.arrival));
        last = Some(record);
    }
    assert_eq!(reader.late(), 1);
}

#[test]
fn whole_seconds_are_spread_in_order_by_the_seed() {
    let text = "100,0,8,0,1\n".repeat(50) + &"102,8,8,1,1\n".repeat(2);
    let format = TraceFormat::by_name("tencent").unwrap();
    let times = |seed| -> Vec<u64> {
        let records = read_all(reader(text.as_bytes(), format, None, seed)).unwrap();
        records.iter().map(|record| record.arrival.0).collect()
    };
    let first = times(1);
    assert_eq!(first, times(1));
    assert_ne!(first, times(2));
    assert!(first.is_sorted());
    let gaps = first[..50].windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.clone().all(|gap| gap <= 40_000_000) && gaps.sum::<u64>() > 900_000_000);
    assert!(first[50] > 1_000_000_000 && first[51] < 3_000_000_000);
}

#[test]
fn too_many_requests_in_a_second_are_refused() {
    let text = "100,0,8,0,1\n".repeat((1 << 16) + 1);
    let error = read(&text, "tencent").unwrap_err();
    assert!(error.starts_with("a.trace:65537: more than 65536 requests have the same"), "{error}");
}

#[test]
fn one_device_can_be_selected() {
    let text = "1,R,0,512,10\n2,R,512,512,20\n1,W,0,512,30\n2,W,512,512,50\n";
    let format = TraceFormat::by_name("alibaba").unwrap();
    let records = read_all(reader(text.as_bytes(), format, Some("2"), 1)).unwrap();
    let seen: Vec<_> = records.iter().map(|record| (record.arrival.0, record.offset)).collect();
    assert_eq!(seen, [(0, 512), (30_000, 512)]);
}

fn vscsi_v1(command: u16, block: u64, length: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [1, length, 1] {
        bytes.extend(u32::to_le_bytes(word));
    }
    bytes.extend(u32::to_le_bytes(u32::from(command) | 0x0100_0000));
    bytes.extend(block.to_le_bytes());
    bytes.extend(u64::to_le_bytes(block * 10));
    bytes
}

fn vscsi_v2(command: u16, block: u64, length: u32) -> Vec<u8> {
    let mut bytes = u32::to_le_bytes(u32::from(command) | 0x0200_0000).to_vec();
    for word in [1, length, 1] {
        bytes.extend(u32::to_le_bytes(word));
    }
    for word in [block, block * 10, 250] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

#[test]
fn binary_records_are_read() {
    let text = [vscsi_v1(0x28, 3, 4096), vscsi_v1(0x12, 4, 0), vscsi_v1(0x2a, 5, 512)].concat();
    let format = TraceFormat::by_name("cloudphysics-v1").unwrap();
    let records = read_all(reader(&text, format, None, 1)).unwrap();
    let facts = |record: &TraceRecord| (record.arrival.0, record.op, record.offset, record.length);
    let seen: Vec<_> = records.iter().map(facts).collect();
    assert_eq!(seen, [(0, TraceOp::Read, 1536, 4096), (20_000, TraceOp::Write, 2560, 512)]);

    let format = TraceFormat::by_name("cloudphysics-v2").unwrap();
    let written = [vscsi_v2(0x8a, 3, 4096), vscsi_v2(0x8e, 3, 4096)].concat();
    let records = read_all(reader(&written, format, None, 1)).unwrap();
    assert_eq!(records[1].op, TraceOp::Write);
    assert_eq!(records[0].response, Some(Nanos::from_micros(250)));

    let cut = [vscsi_v2(0x8a, 3, 4096), vec![0; 39]].concat();
    let error = read_all(reader(&cut, format, None, 1)).unwrap_err();
    assert!(error.starts_with("a.trace: record 2: the last record has 39 of 40 bytes"), "{error}");
}

#[test]
fn every_row_of_the_table_is_filled() {
    for format in &FORMATS {
        for text in [format.name, format.columns, format.units, format.source] {
            assert!(!text.is_empty(), "{}", format.name);
        }
        assert!(TraceFormat::by_name(format.name).is_ok());
    }
    let error = TraceFormat::by_name("mrs").err().unwrap();
    assert_eq!(error.help.as_deref(), Some("did you mean `msr`?"));
}

/// A file of a test, removed at its end.
pub(super) struct TestFile(std::path::PathBuf);

impl TestFile {
    pub(super) fn new(name: &str, text: &str) -> TestFile {
        let path = std::env::temp_dir().join(format!("trace-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        TestFile(path)
    }

    pub(super) fn summary(&self, device: Option<&str>) -> Result<TraceSummary, String> {
        let file = TraceFile::new(&self.0, None, device.map(str::to_owned)).unwrap();
        TraceSummary::of(&file).map_err(|error| error.to_string())
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// 1000 sequential reads of 8 KiB, one each millisecond, and a write of 512 bytes with every tenth.
fn two_volumes() -> String {
    let mut text = String::new();
    for index in 0..1000u64 {
        text += &format!("a,R,{},8192,{}\n", (1 << 30) + index * 8192, index * 1000);
        if index % 10 == 0 {
            text += &format!("b,W,{},512,{}\n", index * 4096, index * 1000);
        }
    }
    text
}

#[test]
fn a_summary_has_the_figures_of_the_trace() {
    let file = TestFile::new("summary", &two_volumes());
    let summary = file.summary(None).unwrap();
    assert_eq!(summary.requests, [1000, 100, 0, 0]);
    assert_eq!(summary.bytes, [8_192_000, 51_200, 0, 0]);
    assert_eq!(summary.kinds.each_ref().map(|kind| kind.requests), [999, 1, 0, 100]);
    assert_eq!(summary.read_sizes, [SizeCount { bytes: 8192, requests: 1000 }]);
    assert_eq!(summary.end_bytes, (1 << 30) + 8_192_000);
    assert_eq!(summary.duration, Nanos::from_millis(999));
    assert_eq!((summary.unaligned, summary.late), (100, 0));
    assert_eq!(summary.devices.len(), 2);
    assert_eq!((&*summary.devices[1].name, summary.devices[1].requests), ("b", 100));
    let counted: u64 = summary.timeline.counts.iter().map(|bin| bin[0]).sum();
    assert_eq!(counted, 1100);
    assert!(summary.concentration(0.1) > 0.99, "{}", summary.concentration(0.1));
    assert_ne!(summary.content, file.summary(Some("a")).unwrap().content);
}

#[test]
fn a_summary_of_one_device_names_it() {
    let file = TestFile::new("device", &two_volumes());
    let summary = file.summary(Some("b")).unwrap();
    assert_eq!(summary.requests, [0, 100, 0, 0]);
    assert_eq!(summary.devices.len(), 1);
    assert_eq!(summary.devices[0].name, "b");
    let error = file.summary(Some("c")).unwrap_err();
    assert!(error.contains("has no request of a device `c`"), "{error}");
    assert!(error.contains("help: "), "{error}");
}

/// Bins are joined in pairs: none is lost, and their number is bounded.
#[test]
fn histograms_widen() {
    let text: String =
        (0..3000u64).map(|at| format!("a,R,{},512,{}\n", at << 30, at * 9_000_000)).collect();
    let summary = TestFile::new("wide", &text).summary(None).unwrap();
    for bins in [&summary.timeline, &summary.space] {
        assert!(bins.counts.len() <= 1024);
        assert_eq!(bins.counts.iter().map(|bin| bin[0]).sum::<u64>(), 3000);
        assert!(bins.counts.iter().all(|bin| bin[0].abs_diff(3000 / bins.counts.len() as u64) < 9));
    }
}

#[test]
fn a_fitted_job_has_the_figures_of_the_trace() {
    let file = TestFile::new("fit", &two_volumes());
    let text = file.summary(None).unwrap().fit("a.csv", u64::MAX).unwrap();
    for line in [
        "[sequential-reads]",
        "offset=1048584k",
        "bssplit=8192/100",
        "rate_iops=1001",
        "rate_process=linear",
        "[random-writes]",
        "bssplit=4096/100",
        "rate_iops=100",
        "size=7992k",
        "size=3964k",
        "random_distribution=zoned:10/10:10/10:10/10:10/10:10/10:10/10:10/10:10/10:10/10:10/10",
        "runtime=1",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in:\n{text}");
    }
    let comments: Vec<&str> = text.lines().filter(|line| line.starts_with("; fio ")).collect();
    let warning =
        "; fio writes a file `load` of 1.0 GiB: name an idle device or a file of that size";
    assert_eq!(comments, [warning], "{text}");
    let burst = TestFile::new("burst", "a,R,0,512,5\na,R,512,512,5\n");
    let error = burst.summary(None).unwrap().fit("a.csv", u64::MAX).unwrap_err();
    assert!(error.to_string().starts_with("all requests arrive at once"), "{error}");
}
