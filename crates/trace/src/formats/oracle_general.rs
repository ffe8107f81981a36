//! libCacheSim's oracleGeneral: 24 bytes, little-endian: time in seconds (32 bits), object (64),
//! size in bytes (32), and the number of the request that asks for the object next (64), -1 if none
//! does.
//!
//! The format does not say what a request does: all are reads. Objects of block traces are blocks
//! of 512 bytes. Source: libCacheSim's `oracleGeneralBin.h`.

use super::cloudphysics::{u32_at, u64_at};
use super::{FrameParser, Parsed, TimeOrder, TraceFormat};
use crate::device_names::DeviceNames;
use crate::fields::times;
use crate::input::Framing;
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::BLOCK_BYTES;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "oracle-general",
    columns: "binary: u32 time; u64 object; u32 size; i64 next request for it",
    units: "s; objects are blocks of 512 bytes, sizes in bytes; all are reads",
    source: "libCacheSim, oracleGeneral",
    has_response: false,
    framing: Framing::Bytes(24),
    order: TimeOrder::WholeSeconds,
    parser: || Box::new(Parser { number: 0, time: 0 }),
};

/// More than a request of a block device has.
const LENGTH_MAX: u64 = 8 << 20;

struct Parser {
    /// Number of the request, from zero.
    number: u64,
    /// Time of the one before.
    time: u32,
}

impl FrameParser for Parser {
    fn parse(&mut self, frame: &[u8], devices: &mut DeviceNames) -> Parsed {
        let (time, next) = (u32_at(frame, 0), u64_at(frame, 16));
        let is_last = next >= i64::MAX as u64;
        if time < self.time || !is_last && next <= self.number {
            let message = "a request is before the one that it follows";
            return Err(Diagnostic::new(message).with_help("name the format of the file"));
        }
        (self.number, self.time) = (self.number + 1, time);
        let length = u64::from(u32_at(frame, 12));
        if length == 0 {
            return Ok(None);
        }
        if length > LENGTH_MAX || !length.is_multiple_of(BLOCK_BYTES) {
            let message = format!("the object has {length} bytes: it is none of a block trace");
            return Err(Diagnostic::new(message).with_help("name the format of the file"));
        }
        let offset = times(u64_at(frame, 4), BLOCK_BYTES, "object")?;
        let time = times(u64::from(time), 1_000_000_000, "time")?;
        let device = devices.number(b"disk")?;
        Ok(Some(RawRecord::new(time, TraceOp::Read, (offset, length), device)))
    }
}
