//! SPC trace format, version 1: the traces Financial and WebSearch of UMass.

use super::{FrameParser, Parsed, TimeOrder, TraceFormat, read_or_write};
use crate::device_names::DeviceNames;
use crate::fields::{OTHER_FORMAT, decimal, times, whole};
use crate::input::Framing;
use crate::record::RawRecord;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::BLOCK_BYTES;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "spc",
    columns: "ASU,LBA,size,opcode,timestamp[,more]",
    units: "s; LBA in sectors of 512 bytes, size in bytes",
    source: "UMass trace repository: Financial, WebSearch",
    has_response: false,
    framing: Framing::Lines,
    order: TimeOrder::Sorted,
    parser: || Box::new(Parser),
};

struct Parser;

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        if line.is_empty() {
            return Ok(None);
        }
        // The format allows further columns.
        let mut fields = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        let mut next = || {
            let short = || Diagnostic::new("the line has too few columns").with_help(OTHER_FORMAT);
            fields.next().ok_or_else(short)
        };
        let (unit, block, length, op, time) = (next()?, next()?, next()?, next()?, next()?);
        let offset = times(whole(block, "LBA")?, BLOCK_BYTES, "LBA")?;
        let length = whole(length, "size")?;
        let op = read_or_write(op, "R", "W")?;
        let time = decimal(time, 9, "timestamp")?;
        let device = devices.number(unit)?;
        Ok(Some(RawRecord { time, op, offset, length, device, response: None, process: 0 }))
    }
}
