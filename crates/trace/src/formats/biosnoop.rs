//! Output of biosnoop of the BPF compiler collection.
//!
//! The time is that of the completion, so a request began its latency earlier. The name of a
//! process may have blanks, so columns are counted from the right, and the header tells whether
//! there is a column `QUE(ms)`: with it the time before the device is part of the response time.

use super::{FrameParser, Parsed, TimeOrder, TraceFormat};
use crate::device_names::DeviceNames;
use crate::fields::{OTHER_FORMAT, blank_fields, decimal, times, unexpected, whole};
use crate::input::Framing;
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{BLOCK_BYTES, Nanos};

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "biosnoop",
    columns: "TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms), with this header",
    units: "s at the completion, latencies in ms; sectors of 512 bytes, bytes",
    source: "biosnoop of bcc",
    has_response: true,
    framing: Framing::Lines,
    order: TimeOrder::Sorted,
    parser: || Box::new(Parser { columns: 0 }),
};

/// Columns without the queue.
const COLUMNS: usize = 8;
/// Where the columns behind the process begin.
const TAIL: usize = 2;
/// Columns behind the process, at most.
const TAIL_MAX: usize = 7;

struct Parser {
    /// Number of columns of the header; zero before the header.
    columns: usize,
}

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        let Some(first) = blank_fields(line).next() else { return Ok(None) };
        if self.columns == 0 {
            if !matches!(first, b"Tracing" | b"Attaching") {
                self.columns = header(line)?;
            }
            return Ok(None);
        }
        // From the right: LAT, QUE if there is one, BYTES, SECTOR, T, DISK, PID.
        let wanted = self.columns - TAIL;
        let mut tail = [&line[..0]; TAIL_MAX];
        let mut from_right =
            line.rsplit(|byte| byte.is_ascii_whitespace()).filter(|field| !field.is_empty());
        for slot in &mut tail[..wanted] {
            *slot = from_right.next().unwrap_or(b"");
        }
        // A request without a disk leaves its column blank, so the PID stands in its place.
        let at_disk = if self.columns > COLUMNS { 5 } else { 4 };
        let has_disk = !tail[at_disk].iter().all(u8::is_ascii_digit);
        if from_right.nth(usize::from(has_disk)).is_none() {
            return Err(Diagnostic::new("the line has too few columns").with_help(OTHER_FORMAT));
        }
        let has_queue = self.columns > COLUMNS;
        let latency = times(decimal(tail[0], 6, "LAT(ms)")?, 1, "LAT(ms)")?;
        let queued = if has_queue { decimal(tail[1], 6, "QUE(ms)")? } else { 0 };
        let [bytes, sector, kind, disk] = match has_queue {
            true => [tail[2], tail[3], tail[4], tail[5]],
            false => [tail[1], tail[2], tail[3], tail[4]],
        };
        let disk = if has_disk { disk } else { b"?" };
        // libbpf-tools write letters behind the first: `RA` for read-ahead, `WS` for synchronous.
        let op = match kind.first() {
            _ if bytes == b"0" => return Ok(None),
            Some(b'R') => TraceOp::Read,
            Some(b'W') => TraceOp::Write,
            Some(b'D') => TraceOp::Trim,
            Some(b'F' | b'N') => return Ok(None),
            _ => return Err(unexpected(kind, "column T", "R, W, D, F or N")),
        };
        let response = latency.saturating_add(queued);
        let completion = decimal(first, 9, "TIME(s)")?;
        let offset = times(whole(sector, "SECTOR")?, BLOCK_BYTES, "SECTOR")?;
        let length = whole(bytes, "BYTES")?;
        let device = devices.number(disk)?;
        // The clock begins with the first completion, so earlier arrivals are before its zero.
        let time = completion.saturating_add(EARLIEST_NS).saturating_sub(response);
        let response = Some(Nanos(response));
        Ok(Some(RawRecord { time, op, offset, length, device, response, process: 0 }))
    }
}

/// Added to every time, so that a request that arrived before the clock began has one.
const EARLIEST_NS: u64 = 3_600_000_000_000;

fn header(line: &[u8]) -> Result<usize, Diagnostic> {
    let names = [&b"TIME(s)"[..], b"COMM", b"PID", b"DISK", b"T", b"SECTOR", b"BYTES"];
    let fields: Vec<&[u8]> = blank_fields(line).collect();
    if !fields.starts_with(&names) {
        return Err(unexpected(line, "first line", "the header of biosnoop"));
    }
    match fields[names.len()..] {
        [b"LAT(ms)"] => Ok(COLUMNS),
        [b"QUE(ms)", b"LAT(ms)"] => Ok(COLUMNS + 1),
        _ => {
            let help = "run biosnoop without further options, or with -Q";
            Err(Diagnostic::new("the columns behind BYTES are unknown").with_help(help))
        }
    }
}
