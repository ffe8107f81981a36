//! Binary traces whose records have no fixed length or no operation.

use crate::formats::TraceFormat;
use crate::record::TraceOp;
use crate::tests::{detected, read_all, reader};
use crate::trace_file::TraceFile;

/// A record of blktrace with a payload of so many bytes.
fn blktrace_record(time: u64, sector: u64, bytes: u32, action: u32, payload: u16) -> Vec<u8> {
    let mut record = 0x6561_7407_u32.to_le_bytes().to_vec();
    record.extend(1_u32.to_le_bytes());
    record.extend(time.to_le_bytes());
    record.extend(sector.to_le_bytes());
    for word in [bytes, action, 77, 8 << 20 | 16, 3] {
        record.extend(word.to_le_bytes());
    }
    record.extend([0, 0]);
    record.extend(payload.to_le_bytes());
    record.extend(vec![b'x'; usize::from(payload)]);
    record
}

#[test]
fn binary_files_of_blktrace_are_read_and_one_of_several_is_refused() {
    let [read, write, flush, notify] = [1, 2, 4, 1 << 10].map(|category: u32| category << 16);
    let bytes = [
        blktrace_record(5, 0, 0, notify, 6),
        blktrace_record(1_000, 16, 4096, read | 1, 0),
        blktrace_record(1_100, 16, 4096, read | 7, 0),
        blktrace_record(3_000, u64::MAX, 0, write | flush | 1, 0),
        blktrace_record(4_000, 2048, 512, write | 1, 2),
    ]
    .concat();
    assert_eq!(detected(&bytes), Ok("blktrace"));
    let format = TraceFormat::by_name("blktrace").unwrap();
    let records = read_all(reader(&bytes, format, None, 1)).unwrap();
    let seen: Vec<_> =
        records.iter().map(|it| (it.arrival.0, it.op, it.offset, it.length)).collect();
    let flushed = (2_000, TraceOp::Flush, 0, 0);
    assert_eq!(
        seen,
        [(0, TraceOp::Read, 8192, 4096), flushed, (3_000, TraceOp::Write, 1 << 20, 512)]
    );
    let issued = [blktrace_record(5, 8, 512, read | 7, 0), blktrace_record(9, 8, 512, read | 8, 0)];
    assert_eq!(detected(&issued.concat()), Ok("blktrace-d"));
    assert_eq!(detected(&issued[1]), Ok("blktrace-c"));
    assert_eq!(detected(&[issued[1].repeat(9), bytes.clone()].concat()), Ok("blktrace"));
    let early = [&issued[0][..], &bytes].concat();
    let early = read_all(reader(&early, TraceFormat::by_name("blktrace-d").unwrap(), None, 1));
    assert!(early.unwrap_err().contains("the trace has actions Q, which come first"));
    let cut = read_all(reader(&bytes[..bytes.len() - 1], format, None, 1)).unwrap_err();
    assert!(cut.contains("the last record has 49 of 50 bytes"), "{cut}");
    let folder = tempfile::tempdir().unwrap();
    let place = |cpu: u32| folder.path().join(format!("sda.blktrace.{cpu}"));
    std::fs::write(place(0), &bytes).unwrap();
    assert!(TraceFile::new(place(0), None, None).is_ok(), "the only one");
    std::fs::write(place(1), &bytes).unwrap();
    let error = TraceFile::new(place(0), None, None).unwrap_err().to_string();
    assert!(error.contains("one of 2 files, one for each CPU"), "{error}");
}

#[test]
fn requests_of_oracle_general_are_reads_of_their_objects() {
    let record = |time: u32, object: u64, size: u32, next: i64| {
        [&time.to_le_bytes()[..], &object.to_le_bytes(), &size.to_le_bytes(), &next.to_le_bytes()]
            .concat()
    };
    let bytes = [record(9, 16, 4096, 2), record(9, 64, 512, -1), record(10, 16, 4096, -1)].concat();
    assert_eq!(detected(&bytes), Ok("oracle-general"));
    let format = TraceFormat::by_name("oracle-general").unwrap();
    let records = read_all(reader(&bytes, format, None, 1)).unwrap();
    let seen: Vec<_> = records.iter().map(|it| (it.op, it.offset, it.length)).collect();
    assert_eq!(seen[..2], [(TraceOp::Read, 8192, 4096), (TraceOp::Read, 32768, 512)]);
}
