//! Text of the kernel's block tracepoints, as `perf script`, `trace-cmd report` and the file
//! `trace` of tracefs print it.
//!
//! A request passes several tracepoints. If the trace has `block_bio_queue`, what the file system
//! asked, those lines are the requests; else those of `block_rq_issue`, what the device was asked.
//! The first of the two in the trace decides. Other events and lines are skipped.

use super::{FrameParser, Parsed, TimeOrder, TraceFormat, operation};
use crate::device_names::DeviceNames;
use crate::fields::{OTHER_FORMAT, blank_fields, decimal, times, whole};
use crate::input::Framing;
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::BLOCK_BYTES;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "tracepoints",
    columns: "… time: [block:]EVENT: device rwbs [bytes (command)] sector + sectors …",
    units: "s; sectors of 512 bytes",
    source: "perf script, trace-cmd report, tracefs: block_bio_queue, else block_rq_issue",
    has_response: false,
    framing: Framing::Lines,
    order: TimeOrder::Sorted,
    parser: || Box::new(Parser { event: None }),
};

struct Parser {
    /// The event that is read.
    event: Option<Tracepoint>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracepoint {
    Queue,
    Issue,
}

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        let mut time = None;
        let mut fields = blank_fields(line);
        let event = loop {
            let Some(field) = fields.next() else { return Ok(None) };
            let Some(word) = field.strip_suffix(b":") else { continue };
            match word.strip_prefix(b"block:").unwrap_or(word) {
                b"block_bio_queue" => break Tracepoint::Queue,
                b"block_rq_issue" => break Tracepoint::Issue,
                other if other.first().is_some_and(u8::is_ascii_digit) => time = Some(other),
                _ => {}
            }
        };
        if *self.event.get_or_insert(event) != event {
            return Ok(None);
        }
        let too_few = || Diagnostic::new("the line has too few columns").with_help(OTHER_FORMAT);
        let time = decimal(time.ok_or_else(too_few)?, 9, "time")?;
        let device = fields.next().ok_or_else(too_few)?;
        let Some(op) = operation(fields.next().ok_or_else(too_few)?)? else { return Ok(None) };
        let device = devices.number(device)?;
        let mut sector = None;
        for field in fields.by_ref() {
            if field == b"+" {
                break;
            }
            sector = Some(field);
        }
        let length = whole(fields.next().ok_or_else(too_few)?, "number of sectors")?;
        if length == 0 {
            // An empty flush.
            let flush = (op == TraceOp::Flush).then_some(RawRecord {
                time,
                op,
                offset: 0,
                length: 0,
                device,
                response: None,
            });
            return Ok(flush);
        }
        let length = times(length, BLOCK_BYTES, "length")?;
        let offset = times(whole(sector.ok_or_else(too_few)?, "sector")?, BLOCK_BYTES, "sector")?;
        let op = if op == TraceOp::Flush { TraceOp::Write } else { op };
        Ok(Some(RawRecord { time, op, offset, length, device, response: None }))
    }
}
