//! SYSTOR '17: CSV of the LUNs of a virtual desktop service, over a month of 2016.
//!
//! A request without an operation got no response while it was recorded, and is skipped. The
//! response time may be missing.
//!
//! Source: the README of the traces, SNIA IOTTA block I/O traces 4964. `Timestamp` is the time of
//! issue in seconds since 1970 with nine digits behind the point, exact to the microsecond; offsets
//! and sizes are in bytes. The README does not state the unit of `Response`: the values, such as
//! 0.000806000, are seconds.

use super::{FrameParser, Parsed, TimeOrder, TraceFormat, read_or_write};
use crate::device_names::DeviceNames;
use crate::fields::{comma_fields, decimal, whole};
use crate::input::Framing;
use crate::record::RawRecord;
use mirrorball_core::units::Nanos;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "systor",
    columns: "Timestamp,Response,IOType,LUN,Offset,Size",
    units: "s since 1970, response in s; bytes",
    source: "SYSTOR '17, SNIA IOTTA 4964",
    has_response: true,
    framing: Framing::Lines,
    order: TimeOrder::Sorted,
    parser: || Box::new(Parser),
};

struct Parser;

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        if line.is_empty() || line.starts_with(b"Timestamp,") {
            return Ok(None);
        }
        let [time, response, op, lun, offset, length] = comma_fields(line)?;
        let time = decimal(time, 9, "Timestamp")?;
        if op.is_empty() {
            return Ok(None);
        }
        let op = read_or_write(op, "R", "W")?;
        let response = match response {
            b"" => None,
            response => Some(Nanos(decimal(response, 9, "Response")?)),
        };
        let (offset, length) = (whole(offset, "Offset")?, whole(length, "Size")?);
        let device = devices.number(lun)?;
        Ok(Some(RawRecord { time, op, offset, length, device, response, process: 0 }))
    }
}
