//! blktrace's binary files: records of 48 bytes with a payload behind, of the machine's byte order.
//!
//! The requests that were queued are read, as of blkparse's text. blktrace writes a file for each
//! CPU, and `blkparse -d` joins them; see `trace_file` for a file that is one of several.
//!
//! Source: `blktrace_api.h` of Linux, version 7 of the record.

use super::blkparse::earlier_action;
use super::cloudphysics::{u32_at, u64_at};
use super::{FrameParser, Parsed, TimeOrder, TraceFormat};
use crate::device_names::DeviceNames;
use crate::fields::times;
use crate::input::Framing;
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::BLOCK_BYTES;

pub(super) const QUEUED: TraceFormat = TraceFormat {
    name: "blktrace",
    columns: "binary: u32 magic, sequence; u64 time, sector; u32 bytes, action, pid, device, cpu; \
              u16 error, payload",
    units: "ns; sectors of 512 bytes, bytes",
    source: "blktrace, or joined by blkparse -d; the actions Q are read",
    has_response: false,
    framing: Framing::Blktrace,
    order: TimeOrder::Sorted,
    parser: || Box::new(Parser { action: 0 }),
};

pub(super) const ISSUED: TraceFormat = TraceFormat {
    name: "blktrace-d",
    source: "blktrace -a issue: without actions Q, those of D are read",
    parser: || Box::new(Parser { action: 1 }),
    ..QUEUED
};

pub(super) const COMPLETED: TraceFormat = TraceFormat {
    name: "blktrace-c",
    units: "ns at the completion; sectors of 512 bytes, bytes",
    source: "blktrace -a complete: without actions Q and D, those of C are read",
    parser: || Box::new(Parser { action: 2 }),
    ..QUEUED
};

/// Magic number and version of a record.
const MAGIC: u32 = 0x6561_7407;
/// The actions of a request that was queued, issued and completed.
const ACTIONS: [u32; 3] = [1, 7, 8];
/// Categories, in the upper half of an action.
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const COMMAND: u32 = 1 << 9;
const NOTIFY: u32 = 1 << 10;
const DISCARD: u32 = 1 << 13;

struct Parser {
    /// Index of the action that is read.
    action: usize,
}

impl FrameParser for Parser {
    fn parse(&mut self, frame: &[u8], devices: &mut DeviceNames) -> Parsed {
        if u32_at(frame, 0) != MAGIC {
            let message = format!("the record begins with {:#x}, not {MAGIC:#x}", u32_at(frame, 0));
            let help = "is it of a machine with another byte order, or another format?";
            return Err(Diagnostic::new(message).with_help(help));
        }
        let action = u32_at(frame, 28);
        let (action, category) = (action & 0xffff, action >> 16);
        if category & (COMMAND | NOTIFY) != 0 {
            return Ok(None);
        }
        match ACTIONS.iter().position(|known| *known == action) {
            Some(action) if action == self.action => {}
            Some(action) if action < self.action => return Err(earlier_action(action)),
            _ => return Ok(None),
        }
        let length = u64::from(u32_at(frame, 24));
        let op = match () {
            () if length == 0 && category & FLUSH != 0 => TraceOp::Flush,
            () if length == 0 => return Ok(None),
            () if category & DISCARD != 0 => TraceOp::Trim,
            () if category & WRITE != 0 => TraceOp::Write,
            () => TraceOp::Read,
        };
        let sector = if op == TraceOp::Flush { 0 } else { u64_at(frame, 16) };
        let offset = times(sector, BLOCK_BYTES, "sector")?;
        let number = u32_at(frame, 36);
        let name = format!("{},{}", number >> 20, number & 0xf_ffff);
        let device = devices.number(name.as_bytes())?;
        let has_preflush = op == TraceOp::Write && category & FLUSH != 0;
        let record = RawRecord::new(u64_at(frame, 8), op, (offset, length), device);
        Ok(Some(RawRecord { has_preflush, ..record }))
    }
}
