//! Text of blkparse in its default format: the requests that were queued (action `Q`).
//!
//! A request appears once for each action, so the other actions are skipped: `Q` is the time at
//! which the file system or the application asked. The summary at the end is skipped too.

use super::{FrameParser, Parsed, TimeOrder, TraceFormat, operation};
use crate::device_names::DeviceNames;
use crate::fields::{OTHER_FORMAT, blank_fields, decimal, times, unexpected, whole};
use crate::input::Framing;
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::BLOCK_BYTES;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "blkparse",
    columns: "device cpu sequence time pid action rwbs sector + sectors [process]",
    units: "s; sectors of 512 bytes",
    source: "blkparse, default output; the actions Q are read",
    has_response: false,
    framing: Framing::Lines,
    order: TimeOrder::Sorted,
    parser: || Box::new(Parser),
};

struct Parser;

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        let mut fields = blank_fields(line);
        let Some(device) = fields.next() else { return Ok(None) };
        if !is_device(device) {
            if line.contains(&b':') {
                return Ok(None);
            }
            return Err(unexpected(device, "device", "a pair of numbers such as 8,0"));
        }
        let mut next = || fields.next().ok_or_else(too_few);
        let (_cpu, _sequence, time, _pid, action) = (next()?, next()?, next()?, next()?, next()?);
        let time = decimal(time, 9, "time")?;
        if action != b"Q" {
            return Ok(None);
        }
        let kind = next()?;
        let has = |letter| kind.contains(&letter);
        let Some(op) = operation(kind)? else { return Ok(None) };
        let device = devices.number(device)?;
        let (mut offset, mut length) = (0, 0);
        let sector = fields.next().filter(|field| !(has(b'F') && field.starts_with(b"[")));
        let mut next = || fields.next().ok_or_else(too_few);
        // An empty flush has no sector; one before or after a write stands in its letters.
        if op != TraceOp::Flush && (sector.is_some() || !has(b'F')) {
            let sector = sector.ok_or_else(too_few)?;
            offset = times(whole(sector, "sector")?, BLOCK_BYTES, "sector")?;
            let plus = next()?;
            if plus != b"+" {
                return Err(unexpected(plus, "column behind the sector", "`+`"));
            }
            length = times(whole(next()?, "number of sectors")?, BLOCK_BYTES, "length")?;
        }
        let empty = length == 0 && has(b'F');
        let op = if empty { TraceOp::Flush } else { op };
        let offset = if empty { 0 } else { offset };
        Ok(Some(RawRecord { time, op, offset, length, device, response: None, process: 0 }))
    }
}

fn too_few() -> Diagnostic {
    Diagnostic::new("the line has too few columns").with_help(OTHER_FORMAT)
}

/// Whether a field is a pair of device numbers, such as `8,0`.
fn is_device(field: &[u8]) -> bool {
    let comma = field.iter().position(|&byte| byte == b',');
    comma.is_some_and(|at| at > 0 && at + 1 < field.len())
        && field.iter().all(|byte| byte.is_ascii_digit() || *byte == b',')
}
