//! Alibaba block traces of 2020: CSV of 1,000 volumes of a cloud, over January 2020.

use super::{FrameParser, Parsed, TimeOrder, TraceFormat, read_or_write};
use crate::device_names::DeviceNames;
use crate::fields::{comma_fields, times, whole};
use crate::input::Framing;
use crate::record::RawRecord;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "alibaba",
    columns: "device_id,opcode,offset,length,timestamp",
    units: "µs since 1970; bytes",
    source: "Alibaba block traces 2020; times are of receipt at the server",
    has_response: false,
    framing: Framing::Lines,
    order: TimeOrder::Sorted,
    parser: || Box::new(Parser),
};

struct Parser;

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        if line.is_empty() || line.starts_with(b"device_id,") {
            return Ok(None);
        }
        let [device, op, offset, length, time] = comma_fields(line)?;
        let op = read_or_write(op, "R", "W")?;
        let (offset, length) = (whole(offset, "offset")?, whole(length, "length")?);
        let time = times(whole(time, "timestamp")?, 1_000, "timestamp")?;
        let device = devices.number(device)?;
        Ok(Some(RawRecord { time, op, offset, length, device, response: None, process: 0 }))
    }
}
