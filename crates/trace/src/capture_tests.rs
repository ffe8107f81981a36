//! Lines of `trace_pipe`, as Linux 6.18 printed them, become a trace.

use crate::capture::{
    BtrfsChunk, CaptureCounts, CaptureWriter, CapturedDevice, ChunkTable, HEADER,
};
use crate::formats::TraceFormat;
use crate::tests::TestFile;

const MIB: u64 = 1 << 20;
const FAR: u64 = 1 << 40;

fn device(number: &str, start_bytes: u64, devid: u64) -> CapturedDevice {
    let numbers = vec![number.to_owned(), "8,0".to_owned()];
    CapturedDevice { numbers, start_bytes, bytes: 64 * MIB, devid }
}

fn recorded(mut writer: CaptureWriter, lines: &str) -> (String, CaptureCounts) {
    let mut trace = HEADER.to_owned();
    for line in lines.lines() {
        writer.add(line.as_bytes(), &mut trace);
    }
    writer.finish(&mut trace);
    (trace.strip_prefix(HEADER).unwrap().to_owned(), writer.counts)
}

/// A merged request, one that a driver counted down, a flush, and one of another partition.
#[test]
fn requests_are_matched_with_their_ends() {
    let lines = "\
             fio-29751   [001] ..... 54920.100000: block_bio_queue: 7,1 RA 2048 + 8 [fio]
 a - [0] b: c-123     [001] ..... 54920.100100: block_bio_queue: 7,1 RA 2056 + 8 [a - [0] b: c]
             fio-29751   [001] ..... 54920.100150: block_bio_queue: 7,1 WS 4096 + 16 [fio]
             fio-29751   [001] ..... 54920.100160: block_bio_queue: 7,1 FWS 0 + 0 [fio]
             fio-29751   [001] ..... 54920.100170: block_bio_queue: 8,0 R 16 + 8 [fio]
             fio-29751   [001] ..... 54920.100180: block_bio_queue: 7,1 DS 8192 + 8 [fio]
     ksoftirqd/1-22      [001] ..s.. 54920.101000: block_rq_complete: 7,1 RA () 2048 + 16 be,0,4 [0]
             fio-29751   [001] ..... 54920.102150: block_bio_complete: 7,1 WS 4112 + 0 [0]
             fio-29751   [001] ..... 54920.102160: block_bio_complete: 7,1 FWS 0 + 0 [0]
             fio-29751   [001] ..... 54920.102170: block_bio_queue: 7,1 R sixteen + 8 [fio]
";
    let (trace, counts) = recorded(CaptureWriter::new(vec![device("7,1", MIB, 0)], None), lines);
    let expected = "0,Read,0,4096,1000000,1\n100000,Read,4096,4096,900000,2\n\
                    150000,Write,1048576,8192,2000000,1\n160000,Flush,0,0,2000000,1\n\
                    180000,Discard,3145728,4096,,1\n";
    assert_eq!(trace, expected);
    let all = CaptureCounts { written: 5, unfinished: 1, outside: 1, malformed: 1 };
    assert_eq!(counts, all);
    let file = HEADER.to_owned() + &trace;
    let format = TraceFormat::detect(file.as_bytes()).unwrap();
    let units = "by its header: ns, response in ns; bytes";
    assert_eq!((format.name, &*format.units_of(file.as_bytes())), ("msr", units));
}

/// A command such as those of smartctl may have data, and no place.
#[test]
fn the_end_of_a_command_ends_no_request() {
    let queued = "x-1 [000] ..... 1.000100: block_bio_queue: 7,1 R 2048 + 8 [x]\n";
    let of_command =
        "x-1 [000] ..... 1.000200: block_rq_complete: 7,1 N () 18446744073709551615 + 1 [0]\n";
    let far = "x-1 [000] ..... 1.000300: block_bio_queue: 7,1 R 36028797018963968 + 8 [x]\n";
    let writer = CaptureWriter::new(vec![device("7,1", MIB, 0)], None);
    let (trace, counts) = recorded(writer, &[queued, of_command, far].concat());
    assert_eq!((trace.as_str(), counts.malformed), ("0,Read,0,4096,,1\n", 1));
}

/// Journals of file systems flush before they write, in one request. It is the same in a trace.
#[test]
fn a_flush_before_a_write_is_a_request() {
    let line = "x-1 [000] ..... 1.000100: block_bio_queue: 7,1 FWFSM 2048 + 8 [x]\n";
    let end = "x-1 [000] ..... 1.000200: block_bio_complete: 7,1 FWFSM 2048 + 8 [0]\n";
    let writer = CaptureWriter::new(vec![device("7,1", MIB, 0)], None);
    let (trace, counts) = recorded(writer, &[line, end].concat());
    assert_eq!(trace, "0,Flush,0,0,0,1\n0,Write,0,4096,100000,1\n");
    assert_eq!((counts.written, counts.unfinished), (2, 0));
    // Of another partition of the disk.
    let writer = CaptureWriter::new(vec![device("7,1", 2 * MIB, 0)], None);
    let (other, counts) = recorded(writer, line);
    assert_eq!((other.as_str(), counts.outside), ("", 1));

    for (name, text) in [
        ("tracepoints", line),
        ("blkparse", "7,1 0 1 1.000100000 9 Q FWS 2048 + 8 [x]\n"),
        ("capture", &(HEADER.to_owned() + &trace)),
    ] {
        let summary = TestFile::new(name, text).summary(None).unwrap();
        assert_eq!(summary.requests, [0, 1, 0, 1], "{name}");
    }
}

