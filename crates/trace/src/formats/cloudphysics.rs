//! CloudPhysics: binary records of the SCSI commands of virtual disks, in two versions.
//!
//! Both are little-endian. Version 1 has 32 bytes: sequence number, length in bytes and number of
//! segments (32 bits each), command and version (16 bits each), block and time (64 bits each).
//! Version 2 has 40 bytes: command and version come first, and the response time last. The upper
//! byte of the version field is the version. Commands that neither read nor write are skipped.
//!
//! Source: the layout is that of libCacheSim's header `vscsi.h`, which CloudPhysics wrote. The
//! units are those with which libCacheSim's script for these traces converts them: lengths are in
//! bytes, blocks have 512, and times are in microseconds. That response times have the unit of the
//! times is an assumption.

use super::{FrameParser, Parsed, TimeOrder, TraceFormat};
use crate::device_names::DeviceNames;
use crate::fields::times;
use crate::input::Framing;
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{BLOCK_BYTES, Nanos};

pub(super) const V1: TraceFormat = TraceFormat {
    name: "cloudphysics-v1",
    columns: "binary: u32 sequence, length, segments; u16 command, version; u64 block, time",
    units: "µs; length in bytes, blocks of 512 bytes",
    source: "CloudPhysics vscsi, version 1",
    has_response: false,
    framing: Framing::Bytes(32),
    order: TimeOrder::Sorted,
    parser: || Box::new(Parser { version: 1 }),
};

pub(super) const V2: TraceFormat = TraceFormat {
    name: "cloudphysics-v2",
    columns: "binary: u16 command, version; u32 sequence, length, segments; u64 block, time, \
              response",
    units: "µs; length in bytes, blocks of 512 bytes",
    source: "CloudPhysics vscsi, version 2",
    has_response: true,
    framing: Framing::Bytes(40),
    order: TimeOrder::Sorted,
    parser: || Box::new(Parser { version: 2 }),
};

/// SCSI commands READ, WRITE, and WRITE AND VERIFY, with 6, 10, 12 and 16 bytes (T10's list of
/// operation codes).
const READS: [u16; 4] = [0x08, 0x28, 0xa8, 0x88];
const WRITES: [u16; 7] = [0x0a, 0x2a, 0xaa, 0x8a, 0x2e, 0xae, 0x8e];

struct Parser {
    version: u16,
}

impl FrameParser for Parser {
    fn parse(&mut self, frame: &[u8], devices: &mut DeviceNames) -> Parsed {
        let [at_command, at_length] = if self.version == 1 { [12, 4] } else { [0, 8] };
        let (command, version) = (u16_at(frame, at_command), u16_at(frame, at_command + 2));
        if version >> 8 != self.version {
            let message =
                format!("the version of the record is {}, not {}", version >> 8, self.version);
            return Err(Diagnostic::new(message).with_help("name the format of the file"));
        }
        let op = match command {
            command if READS.contains(&command) => TraceOp::Read,
            command if WRITES.contains(&command) => TraceOp::Write,
            _ => return Ok(None),
        };
        let offset = times(u64_at(frame, 16), BLOCK_BYTES, "block")?;
        let time = times(u64_at(frame, 24), 1_000, "time")?;
        let response = match frame.get(32..) {
            Some(rest) if !rest.is_empty() => {
                Some(Nanos(times(u64_at(frame, 32), 1_000, "response time")?))
            }
            _ => None,
        };
        let length = u64::from(u32_at(frame, at_length));
        let device = devices.number(b"disk")?;
        let record = RawRecord::new(time, op, (offset, length), device);
        Ok(Some(RawRecord { response, ..record }))
    }
}

fn u16_at(frame: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([frame[at], frame[at + 1]])
}

pub(super) fn u32_at(frame: &[u8], at: usize) -> u32 {
    u32::from(u16_at(frame, at)) | u32::from(u16_at(frame, at + 2)) << 16
}

pub(super) fn u64_at(frame: &[u8], at: usize) -> u64 {
    u64::from(u32_at(frame, at)) | u64::from(u32_at(frame, at + 4)) << 32
}
