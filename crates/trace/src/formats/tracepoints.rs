//! Text of the kernel's block tracepoints, as `perf script`, `trace-cmd report` and the file
//! `trace` of tracefs print it.
//!
//! A request passes several tracepoints. If the trace has `block_bio_queue`, what the file system
//! asked, those lines are the requests; else those of `block_rq_issue`, what the device was asked.
//! The first of the two in the trace decides. Other events and lines are skipped.

use super::{
    FrameParser, LINES, Parsed, Remaps, TraceFormat, has_preflush, lost_events, operation, too_few,
};
use crate::device_names::DeviceNames;
use crate::fields::{blank_fields, decimal, times, whole};
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::BLOCK_BYTES;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "tracepoints",
    columns: "… time: [block:]EVENT: device rwbs [bytes (command)] sector + sectors …",
    units: "s; sectors of 512 bytes",
    source: "perf script, trace-cmd report, tracefs: block_bio_queue, else block_rq_issue",
    parser: || Box::new(Parser { event: None, remaps: Remaps::default(), lost: 0 }),
    ..LINES
};

struct Parser {
    event: Option<Tracepoint>,
    remaps: Remaps,
    lost: u64,
}

/// The tracepoints that a request passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tracepoint {
    Queue,
    Issue,
    Complete,
    /// A device passes a request on to the one that it lies on.
    Remap,
}

pub(crate) struct TraceLine<'a> {
    pub(crate) event: Tracepoint,
    /// Seconds of a clock, as nanoseconds.
    pub(crate) time: u64,
    pub(crate) process: u32,
    /// Numbers of the device: `8,0`.
    pub(crate) device: &'a [u8],
    /// `None` for what moves no data and flushes nothing.
    pub(crate) op: Option<TraceOp>,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// True for a write before which the device is flushed.
    pub(crate) has_preflush: bool,
}

impl<'a> TraceLine<'a> {
    /// Parses a line; `None` if it is of no tracepoint that is known.
    pub(crate) fn parse(line: &'a [u8]) -> Result<Option<TraceLine<'a>>, Diagnostic> {
        let (mut time, mut process, mut before) = (None, 0, &line[..0]);
        let mut fields = blank_fields(line);
        let event = loop {
            let Some(field) = fields.next() else { return Ok(None) };
            if field.starts_with(b"[") && field.ends_with(b"]") {
                // The processor is behind the process: `fio-77 [002]`, or `77 [002]`.
                let digits = before.rsplit(|byte| *byte == b'-').next().unwrap_or_default();
                process = whole(digits, "process").unwrap_or(0) as u32;
            }
            // The process group may stand between: `fio-77 (   70) [002]`.
            if !field.starts_with(b"(") && !field.ends_with(b")") {
                before = field;
            }
            let Some(word) = field.strip_suffix(b":") else { continue };
            match word.strip_prefix(b"block:").unwrap_or(word) {
                // The name of a process may be that of an event.
                _ if time.is_none() && !word.first().is_some_and(u8::is_ascii_digit) => {}
                b"block_bio_queue" => break Tracepoint::Queue,
                b"block_rq_issue" => break Tracepoint::Issue,
                b"block_bio_remap" => break Tracepoint::Remap,
                b"block_bio_complete" | b"block_rq_complete" => break Tracepoint::Complete,
                other if other.first().is_some_and(u8::is_ascii_digit) => time = Some(other),
                _ => {}
            }
        };
        let time = decimal(time.ok_or_else(too_few)?, 9, "time")?;
        let device = fields.next().ok_or_else(too_few)?;
        let kind = fields.next().ok_or_else(too_few)?;
        let mut sector = None;
        for field in fields.by_ref() {
            if field == b"+" {
                break;
            }
            sector = Some(field);
        }
        let sectors = whole(fields.next().ok_or_else(too_few)?, "number of sectors")?;
        let length = times(sectors, BLOCK_BYTES, "length")?;
        let sector = whole(sector.ok_or_else(too_few)?, "sector")?;
        let (op, is_flush) = (operation(kind)?, kind.contains(&b'F'));
        // A command to the device has the sector -1.
        let end = times(sector.saturating_add(sectors), BLOCK_BYTES, "sector");
        let at = if sector == u64::MAX { None } else { Some(end? - length) };
        let (op, offset) = match (op, length) {
            // One before or after a write stands in its letters; an empty one has no place.
            (Some(_), 0) if is_flush && event != Tracepoint::Complete => (Some(TraceOp::Flush), 0),
            _ if at.is_none() => return Ok(None),
            (Some(TraceOp::Flush), _) => (Some(TraceOp::Write), at.unwrap_or_default()),
            _ => (op, at.unwrap_or_default()),
        };
        let has_preflush = op.is_some_and(|op| has_preflush(kind, op));
        Ok(Some(TraceLine { event, time, process, device, op, offset, length, has_preflush }))
    }
}

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        let Some(parsed) = TraceLine::parse(line)? else {
            self.lost += lost_events(line).unwrap_or(0);
            return Ok(None);
        };
        let TraceLine { event, time, process, device, op, offset, length, has_preflush } = parsed;
        if event == Tracepoint::Remap {
            self.remaps.add(device, blank_fields(line));
            return Ok(None);
        }
        let Some(op) = op.filter(|op| length > 0 || *op == TraceOp::Flush) else { return Ok(None) };
        if event == Tracepoint::Complete || *self.event.get_or_insert(event) != event {
            return Ok(None);
        }
        let device = devices.number(device)?;
        let record = RawRecord::new(time, op, (offset, length), device);
        Ok(Some(RawRecord { process, has_preflush, ..record }))
    }

    fn remaps(&self) -> Remaps {
        match self.event {
            Some(Tracepoint::Queue) => self.remaps.clone(),
            _ => Remaps::default(),
        }
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}