/// The end of a request is lost, and there are more requests than are waited for.
#[test]
fn a_lost_end_spoils_no_other_request() {
    let line = |time: u64, event: &str, sector: u64| {
        format!("x-1 [000] ..... 1.{time:06}: block_{event}: 7,1 R {sector} + 8 [x]\n")
    };
    let recorded =
        |lines: &str| recorded(CaptureWriter::new(vec![device("7,1", 0, 0)], None), lines);
    let (queue, end) = ("bio_queue", "bio_complete");
    let lost = "CPU:1 [LOST 1 EVENTS]\n";
    let lines = [&line(0, queue, 0), lost, &line(100, queue, 0), &line(130, end, 0)].concat();
    let (trace, counts) = recorded(&lines);
    assert_eq!(trace, "0,Read,0,4096,,1\n100000,Read,0,4096,30000,1\n");
    assert_eq!((counts.written, counts.unfinished), (2, 1));

    let mut lines = line(0, queue, 0) + &line(1, queue, 0);
    (1..=1 << 16).for_each(|number| lines += &line(2, queue, 8 * number % 65_536 + 8));
    let (trace, _) = recorded(&(lines + &line(31, end, 0)));
    assert!(trace.starts_with("0,Read,0,4096,,1\n1000,Read,0,4096,,1\n"), "{}", &trace[..64]);
}

/// Reads of either copy are reads of the file system, and a write counts once.
#[test]
fn members_of_btrfs_are_read_together() {
    let chunk = |logical, bytes, copies, stripes: &[(u64, u64)]| BtrfsChunk {
        logical,
        bytes,
        copies,
        stripes: stripes.to_vec(),
    };
    let devices = [("7,1", 1), ("7,2", 2), ("7,3", 3)].map(|(it, devid)| device(it, 0, devid));
    let chunks = vec![
        chunk(256 * MIB, 8 * MIB, 2, &[(1, 2 * MIB), (2, 4 * MIB)]),
        chunk(512 * MIB, 16 * MIB, 2, &[(1, 16 * MIB), (2, 16 * MIB), (3, 0), (4, 0)]),
        chunk(768 * MIB, 8 * MIB, 3, &[(4, 8 * MIB), (2, 32 * MIB), (3, 32 * MIB)]),
    ];
    let line = |device: &str, op: &str, bytes: u64| {
        format!(
            "x-1 [000] ..... 1.000000: block_bio_queue: {device} {op} {} + 8 [x]\n",
            bytes / 512
        )
    };
    let lines = [
        line("7,1", "R", 3 * MIB),
        line("7,2", "R", 5 * MIB),
        line("7,1", "W", 3 * MIB),
        line("7,2", "W", 5 * MIB),
        // The second row of a striped chunk, on its second column.
        line("7,3", "R", 64 << 10),
        // Copies whose first one is on the missing device.
        line("7,2", "W", 32 * MIB),
        line("7,3", "W", 32 * MIB),
        // Superblocks: in front of all chunks of a device.
        line("7,1", "W", 64 << 10),
        line("7,2", "W", 64 << 10),
    ];
    let writer = CaptureWriter::new(devices.to_vec(), Some(ChunkTable::new(chunks, &devices)));
    let (trace, counts) = recorded(writer, &lines.concat());
    let place = |bytes: u64| format!("{bytes},4096,,1\n");
    let first = place(257 * MIB);
    let striped = place(512 * MIB + 3 * (64 << 10));
    let degraded = place(768 * MIB);
    let expected =
        format!("0,Read,{first}0,Read,{first}0,Write,{first}0,Read,{striped}0,Write,{degraded}");
    assert_eq!(trace, expected);
    assert_eq!((counts.written, counts.outside), (5, 2));
}

/// Two readers that take turns, with random writes of a few others between, and two bursts.
#[test]
fn a_fitted_job_has_the_kinds_of_a_trace() {
    let mut text = "Timestamp,Type,Offset,Size,ResponseTime,Process\n".to_owned();
    for index in 0..4000u64 {
        let (time, reader) = (index * 10_000, index % 2);
        let place = reader * (64 << 20) + index / 2 * 4096;
        text += &format!("{time},Read,{place},4096,19000,{reader}\n");
        let place = index * 7919 % 4096 * 16_384;
        text += &format!("{time},Write,{place},8192,5000,{}\n", 2 + index % 4);
    }
    let text = TestFile::new("kinds", &text).summary(None).unwrap().fit("a", u64::MAX).unwrap();
    let sections: Vec<&str> = text.split("\n[").skip(1).collect();
    assert!(sections[0].starts_with("global]"), "{text}");
    for (section, name, options) in [
        (
            1,
            "sequential-reads]",
            &["numjobs=2", "iodepth=1", "size=36764k", "offset_increment=36764k"][..],
        ),
        (2, "random-writes]", &["numjobs=4", "iodepth=1", "thinktime=3499"]),
    ] {
        assert!(sections[section].starts_with(name), "{text}");
        for option in options {
            assert!(sections[section].lines().any(|line| line == *option), "{option}: {text}");
        }
    }
    assert_eq!(sections.len(), 3, "{text}");
}

