//! Text of blkparse in its default format: the requests that were queued (action `Q`).
//!
//! A request appears once for each action, so the other actions are skipped: `Q` is the time at
//! which the file system or the application asked. A trace without `Q` has those that were issued
//! to the device (`D`), or only those that were completed (`C`). The summary at the end is skipped
//! too.

use super::{FrameParser, LINES, Parsed, Remaps, TraceFormat, has_preflush, operation, too_few};
use crate::device_names::DeviceNames;
use crate::fields::{blank_fields, decimal, times, unexpected, whole};
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::BLOCK_BYTES;

pub(super) const QUEUED: TraceFormat = TraceFormat {
    name: "blkparse",
    columns: "device cpu sequence time pid action rwbs sector + sectors [process]",
    units: "s; sectors of 512 bytes",
    source: "blkparse, default output; the actions Q are read",
    parser: || Box::new(Parser { action: 0, remaps: Remaps::default() }),
    ..LINES
};

pub(super) const ISSUED: TraceFormat = TraceFormat {
    name: "blkparse-d",
    source: "blkparse of a trace without Q, as of `blktrace -a issue`; the actions D are read",
    parser: || Box::new(Parser { action: 1, remaps: Remaps::default() }),
    ..QUEUED
};

pub(super) const COMPLETED: TraceFormat = TraceFormat {
    name: "blkparse-c",
    units: "s at the completion; sectors of 512 bytes",
    source: "blkparse of a trace without Q and D, as of `blktrace -a complete`",
    parser: || Box::new(Parser { action: 2, remaps: Remaps::default() }),
    ..QUEUED
};

/// Actions that a request passes, in their order.
const ACTIONS: [&[u8]; 3] = [b"Q", b"D", b"C"];

/// The error for an action before that which is read.
pub(super) fn earlier_action(action: usize) -> Diagnostic {
    let name = String::from_utf8_lossy(ACTIONS[action]);
    Diagnostic::new(format!("the trace has actions {name}, which come first"))
        .with_help("name the format blkparse, or blktrace of a binary file, without -d or -c")
}

struct Parser {
    /// Index of the action that is read.
    action: usize,
    remaps: Remaps,
}

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
        match ACTIONS.iter().position(|known| *known == action) {
            Some(action) if action == self.action => {}
            Some(action) if action < self.action => return Err(earlier_action(action)),
            _ if action == b"A" && self.action == 0 => {
                self.remaps.add(device, fields);
                return Ok(None);
            }
            _ => return Ok(None),
        }
        let kind = next()?;
        let is_flush = kind.contains(&b'F');
        let Some(op) = operation(kind)? else { return Ok(None) };
        let device = devices.number(device)?;
        // An empty flush has no sector, or no length; one before or after a write stands in its
        // letters. A command of another kind has its bytes in brackets.
        let (sector, plus) = (fields.next(), fields.next());
        let is_command = plus.is_some_and(|field| field.starts_with(b"("));
        if is_command && op != TraceOp::Flush {
            return Ok(None);
        }
        let (mut offset, mut length) = (0, 0);
        if op != TraceOp::Flush && !(is_flush && plus != Some(b"+")) {
            let (sector, plus) = (sector.ok_or_else(too_few)?, plus.ok_or_else(too_few)?);
            offset = times(whole(sector, "sector")?, BLOCK_BYTES, "sector")?;
            if plus != b"+" {
                return Err(unexpected(plus, "column behind the sector", "`+`"));
            }
            let sectors = whole(fields.next().ok_or_else(too_few)?, "number of sectors")?;
            length = times(sectors, BLOCK_BYTES, "length")?;
        }
        let is_empty = length == 0 && is_flush;
        let (op, offset) = if is_empty { (TraceOp::Flush, 0) } else { (op, offset) };
        let has_preflush = has_preflush(kind, op);
        Ok(Some(RawRecord { has_preflush, ..RawRecord::new(time, op, (offset, length), device) }))
    }

    fn remaps(&self) -> Remaps {
        self.remaps.clone()
    }
}

/// Whether a field is a pair of device numbers, such as `8,0`.
fn is_device(field: &[u8]) -> bool {
    let comma = field.iter().position(|&byte| byte == b',');
    comma.is_some_and(|at| at > 0 && at + 1 < field.len())
        && field.iter().all(|byte| byte.is_ascii_digit() || *byte == b',')
}
