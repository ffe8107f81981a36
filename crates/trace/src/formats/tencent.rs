//! Tencent CBS: CSV of 5,584 volumes of a cloud, over ten days of 2018.
//!
//! The clock counts whole seconds. Offsets and sizes are in sectors, as SNIA publishes it; copies
//! with bytes exist; their content does not show it.

use super::{FrameParser, Parsed, TimeOrder, TraceFormat};
use crate::device_names::DeviceNames;
use crate::fields::{comma_fields, times, unexpected, whole};
use crate::input::Framing;
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::units::BLOCK_BYTES;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "tencent",
    columns: "Timestamp,Offset,Size,IOType,VolumeID",
    units: "whole seconds since 1970; sectors of 512 bytes; 0 reads, 1 writes",
    source: "Tencent CBS, SNIA IOTTA 27917",
    has_response: false,
    framing: Framing::Lines,
    order: TimeOrder::WholeSeconds,
    parser: || Box::new(Parser),
};

struct Parser;

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        if line.is_empty() || line.starts_with(b"Timestamp,") {
            return Ok(None);
        }
        let [time, offset, length, op, device] = comma_fields(line)?;
        let op = match op {
            b"0" => TraceOp::Read,
            b"1" => TraceOp::Write,
            _ => return Err(unexpected(op, "IOType", "0 or 1")),
        };
        let time = times(whole(time, "Timestamp")?, 1_000_000_000, "Timestamp")?;
        let offset = times(whole(offset, "Offset")?, BLOCK_BYTES, "Offset")?;
        let length = times(whole(length, "Size")?, BLOCK_BYTES, "Size")?;
        let device = devices.number(device)?;
        Ok(Some(RawRecord { time, op, offset, length, device, response: None, process: 0 }))
    }
}
