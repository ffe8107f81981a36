//! The record that all formats are read into.

use mirrorball_core::units::Nanos;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TraceOp {
    Read,
    Write,
    Trim,
    Flush,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceRecord {
    /// When it arrived, counted from the first request of the trace. Never less than that of the
    /// record before it.
    pub arrival: Nanos,
    pub op: TraceOp,
    /// First byte; zero for a flush.
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u64,
    /// Number of the device, volume or file, from zero, in the order of appearance.
    pub device: u32,
    pub response: Option<Nanos>,
    /// Number of the process that asked; zero if the trace has none.
    pub process: u32,
}

/// A request as a parser returns it: `time` is in nanoseconds on the clock of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RawRecord {
    pub(crate) time: u64,
    pub(crate) op: TraceOp,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) device: u32,
    pub(crate) response: Option<Nanos>,
    pub(crate) process: u32,
    /// True for a write before which the device is flushed: the reader returns two requests.
    pub(crate) has_preflush: bool,
}

impl RawRecord {
    /// A request of a format without response times and processes, at an offset with a length.
    pub(crate) fn new(
        time: u64,
        op: TraceOp,
        (offset, length): (u64, u64),
        device: u32,
    ) -> RawRecord {
        RawRecord {
            time,
            op,
            offset,
            length,
            device,
            response: None,
            process: 0,
            has_preflush: false,
        }
    }
}
