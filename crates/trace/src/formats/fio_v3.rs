//! fio's iolog, version 3: `write_iolog` since fio 3.31.
//!
//! As version 2, with the time in µs in front of each line and without waits. fio 3.33 does not log
//! flushes.

use super::fio_v2::{empty_or_short, header, record};
use super::{FrameParser, Parsed, TimeOrder, TraceFormat};
use crate::device_names::DeviceNames;
use crate::fields::{blank_fields, times, whole};
use crate::input::Framing;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "fio-v3",
    columns: "`fio version 3 iolog`, then: time file action [offset length]",
    units: "µs; bytes",
    source: "fio since 3.31, write_iolog",
    has_response: false,
    framing: Framing::Lines,
    order: TimeOrder::AsWritten,
    parser: || Box::new(Parser { has_header: false }),
};

struct Parser {
    has_header: bool,
}

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        if !self.has_header {
            self.has_header = header(line, b"fio version 3 iolog")?;
            return Ok(None);
        }
        let mut fields = blank_fields(line);
        let (Some(time), Some(file), Some(action)) = (fields.next(), fields.next(), fields.next())
        else {
            return empty_or_short(line);
        };
        let time = times(whole(time, "time")?, 1_000, "time")?;
        record(file, action, fields, time, devices)
    }
}
