//! MSR Cambridge: CSV of 36 volumes of 13 servers, over a week of 2007.

use super::{FrameParser, Parsed, TimeOrder, TraceFormat, read_or_write};
use crate::device_names::DeviceNames;
use crate::fields::{comma_fields, times, whole};
use crate::input::Framing;
use crate::record::RawRecord;
use mirrorball_core::units::Nanos;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "msr",
    columns: "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
    units: "100 ns since 1601, response in 100 ns; bytes",
    source: "MSR Cambridge, SNIA IOTTA 388",
    has_response: true,
    framing: Framing::Lines,
    order: TimeOrder::Sorted,
    parser: || Box::new(Parser { name: Vec::new() }),
};

/// Nanoseconds in a unit of its clock.
const TICK_NS: u64 = 100;

struct Parser {
    /// Host and disk, as `host.disk`.
    name: Vec<u8>,
}

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        if line.is_empty() || line.starts_with(b"Timestamp,") {
            return Ok(None);
        }
        let [time, host, disk, op, offset, length, response] = comma_fields(line)?;
        let time = times(whole(time, "Timestamp")?, TICK_NS, "Timestamp")?;
        let op = read_or_write(op, "Read", "Write")?;
        let (offset, length) = (whole(offset, "Offset")?, whole(length, "Size")?);
        let response = times(whole(response, "ResponseTime")?, TICK_NS, "ResponseTime")?;
        self.name.clear();
        self.name.extend_from_slice(host);
        self.name.push(b'.');
        self.name.extend_from_slice(disk);
        let device = devices.number(&self.name)?;
        Ok(Some(RawRecord { time, op, offset, length, device, response: Some(Nanos(response)) }))
    }
}