/// fio cannot have flushes between Poisson arrivals; rare ones are left out.
#[test]
fn flushes_are_fitted_unless_they_are_rare() {
    for (every, option) in [(50, Some("fsync=50")), (2000, None)] {
        let mut text = "Timestamp,Type,Offset,Size\n".to_owned();
        for at in 0..4000u64 {
            let time = at * 100_000 + at * 7919 % 97 * 2_000;
            let flush = format!("{time},Flush,0,0\n");
            let write = format!("{time},Write,{},4096\n", at * 7919 % 4096 * 16_384);
            text += if at % (every + 1) == every { &flush } else { &write };
        }
        let text = TestFile::new("flushes", &text).summary(None).unwrap();
        let text = text.fit("a.csv", u64::MAX).unwrap();
        let found = text.lines().find(|it| it.starts_with("fsync="));
        assert_eq!(found, option, "{text}");
        assert_eq!(text.contains("rate_process=poisson"), option.is_none(), "{text}");
        assert!(!text.contains("; fsync is"), "{text}");
    }
    // Two flushes of three writes.
    let line = |at: u64| match at % 5 {
        0 | 1 => format!("{},Flush,0,0\n", at * 100_000),
        _ => format!("{},Write,{},4096\n", at * 100_000, at * 7919 % 4096 * 16_384),
    };
    let text = "Timestamp,Type,Offset,Size\n".to_owned() + &(0..500).map(line).collect::<String>();
    let text = TestFile::new("some", &text).summary(None).unwrap().fit("a.csv", u64::MAX).unwrap();
    assert!(text.contains("; fsync is a whole number: about 150 flushes, not 200\n"), "{text}");
    // A section of fio has at most one flush for each write.
    let line = |at: u64| match at % 4 {
        0 => format!("{},Write,{},4096\n", at * 100_000, at * 7919 % 4096 * 16_384),
        _ => format!("{},Flush,0,0\n", at * 100_000),
    };
    let text = "Timestamp,Type,Offset,Size\n".to_owned() + &(0..400).map(line).collect::<String>();
    let text = TestFile::new("many", &text).summary(None).unwrap().fit("a.csv", u64::MAX).unwrap();
    assert!(text.contains("fsync=1\n") && text.contains("left out: 200 requests"), "{text}");
}

#[test]
fn discards_few_requests_and_many_streams_are_fitted_within_the_trace() {
    let fitted = |name: &str, lines: String| {
        let text = "Timestamp,Type,Offset,Size\n".to_owned() + &lines;
        TestFile::new(name, &text).summary(None).unwrap().fit("a", u64::MAX).unwrap()
    };
    let discards: String = (0..1995u64)
        .map(|at| format!("{},Discard,{},1048576\n", at * 10_000, at << 20))
        .chain((0..5).map(|at| format!("{},Read,{},4096\n", 20_000_000 + at, at * 99_328 * 512)))
        .collect();
    assert!(fitted("discards", discards).contains("[random-reads]"));
    // 60 reads in 400 s.
    let seldom = (0..60u64).map(|at| {
        let time = at * 66_667_000 + at * 7919 % 97 * 300_000;
        format!("{time},Read,{},4096\n", at * 7919 % 4096 * 16_384)
    });
    let text = fitted("seldom", seldom.collect());
    let rate = text.lines().find_map(|it| it.strip_prefix("rate=")).expect("in bytes a second");
    assert!((500..700).contains(&rate.parse::<u64>().unwrap()), "{text}");
    // Twenty streams, each of 128 KiB.
    let streams = (0..640u64)
        .map(|at| format!("{},Read,{},4096\n", at * 10_000, at % 20 * 131_072 + at / 20 * 4096));
    let text = fitted("streams", streams.collect());
    let number = |key: &str| -> u64 {
        let line = text.lines().find_map(|it| it.strip_prefix(key));
        line.map_or(1, |it| it.trim_end_matches('k').parse().unwrap())
    };
    assert_eq!((number("numjobs="), number("size=")), (19, 132), "{text}");
    // A few blocks far behind the start.
    let few = (0..400u64).map(|at| format!("{},Read,{},4096\n", at * 99_991, FAR + at % 4 * 8192));
    let text = "Timestamp,Type,Offset,Size\n".to_owned() + &few.collect::<String>();
    let few = TestFile::new("few", &text).summary(None).unwrap();
    for (limit, place) in [(u64::MAX, "offset=1048576m\nsize=28k\n"), (MIB, "\nsize=28k\n")] {
        let text = few.fit("a", limit).unwrap();
        assert!(text.contains(place) && text.contains("offset") == (limit > MIB), "{text}");
    }
}
