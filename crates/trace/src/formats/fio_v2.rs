//! fio's iolog, version 2: `write_iolog` before fio 3.31.
//!
//! Lines are `file add`, `file open`, `file close`, `file read|write|trim offset length`, `file
//! sync|datasync`, and `file wait microseconds`. Waits are relative to the one before, so the time
//! of a request is the sum of the waits above it. fio discards waits below 100 µs.

use super::{FrameParser, Parsed, TimeOrder, TraceFormat};
use crate::device_names::DeviceNames;
use crate::fields::{OTHER_FORMAT, blank_fields, times, unexpected, whole};
use crate::input::Framing;
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::diagnostic::Diagnostic;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "fio-v2",
    columns: "`fio version 2 iolog`, then: file action [offset length]",
    units: "waits in µs; bytes",
    source: "fio before 3.31, write_iolog",
    has_response: false,
    framing: Framing::Lines,
    order: TimeOrder::AsWritten,
    parser: || Box::new(Parser { has_header: false, time: 0 }),
};

/// Waits that fio discards.
const WAIT_US_MIN: u64 = 100;

struct Parser {
    has_header: bool,
    time: u64,
}

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        if !self.has_header {
            self.has_header = header(line, b"fio version 2 iolog")?;
            return Ok(None);
        }
        let mut fields = blank_fields(line);
        let (Some(file), Some(action)) = (fields.next(), fields.next()) else {
            return empty_or_short(line);
        };
        if action == b"wait" {
            let wait = whole(fields.next().unwrap_or(b""), "wait")?;
            if wait >= WAIT_US_MIN {
                self.time = self.time.saturating_add(times(wait, 1_000, "wait")?);
            }
            return Ok(None);
        }
        record(file, action, fields, self.time, devices)
    }
}

/// Checks the first line of an iolog.
pub(super) fn header(line: &[u8], wanted: &[u8]) -> Result<bool, Diagnostic> {
    if line.trim_ascii() == wanted {
        return Ok(true);
    }
    let wanted = format!("`{}`", String::from_utf8_lossy(wanted));
    Err(unexpected(line, "first line", &wanted))
}

/// A line without the columns that every line has.
pub(super) fn empty_or_short(line: &[u8]) -> Parsed {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    Err(Diagnostic::new("the line has too few columns").with_help(OTHER_FORMAT))
}

/// A request, or `None` for an action on the file itself.
pub(super) fn record<'a>(
    file: &[u8],
    action: &[u8],
    mut fields: impl Iterator<Item = &'a [u8]>,
    time: u64,
    devices: &mut DeviceNames,
) -> Parsed {
    let op = match action {
        b"read" => TraceOp::Read,
        b"write" => TraceOp::Write,
        b"trim" => TraceOp::Trim,
        b"sync" | b"datasync" | b"sync_file_range" => TraceOp::Flush,
        b"add" | b"open" | b"close" => return Ok(None),
        _ => return Err(unexpected(action, "action", "an action of an iolog")),
    };
    let device = devices.number(file)?;
    if op == TraceOp::Flush {
        return Ok(Some(RawRecord {
            time,
            op,
            offset: 0,
            length: 0,
            device,
            response: None,
            process: 0,
        }));
    }
    let offset = whole(fields.next().unwrap_or(b""), "offset")?;
    let length = whole(fields.next().unwrap_or(b""), "length")?;
    Ok(Some(RawRecord { time, op, offset, length, device, response: None, process: 0 }))
}
