//! MSR Cambridge: CSV of 36 volumes of 13 servers, over a week of 2007.

use super::{FrameParser, Parsed, TimeOrder, TraceFormat, read_or_write};
use crate::device_names::DeviceNames;
use crate::fields::{comma_fields, times, unexpected, whole};
use crate::input::Framing;
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::Nanos;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "msr",
    columns: "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime, or as a header says",
    units: "100 ns since 1601, response in 100 ns; bytes",
    source: "MSR Cambridge, SNIA IOTTA 388; mirrorball capture",
    has_response: true,
    framing: Framing::Lines,
    order: TimeOrder::Sorted,
    parser: || Box::new(Parser { name: Vec::new(), places: None }),
};

/// Nanoseconds in a unit of its clock.
const TICK_NS: u64 = 100;

/// The columns in their order, with the names that headers have for them.
const COLUMNS: [&[&str]; 8] = [
    &["timestamp", "time", "arrivaltime"],
    &["hostname", "host", "server"],
    &["disknumber", "disk", "diskid", "volume", "lun"],
    &["type", "op", "operation", "iotype", "rw"],
    &["offset", "byteoffset"],
    &["size", "length", "bytes", "iosize"],
    &["responsetime", "response", "latency"],
    &["process"],
];

struct Parser {
    /// Host and disk, as `host.disk`.
    name: Vec<u8>,
    /// Where each column is, if a header said so: `None` within for one that is not there.
    places: Option<[Option<usize>; 8]>,
}

fn header(line: &[u8]) -> Result<[Option<usize>; 8], Diagnostic> {
    let text = String::from_utf8_lossy(line).to_lowercase();
    let names: Vec<String> = text
        .split(',')
        .map(|name| name.chars().filter(char::is_ascii_alphanumeric).collect())
        .collect();
    let places = COLUMNS.map(|known| names.iter().position(|it| known.contains(&it.as_str())));
    // Host, disk, response time and process may be missing.
    match [0, 3, 4, 5].iter().all(|column| places[*column].is_some()) {
        true => Ok(places),
        false => Err(unexpected(line, "header", "one with Timestamp, Type, Offset and Size")),
    }
}

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        if line.is_empty() || line[0] == b'#' {
            return Ok(None);
        }
        if line[0].is_ascii_alphabetic() {
            self.places = Some(header(line)?);
            return Ok(None);
        }
        let [time, host, disk, op, offset, length, response, process] = match self.places {
            None => {
                let [time, host, disk, op, offset, length, response] = comma_fields(line)?;
                [time, host, disk, op, offset, length, response, b""]
            }
            Some(places) => {
                let fields: Vec<&[u8]> =
                    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
                places.map(|at| at.and_then(|at| fields.get(at)).copied().unwrap_or(b""))
            }
        };
        let time = times(whole(time, "Timestamp")?, TICK_NS, "Timestamp")?;
        let op = match op {
            b"R" | b"r" => TraceOp::Read,
            b"W" | b"w" => TraceOp::Write,
            b"Discard" => TraceOp::Trim,
            b"Flush" => TraceOp::Flush,
            _ => read_or_write(op, "Read", "Write")?,
        };
        let (offset, length) = (whole(offset, "Offset")?, whole(length, "Size")?);
        let response = match response {
            b"" => None,
            ticks => Some(Nanos(times(whole(ticks, "ResponseTime")?, TICK_NS, "ResponseTime")?)),
        };
        let process = if process.is_empty() { 0 } else { whole(process, "Process")? as u32 };
        self.name.clear();
        self.name.extend_from_slice(host);
        self.name.push(b'.');
        self.name.extend_from_slice(disk);
        let device = devices.number(&self.name)?;
        Ok(Some(RawRecord { time, op, offset, length, device, response, process }))
    }
}
