//! fio's iologs, `write_iolog`: version 2 before fio 3.31, and version 3 since.
//!
//! Lines of version 2 are `file add`, `file open`, `file close`, `file read|write|trim offset
//! length`, `file sync|datasync`, and `file wait microseconds`. Waits are relative to the one
//! before, so the time of a request is the sum of the waits above it. fio discards waits below 100
//! µs. Version 3 has the time in µs in front of each line and no waits. fio 3.33 does not log
//! flushes.

use super::{FrameParser, LINES, Parsed, TimeOrder, TraceFormat, too_few};
use crate::device_names::DeviceNames;
use crate::fields::{blank_fields, times, unexpected, whole};
use crate::record::{RawRecord, TraceOp};

pub(super) const V2: TraceFormat = TraceFormat {
    name: "fio-v2",
    columns: "`fio version 2 iolog`, then: file action [offset length]",
    units: "waits in µs; bytes",
    source: "fio before 3.31, write_iolog",
    order: TimeOrder::AsWritten,
    parser: || Box::new(Parser { header: "fio version 2 iolog", has_header: false, time: 0 }),
    ..LINES
};

pub(super) const V3: TraceFormat = TraceFormat {
    name: "fio-v3",
    columns: "`fio version 3 iolog`, then: time file action [offset length]",
    units: "µs; bytes",
    source: "fio since 3.31, write_iolog",
    order: TimeOrder::AsWritten,
    parser: || Box::new(Parser { header: "fio version 3 iolog", has_header: false, time: 0 }),
    ..LINES
};

/// Waits that fio discards.
const WAIT_US_MIN: u64 = 100;

struct Parser {
    header: &'static str,
    has_header: bool,
    time: u64,
}

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        if !self.has_header {
            if line.trim_ascii() != self.header.as_bytes() {
                return Err(unexpected(line, "first line", &format!("`{}`", self.header)));
            }
            self.has_header = true;
            return Ok(None);
        }
        let mut fields = blank_fields(line).peekable();
        if fields.peek().is_none() {
            return Ok(None);
        }
        let has_times = self.header == "fio version 3 iolog";
        if has_times && let Some(time) = fields.next() {
            self.time = times(whole(time, "time")?, 1_000, "time")?;
        }
        let (file, action) = fields.next().zip(fields.next()).ok_or_else(too_few)?;
        let mut number = |name| whole(fields.next().unwrap_or(b""), name);
        let op = match action {
            b"read" => TraceOp::Read,
            b"write" => TraceOp::Write,
            b"trim" => TraceOp::Trim,
            b"sync" | b"datasync" | b"sync_file_range" => TraceOp::Flush,
            b"add" | b"open" | b"close" => return Ok(None),
            b"wait" if !has_times => {
                let wait = Some(number("wait")?).filter(|&wait| wait >= WAIT_US_MIN);
                let wait = times(wait.unwrap_or(0), 1_000, "wait")?;
                self.time = self.time.saturating_add(wait);
                return Ok(None);
            }
            _ => return Err(unexpected(action, "action", "an action of an iolog")),
        };
        let device = devices.number(file)?;
        let range = match op {
            TraceOp::Flush => (0, 0),
            _ => (number("offset")?, number("length")?),
        };
        Ok(Some(RawRecord::new(self.time, op, range, device)))
    }
}
