//! DiskSim's ASCII traces, and those of MQSim, which has its columns with a clock in whole
//! nanoseconds: a time with a point is one of DiskSim.

use super::{FrameParser, Parsed, TimeOrder, TraceFormat};
use crate::device_names::DeviceNames;
use crate::fields::{OTHER_FORMAT, blank_fields, decimal, times, unexpected, whole};
use crate::input::Framing;
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::BLOCK_BYTES;

pub(super) const DISKSIM: TraceFormat = TraceFormat {
    name: "disksim",
    columns: "time device sector sectors flags; flag 1 is a read",
    units: "ms with a point; sectors of 512 bytes",
    source: "DiskSim, ASCII",
    has_response: false,
    framing: Framing::Lines,
    order: TimeOrder::Sorted,
    parser: || Box::new(Parser { has_point: true }),
};

pub(super) const MQSIM: TraceFormat = TraceFormat {
    name: "mqsim",
    columns: "time device sector sectors type; type 1 is a read",
    units: "ns; sectors of 512 bytes",
    source: "MQSim, ASCII",
    has_response: false,
    framing: Framing::Lines,
    order: TimeOrder::Sorted,
    parser: || Box::new(Parser { has_point: false }),
};

struct Parser {
    /// Whether times are milliseconds with a point, else nanoseconds.
    has_point: bool,
}

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        let mut fields = blank_fields(line);
        let Some(time) = fields.next().filter(|it| !it.starts_with(b"#")) else { return Ok(None) };
        if time.contains(&b'.') != self.has_point {
            let wanted = if self.has_point { "ms with a point" } else { "a whole number of ns" };
            return Err(unexpected(time, "time", wanted));
        }
        let digits = if self.has_point { 6 } else { 0 };
        let time = decimal(time, digits, "time")?;
        let mut next = || {
            let short = || Diagnostic::new("the line has too few columns").with_help(OTHER_FORMAT);
            fields.next().ok_or_else(short)
        };
        let (device, sector, count, flags) = (next()?, next()?, next()?, next()?);
        if let Some(more) = fields.next() {
            return Err(unexpected(more, "sixth column", "there in this format"));
        }
        whole(device, "device")?;
        let offset = times(whole(sector, "sector")?, BLOCK_BYTES, "sector")?;
        let length = times(whole(count, "number of sectors")?, BLOCK_BYTES, "length")?;
        // Of the flags in hexadecimal the lowest is that of a read.
        let text = std::str::from_utf8(flags).unwrap_or_default();
        let flags = u64::from_str_radix(text, 16)
            .map_err(|_| unexpected(flags, "flags", "a hexadecimal number"))?;
        let op = if flags & 1 == 1 { TraceOp::Read } else { TraceOp::Write };
        let device = devices.number(device)?;
        Ok(Some(RawRecord { time, op, offset, length, device, response: None, process: 0 }))
    }
}
